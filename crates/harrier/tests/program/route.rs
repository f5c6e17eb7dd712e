//! `harrier route`: what it does, prints and refuses, and what the broker stores.

use super::{BrokerProcess, PATIENCE, TempFolder, harrier, output};
use crate::certificates::Authority;
use client::{Client, ConsumeOptions, ExchangeOptions, Publish, QueueOptions, Table, Value};
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

/// Runs the command; its status, standard output and standard error.
fn route(words: &[&str]) -> (Option<i32>, String, String) {
    let output = harrier().arg("route").args(words).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A successful command with an empty standard error; its output.
pub fn done(words: &[&str]) -> String {
    let (status, stdout, stderr) = route(words);
    assert_eq!((status, &*stderr), (Some(0), ""), "{words:?}: {stdout}");
    stdout
}

/// A refused command with an empty standard output; the reason.
pub fn refused(words: &[&str]) -> String {
    let (status, stdout, stderr) = route(words);
    assert_eq!((status, &*stdout), (Some(1), ""), "{words:?}: {stderr}");
    let why = stderr.lines().last().unwrap_or_default().to_owned();
    assert!(why.starts_with("Failed: "), "{words:?}: {stderr}");
    why
}

/// A broker with a name and a state folder.
fn named(folder: &TempFolder, name: &str) -> BrokerProcess {
    let state = folder.path(name);
    BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--state", &state, "--cluster-name", name])
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn cluster_name(broker: &BrokerProcess) -> String {
    let client = Client::connect(&format!("amqp://{}", broker.address)).expect("connects");
    match client.server_properties().get("cluster_name") {
        Some(Value::LongStr(name)) => String::from_utf8_lossy(name).into_owned(),
        other => panic!("a name, not {other:?}"),
    }
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn routes_are_added_listed_and_removed_in_the_words_of_qpid_route() {
    let folder = TempFolder::new("route-words");
    let (leaf, root) = (named(&folder, "leaf"), named(&folder, "root"));
    let (dest, src) = (&*leaf.address, &*root.address);
    assert_eq!(done(&["link", "list", dest]), "No links found\n");
    assert_eq!(done(&["route", "list", dest]), "");
    assert_eq!(done(&["dynamic", "add", dest, src, "amq.topic"]), "");
    let fed = format!("guest/guest@{src}");
    let told = done(&["-v", "route", "add", dest, &fed, "amq.direct", "k", "--credit", "7"]);
    assert_eq!(told, format!("the link from {dest} to {src} with route amq.direct(k) is added\n"));
    done(&["queue", "add", dest, src, "amq.fanout", "q", "--ack", "none"]);
    done(&["-s", "route", "add", src, dest, "amq.direct", "up"]);
    let lines = done(&["route", "list", dest]);
    let lines: Vec<Vec<_>> = lines.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines,
        [
            vec![dest, src, "amq.topic", "<dynamic>"],
            vec![dest, src, "amq.direct", "k"],
            vec![dest, src, "amq.fanout", "<queue", "q>"],
            vec![src, dest, "amq.direct", "up"],
        ]
    );
    let links = done(&["link", "list", dest]);
    let (host, port) = src.rsplit_once(':').expect("a port");
    let line: Vec<_> = links.lines().nth(2).unwrap_or_default().split_whitespace().collect();
    assert_eq!(line[..4], [host, port, "tcp", "N"], "{links}");
    assert_eq!(links.lines().count(), 3, "one link has all of them: {links}");
    let found = json(&done(&["--json", "link", "list", dest]));
    assert_eq!((&found["cluster_name"], &found["is_kept"]), (&"leaf".into(), &true.into()));
    let of_key = &found["links"][0]["routes"][1];
    assert_eq!((&of_key["credit"], &of_key["ack"], &of_key["kind"]), (&7.into(), &"confirm".into(), &"static".into()));
    assert!(of_key["messages_per_s"].is_number() || of_key["messages_per_s"].is_null(), "{of_key}");
    assert!(done(&["-v", "route", "list", dest]).contains("Messages/s"));
    // Again, and for something that does not exist.
    let why = refused(&["dynamic", "add", dest, src, "amq.topic"]);
    assert!(why.contains("duplicate route: the link to") && why.contains("has amq.topic(<dynamic>) already"), "{why}");
    assert_eq!(done(&["-q", "dynamic", "add", dest, src, "amq.topic"]), "");
    assert!(refused(&["route", "del", dest, src, "amq.direct", "other"]).contains("has no route amq.direct(other)"));
    assert!(refused(&["link", "del", src, dest]).contains("there is no link to"));
    assert_eq!(done(&["-q", "queue", "del", src, dest, "amq.fanout", "q"]), "");
    // The link stays until it is removed with its last route.
    done(&["route", "del", dest, src, "amq.direct", "k"]);
    done(&["-e", "queue", "del", dest, src, "amq.fanout", "q"]);
    done(&["-s", "route", "del", src, dest, "amq.direct", "up"]);
    assert_eq!(done(&["route", "list", dest]).lines().count(), 1);
    done(&["dynamic", "del", dest, src, "amq.topic", "--dry-run"]);
    assert_eq!(done(&["route", "list", dest]).lines().count(), 1, "nothing was done");
    done(&["-e", "dynamic", "del", dest, src, "amq.topic"]);
    assert_eq!(done(&["link", "list", dest]), "No links found\n");
    done(&["-d", "link", "add", dest, &fed]);
    assert!(done(&["link", "list", dest]).lines().nth(2).is_some_and(|line| line.ends_with(" idle   operator")));
    // An existing link keeps its login, whatever login a further route is added with.
    done(&["-d", "dynamic", "add", dest, &format!("guest/wrong@{src}"), "amq.fanout", "--force"]);
    let kept = std::fs::read_to_string(folder.path("leaf/federation.toml")).expect("a file");
    assert!(kept.contains("amq.fanout") && !kept.contains("wrong"), "{kept}");
    done(&["dynamic", "add", dest, src, "amq.topic"]);
    done(&["route", "flush", dest]);
    assert_eq!(done(&["route", "list", dest]), "");
    done(&["link", "del", dest, src]);
    assert_eq!(done(&["link", "list", dest]), "No links found\n");
    // A dry run changes nothing.
    let tried = done(&["--dry-run", "dynamic", "add", dest, src, "amq.topic"]);
    assert_eq!(tried, format!("the link from {dest} to {src} with route amq.topic(<dynamic>) would be added\n"));
    assert_eq!(done(&["link", "list", dest]), "No links found\n");
    // Arguments of qpid-route without effect here.
    let (status, _, stderr) = route(&["route", "add", dest, src, "amq.topic", "a.#", "tag", "x,y"]);
    assert_eq!(status, Some(0));
    assert!(stderr.contains("tag and exclude-list are not needed"), "{stderr}");
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let folder = TempFolder::new("route-errors");
    let (leaf, root) = (named(&folder, "leaf"), named(&folder, "root"));
    let (dest, src) = (&*leaf.address, &*root.address);
    let free = nobody();
    let web = TcpListener::bind("127.0.0.1:0").expect("a port");
    let no_broker = web.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        web.incoming().flatten().for_each(|mut stream| {
            use std::io::Write;
            let _asked = stream.read(&mut [0; 64]);
            let _answered = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        });
    });
    let wrong = |place: &str| format!("guest/wrong@{place}");
    let (wrong_dest, wrong_src) = (wrong(dest), wrong(src));
    let elsewhere = format!("amqp://{dest}/nowhere");
    let port = dest.rsplit_once(':').expect("a port").1;
    let other_name = format!("localhost:{port}");
    for (words, expect) in [
        (vec!["dynamic", "add", &free, src, "amq.topic"], "no broker answers at"),
        (vec!["dynamic", "add", &no_broker, src, "amq.topic"], "is not an AMQP broker"),
        (vec!["dynamic", "add", dest, &no_broker, "amq.topic"], "is not an AMQP broker"),
        (vec!["dynamic", "add", &wrong_dest, src, "amq.topic"], "refuses the connection: 403 ACCESS_REFUSED"),
        (vec!["dynamic", "add", dest, &wrong_src, "amq.topic"], "refuses the connection: 403 ACCESS_REFUSED"),
        (vec!["route", "list", &elsewhere], "530 NOT_ALLOWED - vhost nowhere not found"),
        (vec!["dynamic", "add", dest, src, "none"], "there is no exchange 'none' in virtual host '/' (not-found)"),
        (
            vec!["-s", "queue", "add", dest, src, "x", "none"],
            "there is no queue 'none' in virtual host '/' (not-found)",
        ),
        (vec!["dynamic", "add", dest, src, ""], "the default exchange has no bindings of its own"),
        (vec!["-s", "dynamic", "add", dest, src, "amq.topic"], "--src-local is not permitted on dynamic routes"),
        (vec!["dynamic", "add", dest, dest, "amq.topic"], "are one broker, leaf: it cannot have a route to itself"),
        (
            vec!["dynamic", "add", dest, &other_name, "amq.topic"],
            "are one broker, leaf: it cannot have a route to itself",
        ),
        (
            vec!["--force", "dynamic", "add", dest, dest, "amq.topic"],
            "is this broker: it cannot be linked to itself (to-itself)",
        ),
        (vec!["link", "del", dest, src], "there is no link to amqp://"),
    ] {
        let why = refused(&words);
        assert!(why.contains(expect) && !why.contains("wrong"), "{words:?}: {why}");
    }
    assert_eq!(done(&["link", "list", dest]), "No links found\n", "nothing was left of them");
    // Nobody listens yet: the link will retry.
    let (status, _, stderr) = route(&["dynamic", "add", dest, &free, "amq.topic"]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("no broker answers at") && stderr.contains("are not checked"), "{stderr}");
    for (words, expect) in [
        (&["route"][..], "route needs a command"),
        (&["route", "dynamic", "add", "a"], "'dynamic add' has wrong arguments"),
        (&["route", "--credit", "many", "link", "list"], "--credit is a number from 0 (unlimited) to 65535"),
        (&["route", "link", "list", "h:port"], "the address: 'port' is no port"),
    ] {
        let output = output(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(expect), "{words:?}");
    }
    let help = String::from_utf8_lossy(&output(&["route", "--help"]).stdout).into_owned();
    assert!(help.contains("Examples:") && help.contains("dynamic add"), "{help}");
}

