//! What may come to another broker twice is stamped, once, and nothing else is.

use super::delays::{bind, exchange, publish, with_headers};
use super::*;
use broker::ConnectionSlot;
use catalog::MessageStamp;
use std::collections::BTreeSet;
use wire::method::exchange as methods;

/// Everything published to `x` goes to `here`, and what is bound to `up` with these arguments to `there`.
fn federate(world: &mut BrokerWorld, owner: WorldConnection, arguments: &[(&str, Value)]) {
    for name in ["here", "there"] {
        declare(world, owner, name, &[]);
    }
    exchange(world, owner, "x", "topic", &[]);
    exchange(world, owner, "up", "x-federation-upstream", &[("x-max-hops", Value::I64(3))]);
    bind(world, owner, "x", "#", "here", &[]);
    bind(world, owner, "up", "", "there", &[]);
    bind_up(world, owner, "a.*", arguments);
}

fn bind_up(world: &mut BrokerWorld, at: WorldConnection, key: &str, arguments: &[(&str, Value)]) {
    let table = arguments
        .iter()
        .fold(Table::default(), |table, (name, value)| table.with(name, value.clone()).expect("a short name"));
    let bytes = table.to_bytes();
    let (destination, source, routing_key) = (short("up"), short("x"), short(key));
    let arguments = TableRef::new(&bytes);
    world.command(at, methods::Bind { destination, source, routing_key, no_wait: false, arguments });
    assert_eq!(world.sent(at), "exchange.bind-ok");
}

fn unbind_up(world: &mut BrokerWorld, at: WorldConnection, key: &str, arguments: &[(&str, Value)]) {
    let table = arguments
        .iter()
        .fold(Table::default(), |table, (name, value)| table.with(name, value.clone()).expect("a short name"));
    let bytes = table.to_bytes();
    let (destination, source, routing_key) = (short("up"), short("x"), short(key));
    let arguments = TableRef::new(&bytes);
    world.command(at, methods::Unbind { destination, source, routing_key, no_wait: false, arguments });
    assert_eq!(world.sent(at), "exchange.unbind-ok");
}

/// The stamps of all deliveries of a body, wherever they went.
fn stamps(world: &mut BrokerWorld, body: &str) -> Vec<Option<MessageStamp>> {
    let delivered = world.shards.iter_mut().flat_map(|(_, recorder)| std::mem::take(&mut recorder.stamps));
    delivered.filter(|(what, _)| what == body).map(|(_, stamp)| stamp).collect()
}

const WINDOW: (&str, Value) = ("x-harrier-window", Value::Bool(true));

#[test]
fn messages_of_a_forced_route_are_stamped_once() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        for (broker, _) in &mut world.shards {
            broker.set_origin(0xfeed);
        }
        federate(world, owner, &[WINDOW]);
        consume(world, consumer, "here", "here", true);
        consume(world, consumer, "there", "there", true);
        let mut all = BTreeSet::new();
        // The second of each is routed by what is remembered.
        for (number, key) in ["a.b", "a.b", "a.c", "a.c"].into_iter().enumerate() {
            publish(world, publisher, "x", key, "m", &Properties::default(), false);
            let found = stamps(world, "m");
            let [Some(first), Some(second)] = found[..] else { panic!("{key}: {found:?}") };
            assert_eq!(first, second, "every copy has the same");
            all.insert(format!("{first:?}"));
            assert_eq!(all.len(), number + 1, "every message has another");
        }
        // What does not go that way is as it was.
        publish(world, publisher, "x", "b", "plain", &Properties::default(), false);
        assert_eq!(stamps(world, "plain"), [None]);
        unbind_up(world, owner, "a.*", &[WINDOW]);
        bind_up(world, owner, "a.*", &[("x-harrier-window", Value::Bool(false))]);
        publish(world, publisher, "x", "a.b", "plain", &Properties::default(), false);
        assert_eq!(stamps(world, "plain"), [None; 2]);
    });
}

/// A message that has been somewhere already.
fn publish_stamped(
    world: &mut BrokerWorld,
    at: WorldConnection,
    exchange: &str,
    key: &str,
    body: &str,
) -> MessageStamp {
    let stamp = MessageStamp::new(0xbeef, 3, 9);
    let properties = stamp.put_on(wire::RawProperties::new(&with_headers(&[("n", Value::I32(1))]).to_bytes()));
    let _flow = world.publish_only(at, exchange, key, body, &properties, false);
    world.exchange_batches();
    stamp
}

