//! The management API of a running broker: what it tells of queues, connections and messages, and to whom.

use super::{BrokerProcess, PATIENCE, field, output, wait_until};
use client::{Client, ConsumeOptions, Publish, QueueOptions};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

/// guest:guest
const GUEST: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

/// A broker with a management API and metrics of its own.
struct ApiBroker {
    process: BrokerProcess,
    api: String,
    metrics: String,
}

/// An answer's status and body.
struct HttpReply {
    status: u16,
    body: String,
}

impl HttpReply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl ApiBroker {
    fn start(words: &[&str]) -> Self {
        let listen =
            ["--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
        let process = BrokerProcess::start(&[&listen[..], words].concat());
        let addresses = field(&process.ready, "management");
        let (api, metrics) = addresses.split_once(' ').expect("two addresses");
        ApiBroker { api: api.to_owned(), metrics: metrics.to_owned(), process }
    }

    fn client(&self) -> Client {
        Client::connect(&format!("amqp://{}", self.process.address)).expect("a connection")
    }

    fn get(&self, target: &str) -> HttpReply {
        request(&self.api, "GET", target, GUEST, "")
    }

    fn wait_for(&self, target: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        let look = || {
            let reply = self.get(target);
            found = (reply.status == 200).then(|| reply.json()).filter(&is_so);
            found.is_some()
        };
        wait_until(what, look, || target.to_owned());
        found.expect("it was so")
    }
}

fn request(address: &str, method: &str, target: &str, headers: &str, body: &str) -> HttpReply {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    HttpReply { status, body: if is_chunked { unchunked(body) } else { body.to_owned() } }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        whole.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").expect("an end");
    }
    whole
}

/// A value of a metric without labels.
fn metric(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.parse().ok()
}

#[test]
fn it_shows_queues_connections_channels_and_consumers() {
    for shards in ["1", "3"] {
        let broker = ApiBroker::start(&["--shards", shards]);
        assert_eq!(broker.get("/api/overview").json()["object_totals"]["queues"], 0);
        let mut client = broker.client();
        let channel = client.open_channel().expect("a channel");
        for name in ["waits", "moves"] {
            client.declare_queue(channel, name, &QueueOptions::default()).expect("a queue");
        }
        client.confirm_select(channel).expect("confirms");
        for _ in 0..7 {
            client.publish(channel, &Publish::to("", "waits"), b"12345").expect("sent");
        }
        client.consume(channel, "moves", &ConsumeOptions::default()).expect("a consumer");
        client.publish(channel, &Publish::to("", "moves"), b"m").expect("sent");
        client.next_delivery(PATIENCE).expect("a connection").expect("a message");
        // What is declared is there at once, what is counted comes with the next report.
        assert_eq!(broker.get("/api/queues/%2F/waits").status, 200);
        let queue = broker.wait_for("/api/queues/%2F/waits", "messages", |queue| queue["messages"] == 7);
        assert_eq!((&queue["messages_ready"], &queue["message_bytes_ready"]), (&7.into(), &35.into()), "{queue}");
        assert_eq!(queue["message_stats"]["publish"], 7);
        let queue = broker.wait_for("/api/queues/%2F/moves", "a delivery", |queue| {
            queue["messages_unacknowledged"] == 1 && queue["consumers"] == 1
        });
        assert_eq!((&queue["message_stats"]["deliver"], &queue["messages_ready"]), (&1.into(), &0.into()), "{queue}");
        let overview = broker.wait_for("/api/overview", "totals", |seen| seen["queue_totals"]["messages"] == 8);
        let totals = &overview["object_totals"];
        assert_eq!((&totals["queues"], &totals["connections"]), (&2.into(), &1.into()), "{totals}");
        assert_eq!((&totals["channels"], &totals["consumers"]), (&1.into(), &1.into()), "{totals}");
        assert_eq!(overview["message_stats"]["publish"], 8);
        let vhost = broker.get("/api/vhosts/%2F").json();
        assert_eq!((&vhost["messages"], &vhost["messages_ready"]), (&8.into(), &7.into()), "{vhost}");
        let connections = broker.get("/api/connections").json();
        let name = connections[0]["name"].as_str().expect("a name").to_owned();
        assert!(name.ends_with(&format!(" -> {}", broker.process.address)), "{name}");
        assert_eq!(connections[0]["state"], "running");
        assert!(connections[0]["recv_oct"].as_u64().expect("a count") > 100, "{connections}");
        let channels = broker.get("/api/channels").json();
        assert_eq!(channels[0]["name"], format!("{name} (1)"));
        assert_eq!((&channels[0]["confirm"], &channels[0]["messages_unacknowledged"]), (&true.into(), &1.into()));
        let consumers = broker.get("/api/consumers/%2F").json();
        assert_eq!(consumers[0]["queue"]["name"], "moves");
        assert_eq!(consumers[0]["channel_details"]["connection_name"], name);
        client.close().expect("an orderly end");
        broker.wait_for("/api/connections", "no connection", |connections| connections == &Value::Array(vec![]));
        broker.wait_for("/api/channels", "no channel", |channels| channels == &Value::Array(vec![]));
    }
}

