//! A broker with a state folder: what it defined and confirmed is there when it is started again.

use crate::{BrokerProcess, PATIENCE, TempFolder, first_address, harrier, output, wait_until};
use client::{Client, ClientChannel, ExchangeOptions, Publish, QueueOptions};
use definitions::Json;
use rustix::process::Signal;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};
use wire::{Properties, RawProperties, ShortString, Table};

const READY: &str = "harrier broker is ready";

/// A broker that keeps everything in this folder.
fn start(folder: &str, words: &[&str]) -> BrokerProcess {
    BrokerProcess::start(&[&["--listen", "127.0.0.1:0", "--state", folder, "--segment-bytes", "4MiB"], words].concat())
}

fn stop(broker: BrokerProcess) -> String {
    broker.signal(Signal::TERM);
    let (status, log) = broker.end();
    assert_eq!(status, Some(0), "{log}");
    log
}

fn connect(broker: &BrokerProcess) -> (Client, ClientChannel) {
    let mut client = Client::connect(&format!("amqp://guest:guest@{}/%2F", broker.address)).expect("a client");
    let channel = client.open_channel().expect("a channel");
    client.confirm_select(channel).expect("confirms");
    (client, channel)
}

fn durable() -> QueueOptions {
    QueueOptions { durable: true, ..QueueOptions::default() }
}

fn publish(client: &mut Client, channel: ClientChannel, to: Publish<'_>, body: &[u8]) {
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..to };
    client.publish(channel, &to, body).expect("published");
}

#[test]
fn definitions_and_messages_outlive_the_broker() {
    let folder = TempFolder::new("store");
    let state = folder.path("state");
    let broker = start(&state, &["--shards", "2"]);
    let (mut client, channel) = connect(&broker);
    client
        .declare_exchange(channel, "trades", "topic", &ExchangeOptions { durable: true, ..ExchangeOptions::default() })
        .expect("an exchange");
    for queue in ["orders", "fills", "quotes"] {
        client.declare_queue(channel, queue, &durable()).expect("a queue");
        client.bind_queue(channel, queue, "trades", "#", &Table::new()).expect("bound");
    }
    for number in 0..100u32 {
        publish(&mut client, channel, Publish::to("trades", "buy"), &number.to_le_bytes());
    }
    assert_eq!(client.wait_confirms(channel, 0).expect("confirmed"), 0);
    client.close().expect("closed");
    stop(broker);

    // The number of threads is that of its logs, unless another one is asked for.
    let broker = start(&state, &[]);
    assert!(broker.ready.contains("\"shards\":2"), "{}", broker.ready);
    let (mut client, channel) = connect(&broker);
    publish(&mut client, channel, Publish::to("trades", "sell"), &100u32.to_le_bytes());
    client.wait_confirms(channel, 0).expect("confirmed");
    for queue in ["orders", "fills", "quotes"] {
        for number in 0..=100u32 {
            let message = client.get(channel, queue, true).expect("an answer").expect("a message");
            assert_eq!((message.body(), message.redelivered), (&number.to_le_bytes()[..], false), "{queue}");
        }
        assert!(client.get(channel, queue, true).expect("an answer").is_none());
    }
    client.close().expect("closed");
    stop(broker);
}

#[test]
fn the_start_tells_what_it_found() {
    let folder = TempFolder::new("store-found");
    let state = folder.path("state");
    let broker = start(&state, &["--shards", "1"]);
    let (mut client, channel) = connect(&broker);
    client.declare_queue(channel, "q", &durable()).expect("a queue");
    (0..5).for_each(|_| publish(&mut client, channel, Publish::to("", "q"), b"x"));
    client.wait_confirms(channel, 0).expect("confirmed");
    client.close().expect("closed");
    stop(broker);
    let words = ["--listen", "127.0.0.1:0", "--state", &state];
    let broker = BrokerProcess::start_until(&words, "the store is open");
    let found = broker.ready.clone();
    assert!(found.contains("\"queues\":1") && found.contains("\"messages\":5"), "{found}");
    assert!(found.contains(&format!("{state}/log")) && found.contains("\"took_us\":"), "{found}");
    broker.await_line(READY);
    stop(broker);
}

#[test]
fn a_default_user_is_there_only_at_the_first_start() {
    let folder = TempFolder::new("store-users");
    let (state, file) = (folder.path("state"), folder.path("users.toml"));
    let users = "[[user]]\nname = \"alice\"\npassword = \"secret\"\n\n[[permission]]\nuser = \"alice\"\nvhost = \"/\"\n\
        configure = \".*\"\nwrite = \".*\"\nread = \".*\"\n";
    std::fs::write(&file, users).expect("written");
    let login = |broker: &BrokerProcess, user: &str| {
        Client::connect(&format!("amqp://{user}@{}/%2F", broker.address)).map(|client| client.close().expect("closed"))
    };
    let broker = start(&state, &["--config", &file]);
    login(&broker, "alice:secret").expect("she is defined");
    stop(broker);
    let broker = start(&state, &[]);
    login(&broker, "alice:secret").expect("she is still defined");
    login(&broker, "guest:guest").expect_err("nobody has defined the default user");
    stop(broker);
}

