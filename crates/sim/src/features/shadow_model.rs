//! The shadow model: what clients requested, what was answered, and what follows from that for every message.
//!
//! The model does not guess the moment of a change: between a request and its answer both outcomes are possible.

use super::dead_letters::DeadLetterPaths;
use super::queue_arguments::QueueTraits;
use super::survival::{InterruptedCommit, QueueSurvival, StoredDelivery};
use super::sync_losses::CrashLoss;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use wire::Table;

/// A count of events and actions: what happened earlier has a smaller one.
pub type ModelTime = u64;

/// The lifetime of an exchange, a queue or a binding.
#[derive(Clone, Debug)]
pub struct Lifetime {
    /// When it was requested.
    pub requested: ModelTime,
    /// When its creation was confirmed.
    pub made: Option<ModelTime>,
    /// When its end was first requested or possible.
    pub ending: Option<ModelTime>,
    /// When its end was confirmed.
    pub ended: Option<ModelTime>,
}

impl Lifetime {
    /// A lifetime that is requested now.
    pub fn requested(now: ModelTime) -> Self {
        Lifetime { requested: now, made: None, ending: None, ended: None }
    }

    /// Whether it existed at every moment of this span.
    pub fn surely_spans(&self, from: ModelTime, to: ModelTime) -> bool {
        self.made.is_some_and(|made| made <= from) && self.ending.is_none_or(|ending| ending >= to)
    }

    /// Whether it may have existed at some moment of this span.
    pub fn may_overlap(&self, from: ModelTime, to: ModelTime) -> bool {
        self.requested <= to && self.ended.is_none_or(|ended| ended >= from)
    }

    /// It may end from now on.
    pub fn may_end(&mut self, now: ModelTime) {
        self.ending.get_or_insert(now);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShadowExchangeType {
    /// The exchange without a name.
    Default,
    /// It routes by equal keys.
    Direct,
    /// It routes to all bindings.
    Fanout,
    /// It routes by patterns.
    Topic,
    /// It routes by headers.
    Headers,
}

pub struct ShadowExchange {
    pub name: String,
    pub exchange_type: ShadowExchangeType,
    /// The alternate exchange, for messages that no binding matches.
    pub alternate: Option<usize>,
    /// It is deleted with the last binding from it.
    pub auto_delete: bool,
    /// It was declared durable.
    pub durable: bool,
    pub life: Lifetime,
}

/// Headers of a message, or of a binding, by the names in `HEADER_NAMES`.
pub type MessageHeaders = [Option<u8>; 3];

/// Their names. The last one counts only in bindings that match with `x-` headers.
pub const HEADER_NAMES: [&str; 3] = ["a", "b", "x-c"];

/// The value of a binding's header that matches any value.
pub const VOID: u8 = u8::MAX;

/// What a binding of a headers exchange matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderMatch {
    /// One header that matches is enough.
    pub any: bool,
    /// Names that begin with `x-` count.
    pub with_x: bool,
    pub headers: MessageHeaders,
}

/// The destination of a binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindingTarget {
    Queue(usize),
    Exchange(usize),
}

pub struct ShadowBinding {
    pub source: usize,
    pub target: BindingTarget,
    /// Its routing key or pattern.
    pub key: String,
    /// What a headers exchange matches.
    pub headers: Option<HeaderMatch>,
    /// The spans of time in which it existed.
    pub lives: Vec<Lifetime>,
    /// A change is under way, or its outcome was never received: nobody changes it again.
    pub locked: bool,
}

impl ShadowMessage {
    /// All its routing keys.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.key).chain(self.further_keys.iter().flatten())
    }
}

/// What is known of a publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PublishOutcome {
    /// In a transaction that is not committed.
    Staged,
    /// SendOutcome, and not answered.
    Open,
    /// The broker has confirmed it.
    Safe,
    /// SendOutcome, and it will never be answered.
    Unknown,
    /// It was rolled back: nobody may receive it.
    Never,
}

#[derive(Clone)]
pub struct ShadowMessage {
    /// The channel that published it.
    pub channel: u32,
    pub exchange: usize,
    pub key: String,
    /// Its further routing keys: of `CC`, which the message keeps, and of `BCC`.
    pub further_keys: [Vec<String>; 2],
    pub headers: MessageHeaders,
    /// Its properties in wire form.
    pub properties: Vec<u8>,
    /// Its size.
    pub body_bytes: usize,
    /// It is returned if it is routed to no queue.
    pub mandatory: bool,
    /// When it was sent (committed, in a transaction).
    pub sent: ModelTime,
    /// When it was known to be routed.
    pub routed: Option<ModelTime>,
    /// When the broker confirmed this very message.
    pub accepted: Option<ModelTime>,
    /// The same in simulated time.
    pub accepted_us: u64,
    pub outcome: PublishOutcome,
    pub returned: bool,
    /// The period it was sent in.
    pub period: u32,
    /// A full queue refused it.
    pub declined: bool,
    /// Its delivery mode says so.
    pub persistent: bool,
    pub priority: Option<u8>,
    pub expiration_us: Option<u64>,
    /// When it was sent, in simulated time.
    pub sent_us: u64,
}

