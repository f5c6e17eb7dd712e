//! The target `work`: whatever clients ask for, no turn does much more than its budget, and all turns together do no more
//! than was asked for.
//!
//! Enters: steps, each a byte that says which and what it is about: definitions, messages, consumers, settlements,
//!         transactions, ends of channels and connections, time, turns of what was left.
//! Leaves: nothing, or a panic.
//! Owns:   the bounds.
//! Never:  looks at a clock: what counts is the work that the broker counts, and the turns that it takes.
//!
//! The bound of all work follows from how messages multiply. A message enters each queue at most once, by a binding. In a
//! queue that has an exchange for dead letters it may die, and each dead letter does the same. Without a consumer that rejects
//! it a message never returns to a queue where it has died, so that its deaths are at most as many as there are sequences of
//! different such queues: quick to grow, so there are few of these queues. A step may move one message, or all there are.

use crate::one_shard::{OneShard, OneTurn};
use crate::steps::Steps;
use crate::tables::list;
use broker::ConnectionSlot;
use wire::method::{basic, channel, confirm, exchange, queue, tx};
use wire::{ChannelNumber, DeliveryTag, Method, Properties, ShortStr, ShortString, Table, TableRef, Value};

mod samples;
pub use samples::samples;

/// Units of a turn: so few that what is not divided shows.
const WORK_PER_TURN: u32 = 1_024;
/// A turn ends with the command that has spent its budget, and with a step that is not divided: the definition that ends a session
/// with all exclusive queues is the largest.
const WORK_MAX: u64 = WORK_PER_TURN as u64 * 3 / 2;
/// Units for each thing that the bound of all work counts: a message enters a queue, is delivered, settled and dies,
/// with its headers and the deaths in them; a consumer comes and goes.
const WORK_EACH: u64 = 16;
/// Units that the same steps may cost without anything that is counted.
const WORK_MIN: u64 = 4_096;
/// Turns of what was left, beside those that spend a quarter of their budget.
const TURNS_MIN: u64 = 16;
/// Messages of a queue that expire in one of these at least.
const MESSAGES_PER_TURN: u64 = 64;
/// Messages after which there are enough of them, and nothing more is asked for.
const MESSAGES_ENOUGH: u64 = 4_000;
/// Units of work after which there were enough of them.
const WORK_ENOUGH: u64 = 1 << 18;
/// Units of work after which a step has done enough of what it repeats.
const WORK_OF_STEP_ENOUGH: u64 = 1 << 15;

const CONNECTIONS: u16 = 3;
const CHANNELS: u16 = 2;
/// Fanout exchanges, `f0` and so on, to which one of them leads, and the queues of each: all queues are more than a turn may
/// do, and what the removal of an exchange does in one step is not.
const FANOUTS: usize = 14;
const QUEUES_PER_FANOUT: usize = 96;
const QUEUES_MAX: usize = FANOUTS * QUEUES_PER_FANOUT;
/// Exclusive queues, which go in one step, and bindings beside those of the queues to these exchanges.
const EXCLUSIVE_MAX: usize = 12;
const CONSUMERS_MAX: usize = 600;
/// Consumers of a channel: their windows are widened in one step.
const CONSUMERS_PER_CHANNEL_MAX: usize = 200;
const BINDINGS_MAX: usize = 80;
/// Queues that have an exchange for dead letters.
const DYING: usize = 3;
const EXCHANGES: [(&str, &str); 4] = [("", ""), ("f", "fanout"), ("t", "topic"), ("d", "direct")];
/// Routing keys, and patterns of topics.
const KEYS: [&str; 8] = ["d0", "d1", "d2", "p0", "p1", "a", "a.b", "#"];

/// Of a step: what it leaves is not done before the next.
const GOES_ON: u8 = 128;
const DECLARE_DYING: u8 = 0;
const DECLARE_PLAIN: u8 = 1;
const BIND: u8 = 2;
const PUBLISH: u8 = 3;
const CONSUME: u8 = 4;
const CANCEL: u8 = 5;
const SETTLE: u8 = 6;
const RECOVER: u8 = 7;
const QOS: u8 = 8;
const TRANSACTION: u8 = 9;
const CONFIRM: u8 = 10;
const CLOSE: u8 = 11;
const DELETE_QUEUES: u8 = 12;
const DELETE_EXCHANGE: u8 = 13;
const PURGE: u8 = 14;
const GET: u8 = 15;
const FLOW: u8 = 16;
const PASS: u8 = 17;
const RUN: u8 = 18;

