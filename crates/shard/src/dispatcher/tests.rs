//! Turns of connections, without a shard: what a connection sends is read, carried out or held back.

use super::Dispatcher;
use crate::connection::ConnectionPhase;
use crate::limits::{BACKLOG_FLUSHES_PER_TICK, CLOSE_TIMEOUT, FLUSH_BYTES_MAX, FLUSHES_PER_BATCH};
use crate::output_queues::OutputQueues;
use crate::test_sessions::{LoginClient, sessions};
use broker::limits::WORK_PER_TURN;
use catalog::{Definition, Name, ShardId};
use link::sim::SimOptions;
use queues::MessageStorage;
use session::{BodyOut, GetOkHead};
use wire::method::{basic, channel, exchange};
use wire::{ChannelNumber, DeliveryTag, ShortStr, Table, TableRef, Value};

#[test]
fn events_go_to_the_login_and_the_broker_core_and_a_half_frame_waits() {
    let mut dispatcher = Dispatcher::new(sessions());
    let now = dispatcher.sessions.options.epoch;
    let mut client = LoginClient::connect(&mut dispatcher.sessions, None);
    let slot = client.slot;
    let phase = |dispatcher: &Dispatcher| dispatcher.sessions.connections.get(slot).map(|found| found.phase);
    client.write_start("PLAIN", b"\0guest\0guest");
    client.send();
    dispatcher.serve_ready(now);
    assert!(matches!(phase(&dispatcher), Some(ConnectionPhase::LoggedIn { .. })));

    client.write_open();
    client.send_all_but(3);
    dispatcher.sessions.on_readiness(slot, true, false, false);
    dispatcher.serve_ready(now);
    assert!(!dispatcher.sessions.connections.get(slot).expect("it is there").unconsumed.is_empty());
    client.send();
    dispatcher.sessions.on_readiness(slot, true, false, false);
    dispatcher.serve_ready(now);
    assert!(matches!(phase(&dispatcher), Some(ConnectionPhase::Open { .. })));
    assert!(dispatcher.sessions.connections.get(slot).expect("it is there").unconsumed.is_empty());

    dispatcher.drain(now);
    assert_eq!(phase(&dispatcher), Some(ConnectionPhase::Closing));
    // Whoever comes before the end is told as well.
    let mut late = LoginClient::connect(&mut dispatcher.sessions, None);
    late.write_start("PLAIN", b"\0guest\0guest");
    late.write_open();
    late.send();
    dispatcher.serve_ready(now);
    let found = dispatcher.sessions.connections.get(late.slot).map(|found| found.phase);
    assert_eq!(found, Some(ConnectionPhase::Closing));
    dispatcher.run_timers(now + CLOSE_TIMEOUT);
    assert_eq!(phase(&dispatcher), None, "the client has not answered in time");
}

#[test]
fn very_many_outputs_are_flushed_with_several_ticks_and_no_other_waits_for_them() {
    let mut dispatcher = Dispatcher::new(sessions());
    let now = dispatcher.sessions.options.epoch;
    let clients = FLUSHES_PER_BATCH + BACKLOG_FLUSHES_PER_TICK + 10;
    let clients: Vec<_> = (0..clients).map(|_| LoginClient::connect(&mut dispatcher.sessions, None)).collect();
    let write = |dispatcher: &mut Dispatcher, client: &LoginClient| {
        let (out, pool) = dispatcher.sessions.effects.writer(client.slot).expect("open");
        out.heartbeat(pool);
    };
    let waiting = |dispatcher: &mut Dispatcher| {
        let effects = &mut dispatcher.sessions.effects;
        clients.iter().filter(|client| effects.output(client.slot).is_some_and(|output| !output.out.is_empty())).count()
    };
    clients.iter().for_each(|client| write(&mut dispatcher, client));
    dispatcher.flush(now);
    assert_eq!(waiting(&mut dispatcher), BACKLOG_FLUSHES_PER_TICK + 10);
    // Who is written to now is one of those that were flushed.
    let last = clients.last().expect("many");
    write(&mut dispatcher, last);
    dispatcher.flush(now);
    assert_eq!(waiting(&mut dispatcher), BACKLOG_FLUSHES_PER_TICK + 10);
    for left in [10, 0] {
        assert!(dispatcher.sessions.effects.outputs.has_backlog());
        dispatcher.flush_backlog(now);
        assert_eq!(waiting(&mut dispatcher), left);
    }
    assert!(!dispatcher.sessions.effects.outputs.has_backlog());
}