/// How far the settlement of a delivery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SettlementProgress {
    /// It is not settled.
    #[default]
    None,
    /// The settlement was sent.
    SendOutcome,
    /// A later answer proves that the broker received it.
    Proven,
}

/// The deliveries of one message from one queue.
#[derive(Default)]
pub struct DeliveryState {
    pub times: u32,
    /// The channel that has not settled the last one.
    pub holder: Option<u32>,
    pub settled: SettlementProgress,
    /// Whether a channel rejected it.
    pub rejected: bool,
    /// The delivery counts that were seen, one bit each, if the queue counts returns.
    pub returns: u64,
    /// What of this the broker had written to its store at the last rest.
    pub stored: StoredDelivery,
}

pub struct ShadowQueue {
    pub name: String,
    pub life: Lifetime,
    /// The connection that owns an exclusive queue.
    pub owner: Option<u32>,
    /// It is deleted with its last consumer.
    pub auto_delete: bool,
    /// Messages that it must deliver.
    pub owed: BTreeSet<u64>,
    /// Messages that it delivered.
    pub deliveries: HashMap<u64, DeliveryState>,
    /// The newest message delivered without the redelivered flag, by stream of deliveries, publishing channel and priority.
    pub newest: HashMap<(u64, u32, u8), u64>,
    /// Messages up to this one may be gone: purged, or sent to a consumer without acknowledgements.
    pub forgiven: u64,
    /// Until the end of this period messages may be lost without a violation.
    pub may_lose_messages: bool,
    /// The last period in which a consumer left with deliveries under way.
    pub departed: Option<u32>,
    /// A message was requeued, ever.
    pub disturbed: bool,
    /// A client has tried an exclusive consumer.
    pub contested: bool,
    /// Active consumers: their uids, their channels, and whether they are exclusive.
    pub active: Vec<(u64, u32, bool)>,
    /// Its features.
    pub traits: QueueTraits,
    pub arguments: Table,
    /// It was declared durable.
    pub durable: bool,
    /// The last period in which it was redeclared.
    pub redeclared: Option<u32>,
    /// A client left that may have had deliveries of which it did not know.
    pub had_unseen_deliveries: bool,
    /// When the newest delivered message was sent, by stream of deliveries and priority.
    pub sent_below: BTreeMap<(u64, u8), ModelTime>,
    /// The consumer and the channel of its last delivery.
    pub served: Option<(u64, u32)>,
    /// What of it a restart leaves.
    pub survival: QueueSurvival,
}

impl ShadowQueue {
    /// Messages may be lost until the next rest; for ever, if limits may block the clients that have them.
    pub fn allow_losses(&mut self, has_ample_limits: bool) {
        self.may_lose_messages = true;
        if !has_ample_limits {
            self.forgiven = u64::MAX;
        }
    }
}

/// Everything that was requested and answered.
pub struct ShadowModel {
    pub now: ModelTime,
    /// The same in simulated time.
    pub now_us: u64,
    /// The number of rests.
    pub period: u32,
    /// When the last rest was.
    pub rested: ModelTime,
    /// When everything that had been done was last durable: at a rest while no disk was full, or at a stop.
    pub stored: ModelTime,
    /// The same in simulated time.
    pub stored_us: u64,
    /// The first is the default one.
    pub exchanges: Vec<ShadowExchange>,
    pub queues: Vec<ShadowQueue>,
    pub bindings: Vec<ShadowBinding>,
    /// Messages by number, beginning with 1.
    pub messages: BTreeMap<u64, ShadowMessage>,
    /// The paths of dead letters.
    pub paths: DeadLetterPaths,
    /// No limit ever blocks publishers.
    pub has_ample_limits: bool,
    /// When the broker last crashed; zero if it never did.
    pub crashed: ModelTime,
    /// When the broker last closed all connections by itself: what was sent since is never confirmed.
    pub ended: ModelTime,
    /// The broker has a store.
    pub has_store: bool,
    /// The broker confirms what it has not written.
    pub confirms_unwritten: bool,
    /// What the crash that is happening takes back.
    pub loss: Option<CrashLoss>,
    /// Commits of which a crash has left all or nothing; nobody knows which.
    pub commits: Vec<InterruptedCommit>,
    /// A commit that settles deliveries was answered: a crash soon may come before its write, if the answer did not wait.
    pub has_committed: bool,
}

