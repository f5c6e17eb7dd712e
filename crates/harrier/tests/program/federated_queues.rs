//! Federated queues, as parameters and policies make them, between brokers that are processes.

use super::management::{ApiBroker, metric_sum};
use super::upstreams::ApiHost;
use super::{PATIENCE, TempFolder, output, wait_until};
use client::{Client, ConsumeOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const QUEUE: &str = "/api/queues/%2F/fed.q";
const PREFETCH: u64 = 5;
/// How long a consumer waits before it looks whether it is to go on.
const PACE: Duration = Duration::from_millis(20);

fn policy() -> Value {
    json!({"pattern": "^fed\\.", "apply-to": "queues", "definition": {"federation-upstream": "up"}})
}

/// Gives queues of a broker an upstream.
fn federate(broker: &ApiBroker, upstream: &ApiHost<'_>) {
    let value = json!({"uri": upstream.url(), "prefetch-count": PREFETCH, "reconnect-delay": 0.2,
                       "consumer-tag": "ours"});
    broker.done("PUT", "/api/parameters/federation-upstream/%2F/up", &json!({"value": value}));
    broker.done("PUT", "/api/policies/%2F/federate", &policy());
}

fn publish(broker: &ApiBroker, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| broker.publish("amq.default", "fed.q", &number.to_string()));
}

/// Waits until a queue has so many messages that wait, and so many consumers.
fn until(broker: &ApiBroker, ready: u64, consumers: u64) {
    broker.wait_for(QUEUE, &format!("{ready} messages, {consumers} consumers"), |queue| {
        queue["messages_ready"] == ready && queue["consumers"] == consumers
    });
}

fn until_running(broker: &ApiBroker) -> Value {
    broker.wait_for("/api/federation-links", "a link that runs", |links| links[0]["status"] == "running")
}

/// A consumer of the queue, which takes so many messages without an acknowledgement.
struct Consumer {
    client: Client,
    channel: client::ClientChannel,
    /// Numbers of the messages that came, with how often.
    came: BTreeMap<u64, u32>,
}

impl Consumer {
    fn of(broker: &ApiBroker, prefetch: u16) -> Self {
        let mut client = broker.client();
        let channel = client.open_channel().expect("a channel");
        client.qos(channel, prefetch, false).expect("limited");
        client.consume(channel, "fed.q", &ConsumeOptions::default()).expect("consumes");
        Consumer { client, channel, came: BTreeMap::new() }
    }

    /// Takes more messages, which are acknowledged or not.
    fn take(&mut self, count: usize, acknowledges: bool) {
        for _ in 0..count {
            let delivery = self.client.next_delivery(PATIENCE).expect("a connection").expect("a message");
            let number = String::from_utf8_lossy(delivery.body()).parse().expect("a number");
            let tag = delivery.delivery_tag;
            *self.came.entry(number).or_default() += 1;
            if acknowledges {
                self.client.ack(self.channel, tag, false).expect("acknowledged");
            }
        }
        self.client.flush().expect("sent");
    }

    fn leave(self) -> Vec<u64> {
        self.client.close().expect("closed");
        assert!(self.came.values().all(|times| *times == 1), "{:?}", self.came);
        self.came.into_keys().collect()
    }
}