/// A broker as a unit of systemd with a state folder would be started: nothing on its command line says where it is.
fn start_as_unit(folder: &str, port_of: &[&str]) -> BrokerProcess {
    let mut program = harrier();
    program.env("STATE_DIRECTORY", folder).args(["broker", "--log-format", "json"]).args(port_of);
    BrokerProcess::spawn(program, "the state folder keeps what is durable")
}

#[test]
fn the_service_manager_is_told_when_it_serves_and_when_it_stops() {
    let folder = TempFolder::new("notify");
    let socket = UnixDatagram::bind(folder.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let told = || {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).expect("the broker tells its state");
        String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
    };
    let mut program = harrier();
    program.env("NOTIFY_SOCKET", folder.path("notify"));
    program.args(["broker", "--listen", "127.0.0.1:0", "--shards", "1", "--log-format", "json"]);
    program.args(["--state", &folder.path("state")]);
    let mut broker = BrokerProcess::spawn(program, READY);
    assert_eq!(told(), "READY=1");
    broker.address = first_address(&broker.ready);
    drop(broker.connect());
    stop(broker);
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn the_default_folder_keeps_what_is_durable_and_is_told_at_the_start() {
    let folder = TempFolder::new("store-default");
    let state = folder.path("state");
    let listen = ["--listen", "127.0.0.1:0", "--shards", "1"];
    let begin = || {
        let mut broker = start_as_unit(&state, &listen);
        assert!(broker.ready.contains(&format!("\"folder\":\"{state}\"")), "{}", broker.ready);
        assert!(broker.ready.contains("\"is_default\":true"), "{}", broker.ready);
        broker.address = first_address(&broker.await_line(READY));
        broker
    };
    let broker = begin();
    let (mut client, channel) = connect(&broker);
    client.declare_queue(channel, "q", &durable()).expect("a queue");
    publish(&mut client, channel, Publish::to("", "q"), b"kept");
    client.wait_confirms(channel, 0).expect("confirmed");
    let second = harrier().env("STATE_DIRECTORY", &state).args(["broker"]).args(listen).output().expect("it ends");
    let error = String::from_utf8_lossy(&second.stderr);
    let owner = format!("another broker (process {}) uses this folder", broker.child.id());
    assert!(second.status.code() == Some(1) && error.contains(&owner), "{error}");
    assert!(error.contains("(--state chooses another folder, or none)"), "{error}");
    drop(client);
    drop(broker);
    let broker = begin();
    let (mut client, channel) = connect(&broker);
    let message = client.get(channel, "q", true).expect("an answer").expect("a message");
    assert_eq!(message.body(), b"kept");
    client.close().expect("closed");
    stop(broker);
    let chosen = BrokerProcess::start_until(&["--listen", "127.0.0.1:0", "--state", &state], "the state folder keeps");
    assert!(chosen.ready.contains("\"is_default\":false"), "{}", chosen.ready);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the broker is down for as long as the message may live")]
fn a_time_to_live_goes_on_while_the_broker_is_down() {
    let folder = TempFolder::new("store-ttl");
    let state = folder.path("state");
    let broker = start(&state, &["--shards", "1"]);
    let (mut client, channel) = connect(&broker);
    client.declare_queue(channel, "q", &durable()).expect("a queue");
    for (time_to_live_ms, body) in [("300", b"short"), ("3600000", b"hours")] {
        let properties = Properties {
            delivery_mode: Some(2),
            expiration: Some(ShortString::try_from(time_to_live_ms).expect("short")),
            ..Properties::default()
        };
        let properties = properties.to_bytes();
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", "q") };
        client.publish(channel, &to, body).expect("published");
    }
    client.wait_confirms(channel, 0).expect("confirmed");
    let published = Instant::now();
    drop(client);
    broker.signal(Signal::KILL);
    assert_eq!(broker.end().0, None);
    let lives = || published.elapsed() < Duration::from_millis(300);
    wait_until("the message is too old", || !lives(), String::new);
    let broker = start(&state, &[]);
    let (mut client, channel) = connect(&broker);
    let message = client.get(channel, "q", true).expect("an answer").expect("the one that lives for an hour");
    assert_eq!(message.body(), b"hours");
    assert!(client.get(channel, "q", true).expect("an answer").is_none());
    client.close().expect("closed");
    stop(broker);
}

#[test]
fn a_disk_that_fails_ends_the_broker_with_status_1_and_what_was_confirmed_is_there() {
    let folder = TempFolder::new("store-failed");
    let state = folder.path("state");
    // No file may have more than 2 or 4 MiB, in blocks of 512 or 1,024 bytes: no segment can be made. The signal of it is ignored.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_harrier"), "broker"]);
    limited.args(["--log-format", "json", "--listen", "127.0.0.1:0", "--state", &state, "--segment-bytes", "8MiB"]);
    let broker = start(&state, &["--shards", "1"]);
    let (mut client, channel) = connect(&broker);
    client.declare_queue(channel, "q", &durable()).expect("a queue");
    publish(&mut client, channel, Publish::to("", "q"), b"kept");
    assert_eq!(client.wait_confirms(channel, 0).expect("confirmed"), 0);
    client.close().expect("closed");
    stop(broker);
    let broker = BrokerProcess::spawn(limited, "the disk has failed");
    assert!(broker.ready.contains("File too large"), "{}", broker.ready);
    let (status, log) = broker.end();
    assert_eq!(status, Some(1), "{log}");
    let broker = start(&state, &[]);
    let (mut client, channel) = connect(&broker);
    let message = client.get(channel, "q", true).expect("an answer").expect("what was confirmed");
    assert_eq!(message.body(), b"kept");
    client.close().expect("closed");
    stop(broker);
}

#[test]
fn a_second_broker_is_told_who_has_the_folder() {
    let folder = TempFolder::new("store-locked");
    let state = folder.path("state");
    let broker = start(&state, &[]);
    let second = output(&["broker", "--listen", "127.0.0.1:0", "--state", &state]);
    let error = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{error}");
    let owner = format!("another broker (process {}) uses this folder", broker.child.id());
    assert!(error.contains(&owner), "{error}");
    stop(broker);
}

#[test]
fn without_a_state_folder_nothing_is_kept() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--state", "none"]);
    let (mut client, channel) = connect(&broker);
    client.declare_queue(channel, "q", &durable()).expect("a queue");
    publish(&mut client, channel, Publish::to("", "q"), b"x");
    client.wait_confirms(channel, 0).expect("confirmed");
    client.close().expect("closed");
    assert!(!stop(broker).contains("the store is open"));
    assert!(!std::path::Path::new("none").exists(), "it is no name of a folder");
}

/// What `harrier ctl store` prints of a broker, as JSON.
fn store_numbers(broker: &BrokerProcess) -> Json {
    let told = output(&["ctl", "store", "--url", &format!("amqp://{}", broker.address), "--json"]);
    assert_eq!(told.status.code(), Some(0), "{}", String::from_utf8_lossy(&told.stderr));
    Json::read(&told.stdout).expect("JSON")
}

fn number(of: &Json, log: &str, key: &str) -> i64 {
    match of.get(log).and_then(|log| log.get(key)) {
        Some(Json::Int(number)) => *number,
        other => panic!("{log} {key}: {other:?}"),
    }
}

#[test]
fn an_administrator_sees_what_the_store_has_written() {
    let folder = TempFolder::new("store-numbers");
    let broker = start(&folder.path("state"), &["--shards", "2"]);
    let (mut client, channel) = connect(&broker);
    let before = store_numbers(&broker);
    assert_eq!(number(&before, "all_shards", "messages_written"), 0);
    client.declare_queue(channel, "q", &durable()).expect("a queue");
    let declared = store_numbers(&broker);
    assert!(number(&declared, "definitions", "groups_written") > number(&before, "definitions", "groups_written"));
    (0..20).for_each(|_| publish(&mut client, channel, Publish::to("", "q"), &[0; 1_000]));
    client.wait_confirms(channel, 0).expect("confirmed");
    let after = store_numbers(&broker);
    let Some(Json::List(shards)) = after.get("shards") else { panic!("no shards: {after:?}") };
    assert_eq!(shards.len(), 2);
    let all = |key: &str| number(&after, "all_shards", key);
    assert_eq!(all("messages_written"), 20);
    assert!(all("groups_written") > 0 && all("bytes_written") > 20_000 && all("live_bytes") > 20_000, "{after:?}");
    assert!(all("syncs") >= all("groups_written") && all("write_us_max") > 0, "{after:?}");
    assert!(all("write_us_sum") >= all("write_us_max") && all("segments_spare") > 0, "{after:?}");
    assert_eq!((all("segments_in_use"), all("log_bytes")), (1, 4 << 20));
    assert_eq!(number(&after, "spilled", "messages_written"), 0, "all are in memory");
    let table = output(&["ctl", "store", "--url", &format!("amqp://{}", broker.address)]);
    let table = String::from_utf8_lossy(&table.stdout);
    let names: Vec<&str> = table.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(names, ["log", "shard 0", "shard 1", "all shards", "spilled", "definitions"], "{table}");
    client.close().expect("closed");
    stop(broker);
}

#[test]
fn a_broker_without_a_store_says_so_to_who_asks_for_its_numbers() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--state", "none"]);
    let told = output(&["ctl", "store", "--url", &format!("amqp://{}", broker.address)]);
    let error = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(78), "{error}");
    assert!(error.contains("it has no store (no-state)"), "{error}");
    stop(broker);
}
