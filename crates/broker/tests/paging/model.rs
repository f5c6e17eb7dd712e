//! Random commands to a broker that pages almost everything out and to one that never does: clients see the same.

use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, short};
use proptest::prelude::*;
use std::collections::BTreeSet;
use wire::method::{basic, queue};
use wire::{DeliveryTag, Properties, ShortString, Table, TableRef, Value};

/// The queues, by what they do: their arguments, and whether they are durable.
fn queues() -> Vec<(String, Table, bool)> {
    let number = |table: Table, name: &str, value| table.with(name, Value::I32(value)).expect("short");
    let text = |table: Table, name: &str, value: &str| table.with(name, Value::text(value)).expect("short");
    let dead =
        |table: Table, key: &str| text(text(table, "x-dead-letter-exchange", ""), "x-dead-letter-routing-key", key);
    let plain = Table::new;
    let limited = || number(plain(), "x-max-length", 7);
    let expiring = || number(plain(), "x-message-ttl", 5);
    let tables = [
        ("plain", plain(), false),
        ("durable", plain(), true),
        ("levels", number(plain(), "x-max-priority", 3), false),
        ("limited", limited(), true),
        ("limited-dead", dead(limited(), "dead-1"), false),
        ("refusing", text(number(plain(), "x-max-length-bytes", 300), "x-overflow", "reject-publish"), false),
        ("expiring", expiring(), false),
        ("expiring-dead", dead(expiring(), "dead-2"), true),
        ("returned", dead(number(plain(), "x-delivery-limit", 2), "dead-3"), true),
        ("all", number(number(dead(expiring(), "dead-4"), "x-max-length", 9), "x-max-priority", 2), true),
        ("dead-1", plain(), false),
        ("dead-2", plain(), false),
        ("dead-3", limited(), true),
        ("dead-4", plain(), false),
    ];
    tables.map(|(name, table, durable)| (name.to_owned(), table, durable)).into()
}

#[derive(Clone, Debug)]
enum Step {
    Publish {
        queue: usize,
        count: usize,
        bytes: usize,
        priority: u8,
        persistent: bool,
        expiration_ms: Option<u8>,
    },
    Get {
        queue: usize,
        no_ack: bool,
    },
    Consume {
        queue: usize,
        prefetch: u16,
        no_ack: bool,
    },
    Cancel {
        queue: usize,
    },
    /// Settles the delivery of a queue that is so far from the oldest.
    Settle {
        queue: usize,
        nth: usize,
        multiple: bool,
        outcome: u8,
    },
    Purge {
        queue: usize,
    },
    Delete {
        queue: usize,
    },
    Advance {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let queue = 0..queues().len();
    let publish = (
        queue.clone(),
        prop_oneof![3 => 1..4_usize, 1 => 10..40_usize],
        prop_oneof![5 => 0..30_usize, 1 => 100..3_000_usize],
        0..4_u8,
        any::<bool>(),
        prop_oneof![6 => Just(None), 1 => (0..9_u8).prop_map(Some)],
    );
    prop_oneof![
        12 => publish.prop_map(|(queue, count, bytes, priority, persistent, expiration_ms)| {
            Step::Publish { queue, count, bytes, priority, persistent, expiration_ms }
        }),
        6 => (queue.clone(), any::<bool>()).prop_map(|(queue, no_ack)| Step::Get { queue, no_ack }),
        4 => (queue.clone(), 0..9_u16, prop::bool::weighted(0.2))
            .prop_map(|(queue, prefetch, no_ack)| Step::Consume { queue, prefetch, no_ack }),
        2 => queue.clone().prop_map(|queue| Step::Cancel { queue }),
        10 => (queue.clone(), 0..9_usize, any::<bool>(), 0..4_u8)
            .prop_map(|(queue, nth, multiple, outcome)| Step::Settle { queue, nth, multiple, outcome }),
        1 => queue.clone().prop_map(|queue| Step::Purge { queue }),
        1 => queue.prop_map(|queue| Step::Delete { queue }),
        3 => (0..7_u64).prop_map(|ms| Step::Advance { ms }),
    ]
}

/// The client that takes the messages of one queue: the order between queues is nobody's promise.
struct Taker {
    client: WorldConnection,
    /// Its deliveries that are not settled.
    unsettled: BTreeSet<u64>,
    /// Its consumer sends no acknowledgements.
    no_ack: bool,
}

/// Each queue has one consumer at a time: which of several gets a message depends on when it is there.
const TAG: &str = "c";

impl Taker {
    /// Notes which deliveries are to be settled.
    fn note_deliveries(&mut self, step: &Step, sent: &str) {
        for event in sent.split(" | ") {
            if let (true, Step::Consume { no_ack, .. }) = (event.starts_with("consume-ok"), step) {
                self.no_ack = *no_ack;
            }
            let Some((tag, rest)) = event.split_once('#') else { continue };
            let Some(number) = rest.split('=').next().and_then(|number| number.parse().ok()) else { continue };
            let is_taken = matches!(step, Step::Get { no_ack: true, .. });
            if !(if tag == "got" { is_taken } else { self.no_ack }) {
                self.unsettled.insert(number);
            }
        }
    }
}

/// A broker and its clients.
struct Party {
    world: BrokerWorld,
    owner: WorldConnection,
    publisher: WorldConnection,
    takers: Vec<Taker>,
    published: usize,
    choice: usize,
}

impl Party {
    fn new(shards: u16, threshold_bytes: Option<u64>, choice: usize) -> Party {
        let mut world = BrokerWorld::new(shards, LIMIT);
        // A timer at the very beginning would fire a little later.
        world.advance(1);
        world.switch_stores_on();
        if let Some(bytes) = threshold_bytes {
            world.switch_paging_on(bytes);
        }
        let [owner, publisher] = [1, 2].map(|slot| world.connect((slot - 1) % usize::from(shards), slot as u32));
        let takers = (0..queues().len()).map(|queue| Taker {
            client: world.connect(queue % usize::from(shards), queue as u32 + 3),
            unsettled: BTreeSet::new(),
            no_ack: false,
        });
        let takers = takers.collect();
        let mut party = Party { world, owner, publisher, takers, published: 0, choice };
        (0..queues().len()).for_each(|queue| party.declare(queue));
        party
    }