#[test]
fn what_links_take_at_once_is_bounded_and_no_other_waits_for_all_of_it() {
    const BODY_BYTES: usize = 12 << 20;
    let mut dispatcher = Dispatcher::new(sessions());
    let now = dispatcher.sessions.options.epoch;
    // Peers that read as fast as the broker writes.
    let options = SimOptions { window_bytes: 16 << 20, ..SimOptions::faultless() };
    let clients = [(); 4].map(|()| LoginClient::connect_over(&mut dispatcher.sessions, None, &options));
    let small = clients[0].slot;
    let body = dispatcher.sessions.effects.pool().copy(&vec![7; BODY_BYTES]);
    let head = GetOkHead {
        delivery_tag: DeliveryTag(1),
        redelivered: false,
        exchange: b"",
        routing_key: b"q",
        message_count: 0,
    };
    for (client, frame_bytes_max) in clients.iter().zip([4_096, 4_096, 128 << 10, 8 << 20]).skip(1) {
        let (out, pool) = dispatcher.sessions.effects.writer(client.slot).expect("open");
        out.set_frame_bytes_max(frame_bytes_max);
        out.get_ok(pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Share(&body));
        assert!(out.bytes() > BODY_BYTES, "all of it waits");
    }
    let waiting = |dispatcher: &Dispatcher| dispatcher.sessions.effects.outputs.bytes();
    let waiting_of = |dispatcher: &Dispatcher| {
        let outputs = &dispatcher.sessions.effects.outputs;
        clients.each_ref().map(|client| outputs.get(client.slot).map_or(0, |output| output.out.bytes()))
    };
    let (mut ticks, mut mixed) = (0, 0);
    while ticks == 0 || dispatcher.sessions.effects.outputs.has_backlog() {
        let (before, before_each) = (waiting(&dispatcher), waiting_of(&dispatcher));
        // What is written meanwhile leaves with the next tick, or with the one after it.
        let (out, pool) = dispatcher.sessions.effects.writer(small).expect("open");
        out.heartbeat(pool);
        assert!(out.bytes() <= 16, "a heartbeat waits for {} ticks", out.bytes() / 8);
        dispatcher.flush_backlog(now);
        ticks += 1;
        let sent = before + 8 - waiting(&dispatcher);
        assert!(sent <= 2 * (FLUSH_BYTES_MAX + (8 << 20)), "{sent} bytes in a tick");
        let sent_each: Vec<usize> = before_each
            .iter()
            .zip(waiting_of(&dispatcher))
            .map(|(before, after)| before.saturating_sub(after))
            .collect();
        // Frames of 4 KiB and of 128 KiB are sent in small pieces.
        assert!(sent_each[1..3].iter().all(|&sent| sent <= FLUSH_BYTES_MAX + (2 << 20)), "{sent_each:?}");
        mixed += usize::from(sent_each[1..].iter().filter(|&&sent| sent > 0).count() > 1);
    }
    assert!(ticks >= 3 && mixed >= 2, "several have their turn in one tick: in {mixed} of {ticks}");
    dispatcher.flush(now);
    assert_eq!(waiting(&dispatcher), 0);
}