#[test]
fn a_broker_keeps_its_name_and_what_is_durable() {
    let folder = TempFolder::new("route-kept");
    let state = folder.path("state");
    let start = || BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--state", &state]);
    let first = start();
    let name = cluster_name(&first);
    assert!(name.starts_with("harrier@"), "{name}");
    let second = harrier().args(["broker", "--listen", "127.0.0.1:0", "--state", &state]).output().expect("it ends");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(told.contains("--state: ") && told.contains("uses this folder; each broker needs its own"), "{told}");
    let free = nobody();
    let far = format!("fed/s3cret@{free}");
    let dest = first.address.clone();
    for words in [
        &["-q", "-d", "dynamic", "add", &dest, &far, "amq.topic"][..],
        &["-q", "-d", "route", "add", &dest, &far, "amq.direct", "a\"b", "--ack", "none", "--credit", "0"],
        &["-q", "route", "add", &dest, &far, "amq.direct", "not kept"],
    ] {
        done(words);
    }
    let told = done(&["--json", "link", "list", &dest]);
    assert!(!told.contains("s3cret"), "{told}");
    let file = folder.path("state/federation.toml");
    let kept = std::fs::read_to_string(&file).expect("a file");
    assert!(kept.contains("s3cret") && !kept.contains("not kept"), "{kept}");
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    // Without a clean end.
    first.signal(rustix::process::Signal::KILL);
    assert_eq!(first.end().0, None);
    let again = start();
    assert_eq!(cluster_name(&again), name);
    let lines = done(&["route", "list", &again.address]);
    let lines: Vec<_> =
        lines.lines().map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, [format!("{free} amq.topic <dynamic>"), format!("{free} amq.direct a\"b")]);
    let found = json(&done(&["--json", "route", "list", &again.address]));
    let of_key = &found["links"][0]["routes"][1];
    assert_eq!((&of_key["ack"], &of_key["credit"], &of_key["durable"]), (&"none".into(), &0.into(), &true.into()));
    done(&["link", "del", &again.address, &far]);
    drop(again);
    assert_eq!(done(&["link", "list", &start().address]), "No links found\n");
    // A plan file that is invalid, or that something else than the broker has changed, stops the broker before it listens.
    let changed = kept.replace("amq.topic", "amq.tepic");
    for (text, why) in [("link = 7\n", "link: tables are needed"), (&*changed, "it is not what the broker has written")]
    {
        std::fs::write(&file, text).expect("written");
        let broken =
            harrier().args(["broker", "--listen", "127.0.0.1:0", "--state", &state]).output().expect("it ends");
        let told = String::from_utf8_lossy(&broken.stderr).into_owned();
        assert!(broken.status.code() == Some(1) && told.contains(&format!("federation.toml: {why}")), "{told}");
    }
    // Whoever edits it removes the checksum.
    let (edited, _) = changed.rsplit_once("# crc32c").expect("a checksum");
    std::fs::write(&file, edited).expect("written");
    assert!(done(&["route", "list", &start().address]).contains("amq.tepic"), "{edited}");
}

