//! Random commands to a broker that takes repeated publishes as runs and to one that takes each alone: clients see the same, and both
//! count the same.

use super::{PublishedRun, RepeatedPublish, bind_fanout, publish_all};
use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, short};
use broker::{BrokerCounters, ConnectionSlot};
use proptest::prelude::*;
use wire::method::{basic, confirm, queue, tx};
use wire::{ChannelNumber, DeliveryTag, Properties, ShortString, Table, TableRef, Value};

/// The queues, by what they do: their arguments, and whether they are durable.
fn queues() -> Vec<(&'static str, Table, bool)> {
    let number = |name: &str, value| Table::new().with(name, Value::I32(value)).expect("a short name");
    let refusing = number("x-max-length", 3).with("x-overflow", Value::text("reject-publish")).expect("a short name");
    vec![
        ("a", Table::new(), false),
        ("b", Table::new(), false),
        ("c", Table::new(), false),
        ("durable", Table::new(), true),
        ("limited", number("x-max-length", 4), false),
        ("refusing", refusing, false),
        ("levels", number("x-max-priority", 3), false),
        ("expiring", number("x-message-ttl", 5), false),
        ("dying", dead_letters(number("x-message-ttl", 3), "", "a"), false),
        ("dying-durable", dead_letters(number("x-message-ttl", 2), "ab-durable", ""), true),
        ("burying", dead_letters(number("x-max-length", 2), "abc", ""), false),
        ("cycle", dead_letters(number("x-message-ttl", 2), "", "cycle-back"), false),
        ("cycle-back", dead_letters(number("x-max-length", 1), "", "cycle"), false),
    ]
}

/// The arguments of a queue whose dead letters go to an exchange, with another routing key.
fn dead_letters(table: Table, exchange: &str, routing_key: &str) -> Table {
    let table = table.with("x-dead-letter-exchange", Value::text(exchange)).expect("a short name");
    table.with("x-dead-letter-routing-key", Value::text(routing_key)).expect("a short name")
}

/// What is published to: exchange and routing key.
const TARGETS: [(&str, &str); 19] = [
    ("", "a"),
    ("", "a"),
    ("", "b"),
    ("", "durable"),
    ("", "limited"),
    ("", "refusing"),
    ("", "levels"),
    ("", "expiring"),
    ("", "dying"),
    ("", "dying"),
    ("", "dying-durable"),
    ("", "burying"),
    ("", "cycle"),
    ("", "cycle-back"),
    ("", "nowhere"),
    ("abc", ""),
    ("abc", ""),
    ("mixed", ""),
    ("ab-durable", ""),
];

const CONSUMERS: usize = 4;
/// Work of a dead letter: its turn may end in the middle of it.
const LETTER_WORK_MAX: u64 = 8;

/// Properties by what they say.
fn properties(kind: u8) -> Vec<u8> {
    let text = |text: &str| ShortString::new(text.as_bytes()).expect("a short text");
    let plain = Properties::default();
    match kind {
        0 => Properties { delivery_mode: Some(2), ..plain },
        1 => Properties { priority: Some(2), ..plain },
        2 => Properties { expiration: Some(text("3")), ..plain },
        3 => Properties { user_id: Some(text("guest")), ..plain },
        4 => Properties { reply_to: Some(text("me")), message_id: Some(text("m")), ..plain },
        5 => Properties { headers: Some(Table::new().with("x", Value::I32(1)).expect("a short name")), ..plain },
        6 => Properties { content_type: Some(text("text/plain")), correlation_id: Some(text("c")), ..plain },
        _ => plain,
    }
    .to_bytes()
}

