//! Messages that the destination of a route refuses for good are given up, and the route goes on.

#[expect(dead_code, reason = "others dial over a fabric")]
mod brokers;

use brokers::{PATIENCE, TestBroker, bound, pull};
use catalog::{Definition, TopicPermission};
use client::{Client, Publish};
use federation::{AckMode, RouteDirection, RouteKind, RouteSpec, RouteStatus};
use session::SessionLimits;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wire::{Properties, RawProperties, Table, Value};

const BODY_BYTES_MAX: u64 = 1_000;
const FRAME_BYTES_MAX: u32 = 8_192;

/// A source, and a destination that takes small messages only; which of them dials.
struct Pair {
    source: TestBroker,
    destination: TestBroker,
    direction: RouteDirection,
}

impl Pair {
    fn start(shards: u16, direction: RouteDirection) -> Self {
        let limits = SessionLimits {
            message_bytes_max: BODY_BYTES_MAX,
            frame_bytes_max: FRAME_BYTES_MAX,
            ..SessionLimits::default()
        };
        let source = TestBroker::start("source", shards);
        let destination = TestBroker::start_limited("destination", shards, limits);
        for broker in [&source, &destination] {
            broker.declare("trades", "direct");
        }
        source.declare("dead", "fanout");
        Pair { source, destination, direction }
    }

    fn route(&self, ack: AckMode) {
        let has_dead_letters = ack == AckMode::Confirm;
        let spec = RouteSpec {
            direction: self.direction,
            ack,
            dead_letter_exchange: has_dead_letters.then(|| "dead".into()),
            ..pull("trades", RouteKind::Static { key: "k".into() })
        };
        let (dialling, other) = self.dialling();
        dialling.route(other, spec);
    }

    fn dialling(&self) -> (&TestBroker, &TestBroker) {
        match self.direction {
            RouteDirection::Pull => (&self.destination, &self.source),
            RouteDirection::Push => (&self.source, &self.destination),
        }
    }

    /// Waits until the only route has given up so many messages and nothing is in flight; its link has never been down.
    fn until_given_up(&self, many: u64) {
        let is_done = |route: &RouteStatus| route.given_up == many && route.unacknowledged == 0 && route.is_running;
        let what = format!("{many} messages are given up");
        self.dialling().0.until(&what, |links| links[0].routes.iter().all(is_done));
        let link = &self.dialling().0.links()[0];
        assert_eq!(
            (link.connections, link.last_error.as_deref()),
            (1, None),
            "one message takes no link down: {link:?}"
        );
    }

    fn stop(self) {
        self.destination.stop();
        self.source.stop();
    }
}

fn publish(client: &mut Client, channel: client::ClientChannel, body: &[u8], properties: &Properties) {
    let properties = properties.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("trades", "k") };
    client.publish(channel, &to, body).expect("published");
}

fn next(client: &mut Client) -> (Vec<u8>, Properties) {
    let message = client.next_delivery(PATIENCE).expect("a connection").expect("a message");
    (message.body().to_vec(), message.properties.to_properties().expect("sound"))
}

