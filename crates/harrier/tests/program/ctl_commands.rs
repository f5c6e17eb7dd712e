//! `harrier ctl`: every command against a running broker, its forms of output, its statuses, and who is refused.

use super::{BrokerProcess, PATIENCE, TempFolder, harrier, output, wait_until};
use client::{Client, ConnectOptions, ConsumeOptions, Publish, QueueOptions, Url};
use management::limits::DIRECT_PAGE_ROWS_MAX;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;

/// Without an address of the management API.
const NO_API: [&str; 4] = ["--management-listen", "none", "--metrics-listen", "none"];

/// What a run of `harrier ctl` came to.
#[derive(Debug)]
pub struct CtlResult {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CtlResult {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs `harrier ctl` with something on standard input.
pub fn ctl(url: &str, words: &[&str], input: &str) -> CtlResult {
    let mut child = harrier()
        .args(["ctl", "--url", url])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A command that reads nothing may have closed it.
    let _ignored = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let status = output.status.code().expect("no signal");
    CtlResult { status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The same, which has to succeed. Returns standard output.
pub fn done(url: &str, words: &[&str]) -> String {
    let result = ctl(url, words, "");
    assert_eq!((result.status, &*result.stderr), (0, ""), "{words:?}: {result:?}");
    result.stdout
}

fn start(words: &[&str]) -> (BrokerProcess, String) {
    let broker = BrokerProcess::start(&[&["--listen", "127.0.0.1:0"], words].concat());
    let url = format!("amqp://{}", broker.address);
    (broker, url)
}

/// The commands that the program lists.
fn listed() -> BTreeSet<String> {
    let help = String::from_utf8(output(&["ctl", "help"]).stdout).expect("UTF-8");
    let commands =
        help.split_once("\nShow:\n").expect("commands").1.split_once("\nharrier ctl help").expect("an end").0;
    let lines = commands.lines().filter_map(|line| line.strip_prefix("  "));
    lines.map(|line| line.split(' ').next().expect("a word").to_owned()).collect()
}

/// Command lines in their order, what is on standard input, the status, and what standard output or, if it fails, standard error
/// has in it.
const SCRIPT: &[(&[&str], &str, i32, &str)] = &[
    (&["await_startup"], "", 0, ""),
    (&["ping"], "", 0, "Ping succeeded\n"),
    (&["ping", "--json"], "", 0, "\"result\": \"ok\""),
    (&["version"], "", 0, concat!(env!("CARGO_PKG_VERSION"), "\n")),
    (&["server_version"], "", 0, concat!(env!("CARGO_PKG_VERSION"), "\n")),
    (&["help"], "", 0, "harrier ctl list_queues name messages consumers"),
    (&["help", "set_policy"], "", 0, "--apply-to WHAT: queues, exchanges"),
    (&["help", "eval"], "", 64, "unknown command 'ctl eval'"),
    (&["set_policy", "--help"], "", 0, "--priority NUMBER: which of several policies counts"),
    (&["status"], "", 0, "state                    running\n"),
    (&["status", "--formatter", "json"], "", 0, "\"product_name\": \"Harrier\""),
    (&["status", "--formatter", "csv"], "", 0, "product_name,Harrier\n"),
    (&["set_log_level", "loud"], "", 65, "'loud' is no level of the log; there are error, warn, warning, info"),
    (&["set_log_level", "info"], "", 0, ""),
    // Virtual hosts.
    (&["add_vhost", "shop", "--description", "a shop", "--tags", "x,y"], "", 0, ""),
    (&["add_vhost", "shop"], "", 0, ""),
    (&["add_vhost", ""], "", 64, "VHOST is empty"),
    (&["list_vhosts"], "", 0, "name\n/\nshop\n"),
    (&["list_vhosts", "name", "description,tags"], "", 0, "shop\ta shop\t[x, y]\n"),
    (&["list_vhosts", "name", "size"], "", 64, "'list_vhosts' has no column 'size'; it has name, description"),
    (&["enable_vhost_protection_from_deletion", "shop"], "", 0, ""),
    (&["delete_vhost", "shop"], "", 65, "virtual host 'shop' is protected from deletion"),
    (&["disable_vhost_protection_from_deletion", "shop"], "", 0, ""),
    (&["disable_vhost_protection_from_deletion", "nowhere"], "", 65, "there is no virtual host 'nowhere'"),
    // Users.
    (&["add_user", "ada", "s3cret"], "", 0, ""),
    (&["add_user", "ada", "s3cret"], "", 70, "user 'ada' exists already"),
    (&["add_user", "bob"], "", 65, "there is no password on standard input"),
    (&["add_user", "bob"], "of bob\n", 0, ""),
    (&["authenticate_user", "bob", "of bob"], "", 0, "Success\n"),
    (&["authenticate_user", "bob"], "of bob\n", 0, "Success\n"),
    (&["authenticate_user", "bob", "s3cret"], "", 65, "the password does not let user 'bob' in"),
    (&["authenticate_user", "eve", "s3cret"], "", 67, "there is no user 'eve'"),
    (&["change_password", "bob", "another"], "", 0, ""),
    (&["authenticate_user", "bob", "another"], "", 0, "Success\n"),
    (&["change_password", "eve", "another"], "", 67, "there is no user 'eve'"),
    (&["set_user_tags", "bob", "monitoring", "management"], "", 0, ""),
    (&["set_user_tags", "eve", "management"], "", 67, "there is no user 'eve'"),
    (&["authenticate_user", "bob", "another"], "", 0, "Success\n"),
    (&["list_users"], "", 0, "user\ttags\nada\t[]\nbob\t[monitoring, management]\nguest\t[administrator]\n"),
    (&["list_users", "-s"], "", 0, "ada\t[]\nbob\t"),
    (&["clear_password", "bob"], "", 0, ""),
    (&["authenticate_user", "bob", "another"], "", 65, "the password does not let user 'bob' in"),
    // Permissions.
    (&["set_permissions", "-p", "shop", "ada", "^ada", ".*", ""], "", 0, ""),
    (&["set_permissions", "-p", "shop", "eve", "", "", ""], "", 67, "there is no user 'eve'"),
    (&["set_permissions", "-p", "nowhere", "ada", "", "", ""], "", 65, "there is no virtual host 'nowhere'"),
    (&["set_permissions", "-p", "shop", "ada", "(", "", ""], "", 65, "regex parse error"),
    (&["list_permissions", "-p", "shop"], "", 0, "user\tconfigure\twrite\tread\nguest\t.*\t.*\t.*\nada\t^ada\t.*\t\n"),
    (&["list_permissions", "-p", "nowhere"], "", 65, "there is no virtual host 'nowhere'"),
    (&["list_user_permissions", "ada"], "", 0, "vhost\tconfigure\twrite\tread\nshop\t^ada\t.*\t\n"),
    (&["list_user_permissions", "eve"], "", 67, "there is no user 'eve'"),
    (&["set_topic_permissions", "-p", "shop", "ada", "amq.topic", "^a", "^b"], "", 0, ""),
    (&["list_topic_permissions", "-p", "shop"], "", 0, "ada\tamq.topic\t^a\t^b\n"),
    (&["list_user_topic_permissions", "ada"], "", 0, "shop\tamq.topic\t^a\t^b\n"),
    (
        &["clear_topic_permissions", "-p", "shop", "ada", "amq.fanout"],
        "",
        65,
        "user 'ada' has no such topic permissions",
    ),
    (&["clear_topic_permissions", "-p", "shop", "ada"], "", 0, ""),
    (&["list_user_topic_permissions", "ada"], "", 0, "vhost\texchange\twrite\tread\n"),
    (&["clear_permissions", "-p", "shop", "ada"], "", 0, ""),
    (&["clear_permissions", "-p", "shop", "ada"], "", 65, "user 'ada' has no permissions in virtual host 'shop'"),
    (&["clear_permissions", "-p", "shop", "eve"], "", 67, "there is no user 'eve'"),
    // Policies.
    (
        &["set_policy", "-p", "shop", "short", "^a", "{\"max-length\": 5}", "--priority", "3", "--apply-to=queues"],
        "",
        0,
        "",
    ),
    (&["set_policy", "-p", "shop", "short", "^a", "max-length"], "", 65, "DEFINITION is not JSON"),
    (&["set_policy", "-p", "shop", "short", "^a", "{\"max-lenght\": 5}"], "", 65, "a policy has no such key"),
    (&["set_policy", "-p", "shop", "short", "^a", "{\"max-length\": 5}", "--priority", "x"], "", 65, "not 'x'"),
    (
        &["set_policy", "-p", "nowhere", "short", "^a", "{\"max-length\": 5}"],
        "",
        65,
        "there is no virtual host 'nowhere'",
    ),
    (&["list_policies", "-p", "shop"], "", 0, "shop\tshort\t^a\tqueues\t{\"max-length\":5}\t3\n"),
    (&["set_operator_policy", "-p", "shop", "op", "", "{\"max-length\": 9}"], "", 0, ""),
    (&["list_operator_policies", "-p", "shop"], "", 0, "shop\top\t\tall\t{\"max-length\":9}\t0\n"),
    (&["clear_operator_policy", "-p", "shop", "op"], "", 0, ""),
    (&["clear_operator_policy", "-p", "shop", "op"], "", 65, "there is no operator policy 'op' in virtual host 'shop'"),
    // Parameters.
    (&["set_parameter", "-p", "shop", "federation-upstream", "up", "{\"uri\": \"amqp://h\"}"], "", 0, ""),
    (&["set_parameter", "-p", "shop", "no-such", "up", "{}"], "", 65, "component no-such not found"),
    (
        &["list_parameters", "-p", "shop"],
        "",
        0,
        "component\tname\tvalue\nfederation-upstream\tup\t{\"uri\":\"amqp://h\"}\n",
    ),
    (&["list_parameters"], "", 0, "component\tname\tvalue\n"),
    (&["clear_parameter", "-p", "shop", "federation-upstream", "up"], "", 0, ""),
    (
        &["clear_parameter", "-p", "shop", "federation-upstream", "up"],
        "",
        65,
        "there is no parameter 'up' of component",
    ),
    (&["set_global_parameter", "colour", "\"blue\""], "", 0, ""),
    (&["list_global_parameters"], "", 0, "colour\tblue\n"),
    (&["clear_global_parameter", "colour"], "", 0, ""),
    (&["set_cluster_name", "ours"], "", 0, ""),
    (&["list_global_parameters", "--formatter", "csv"], "", 0, "cluster_name,ours\n"),
    (&["clear_global_parameter", "colour"], "", 65, "there is no global parameter 'colour'"),
    (&["list_alarms"], "", 0, "resource\traised_at\tcleared_at\n"),
    (&["federation_status"], "", 0, "vhost\tupstream\ttype\texchange\tqueue\tstatus\terror\n"),
    (&["federation_status", "--only-down", "--json"], "", 0, "[]\n"),
    // Shovels.
    (&["set_parameter", "-p", "shop", "shovel", "s", "{}"], "", 65, "Key \"src-uri\" not found in shovel"),
    (
        &[
            "set_parameter",
            "-p",
            "shop",
            "shovel",
            "s",
            r#"{"src-uri": "amqp:///shop", "src-queue": "a", "src-predeclared": true,
                "dest-uri": "amqp:///shop", "dest-queue": "b", "dest-predeclared": true}"#,
        ],
        "",
        0,
        "",
    ),
    (&["pause_shovel", "-p", "shop", "s"], "", 0, ""),
    (&["shovel_status", "name", "vhost", "state", "src_uri"], "", 0, "s\tshop\tpaused\tamqp:///shop\n"),
    (&["resume_shovel", "-p", "shop", "s"], "", 0, ""),
    (&["shovel_status", "reason"], "", 0, "there is no queue 'b' in virtual host 'shop'\n"),
    (&["restart_shovel", "-p", "shop", "s"], "", 0, ""),
    (&["restart_shovel", "s"], "", 65, "there is no shovel 's' in virtual host '/'"),
    (&["delete_shovel", "-p", "shop", "s"], "", 0, ""),
    (&["delete_shovel", "-p", "shop", "s"], "", 65, "there is no shovel 's' in virtual host 'shop'"),
    // Limits.
    (&["set_vhost_limits", "-p", "shop", "{\"max-queues\": 5, \"max-connections\": 6}"], "", 0, ""),
    (&["set_vhost_limits", "-p", "shop", "{\"max-connections\": 7}"], "", 0, ""),
    (
        &["set_vhost_limits", "-p", "shop", "{\"max-connections\": \"7\"}"],
        "",
        65,
        "limit 'max-connections' takes a whole number",
    ),
    (&["set_vhost_limits", "-p", "shop", "{\"max-birds\": 7}"], "", 65, "max-birds"),
    (&["set_vhost_limits", "-p", "nowhere", "{\"max-queues\": 7}"], "", 65, "there is no virtual host 'nowhere'"),
    (&["list_vhost_limits", "--global"], "", 0, "vhost\tlimits\nshop\t{\"max-connections\":7}\n"),
    (&["clear_vhost_limits", "-p", "shop"], "", 0, ""),
    (&["list_vhost_limits", "-p", "shop"], "", 0, "vhost\tlimits\n"),
    (&["set_user_limits", "ada", "{\"max-connections\": 2}"], "", 0, ""),
    (&["set_user_limits", "ada", "{\"max-channels\": 3}"], "", 0, ""),
    (&["set_user_limits", "eve", "{\"max-channels\": 3}"], "", 67, "there is no user 'eve'"),
    (&["list_user_limits", "--user", "ada"], "", 0, "ada\t{\"max-connections\":2,\"max-channels\":3}\n"),
    (&["list_user_limits", "--user", "eve"], "", 67, "there is no user 'eve'"),
    (&["clear_user_limits", "ada", "max-channels"], "", 0, ""),
    (&["list_user_limits"], "", 0, "ada\t{\"max-connections\":2}\n"),
    (&["clear_user_limits", "ada", "all"], "", 0, ""),
    (&["clear_user_limits", "eve", "all"], "", 67, "there is no user 'eve'"),
    (&["list_user_limits", "--json"], "", 0, "[]\n"),
    // Queues and exchanges.
    (&["create_exchange", "-p", "shop", "topic", "sales", "--durable"], "", 0, ""),
    (&["list_exchanges", "-p", "shop", "name", "type", "durable"], "", 0, "sales\ttopic\ttrue\n"),
    (&["create_queue", "-p", "shop", "abc", "--durable", "--arguments", "{\"x-max-priority\": 4}"], "", 0, ""),
    (&["create_queue", "-p", "shop", "abc"], "", 65, "inequivalent arg"),
    (
        &["list_queues", "-p", "shop", "name", "durable", "policy", "arguments", "consumers"],
        "",
        0,
        "abc\ttrue\tshort\t{\"x-max-priority\":4}\t0\n",
    ),
    (&["list_bindings", "-p", "shop"], "", 0, "\texchange\tabc\tqueue\tabc\t{}\n"),
    (&["clear_policy", "-p", "shop", "short"], "", 0, ""),
    (&["clear_policy", "-p", "shop", "short"], "", 65, "there is no policy 'short' in virtual host 'shop'"),
    (&["purge_queue", "-p", "shop", "abc"], "", 0, ""),
    (&["purge_queue", "-p", "shop", "abd"], "", 65, "there is no queue 'abd' in virtual host 'shop'"),
    (&["delete_queue", "-p", "shop", "abc", "--if-empty", "-u"], "", 0, ""),
    (&["delete_queue", "-p", "shop", "abc"], "", 65, "there is no queue 'abc' in virtual host 'shop'"),
    (&["delete_exchange", "-p", "shop", "sales"], "", 0, ""),
    (&["delete_exchange", "-p", "shop", "sales"], "", 65, "there is no exchange 'sales' in virtual host 'shop'"),
    // Connections: there is none but its own, which the numbers of a second ago may not have yet.
    (&["list_connections", "user", "state"], "", 0, "user\tstate\n"),
    (&["list_channels", "user", "number", "confirm"], "", 0, "user\tnumber\tconfirm\n"),
    (
        &["list_consumers"],
        "",
        0,
        "queue_name\tchannel_pid\tconsumer_tag\tack_required\tprefetch_count\tactive\targuments\n",
    ),
    (&["close_connection", "nobody", "why"], "", 65, "there is no connection 'nobody'"),
    (&["close_all_connections", "why"], "", 0, "closed 0 connections\n"),
    (&["close_all_connections", "-p", "shop", "why", "--json"], "", 0, "\"closed\": 0"),
    (&["close_all_user_connections", "guest", "why"], "", 0, "closed 0 connections\n"),
    (&["close_all_user_connections", "eve", "why"], "", 67, "there is no user 'eve'"),
    // Definitions.
    (&["definitions"], "", 0, "\"product_name\": \"Harrier\""),
    (&["definitions", "--vhost", "nowhere"], "", 65, "there is no virtual host 'nowhere' (not-found)"),
    (&["export_definitions", "-p", "shop", "-"], "", 0, "\"queues\": []"),
    (&["export_definitions", "-p", "nowhere"], "", 65, "there is no virtual host 'nowhere'"),
    (&["export_definitions", "/nowhere/file.json"], "", 73, "/nowhere/file.json: cannot be created: "),
    (&["import_definitions"], "{\"vhosts\": [{\"name\": \"new\"}]}", 0, ""),
    (&["import_definitions", "-"], "no JSON", 65, "the broker refuses: "),
    (&["import_definitions", "/nowhere/file.json"], "", 74, "/nowhere/file.json: cannot be read: "),
    (&["list_vhosts"], "", 0, "name\n/\nnew\nshop\n"),
    (&["store"], "", 78, "it has no store (no-state)"),
    (&["delete_vhost", "new"], "", 0, ""),
    (&["delete_vhost", "new"], "", 65, "there is no virtual host 'new'"),
    (&["delete_user", "ada"], "", 0, ""),
    (&["delete_user", "ada"], "", 67, "there is no user 'ada'"),
    (&["eval", "1."], "", 64, "unknown command 'ctl eval'"),
];

#[test]
fn every_command_does_what_it_says_without_an_address_of_the_api() {
    let (_broker, url) = start(&NO_API);
    for (words, input, status, expect) in SCRIPT {
        let mut result = ctl(&url, words, input);
        if words[0] == "shovel_status" {
            // Shovels start by themselves.
            let is_so = || {
                result = ctl(&url, words, input);
                result.stdout.contains(expect)
            };
            wait_until(expect, is_so, || words.join(" "));
        }
        assert_eq!(result.status, *status, "{words:?}: {result:?}");
        let (said, silent) =
            if *status == 0 { (&result.stdout, &result.stderr) } else { (&result.stderr, &result.stdout) };
        assert!(said.contains(expect), "{words:?}: {result:?}");
        assert_eq!((&**silent, expect.is_empty()), ("", said.is_empty()), "{words:?}: {result:?}");
    }
    let tried: BTreeSet<String> =
        SCRIPT.iter().filter(|(.., status, _)| *status == 0).map(|(words, ..)| words[0].to_owned()).collect();
    // They need a state folder or a connection, which other tests have.
    let elsewhere = ["store", "close_connection"].map(str::to_owned).into();
    assert_eq!(listed().difference(&tried).cloned().collect::<BTreeSet<_>>(), elsewhere);
    assert_eq!(tried.difference(&listed()).count(), 0);
}

/// The row of a command on the page about them: its name, what stands behind it, what it does.
fn row(command: &str) -> String {
    let help = String::from_utf8(output(&["ctl", "help", command]).stdout).expect("UTF-8");
    let mut lines = help.lines();
    let usage = lines.next().and_then(|line| line.strip_prefix("usage: harrier ctl ")).expect("its usage");
    let arguments = usage.strip_prefix(command).expect("its name").trim();
    let arguments = if arguments.is_empty() { String::new() } else { format!("`{arguments}`") };
    let does = lines.find_map(|line| line.strip_prefix(&format!("{command}: "))).expect("what it does");
    format!("| `{command}` | {arguments} | {} |", does.trim_end_matches('.'))
}

#[test]
fn every_command_is_documented() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/ctl.md"));
    let page = page.expect("the page is there");
    let rows: BTreeSet<String> = listed().iter().map(|command| row(command)).collect();
    let commands = page.split_once("## Commands\n").expect("a heading").1.split_once("\n## ").expect("another").0;
    let documented = commands.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
    let missing: Vec<_> = rows.difference(&documented).collect();
    let unknown: Vec<_> = documented.difference(&rows).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:#?}, unknown: {unknown:#?}");
}

#[test]
fn names_are_written_so_that_rows_stay_rows() {
    let (broker, url) = start(&NO_API);
    let mut client = Client::connect(&url).expect("a connection");
    let channel = client.open_channel().expect("a channel");
    for name in ["plain", "a,\"b\" c", "\u{1b}]0;owned\u{7}\tx", "\u{202e}txt"] {
        client.declare_queue(channel, name, &QueueOptions::default()).expect("a queue");
    }
    let table = "name\tdurable\n\\u001b]0;owned\\u0007\\tx\tfalse\na,\"b\" c\tfalse\nplain\tfalse\n\\u202etxt\tfalse\n";
    assert_eq!(done(&url, &["list_queues", "name", "durable"]), table);
    let csv =
        "name,durable\n\\u001b]0;owned\\u0007\\tx,false\n\"a,\"\"b\"\" c\",false\nplain,false\n\\u202etxt,false\n";
    assert_eq!(done(&url, &["list_queues", "name", "durable", "--formatter", "csv"]), csv);
    let json = ctl(&url, &["list_queues", "name", "--json"], "");
    assert!(json.stdout.chars().all(|letter| letter == '\n' || !letter.is_control()), "{json:?}");
    let names: Vec<_> = json.json().as_array().expect("a list").iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["\u{1b}]0;owned\u{7}\tx", "a,\"b\" c", "plain", "\u{202e}txt"]);
    // An error has the name in it, too.
    let refused = ctl(&url, &["purge_queue", "\u{1b}[2J"], "");
    assert_eq!((refused.status, refused.stderr.contains('\u{1b}')), (65, false));
    assert!(refused.stderr.contains("there is no queue '\\u001b[2J'"), "{refused:?}");
    done(&url, &["delete_queue", "\u{1b}]0;owned\u{7}\tx"]);
    assert!(!done(&url, &["list_queues"]).contains("owned"));
    drop(broker);
}

#[test]
fn a_user_who_is_no_administrator_is_refused() {
    let (broker, url) = start(&[]);
    done(&url, &["add_user", "clerk", "c1erk"]);
    done(&url, &["set_user_tags", "clerk", "monitoring"]);
    done(&url, &["set_permissions", "clerk", ".*", ".*", ".*"]);
    let clerk = format!("amqp://clerk:c1erk@{}", broker.address);
    for words in [&["list_queues"][..], &["status"], &["ping"], &["set_log_level", "trace"], &["delete_user", "guest"]]
    {
        let result = ctl(&clerk, words, "");
        assert_eq!((result.status, &*result.stdout), (77, ""), "{words:?}: {result:?}");
        assert!(result.stderr.contains("403 ACCESS_REFUSED - user 'clerk' is no administrator"), "{result:?}");
    }
    // What AMQP does not allow an administrator to do is refused as well.
    done(&url, &["create_queue", "q"]);
    done(&url, &["set_permissions", "guest", ".*", ".*", "^none$"]);
    let result = ctl(&url, &["purge_queue", "q"], "");
    assert_eq!(result.status, 77, "{result:?}");
    assert!(result.stderr.contains("'q'"), "{result:?}");
    // Who has just ceased to be an administrator is refused from then on.
    done(&url, &["set_user_tags", "guest", "monitoring"]);
    assert_eq!(ctl(&url, &["list_users"], "").status, 77);
}

#[test]
fn live_objects_are_listed_and_connections_are_closed_with_a_reason() {
    let (broker, url) = start(&["--shards", "2"]);
    let options = ConnectOptions { name: Some("the only one".to_owned()), ..ConnectOptions::default() };
    let mut client = Client::connect_with(&Url::parse(&url).expect("an address"), options).expect("a connection");
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, "q", &QueueOptions::default()).expect("a queue");
    client.confirm_select(channel).expect("confirms");
    for _ in 0..3 {
        client.publish(channel, &Publish::to("", "q"), b"12345").expect("sent");
    }
    client.wait_confirms(channel, 0).expect("they are taken");
    let seen = |words: &[&str], expect: &str| {
        let mut text = String::new();
        wait_until(
            expect,
            || {
                text = done(&url, words);
                text.contains(expect)
            },
            || words.join(" "),
        );
        text
    };
    seen(&["list_queues", "name", "messages", "message_bytes"], "q\t3\t15\n");
    client.consume(channel, "q", &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() }).expect("a consumer");
    seen(&["list_consumers", "queue_name", "ack_required", "user"], "q\tfalse\tguest\n");
    for _ in 0..3 {
        client.next_delivery(PATIENCE).expect("a connection").expect("a message");
    }
    seen(&["list_queues", "name", "messages", "consumers"], "q\t0\t1\n");
    let connections = seen(&["list_connections", "--json", "name", "user_provided_name"], "the only one");
    let connections: Value = serde_json::from_str(&connections).expect("JSON");
    let mut connections = connections.as_array().expect("a list").iter();
    let own = connections.find(|of| of["user_provided_name"] == "the only one").expect("the client's");
    let name = own["name"].as_str().expect("a name").to_owned();
    seen(&["list_channels", "pid", "consumer_count"], &format!("{name} (1)\t1\n"));
    done(&url, &["close_connection", &name, "go away"]);
    let ended = client.next_delivery(PATIENCE).map(|_| ()).expect_err("it is closed").to_string();
    assert!(ended.contains("320") && ended.contains("go away"), "{ended}");
    let mut others: Vec<_> = (0..3).map(|_| Client::connect(&url).expect("a connection")).collect();
    seen(&["list_connections", "name", "channels"], "\t0\n");
    let mut closed = 0;
    wait_until(
        "all are closed",
        || {
            let result = ctl(&url, &["close_all_user_connections", "guest", "good night", "--json"], "");
            closed += result.json()["closed"].as_u64().expect("a number");
            closed >= 3
        },
        || "some are left".to_owned(),
    );
    for client in &mut others {
        let ended = client.next_delivery(PATIENCE).map(|_| ()).expect_err("it is closed").to_string();
        assert!(ended.contains("good night"), "{ended}");
    }
    drop(broker);
}