impl ShadowModel {
    /// A broker without definitions.
    pub fn new(has_ample_limits: bool) -> Self {
        let life = Lifetime { made: Some(0), ..Lifetime::requested(0) };
        let default = ShadowExchange {
            name: String::new(),
            exchange_type: ShadowExchangeType::Default,
            alternate: None,
            auto_delete: false,
            durable: true,
            life,
        };
        ShadowModel {
            now: 1,
            now_us: 0,
            period: 0,
            rested: 0,
            stored: 0,
            stored_us: 0,
            exchanges: vec![default],
            queues: Vec::new(),
            bindings: Vec::new(),
            messages: BTreeMap::new(),
            paths: DeadLetterPaths::default(),
            has_ample_limits,
            crashed: 0,
            ended: ModelTime::MAX,
            has_store: false,
            confirms_unwritten: false,
            loss: None,
            commits: Vec::new(),
            has_committed: false,
        }
    }

    /// The next moment.
    pub fn tick(&mut self) -> ModelTime {
        self.now += 1;
        self.now
    }

    /// The number of the last message.
    pub fn newest(&self) -> u64 {
        self.messages.last_key_value().map_or(0, |(&id, _)| id)
    }

    /// Adds a queue that was just requested.
    pub fn add_queue(&mut self, name: String, owner: Option<u32>, auto_delete: bool) -> usize {
        self.queues.push(ShadowQueue {
            name,
            life: Lifetime::requested(self.now),
            owner,
            auto_delete,
            owed: BTreeSet::new(),
            deliveries: HashMap::new(),
            newest: HashMap::new(),
            forgiven: 0,
            may_lose_messages: false,
            departed: None,
            disturbed: false,
            contested: false,
            active: Vec::new(),
            traits: QueueTraits::default(),
            arguments: Table::default(),
            durable: false,
            redeclared: None,
            had_unseen_deliveries: false,
            sent_below: BTreeMap::new(),
            served: None,
            survival: QueueSurvival::default(),
        });
        self.queues.len() - 1
    }

    /// The broker has confirmed a message: it is in all queues to which it must be routed. `Err` names a violation. Unless
    /// the broker confirmed this very message (`by_name`), queues that may refuse it are left out.
    pub fn confirm(&mut self, id: u64, by_name: bool) -> Result<(), String> {
        let now = self.now;
        let Some(message) = self.messages.get_mut(&id) else { return Ok(()) };
        if message.sent > self.ended {
            return Err(format!("message {id} was confirmed, and was sent when the broker had closed its connections"));
        }
        message.outcome = PublishOutcome::Safe;
        message.routed = Some(now);
        message.accepted = by_name.then_some(now);
        message.accepted_us = self.now_us;
        let Some(message) = self.messages.get(&id) else { return Ok(()) };
        let must = self.routes(message, now, true);
        if message.returned {
            return match must.first() {
                Some(&queue) => {
                    Err(format!("message {id} was returned, but is routed to queue {}", self.queues[queue].name))
                }
                None => Ok(()),
            };
        }
        if message.mandatory
            && self.is_exchange(message.exchange, message.sent, now)
            && must.is_empty()
            && self.routes(message, now, false).is_empty()
        {
            return Err(format!("message {id} is mandatory and unroutable, and was not returned"));
        }
        let only = self.only_queue(message, by_name).filter(|_| must.is_empty());
        // What is transient, or gone at once, is confirmed without the store.
        let is_kept = message.persistent && message.expiration_us.is_none() && !self.confirms_unwritten;
        if let Some(queue) = only.filter(|_| is_kept).map(|queue| &mut self.queues[queue])
            && queue.traits.ttl_us.is_none()
            && queue.traits.length.is_none()
            && !queue.deliveries.contains_key(&id)
        {
            queue.survival.is_proven = true;
        }
        for queue in must.into_iter().chain(only) {
            let queue = &mut self.queues[queue];
            if queue.traits.refuses && !by_name {
                continue;
            }
            if queue.deliveries.get(&id).is_none_or(|delivery| delivery.settled == SettlementProgress::None) {
                queue.owed.insert(id);
            }
        }
        Ok(())
    }

