//! A state folder with something of everything, as a version has left it: this one finds exactly that in it.

use super::broker::{StoredBroker, TestStateFolder, harrier};
use super::formats::{connect, tar};
use super::wait_until;
use client::{Client, ClientChannel, ExchangeOptions, Publish, QueueOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use wire::{Properties, RawProperties, Table, Value};

/// The folder as the first format left it, with what the commands said of it then; `HARRIER_WRITE_WHOLE_FIXTURE` names the file in
/// which this version leaves one.
const FORMAT_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/durability/format-1-whole.tar.gz");
/// Users, permissions, topic permissions, virtual hosts with limits, policies, an exchange bound to another one.
const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../definitions/tests/data/rabbitmq-3.10.8.json");
/// A broker that is not there.
const UPSTREAM: &str = "127.0.0.1:9";
/// How long a message is delayed.
const DELAY_MS: i32 = 3_000;
/// Bodies of the first and the second life, of which the footer has the first ones.
const EACH_LIFE: u8 = 4;

fn publish(client: &mut Client, channel: ClientChannel, to: (&str, &str), headers: Table, body: &[u8]) {
    let properties = Properties { delivery_mode: Some(2), headers: Some(headers), ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to(to.0, to.1) };
    client.publish(channel, &to, body).expect("published");
    client.wait_confirms(channel, 0).expect("confirmed");
}

fn declare(client: &mut Client, channel: ClientChannel, name: &str, arguments: Table) {
    let options = QueueOptions { durable: true, arguments, ..QueueOptions::default() };
    client.declare_queue(channel, name, &options).expect("a queue");
}

fn table(name: &str, value: Value) -> Table {
    Table::new().with(name, value).expect("a short name")
}

/// What a command says, which must succeed.
fn said(words: &[&str]) -> String {
    let output = harrier().args(words).output().expect("the program runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a text")
}

/// Everything that is defined, without the names of versions.
fn definitions(broker: &StoredBroker) -> serde_json::Value {
    let text = said(&["ctl", "definitions", "--url", &broker.url()]);
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let sections = json.as_object_mut().expect("an object");
    sections.retain(|name, _| !name.contains("version"));
    json
}

/// The queues that have messages in a folder whose broker is stopped.
fn shown(folder: &TestStateFolder) -> serde_json::Value {
    let folder = folder.root().to_str().expect("UTF-8");
    serde_json::from_str(&said(&["store", "show", folder, "--json"])).expect("JSON")
}

/// Two lives: of the first one a footer is left.
fn fill(folder: &TestStateFolder) {
    let broker = StoredBroker::start(folder, &["--definitions", DEFINITIONS]);
    let (mut client, channel) = connect(&broker);
    declare(&mut client, channel, "dead", Table::new());
    declare(&mut client, channel, "counted", table("x-queue-type", Value::text("quorum")));
    declare(&mut client, channel, "later", Table::new());
    let delayed = table("x-delayed-type", Value::text("direct"));
    let options = ExchangeOptions { durable: true, arguments: delayed, ..ExchangeOptions::default() };
    client.declare_exchange(channel, "clock", "x-delayed-message", &options).expect("an exchange");
    client.bind_queue(channel, "later", "clock", "tick", &Table::new()).expect("a binding");
    (0..EACH_LIFE).for_each(|number| publish(&mut client, channel, ("", "later"), Table::new(), &[number]));
    publish(&mut client, channel, ("", "counted"), Table::new(), b"returned");
    publish(&mut client, channel, ("", "orders.q"), Table::new(), b"rejected");
    for (queue, requeue) in [("counted", true), ("orders.q", false)] {
        let tag = client.get(channel, queue, false).expect("an answer").expect("a message").delivery_tag;
        client.nack(channel, tag, false, requeue).expect("returned");
    }
    client.close().expect("closed");
    said(&["route", "-d", "dynamic", "add", &broker.url(), UPSTREAM, "amq.topic"]);
    broker.terminate();
    let broker = StoredBroker::start(folder, &[]);
    let (mut client, channel) = connect(&broker);
    (0..EACH_LIFE).for_each(|number| publish(&mut client, channel, ("", "later"), Table::new(), &[10 + number]));
    publish(&mut client, channel, ("clock", "tick"), table("x-delay", Value::I32(DELAY_MS)), b"delayed");
    client.close().expect("closed");
    broker.terminate();
}

/// Compares what a folder has with what [`fill`] has written. Says what is defined.
fn check(folder: &TestStateFolder) -> serde_json::Value {
    let broker = StoredBroker::start(folder, &[]);
    let defined = definitions(&broker);
    let routes = said(&["route", "route", "list", &broker.url()]);
    assert!(routes.contains(UPSTREAM) && routes.contains("<dynamic>"), "{routes}");
    let (mut client, channel) = connect(&broker);
    let mut next = |queue: &str, header: &str| {
        let message = client.get(channel, queue, true).expect("the queue is there")?;
        let properties = message.properties().as_bytes();
        assert!(String::from_utf8_lossy(properties).contains(header), "{queue}: {properties:?}");
        Some((message.body().to_vec(), message.redelivered))
    };
    assert_eq!(next("counted", "x-delivery-count"), Some((b"returned".to_vec(), true)));
    assert_eq!(next("dead", "x-first-death-queue"), Some((b"rejected".to_vec(), false)));
    for number in (0..EACH_LIFE).chain(10..10 + EACH_LIFE) {
        assert_eq!(next("later", ""), Some((vec![number], false)));
    }
    let mut delayed = None;
    wait_until("the delayed message is due", || {
        delayed = next("later", "");
        delayed.is_some()
    });
    assert_eq!(delayed, Some((b"delayed".to_vec(), false)));
    for queue in ["counted", "dead", "later", "orders.q"] {
        assert_eq!(next(queue, ""), None, "{queue}");
    }
    client.close().expect("closed");
    let login = broker.url().replace("amqp://", "amqp://orders:s3cret@");
    Client::connect(&login).expect("the user is there").close().expect("closed");
    broker.terminate();
    defined
}

/// What was said of a folder, beside it.
const SHOWN: &str = "shown.json";
const DEFINED: &str = "defined.json";

#[test]
fn a_whole_folder_of_this_version_is_read() {
    let folder = TestStateFolder::new("whole");
    fill(&folder);
    let shown = shown(&folder);
    let Some(fixture) = std::env::var_os("HARRIER_WRITE_WHOLE_FIXTURE") else {
        check(&folder);
        return;
    };
    // The rest of a segment is zeros, which a sparse file does without.
    let kept = TestStateFolder::new("whole-kept");
    let copied = Command::new("cp").args(["-a", "--sparse=always"]).args([folder.root(), kept.root()]).status();
    assert!(copied.is_ok_and(|status| status.success()), "there is cp");
    let defined = check(&folder);
    for (name, said) in [(SHOWN, &shown), (DEFINED, &defined)] {
        std::fs::write(kept.path(name), format!("{said:#}\n")).expect("written");
    }
    let fixture = fixture.to_str().expect("UTF-8");
    tar(&["--sparse", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf", fixture], &kept);
}

/// The folder of the first format.
fn unpacked(name: &str) -> TestStateFolder {
    let folder = TestStateFolder::new(name);
    std::fs::create_dir(folder.root()).expect("a folder");
    tar(&["-xzf", FORMAT_1], &folder);
    folder
}

fn kept(folder: &TestStateFolder, name: &str) -> serde_json::Value {
    serde_json::from_str(&folder.text(name)).expect("JSON")
}

#[test]
fn all_of_a_whole_folder_of_the_first_format_is_read() {
    let folder = unpacked("whole-1");
    let state = folder.root().to_str().expect("UTF-8");
    let told = said(&["store", "check", state]);
    assert!(told.contains("footer"), "it has footers: {told}");
    // What was shown when the folder was made had no column for the log.
    let mut listing = shown(&folder);
    for queue in listing["queues"].as_array_mut().expect("a list") {
        assert_eq!(queue.as_object_mut().expect("an object").remove("log"), Some(0.into()));
    }
    assert_eq!(listing, kept(&folder, SHOWN));
    assert_eq!(check(&folder), kept(&folder, DEFINED));
}

/// A footer is never evidence: one of another format is made again.
#[test]
fn a_footer_of_a_newer_format_is_as_good_as_none() {
    let folder = unpacked("whole-newer-footer");
    let mut footers = 0;
    for file in std::fs::read_dir(folder.path("log")).expect("a folder").map(|file| file.expect("a file").path()) {
        if file.extension().is_some_and(|extension| extension == "foot") {
            let file = std::fs::OpenOptions::new().write(true).open(file).expect("a footer");
            file.write_all_at(&[2], 8).expect("written");
            footers += 1;
        }
    }
    assert!(footers > 0, "it has footers");
    assert_eq!(check(&folder), kept(&folder, DEFINED));
}