/// A channel of a client.
#[derive(Clone, Copy)]
struct At {
    slot: ConnectionSlot,
    channel: ChannelNumber,
}

struct Clients {
    shard: OneShard,
    /// Plain queues that were declared: `p0` and so on.
    queues: usize,
    exclusive: usize,
    /// Bindings beside those of plain queues.
    bindings: usize,
    /// Queues that may have an exchange for dead letters.
    dying: [bool; DYING],
    /// Consumers of each channel that have come since it was opened.
    consumers: [[usize; CHANNELS as usize]; CONNECTIONS as usize],
    /// The last delivery tag of each channel.
    last_tags: [[u64; CHANNELS as usize]; CONNECTIONS as usize],
    serial: usize,
    /// Channels that have transactions.
    has_transactions: [[bool; CHANNELS as usize]; CONNECTIONS as usize],
    /// Messages that were published in any.
    in_transactions: u64,
    /// What all work may be.
    work_max: u64,
    /// Copies of messages that steps may still make.
    under_way: u64,
    turns: u64,
}

/// Panics if a turn does too much, all turns together do, or there is no end.
pub fn check(bytes: &[u8]) {
    let mut steps = Steps(bytes);
    let mut clients = Clients::new();
    while clients.step(&mut steps).is_some() && clients.messages() < MESSAGES_ENOUGH && clients.work() < WORK_ENOUGH {}
    clients.rest();
    for slot in 0..CONNECTIONS {
        clients.asks_for_everything();
        clients.shard.turn(|turn| turn.close_session(ConnectionSlot::new(slot.into())));
        clients.check_turn();
        clients.rest();
    }
    let census = clients.shard.broker().census();
    for what in ["channels", "consumers", "deferred work", "dead letters"] {
        let left = census.iter().find(|(name, _)| *name == what).expect("it is counted").1;
        assert_eq!(left, 0, "{what} are left");
    }
}

impl Clients {
    fn new() -> Self {
        let mut clients = Clients {
            shard: OneShard::with_budget(false, WORK_PER_TURN),
            queues: 0,
            exclusive: 0,
            bindings: 0,
            dying: [false; DYING],
            consumers: Default::default(),
            last_tags: Default::default(),
            serial: 0,
            has_transactions: Default::default(),
            in_transactions: 0,
            work_max: WORK_MIN,
            under_way: 0,
            turns: 0,
        };
        (0..CONNECTIONS).for_each(|slot| clients.connect(ConnectionSlot::new(slot.into())));
        let at = At { slot: ConnectionSlot::new(0), channel: ChannelNumber(1) };
        EXCHANGES[1..].iter().for_each(|(name, kind)| clients.declare_exchange(at, name, kind));
        clients
    }

    fn connect(&mut self, slot: ConnectionSlot) {
        self.shard.connect(slot);
        (1..=CHANNELS).for_each(|channel| self.open_channel(At { slot, channel: ChannelNumber(channel) }));
    }

    fn open_channel(&mut self, at: At) {
        self.shard.turn(|turn| turn.open_channel(at.slot, at.channel));
        let (slot, channel) = at.places();
        (self.consumers[slot][channel], self.last_tags[slot][channel]) = (0, 0);
        self.has_transactions[slot][channel] = false;
    }

    fn work(&self) -> u64 {
        self.shard.counters().work
    }

    /// Messages that wait or are not settled.
    fn messages(&self) -> u64 {
        let queues = self.shard.broker().queues();
        queues.map(|queue| queue.ready.len() as u64 + queue.unsettled).sum()
    }

