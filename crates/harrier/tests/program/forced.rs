//! Forced second paths, links that are waited for, and changed logins with `harrier route`.

use super::route::{done, refused, until};
use super::{BrokerProcess, PATIENCE, TempFolder};
use client::{Client, ConsumeOptions, Publish, QueueOptions, Table};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use wire::RawProperties;

/// With one shard, so that the messages of two publishers keep the broker's order.
fn named(folder: &TempFolder, name: &str) -> BrokerProcess {
    let state = folder.path(name);
    BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1", "--state", &state, "--cluster-name", name])
}

/// A consumer of its own queue.
fn consumer(at: &str, exchange: &str, key: &str) -> Client {
    let mut client = Client::connect(&format!("amqp://{at}")).expect("connects");
    let channel = client.open_channel().expect("a channel");
    let queue = QueueOptions { exclusive: true, ..QueueOptions::default() };
    let queue = client.declare_queue(channel, "", &queue).expect("a queue").name;
    client.bind_queue(channel, &queue, exchange, key, &Table::new()).expect("bound");
    client.consume(channel, &queue, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() }).expect("consumes");
    client
}

/// The next message, and its redelivered mark.
fn next(client: &mut Client) -> (String, bool) {
    let delivery = client.next_delivery(PATIENCE).expect("a connection").expect("a message");
    let headers = delivery.properties.headers();
    let is_marked = headers.is_some_and(|headers| headers.get("x-harrier-id").is_some());
    (String::from_utf8(delivery.body().to_vec()).expect("text"), is_marked)
}

fn publish(at: &str, exchange: &str, key: &str, bodies: impl IntoIterator<Item = String>) {
    let mut client = Client::connect(&format!("amqp://{at}")).expect("connects");
    let channel = client.open_channel().expect("a channel");
    client.confirm_select(channel).expect("confirms");
    for body in bodies {
        let to = Publish { properties: RawProperties::EMPTY, ..Publish::to(exchange, key) };
        client.publish(channel, &to, body.as_bytes()).expect("published");
    }
    client.wait_confirms(channel, 0).expect("confirmed");
    client.close().expect("closed");
}

/// Messages published at `r` reach `a`, `b` and `d` once each, although two paths lead to `d`.
fn once_each([r, a, b, d]: [&str; 4], exchange: &str, key: &str) {
    const MANY: usize = 300;
    let mut ends = [a, b, d].map(|at| consumer(at, exchange, key));
    // Until the root knows that it must mark messages, and what is bound below.
    let mut is_known = || {
        publish(r, exchange, key, ["try".to_owned()]);
        let [a, b, _] = &mut ends;
        [a, b].into_iter().all(|end| {
            let mut is_marked = false;
            while let Some(delivery) = end.next_delivery(std::time::Duration::from_millis(20)).expect("a connection") {
                let headers = delivery.properties.headers();
                is_marked = headers.is_some_and(|headers| headers.get("x-harrier-id").is_some());
            }
            is_marked
        })
    };
    assert!((0..500).any(|_| is_known()), "{exchange}: nothing is marked at both");
    publish(r, exchange, key, (0..MANY).map(|number| number.to_string()));
    let [at_a, at_b, at_d] = &mut ends;
    for (at, end) in [(a, at_a), (b, at_b)] {
        let mut seen = Vec::new();
        while seen.len() < MANY {
            seen.push(next(end).0);
            seen.retain(|body| body != "try");
        }
        let expected: Vec<_> = (0..MANY).map(|number| number.to_string()).collect();
        assert_eq!(seen, expected, "{exchange} at {at}");
        // After everything that flows on from there.
        publish(at, exchange, key, [format!("end of {at}")]);
    }
    let (mut numbers, mut marks) = (Vec::new(), 0);
    while numbers.len() < MANY || marks < 2 {
        match next(at_d).0 {
            body if body == "try" => {}
            body if body.starts_with("end of ") => marks += 1,
            body => numbers.push(body),
        }
    }
    assert_eq!((numbers.len(), numbers.iter().collect::<BTreeSet<_>>().len()), (MANY, MANY), "{exchange}");
}