#[test]
fn without_a_state_folder_nothing_is_promised() {
    let (dest, src) =
        (BrokerProcess::start(&["--listen", "127.0.0.1:0"]), BrokerProcess::start(&["--listen", "127.0.0.1:0"]));
    assert_ne!(cluster_name(&dest), cluster_name(&src));
    let (status, _, stderr) = route(&["dynamic", "add", &dest.address, &src.address, "amq.topic"]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("the broker has no state folder (--state DIR)"), "{stderr}");
    let why = refused(&["-d", "link", "add", &dest.address, &src.address]);
    assert!(why.contains("durable links and routes need a state folder") && why.contains("(no-state)"), "{why}");
}

#[test]
fn a_second_path_is_refused_unless_it_is_forced() {
    let folder = TempFolder::new("route-paths");
    let [a, b, c] = ["a", "b", "c"].map(|name| named(&folder, name));
    let [a, b, c] = [&a, &b, &c].map(|broker| &*broker.address);
    done(&["dynamic", "add", b, a, "amq.topic"]);
    done(&["dynamic", "add", a, b, "amq.topic"]);
    done(&["dynamic", "add", c, b, "amq.topic"]);
    let why = refused(&["dynamic", "add", c, a, "amq.topic"]);
    assert!(why.contains("a second path from a to c: a -> c, beside a -> b -> c (--force adds it"), "{why}");
    let why = refused(&["route", "add", c, a, "amq.topic", "some.key"]);
    assert!(why.contains("a second path from a to c"), "{why}");
    done(&["dynamic", "add", c, a, "amq.fanout", "--ack", "none"]);
    done(&["--force", "dynamic", "add", c, a, "amq.topic"]);
    let found = json(&done(&["--json", "route", "list", c]));
    let routes =
        found["links"].as_array().expect("links").iter().flat_map(|link| link["routes"].as_array().expect("routes"));
    let forced: Vec<_> = routes.map(|route| route["forced"].as_bool().expect("a flag")).collect();
    assert_eq!(forced, [false, false, true]);
    // The map contains all of it.
    let map = done(&["route", "map", c]);
    for line in [
        format!("    {c} (c)... Ok\n"),
        format!("    {a} (a)... Ok\n"),
        "\nDynamic routes:\n".to_owned(),
        format!("  Exchange amq.fanout:\n    {a}  => {c}\n"),
        format!("    {a} <=> {b}\n"),
        "\nStatic routes:\n  none found\n".to_owned(),
    ] {
        assert!(
            map.contains(&line) || map.contains(&line.replace(&format!("{a} <=> {b}"), &format!("{b} <=> {a}"))),
            "{line} in {map}"
        );
    }
    let dot = done(&["route", "map", "--dot", c]);
    assert!(dot.starts_with("digraph federation {") && dot.matches(" -> ").count() == 5, "{dot}");
    let map = json(&done(&["--json", "route", "map", b]));
    let asked = map["brokers"].as_array().expect("brokers").iter().filter(|broker| broker["was_asked"] == true);
    assert_eq!(asked.count(), 2, "b knows where a is, and of c the name at most: {map}");
    // A broker that is pulled from knows the puller; if the queue has no name of its own, once there are bindings.
    let mut client = Client::connect(&format!("amqp://{c}")).expect("connects");
    let channel = client.open_channel().expect("a channel");
    let queue = QueueOptions { exclusive: true, ..QueueOptions::default() };
    client.declare_queue(channel, "wants", &queue).expect("declared");
    client.bind_queue(channel, "wants", "amq.fanout", "", &Table::new()).expect("bound");
    for exchange in ["amq.topic", "amq.fanout"] {
        until(&["--json", "route", "list", a], |found| {
            let downstreams = found["downstreams"].as_array().expect("a list");
            downstreams.iter().any(|one| one["cluster_name"] == "c" && one["exchange"] == exchange)
        });
    }
}