    /// Dead letters that a message may become without a consumer that rejects it: one for each sequence of different queues.
    fn letters(&self) -> u64 {
        let dying = self.dying.iter().filter(|is_dying| **is_dying).count() as u64;
        (0..dying)
            .scan(1, |sequences, taken| {
                *sequences *= dying - taken;
                Some(*sequences)
            })
            .sum()
    }

    /// Copies that messages may become by dying, themselves included.
    fn copies(&self, messages: u64) -> u64 {
        let queues = (self.queues + DYING) as u64;
        messages.saturating_mul(1 + self.letters() * (1 + queues))
    }

    /// What a step is about joins the bound of all work.
    fn asks_for(&mut self, things: u64) {
        self.work_max = self.work_max.saturating_add(WORK_EACH.saturating_mul(things));
    }

    /// A step concerns all definitions and consumers.
    fn asks_for_definitions(&mut self) {
        let consumers = self.consumers.as_flattened().iter().sum::<usize>();
        self.asks_for((1 + 2 * (self.queues + DYING) + self.bindings + consumers) as u64);
    }

    /// A step moves all messages: those that are there, and those that earlier steps may still make.
    fn asks_for_everything(&mut self) {
        let copies = self.copies(self.under_way.saturating_add(self.messages() + self.in_transactions));
        self.under_way = copies;
        self.asks_for_definitions();
        self.asks_for(copies);
    }

    /// After each turn: it has not done too much. Returns whether a client was refused something.
    fn check_turn(&mut self) -> bool {
        let most = self.shard.counters().work_per_turn_max;
        assert!(most <= WORK_MAX, "{most} units of work in a turn of {WORK_PER_TURN}");
        for got in self.shard.deliveries() {
            let (slot, channel) = At { slot: got.at.0, channel: got.at.1 }.places();
            self.last_tags[slot][channel] = got.tag.0;
        }
        let refusals = self.shard.refusals();
        let is_refused = !refusals.is_empty();
        if is_refused {
            self.asks_for_everything();
        }
        for (slot, channel, refusal) in refusals {
            let at = At { slot, channel };
            match refusal.code.is_hard() {
                true => self.reconnect(slot),
                false => self.reopen(at),
            }
        }
        is_refused
    }

    fn reopen(&mut self, at: At) {
        self.shard.turn(|turn| turn.close_channel(at.slot, at.channel));
        self.open_channel(at);
    }

    fn reconnect(&mut self, slot: ConnectionSlot) {
        self.shard.turn(|turn| turn.close_session(slot));
        self.connect(slot);
    }

    /// A turn of what was left. Returns whether anything was.
    fn run_deferred(&mut self) -> bool {
        let is_left = self.shard.run_deferred();
        self.turns += u64::from(is_left);
        self.check_turn();
        is_left
    }

    /// Everything that was left is done, in a bounded number of turns, and no more than was asked for.
    fn rest(&mut self) {
        let (work, messages) = (self.work(), self.messages());
        self.turns = 0;
        loop {
            let (done, asked_for) = (self.work(), self.work_max);
            assert!(done <= asked_for, "{done} units of work, and {asked_for} were asked for");
            let turns_max = TURNS_MIN + messages / MESSAGES_PER_TURN + (done - work) / u64::from(WORK_PER_TURN / 4);
            assert!(self.turns <= turns_max, "{} turns for {} units of work", self.turns, done - work);
            if !self.run_deferred() {
                break;
            }
        }
        self.under_way = 0;
    }

    /// Has a client do something so many times, in turns, unless it is refused. It waits where the broker has it wait.
    fn repeat(&mut self, at: At, times: usize, mut act: impl FnMut(&mut OneTurn<'_>, usize)) {
        let (mut done, began) = (0, self.work());
        while done < times && self.work() - began < WORK_OF_STEP_ENOUGH {
            while !self.shard.broker().may_read(at.slot) {
                assert!(self.run_deferred(), "a connection that is never read again");
            }
            done = self.shard.turn(|turn| {
                for number in done..times {
                    act(turn, number);
                    if turn.is_over(at.slot) {
                        return number + 1;
                    }
                }
                times
            });
            if self.check_turn() {
                return;
            }
        }
    }

    fn declare_exchange(&mut self, at: At, name: &str, kind: &str) {
        let (exchange, kind) = (ShortStr::truncated(name), ShortStr::truncated(kind));
        let (passive, durable, auto_delete, internal, no_wait) = (false, false, false, false, true);
        let arguments = TableRef::EMPTY;
        let declare = exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments };
        self.command(at, declare);
    }