#[test]
fn two_ways_of_any_routes_bring_each_message_once() {
    let folder = TempFolder::new("forced-ways");
    let brokers = ["r", "a", "b", "d"].map(|name| named(&folder, name));
    let [r, a, b, d] = [0, 1, 2, 3].map(|at| &*brokers[at].address);
    let add = |words: &[&str]| done(&[words, &["--wait", "30"]].concat());
    // All routes are static and pulled: the last is forced.
    let (topic, key) = ("amq.topic", "eu.*");
    for (dest, src) in [(a, r), (b, r), (d, a)] {
        add(&["route", "add", dest, src, topic, key]);
    }
    // Keys that cannot match the same message make no second path; others do.
    add(&["route", "add", d, b, topic, "us.#"]);
    for may_meet in ["eu.x", "eu.#"] {
        let why = refused(&["route", "add", d, b, topic, may_meet]);
        assert!(why.contains("a second path from r to d: r -> b -> d, beside r -> a -> d (--force"), "{why}");
    }
    let why = refused(&["route", "add", d, b, topic, "*.x"]);
    assert!(why.contains("a second path from b to d: b -> d, beside another route (--force"), "{why}");
    add(&["--force", "route", "add", d, b, topic, key]);
    once_each([r, a, b, d], topic, "eu.x");
    // All routes are static and pushed. A broker that pushes cannot be asked to mark messages: it must be told.
    let direct = "amq.direct";
    for (dest, src) in [(a, r), (b, r), (d, a)] {
        add(&["-s", "route", "add", dest, src, direct, "k"]);
    }
    add(&["-s", "route", "add", d, b, direct, "other"]);
    assert!(refused(&["-s", "route", "add", d, b, direct, "k"]).contains("r -> b -> d, beside r -> a -> d (--force"));
    let why = refused(&["-s", "--force", "route", "add", d, b, direct, "k"]);
    assert!(why.contains("the route from r to b is pushed, and must be forced, too"), "{why}");
    done(&["-s", "route", "del", b, r, direct, "k"]);
    add(&["-s", "--force", "route", "add", b, r, direct, "k"]);
    add(&["-s", "--force", "route", "add", d, b, direct, "k"]);
    once_each([r, a, b, d], direct, "k");
    // One of each.
    let fanout = "amq.fanout";
    add(&["dynamic", "add", a, r, fanout]);
    add(&["route", "add", b, r, fanout, "x"]);
    add(&["-s", "route", "add", d, a, fanout, "y"]);
    assert!(refused(&["dynamic", "add", d, b, fanout]).contains("r -> b -> d, beside r -> a -> d"));
    add(&["--force", "dynamic", "add", d, b, fanout]);
    once_each([r, a, b, d], fanout, "");
    // The same, declared.
    let file = folder.path("ways.toml");
    let places: String = [("r", r), ("a", a), ("b", b), ("d", d)]
        .map(|(name, at)| format!("[broker.{name}]\nurl = \"{at}\"\n"))
        .concat();
    let route = |dest: &str, src: &str, more: &str| {
        format!("[[route]]\ndest = \"{dest}\"\nsrc = \"{src}\"\nexchange = \"amq.topic\"\n{more}\n")
    };
    let declared = |last: &str| {
        let key = "key = \"eu.*\"";
        let all = [route("a", "r", key), route("b", "r", key), route("d", "a", key), route("d", "b", last)];
        std::fs::write(&file, format!("{places}{}", all.concat())).expect("written");
    };
    declared("key = \"eu.x\"");
    let why = refused(&["apply", &file]);
    assert!(why.contains("route 4: ") && why.contains("r -> b -> d, beside r -> a -> d (forced = true"), "{why}");
    declared("key = \"us.x\"");
    done(&["--dry-run", "apply", &file]);
    declared("key = \"eu.x\"\nforced = true");
    done(&["--dry-run", "apply", &file]);
}

#[test]
fn who_waits_is_told_that_it_runs_or_why_not() {
    let folder = TempFolder::new("forced-wait");
    let (leaf, root) = (named(&folder, "leaf"), named(&folder, "root"));
    let (dest, src) = (&*leaf.address, &*root.address);
    let why = refused(&["--wait", "30", "link", "add", dest, src]);
    assert!(why.ends_with("is idle: it has no routes, and connects with the first"), "{why}");
    done(&["--wait", "30", "dynamic", "add", dest, src, "amq.topic"]);
    done(&["--wait", "30", "link", "add", dest, src]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let why = refused(&["-q", "--wait", "1", "dynamic", "add", dest, &nobody.to_string(), "amq.topic"]);
    assert!(why.contains("Connection refused") && why.ends_with("; gave up after 1 s"), "{why}");
    // A refused login for an existing link: it is accepted, and tried at once.
    let why = refused(&["--force", "--wait", "5", "link", "add", dest, &format!("guest/wrong@{src}")]);
    assert!(why.contains("is refused: ") && why.contains("ACCESS_REFUSED"), "{why}");
    done(&["--wait", "30", "link", "add", dest, src]);
    done(&["-q", "--wait", "30", "--dry-run", "dynamic", "add", dest, src, "amq.fanout"]);
}

#[test]
fn a_declared_login_is_made_so() {
    let folder = TempFolder::new("forced-login");
    let (leaf, root) = (named(&folder, "leaf"), named(&folder, "root"));
    let (dest, src) = (&*leaf.address, &*root.address);
    let file = folder.path("tree.toml");
    let declared = |login: &str| {
        let brokers =
            format!("[broker.root]\nurl = \"{src}\"\ndial = \"{login}{src}\"\n[broker.leaf]\nurl = \"{dest}\"\n");
        let route = "[[route]]\ndest = \"leaf\"\nsrc = \"root\"\nexchange = \"amq.topic\"\ndurable = true\n";
        std::fs::write(&file, format!("{brokers}{route}")).expect("written");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("its owner may");
    };
    done(&["-d", "dynamic", "add", dest, src, "amq.topic", "--wait", "30"]);
    // The same, written differently.
    for same in ["", "guest/guest@", "amqp://guest:guest@"] {
        declared(same);
        assert_eq!(done(&["apply", &file]), "nothing is different\n", "{same}");
    }
    let changed = "~ leaf: login of the link to root\n";
    declared("guest/wrong@");
    assert_eq!(done(&["--dry-run", "apply", &file]), changed);
    assert_eq!(done(&["apply", &file]), changed);
    until(&["--json", "link", "list", dest], |found| found["links"][0]["state"] == "refused");
    let kept = || std::fs::read_to_string(folder.path("leaf/federation.toml")).expect("a file");
    assert!(kept().contains("wrong"), "{}", kept());
    assert_eq!(done(&["apply", &file]), "nothing is different\n");
    declared("guest/guest@");
    assert_eq!(done(&["apply", &file]), changed);
    // The refused login would have waited for at least a quarter of a minute.
    until(&["--json", "link", "list", dest], |found| found["links"][0]["state"] == "running");
    assert!(!kept().contains("wrong"), "{}", kept());
    assert_eq!(done(&["apply", &file]), "nothing is different\n");
}
