//! A channel: delivery tags, consumers, confirms, a transaction.
//!
//! Enters: commands of one channel.  Leaves: what to confirm.
//! Owns:   the ledger, the confirm numbers, the open transaction, the last route.
//! Never:  touches a queue.

use crate::consumer::ConsumerKey;
use crate::effects::Slot;
use crate::ledger::{Ledger, Unsettled};
use crate::message::Message;
use catalog::{RouteDependence, ExchangeId, QueueRoute};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use wire::{ListRef, RawProperties};

slotmap::new_key_type! {
    /// A channel in the table of its shard.
    pub struct ChannelKey;
}

/// The route of the last publish: a publisher that repeats itself looks nothing up.
pub struct LastRoute {
    /// Definitions it was found under.
    pub version: u64,
    /// The exchange's name.
    pub exchange: Box<[u8]>,
    /// The exchange, once its permission was checked.
    pub exchange_id: ExchangeId,
    /// The routing key.
    pub routing_key: Vec<u8>,
    /// The queues; `None` when the route depends on more than the routing key and the trace.
    pub route: Option<Arc<QueueRoute>>,
    /// Through which brokers that message had come, if it makes a difference to the route.
    pub trace: Option<Box<[u8]>>,
}

impl LastRoute {
    /// That of an exchange to which nothing has been published yet.
    pub fn new(version: u64, exchange: &[u8], exchange_id: ExchangeId) -> Self {
        Self { version, exchange: exchange.into(), exchange_id, routing_key: Vec::new(), route: None, trace: None }
    }

    /// The route of a message with this key and these properties, if it is the same.
    #[inline]
    pub fn of(&self, routing_key: &[u8], properties: RawProperties<'_>) -> Option<&Arc<QueueRoute>> {
        let route = self.route.as_ref()?;
        let is_alike = same(&self.routing_key, routing_key)
            && (route.decided == RouteDependence::ByKey
                || self.trace.as_deref() == catalog::trace(properties).map(ListRef::as_bytes));
        is_alike.then_some(route)
    }

    /// Remembers where such a message goes.
    pub fn set(&mut self, routing_key: &[u8], properties: RawProperties<'_>, route: &Arc<QueueRoute>) {
        self.routing_key.clear();
        self.routing_key.extend_from_slice(routing_key);
        self.route = (route.decided < RouteDependence::ByMessage).then(|| Arc::clone(route));
        self.trace = match route.decided {
            RouteDependence::ByKeyAndTrace => catalog::trace(properties).map(|trace| trace.as_bytes().into()),
            RouteDependence::ByKey | RouteDependence::ByMessage => None,
        };
    }
}

/// Equality of short names, word by word and in line. The default exchange's name is empty, an empty box dangles, and a
/// vectorised `memcmp` of nothing at a dangling address costs the processor an assist: two fifths of a publish, measured.
#[inline]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (words_a, rest_a) = a.as_chunks::<8>();
    let (words_b, rest_b) = b.as_chunks::<8>();
    words_a.iter().zip(words_b).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b))
        && rest_a.iter().zip(rest_b).all(|(a, b)| a == b)
}

/// Publisher confirms of one channel: in order, so that one acknowledgement covers many.
#[derive(Default)]
pub struct Confirms {
    /// Number of the last publish.
    pub published: u64,
    /// Number up to which the client knows.
    pub told: u64,
    /// Publishes that wait for other shards or the store: number and how many answers are missing.
    pub waiting: VecDeque<(u64, u32)>,
    /// Publishes that a queue had no room for, and that the client has not heard of.
    pub declined: BTreeSet<u64>,
    /// The channel is on the list of those to flush.
    pub due: bool,
}

impl Confirms {
    /// Every publish up to this number is safe.
    pub fn safe(&self) -> u64 {
        self.waiting.front().map_or(self.published, |&(number, _)| number - 1)
    }