    /// A command about one thing. A definition takes as much as two.
    fn command<'a>(&mut self, at: At, method: impl Into<Method<'a>>) {
        let method = method.into();
        self.asks_for(2);
        self.repeat(at, 1, |turn, _| turn.command(at.slot, at.channel, method));
    }

    /// A command that may move all messages.
    fn large_command<'a>(&mut self, at: At, method: impl Into<Method<'a>>) {
        self.asks_for_everything();
        self.command(at, method);
    }

    /// Takes one step. `None` at the end.
    fn step(&mut self, steps: &mut Steps<'_>) -> Option<()> {
        let step = steps.byte()?;
        let at = At::of(steps.byte()?);
        let first = steps.byte()?;
        let (slot, channel) = at.places();
        match (step & !GOES_ON) % (RUN + 1) {
            DECLARE_DYING => self.declare_dying(at, first, steps.byte()?),
            DECLARE_PLAIN => self.declare_plain(at, first, steps.byte()?),
            BIND => self.bind(at, first, steps.byte()?),
            PUBLISH => self.publish(at, first, steps.byte()?, steps.byte()?),
            CONSUME => self.consume(at, first, steps.byte()?),
            CANCEL => {
                let tag = format!("c{}", self.serial.saturating_sub(first.into()));
                self.large_command(at, basic::Cancel { consumer_tag: ShortStr::truncated(&tag), no_wait: true });
            }
            SETTLE => {
                let last = self.last_tags[slot][channel];
                let delivery_tag = DeliveryTag(last.saturating_sub(u64::from(first) / 8));
                let (multiple, requeue) = (first & 1 != 0, first & 2 != 0);
                match first & 4 {
                    0 => self.large_command(at, basic::Ack { delivery_tag, multiple }),
                    _ => self.large_command(at, basic::Nack { delivery_tag, multiple, requeue }),
                }
            }
            RECOVER => self.large_command(at, basic::Recover { requeue: true }),
            QOS => {
                let (prefetch_size, prefetch_count, global) = (0, u16::from(first / 2), first & 1 != 0);
                self.large_command(at, basic::Qos { prefetch_size, prefetch_count, global });
            }
            TRANSACTION => match first % 3 {
                0 => {
                    self.has_transactions[slot][channel] = true;
                    self.command(at, tx::Select {});
                }
                1 => self.large_command(at, tx::Commit {}),
                _ => self.large_command(at, tx::Rollback {}),
            },
            CONFIRM => self.command(at, confirm::Select { no_wait: true }),
            CLOSE => {
                self.asks_for_everything();
                match first % 2 {
                    0 => self.reopen(at),
                    _ => self.reconnect(at.slot),
                }
                self.check_turn();
            }
            DELETE_QUEUES => {
                let (if_unused, if_empty, no_wait) = (false, false, true);
                let count = usize::from(steps.byte()?);
                self.asks_for(count as u64);
                self.asks_for_everything();
                self.repeat(at, count, |turn, number| {
                    let queue = queue_name(usize::from(first) + number);
                    let queue = ShortStr::truncated(&queue);
                    turn.command(at.slot, at.channel, queue::Delete { queue, if_unused, if_empty, no_wait });
                });
            }
            DELETE_EXCHANGE => {
                let fanout = fanout_name(usize::from(first / 4) % FANOUTS);
                let (name, kind) = match usize::from(first) % 4 {
                    0 => (&*fanout, "fanout"),
                    other => EXCHANGES[other],
                };
                let (exchange, if_unused, no_wait) = (ShortStr::truncated(name), false, true);
                self.asks_for_definitions();
                self.command(at, exchange::Delete { exchange, if_unused, no_wait });
                self.declare_exchange(at, name, kind);
            }
            PURGE => {
                let queue = queue_name(first.into());
                self.large_command(at, queue::Purge { queue: ShortStr::truncated(&queue), no_wait: true });
            }
            GET => {
                let (name, no_ack) = (queue_name(usize::from(first / 2)), first & 1 != 0);
                self.large_command(at, basic::Get { queue: ShortStr::truncated(&name), no_ack });
            }
            FLOW => self.large_command(at, channel::Flow { active: first & 1 != 0 }),
            PASS => {
                self.asks_for_everything();
                self.shard.set_clock(u64::from(first));
            }
            _ => {
                self.run_deferred();
            }
        }
        if step & GOES_ON == 0 {
            self.rest();
        }
        Some(())
    }

    fn declare(&mut self, at: At, name: &str, exclusive: bool, arguments: &Table) {
        let bytes = arguments.to_bytes();
        let (passive, durable, auto_delete, no_wait) = (false, false, false, true);
        let (queue, arguments) = (ShortStr::truncated(name), TableRef::new(&bytes));
        self.command(at, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    }

    /// A queue with an exchange for dead letters, by which they go to all queues, to one, or to nobody.
    fn declare_dying(&mut self, at: At, which: u8, how: u8) {
        let number = usize::from(which) % DYING;
        let (exchange, key) = [("f", ""), ("", KEYS[usize::from(how / 64) % DYING]), ("t", "a.b"), ("d", "d0")]
            [usize::from(which / 4) % 4];
        let arguments = limits(how)
            .with("x-dead-letter-exchange", Value::text(exchange))
            .and_then(|table| table.with("x-dead-letter-routing-key", Value::text(key)))
            .expect("short names");
        self.dying[number] = true;
        self.declare(at, KEYS[number], false, &arguments);
        self.bind_queue(at, KEYS[number], "f", "");
    }

    /// Queues without one, which the fanout exchange has as well.
    fn declare_plain(&mut self, at: At, count: u8, how: u8) {
        let arguments = limits(how);
        for _ in 0..(usize::from(count) * 4).min(QUEUES_MAX - self.queues) {
            let (name, fanout) = (queue_name(DYING + self.queues), fanout_name(self.queues / QUEUES_PER_FANOUT));
            if self.queues.is_multiple_of(QUEUES_PER_FANOUT) {
                self.declare_exchange(at, &fanout, "fanout");
                self.bind_exchange(at, &fanout, "f", "");
            }
            let is_exclusive = how & 64 != 0 && self.exclusive < EXCLUSIVE_MAX;
            (self.queues, self.exclusive) = (self.queues + 1, self.exclusive + usize::from(is_exclusive));
            self.declare(at, &name, is_exclusive, &arguments);
            self.bind_queue(at, &name, &fanout, "");
        }
    }

    fn bind_queue(&mut self, at: At, queue: &str, exchange: &str, key: &str) {
        let (queue, exchange, routing_key) =
            (ShortStr::truncated(queue), ShortStr::truncated(exchange), ShortStr::truncated(key));
        let (no_wait, arguments) = (true, TableRef::EMPTY);
        self.command(at, queue::Bind { queue, exchange, routing_key, no_wait, arguments });
    }

    fn bind_exchange(&mut self, at: At, destination: &str, source: &str, key: &str) {
        let (destination, source, routing_key) =
            (ShortStr::truncated(destination), ShortStr::truncated(source), ShortStr::truncated(key));
        let (no_wait, arguments) = (true, TableRef::EMPTY);
        self.command(at, exchange::Bind { destination, source, routing_key, no_wait, arguments });
    }

    fn bind(&mut self, at: At, from: u8, to: u8) {
        if self.bindings >= BINDINGS_MAX {
            return;
        }
        self.bindings += 1;
        let (exchange, _) = EXCHANGES[1 + usize::from(from) % (EXCHANGES.len() - 1)];
        let key = KEYS[usize::from(from / 8) % KEYS.len()];
        match to % 4 {
            0 => {
                let (destination, _) = EXCHANGES[1 + usize::from(to / 4) % (EXCHANGES.len() - 1)];
                self.bind_exchange(at, destination, exchange, key);
            }
            _ => self.bind_queue(at, &queue_name(usize::from(to / 4)), exchange, key),
        }
    }

    fn publish(&mut self, at: At, to: u8, how: u8, times: u8) {
        let to = (EXCHANGES[usize::from(to) % EXCHANGES.len()].0, KEYS[usize::from(to / 8) % KEYS.len()]);
        let copies = || Table::new().with("CC", list(KEYS.iter().map(|key| Value::text(key)).collect()));
        let properties = Properties {
            headers: (how & 1 != 0).then(|| copies().expect("a short name")),
            expiration: ["0", "5"]
                .iter()
                .zip([2, 4])
                .find_map(|(ms, bit)| ShortString::try_from(*ms).ok().filter(|_| how & bit != 0)),
            delivery_mode: (how & 8 != 0).then_some(2),
            ..Properties::default()
        };
        let (properties, times) = (properties.to_bytes(), usize::from(times));
        // By one key to one queue, or by several through all bindings to all queues. Each copy may push an older one out.
        let reached = match (to.0, how & 1) {
            ("", 0) => 1,
            _ => KEYS.len() * (1 + self.bindings) + self.queues + DYING,
        };
        let copies = (times * reached) as u64 + self.copies((times + DYING) as u64);
        self.asks_for(copies);
        self.under_way = self.under_way.saturating_add(copies);
        let (slot, channel) = at.places();
        if self.has_transactions[slot][channel] {
            self.in_transactions += times as u64;
        }
        self.repeat(at, times, |turn, _| turn.publish(at.slot, at.channel, to, &properties, b"m"));
    }

    fn consume(&mut self, at: At, from: u8, times: u8) {
        let (queue, no_ack) = (queue_name(usize::from(from / 2) % 8), from & 1 != 0);
        let (slot, channel) = at.places();
        let all = self.consumers.as_flattened().iter().sum::<usize>();
        let most = (CONSUMERS_PER_CHANNEL_MAX - self.consumers[slot][channel]).min(CONSUMERS_MAX.saturating_sub(all));
        let times = usize::from(times).min(most);
        let serial = self.serial;
        (self.serial, self.consumers[slot][channel]) = (serial + times, self.consumers[slot][channel] + times);
        self.asks_for(times as u64);
        self.asks_for_everything();
        self.repeat(at, times, |turn, number| {
            let tag = format!("c{}", serial + number);
            let (queue, consumer_tag, arguments) =
                (ShortStr::truncated(&queue), ShortStr::truncated(&tag), TableRef::EMPTY);
            let (no_local, exclusive, no_wait) = (false, false, true);
            let consume = basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments };
            turn.command(at.slot, at.channel, consume);
        });
    }
}

