//! Definitions files: a broker starts with one, and they are checked and written without a broker.

use super::{BrokerProcess, TempFolder, output};
use client::{Client, Publish, QueueOptions};

const RABBITMQ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../definitions/tests/data/rabbitmq-3.10.8.json");

fn said(words: &[&str]) -> (Option<i32>, String, String) {
    let output = output(words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_broker_begins_with_what_rabbitmq_exported() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--definitions", RABBITMQ]);
    let url = |login: &str, vhost: &str| format!("amqp://{login}@{}/{vhost}", broker.address);
    // Two connections, one a shard: both see a queue of the file.
    for round in 0..2 {
        let mut client = Client::connect(&url("orders:s3cret", "%2F")).expect("RabbitMQ's hash");
        let channel = client.open_channel().expect("a channel");
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        client.declare_queue(channel, "orders.q", &passive).expect("the file has it");
        client.publish(channel, &Publish::to("mine", "a.b"), b"through the file's binding").expect("published");
        let got = client.get(channel, "orders.q", true).expect("an answer").expect("a message");
        assert_eq!(got.body(), b"through the file's binding", "round {round}");
        // Its topic permission.
        client.publish(channel, &Publish::to("amq.topic", "b.x"), b"").expect("written");
        let error = client.declare_queue(channel, "orders.q", &passive).expect_err("the channel is closed");
        let expect =
            "403 ACCESS_REFUSED - access to topic 'b.x' in exchange 'amq.topic' in vhost '/' refused for user 'orders'";
        assert!(error.to_string().contains(expect), "{error}");
        if round == 0 {
            std::mem::forget(client);
        }
    }
    Client::connect(&url("orders:s3cret", "shop")).expect("the file has this virtual host").close().expect("an end");
    Client::connect(&url("guest:guest", "%2F")).expect("the file has guest").close().expect("an end");
}

#[test]
fn files_are_checked_and_written() {
    let folder = TempFolder::new("definitions");
    let (status, stdout, stderr) = said(&["definitions", "check", RABBITMQ]);
    assert_eq!((status, &*stderr), (Some(0), ""));
    assert!(stdout.contains("queues: 1\n") && stdout.ends_with("sound\n"), "{stdout}");
    assert!(stdout.contains("policies: 1\n") && stdout.contains("vhost-limits: 1\n"), "{stdout}");
    let written = folder.path("written.json");
    let (status, stdout, stderr) = said(&["definitions", "export", "--definitions", RABBITMQ]);
    assert_eq!((status, &*stderr), (Some(0), ""));
    std::fs::write(&written, stdout).expect("writes");
    assert_eq!(said(&["definitions", "check", &written]).0, Some(0));
    // Without a file: the default user, with a password hash.
    let (_, stdout, _) = said(&["definitions", "export"]);
    assert!(stdout.contains("\"name\": \"guest\"") && stdout.contains("rabbit_password_hashing_sha256"), "{stdout}");
    let broken = folder.path("broken.json");
    std::fs::write(&broken, "{\"queues\": [{\"name\": 1}]}").expect("writes");
    let expect = format!("{broken}: .queues[0].vhost: it is missing");
    for (words, status, who) in [
        (&["definitions", "check", &broken][..], 1, "harrier definitions: "),
        (&["broker", "--state", "none", "--definitions", &broken], 2, "harrier broker: --definitions: "),
        (&["definitions", "export", "--definitions", &broken], 2, "harrier definitions: --definitions: "),
    ] {
        let (found, _, stderr) = said(words);
        assert_eq!((found, stderr.lines().next()), (Some(status), Some(&*format!("{who}{expect}"))), "{stderr}");
    }
    assert_eq!(said(&["definitions"]).0, Some(2));
}
