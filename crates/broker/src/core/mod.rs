//! The broker of one shard: connections, channels, queues, and the replica of the definitions.
//!
//! Enters: commands of connections, letters of other shards.  Leaves: effects.
//! Owns:   every table of the domain on this shard.
//! Never:  knows a frame, a socket, a thread or a lock; asks for the time, which it is told.
//!
//! The files beside this one hold its commands: `publish`, `dispatch` (who gets the next message), `settle`, `consume`, `declare`, `define` (on every shard), `runs` (of definitions), `transact`,
//! `questions` (to other shards) and `post` (mail from them), `time` (what expires), `delay` (what waits in an exchange), `bury` (dead letters), `copies` (further routing keys), `stamp` (what may come twice) and `request` (administrators'); `commands` says which method is whose.

mod bury;
mod commands;
mod consume;
mod copies;
mod declare;
mod define;
mod delay;
mod dispatch;
mod post;
mod publish;
mod questions;
mod request;
mod runs;
mod settle;
mod stamp;
mod time;
mod transact;

pub use publish::Publish;

use crate::channel::{Channel, ChannelKey};
use crate::consumer::{Consumer, ConsumerKey};
use crate::pending_dead_letters::PendingDeadLetters;
use crate::death_history::DeathHistoryWriter;
use crate::delayed_messages::DelayedMessages;
use crate::effects::{Effects, ConnectionSlot};
use crate::shard_message::{Requester, RefusedDefinition};
use crate::limits::DELAYED_MESSAGES_MAX;
use crate::message::Message;
use crate::session_state::{SessionLogin, SessionState};
use crate::queue::{Queue, RemoteConsumer, RemoteKey};
use crate::vhost_quotas::VhostQuotas;
use crate::queue_timers::QueueTimers;
use catalog::{Catalog, Definition, QueueId, Refusal, ShardId, VhostId};
use hashbrown::{HashMap, HashSet};
use slotmap::SlotMap;
use stamp::Stamps;
use std::collections::VecDeque;
use wire::method::{Method, connection};

/// What a waiting message, or an unsettled delivery, costs in its list. They count alike, so that what waits can be delivered, and
/// what was delivered can come back, without the broker going over its limit by that.
const LISTED_BYTES: usize = size_of::<Option<crate::ledger::UnsettledDelivery>>() + size_of::<Message>();

/// Whether the connection's next command may be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum ReadControl {
    /// Go on.
    Continue,
    /// Stop reading until [`Effects::resume`].
    Pause,
    /// Go on with what [`Broker::gathers`] on the same channel, then call [`Broker::end_run`] and stop reading.
    Batch,
}

/// How a broker core is set up.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// This shard.
    pub shard: ShardId,
    /// How many there are.
    pub shards: u16,
    /// Bytes of waiting messages at which a queue holds its publishers back.
    pub queue_bytes_max: u64,
    /// How long a delivery may wait for its acknowledgement before its channel is closed, in milliseconds; zero: for ever.
    pub consumer_timeout_ms: u64,
    /// Seconds from 1970 to the moment from which [`Broker::set_now`] counts.
    pub epoch_unix_s: u64,
}

/// The consumers and channels of this shard, apart from its queues so that a queue and its consumers can be borrowed at once.
#[derive(Default)]
pub(crate) struct Tables {
    pub channels: SlotMap<ChannelKey, Channel>,
    pub consumers: SlotMap<ConsumerKey, Consumer>,
    pub remotes: SlotMap<RemoteKey, RemoteConsumer>,
    pub peers: Vec<Option<Box<SessionState>>>,
    /// Deliveries that wait for settlement, on all channels.
    pub unsettled: usize,
}

/// Changes of definitions that wait until every replica has made it (shard 0 only).
struct PendingDefinition {
    version: u64,
    asker: Requester,
    result: Result<(), RefusedDefinition>,
}

/// A publish from another shard for a queue whose declaration has not arrived here yet.
struct EarlyPublish {
    from: ShardId,
    message: Message,
    queues: Box<[QueueId]>,
    confirm: bool,
}

/// Counts since the start.
#[derive(Clone, Copy, Default, Debug)]
pub struct BrokerCounters {
    /// Messages published.
    pub published: u64,
    /// Deliveries to consumers.
    pub delivered: u64,
    /// Messages that no queue took.
    pub unroutable: u64,
}