#[derive(Clone, Debug)]
enum RunStep {
    Publish {
        target: usize,
        kind: u8,
        mandatory: bool,
        digits: usize,
        count: usize,
    },
    Consume {
        at: usize,
        queue: usize,
        prefetch: u16,
        global: bool,
        no_ack: bool,
        priority: i32,
    },
    Cancel {
        at: usize,
        queue: usize,
    },
    Ack {
        at: usize,
        back: u64,
        multiple: bool,
        requeue: Option<bool>,
    },
    /// Everything that is out on a connection is acknowledged.
    AckAll {
        at: usize,
    },
    /// The output of a connection has room for so many deliveries, or any number.
    Room {
        at: usize,
        deliveries: Option<usize>,
    },
    CloseChannel {
        at: usize,
    },
    SelectConfirms,
    SelectTransactions,
    Commit,
    Purge {
        queue: usize,
    },
    Advance {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = RunStep> {
    let (at, queue) = (0..CONSUMERS, 0..queues().len());
    let publish =
        (0..TARGETS.len(), 0..30_u8, any::<bool>(), prop::sample::select(vec![4_usize, 4, 64, 5_000]), 1..50_usize);
    let consume = (
        at.clone(),
        0..queues().len() + 6,
        prop::sample::select(vec![0_u16, 0, 0, 1, 7]),
        any::<bool>(),
        any::<bool>(),
    );
    prop_oneof![
        8 => publish.prop_map(|(target, kind, mandatory, digits, count)| {
            RunStep::Publish { target, kind, mandatory, digits, count }
        }),
        5 => (consume, 0..6_i32).prop_map(|((at, queue, prefetch, global, no_ack), priority)| {
            // Those without features more often.
            RunStep::Consume { at, queue: queue % queues().len(), prefetch, global, no_ack, priority: priority / 5 }
        }),
        1 => (at.clone(), queue.clone()).prop_map(|(at, queue)| RunStep::Cancel { at, queue }),
        3 => (at.clone(), 0..12_u64, any::<bool>(), prop::option::weighted(0.2, any::<bool>()))
            .prop_map(|(at, back, multiple, requeue)| RunStep::Ack { at, back, multiple, requeue }),
        2 => (at.clone(), prop::option::of(0..30_usize)).prop_map(|(at, deliveries)| RunStep::Room { at, deliveries }),
        4 => at.clone().prop_map(|at| RunStep::AckAll { at }),
        1 => at.prop_map(|at| RunStep::CloseChannel { at }),
        1 => Just(RunStep::SelectConfirms),
        1 => prop::bool::weighted(0.2).prop_map(|selects| match selects {
            true => RunStep::SelectTransactions,
            false => RunStep::SelectConfirms,
        }),
        1 => Just(RunStep::Commit),
        1 => queue.prop_map(|queue| RunStep::Purge { queue }),
        1 => (0..8_u64).prop_map(|ms| RunStep::Advance { ms }),
    ]
}

/// Each of the first queues has a consumer to begin with, so that there are runs: its prefetch count, whether that is global, and
/// whether it acknowledges nothing.
fn first_consumers(all: [(u16, bool, bool); 3]) -> impl Iterator<Item = RunStep> {
    all.into_iter().enumerate().map(|(at, (prefetch, global, no_ack))| RunStep::Consume {
        at,
        queue: at,
        prefetch,
        global,
        no_ack,
        priority: 1,
    })
}

/// A broker, and those who use it.
struct Side {
    world: BrokerWorld,
    publisher: WorldConnection,
    consumers: [WorldConnection; CONSUMERS],
    as_runs: bool,
    mode: Option<bool>,
    numbers: usize,
    in_runs: usize,
}

impl Side {
    fn new(as_runs: bool, work_per_turn: u32, queue_bytes_max: u64) -> Side {
        Side::with(as_runs, BrokerWorld::with_budgets(work_per_turn, queue_bytes_max), 0)
    }

    /// The queues and their consumers are of the first shard, the publisher of another.
    fn of_two_shards(as_runs: bool) -> Side {
        Side::with(as_runs, BrokerWorld::new(2, LIMIT), 1)
    }

    fn with(as_runs: bool, mut world: BrokerWorld, of_publisher: usize) -> Side {
        world.switch_stores_on();
        for (_, recorder) in &mut world.shards {
            (recorder.delivers_singly, recorder.heads) = (!as_runs, Some(Vec::new()));
        }
        let owner = world.connect(0, 1);
        let publisher = if of_publisher == 0 { owner } else { world.connect(of_publisher, 1) };
        let consumers = std::array::from_fn(|at| world.connect(0, at as u32 + 2));
        for (name, table, durable) in queues() {
            let (passive, exclusive, auto_delete, no_wait) = (false, false, false, true);
            let bytes = table.to_bytes();
            let (queue, arguments) = (short(name), TableRef::new(&bytes));
            world
                .command(owner, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
        }
        bind_fanout(&mut world, owner, "abc", &["a", "b", "c"]);
        bind_fanout(&mut world, owner, "mixed", &["a", "limited", "levels"]);
        bind_fanout(&mut world, owner, "ab-durable", &["a", "b", "durable"]);
        Side { world, publisher, consumers, as_runs, mode: None, numbers: 0, in_runs: 0 }
    }

    fn carry_out(&mut self, step: &RunStep) -> PublishedRun {
        let (world, publisher) = (&mut self.world, self.publisher);
        let name = |queue: usize| queues()[queue].0;
        match *step {
            RunStep::Publish { target, kind, mandatory, digits, count } => {
                let (exchange, routing_key) = TARGETS[target];
                let (properties, first) = (properties(kind), self.numbers);
                let all =
                    RepeatedPublish { exchange, routing_key, properties: &properties, mandatory, first, digits, count };
                self.numbers += count;
                let done = publish_all(world, publisher, all, self.as_runs);
                self.in_runs += done.in_runs;
                return PublishedRun { in_runs: 0, ..done };
            }
            RunStep::Consume { at, queue, prefetch, global, no_ack, priority } => {
                let at = self.consumers[at];
                world.command(at, basic::Qos { prefetch_size: 0, prefetch_count: prefetch, global });
                let arguments = Table::new().with("x-priority", Value::I32(priority)).expect("a short name").to_bytes();
                let (no_local, exclusive, no_wait) = (false, false, false);
                let tag = format!("{}-{}", name(queue), self.numbers);
                let (queue, consumer_tag, arguments) = (short(name(queue)), short(&tag), TableRef::new(&arguments));
                self.numbers += 1;
                world.command(
                    at,
                    basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments },
                );
            }
            RunStep::Cancel { at, queue } => {
                // The tags of some numbers are in use.
                for number in 0..self.numbers.min(60) {
                    let tag = format!("{}-{number}", name(queue));
                    world.command(self.consumers[at], basic::Cancel { consumer_tag: short(&tag), no_wait: true });
                }
            }
            RunStep::Ack { at, back, multiple, requeue } => {
                let at = self.consumers[at];
                let broker = &world.shards[at.0].0;
                let in_flight = broker.in_flight(at.1, ChannelNumber(1));
                let oldest = broker.oldest_unsettled(at.1, ChannelNumber(1)).map(|oldest| oldest.tag);
                let Some(DeliveryTag(oldest)) = oldest.filter(|_| in_flight > 0) else {
                    return PublishedRun::default();
                };
                let delivery_tag = DeliveryTag(oldest + back % in_flight);
                match requeue {
                    None => world.command(at, basic::Ack { delivery_tag, multiple }),
                    Some(requeue) => world.command(at, basic::Nack { delivery_tag, multiple, requeue }),
                }
            }
            RunStep::AckAll { at } => {
                world.command(self.consumers[at], basic::Ack { delivery_tag: DeliveryTag(0), multiple: true });
            }
            RunStep::Room { at, deliveries } => world.set_room(self.consumers[at], deliveries),
            RunStep::CloseChannel { at } => {
                let at = self.consumers[at];
                let (broker, recorder) = &mut world.shards[at.0];
                broker.close_channel(at.1, ChannelNumber(1), recorder);
                world.exchange_batches();
                world.shards[at.0].0.open_channel(at.1, ChannelNumber(1));
            }
            RunStep::SelectConfirms if self.mode != Some(true) => {
                self.mode = Some(false);
                world.command(publisher, confirm::Select { no_wait: true });
            }
            RunStep::SelectTransactions if self.mode.is_none() => {
                self.mode = Some(true);
                world.command(publisher, tx::Select {});
            }
            RunStep::Commit if self.mode == Some(true) => {
                world.command(publisher, tx::Commit {});
            }
            RunStep::SelectConfirms | RunStep::SelectTransactions | RunStep::Commit => {}
            RunStep::Purge { queue } => {
                world.command(publisher, queue::Purge { queue: short(name(queue)), no_wait: true })
            }
            RunStep::Advance { ms } => {
                world.advance(ms);
            }
        }
        PublishedRun::default()
    }

    /// What clients wait for becomes durable. Publishes wait on until something else is asked for.
    fn make_durable(&mut self, step: &RunStep) {
        if !matches!(step, RunStep::Publish { .. }) {
            (0..self.world.shards.len()).for_each(|shard| self.world.make_durable(shard));
        }
    }

    /// Everything that clients have been sent since the last look, confirms that follow one another as one.
    fn sent(&mut self) -> Vec<String> {
        let all = [self.publisher].into_iter().chain(self.consumers);
        all.map(|at| joined_confirms(&self.world.sent(at))).collect()
    }

    /// What the deliveries of each connection since the last look said beside their bodies.
    fn heads(&mut self) -> Vec<(ConnectionSlot, String)> {
        let heads = self.world.shards[0].1.heads.as_mut().map(std::mem::take);
        let mut heads = heads.unwrap_or_default();
        heads.sort_by_key(|&(slot, _)| slot);
        heads
    }

    /// What consumers have been sent since the last look.
    fn consumed(&mut self) -> Vec<String> {
        self.consumers.map(|at| self.world.sent(at)).into()
    }

    /// What queues have counted, and what the store would restore.
    fn queues_counted(&self) -> String {
        let all = self.world.shards[0].0.queues();
        let stats: Vec<_> = all.map(|queue| (queue.ready.len(), queue.unsettled, queue.stats)).collect();
        format!("{stats:#?}\n{}", self.world.live(0))
    }

    /// The work of all turns, and the most of one.
    fn work(&self) -> (u64, u64) {
        let BrokerCounters { work, work_per_turn_max, .. } = self.world.shards[0].0.counters();
        (work, work_per_turn_max)
    }

    /// Everything that is counted and held.
    fn counted(&mut self) -> String {
        // A run waits for the last of its tickets, behind all of it.
        let told = self.world.stored(0);
        let (awaited, stored): (Vec<&str>, Vec<&str>) = told.split(" | ").partition(|told| told.starts_with("await"));
        let awaited = awaited.iter().filter_map(|told| told.rsplit(' ').next()?.parse::<u64>().ok()).max();
        // What a run of dead letters comes from is forgotten behind all of it.
        let (forgotten, stored): (Vec<&str>, Vec<&str>) =
            stored.into_iter().partition(|told| told.starts_with("forget"));
        let forgotten: Vec<String> = forgotten.into_iter().flat_map(each_forgotten).collect();
        let live = self.world.live(0);
        let broker = &mut self.world.shards[0].0;
        broker.observer().start();
        let mut reports = Vec::new();
        let mut more = true;
        while more {
            broker.start_turn();
            let report = broker.observer().report(usize::MAX);
            more = report.more;
            reports.push(format!("{report:#?}"));
        }
        // Dead letters of a run are routed behind all of it: a turn may end with another of them, and to go on is work.
        let counters = BrokerCounters { work: 0, work_per_turn_max: 0, ..broker.counters() };
        let stats = broker.observer().stats();
        // A message that waited for the next turn set the timer of its queue, which stays until it is due.
        let census: Vec<_> = broker.census().into_iter().filter(|&(name, _)| name != "timers").collect();
        format!(
            "{stats:#?}\n{counters:#?}\n{census:#?}\n{}\n{stored:?}\n{forgotten:?}\n{awaited:?}\n{live}",
            reports.join("\n")
        )
    }
}

/// What a publisher was sent, confirms of what follows what the one before them confirmed joined with that: where the turns of dead
/// letters end, confirms are divided.
fn joined_confirms(sent: &str) -> String {
    let confirmed = |told: &str| told.strip_prefix("ack ")?.trim_end_matches('+').parse::<u64>().ok();
    let mut joined: Vec<String> = Vec::new();
    for told in sent.split(" | ") {
        match (joined.last_mut().and_then(|last| Some((confirmed(last)?, last))), confirmed(told)) {
            (Some((before, last)), Some(number)) if told.ends_with('+') || number == before + 1 => {
                *last = format!("ack {number}+");
            }
            _ => joined.push(told.to_owned()),
        }
    }
    joined.join(" | ")
}

/// Each message of those that the store was told to forget together.
fn each_forgotten(told: &str) -> Vec<String> {
    let (first, count) = told.rsplit_once('+').expect("how many are forgotten");
    let (queue, number) = first.rsplit_once(['@', ':']).expect("the place of the first");
    let [number, count] = [number, count].map(|number| number.parse::<u64>().expect("a number"));
    (number..number + count).map(|number| format!("{queue}:{number}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 300, ..ProptestConfig::default() })]
    #[test]
    fn clients_see_and_brokers_count_the_same_with_runs_and_without(
        steps in prop::collection::vec(step(), 1..60),
        first in prop::array::uniform3((prop::sample::select(vec![0_u16, 0, 3, 20]), any::<bool>(), any::<bool>())),
        work_per_turn in prop::sample::select(vec![30_u32, 100, 1_000, 32_768]),
        queue_bytes_max in prop::sample::select(vec![2_500_u64, u64::MAX, u64::MAX]),
    ) {
        let [mut single, mut runs] = [false, true].map(|as_runs| Side::new(as_runs, work_per_turn, queue_bytes_max));
        for (number, step) in first_consumers(first).chain(steps).enumerate() {
            let step = &step;
            let (expected, published) = (single.carry_out(step), runs.carry_out(step));
            for side in [&mut single, &mut runs] {
                side.make_durable(step);
            }
            prop_assert_eq!(published, expected, "step {}: {:?}", number, step);
            prop_assert_eq!(runs.sent(), single.sent(), "step {}: {:?}", number, step);
            prop_assert_eq!(runs.heads(), single.heads(), "step {}: {:?}", number, step);
        }
        prop_assert_eq!(single.in_runs + single.world.shards[0].1.delivered_in_runs, 0);
        let ((work, most), (single_work, single_most)) = (runs.work(), single.work());
        prop_assert!(most <= single_most + LETTER_WORK_MAX, "{} units in a turn, {} without runs", most, single_most);
        // A turn that goes on with what another has left is two units of work at most beside its budget.
        let turns = 1 + work.max(single_work) / u64::from(work_per_turn);
        prop_assert!(work.abs_diff(single_work) <= 2 * turns, "{} units of work, {} without runs", work, single_work);
        prop_assert_eq!(runs.counted(), single.counted());
    }

    #[test]
    fn consumers_see_the_same_of_runs_from_another_shard(
        steps in prop::collection::vec(step(), 1..60),
        first in prop::array::uniform3((prop::sample::select(vec![0_u16, 0, 3, 20]), any::<bool>(), any::<bool>())),
    ) {
        let [mut single, mut runs] = [false, true].map(Side::of_two_shards);
        for (number, step) in first_consumers(first).chain(steps).enumerate() {
            let step = &step;
            let (expected, published) = (single.carry_out(step), runs.carry_out(step));
            for side in [&mut single, &mut runs] {
                side.make_durable(step);
            }
            prop_assert_eq!(published, expected, "step {}: {:?}", number, step);
            prop_assert_eq!(runs.consumed(), single.consumed(), "step {}: {:?}", number, step);
        }
        prop_assert_eq!(runs.queues_counted(), single.queues_counted());
    }
}