#[test]
fn the_log_has_more_or_less_in_it_from_one_moment_to_the_next() {
    let (broker, url) = start(&NO_API);
    const DEBUG: &str = "an administrator asks the management API";
    done(&url, &["ping"]);
    done(&url, &["set_log_level", "debug"]);
    let before = lines_until(&broker, "the level of the log was set");
    assert!(!before.contains(DEBUG), "{before}");
    done(&url, &["ping"]);
    broker.await_line(DEBUG);
    done(&url, &["set_log_level", "info"]);
    done(&url, &["ping"]);
    done(&url, &["set_log_level", "info"]);
    lines_until(&broker, "the level of the log was set");
    let after = lines_until(&broker, "the level of the log was set");
    assert!(!after.contains(DEBUG), "{after}");
}

/// The log up to a line with this in it.
fn lines_until(broker: &BrokerProcess, part: &str) -> String {
    let mut lines = String::new();
    while !lines.contains(part) {
        lines.push_str(&broker.lines.recv_timeout(PATIENCE).expect("the log goes on"));
        lines.push('\n');
    }
    lines
}

#[test]
fn a_broker_that_is_yet_to_start_is_waited_for() {
    // A port that is free now.
    let address =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string();
    let url = format!("amqp://{address}");
    let late = ctl(&url, &["await_startup", "--timeout", "1"], "");
    assert_eq!((late.status, &*late.stdout), (75, ""), "{late:?}");
    assert!(late.stderr.contains("the broker has not answered for 1 s: no broker answers at"), "{late:?}");
    assert_eq!(ctl(&url, &["ping"], "").status, 69);
    let mut waiting = harrier();
    waiting.args(["ctl", "--url", &url, "await_startup", "--timeout", "30"]).stderr(Stdio::piped());
    let waiting = waiting.stdin(Stdio::null()).spawn().expect("the program starts");
    let broker = BrokerProcess::start(&[&["--listen", &address], &NO_API[..]].concat());
    let output = waiting.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // A login that is refused stays so.
    let refused = ctl(&format!("amqp://guest:wrong@{address}"), &["await_startup"], "");
    assert_eq!(refused.status, 77, "{refused:?}");
    drop(broker);
}