    fn declare(&mut self, queue: usize) {
        let (name, table, durable) = &queues()[queue];
        let bytes = table.to_bytes();
        let (passive, exclusive, auto_delete, no_wait) = (false, false, false, false);
        let (queue, arguments) = (short(name), TableRef::new(&bytes));
        let declare = queue::Declare { queue, passive, durable: *durable, exclusive, auto_delete, no_wait, arguments };
        self.world.command(self.owner, declare);
    }

    /// Has all requests for pages answered, in some order of the queues, and all done that is due.
    fn settle_down(&mut self) {
        loop {
            self.world.advance(0);
            self.choice = self.choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if !self.world.answer_page(self.choice >> 33) {
                return;
            }
        }
    }

    /// Does a step. Returns what clients were sent.
    fn run(&mut self, step: &Step) -> Vec<String> {
        let queues = queues();
        match *step {
            Step::Publish { queue, count, bytes, priority, persistent, expiration_ms } => {
                for _ in 0..count {
                    self.published += 1;
                    let expiration =
                        expiration_ms.map(|ms| ShortString::try_from(ms.to_string().as_str()).expect("short"));
                    let delivery_mode = persistent.then_some(2);
                    let priority = Some(priority);
                    let properties = Properties { delivery_mode, priority, expiration, ..Properties::default() };
                    let body = format!("{}{}", self.published, "x".repeat(bytes));
                    self.world.publish_with(self.publisher, &queues[queue].0, &body, &properties);
                    self.settle_down();
                }
            }
            Step::Get { queue, no_ack } => {
                let get = basic::Get { queue: short(&queues[queue].0), no_ack };
                self.world.command(self.takers[queue].client, get);
            }
            Step::Consume { queue, prefetch, no_ack } => {
                let client = self.takers[queue].client;
                super::prefetch(&mut self.world, client, prefetch, false);
                super::consume(&mut self.world, client, &queues[queue].0, TAG, no_ack);
            }
            Step::Cancel { queue } => {
                let cancel = basic::Cancel { consumer_tag: short(TAG), no_wait: false };
                self.world.command(self.takers[queue].client, cancel);
            }
            Step::Settle { queue, nth, multiple, outcome } => {
                let Taker { client, unsettled, .. } = &mut self.takers[queue];
                let Some(&tag) = unsettled.iter().nth(nth) else { return Vec::new() };
                unsettled.retain(|&other| if multiple { other > tag } else { other != tag });
                let (client, delivery_tag) = (*client, DeliveryTag(tag));
                match outcome {
                    0 | 1 => self.world.command(client, basic::Ack { delivery_tag, multiple }),
                    _ => self.world.command(client, basic::Nack { delivery_tag, multiple, requeue: outcome == 2 }),
                }
            }
            Step::Purge { queue } => {
                self.world.command(self.owner, queue::Purge { queue: short(&queues[queue].0), no_wait: false });
            }
            Step::Delete { queue } => {
                let (if_unused, if_empty, no_wait) = (false, false, false);
                let name = &queues[queue].0;
                let delete = queue::Delete { queue: short(name), if_unused, if_empty, no_wait };
                self.world.command(self.owner, delete);
                self.settle_down();
                self.declare(queue);
            }
            Step::Advance { ms } => {
                for _ in 0..ms {
                    self.world.advance(1);
                    self.settle_down();
                }
            }
        }
        self.settle_down();
        let mut sent = [self.owner, self.publisher].map(|client| self.world.sent(client)).to_vec();
        for taker in &mut self.takers {
            sent.push(self.world.sent(taker.client));
            taker.note_deliveries(step, &sent[sent.len() - 1]);
        }
        sent
    }