#[test]
fn a_declared_topology_is_made_so() {
    let folder = TempFolder::new("route-apply");
    let brokers = ["root", "left", "right"].map(|name| named(&folder, name));
    let [root, left, right] = [0, 1, 2].map(|at| &*brokers[at].address);
    let file = folder.path("tree.toml");
    let brokers = format!(
        "[broker.root]\nurl = \"{root}\"\n[broker.left]\nurl = \"amqp://{left}\"\n[broker.right]\nurl = \"guest/guest@{right}\"\n"
    );
    let route = |dest: &str, src: &str, more: &str| {
        format!("[[route]]\ndest = \"{dest}\"\nsrc = \"{src}\"\nexchange = \"amq.topic\"\n{more}\n")
    };
    let text = format!("{brokers}{}{}", route("left", "root", "durable = true"), route("right", "root", ""));
    std::fs::write(&file, &text).expect("written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("its owner may");
    // What exists and is not declared is removed.
    done(&["dynamic", "add", root, left, "amq.fanout"]);
    let expect = "\
- root: link to left
+ left: link to root
+ left: route amq.topic(<dynamic>) from root
+ right: link to root
+ right: route amq.topic(<dynamic>) from root
";
    assert_eq!(done(&["--dry-run", "apply", &file]), expect);
    assert_eq!(done(&["link", "list", left]), "No links found\n");
    assert_eq!(done(&["apply", &file]), expect);
    assert_eq!(done(&["apply", &file]), "nothing is different\n");
    assert_eq!(done(&["link", "list", root]), "No links found\n");
    assert_eq!(done(&["route", "list", right]).lines().count(), 1);
    // The same in JSON, with another credit.
    let other = folder.path("tree.json");
    let said = serde_json::json!({
        "broker": {"root": {"url": root}, "left": {"url": left}, "right": {"url": right}},
        "route": [
            {"dest": "left", "src": "root", "exchange": "amq.topic", "durable": true, "credit": 5},
            {"dest": "right", "src": "root", "exchange": "amq.topic"},
        ],
    });
    std::fs::write(&other, said.to_string()).expect("written");
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o600)).expect("its owner may");
    let expect = "- left: route amq.topic(<dynamic>) from root\n+ left: route amq.topic(<dynamic>) from root\n";
    assert_eq!(done(&["apply", &other]), expect);
    assert_eq!(done(&["--json", "apply", &other]), "[]\n");
    // An invalid file changes nothing, and neither does an unreachable broker.
    std::fs::write(&file, format!("{text}{}", route("left", "right", ""))).expect("written");
    assert!(
        refused(&["apply", &file])
            .contains("a second path from root to left: root -> right -> left, beside root -> left")
    );
    std::fs::write(&file, format!("{text}[broker.gone]\nurl = \"{}\"\n", nobody())).expect("written");
    assert!(refused(&["apply", &file]).contains("no broker answers at"));
    let port = left.rsplit_once(':').expect("a port").1;
    std::fs::write(&file, format!("{text}[broker.twin]\nurl = \"localhost:{port}\"\n")).expect("written");
    assert!(refused(&["apply", &file]).contains("twin and left are the same broker"));
    assert_eq!(done(&["apply", &other]), "nothing is different\n");
    assert!(refused(&["apply", &folder.path("none.toml")]).contains("none.toml: cannot be read: "));
}