/// A client that is logged in, and says that it is a link if it `claims` so.
fn open_client(dispatcher: &mut Dispatcher, claims: bool) -> LoginClient {
    let now = dispatcher.sessions.options.epoch;
    let mut client = LoginClient::connect(&mut dispatcher.sessions, None);
    client.write_start("PLAIN", b"\0guest\0guest");
    client.write_open();
    client.write(ChannelNumber(1), channel::Open {});
    if claims {
        let arguments = Table::new().with("x-harrier-window", Value::Bool(false)).expect("a short name").to_bytes();
        let (exchange, kind) = (ShortStr::literal("amq.fanout"), ShortStr::literal("fanout"));
        let (passive, durable, auto_delete, internal, no_wait) = (true, false, false, false, true);
        let arguments = TableRef::new(&arguments);
        let declare = exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments };
        client.write(ChannelNumber(1), declare);
    }
    serve(dispatcher, &mut client);
    assert!(dispatcher.sessions.broker.has_channel(client.slot, ChannelNumber(1)));
    assert_eq!(dispatcher.sessions.broker.is_push(client.slot), claims);
    dispatcher.serve_ready(now);
    client
}

/// Sends what the client has written, and gives it a turn.
fn serve(dispatcher: &mut Dispatcher, client: &mut LoginClient) {
    client.send();
    dispatcher.sessions.on_readiness(client.slot, true, false, false);
    dispatcher.serve_ready(dispatcher.sessions.options.epoch);
}

#[test]
fn what_a_link_has_pushed_and_was_held_back_is_dropped_when_its_connection_breaks() {
    for (claims, is_seen_at_once) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut dispatcher = Dispatcher::new(sessions());
        let now = dispatcher.sessions.options.epoch;
        let mut client = open_client(&mut dispatcher, claims);
        let slot = client.slot;
        set_memory_alarm(&mut dispatcher, true);
        client.write_publish("amq.fanout", b"first");
        client.write_publish("amq.fanout", b"second");
        client.send();
        dispatcher.sessions.on_readiness(slot, true, false, is_seen_at_once);
        dispatcher.serve_ready(now);
        client.cut();
        dispatcher.sessions.on_readiness(slot, true, true, true);
        dispatcher.serve_ready(now);
        let is_there = dispatcher.sessions.connections.get(slot).is_some();
        assert_eq!(is_there, !claims, "one that is no link waits until its messages are taken");
        assert_eq!(dispatcher.sessions.broker.counters().published, 1, "the second is held back");

        set_memory_alarm(&mut dispatcher, false);
        dispatcher.run_deferred(now);
        dispatcher.serve_ready(now);
        let expected = if claims { 1 } else { 2 };
        assert_eq!(dispatcher.sessions.broker.counters().published, expected, "seen at once: {is_seen_at_once}");
        assert!(dispatcher.sessions.connections.get(slot).is_none());
    }
}

fn set_memory_alarm(dispatcher: &mut Dispatcher, on: bool) {
    let Dispatcher { sessions, .. } = dispatcher;
    sessions.broker.set_memory_alarm(on, &mut sessions.effects);
}

/// Queues of `amq.fanout`, and one of `amq.direct`.
fn declare_queues(dispatcher: &mut Dispatcher, count: usize) {
    let vhost = dispatcher.sessions.broker.catalog().vhost_by_name("/").expect("it is there");
    let names = (0..count).map(|number| ("amq.fanout", format!("q{number}")));
    for (exchange, name) in names.chain([("amq.direct", "by".to_owned())]) {
        let (exchange, name, arguments) = (Name::from(exchange), Name::from(&*name), Table::new());
        let (server_named, durable, exclusive, auto_delete, home) = (false, false, None, false, ShardId(0));
        let (queue, routing_key, session) = (name.clone(), [].into(), None);
        let bind = Definition::BindQueue { vhost, exchange, queue, routing_key, arguments: Table::new(), session };
        let declare =
            Definition::DeclareQueue { vhost, name, server_named, durable, exclusive, auto_delete, arguments, home };
        for definition in [declare, bind] {
            let (broker, effects) = (&mut dispatcher.sessions.broker, &mut dispatcher.sessions.effects);
            broker.start_turn();
            broker.define_as_operator(definition, effects).expect("it is new");
        }
    }
}

fn waiting_in(dispatcher: &Dispatcher, name: &str) -> usize {
    let mut queues = dispatcher.sessions.broker.queues();
    queues.find(|queue| &*queue.name == name).expect("it was declared").ready.len()
}