    /// Counts of the queues: all that wait, and the bytes of their bodies.
    fn counts(&self) -> Vec<(String, usize, u64)> {
        let queues = self.world.shards.iter().flat_map(|(broker, _)| broker.queues());
        let mut counts: Vec<_> =
            queues.map(|queue| (queue.name.to_string(), queue.ready.len(), queue.ready.body_bytes())).collect();
        counts.sort();
        counts
    }

    /// Messages that were paged out, so far.
    fn paged(&self) -> usize {
        self.world.shards.iter().map(|(_, recorder)| recorder.pages.taken).sum()
    }

    /// Everything goes. Nothing is left of pages, nor counted.
    fn empty(&mut self) {
        for (name, _, _) in queues() {
            let (queue, if_unused, if_empty, no_wait) = (short(&name), false, false, false);
            self.world.command(self.owner, queue::Delete { queue, if_unused, if_empty, no_wait });
        }
        self.settle_down();
        for client in self.takers.iter().map(|taker| taker.client).chain([self.owner, self.publisher]) {
            self.world.disconnect(client);
        }
        self.settle_down();
        for (broker, recorder) in &self.world.shards {
            assert_eq!((recorder.pages.len(), recorder.pages.asking().len()), (0, 0));
            assert_eq!((broker.list_overhead_bytes(), broker.settlement_bytes()), (0, 0));
            for (what, count) in broker.census() {
                assert_eq!(count, 0, "{what}");
            }
        }
    }
}

proptest! {
    #[test]
    fn a_broker_that_pages_serves_its_clients_as_one_that_does_not(
        steps in prop::collection::vec(step(), 1..120),
        shards in 1..3_u16,
        threshold_bytes in prop_oneof![Just(1_u64), 100..3_000_u64, 3_000..30_000_u64],
        choice in any::<usize>(),
    ) {
        let mut paging = Party::new(shards, Some(threshold_bytes), choice);
        let mut model = Party::new(shards, None, choice);
        for step in &steps {
            let (sent, expected) = (paging.run(step), model.run(step));
            prop_assert_eq!(sent, expected, "{:?}", step);
            prop_assert_eq!(paging.counts(), model.counts(), "after {:?}", step);
        }
        let most = usize::from(threshold_bytes == 1 && paging.published > 60);
        prop_assert!(paging.paged() >= most, "{} paged out", paging.paged());
        prop_assert_eq!(model.paged(), 0);
        paging.empty();
        model.empty();
    }
}