#[test]
fn messages_stay_at_the_upstream_until_somebody_consumes_downstream() {
    let folder = TempFolder::new("federated-queues");
    let (mut there, mut here) = (ApiHost::new(&folder, "upstream"), ApiHost::new(&folder, "downstream"));
    let (upstream, downstream) = (there.start(), here.start());
    upstream.done("PUT", QUEUE, &json!({"durable": true}));
    publish(&upstream, 0..30);
    federate(&downstream, &there);
    downstream.done("PUT", QUEUE, &json!({"durable": true}));
    let links = until_running(&downstream);
    for (key, expected) in [("type", "queue"), ("queue", "fed.q"), ("upstream_queue", "fed.q"), ("upstream", "up")] {
        assert_eq!(links[0][key], expected, "{links}");
    }
    until(&upstream, 30, 0);
    until(&downstream, 0, 0);
    // A consumer takes as much as it may, and no more than that and the prefetch comes.
    let mut consumer = Consumer::of(&downstream, 3);
    consumer.take(3, false);
    upstream.wait_for(QUEUE, "nobody who consumes", |queue| {
        queue["consumers"] == 0 && queue["messages_unacknowledged"] == 0 && queue["messages_ready"] != 30
    });
    let left = upstream.get(QUEUE).json()["messages"].as_u64().expect("a number");
    assert!((30 - 3 - PREFETCH..=30 - 3).contains(&left), "{left} messages are left");
    downstream.wait_for(QUEUE, "what has left the upstream", |queue| queue["messages"] == 30 - left);
    assert_eq!(consumer.leave(), [0, 1, 2]);
    // It has returned them. Who takes everything gets everything, once and in order of numbers.
    until(&downstream, 30 - left, 0);
    let mut consumer = Consumer::of(&downstream, 100);
    consumer.take(30, true);
    until(&upstream, 0, 1);
    let consumers = upstream.wait_for("/api/consumers/%2F", "a consumer", |all| !all[0].is_null());
    assert_eq!(consumers[0]["consumer_tag"], "ours", "{consumers}");
    assert_eq!(consumers[0]["arguments"]["x-priority"], -1, "{consumers}");
    assert_eq!(consumers[0]["prefetch_count"], PREFETCH, "{consumers}");
    assert_eq!(consumer.leave(), (0..30).collect::<Vec<_>>());
    // It has gone, and what comes now stays: also over restarts of either.
    until(&upstream, 0, 0);
    publish(&upstream, 30..35);
    until(&upstream, 5, 0);
    upstream.stop();
    downstream.wait_for("/api/federation-links/state/down", "a link that is down", |all| all[0]["status"] == "error");
    let upstream = there.start();
    until_running(&downstream);
    until(&upstream, 5, 0);
    downstream.stop();
    let downstream = here.start();
    until_running(&downstream);
    until(&upstream, 5, 0);
    // A message tells how it came.
    let message = {
        let mut consumer = Consumer::of(&downstream, 1);
        consumer.take(1, false);
        consumer.leave();
        downstream.next("fed.q")
    };
    assert_eq!((&message["payload"], &message["routing_key"]), (&json!("30"), &json!("fed.q")), "{message}");
    let headers = &message["properties"]["headers"];
    let hop = &headers["x-received-from"][0];
    assert_eq!((&hop["queue"], &hop["visit-count"]), (&json!("fed.q"), &json!(1)), "{message}");
    assert_eq!(hop["uri"], format!("amqp://{}", there.listen), "{message}");
    assert_eq!(headers["x-original-routing-key"], "fed.q", "{message}");
    // While a consumer waits, the upstream restarts: it goes on.
    let mut consumer = Consumer::of(&downstream, 100);
    consumer.take(4, true);
    until(&upstream, 0, 1);
    upstream.stop();
    let upstream = there.start();
    publish(&upstream, 35..40);
    consumer.take(5, true);
    until(&upstream, 0, 1);
    until_running(&downstream);
    // Administrators see it by the command, too.
    let url = format!("amqp://guest:guest@{}", here.listen);
    let ran = output(&["ctl", "--url", &url, "federation_status", "--formatter", "json"]);
    let text = String::from_utf8([ran.stdout, ran.stderr].concat()).expect("text");
    assert!(ran.status.success() && text.contains("fed.q") && text.contains("running"), "{text}");
    // Without the policy the link is gone, although somebody would consume.
    downstream.done("DELETE", "/api/policies/%2F/federate", &Value::Null);
    assert_eq!(downstream.get("/api/federation-links").json(), json!([]));
    until(&upstream, 0, 0);
    publish(&upstream, 40..42);
    until(&upstream, 2, 0);
    assert_eq!(consumer.leave(), (31..40).collect::<Vec<_>>());
}

