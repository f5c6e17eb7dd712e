//! The management API of a running broker: what it tells of queues, connections and messages, and to whom.

use super::{BrokerProcess, PATIENCE, field, output, wait_until};
use client::{Client, ConsumeOptions, Publish, QueueOptions};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use wire::{Properties, RawProperties};

/// guest:guest
pub(super) const GUEST: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";

/// A broker with a management API and metrics of its own.
pub(super) struct ApiBroker {
    pub process: BrokerProcess,
    pub api: String,
    metrics: String,
}

/// An answer's status and body.
pub(super) struct HttpReply {
    pub status: u16,
    pub body: String,
}

impl HttpReply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl ApiBroker {
    pub fn start(words: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", words)
    }

    pub fn start_at(address: &str, words: &[&str]) -> Self {
        let listen = ["--listen", address, "--management-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
        let process = BrokerProcess::start(&[&listen[..], words].concat());
        let addresses = field(&process.ready, "management");
        let (api, metrics) = addresses.split_once(' ').expect("two addresses");
        ApiBroker { api: api.to_owned(), metrics: metrics.to_owned(), process }
    }

    pub fn client(&self) -> Client {
        Client::connect(&format!("amqp://{}", self.process.address)).expect("a connection")
    }

    pub fn get(&self, target: &str) -> HttpReply {
        request(&self.api, "GET", target, GUEST, "")
    }

    pub fn metrics(&self) -> String {
        request(&self.metrics, "GET", "/metrics", "", "").body
    }

    pub fn wait_for(&self, target: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
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

pub(super) fn request(address: &str, method: &str, target: &str, headers: &str, body: &str) -> HttpReply {
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
        let exclusive = QueueOptions { exclusive: true, ..QueueOptions::default() };
        client.declare_queue(channel, "own", &exclusive).expect("a queue");
        let own = broker.get("/api/queues/%2F/own").json();
        assert_eq!(own["owner_pid_details"]["name"], name, "{own}");
        client.close().expect("an orderly end");
        broker.wait_for("/api/connections", "no connection", |connections| connections == &Value::Array(vec![]));
        broker.wait_for("/api/channels", "no channel", |channels| channels == &Value::Array(vec![]));
        // What the connection has carried stays counted when it is gone: seven bodies and what is around them.
        let after = broker.get("/api/vhosts/%2F").json();
        let carried = |vhost: &Value, key: &str| vhost[key].as_u64().expect("a count");
        assert!(carried(&after, "recv_oct") > 500 && carried(&after, "send_oct") > 300, "{after}");
        assert!(carried(&after, "recv_oct") > connections[0]["recv_oct"].as_u64().expect("a count"), "{after}");
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
    let memory = metric(&text, "rabbitmq_queue_process_memory_bytes").expect("a sum");
    let of_queue = format!("rabbitmq_queue_process_memory_bytes{{vhost=\"/\",queue=\"q\"}} {memory}\n");
    assert!(memory > 0.0 && detailed.contains(&of_queue), "{memory}: {detailed}");
    assert_eq!(request(&broker.metrics, "GET", "/api/overview", GUEST, "").status, 404);
    assert_eq!(request(&broker.api, "GET", "/metrics", GUEST, "").status, 404);
    assert_eq!(request(&broker.api, "GET", "/api/overview", "", "").status, 401);
}

#[test]
fn definitions_are_made_over_http_and_are_there_at_once() {
    for shards in ["1", "3"] {
        let broker = ApiBroker::start(&["--shards", shards]);
        let put = |target: &str, body: &str| request(&broker.api, "PUT", target, GUEST, body).status;
        assert_eq!(put("/api/vhosts/v", ""), 201);
        assert_eq!(put("/api/vhosts/v", ""), 204);
        assert_eq!(put("/api/users/me", r#"{"password":"secret","tags":"management"}"#), 201);
        let all = r#"{"configure":".*","write":".*","read":".*"}"#;
        assert_eq!(put("/api/permissions/v/me", all), 201);
        assert_eq!(put("/api/exchanges/v/x", r#"{"type":"topic","durable":true}"#), 201);
        for number in 0..20 {
            assert_eq!(put(&format!("/api/queues/v/q{number}"), r#"{"durable":true}"#), 201);
        }
        let policy = r#"{"pattern":"^q1$","definition":{"max-length":2}}"#;
        assert_eq!(put("/api/policies/v/short", policy), 201);
        let bound = request(&broker.api, "POST", "/api/bindings/v/e/x/q/q1", GUEST, r#"{"routing_key":"a.*"}"#);
        assert_eq!(bound.status, 201, "{}", bound.body);
        assert_eq!(broker.get("/api/queues/v").json().as_array().map(Vec::len), Some(20));
        // A client of the new user, in the new virtual host, meets what was made.
        let mut client =
            Client::connect(&format!("amqp://me:secret@{}/v", broker.process.address)).expect("it logs in");
        let channel = client.open_channel().expect("a channel");
        client.confirm_select(channel).expect("confirms");
        for body in [b"1", b"2", b"3"] {
            client.publish(channel, &Publish::to("x", "a.b"), body).expect("sent");
        }
        client.wait_confirms(channel, 0).expect("confirmed");
        let first = client.get(channel, "q1", true).expect("a queue").expect("a message");
        assert_eq!((first.body(), first.messages_left), (&b"2"[..], 1), "the policy has dropped one");
        let unequal = request(&broker.api, "PUT", "/api/queues/v/q1", GUEST, r#"{"durable":false}"#);
        assert_eq!(unequal.status, 400);
        assert!(unequal.body.contains("inequivalent arg 'durable' for queue 'q1' in vhost 'v'"), "{}", unequal.body);
        assert_eq!(request(&broker.api, "DELETE", "/api/queues/v/q1?if-empty=true", GUEST, "").status, 400);
        assert_eq!(request(&broker.api, "DELETE", "/api/queues/v/q1/contents", GUEST, "").status, 204);
        assert_eq!(request(&broker.api, "DELETE", "/api/queues/v/q1?if-empty=true", GUEST, "").status, 204);
        assert_eq!(broker.get("/api/queues/v/q1").status, 404);
        assert_eq!(request(&broker.api, "DELETE", "/api/vhosts/v", GUEST, "").status, 204);
        let told = loop {
            if let Err(error) = client.next_delivery(PATIENCE) {
                break error.to_string();
            }
        };
        assert!(told.contains("320"), "{told}");
        assert_eq!(broker.get("/api/queues/v").status, 404);
    }
}

#[test]
fn messages_are_published_and_got_with_the_rights_of_the_user() {
    let broker = ApiBroker::start(&["--shards", "2"]);
    let ask = |method: &str, target: &str, body: &str| request(&broker.api, method, target, GUEST, body);
    assert_eq!(ask("PUT", "/api/queues/%2F/q", "{}").status, 201);
    let message = |key: &str, body: &str| {
        format!(
            r#"{{"routing_key":"{key}","payload":"{body}","payload_encoding":"string","properties":{{"priority":3}}}}"#
        )
    };
    let publish = |key: &str, body: &str| ask("POST", "/api/exchanges/%2F/amq.default/publish", &message(key, body));
    for body in ["one", "two", "three"] {
        assert_eq!(publish("q", body).json()["routed"], true);
    }
    assert_eq!(publish("nowhere", "lost").json()["routed"], false);
    let get = |count: u32, mode: &str| {
        let wanted = format!(r#"{{"count":{count},"ackmode":"{mode}","encoding":"auto"}}"#);
        ask("POST", "/api/queues/%2F/q/get", &wanted).json()
    };
    let bodies = |got: &Value| {
        let all = got.as_array().expect("a list").iter();
        all.map(|message| message["payload"].as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    let seen = get(2, "peek");
    assert_eq!((bodies(&seen), seen[0]["message_count"].as_u64()), (vec!["one".into(), "two".into()], Some(2)));
    // Getting and putting back changes neither the messages nor their order, but for the mark of their delivery.
    let first = get(2, "ack_requeue_true");
    assert_eq!(bodies(&first), ["one", "two"]);
    assert_eq!((&first[0]["redelivered"], &first[0]["message_count"]), (&false.into(), &2.into()), "{first}");
    assert_eq!((&first[0]["properties"]["priority"], &first[0]["exchange"]), (&3.into(), &"".into()), "{first}");
    let again = get(10, "reject_requeue_true");
    assert_eq!(bodies(&again), ["one", "two", "three"]);
    let marks: Vec<_> = (0..3).map(|at| again[at]["redelivered"].as_bool().expect("a flag")).collect();
    assert_eq!(marks, [true, true, false]);
    assert_eq!(bodies(&get(1, "ack_requeue_false")), ["one"]);
    assert_eq!(bodies(&get(1, "reject_requeue_false")), ["two"]);
    assert_eq!(bodies(&get(9, "ack_requeue_false")), ["three"]);
    assert_eq!(get(1, "ack_requeue_false"), Value::Array(vec![]));
    assert_eq!(ask("GET", "/api/aliveness-test/%2F", "").json()["status"], "ok");
    // A user who may only read.
    assert_eq!(ask("PUT", "/api/users/reader", r#"{"password":"r","tags":"management"}"#).status, 201);
    let read = r#"{"configure":"","write":"","read":".*"}"#;
    assert_eq!(ask("PUT", "/api/permissions/%2F/reader", read).status, 201);
    let reader = "Authorization: Basic cmVhZGVyOnI=\r\n";
    let refused =
        request(&broker.api, "POST", "/api/exchanges/%2F/amq.fanout/publish", reader, &message("q", "not allowed"));
    assert_eq!(refused.status, 401, "{}", refused.body);
    assert_eq!(request(&broker.api, "DELETE", "/api/queues/%2F/q/contents", reader, "").status, 204);
    // What was done leaves no connection behind.
    broker.wait_for("/api/connections", "no connection", |connections| connections == &Value::Array(vec![]));
}

/// The path of the only connection there is.
fn only_connection(broker: &ApiBroker) -> String {
    let listed = broker
        .wait_for("/api/connections", "one", |connections| connections.as_array().is_some_and(|all| all.len() == 1));
    let name = listed[0]["name"].as_str().expect("a name").replace(' ', "%20").replace('>', "%3E");
    format!("/api/connections/{name}")
}

#[test]
fn a_connection_tells_where_its_time_went() {
    let broker = ApiBroker::start(&["--memory-limit", "40MiB"]);
    let mut client = broker.client();
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, "q", &QueueOptions::default()).expect("a queue");
    // Each of these is a turn, of which one in so many is timed.
    for _ in 0..1_000 {
        assert!(client.get(channel, "q", true).expect("an answer").is_none());
    }
    let path = only_connection(&broker);
    let seen = broker.wait_for(&path, "processor time", |one| one["cpu_us"].as_u64().is_some_and(|time| time > 0));
    assert_eq!(seen["held_ms"], 0, "{seen}");
    assert!(seen["round_trip_us"].as_u64().is_some_and(|time| time > 0), "{seen}");
    // Nobody takes these: the publisher is held back, and the time grows although nothing else changes.
    let url = format!("amqp://guest:guest@{}/%2F", broker.process.address);
    let publisher = thread::spawn(move || {
        let (mut client, body) = (Client::connect(&url).expect("a connection"), vec![0; 1 << 20]);
        let channel = client.open_channel().expect("a channel");
        while client.publish(channel, &Publish::to("", "q"), &body).and_then(|_tag| client.flush()).is_ok() {}
    });
    client.close().expect("an orderly end");
    let held_ms = |listed: &Value| listed[0]["held_ms"].as_u64();
    let held = broker.wait_for("/api/connections", "a publisher that is held back", |listed| held_ms(listed) > Some(0));
    broker.wait_for("/api/connections", "more of it", |listed| held_ms(listed) > held_ms(&held));
    drop(broker);
    publisher.join().expect("it ends with the broker");
}

#[test]
fn a_connection_is_closed_with_the_reason_that_was_given() {
    let broker = ApiBroker::start(&["--shards", "2"]);
    let mut clients = [(); 2].map(|()| broker.client());
    let listed = broker
        .wait_for("/api/connections", "both", |connections| connections.as_array().is_some_and(|all| all.len() == 2));
    let name = listed[0]["name"].as_str().expect("a name").replace(' ', "%20").replace('>', "%3E");
    let headers = format!("{GUEST}X-Reason: maintenance at noon\r\n");
    assert_eq!(request(&broker.api, "DELETE", &format!("/api/connections/{name}"), &headers, "").status, 204);
    broker.wait_for("/api/connections", "one", |connections| connections.as_array().is_some_and(|all| all.len() == 1));
    assert_eq!(request(&broker.api, "DELETE", "/api/connections/username/guest", &headers, "").status, 204);
    for client in &mut clients {
        let told = loop {
            if let Err(error) = client.next_delivery(PATIENCE) {
                break error.to_string();
            }
        };
        assert!(told.contains("320") && told.contains("maintenance at noon"), "{told}");
    }
    assert_eq!(request(&broker.api, "DELETE", "/api/connections/nobody", &headers, "").status, 404);
}

#[test]
fn what_is_made_over_http_survives_a_restart() {
    let folder = super::TempFolder::new("management");
    let path = folder.path("state");
    let words = ["--state", path.as_str()];
    let broker = ApiBroker::start(&words);
    let ask = |broker: &ApiBroker, method: &str, target: &str, body: &str| {
        request(&broker.api, method, target, GUEST, body).status
    };
    assert_eq!(ask(&broker, "PUT", "/api/users/me", r#"{"password":"secret","tags":"monitoring"}"#), 201);
    assert_eq!(ask(&broker, "PUT", "/api/queues/%2F/stays", r#"{"durable":true}"#), 201);
    assert_eq!(ask(&broker, "PUT", "/api/queues/%2F/goes", r#"{"durable":false}"#), 201);
    assert_eq!(ask(&broker, "PUT", "/api/global-parameters/mine", r#"{"value":{"a":[1]}}"#), 201);
    assert_eq!(ask(&broker, "PUT", "/api/cluster-name", r#"{"name":"ours"}"#), 204);
    let message =
        r#"{"routing_key":"stays","payload":"m","payload_encoding":"string","properties":{"delivery_mode":2}}"#;
    assert_eq!(ask(&broker, "POST", "/api/exchanges/%2F/amq.default/publish", message), 200);
    drop(broker);
    let broker = ApiBroker::start(&words);
    let me = "Authorization: Basic bWU6c2VjcmV0\r\n";
    let found = request(&broker.api, "GET", "/api/whoami", me, "").json();
    assert_eq!((&found["name"], &found["tags"][0]), (&"me".into(), &"monitoring".into()), "{found}");
    assert_eq!(broker.get("/api/global-parameters/mine").json()["value"]["a"][0], 1);
    assert_eq!(broker.get("/api/cluster-name").json()["name"], "ours");
    assert_eq!(broker.get("/api/overview").json()["cluster_name"], "ours");
    let metrics = request(&broker.metrics, "GET", "/metrics", "", "").body;
    assert!(metrics.contains("rabbitmq_cluster=\"ours\""), "{metrics}");
    broker.wait_for("/api/queues/%2F/stays", "its message", |queue| queue["messages"] == 1);
    assert_eq!(broker.get("/api/queues/%2F/goes").status, 404);
}

/// The sum of all samples of a metric that have this label.
pub(super) fn metric_sum(text: &str, name: &str, label: &str) -> f64 {
    let samples = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "));
    samples.filter(|(labels, _)| labels.contains(label)).filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

#[test]
fn what_the_store_writes_is_told_by_metrics_and_of_the_node() {
    const BODY: [u8; 1_000] = [7; 1_000];
    let folder = super::TempFolder::new("store-metrics");
    let path = folder.path("state");
    let broker = ApiBroker::start(&["--state", &path, "--shards", "2"]);
    let mut client = broker.client();
    let channel = client.open_channel().expect("a channel");
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.declare_queue(channel, "stored", &durable).expect("a queue");
    client.confirm_select(channel).expect("confirms");
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let mut written = 0.0;
    for round in 1..=2 {
        for _ in 0..50 {
            let publish = Publish { properties: RawProperties::new(&persistent), ..Publish::to("", "stored") };
            client.publish(channel, &publish, &BODY).expect("sent");
            // Each one is a group of its own.
            client.wait_confirms(channel, 0).expect("confirmed");
        }
        let messages = f64::from(50 * round);
        let mut text = String::new();
        let look = || {
            text = request(&broker.metrics, "GET", "/metrics", "", "").body;
            metric_sum(&text, "harrier_store_messages_written_total", "log=\"messages\"") == messages
        };
        wait_until("the messages", look, || "/metrics".to_owned());
        let of = |name: &str| metric_sum(&text, &format!("harrier_store_{name}"), "log=\"messages\"");
        let (groups, bytes) = (of("groups_written_total"), of("written_bytes_total"));
        assert!(groups >= messages && bytes >= groups * 4_096.0 && bytes > written, "{groups} groups, {bytes} bytes");
        assert!(of("syncs_total") >= groups && of("sync_seconds_total") > 0.0, "{groups} groups");
        assert!(of("write_duration_seconds_count") >= groups && of("live_bytes") >= messages * 1_000.0);
        assert!(of("segments") >= 1.0 && of("log_bytes") >= bytes, "{}", of("segments"));
        assert_eq!(
            (of("damage_found_total"), metric_sum(&text, "harrier_store_messages_written_total", "spill")),
            (0.0, 0.0)
        );
        assert!(metric_sum(&text, "harrier_store_groups_written_total", "log=\"definitions\"") > 0.0);
        let io = |name: &str| metric(&text, &format!("rabbitmq_io_{name}")).expect("it is told");
        assert!(io("write_ops_total") >= groups && io("sync_ops_total") >= io("write_ops_total"));
        assert!(io("write_bytes_total") >= bytes && io("sync_time_seconds_total") > 0.0);
        written = bytes;
    }
    let nodes =
        broker.wait_for("/api/nodes", "the writes", |nodes| nodes[0]["io_write_bytes"].as_f64() >= Some(written));
    let of = |name: &str| nodes[0][name].as_f64().expect("a number");
    assert!(of("io_write_count") >= 100.0 && of("io_sync_count") >= 100.0, "{nodes}");
    // Of messages, RabbitMQ's overview tells too.
    let overview = broker
        .wait_for("/api/overview", "the writes", |seen| seen["message_stats"]["disk_writes"].as_u64() >= Some(100));
    assert_eq!(overview["message_stats"]["disk_reads"], 0, "nothing was paged out: {overview}");
    // The average is of the last second, in which nothing may have been written.
    assert!(of("io_sync_avg_time") >= 0.0 && nodes[0]["io_write_count_details"]["rate"].is_f64(), "{nodes}");
    client.close().expect("closed");
}

#[test]
fn what_shards_do_is_told_and_what_passed_is_shown() {
    let broker = ApiBroker::start(&["--shards", "2"]);
    let mut client = broker.client();
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, "q", &QueueOptions::default()).expect("a queue");
    client.consume(channel, "q", &ConsumeOptions::default()).expect("a consumer");
    for _ in 0..4_096 {
        client.publish(channel, &Publish::to("", "q"), b"m").expect("sent");
        client.next_delivery(PATIENCE).expect("a connection").expect("a message");
    }
    let ask = "/api/overview?msg_rates_age=10&msg_rates_incr=5";
    let overview = broker.wait_for(ask, "the messages", |overview| overview["message_stats"]["publish"] == 4_096);
    let samples = overview["message_stats"]["publish_details"]["samples"].as_array().expect("samples");
    assert!(samples.iter().all(|sample| sample["timestamp"].as_u64().is_some_and(|at| at % 5_000 == 0)));
    let metrics = request(&broker.metrics, "GET", "/metrics", "", "").body;
    for shard in ["0", "1"] {
        let of = |name: &str| metric(&metrics, &format!("{name}{{shard=\"{shard}\"}}")).expect("it is told");
        assert!(of("harrier_shard_busy_seconds_total") > 0.0 && of("harrier_shard_idle_seconds_total") > 0.0);
        assert!(of("harrier_shard_round_duration_seconds_count") > 0.0);
    }
    for (name, labels, wanted) in [
        ("message_size_bytes_bucket", ",le=\"100\"", 4_096.0),
        ("message_size_bytes_bucket", ",le=\"100000000\"", 4_096.0),
        ("message_size_bytes_sum", "", 4_096.0),
        ("global_publishers", "", 1.0),
    ] {
        let found = metric(&metrics, &format!("rabbitmq_{name}{{protocol=\"amqp091\"{labels}}}"));
        assert_eq!(found, Some(wanted), "{name}{labels}");
    }
    assert!(metric(&metrics, "harrier_delivery_latency_seconds_count") >= Some(2.0), "one in about a thousand");
    assert!(metric(&metrics, "harrier_memory_bytes{kind=\"resident\"}") > Some(0.0));
    let attempts = broker.get(&format!("/api/auth/attempts/{}", overview["node"].as_str().expect("a name"))).json();
    let counted =
        |at: usize| ["protocol", "auth_attempts_succeeded", "auth_attempts_failed"].map(|key| &attempts[at][key]);
    assert_eq!(counted(0), [&Value::from("amqp091"), &1.into(), &0.into()]);
    assert_eq!((counted(1)[0], counted(1)[2]), (&"http".into(), &0.into()));
    let node = overview["node"].as_str().expect("a name");
    let reset = request(&broker.api, "DELETE", &format!("/api/auth/attempts/{node}"), GUEST, "");
    assert_eq!(reset.status, 204);
    let attempts = broker.get(&format!("/api/auth/attempts/{node}")).json();
    // The request that asks is counted itself.
    let succeeded = |at: usize| attempts[at]["auth_attempts_succeeded"].clone();
    assert_eq!((succeeded(0), succeeded(1)), (0.into(), 1.into()));
    client.close().expect("closed");
}

#[test]
fn a_memory_alarm_is_told_while_it_lasts_and_remembered() {
    const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
    let broker = ApiBroker::start(&["--shards", "2", "--memory-limit", "64MiB"]);
    assert_eq!(broker.get("/api/alarms/history").body, "[]");
    let url = format!("amqp://{}", broker.process.address);
    // It is held back in the middle, and sends the rest when the queues are purged. None of them has a full share of the memory.
    let publisher = std::thread::spawn(move || {
        let mut client = Client::connect(&url).expect("a connection");
        let channel = client.open_channel().expect("a channel");
        let queues =
            QUEUES.map(|queue| client.declare_queue(channel, queue, &QueueOptions::default()).expect("a queue").name);
        client.confirm_select(channel).expect("confirms");
        for queue in queues.iter().cycle().take(100) {
            client.publish(channel, &Publish::to("", queue), &vec![0; 1 << 20]).expect("sent");
        }
        client.wait_confirms(channel, 0).expect("confirmed");
    });
    let history = "/api/alarms/history";
    let alarms =
        broker.wait_for(history, "an alarm", |alarms| alarms[0]["cleared_at"].is_null() && alarms[0] != Value::Null);
    assert_eq!(alarms[0]["resource"], "memory");
    let raised = alarms[0]["raised_at"].as_str().expect("a time").to_owned();
    let check = broker.get("/api/health/checks/alarms");
    assert!(check.status == 503 && check.body.contains("memory"), "{}", check.body);
    assert_eq!(broker.get("/api/nodes").json()[0]["mem_alarm"], true);
    let purge = || {
        for queue in QUEUES {
            let target = format!("/api/queues/%2F/{queue}/contents");
            assert_eq!(request(&broker.api, "DELETE", &target, GUEST, "").status, 204);
        }
    };
    while !publisher.is_finished() {
        purge();
    }
    publisher.join().expect("it has sent everything");
    purge();
    let all_over =
        |alarms: &Value| alarms.as_array().is_some_and(|all| all.iter().all(|one| !one["cleared_at"].is_null()));
    let alarms = broker.wait_for(history, "its end", all_over);
    let first = alarms.as_array().and_then(|all| all.last()).expect("it is remembered");
    assert_eq!(first["raised_at"], raised.as_str());
    assert!(first["cleared_at"].as_str() >= Some(&*raised), "{first}");
    assert_eq!(broker.get("/api/health/checks/alarms").status, 200);
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