/// The broker core of one shard.
pub struct Broker {
    options: BrokerOptions,
    catalog: Catalog,
    tables: Tables,
    queues: Vec<Option<Box<Queue>>>,
    remote_keys: HashMap<(ShardId, ConsumerKey), RemoteKey>,
    /// Queues to look at before the command ends.
    due: Vec<QueueId>,
    confirms_due: Vec<ChannelKey>,
    /// Consumers whose queues on other shards must be told what they may send.
    credits_due: Vec<ConsumerKey>,
    /// Publishes that wait for `Accepted`, for each shard in the order they were sent.
    accepting: Vec<VecDeque<(ChannelKey, u64)>>,
    /// Publishes that wait for the store.
    storing: VecDeque<(u64, ChannelKey, u64)>,
    /// Publishes taken in from each shard since it was told.
    accepted: Vec<u32>,
    /// Definitions made here.
    version: u64,
    /// Shard 0: how far each replica is, and what waits for all of them.
    applied: Vec<u64>,
    defining: VecDeque<PendingDefinition>,
    /// Mail for queues whose declaration has not arrived yet.
    early: VecDeque<EarlyPublish>,
    /// Messages that wait in the queues of this shard.
    waiting: usize,
    full: HashSet<QueueId>,
    /// The queue whose consumers the publisher at hand outruns.
    outrun: Option<QueueId>,
    /// The same of the dead letters routed last.
    outrun_by_letters: Option<QueueId>,
    memory_alarm: bool,
    /// Virtual hosts whose bytes are counted.
    rooms: VhostQuotas,
    /// The memory is short, or a virtual host is full: publishers may have to wait.
    alarmed: bool,
    questions: u32,
    counters: BrokerCounters,
    now_us: u64,
    timers: QueueTimers,
    /// Messages that exchanges hold back.
    delayed: DelayedMessages,
    /// When the deliveries that are out are looked at next, with a consumer timeout.
    overdue_look_us: u64,
    /// What queues gave up and nobody has routed yet.
    dead: PendingDeadLetters,
    /// The last of them that was.
    last_death: Option<Box<DeathHistoryWriter>>,
    /// For messages that may come to somebody twice.
    stamps: Stamps,
}

impl Broker {
    /// A broker core with these definitions, which must be the same on every shard.
    pub fn new(options: BrokerOptions, catalog: Catalog) -> Self {
        let shards = options.shards as usize;
        let mut broker = Broker {
            options,
            catalog,
            tables: Tables::default(),
            queues: Vec::new(),
            remote_keys: HashMap::new(),
            due: Vec::new(),
            confirms_due: Vec::new(),
            credits_due: Vec::new(),
            accepting: (0..shards).map(|_| VecDeque::new()).collect(),
            storing: VecDeque::new(),
            accepted: vec![0; shards],
            version: 0,
            applied: vec![0; shards],
            defining: VecDeque::new(),
            early: VecDeque::new(),
            full: HashSet::new(),
            waiting: 0,
            outrun: None,
            outrun_by_letters: None,
            memory_alarm: false,
            rooms: VhostQuotas::default(),
            alarmed: false,
            questions: 0,
            counters: BrokerCounters::default(),
            now_us: 0,
            timers: QueueTimers::default(),
            delayed: DelayedMessages::new(DELAYED_MESSAGES_MAX),
            overdue_look_us: 0,
            dead: PendingDeadLetters::default(),
            last_death: None,
            stamps: Stamps::default(),
        };
        broker.find_rooms();
        broker.make_queues();
        broker
    }

    /// The definitions.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The definitions, for checks that fill their caches. Changes go through [`Broker::receive`] and the commands.
    pub fn catalog_mut(&mut self) -> &mut Catalog {
        &mut self.catalog
    }

    /// Counts since the start.
    pub fn counters(&self) -> BrokerCounters {
        self.counters
    }