#[test]
fn links_keep_stamps_and_clients_lose_them() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        world.shards.iter_mut().for_each(|(broker, _)| broker.set_origin(0xfeed));
        let link = world.connect(0, 9);
        world.shards[0].0.mark_link(ConnectionSlot::new(9), 0);
        declare(world, owner, "q", &[]);
        consume(world, consumer, "q", "q", true);
        publish_stamped(world, publisher, "", "q", "a");
        assert!(stamps(world, "a")[0].is_some(), "nobody pulls from this broker: nobody looks at headers");
        federate(world, owner, &[WINDOW]);
        consume(world, consumer, "here", "here", true);
        consume(world, consumer, "there", "there", true);
        for (key, copies) in [("a.b", 2), ("b", 1)] {
            let before = publish_stamped(world, link, "x", key, "passed on");
            assert_eq!(stamps(world, "passed on"), vec![Some(before); copies]);
        }
        let before = publish_stamped(world, publisher, "x", "a.b", "copied");
        let found = stamps(world, "copied");
        assert!(
            found.len() == 2 && found[0].is_some() && found[0] == found[1] && found[0] != Some(before),
            "{found:?}"
        );
        publish_stamped(world, publisher, "x", "b", "copied");
        assert_eq!(stamps(world, "copied"), [None], "wherever it goes from here, it has not been there");
        // One that a link brings without a stamp gets one.
        publish(world, link, "x", "a.b", "new", &with_headers(&[("n", Value::I32(1))]), false);
        assert!(stamps(world, "new").iter().all(Option::is_some));
    });
}

#[test]
fn a_dead_letter_gets_another_stamp_and_a_delayed_message_keeps_its_own() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        world.shards.iter_mut().for_each(|(broker, _)| broker.set_origin(0xfeed));
        let link = world.connect(0, 9);
        world.shards[0].0.mark_link(ConnectionSlot::new(9), 0);
        federate(world, owner, &[WINDOW]);
        let to = |key: &str| {
            [
                ("x-dead-letter-exchange", Value::text("x")),
                ("x-dead-letter-routing-key", Value::text(key)),
                ("x-message-ttl", Value::I32(0)),
            ]
        };
        declare(world, owner, "dies", &to("a.b"));
        declare(world, owner, "dies alone", &to("b"));
        consume(world, consumer, "here", "here", true);
        consume(world, consumer, "there", "there", true);
        for publisher in [publisher, link] {
            let before = publish_stamped(world, publisher, "", "dies", "m");
            world.advance(1);
            let found = stamps(world, "m");
            assert!(
                found.len() == 2 && found[0].is_some() && found[0] == found[1] && found[0] != Some(before),
                "{found:?}"
            );
            publish_stamped(world, publisher, "", "dies alone", "m");
            world.advance(1);
            assert_eq!(stamps(world, "m"), [None]);
        }
        exchange(world, owner, "later", "x-delayed-message", &[("x-delayed-type", Value::text("topic"))]);
        let (destination, source, routing_key) = (short("up"), short("later"), short("#"));
        let window = Table::default().with(WINDOW.0, WINDOW.1).expect("short").to_bytes();
        let arguments = TableRef::new(&window);
        world.command(owner, methods::Bind { destination, source, routing_key, no_wait: false, arguments });
        assert_eq!(world.sent(owner), "exchange.bind-ok");
        publish(world, publisher, "later", "a", "d", &with_headers(&[("x-delay", Value::I32(100))]), false);
        world.advance(101);
        assert!(matches!(stamps(world, "d")[..], [Some(_)]));
        let before = MessageStamp::new(0xbeef, 3, 9);
        let delayed =
            before.put_on(wire::RawProperties::new(&with_headers(&[("x-delay", Value::I32(100))]).to_bytes()));
        let _flow = world.publish_only(link, "later", "a", "d", &delayed, false);
        world.advance(101);
        assert_eq!(stamps(world, "d"), [Some(before)]);
    });
}

#[test]
fn messages_of_a_transaction_and_with_further_keys_are_stamped() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        for (broker, _) in &mut world.shards {
            broker.set_origin(0xfeed);
        }
        federate(world, owner, &[WINDOW]);
        consume(world, consumer, "here", "here", true);
        consume(world, consumer, "there", "there", true);
        let further = Value::List([Value::text("a.x")].into_iter().collect());
        for header in ["CC", "BCC"] {
            publish(world, publisher, "x", "b", "m", &with_headers(&[(header, further.clone())]), false);
            let found = stamps(world, "m");
            assert!(found.len() == 2 && found[0].is_some() && found[0] == found[1], "{header}: {found:?}");
        }
        world.command(publisher, tx::Select {});
        publish(world, publisher, "x", "a.b", "t", &Properties::default(), false);
        world.command(publisher, tx::Commit {});
        let found = stamps(world, "t");
        assert!(found.len() == 2 && found[0].is_some() && found[0] == found[1], "{found:?}");
    });
}

#[test]
fn a_broker_without_an_origin_stamps_nothing() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        federate(world, owner, &[WINDOW]);
        consume(world, consumer, "there", "there", true);
        publish(world, publisher, "x", "a.b", "m", &Properties::default(), false);
        assert_eq!(stamps(world, "m"), [None]);
    });
}