    /// The only queue that a mandatory message can be in which was confirmed and not returned: it exists, and is durable if the
    /// message is.
    fn only_queue(&self, message: &ShadowMessage, by_name: bool) -> Option<usize> {
        if !(self.has_store && by_name && message.mandatory && !message.returned) {
            return None;
        }
        let queues = self.routes(message, self.now, false);
        let is_only = queues.len() == 1;
        queues.into_iter().next().filter(|&queue| is_only && self.queues[queue].life.ending.is_none())
    }

    /// The world is at rest: all losses that were possible until now have happened, unless a limit blocks clients. The broker
    /// has not read what those have sent last, nor noticed that they have gone: their channels will end in a later period.
    pub fn end_period(&mut self, is_blocking: bool) {
        let newest = self.newest();
        self.rested = self.now;
        for at in 0..self.exchanges.len() {
            if self.is_still_bound(at) == Some(false) {
                self.exchanges[at].life.ended = Some(self.now);
            }
        }
        if is_blocking {
            return;
        }
        self.period += 1;
        for queue in &mut self.queues {
            if std::mem::take(&mut queue.may_lose_messages) {
                queue.forgiven = queue.forgiven.max(newest);
            }
        }
    }

    /// Whether an exchange existed at every moment of a span. An auto-delete exchange did if one of its bindings did, or if it
    /// never had any.
    pub fn is_exchange(&self, at: usize, from: ModelTime, to: ModelTime) -> bool {
        let exchange = &self.exchanges[at];
        let mut bindings = self.bindings.iter().filter(|binding| binding.source == at).peekable();
        let holds = |binding: &ShadowBinding| {
            let target = match binding.target {
                BindingTarget::Queue(queue) => self.queues[queue].life.surely_spans(from, to),
                BindingTarget::Exchange(other) => {
                    !self.exchanges[other].auto_delete && self.exchanges[other].life.surely_spans(from, to)
                }
            };
            target && binding.lives.iter().any(|life| life.surely_spans(from, to))
        };
        exchange.life.surely_spans(from, to)
            && (!exchange.auto_delete || bindings.peek().is_none() || bindings.any(holds))
    }

    /// Whether an exchange may have been deleted by now.
    pub fn may_be_gone(&self, at: usize) -> bool {
        self.exchanges[at].life.ending.is_some() || !self.is_exchange(at, self.now, self.now)
    }

    /// At rest: whether an auto-delete exchange still has a binding; `None` if that is not known, or if the exchange is no
    /// such.
    pub fn is_still_bound(&self, at: usize) -> Option<bool> {
        let exchange = &self.exchanges[at];
        if !exchange.auto_delete || exchange.life.made.is_none() || exchange.life.ending.is_some() {
            return None;
        }
        if exchange.life.ended.is_some() {
            return Some(false);
        }
        if self.is_exchange(at, self.now, self.now) {
            return Some(true);
        }
        let over = |binding: &ShadowBinding| {
            let target = match binding.target {
                BindingTarget::Queue(queue) => &self.queues[queue].life,
                BindingTarget::Exchange(other) => &self.exchanges[other].life,
            };
            target.ended.is_some() || binding.lives.last().is_some_and(|life| life.ended.is_some())
        };
        let mut bindings = self.bindings.iter().filter(|binding| binding.source == at);
        let mut was_bound = false;
        let all_over = bindings.all(|binding| {
            was_bound |= binding.lives.iter().any(|life| life.made.is_some());
            over(binding)
        });
        (all_over && was_bound).then_some(false)
    }

    /// Queues that exist, or that may have been deleted automatically.
    pub fn living_queues(&self) -> Vec<usize> {
        let living = |queue: &ShadowQueue| {
            let life = &queue.life;
            let is_automatic = queue.auto_delete || queue.traits.expires_soon;
            life.made.is_some() && life.ended.is_none() && (life.ending.is_none() || is_automatic)
        };
        (0..self.queues.len()).filter(|&at| living(&self.queues[at])).collect()
    }
}

#[cfg(test)]
impl ShadowMessage {
    /// A message of a channel, to the default exchange.
    pub fn example(channel: u32) -> Self {
        ShadowMessage {
            channel,
            exchange: 0,
            key: String::new(),
            further_keys: Default::default(),
            headers: [None; 3],
            properties: Vec::new(),
            body_bytes: 8,
            mandatory: false,
            sent: 1,
            routed: None,
            accepted: None,
            accepted_us: 0,
            outcome: PublishOutcome::Open,
            returned: false,
            period: 0,
            declined: false,
            persistent: false,
            priority: None,
            expiration_us: None,
            sent_us: 0,
        }
    }
}