#[test]
fn routes_belong_to_virtual_hosts_and_are_asked_for_by_administrators() {
    let folder = TempFolder::new("route-vhosts");
    let config = folder.path("harrier.toml");
    let user = |name: &str, tags: &str| {
        let may = |vhost| {
            let all = "configure = \".*\"\nwrite = \".*\"\nread = \".*\"\n";
            format!("[[permission]]\nuser = \"{name}\"\nvhost = \"{vhost}\"\n{all}")
        };
        let login = format!("[[user]]\nname = \"{name}\"\npassword = \"p@ss/word\"\ntags = [{tags}]\n");
        format!("{login}{}{}", may("shop"), may("other"))
    };
    let vhosts = "[[vhost]]\nname = \"shop\"\n[[vhost]]\nname = \"other\"\n";
    let text = format!("{vhosts}{}{}", user("root", "\"administrator\""), user("clerk", ""));
    std::fs::write(&config, text).expect("written");
    let unix = folder.path("h.sock");
    let broker =
        BrokerProcess::start(&["--listen", "127.0.0.1:0", "--listen", &format!("unix:{unix}"), "--config", &config]);
    let at = |user: &str, vhost: &str| format!("amqp://{user}:p%40ss%2Fword@{}/{vhost}", broker.address);
    let (shop, other, clerk) = (at("root", "shop"), at("clerk", "other"), at("clerk", "shop"));
    assert!(refused(&["link", "list", &format!("root/p@ss/word@{}", broker.address)]).contains("vhost / not found"));
    assert!(refused(&["link", "list", &clerk]).contains("403 ACCESS_REFUSED - user 'clerk' is no administrator"));
    // Between two virtual hosts of one broker, a route is not one to itself; the opposite route is no second path.
    // Nor need the user there be an administrator.
    done(&["-q", "dynamic", "add", &shop, &other, "amq.topic"]);
    done(&["-q", "dynamic", "add", &at("root", "other"), &shop, "amq.topic"]);
    assert!(refused(&["dynamic", "add", &shop, &clerk, "amq.topic"]).contains("it cannot have a route to itself"));
    let sock = format!("amqp+unix://root:p%40ss%2Fword@{unix}?vhost=shop");
    assert!(refused(&["dynamic", "add", &shop, &sock, "amq.topic"]).contains("it cannot have a route to itself"));
    let listed = format!("amqp://{}/shop  amqp://{}/other  amq.topic  <dynamic>\n", broker.address, broker.address);
    assert_eq!(done(&["route", "list", &shop]), listed);
    // The same over the socket.
    let found = json(&done(&["--json", "route", "list", &sock]));
    let link = &found["links"][0];
    assert_eq!((&link["vhost"], &link["user"]), (&"shop".into(), &"root".into()));
    assert_eq!(found["links"].as_array().map(Vec::len), Some(1), "of its own virtual host alone");
    done(&["route", "flush", "-e", &sock]);
    assert_eq!(done(&["link", "list", &shop]), "No links found\n");
}