#[test]
fn a_rate_is_what_happened_in_a_second_and_ends() {
    let broker = ApiBroker::start(&[]);
    let mut client = broker.client();
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, "q", &QueueOptions::default()).expect("a queue");
    broker.wait_for("/api/queues/%2F/q", "the queue", |queue| queue["messages"] == 0);
    client.publish(channel, &Publish::to("", "q"), b"m").expect("sent");
    client.flush().expect("sent");
    let rate = |queue: &Value| queue["message_stats"]["publish_details"]["rate"].as_f64().unwrap_or(0.0);
    let queue = broker.wait_for("/api/queues/%2F/q", "a rate", |queue| rate(queue) > 0.0);
    // A round begins a second after the one before, or later on a busy machine.
    assert!(rate(&queue) <= 1.1, "{queue}");
    let queue = broker.wait_for("/api/queues/%2F/q", "an end", |queue| rate(queue) == 0.0);
    assert_eq!(queue["message_stats"]["publish"], 1);
}

#[test]
fn metrics_need_no_login_and_have_an_address_of_their_own() {
    let broker = ApiBroker::start(&[]);
    let mut client = broker.client();
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, "q", &QueueOptions::default()).expect("a queue");
    for _ in 0..3 {
        client.publish(channel, &Publish::to("", "q"), b"m").expect("sent");
    }
    client.flush().expect("sent");
    let mut text = String::new();
    let look = || {
        text = request(&broker.metrics, "GET", "/metrics", "", "").body;
        metric(&text, "rabbitmq_queue_messages_ready") == Some(3.0)
    };
    wait_until("three messages", look, || "metrics".to_owned());
    assert_eq!(metric(&text, "rabbitmq_connections"), Some(1.0), "{text}");
    assert!(metric(&text, "rabbitmq_process_resident_memory_bytes") > Some(1e6), "{text}");
    let detailed = request(&broker.metrics, "GET", "/metrics/per-object", "", "").body;
    assert!(detailed.contains("rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"q\"} 3"), "{detailed}");
    assert_eq!(request(&broker.metrics, "GET", "/api/overview", GUEST, "").status, 404);
    assert_eq!(request(&broker.api, "GET", "/metrics", GUEST, "").status, 404);
    assert_eq!(request(&broker.api, "GET", "/api/overview", "", "").status, 401);
}

#[test]
fn an_address_that_is_taken_keeps_a_broker_from_starting_only_if_it_was_asked_for() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let taken = other.local_addr().expect("it has an address").to_string();
    let words = ["broker", "--state", "none", "--listen", "127.0.0.1:0", "--management-listen", &taken];
    let ended = output(&words);
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{told}");
    assert!(told.contains(&format!("--management-listen: {taken} cannot be bound")), "{told}");
    let without =
        BrokerProcess::start(&["--listen", "127.0.0.1:0", "--management-listen", "none", "--metrics-listen", "none"]);
    assert!(!without.ready.contains("\"management\""), "{}", without.ready);
}