/// Publishes good and bad messages by turns, and checks that the good ones arrive in order, and the bad ones among the dead letters.
fn good_and_bad(ack: AckMode, direction: RouteDirection, shards: u16, bad: impl Fn(u8) -> (Vec<u8>, Properties)) {
    const BAD: u8 = 5;
    let pair = Pair::start(shards, direction);
    let (mut consumer, _) = bound(&pair.destination, "trades", "k");
    let mut dead = pair.source.dead_letters();
    pair.route(ack);
    let (mut client, channel) = pair.source.client();
    for number in 0..BAD {
        publish(&mut client, channel, &[number, 0], &Properties::default());
        let (body, properties) = bad(number);
        publish(&mut client, channel, &body, &properties);
        publish(&mut client, channel, &[number, 1], &Properties::default());
        client.flush().expect("sent");
        if ack == AckMode::None && direction == RouteDirection::Push {
            // What was sent behind it on the channel is lost with it.
            pair.until_given_up(u64::from(number) + 1);
        }
    }
    if ack == AckMode::Confirm {
        // A few may come twice: they were in flight when the channel was closed.
        let (mut seen, mut redelivered) = (Vec::new(), 0);
        while seen.len() < 2 * usize::from(BAD) {
            let body = next(&mut consumer).0;
            let at = seen.iter().position(|other| *other == body);
            match at {
                Some(_) => redelivered += 1,
                None => seen.push(body),
            }
        }
        assert!(seen.is_sorted(), "{seen:?}");
        assert!(redelivered == 0 || direction == RouteDirection::Push);
        for number in 0..BAD {
            let (body, properties) = next(&mut dead);
            assert!(body == bad(number).0, "the bad ones in their order");
            let headers = properties.headers.expect("a history");
            let death = headers.get("x-death").and_then(Value::as_list).expect("deaths").iter().next().cloned();
            let death = death.as_ref().and_then(Value::as_table).expect("a death");
            assert_eq!(death.get("reason").and_then(Value::as_str), Some("rejected"));
        }
    }
    pair.until_given_up(BAD.into());
    // It goes on with many.
    for number in 0..=u8::MAX {
        publish(&mut client, channel, &[u8::MAX, number], &Properties::default());
    }
    client.flush().expect("sent");
    for number in 0..=u8::MAX {
        let body = loop {
            let body = next(&mut consumer).0;
            if body[0] == u8::MAX {
                break body;
            }
        };
        assert_eq!(body, [u8::MAX, number]);
    }
    pair.until_given_up(BAD.into());
    drop((client, consumer, dead));
    pair.stop();
}

const DIRECTIONS: [RouteDirection; 2] = [RouteDirection::Pull, RouteDirection::Push];
const ACKS: [AckMode; 2] = [AckMode::Confirm, AckMode::None];

fn with_filler(bytes: usize) -> Properties {
    let headers = Table::new().with("filler", Value::text(&"x".repeat(bytes))).ok();
    Properties { headers, ..Properties::default() }
}

#[test]
fn a_body_over_the_limit_of_the_destination_is_given_up() {
    for (direction, ack) in DIRECTIONS.into_iter().flat_map(|direction| ACKS.map(|ack| (direction, ack))) {
        for shards in [1, 2] {
            good_and_bad(ack, direction, shards, |number| {
                (vec![number; BODY_BYTES_MAX as usize + 1], Properties::default())
            });
        }
    }
}

#[test]
fn properties_that_do_not_fit_a_frame_of_the_destination_are_given_up() {
    for (direction, ack) in DIRECTIONS.into_iter().flat_map(|direction| ACKS.map(|ack| (direction, ack))) {
        // Too long as they are, or with one more hop.
        for filler_bytes in [20_000, FRAME_BYTES_MAX as usize - 100] {
            good_and_bad(ack, direction, 1, |number| (vec![number, 9], with_filler(filler_bytes)));
        }
    }
}

#[test]
fn a_message_that_the_user_of_the_link_may_not_publish_there_is_given_up() {
    for (direction, shards) in DIRECTIONS.into_iter().flat_map(|direction| [(direction, 1), (direction, 2)]) {
        let pair = Pair::start(shards, direction);
        for broker in [&pair.source, &pair.destination] {
            broker.declare("news", "topic");
        }
        let permission = TopicPermission { write: "^good".into(), read: ".*".into() };
        let (user, vhost, exchange) = ("guest".into(), "/".into(), "news".into());
        let restrict = Definition::SetTopicPermission { user, vhost, exchange, permission };
        assert!(pair.destination.server.admin().define(vec![restrict]).expect("it runs").is_empty());
        let (mut consumer, _) = bound(&pair.destination, "news", "#");
        let kind = RouteKind::Static { key: "#".into() };
        let (dialling, other) = pair.dialling();
        dialling.route(other, RouteSpec { direction, ..pull("news", kind) });
        let (mut client, channel) = pair.source.client();
        for key in ["good.1", "bad.1", "bad.2", "good.2", "bad.3", "good.3"] {
            client.publish(channel, &Publish::to("news", key), key.as_bytes()).expect("published");
        }
        client.flush().expect("sent");
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let body = next(&mut consumer).0;
            if !seen.contains(&body) {
                seen.push(body);
            }
        }
        assert_eq!(seen, [b"good.1", b"good.2", b"good.3"]);
        pair.until_given_up(3);
        drop((client, consumer));
        pair.stop();
    }
}