    /// Every queue that lives here.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().flatten().map(|queue| &**queue)
    }

    /// Bytes of the lists of messages, waiting, unsettled and delayed, beside the messages themselves.
    pub fn list_overhead_bytes(&self) -> usize {
        (self.waiting + self.tables.unsettled) * LISTED_BYTES + self.delayed.list_overhead_bytes()
    }

    /// What the tables of this shard hold beside queues, by name: all of it is zero when everybody has gone.
    pub fn census(&self) -> [(&'static str, usize); 13] {
        let waiting = self.accepting.iter().map(VecDeque::len).sum();
        [
            ("sessions", self.tables.peers.iter().flatten().count()),
            ("channels", self.tables.channels.len()),
            ("consumers", self.tables.consumers.len()),
            ("consumers of other shards", self.tables.remotes.len()),
            ("names of consumers of other shards", self.remote_keys.len()),
            ("publishes that other shards have not accepted", waiting),
            ("publishes that are not stored", self.storing.len()),
            ("definitions that are not answered", self.defining.len()),
            ("letters that came early", self.early.len()),
            ("queues that are full", self.full.len()),
            ("timers", self.timers.len()),
            ("delayed messages", self.delayed.len()),
            ("dead letters", self.dead.len()),
        ]
    }

    /// A connection has logged in and opened its virtual host.
    pub fn open_session(&mut self, slot: ConnectionSlot, login: SessionLogin) {
        let index = slot as usize;
        if self.tables.peers.len() <= index {
            self.tables.peers.resize_with(index + 1, || None);
        }
        assert!(self.tables.peers[index].is_none(), "the slot's earlier connection was closed");
        let vhost_is_full = self.rooms.is_full(login.vhost);
        self.tables.peers[index] = Some(Box::new(SessionState { vhost_is_full, ..SessionState::new(login) }));
    }

    /// A connection is gone: what it had out goes back, what it owned goes.
    pub fn close_session<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        let Some(peer) = self.tables.peers.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        if let Some(run) = peer.definition_batch {
            self.send_definitions(None, run.definitions, fx);
        }
        for key in peer.channels.iter().flatten() {
            self.drop_channel(*key, fx);
        }
        if peer.owns_queues {
            self.define_unasked(Definition::SessionGone { session: peer.session }, fx);
        }
        self.dispatch_due(fx);
    }

    /// The client opened a channel.
    pub fn open_channel(&mut self, slot: ConnectionSlot, number: u16) {
        let key = self.tables.channels.insert(Channel::new(slot, number));
        let Some(peer) = self.peer_mut(slot) else {
            self.tables.channels.remove(key);
            return;
        };
        let index = number as usize;
        if peer.channels.len() <= index {
            peer.channels.resize(index + 1, None);
        }
        let earlier = peer.channels[index].replace(key);
        assert!(earlier.is_none(), "the session opens a channel once");
    }

    /// The channel is closed, by either side.
    pub fn close_channel<E: Effects>(&mut self, slot: ConnectionSlot, number: u16, fx: &mut E) {
        let Some(peer) = self.peer_mut(slot) else {
            return;
        };
        let Some(key) = peer.channels.get_mut(number as usize).and_then(Option::take) else {
            return;
        };
        if peer.pending.as_ref().is_some_and(|awaiting| awaiting.channel == number) {
            peer.pending = None;
        }
        if let Some(run) = peer.definition_batch.take_if(|run| run.channel == number) {
            self.send_definitions(None, run.definitions, fx);
        }
        self.drop_channel(key, fx);
        self.dispatch_due(fx);
    }

    /// Whether a channel is open.
    pub fn has_channel(&self, slot: ConnectionSlot, number: u16) -> bool {
        self.channel_key(slot, number).is_some()
    }

    /// Messages of a channel that are under way: published and not safe yet, delivered and not settled.
    pub fn in_flight(&self, slot: ConnectionSlot, number: u16) -> u64 {
        let Some(channel) = self.channel_key(slot, number).and_then(|key| self.tables.channels.get(key)) else {
            return 0;
        };
        let confirms = &channel.confirms;
        confirms.published - confirms.confirmed + channel.ledger.unsettled() as u64
    }

    /// Whether the connection's next command may be read.
    #[inline]
    pub fn may_read(&self, slot: ConnectionSlot) -> bool {
        match self.tables.peers.get(slot as usize) {
            Some(Some(peer)) => {
                peer.pending.is_none()
                    && peer.blocked_by.is_none()
                    && peer.throttled_by.is_none()
                    && !((self.memory_alarm || peer.vhost_is_full) && peer.has_published)
            }
            _ => true,
        }
    }

    /// The whole broker is over its memory limit, or below it again.
    pub fn set_memory_alarm<E: Effects>(&mut self, on: bool, fx: &mut E) {
        if self.memory_alarm == on {
            return;
        }
        self.memory_alarm = on;
        self.alarmed = on || self.rooms.any_full();
        for slot in 0..self.tables.peers.len() as u32 {
            self.tell_blocked(slot, fx);
        }
    }

    /// Whether publishers are held back because memory is short, or a virtual host is full.
    pub fn is_alarmed(&self) -> bool {
        self.alarmed
    }

    /// Whether the memory alarm is on.
    pub fn memory_alarm(&self) -> bool {
        self.memory_alarm
    }

    /// The virtual hosts whose bytes have a limit: what waits in their queues here, and what may wait in all of them.
    pub fn vhost_quotas(&self) -> impl Iterator<Item = (VhostId, u64, u64)> {
        self.rooms.iter()
    }

    /// As much waits in a virtual host as may, or no more: its publishers are held back, or go on.
    pub fn set_vhost_full<E: Effects>(&mut self, vhost: VhostId, full: bool, fx: &mut E) {
        if !self.rooms.set_full(vhost, full) {
            return;
        }
        self.tell_vhost(vhost, full, fx);
    }

    /// Whether as much waits in a virtual host as may.
    pub fn is_vhost_full(&self, vhost: VhostId) -> bool {
        self.rooms.is_full(vhost)
    }

    fn tell_vhost<E: Effects>(&mut self, vhost: VhostId, full: bool, fx: &mut E) {
        self.alarmed = self.memory_alarm || self.rooms.any_full();
        for slot in 0..self.tables.peers.len() as u32 {
            if let Some(peer) = self.peer_mut(slot)
                && peer.vhost == vhost
            {
                peer.vhost_is_full = full;
                self.tell_blocked(slot, fx);
            }
        }
    }

    /// Tells a connection that it is held back, or no more.
    fn tell_blocked<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        let alarm = self.memory_alarm;
        let Some(peer) = self.peer_mut(slot) else {
            return;
        };
        let reason: Option<&'static str> = if alarm && peer.has_published {
            Some("low on memory")
        } else if peer.vhost_is_full && peer.has_published {
            Some("virtual host is full")
        } else if peer.blocked_by.is_some() {
            Some("queue is full")
        } else {
            None
        };
        match (reason, peer.blocked_notified) {
            (Some(reason), false) => {
                peer.blocked_notified = true;
                if peer.capabilities.connection_blocked {
                    fx.reply(
                        slot,
                        0,
                        Method::ConnectionBlocked(connection::Blocked { reason: wire::ShortStr::literal(reason) }),
                    );
                }
            }
            (None, true) => {
                peer.blocked_notified = false;
                if peer.capabilities.connection_blocked {
                    fx.reply(slot, 0, Method::ConnectionUnblocked(connection::Unblocked {}));
                }
                fx.resume(slot);
            }
            _ => {}
        }
    }

    /// What must be written before the outputs are flushed: one confirm per channel for all its publishes, answers to other shards.
    pub fn flush_batch<E: Effects>(&mut self, fx: &mut E) {
        self.flush_confirms(fx);
        self.flush_accepted(fx);
        while let Some(key) = self.credits_due.pop() {
            if let Some(consumer) = self.tables.consumers.get_mut(key) {
                consumer.credit_listed = false;
                self.send_credit(key, fx);
            }
        }
    }

    #[inline]
    fn peer_mut(&mut self, slot: ConnectionSlot) -> Option<&mut SessionState> {
        self.tables.peers.get_mut(slot as usize)?.as_deref_mut()
    }

    #[inline]
    fn channel_key(&self, slot: ConnectionSlot, number: u16) -> Option<ChannelKey> {
        self.tables.peers.get(slot as usize)?.as_ref()?.channel(number)
    }

    #[inline]
    fn is_home(&self, shard: ShardId) -> bool {
        shard == self.options.shard
    }
}

/// The queue, if it lives here and is still the one meant.
#[inline]
pub(crate) fn find(queues: &mut [Option<Box<Queue>>], id: QueueId) -> Option<&mut Queue> {
    match queues.get_mut(id.index as usize) {
        Some(Some(queue)) if queue.id == id => Some(queue),
        _ => None,
    }
}

/// The refusal for a command on a channel that is not open; the session lets none through.
pub(crate) fn no_channel() -> Refusal {
    Refusal::connection(wire::ReplyCode::ChannelError, "CHANNEL_ERROR - expected 'channel.open'")
}
