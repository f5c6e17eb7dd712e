//! The broker of one shard: a facade over the objects that hold its state.
//!
//! Commands of connections and messages of other shards enter; effects leave. It never reads a clock: it is told the time.

use crate::access_review::AccessReview;
use crate::ack_timeouts::AckTimeouts;
use crate::broker_options::{BrokerCounters, BrokerOptions};
use crate::commands::Commands;
use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::declarations;
use crate::definitions::Definitions;
use crate::direct_reply::ReplyAddress;
use crate::early_publishes::EarlyPublishes;
use crate::effects::Effects;
use crate::ids::{ConnectionSlot, ShardIdentity};
use crate::inbox::Inbox;
use crate::limits::{DEAD_LETTER_SLACK_BYTES, EARLY_PUBLISHES_MAX, OUTCOME_WORK, REFUSALS_PER_FLUSH};
use crate::memory_growth::{MemoryGrowth, MemoryUse};
use crate::observer::Observer;
use crate::publishing::{Publish, Publishing};
use crate::requests::Requests;
use crate::restoration::Restoration;
use crate::session_state::{ReadControl, SessionLogin};
use crate::sessions::Sessions;
use crate::shard_message::ShardBatch;
use crate::work_runner::WorkRunner;
use catalog::{Catalog, Definition, QueueId, QueueUid, Refusal, ShardId, VhostId};
use queues::{
    BodyRef, Content, Message, OldestDelivery, PageSummary, PagedMessage, Queue, QueueEntry, QueuePosition,
    SettlementOutcome,
};
use wire::method::Method;
use wire::{ChannelNumber, DeliveryTag};

/// The broker core of one shard.
pub struct Broker {
    pub(crate) identity: ShardIdentity,
    pub(crate) sessions: Sessions,
    pub(crate) definitions: Definitions,
    pub(crate) data: DataPlane,
    early: EarlyPublishes,
    ack_timeouts: AckTimeouts,
    access_review: AccessReview,
}

impl Broker {
    /// A broker core with these definitions, which must be the same on every shard.
    pub fn new(options: BrokerOptions, catalog: Catalog) -> Self {
        let identity = ShardIdentity { shard: options.shard, shards: options.shards };
        let mut broker = Broker {
            identity,
            sessions: Sessions::new(options.shard),
            definitions: Definitions::new(identity, catalog),
            data: DataPlane::new(identity, options.queue_bytes_max, options.epoch_unix_s, options.work_per_turn),
            early: EarlyPublishes::new(options.shards, EARLY_PUBLISHES_MAX),
            ack_timeouts: AckTimeouts::new(options.consumer_timeout_ms),
            access_review: AccessReview::default(),
        };
        broker.control().start();
        broker
    }