/// Writes commands of a client. Returns how many publishes these have.
type WriteCommands<'a> = &'a dyn Fn(&mut LoginClient) -> usize;

#[test]
fn a_turn_ends_in_the_middle_of_what_was_received_once_its_budget_is_spent() {
    const QUEUES: usize = 5_000;
    const PUBLISHES: usize = 30;
    // More than a turn may do of what one receive has.
    const GETS: usize = 8_000;
    let write_alike = |client: &mut LoginClient| {
        (0..PUBLISHES).for_each(|_| client.write_publish("amq.fanout", b"m"));
        PUBLISHES
    };
    let write_different = |client: &mut LoginClient| {
        (0..PUBLISHES).for_each(|number| client.write_publish("amq.fanout", &b"mm"[number % 2..]));
        PUBLISHES
    };
    let write_gets = |client: &mut LoginClient| {
        let get = basic::Get { queue: ShortStr::literal("by"), no_ack: true };
        (0..GETS).for_each(|_| client.write(ChannelNumber(1), get));
        0
    };
    let writes: [(&str, WriteCommands<'_>); 3] =
        [("alike", &write_alike), ("different", &write_different), ("gets", &write_gets)];
    for (what, write) in writes {
        let mut dispatcher = Dispatcher::new(sessions());
        let now = dispatcher.sessions.options.epoch;
        let (mut attacker, mut bystander) = (open_client(&mut dispatcher, false), open_client(&mut dispatcher, false));
        declare_queues(&mut dispatcher, QUEUES);
        let publishes = write(&mut attacker);
        bystander.write_publish("amq.direct", b"x");
        for client in [&mut attacker, &mut bystander] {
            client.send();
            dispatcher.sessions.on_readiness(client.slot, true, false, false);
        }
        dispatcher.serve_ready(now);
        assert_eq!(waiting_in(&dispatcher, "by"), 1, "{what}: the bystander has his turn in the same tick");
        assert!(waiting_in(&dispatcher, "q0") < 10.min(publishes + 1), "{what}: the rest comes after him");
        let is_stopped = |dispatcher: &Dispatcher| {
            dispatcher.sessions.connections.get(attacker.slot).is_some_and(|connection| connection.has_unparsed)
        };
        assert!(is_stopped(&dispatcher), "{what}: there is more");
        while is_stopped(&dispatcher) {
            let (broker, effects) = (&mut dispatcher.sessions.broker, &mut dispatcher.sessions.effects);
            broker.start_turn();
            broker.run_deferred(effects);
            dispatcher.run_deferred(now);
            dispatcher.serve_ready(now);
        }
        assert_eq!(waiting_in(&dispatcher, "q0"), publishes, "{what}");
        let most = dispatcher.sessions.broker.counters().work_per_turn_max;
        assert!(most <= u64::from(WORK_PER_TURN) * 5 / 4, "{what}: {most} units of work in a turn");
    }
}

#[test]
fn a_run_of_publishes_ends_where_what_comes_back_fills_the_output() {
    const OUTPUT_BYTES: usize = 512;
    const PUBLISHES: usize = 500;
    let mut sessions = sessions();
    sessions.effects.outputs = OutputQueues::new(OUTPUT_BYTES);
    let mut dispatcher = Dispatcher::new(sessions);
    let now = dispatcher.sessions.options.epoch;
    let mut client = open_client(&mut dispatcher, false);
    let published = |dispatcher: &Dispatcher| dispatcher.sessions.broker.counters().published;
    // No queue is bound.
    (0..PUBLISHES).for_each(|_| client.write_publish_as("amq.fanout", true, b"m"));
    client.send();
    dispatcher.sessions.on_readiness(client.slot, true, false, false);
    let mut last = 0;
    while last < PUBLISHES as u64 {
        dispatcher.serve_ready(now);
        let each = published(&dispatcher) - last;
        // A message that comes back has more than 50 bytes, and twice the bound is where it stops.
        assert!((1..=2 * OUTPUT_BYTES as u64 / 50).contains(&each), "{each} publishes in a turn");
        last += each;
    }
}