#[test]
fn two_brokers_supply_one_another_and_nothing_moves_without_a_consumer() {
    let folder = TempFolder::new("federated-queues-both-ways");
    let (mut one, mut two) = (ApiHost::new(&folder, "one"), ApiHost::new(&folder, "two"));
    let (a, b) = (one.start(), two.start());
    federate(&a, &two);
    federate(&b, &one);
    // The queue is declared at one of them alone: its link declares it at the other, whose link follows.
    let declared = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    a.done("PUT", QUEUE, &declared);
    [&a, &b].iter().for_each(|broker| drop(until_running(broker)));
    assert_eq!(b.get(QUEUE).json()["arguments"]["x-queue-type"], "quorum");
    publish(&a, 0..10);
    publish(&b, 10..20);
    [&a, &b].iter().for_each(|broker| until(broker, 10, 0));
    // A consumer at one of them gets the messages of both.
    let mut consumer = Consumer::of(&a, 100);
    consumer.take(20, true);
    until(&b, 0, 1);
    assert_eq!(consumer.leave(), (0..20).collect::<Vec<_>>());
    // So it is the other way round; who consumes where messages are has them first.
    until(&b, 0, 0);
    publish(&a, 20..30);
    let mut consumer = Consumer::of(&b, 100);
    consumer.take(10, true);
    let mut other = Consumer::of(&a, 100);
    // The consumer here and the link of the other broker.
    until(&a, 0, 2);
    publish(&a, 30..40);
    other.take(10, true);
    assert_eq!((consumer.leave(), other.leave()), ((20..30).collect(), (30..40).collect()));
    // Nobody consumes: messages stay where they are.
    [&a, &b].iter().for_each(|broker| until(broker, 0, 0));
    publish(&a, 40..43);
    publish(&b, 43..45);
    until(&a, 3, 0);
    until(&b, 2, 0);
    // A message comes back to where it was if consumers go there.
    let mut consumer = Consumer::of(&b, 100);
    consumer.take(5, false);
    consumer.leave();
    until(&b, 5, 0);
    let mut consumer = Consumer::of(&a, 100);
    consumer.take(5, true);
    assert_eq!(consumer.leave(), (40..45).collect::<Vec<_>>());
    [&a, &b].iter().for_each(|broker| until(broker, 0, 0));
}

#[test]
fn an_upstream_s_queue_may_have_another_name_and_links_go_with_their_queues() {
    let folder = TempFolder::new("federated-queue-names");
    let (mut there, mut here) = (ApiHost::new(&folder, "there"), ApiHost::new(&folder, "here"));
    let (upstream, downstream) = (there.start(), here.start());
    let set_upstream = |ack_mode: &str| {
        let value = json!({"uri": there.url(), "queue": "source", "reconnect-delay": 0.2, "ack-mode": ack_mode});
        downstream.done("PUT", "/api/parameters/federation-upstream/%2F/up", &json!({"value": value}));
    };
    set_upstream("on-confirm");
    downstream.done("PUT", "/api/policies/%2F/federate", &policy());
    // Two queues share one: each takes while it wants messages.
    for name in ["fed.q", "fed.r"] {
        downstream.done("PUT", &format!("/api/queues/%2F/{name}"), &json!({"durable": true}));
    }
    // An exclusive queue has no link.
    let mut owner = downstream.client();
    let channel = owner.open_channel().expect("a channel");
    let options = client::QueueOptions { exclusive: true, ..Default::default() };
    owner.declare_queue(channel, "fed.own", &options).expect("declared");
    let links = downstream.wait_for("/api/federation-links", "two links that run", |links| {
        links.as_array().is_some_and(|all| all.iter().filter(|link| link["status"] == "running").count() == 2)
    });
    assert_eq!(links.as_array().map(Vec::len), Some(2), "{links}");
    assert!(links.as_array().expect("a list").iter().all(|link| link["upstream_queue"] == "source"), "{links}");
    upstream
        .wait_for("/api/queues/%2F/source", "a queue that the links have declared", |queue| queue["durable"] == true);
    (0..3).for_each(|number: u64| upstream.publish("amq.default", "source", &number.to_string()));
    let mut consumer = Consumer::of(&downstream, 100);
    consumer.take(3, true);
    upstream.wait_for("/api/queues/%2F/source", "one consumer", |queue| queue["consumers"] == 1);
    // The queue goes, with its consumers. What comes to it until its link has gone, too, stays where it is.
    downstream.done("DELETE", QUEUE, &Value::Null);
    (0..10).for_each(|number: u64| upstream.publish("amq.default", "source", &number.to_string()));
    downstream.wait_for("/api/federation-links", "one link", |links| {
        links.as_array().is_some_and(|all| all.len() == 1 && all[0]["queue"] == "fed.r")
    });
    upstream.wait_for("/api/queues/%2F/source", "all messages and no consumer", |queue| {
        queue["consumers"] == 0 && queue["messages_ready"] == 10 && queue["messages_unacknowledged"] == 0
    });
    // The upstream may forget messages at once.
    set_upstream("no-ack");
    let mut client = downstream.client();
    let channel = client.open_channel().expect("a channel");
    client.consume(channel, "fed.r", &ConsumeOptions::default()).expect("consumes");
    for _ in 0..10 {
        client.next_delivery(PATIENCE).expect("a connection").expect("a message");
    }
    let consumers = upstream.wait_for("/api/consumers/%2F", "a consumer", |all| !all[0].is_null());
    assert_eq!(consumers[0]["ack_required"], false, "{consumers}");
    upstream.wait_for("/api/queues/%2F/source", "no message", |queue| queue["messages"] == 0);
}