    /// Takes the next publish that a queue refused, of those up to a number.
    pub fn next_declined(&mut self, safe: u64) -> Option<u64> {
        let first = self.declined.first().copied().filter(|&number| number <= safe)?;
        self.declined.pop_first();
        Some(first)
    }

    /// One answer for a publish arrived.
    pub fn answered(&mut self, number: u64) {
        if let Ok(at) = self.waiting.binary_search_by_key(&number, |&(n, _)| n) {
            self.waiting[at].1 -= 1;
        }
        while let Some(&(_, 0)) = self.waiting.front() {
            self.waiting.pop_front();
        }
    }
}

/// A step of an open transaction.
pub enum Step {
    /// A message to publish.
    Publish {
        /// The message with its exchange and routing key.
        message: Message,
        /// Return it if no queue takes it.
        mandatory: bool,
        /// Further routing keys.
        copies: Option<Box<[Box<[u8]>]>>,
    },
    /// Deliveries to acknowledge, requeue or drop.
    Settle {
        /// They, by their tags: the ledger has them no more, unless the transaction is rolled back.
        deliveries: Vec<(u64, Unsettled)>,
        /// What becomes of them.
        fate: Fate,
    },
}

impl Step {
    /// The deliveries that it would settle.
    pub fn deliveries(self) -> Vec<(u64, Unsettled)> {
        match self {
            Step::Settle { deliveries, .. } => deliveries,
            Step::Publish { .. } => Vec::new(),
        }
    }
}

/// What becomes of a settled delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was processed.
    Acknowledged,
    /// It goes back to its place in the queue.
    Requeued,
    /// It was refused and is not wanted again: a dead letter, if its queue has any.
    Rejected,
}

/// How publishes of the channel are made safe.
pub enum Mode {
    /// Not at all.
    Plain,
    /// Each is confirmed.
    Confirm,
    /// They wait for `tx.commit`.
    Transaction(Vec<Step>),
}

/// A channel.
pub struct Channel {
    /// Its connection.
    pub slot: Slot,
    /// Its number.
    pub number: u16,
    /// Settlement.
    pub ledger: Ledger,
    /// Its consumers.
    pub consumers: Vec<ConsumerKey>,
    /// How many of them are idle.
    pub idle_consumers: u32,
    /// Prefetch count that new consumers get; zero is no limit.
    pub prefetch: u32,
    /// Prefetch count shared by its consumers; zero is no limit.
    pub prefetch_shared: u32,
    /// Deliveries to its consumers that wait for settlement.
    pub unsettled: u32,
    /// The client wants deliveries (`channel.flow`).
    pub flow: bool,
    /// How publishes are made safe.
    pub mode: Mode,
    /// Confirm numbers; also counts what a commit waits for.
    pub confirms: Confirms,
    /// Route of the last publish.
    pub last_route: Option<Box<LastRoute>>,
    /// Name of the queue declared last, for methods that name none.
    pub last_queue: Box<str>,
    /// What the ledger had come to at some moments, with a consumer timeout only: tags up to this one were out then.
    pub marks: VecDeque<(u64, u64)>,
    /// Where direct replies to this channel go.
    pub direct_reply: Option<crate::direct_reply::Mailbox>,
}

impl Channel {
    /// A channel just opened.
    pub fn new(slot: Slot, number: u16) -> Self {
        Channel {
            slot,
            number,
            ledger: Ledger::default(),
            consumers: Vec::new(),
            idle_consumers: 0,
            prefetch: 0,
            prefetch_shared: 0,
            unsettled: 0,
            flow: true,
            mode: Mode::Plain,
            confirms: Confirms::default(),
            last_route: None,
            last_queue: "".into(),
            marks: VecDeque::new(),
            direct_reply: None,
        }
    }

    /// Whether the channel as a whole allows its consumers one more delivery.
    #[inline]
    pub fn allows(&self, no_ack: bool) -> bool {
        self.flow && (no_ack || self.prefetch_shared == 0 || self.unsettled < self.prefetch_shared)
    }
}