#[test]
fn who_pulls_without_an_address_counts_for_second_paths() {
    let folder = TempFolder::new("route-heard");
    let (near, far) = (named(&folder, "near"), named(&folder, "far"));
    let mut clients = Vec::new();
    for broker in [&near, &far] {
        let mut client = Client::connect(&format!("amqp://{}", broker.address)).expect("connects");
        let channel = client.open_channel().expect("a channel");
        let text = |text: &str| Value::LongStr(text.as_bytes().into());
        let arguments = Table::new().with("x-max-hops", Value::I64(2)).expect("short");
        let arguments = arguments.with("x-downstream-name", text("afar")).expect("short");
        let arguments = arguments.with("x-downstream-vhost", text("/")).expect("short");
        let options = ExchangeOptions { internal: true, arguments, ..ExchangeOptions::default() };
        let name = "federation: amq.topic -> afar A";
        client.declare_exchange(channel, name, "x-federation-upstream", &options).expect("declared");
        clients.push(client);
    }
    let why = refused(&["dynamic", "add", &near.address, &far.address, "amq.topic"]);
    assert!(why.contains("a second path from far to afar: far -> near -> afar, beside far -> afar"), "{why}");
    done(&["dynamic", "add", &near.address, &far.address, "amq.direct"]);
    let map = done(&["route", "map", &near.address]);
    assert!(map.contains("    afar... pulls; its address is not known\n"), "{map}");
    assert!(map.contains(&format!("    {}  => afar\n", far.address)), "{map}");
}