/// A queue is deleted while its link brings messages: none of them goes nowhere, and the upstream has back what was under way.
#[test]
fn what_comes_for_a_queue_that_is_gone_stays_at_the_upstream() {
    const MESSAGES: u64 = 50_000;
    let folder = TempFolder::new("federated-queue-gone");
    let (mut there, mut here) = (ApiHost::new(&folder, "there"), ApiHost::new(&folder, "here"));
    let (upstream, downstream) = (there.start(), here.start());
    upstream.done("PUT", QUEUE, &json!({"durable": true}));
    let mut publisher = upstream.client();
    let channel = publisher.open_channel().expect("a channel");
    for _ in 0..MESSAGES {
        publisher.publish(channel, &client::Publish::to("", "fed.q"), &[0; 64]).expect("sent");
    }
    publisher.close().expect("closed");
    until(&upstream, MESSAGES, 0);
    let value = json!({"uri": there.url(), "prefetch-count": 10_000, "reconnect-delay": 0.2});
    downstream.done("PUT", "/api/parameters/federation-upstream/%2F/up", &json!({"value": value}));
    downstream.done("PUT", "/api/policies/%2F/federate", &policy());
    downstream.done("PUT", QUEUE, &json!({"durable": true}));
    until_running(&downstream);
    // The consumer reads all the while, so that messages are under way when the queue goes.
    let (came, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let url = here.url();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::connect(&url).expect("a connection");
            let channel = client.open_channel().expect("a channel");
            client.consume(channel, "fed.q", &ConsumeOptions { no_ack: true, ..Default::default() }).expect("consumes");
            while !is_over.load(Ordering::Relaxed) {
                let delivery = client.next_delivery(PACE).expect("the connection stands");
                came.fetch_add(u64::from(delivery.is_some()), Ordering::Relaxed);
            }
        });
        wait_until("messages come", || came.load(Ordering::Relaxed) > 1_000, || "the consumer".to_owned());
        downstream.done("DELETE", QUEUE, &Value::Null);
        is_over.store(true, Ordering::Relaxed);
    });
    downstream.wait_for("/api/federation-links", "no link", |links| *links == json!([]));
    let left = upstream.wait_for(QUEUE, "less than before, and nothing under way", |queue| {
        let ready = queue["messages_ready"].as_u64().expect("a number");
        queue["consumers"] == 0 && queue["messages_unacknowledged"] == 0 && ready < MESSAGES - 1_000
    });
    assert!(left["messages"] != 0, "the queue has gone too late: {left}");
    let moved = MESSAGES - left["messages"].as_u64().expect("a number");
    let mut metrics = String::new();
    let of = |metrics: &str, name: &str| {
        metric_sum(metrics, &format!("rabbitmq_global_messages_{name}_total"), "amqp091") as u64
    };
    let look = || {
        metrics = downstream.metrics();
        of(&metrics, "received") >= moved
    };
    wait_until("all that has moved is counted", look, || moved.to_string());
    assert_eq!(of(&metrics, "unroutable_dropped"), 0, "of {moved}: {metrics}");
}