/// Queues by their numbers: first those that have an exchange for dead letters.
fn queue_name(number: usize) -> String {
    match number.checked_sub(DYING) {
        None => KEYS[number].into(),
        Some(number) => format!("p{number}"),
    }
}

fn fanout_name(number: usize) -> String {
    format!("f{number}")
}

/// What a queue does with messages, by the bits of `how`.
fn limits(how: u8) -> Table {
    let mut table = Table::new();
    for (bit, name, value) in [
        (1, "x-message-ttl", Value::I32(0)),
        (2, "x-message-ttl", Value::I32(5)),
        (4, "x-max-length", Value::I32(0)),
        (8, "x-max-length", Value::I32(1)),
        (16, "x-overflow", Value::text("reject-publish-dlx")),
        (32, "x-delivery-limit", Value::I32(1)),
    ] {
        if how & bit != 0 && table.get(name).is_none() {
            table = table.with(name, value).expect("a short name");
        }
    }
    table
}

impl At {
    fn of(who: u8) -> Self {
        let (slot, channel) = (u16::from(who) % CONNECTIONS, u16::from(who / 4) % CHANNELS);
        At { slot: ConnectionSlot::new(slot.into()), channel: ChannelNumber(1 + channel) }
    }

    /// Its places in tables.
    fn places(self) -> (usize, usize) {
        (self.slot.index(), usize::from(self.channel.0) - 1)
    }
}