/// Repeats until the links of a broker are as expected.
#[expect(clippy::disallowed_methods, reason = "who waits in vain must end")]
pub fn until(words: &[&str], is_so: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let begun = Instant::now();
    loop {
        let found = json(&done(words));
        if is_so(&found) {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{found}");
    }
}

#[test]
fn a_link_says_how_it_stands_and_why() {
    let folder = TempFolder::new("route-states");
    let (leaf, root) = (named(&folder, "leaf"), named(&folder, "root"));
    let (dest, src, free) = (&*leaf.address, &*root.address, nobody());
    let listed = ["--json", "link", "list", dest];
    let link = |found: &serde_json::Value, at: usize| found["links"][at].clone();
    done(&["dynamic", "add", dest, src, "amq.topic"]);
    let found = link(&until(&listed, |found| found["links"][0]["routes"][0]["runs"] == true), 0);
    assert_eq!((&found["state"], &found["cluster_name"]), (&"running".into(), &"root".into()), "{found}");
    assert_eq!((&found["transport"], &found["connections"]), (&"tcp".into(), &1.into()), "{found}");
    done(&["-q", "dynamic", "add", dest, &free, "amq.topic"]);
    let found = link(&until(&listed, |found| found["links"][1]["state"] == "backing off"), 1);
    assert!(found["last_error"].as_str().is_some_and(|why| why.contains("refused")), "{found}");
    // Another login: the link reconnects, and is refused.
    let wrong = format!("guest/wrong@{src}");
    done(&["--force", "link", "add", dest, &wrong]);
    let found = link(&until(&listed, |found| found["links"][0]["state"] == "refused"), 0);
    assert!(found["why"].as_str().is_some_and(|why| why.contains("ACCESS_REFUSED")), "{found}");
    assert!(found["next_in_s"].as_f64().is_some_and(|wait| wait > 1.0), "{found}");
    let map = done(&["route", "map", "--dot", dest]);
    assert!(map.contains("style=dashed"), "{map}");
    done(&["link", "add", dest, src]);
    until(&listed, |found| found["links"][0]["state"] == "running");
    // A missing queue is the route's own error.
    done(&["queue", "add", dest, src, "amq.fanout", "none"]);
    let found = until(&listed, |found| found["links"][0]["routes"][1]["error"].is_string());
    assert_eq!(found["links"][0]["routes"][0]["runs"], true, "{found}");
}

/// Publishes until a message is routed.
#[expect(clippy::disallowed_methods, reason = "who waits in vain must end")]
fn publish_until_it_goes(at: &str, exchange: &str, key: &str) {
    let mut client = Client::connect(&format!("amqp://{at}")).expect("connects");
    let channel = client.open_channel().expect("a channel");
    client.confirm_select(channel).expect("confirms");
    let begun = Instant::now();
    loop {
        let to = Publish { mandatory: true, ..Publish::to(exchange, key) };
        client.publish(channel, &to, b"hello").expect("written");
        client.wait_confirms(channel, 0).expect("confirmed");
        if client.take_returned().is_none() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{key} is not wanted");
    }
}

#[test]
fn a_durable_route_carries_again_when_its_broker_starts_again() {
    let folder = TempFolder::new("route-carries");
    let (leaf, root) = (named(&folder, "leaf"), named(&folder, "root"));
    done(&["-d", "dynamic", "add", &leaf.address, &root.address, "amq.topic"]);
    let heard = |leaf: &BrokerProcess, key: &str| {
        let mut client = Client::connect(&format!("amqp://{}", leaf.address)).expect("connects");
        let channel = client.open_channel().expect("a channel");
        let queue = QueueOptions { exclusive: true, ..QueueOptions::default() };
        client.declare_queue(channel, key, &queue).expect("declared");
        client.bind_queue(channel, key, "amq.topic", key, &Table::new()).expect("bound");
        let options = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
        client.consume(channel, key, &options).expect("consumes");
        publish_until_it_goes(&root.address, "amq.topic", key);
        let delivery = client.next_delivery(PATIENCE).expect("the connection goes on").expect("a message");
        assert_eq!(delivery.body(), b"hello");
    };
    heard(&leaf, "first");
    let found =
        until(&["--json", "route", "list", &leaf.address], |found| found["links"][0]["routes"][0]["messages"] == 1);
    assert_eq!(found["links"][0]["routes"][0]["bytes"], 5, "{found}");
    leaf.signal(rustix::process::Signal::KILL);
    leaf.end();
    heard(&named(&folder, "leaf"), "second");
}

#[test]
fn links_go_over_sockets_and_tls() {
    let authority = Authority::new("route-transports");
    let server = authority.issue("server", &["127.0.0.1"]);
    let [certificate, key, ca] = [&server.certificate, &server.key, &authority.ca].map(|file| file.to_string_lossy());
    let unix = authority.folder.join("root.sock").to_string_lossy().into_owned();
    let listen = ["--listen", "tls://127.0.0.1:0", "--listen", &format!("unix:{unix}"), "--cluster-name", "root"];
    let root = BrokerProcess::start(&[&listen[..], &["--tls-certificates", &certificate, "--tls-keys", &key]].concat());
    let leaf = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--cluster-name", "leaf"]);
    let dest = &*leaf.address;
    let place = root.address.strip_prefix("tls://").expect("the first address has TLS");
    let over_tls = format!("amqps://{place}?cacertfile={ca}");
    done(&["-q", "dynamic", "add", dest, &over_tls, "amq.topic"]);
    done(&["-q", "dynamic", "add", dest, &unix, "amq.fanout"]);
    let found = until(&["--json", "link", "list", dest], |found| {
        found["links"].as_array().expect("links").iter().all(|link| link["state"] == "running")
    });
    let transports: Vec<_> = found["links"].as_array().expect("links").iter().map(|link| &link["transport"]).collect();
    assert_eq!(transports, ["tls", "unix"]);
    // Both addresses lead to one broker, and trust for one is trust for the other.
    let map = done(&["route", "map", dest]);
    assert_eq!(map.matches(" (root)").count(), 1, "{map}");
    // The broker may trust a certificate that this host does not: that causes a remark.
    let (status, _, stderr) = route(&["dynamic", "add", dest, &format!("amqps://{place}"), "amq.direct", "--dry-run"]);
    assert!(status == Some(0) && stderr.contains("certificate") && stderr.contains("are not checked"), "{stderr}");
}
