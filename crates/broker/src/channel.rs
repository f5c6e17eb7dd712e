//! A channel: delivery tags, consumers, confirms, a transaction.
//!
//! Enters: commands of one channel.  Leaves: what to confirm.
//! Owns:   the ledger, the confirm numbers, the open transaction, the last route.
//! Never:  touches a queue.

use crate::consumer::ConsumerKey;
use crate::effects::ConnectionSlot;
use crate::ledger::{Ledger, UnsettledDelivery};
use crate::message::Message;
use catalog::{Decided, ExchangeId, Route};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use wire::{ListRef, RawProperties};

slotmap::new_key_type! {
    /// A channel in the table of its shard.
    pub struct ChannelKey;
}

/// The route of the last publish: a publisher that repeats itself looks nothing up.
pub struct RouteCache {
    /// Definitions it was found under.
    pub version: u64,
    /// The exchange's name.
    pub exchange: Box<[u8]>,
    /// The exchange, once its permission was checked.
    pub exchange_id: ExchangeId,
    /// The routing key.
    pub routing_key: Vec<u8>,
    /// The queues; `None` when the route depends on more than the routing key and the trace.
    pub route: Option<Arc<Route>>,
    /// Through which brokers that message had come, if it makes a difference to the route.
    pub trace: Option<Box<[u8]>>,
}

impl RouteCache {
    /// That of an exchange to which nothing has been published yet.
    pub fn new(version: u64, exchange: &[u8], exchange_id: ExchangeId) -> Self {
        Self { version, exchange: exchange.into(), exchange_id, routing_key: Vec::new(), route: None, trace: None }
    }

    /// The route of a message with this key and these properties, if it is the same.
    #[inline]
    pub fn get(&self, routing_key: &[u8], properties: RawProperties<'_>) -> Option<&Arc<Route>> {
        let route = self.route.as_ref()?;
        let is_alike = same(&self.routing_key, routing_key)
            && (route.decided == Decided::ByKey
                || self.trace.as_deref() == catalog::trace(properties).map(ListRef::as_bytes));
        is_alike.then_some(route)
    }

    /// Remembers where such a message goes.
    pub fn set(&mut self, routing_key: &[u8], properties: RawProperties<'_>, route: &Arc<Route>) {
        self.routing_key.clear();
        self.routing_key.extend_from_slice(routing_key);
        self.route = (route.decided < Decided::ByMessage).then(|| Arc::clone(route));
        self.trace = match route.decided {
            Decided::ByKeyAndTrace => catalog::trace(properties).map(|trace| trace.as_bytes().into()),
            Decided::ByKey | Decided::ByMessage => None,
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
pub struct ChannelConfirms {
    /// Number of the last publish.
    pub published: u64,
    /// Number up to which the client knows.
    pub confirmed: u64,
    /// Publishes that wait for other shards or the store: number and how many answers are missing.
    pub pending: VecDeque<(u64, u32)>,
    /// Publishes that a queue had no room for, and that the client has not heard of.
    pub refused: BTreeSet<u64>,
    /// The channel is on the list of those to flush.
    pub due: bool,
}

impl ChannelConfirms {
    /// Every publish up to this number is safe.
    pub fn last_safe(&self) -> u64 {
        self.pending.front().map_or(self.published, |&(number, _)| number - 1)
    }

    /// Takes the next publish that a queue refused, of those up to a number.
    pub fn next_refused(&mut self, safe: u64) -> Option<u64> {
        let first = self.refused.first().copied().filter(|&number| number <= safe)?;
        self.refused.pop_first();
        Some(first)
    }

    /// One answer for a publish arrived.
    pub fn on_answer(&mut self, number: u64) {
        if let Ok(at) = self.pending.binary_search_by_key(&number, |&(n, _)| n) {
            self.pending[at].1 -= 1;
        }
        while let Some(&(_, 0)) = self.pending.front() {
            self.pending.pop_front();
        }
    }
}

/// A step of an open transaction.
pub enum TransactionOperation {
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
        deliveries: Vec<(u64, UnsettledDelivery)>,
        /// What becomes of them.
        fate: SettlementOutcome,
    },
}

impl TransactionOperation {
    /// The deliveries that it would settle.
    pub fn deliveries(self) -> Vec<(u64, UnsettledDelivery)> {
        match self {
            TransactionOperation::Settle { deliveries, .. } => deliveries,
            TransactionOperation::Publish { .. } => Vec::new(),
        }
    }
}

/// What becomes of a settled delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettlementOutcome {
    /// It was processed.
    Acknowledged,
    /// It goes back to its place in the queue.
    Requeued,
    /// It was refused and is not wanted again: a dead letter, if its queue has any.
    Rejected,
}

/// How publishes of the channel are made safe.
pub enum ChannelMode {
    /// Not at all.
    Plain,
    /// Each is confirmed.
    Confirm,
    /// They wait for `tx.commit`.
    Transaction(Vec<TransactionOperation>),
}

/// A channel.
pub struct Channel {
    /// Its connection.
    pub slot: ConnectionSlot,
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
    pub mode: ChannelMode,
    /// Confirm numbers; also counts what a commit waits for.
    pub confirms: ChannelConfirms,
    /// Route of the last publish.
    pub route_cache: Option<Box<RouteCache>>,
    /// Name of the queue declared last, for methods that name none.
    pub last_queue: Box<str>,
    /// What the ledger had come to at some moments, with a consumer timeout only: tags up to this one were out then.
    pub tag_checkpoints: VecDeque<(u64, u64)>,
    /// Where direct replies to this channel go.
    pub reply_consumer: Option<crate::direct_reply::ReplyConsumer>,
}

impl Channel {
    /// A channel just opened.
    pub fn new(slot: ConnectionSlot, number: u16) -> Self {
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
            mode: ChannelMode::Plain,
            confirms: ChannelConfirms::default(),
            route_cache: None,
            last_queue: "".into(),
            tag_checkpoints: VecDeque::new(),
            reply_consumer: None,
        }
    }

    /// Whether the channel as a whole allows its consumers one more delivery.
    #[inline]
    pub fn allows(&self, no_ack: bool) -> bool {
        self.flow && (no_ack || self.prefetch_shared == 0 || self.unsettled < self.prefetch_shared)
    }
}