#[test]
fn what_the_command_line_has_wrong_is_usage() {
    for (words, expect) in [
        (&["list_queues", "--formatter", "xml"][..], "--formatter takes table, json or csv"),
        (&["delete_user"], "usage: harrier ctl delete_user USER"),
        (&["list_users", "-p", "/"], "'list_users' has no option '-p'"),
        (&["close_all_connections", "-p", "/", "--global", "why"], "either --vhost or --global"),
        (&["delete_queue", ""], "QUEUE is empty"),
    ] {
        let (_broker, url) = start(&NO_API);
        let result = ctl(&url, words, "");
        assert_eq!((result.status, &*result.stdout), (64, ""), "{words:?}: {result:?}");
        assert!(result.stderr.contains(expect), "{words:?}: {result:?}");
    }
}

#[test]
fn long_definitions_go_in_and_come_out_in_one_piece() {
    let (_broker, url) = start(&NO_API);
    let folder = TempFolder::new("ctl-long");
    let queues: Vec<_> = (0..4_000)
        .map(|number| {
            format!(r#"{{"name":"quéue {number}","vhost":"/","durable":false,"auto_delete":false,"arguments":{{}}}}"#)
        })
        .collect();
    let text = format!(r#"{{"queues":[{}]}}"#, queues.join(","));
    // More than one request takes.
    assert!(text.len() > 5 * 65_536);
    let (from, to) = (folder.path("in.json"), folder.path("out.json"));
    std::fs::write(&from, &text).expect("written");
    assert_eq!(done(&url, &["import_definitions", &from]), "");
    let rows = done(&url, &["list_queues", "-s", "name"]);
    assert_eq!((rows.lines().count(), rows.lines().next()), (4_000, Some("quéue 0")));
    assert_eq!(done(&url, &["export_definitions", &to]), "");
    let exported: Value = serde_json::from_slice(&std::fs::read(&to).expect("a file")).expect("JSON");
    assert_eq!(exported["queues"].as_array().map(Vec::len), Some(4_000));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&to).expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600, "it has hashes of passwords");
}