    #[inline]
    fn control(&mut self) -> ControlPlane<'_> {
        let Broker { identity, sessions, definitions, data, .. } = self;
        ControlPlane { identity: *identity, sessions, definitions, data }
    }

    #[inline]
    fn requests(&mut self) -> Requests<'_> {
        Requests { control: self.control() }
    }

    #[inline]
    fn inbox(&mut self) -> Inbox<'_> {
        let Broker { identity, sessions, definitions, data, early, .. } = self;
        let control = ControlPlane { identity: *identity, sessions, definitions, data };
        Inbox { requests: Requests { control }, early }
    }

    #[inline]
    pub(crate) fn publishing(&mut self) -> Publishing<'_> {
        let Broker { identity, sessions, definitions, data, .. } = self;
        Publishing { identity: *identity, sessions, catalog: &mut definitions.catalog, data }
    }

    /// The definitions.
    pub fn catalog(&self) -> &Catalog {
        &self.definitions.catalog
    }

    /// The definitions, for checks that fill their caches. Changes go through [`Broker::receive`] and the commands.
    pub fn catalog_mut(&mut self) -> &mut Catalog {
        &mut self.definitions.catalog
    }

    /// Counts since the start.
    pub fn counters(&self) -> BrokerCounters {
        BrokerCounters::of(&self.data)
    }

    /// What this shard has counted and holds, for those who watch it.
    pub fn observer(&mut self) -> Observer<'_> {
        let Broker { identity, sessions, data, .. } = self;
        Observer { identity: *identity, sessions, data }
    }

    /// Every queue that lives here.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.data.dispatcher.queues.table.iter()
    }

    /// Bytes of the lists of messages, waiting, unsettled and delayed, beside the messages themselves.
    pub fn list_overhead_bytes(&self) -> usize {
        self.data.list_overhead_bytes()
    }

    /// Bytes that waiting messages will take once they are delivered and unsettled.
    pub fn settlement_bytes(&self) -> usize {
        self.data.settlement_bytes()
    }

    /// What the tables of this shard hold beside queues, by name: all of it is zero when everybody has gone.
    pub fn census(&self) -> [(&'static str, usize); 18] {
        let dispatcher = &self.data.dispatcher;
        let housekeeping = &dispatcher.queues.housekeeping;
        [
            ("sessions", self.sessions.len()),
            ("channels", dispatcher.channels.len()),
            ("consumers", dispatcher.channels.consumers_len()),
            ("consumers of other shards", dispatcher.remotes.count()),
            ("keys of consumers of other shards", dispatcher.remotes.keys_len()),
            ("publishes that other shards have not accepted", self.data.confirms.awaiting_shards_len()),
            ("publishes that are not stored", self.data.confirms.awaiting_store_len()),
            ("purges that are not stored", self.data.purges.count()),
            ("definitions that are not answered", self.definitions.pending_len()),
            ("early publishes", self.early.len()),
            ("queues that are full", dispatcher.flow.full_len()),
            ("queues that want messages of upstreams", dispatcher.demand.len()),
            ("timers", housekeeping.timers.len()),
            ("delayed messages", self.data.forwarder.delayed_len()),
            ("pages", housekeeping.paging.pages),
            ("requests for pages", housekeeping.paging.len()),
            ("dead letters", housekeeping.dead_letters.len()),
            ("deferred work", self.sessions.deferred.len()),
        ]
    }

    /// There is a store: from now on it is told what happens to messages, as by [`append`](queues::MessageStorage::append). Call it
    /// before any message is restored or any client connects.
    pub fn use_store(&mut self) {
        self.control().use_store();
    }

    /// The durable queue of this shard with this number, if there is a store.
    pub fn queue_of(&self, uid: QueueUid) -> Option<QueueId> {
        self.data.dispatcher.queues.by_uid(uid)
    }

    /// Whether messages with this number are of this shard: it has their queue, or delays them.
    pub fn is_there(&self, uid: QueueUid) -> bool {
        self.queue_of(uid).is_some() || self.data.forwarder.delays(uid)
    }

    fn restoration(&mut self) -> Restoration<'_> {
        let DataPlane { dispatcher, forwarder, .. } = &mut self.data;
        Restoration { catalog: &self.definitions.catalog, dispatcher, forwarder }
    }

    /// A message of an earlier life of this broker, before any client connects: a queue gets its messages in the order of their
    /// positions. `redelivered`: it had been handed out; `times_returned`: by consumers, as
    /// [`mark_returned`](queues::MessageStorage::mark_returned) said.
    /// Returns whether its queue has it; otherwise the queue is gone, or has one at this position or behind it.
    pub fn restore_message<E: Effects>(
        &mut self,
        uid: QueueUid,
        position: QueuePosition,
        message: Message,
        redelivered: bool,
        times_returned: u32,
        fx: &mut E,
    ) -> bool {
        self.restoration().restore(uid, QueueEntry { position, message, redelivered }, times_returned, fx)
    }

    /// A page of an earlier life of this broker, beside [`Broker::restore_message`] and in the same order, before
    /// [`Broker::finish_restore`]. It is ignored if the queue is gone.
    pub fn restore_page(&mut self, uid: QueueUid, page: PageSummary) {
        self.restoration().restore_page(uid, page);
    }

    /// Bytes of waiting messages of this shard beyond which they leave the memory by
    /// [`page_out`](queues::MessageStorage::page_out); zero for never.
    pub fn set_paging_threshold(&mut self, bytes: u64) {
        let dispatcher = &mut self.data.dispatcher;
        dispatcher.queues.housekeeping.paging.set_threshold(bytes);
        dispatcher.flow.set_paging(bytes > 0);
    }

    /// The answer to [`page_in`](queues::MessageStorage::page_in): all messages that are alive of what was asked for from the
    /// position `first` on. It is ignored if the queue is gone, or was purged meanwhile.
    pub fn paged_in<E: Effects>(
        &mut self,
        uid: QueueUid,
        first: QueuePosition,
        messages: Vec<PagedMessage>,
        fx: &mut E,
    ) {
        if let Some(id) = self.data.dispatcher.pager().page_in(uid, first, messages, fx) {
            self.requests().answer_gets(id, fx);
            self.control().dispatch_due(fx);
        }
    }

    /// Messages of a queue were paged out or are in the store, and cannot be read: it is closed, until it is purged or deleted or the
    /// broker starts again. Returns whether it is there, and was open.
    pub fn close_queue<E: Effects>(&mut self, uid: QueueUid, fx: &mut E) -> bool {
        self.control().close_queue(uid, fx)
    }

    /// A durable queue has its messages. The positions of new ones go on from these, one for each priority level that had any.
    pub fn finish_restore<E: Effects>(&mut self, uid: QueueUid, next: &[QueuePosition], fx: &mut E) {
        self.restoration().finish(uid, next, fx);
    }

    /// A connection has logged in and opened its virtual host.
    pub fn open_session(&mut self, slot: ConnectionSlot, login: SessionLogin) {
        let vhost_is_full = self.is_vhost_full(login.vhost);
        self.sessions.open(slot, login, vhost_is_full);
    }

    /// A connection is gone: its deliveries return, and its exclusive queues are deleted.
    pub fn close_session<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        WorkRunner { control: self.control() }.close_session(slot, fx);
    }

    /// The client opened a channel.
    pub fn open_channel(&mut self, slot: ConnectionSlot, number: ChannelNumber) {
        let key = self.data.dispatcher.channels.open(slot, number);
        if !self.sessions.attach_channel(slot, number, key) {
            self.data.dispatcher.channels.remove(key);
        }
    }

    /// A channel is closed, by either side.
    pub fn close_channel<E: Effects>(&mut self, slot: ConnectionSlot, number: ChannelNumber, fx: &mut E) {
        WorkRunner { control: self.control() }.close_channel(slot, number, SettlementOutcome::Requeued, fx);
    }

    /// A channel is closed, and its deliveries are rejected: they are dead letters, or dropped.
    pub fn close_channel_rejecting<E: Effects>(&mut self, slot: ConnectionSlot, number: ChannelNumber, fx: &mut E) {
        WorkRunner { control: self.control() }.close_channel(slot, number, SettlementOutcome::Rejected, fx);
    }

    /// Whether a channel is open.
    pub fn has_channel(&self, slot: ConnectionSlot, number: ChannelNumber) -> bool {
        self.sessions.channel_key(slot, number).is_some()
    }

    /// Messages of a channel that are in flight: published and not safe yet, delivered and not settled.
    pub fn in_flight(&self, slot: ConnectionSlot, number: ChannelNumber) -> u64 {
        let key = self.sessions.channel_key(slot, number);
        key.and_then(|key| self.data.dispatcher.channels.get(key)).map_or(0, |channel| channel.in_flight())
    }

    /// The virtual host of a connection.
    pub fn vhost_name(&self, slot: ConnectionSlot) -> &str {
        self.sessions.identity(slot).map_or("", |identity| self.definitions.catalog.vhost_name(identity.vhost))
    }

    /// Whether the connection's next command may be read.
    #[inline]
    pub fn may_read(&self, slot: ConnectionSlot) -> bool {
        self.sessions.may_read(slot)
    }

    /// `basic.publish` with its content.
    #[inline]
    pub fn publish<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        publish: Publish<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        self.publishing().publish(slot, number, publish, fx)
    }

    /// The content of a `basic.publish` has begun to arrive; [`Broker::publish`] follows once it is whole.
    ///
    /// # Errors
    /// What its exchange would not take.
    pub fn begin_publish<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        exchange: &[u8],
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        self.publishing().begin(slot, number, exchange, fx)
    }

    /// What a command that has not been carried out would take memory for.
    #[cold]
    pub fn memory_use(&self, slot: ConnectionSlot, number: ChannelNumber, method: &Method<'_>) -> Option<MemoryUse> {
        let (catalog, channels) = (&self.definitions.catalog, &self.data.dispatcher.channels);
        MemoryGrowth { catalog, channels, session: self.sessions.get(slot)? }.of(number, method)
    }

    /// Holds a connection back until the memory alarm, which is on, is over: its next command takes memory.
    pub fn await_memory<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        self.sessions.await_memory(slot, fx);
    }

    /// Whether a connection is held back with a command that takes memory.
    pub fn awaits_memory(&self, slot: ConnectionSlot) -> bool {
        self.sessions.get(slot).is_some_and(|session| session.awaits_memory)
    }

    /// Whether a connection is not read because of the memory alarm.
    pub fn is_blocked_by_memory(&self, slot: ConnectionSlot) -> bool {
        self.sessions.is_blocked_by_memory(slot)
    }

    /// A publish that is a duplicate: it goes nowhere, and is confirmed.
    pub fn publish_duplicate(&mut self, slot: ConnectionSlot, number: ChannelNumber) -> Result<ReadControl, Refusal> {
        self.publishing().publish_duplicate(slot, number)
    }

    /// A publish that nobody will accept: it goes nowhere, and is refused.
    pub fn publish_refused(&mut self, slot: ConnectionSlot, number: ChannelNumber) -> Result<ReadControl, Refusal> {
        self.publishing().publish_refused(slot, number)
    }

    /// Whether the user of a connection may publish messages to an exchange at all, so that a refusal is for one message.
    pub fn may_publish(&mut self, slot: ConnectionSlot, exchange: &[u8]) -> Result<(), Refusal> {
        self.publishing().may_publish(slot, exchange)
    }

    /// The oldest delivery on a channel that is not settled: its tag, and the position to which its message would return.
    pub fn oldest_unsettled(&self, slot: ConnectionSlot, number: ChannelNumber) -> Option<OldestDelivery> {
        self.data.dispatcher.channels.get(self.sessions.channel_key(slot, number)?)?.ledger.oldest_delivery()
    }

    /// The number by which the next publish on a channel will be confirmed, if it will.
    pub fn next_confirm_tag(&self, slot: ConnectionSlot, number: ChannelNumber) -> Option<DeliveryTag> {
        self.data.dispatcher.channels.get(self.sessions.channel_key(slot, number)?)?.next_confirm_tag()
    }

    /// A method without content on an open channel.
    pub fn command<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        method: Method<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        Commands { requests: self.requests() }.execute(slot, number, method, fx)
    }

    /// Whether a method may follow others in a batch of definitions ([`ReadControl::Batch`]).
    pub fn may_batch(&self, slot: ConnectionSlot, method: &Method<'_>) -> bool {
        declarations::may_batch(self.sessions.identity(slot).ok(), &self.definitions.catalog, method)
    }

    /// Nothing more follows in a connection's batch of definitions: it goes to shard 0, and the connection awaits the outcome.
    pub fn flush_definitions<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        self.requests().send_batch(slot, None, fx);
    }

    /// Deletes a queue with its messages, whoever uses it; nobody awaits the outcome.
    pub fn delete_queue<E: Effects>(&mut self, vhost: VhostId, name: &[u8], fx: &mut E) {
        self.control().delete_queue(vhost, name, fx);
    }

    /// A change that an operator makes, at shard 0; what the catalog refuses changes nothing. Not while
    /// [`Broker::holds_definitions`].
    pub fn define_as_operator<E: Effects>(&mut self, definition: Definition, fx: &mut E) -> Result<(), Refusal> {
        let mut control = self.control();
        control.execute(definition, fx)?;
        control.dispatch_due(fx);
        Ok(())
    }

    /// Shard 0: has the definitions stay as they are, so that [`Broker::catalog`] can be copied in pieces; changes wait, and nothing
    /// else does. Returns whether they do: not while definitions are unfinished, or wait since an earlier copy.
    pub fn begin_definition_copy(&mut self) -> bool {
        self.definitions.begin_copy()
    }

    /// Shard 0: whether a copy may begin.
    pub fn may_copy_definitions(&self) -> bool {
        self.definitions.may_be_copied()
    }

    /// Shard 0: the copy is complete. The changes that have waited are made in turns, in their order.
    pub fn end_definition_copy(&mut self) {
        self.definitions.end_copy();
    }

    /// Shard 0: whether changes wait for a copy of the definitions, or for earlier ones that have. Operators wait, too
    /// ([`Broker::define_as_operator`]).
    #[inline]
    pub fn holds_definitions(&self) -> bool {
        self.definitions.holds_changes()
    }

    /// Whether users may have lost access since this was last asked. If so, a review of all consumers begins; the owner of
    /// the connections reviews these ([`Catalog::revoked_access`]).
    pub fn take_access_change(&mut self) -> bool {
        let has_changed = std::mem::take(&mut self.definitions.access_narrowed);
        if has_changed {
            self.access_review.begin(self.data.dispatcher.channels.consumers().places());
        }
        has_changed
    }

    /// Whether consumers are being reviewed.
    #[inline]
    pub fn reviews_consumers(&self) -> bool {
        !self.access_review.is_done()
    }

    /// Cancels some of the consumers whose users may no longer read their queues. Returns how many.
    pub fn review_consumers<E: Effects>(&mut self, fx: &mut E) -> usize {
        let Broker { identity, sessions, definitions, data, access_review, .. } = self;
        access_review.proceed(&mut ControlPlane { identity: *identity, sessions, definitions, data }, fx)
    }

    /// Carries out a batch from another shard, and empties it.
    pub fn receive<E: Effects>(&mut self, from: ShardId, batch: &mut ShardBatch, fx: &mut E) {
        self.inbox().receive(from, batch, fx);
    }

    /// A turn begins, of a connection, of a batch from another shard or of deferred work: the budget of work is whole again.
    #[inline]
    pub fn start_turn(&mut self) {
        self.data.dispatcher.work.start_turn();
    }

    /// Whether the turn has used up its budget of work, so that others have theirs first.
    #[inline]
    pub fn is_turn_over(&self) -> bool {
        self.data.dispatcher.work.is_spent()
    }

    /// Draws for what a connection does rarely: it logs in, opens or closes a channel, or is refused something.
    pub fn draw_outcome(&mut self) {
        self.data.dispatcher.work.draw(OUTCOME_WORK);
    }

    /// Whether turns have left work undone, which [`Broker::run_deferred`] does.
    #[inline]
    pub fn has_deferred(&self) -> bool {
        self.data.dispatcher.queues.has_due_work()
            || !self.sessions.deferred.is_empty()
            || self.data.dispatcher.channels.any_settled()
            || self.data.confirms.is_unfinished()
            || self.sessions.has_notices()
            || self.definitions.has_released()
            || self.early.any_awaits_turn()
    }

    /// Does what turns have left undone, for one turn, and for others what is held back of other shards, and what sessions are yet
    /// to be told: nobody here can keep them waiting.
    pub fn run_deferred<E: Effects>(&mut self, fx: &mut E) {
        WorkRunner { control: self.control() }.run(fx);
        if self.early.any_awaits_turn() {
            self.start_turn();
            self.inbox().resume(fx);
        }
        if self.sessions.has_notices() {
            self.start_turn();
            self.send_notices(fx);
        }
        if self.definitions.has_released() {
            self.start_turn();
            self.control().make_released(fx);
            self.requests().send_outcomes(fx);
        }
    }

    /// Whether messages of a shard are held back: they wait for a declaration from shard 0. Batches that are received all the same
    /// wait with them.
    #[inline]
    pub fn holds_back(&self, from: ShardId) -> bool {
        self.early.holds_back(from)
    }

    /// Writes what must precede a flush of the outputs: one confirm per channel for all its publishes, answers to other shards. Very
    /// many refusals have several flushes.
    pub fn flush_batch<E: Effects>(&mut self, fx: &mut E) {
        let DataPlane { dispatcher, confirms, .. } = &mut self.data;
        confirms.flush(&mut dispatcher.channels, REFUSALS_PER_FLUSH, fx);
        confirms.flush_accepted(fx);
        dispatcher.channels.flush_credits(fx);
    }

    /// The store has made everything up to this ticket durable.
    pub fn durable<E: Effects>(&mut self, ticket: u64, fx: &mut E) {
        self.publishing().answers().on_durable(ticket, fx);
        self.requests().on_durable(ticket, fx);
    }

    /// The changes of definitions that this shard has made. Messages that arrive from now on may depend on all of them.
    pub fn definitions_version(&self) -> u64 {
        self.definitions.version()
    }

    /// Shard 0: the journal has made the definitions up to this version durable.
    pub fn definitions_durable<E: Effects>(&mut self, version: u64, fx: &mut E) {
        self.definitions.note_durable(version);
        self.requests().send_outcomes(fx);
    }

    /// A connection's output has capacity again: its idle consumers take their turns.
    pub fn output_ready<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        self.control().wake_connection(slot, fx);
    }

    /// The moment is over for which [`Effects::throttle`] was called.
    pub fn end_throttle<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        self.control().end_throttle(slot, fx);
    }

    /// Tells the time: microseconds since some moment that is the same for all shards.
    #[inline]
    pub fn set_now(&mut self, now_us: u64) {
        debug_assert!(now_us >= self.data.dispatcher.now_us, "time goes on");
        self.data.dispatcher.now_us = now_us;
        self.data.dispatcher.channels.latency.now_us = now_us;
    }

    /// When [`Broker::run_timers`] has something to do, in the same microseconds.
    #[inline]
    pub fn next_timer(&self) -> Option<u64> {
        let dispatcher = &self.data.dispatcher;
        let ack_timeout = self.ack_timeouts.next(dispatcher.channels.unsettled());
        dispatcher.queues.housekeeping.timers.next().into_iter().chain(ack_timeout).min()
    }

    /// Whether a check of all channels for overdue acknowledgements is not complete: [`Broker::run_timers`] goes on with it before
    /// time does.
    #[inline]
    pub fn checks_timeouts(&self) -> bool {
        self.ack_timeouts.is_checking()
    }

    /// Does what is due.
    pub fn run_timers<E: Effects>(&mut self, fx: &mut E) {
        let Broker { identity, sessions, definitions, data, ack_timeouts, .. } = self;
        ControlPlane { identity: *identity, sessions, definitions, data }.run_timers(ack_timeouts, fx);
    }

    /// The number of this start of this broker, drawn at random; the same on every shard. From now on messages are stamped where
    /// a binding requires it (`x-harrier-window`).
    pub fn set_origin(&mut self, origin: u64) {
        self.data.forwarder.stamps.set_origin(origin);
    }

    /// Bytes of properties that fit the frames that are proposed to clients: dead letters, to which headers are added, keep to it.
    pub fn set_properties_bytes_max(&mut self, bytes: usize) {
        self.data.dead_letters.properties_bytes_max = bytes.saturating_sub(DEAD_LETTER_SLACK_BYTES);
    }

    /// This connection is that of a link to another broker: the messages that it publishes keep their stamps. It is read once
    /// everything is done that the link's last connection has left.
    pub fn mark_link(&mut self, slot: ConnectionSlot, link: u32) {
        self.sessions.mark_link(slot, link);
    }

    /// Whether another broker has made this connection to push messages, or says so: what it has in flight is lost with it.
    pub fn is_push(&self, slot: ConnectionSlot) -> bool {
        self.sessions.get(slot).is_some_and(|session| session.pushes)
    }

    /// Whether this connection is a link to another broker.
    #[inline]
    pub fn is_link(&self, slot: ConnectionSlot) -> bool {
        self.sessions.get(slot).is_some_and(|session| session.is_link)
    }

    /// The answer to an admin request of this shard; it is dropped if the channel is gone.
    pub fn answer_admin_request<E: Effects>(
        &mut self,
        to: ReplyAddress,
        properties: &[u8],
        body: BodyRef<'_>,
        fx: &mut E,
    ) {
        let answer = Content { properties, body, ..Content::EMPTY };
        self.data.dispatcher.channels.deliver_answer(to, &answer, fx);
    }
}

mod alarms;
#[cfg(test)]
mod tests;
mod upstream_demand;