#[test]
fn the_user_of_a_message_is_not_named_to_other_brokers() {
    for (direction, ack) in DIRECTIONS.into_iter().flat_map(|direction| ACKS.map(|ack| (direction, ack))) {
        let pair = Pair::start(1, direction);
        let (mut consumer, _) = bound(&pair.destination, "trades", "k");
        pair.route(ack);
        // The link is of another user.
        let mut client =
            Client::connect(&pair.source.tcp().replace("guest:guest", "plain:plain")).expect("a connection");
        let channel = client.open_channel().expect("a channel");
        let user_id = "plain".try_into().ok();
        publish(&mut client, channel, b"mine", &Properties { user_id, ..Properties::default() });
        client.flush().expect("sent");
        let (body, properties) = next(&mut consumer);
        assert_eq!((body.as_slice(), properties.user_id), (&b"mine"[..], None));
        pair.until_given_up(0);
        drop((client, consumer));
        pair.stop();
    }
}

/// The events of all tests of this program that a route gives up messages, a line each.
#[derive(Clone, Default)]
struct GivenUpLines(Arc<Mutex<Vec<String>>>);

struct LineText(String);

impl Visit for LineText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("text can be written");
    }
}

impl Subscriber for GivenUpLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "shard::given_up"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = LineText(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().expect("no other thread has failed").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn the_log_says_which_route_gives_up_messages_and_why() {
    const GIVEN_UP: u64 = 11;
    let lines = GivenUpLines::default();
    tracing::subscriber::set_global_default(lines.clone()).expect("it is the only one");
    for direction in DIRECTIONS {
        let pair = Pair::start(1, direction);
        let exchange = format!("{direction:?}");
        for broker in [&pair.source, &pair.destination] {
            broker.declare(&exchange, "direct");
        }
        let (dialling, other) = pair.dialling();
        let spec = RouteSpec { direction, ..pull(&exchange, RouteKind::Static { key: "k".into() }) };
        dialling.route(other, spec.clone());
        let (mut client, channel) = pair.source.client();
        for _ in 0..GIVEN_UP {
            let body = [0; BODY_BYTES_MAX as usize + 1];
            client.publish(channel, &Publish::to(&exchange, "k"), &body).expect("published");
        }
        client.flush().expect("sent");
        pair.until_given_up(GIVEN_UP);
        let lines = lines.0.lock().expect("no other thread has failed");
        let lines: Vec<_> = lines.iter().filter(|line| line.contains(&exchange)).cloned().collect();
        let (link, route) = (&dialling.key(other).peer, spec.title());
        // Who pulls sees that the body is too large; who pushes is told so.
        let why = match direction {
            RouteDirection::Pull => ("LargeBody", "a body of 1001 bytes"),
            RouteDirection::Push => {
                ("Refused", "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000")
            }
        };
        let expected = [1, 10].map(|count| {
            let (what, (reason, text)) = ("a federation route gives up messages", why);
            format!("WARN message={what} link={link:?} route={route:?} reason={reason} count={count} text={text:?}")
        });
        assert_eq!(lines, expected);
        drop(client);
        pair.stop();
    }
}
