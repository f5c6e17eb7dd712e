//! Messages whose queues take long to find, and exchanges that take long to go.

use super::divided::{bind, bodies, exchange_with, no_turn_is_long, publish_with, table, turns};
use super::{is_served, queue_with, world};
use crate::world::BrokerWorld;
use crate::{LIMIT, consume, declare, short};
use broker::limits::WORK_PER_TURN;
use wire::method::{confirm, exchange, queue};
use wire::{List, Table, TableRef, Value};

#[test]
fn a_publish_with_very_many_keys_is_divided_and_confirmed_in_its_order() {
    let (mut world, attacker, bystander) = world();
    exchange_with(&mut world, attacker, "t", "topic", &Table::new());
    declare(&mut world, attacker, "q");
    for number in 0..2_000 {
        bind(&mut world, attacker, "t", "q", &format!("#.a.#.{number}"));
    }
    world.command(attacker, confirm::Select { no_wait: true });
    world.sent(attacker);
    world.runs_deferred = false;
    let mut keys = List::new();
    (0..500).for_each(|number| keys.push(Value::text(&format!("{}{number}", "a.".repeat(100)))));
    let keys = table("CC", Value::List(keys));
    // The one with a single key would be there at once.
    for (number, headers) in [(1, keys.clone()), (2, Table::new()), (3, keys)] {
        world.shards[0].0.start_turn();
        let is_long = !headers.is_empty();
        publish_with(&mut world, attacker, "t", "a.7", &number.to_string(), headers);
        assert_eq!(world.shards[0].0.may_read(attacker.1), !is_long, "nothing overtakes a publish");
        assert!(!is_long || world.sent(attacker).is_empty(), "it is not confirmed yet");
        assert_eq!(turns(&mut world, bystander) > 0, is_long);
        assert!(world.shards[0].0.may_read(attacker.1));
        assert_eq!(world.sent(attacker), format!("ack {number}"));
    }
    no_turn_is_long(&world);
    assert_eq!(bodies(&mut world, bystander, "q"), ["1", "2", "3"]);
}

#[test]
fn an_exchange_with_very_many_bindings_is_deleted_in_turns() {
    const BINDINGS: usize = WORK_PER_TURN as usize * 3;
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let (attacker, bystander) = (world.connect(usize::from(shards) - 1, 1), world.connect(0, 2));
        declare(&mut world, bystander, "by");
        consume(&mut world, bystander, "by", "b", true);
        exchange_with(&mut world, attacker, "x", "direct", &Table::new());
        (0..BINDINGS).for_each(|number| bind(&mut world, attacker, "x", "by", &number.to_string()));
        for at in [attacker, bystander] {
            world.sent(at);
        }
        world.runs_deferred = false;
        let bindings = |world: &BrokerWorld| {
            let count = |broker: &broker::Broker| broker.catalog().bindings_count();
            world.shards.iter().map(|(broker, _)| count(broker)).max().unwrap_or_default()
        };
        for (broker, _) in &mut world.shards {
            broker.start_turn();
        }
        let delete = exchange::Delete { exchange: short("x"), if_unused: false, no_wait: false };
        world.command(attacker, delete);
        assert_eq!(world.sent(attacker), "", "it is not gone everywhere");
        assert!(bindings(&world) > BINDINGS / 2 && !world.shards[attacker.0].0.may_read(attacker.1));
        let turns = turns(&mut world, bystander);
        assert!(turns >= 5, "{turns} turns");
        no_turn_is_long(&world);
        assert_eq!((world.sent(attacker).as_str(), bindings(&world)), ("exchange.delete-ok", 0), "{shards} shards");
    }
}

#[test]
fn letters_along_a_chain_whose_histories_just_fit_go_in_turns() {
    const MESSAGES: usize = 8;
    // One entry is some 107 bytes of 32 KiB.
    for (queues, arrived) in [(300, MESSAGES), (320, 0)] {
        let (mut world, attacker, bystander) = world();
        let dies = |ttl_ms, to: &str| {
            let table = table("x-message-ttl", Value::I32(ttl_ms)).with("x-dead-letter-exchange", Value::text(""));
            table.and_then(|table| table.with("x-dead-letter-routing-key", Value::text(to))).expect("short names")
        };
        queue_with(&mut world, attacker, "first", &dies(10, "0"));
        for number in 0..queues {
            let next = if number + 1 < queues { format!("{:x}", number + 1) } else { "end".to_owned() };
            queue_with(&mut world, attacker, &format!("{number:x}"), &dies(0, &next));
        }
        declare(&mut world, attacker, "end");
        (0..MESSAGES).for_each(|number| _ = world.publish(attacker, "", "first", &number.to_string()));
        world.sent(attacker);
        world.runs_deferred = false;
        let (broker, recorder) = &mut world.shards[0];
        broker.set_now(20_000);
        broker.start_turn();
        broker.run_timers(recorder);
        is_served(&mut world, bystander);
        let turns = turns(&mut world, bystander);
        assert!(turns > 10, "{turns} turns");
        no_turn_is_long(&world);
        let expected: Vec<_> = (0..arrived).map(|number| number.to_string()).collect();
        assert_eq!(bodies(&mut world, attacker, "end"), expected, "{queues} queues");
    }
}

/// So many headers without values, and with names as short as they can be.
fn headers(count: u16) -> Vec<u8> {
    let name = |number: u16| number.to_be_bytes()[usize::from(number < 256)..].to_vec();
    // Further keys must be a list.
    let names = (0..count).map(name).filter(|name| name != b"CC");
    names.flat_map(|name| [&[name.len() as u8], &*name, b"V"].concat()).collect()
}

#[test]
fn a_message_with_as_many_headers_as_fit_a_frame_is_compared_in_turns() {
    const FRAME_BYTES: usize = 128 << 10;
    const BINDINGS: usize = 8;
    const HEADERS: u16 = 32_800;
    const ASKED: u16 = 16_400;
    // They are read, name and value, there is as much work again for bindings, and one binding more.
    const STEP_WORK_MAX: u64 = 4 * HEADERS as u64 + ASKED as u64 * 33 / 32 + 100;
    // As in `docs/bounded-work.md`.
    const _: () = assert!(STEP_WORK_MAX < 150_000);
    let (mut world, attacker, bystander) = world();
    exchange_with(&mut world, attacker, "h", "headers", &Table::new());
    let asked = headers(ASKED);
    let names: Vec<_> = (0..BINDINGS).map(|number| format!("q{number}")).collect();
    for name in &names {
        queue_with(&mut world, attacker, name, &Table::new());
        let (queue, exchange, routing_key) = (short(name), short("h"), short(""));
        let arguments = TableRef::new(&asked);
        world.command(attacker, queue::Bind { queue, exchange, routing_key, no_wait: true, arguments });
    }
    assert_eq!(world.sent(attacker), "", "none is refused");
    let mut properties = Vec::new();
    wire::RawProperties::EMPTY.rewrite(true, &mut properties, |_, out| out.extend_from_slice(&headers(HEADERS)));
    assert!((FRAME_BYTES - 256..FRAME_BYTES).contains(&properties.len()));
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    let _flow = world.publish_only(attacker, "h", "", "m", &properties, false);
    let turns = turns(&mut world, bystander);
    let most = world.shards[0].0.counters().work_per_turn_max;
    assert!(turns > 1 && most <= STEP_WORK_MAX, "{most} units in one of {turns} turns");
    for name in &names {
        assert_eq!(bodies(&mut world, attacker, name), ["m"]);
    }
}