#[test]
fn a_change_is_in_the_log_without_its_secret() {
    let (broker, url) = start(&NO_API);
    done(&url, &["add_user", "ada", "s3cret-word"]);
    done(&url, &["change_password", "ada", "s3cret-word-2"]);
    done(&url, &["delete_user", "ada"]);
    let log = lines_until(&broker, "\"method\":\"DELETE\"");
    let changes = log.lines().filter(|line| line.contains("a change was asked for"));
    let changes: Vec<Value> = changes.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(changes.len(), 3, "{log}");
    for change in &changes {
        assert_eq!((&change["user"], &change["peer"]), (&"guest".into(), &"admin request".into()), "{change}");
    }
    assert!(!log.contains("s3cret-word"), "{log}");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let (_broker, url) = start(&NO_API);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let output = harrier().args(["ctl", "--url", &url, "ping"]).stdout(full).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(74), "{output:?}");
}

#[test]
fn a_long_list_comes_whole_in_pages() {
    let (_broker, url) = start(&NO_API);
    let count = DIRECT_PAGE_ROWS_MAX + 7;
    let queue = |number| {
        format!(r#"{{"name":"q{number:05}","vhost":"/","durable":false,"auto_delete":false,"arguments":{{}}}}"#)
    };
    let queues: Vec<String> = (0..count).map(queue).collect();
    let made = ctl(&url, &["import_definitions"], &format!(r#"{{"queues":[{}]}}"#, queues.join(",")));
    assert_eq!((made.status, &*made.stderr), (0, ""), "{}", made.stdout);
    let listed = done(&url, &["list_queues", "name"]);
    assert!(
        listed.lines().skip(1).eq((0..count).map(|number| format!("q{number:05}"))),
        "{} lines",
        listed.lines().count()
    );
}
