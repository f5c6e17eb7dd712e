//! The control plane: what a change of definitions, the end of a connection, or a timer does to queues, consumers and sessions.

use crate::ack_timeouts::AckTimeouts;
use crate::data_plane::DataPlane;
use crate::deferred_work::{CancelNotices, DeferredWork};
use crate::definitions::{Definitions, HeldDefinitions};
use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::flow_control::FlowControl;
use crate::ids::{ChannelKey, ConnectionSlot, ShardIdentity};
use crate::limits::{CANCEL_NOTICE_WORK, CONSUMER_REMOVAL_WORK, DEFINITION_WORK, QUOTAS_PER_WORK};
use crate::publishing::Publishing;
use crate::rollback::Rollback;
use crate::sessions::Sessions;
use crate::shard_message::{QueueRequest, RefusedDefinition, ShardMessage};
use crate::transaction::TransactionOperation;
use catalog::{Definition, DefinitionOutcome, ExecutedDefinition, QueueId, Refusal, ShardId, VhostId};
use queues::limits::KEYS_PER_WORK;
use queues::{ConsumerKey, ConsumerRef, ConsumerRotation, Queue, QueueTimerResult, Requester, TimerTarget, stored_uid};
use wire::ShortStr;
use wire::method::{Method, basic, tx};

/// All that a change of definitions touches.
pub(crate) struct ControlPlane<'a> {
    pub identity: ShardIdentity,
    pub sessions: &'a mut Sessions,
    pub definitions: &'a mut Definitions,
    pub data: &'a mut DataPlane,
}

impl ControlPlane<'_> {
    pub fn publishing(&mut self) -> Publishing<'_> {
        Publishing {
            identity: self.identity,
            sessions: self.sessions,
            catalog: &mut self.definitions.catalog,
            data: self.data,
        }
    }

    /// Dispatches every queue that a command has touched.
    #[inline]
    pub fn dispatch_due<E: Effects>(&mut self, fx: &mut E) {
        self.data.dispatch_due(self.sessions, &mut self.definitions.catalog, fx);
    }

    /// A channel may accept more deliveries.
    #[inline]
    pub fn wake_channel<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) {
        self.data.wake_channel(key, self.sessions, &mut self.definitions.catalog, fx);
    }

    /// A connection has capacity again: its idle consumers take their turns.
    pub fn wake_connection<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        if self.data.dispatcher.channels.awaiting_output_len(slot) > 0 {
            self.data.dispatcher.wake_connection(slot, self.sessions, fx);
            self.dispatch_due(fx);
        }
    }

    /// The moment for which a publisher was throttled is over.
    pub fn end_throttle<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        FlowControl::end_throttle(slot, &mut self.data.dispatcher.queues.table, self.sessions, fx);
    }

    /// A change of definitions whose outcome nobody awaits.
    pub fn define<E: Effects>(&mut self, definition: Definition, fx: &mut E) {
        self.send_definitions(None, vec![definition], true, fx);
    }

    /// Changes of definitions, in their order up to the first that is refused: shard 0 makes them, other shards send them to it.
    /// The outcome for a requester is in `Definitions::next_outcome` once every replica has made them, and unless it is `no_wait`,
    /// once they are durable.
    pub fn send_definitions<E: Effects>(
        &mut self,
        requester: Option<Requester>,
        definitions: Vec<Definition>,
        no_wait: bool,
        fx: &mut E,
    ) {
        if !self.identity.is_home(ShardId(0)) {
            fx.batch(ShardId(0)).push(ShardMessage::Define { requester, definitions, no_wait });
            return;
        }
        if self.definitions.holds_changes() {
            return self.definitions.hold(HeldDefinitions { requester, definitions, no_wait });
        }
        self.make_definitions(HeldDefinitions { requester, definitions, no_wait }, fx);
    }

    /// Shard 0 makes changes that were held back while its definitions were copied, as far as the budget of the turn allows.
    pub fn make_released<E: Effects>(&mut self, fx: &mut E) {
        while !self.data.dispatcher.work.is_spent()
            && let Some(released) = self.definitions.next_released()
        {
            self.data.dispatcher.work.draw(1);
            self.make_definitions(released, fx);
        }
        self.dispatch_due(fx);
    }

    /// Shard 0 makes changes.
    fn make_definitions<E: Effects>(&mut self, changes: HeldDefinitions, fx: &mut E) {
        let HeldDefinitions { requester, definitions, no_wait } = changes;
        let (mut result, mut is_finished) = (Ok(()), true);
        for (made, definition) in definitions.into_iter().enumerate() {
            match self.execute(definition, fx) {
                Ok(finished) => is_finished &= finished,
                Err(refusal) => {
                    result = Err(RefusedDefinition { made, refusal });
                    break;
                }
            }
        }
        match requester {
            Some(requester) if is_finished && no_wait => self.definitions.await_replicas(requester, result),
            Some(requester) if is_finished => self.definitions.await_durable(requester, result),
            Some(requester) => self.definitions.await_finish(requester, result),
            None => {}
        }
    }

    /// Shard 0 makes a change. What takes more steps than one definition may take is finished by further ones in other turns.
    /// Returns whether it is finished.
    pub fn execute<E: Effects>(&mut self, definition: Definition, fx: &mut E) -> Result<bool, Refusal> {
        let is_finishing = self.definitions.catalog.has_unfinished();
        let executed = match self.definitions.execute(definition, fx) {
            Ok(executed) => executed,
            Err(refusal) => {
                // Whoever is next must not pay for what is refused.
                self.data.dispatcher.work.draw(self.definitions.catalog.take_work() as usize);
                return Err(refusal);
            }
        };
        self.carry_out(&executed, fx);
        if executed.unfinished && !is_finishing {
            self.sessions.deferred.leave(DeferredWork::FinishDefinitions);
        }
        Ok(!executed.unfinished)
    }

    /// Shard 0 goes on with definitions that are not finished. Returns whether more is left.
    pub fn finish_definitions<E: Effects>(&mut self, fx: &mut E) -> bool {
        if let Ok(executed) = self.definitions.execute(Definition::Finish, fx) {
            self.carry_out(&executed, fx);
            if executed.unfinished {
                return true;
            }
        }
        self.definitions.end_unfinished();
        false
    }

    /// This replica makes a change of shard 0.
    pub fn apply<E: Effects>(&mut self, version: u64, definition: &Definition, fx: &mut E) {
        let executed = self.definitions.apply(version, definition);
        self.carry_out(&executed, fx);
    }

    /// Deletes a queue with its messages, whoever uses it.
    pub fn delete_queue<E: Effects>(&mut self, vhost: VhostId, name: &[u8], fx: &mut E) {
        let catalog = &self.definitions.catalog;
        let queue = catalog.queue(vhost, name).and_then(|id| catalog.queue_definition(id));
        if let Some(name) = queue.map(|queue| queue.name.clone()) {
            self.define(Definition::DeleteQueue { vhost, name, session: None }, fx);
            self.dispatch_due(fx);
        }
    }

    /// Creates, removes and updates the queues of this shard that a change concerns, and the quotas.
    fn carry_out<E: Effects>(&mut self, executed: &ExecutedDefinition, fx: &mut E) {
        self.data.dispatcher.work.draw(DEFINITION_WORK + self.definitions.catalog.take_work() as usize);
        for removed in &executed.queues_removed {
            if self.identity.is_home(removed.home) {
                self.remove_queue(removed.id, fx);
            } else {
                let Dispatcher { flow, work, .. } = &mut self.data.dispatcher;
                flow.set_full(removed.id, false, self.sessions, work, fx);
            }
        }
        if let DefinitionOutcome::Queue { id, home, created: true } = executed.outcome {
            if self.identity.is_home(home) {
                self.create_queue(id);
                self.data.dispatcher.queues.created += 1;
            } else {
                self.data.dispatcher.demand.on_declared(id);
            }
        }
        for &id in &executed.queues_changed {
            self.update_queue(id);
        }
        let quotas = &self.data.dispatcher.queues.housekeeping.quotas;
        self.data.dispatcher.work.draw(quotas.len() / QUOTAS_PER_WORK);
        // A virtual host that is deleted takes its quota along.
        let is_gone = |vhost| self.definitions.catalog.vhost_name(vhost).is_empty();
        if executed.outcome == DefinitionOutcome::Limited || quotas.iter().any(|(vhost, ..)| is_gone(vhost)) {
            for vhost in self.update_quotas() {
                self.sessions.set_vhost_full(vhost, false);
            }
            self.sessions.send_notices(&mut self.data.dispatcher.work, fx);
        }
    }

    /// Looks up which virtual hosts have a quota. Returns those that were full and have none any more.
    fn update_quotas(&mut self) -> Vec<VhostId> {
        let catalog = &self.definitions.catalog;
        let limits = catalog.vhosts().filter_map(|(id, _)| Some((id, catalog.vhost_limits(id).queue_bytes_max?)));
        self.data.dispatcher.queues.housekeeping.quotas.set_limits(limits)
    }

    /// Quotas and queues that were defined before this shard started.
    pub fn start(&mut self) {
        self.update_quotas();
        let home = |queue: &catalog::QueueDefinition| self.identity.is_home(queue.home);
        let queues = self.definitions.catalog.queues().filter(|(_, queue)| home(queue));
        for id in queues.map(|(id, _)| id).collect::<Vec<_>>() {
            self.create_queue(id);
        }
        if self.identity.is_home(ShardId(0)) && self.definitions.catalog.has_unfinished() {
            self.sessions.deferred.leave(DeferredWork::FinishDefinitions);
        }
    }

    /// Whether there is a store, and a queue is durable, on whatever shard.
    pub fn is_stored(&self, id: QueueId) -> bool {
        let definition = self.definitions.catalog.queue_definition(id);
        self.data.dispatcher.queues.has_store && definition.and_then(stored_uid).is_some()
    }

    /// There is a store from now on.
    pub fn use_store(&mut self) {
        let queues = &mut self.data.dispatcher.queues;
        queues.has_store = true;
        for (id, definition) in self.definitions.catalog.queues() {
            if let Some(uid) = stored_uid(definition).filter(|_| self.identity.is_home(definition.home)) {
                queues.store(id, uid);
            }
        }
    }

    fn create_queue(&mut self, id: QueueId) {
        let Some(definition) = self.definitions.catalog.queue_definition(id) else { return };
        let has_quota = self.definitions.has_quota(definition.vhost);
        let dispatcher = &mut self.data.dispatcher;
        dispatcher.queues.create(id, definition, has_quota, dispatcher.now_us);
    }

    fn update_queue(&mut self, id: QueueId) {
        let Some(definition) = self.definitions.catalog.queue_definition(id) else { return };
        let has_quota = self.definitions.has_quota(definition.vhost);
        let dispatcher = &mut self.data.dispatcher;
        dispatcher.queues.update(id, definition, has_quota, dispatcher.now_us);
    }

    /// A queue of this shard is deleted: its consumers are cancelled, its publishers continue.
    fn remove_queue<E: Effects>(&mut self, id: QueueId, fx: &mut E) {
        let Some(mut queue) = self.data.dispatcher.queues.remove(id) else { return };
        self.data.dispatcher.queues.deleted += 1;
        if queue.wants_messages {
            self.data.dispatcher.demand.tell(id, false, fx);
        }
        if let Some(uid) = queue.paged_uid() {
            fx.drop_queue(uid);
        }
        let dispatcher = &mut self.data.dispatcher;
        self.sessions.deferred.leave_gets(id, dispatcher.queues.housekeeping.paging.take_gets(id));
        dispatcher.pager().run_turns(fx);
        let Dispatcher { flow, work, .. } = &mut self.data.dispatcher;
        flow.release(&mut queue, self.sessions, work, fx);
        if !self.drop_queue(&mut queue, fx) {
            self.sessions.deferred.leave(DeferredWork::DropQueue(queue));
        }
    }

    /// Cancels the consumers of a deleted queue and drops its messages, as far as the budget of the turn allows. Returns whether
    /// nothing is left.
    pub fn drop_queue<E: Effects>(&mut self, queue: &mut Queue, fx: &mut E) -> bool {
        self.cancel_consumers(&mut queue.consumers, fx) && queue.ready.drop_some(&mut self.data.dispatcher.work)
    }

    /// Cancels consumers whose queue does without them, as far as the budget of the turn allows. Returns whether none is left.
    pub fn cancel_consumers<E: Effects>(&mut self, consumers: &mut ConsumerRotation, fx: &mut E) -> bool {
        while !self.data.dispatcher.work.is_spent() {
            let Some(consumer) = consumers.pop() else { return true };
            self.data.dispatcher.work.draw(CONSUMER_REMOVAL_WORK);
            match consumer {
                ConsumerRef::Local(key) => self.cancel_consumer(key, fx),
                ConsumerRef::Remote(key) => {
                    if let Some(remote) = self.data.dispatcher.remotes.remove(key) {
                        let cancelled = ShardMessage::ConsumerCancelled { consumer: remote.consumer };
                        fx.batch(remote.shard).push(cancelled);
                    }
                }
            }
        }
        false
    }

    /// The queue of a consumer of this shard was deleted or closed.
    pub fn cancel_consumer<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        self.notify_cancelled(key, fx);
        self.data.dispatcher.drop_from_channel(key, fx);
    }

    /// The user of a consumer of this shard may no longer read its queue.
    pub fn revoke_consumer<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        self.notify_cancelled(key, fx);
        self.drop_consumer(key, fx);
    }

    /// Tells a client that the broker has cancelled its consumer, if it wants to know.
    fn notify_cancelled<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        let channels = &self.data.dispatcher.channels;
        let Some(consumer) = channels.consumer(key) else { return };
        let Some(channel) = channels.get(consumer.channel) else { return };
        if let Some(session) = self.sessions.get_mut(channel.slot).filter(|_| !channel.closing)
            && session.capabilities.consumer_cancel_notify
            && !session.cancel_behind_delete_ok(channel.number, &consumer.tag)
        {
            let consumer_tag = ShortStr::new(&consumer.tag).unwrap_or(ShortStr::EMPTY);
            let cancel = basic::Cancel { consumer_tag, no_wait: true };
            fx.reply(channel.slot, channel.number, Method::BasicCancel(cancel));
        }
    }

    /// Tells a client which consumers of a channel were cancelled, as far as the budget of the turn allows. Returns whether it
    /// knows of all.
    pub fn send_cancels<E: Effects>(&mut self, notices: &mut CancelNotices, fx: &mut E) -> bool {
        let Dispatcher { channels, work, .. } = &mut self.data.dispatcher;
        let Some(channel) = channels.get(notices.channel).filter(|channel| !channel.closing) else { return true };
        while !work.is_spent() {
            let Some(tag) = notices.tags.next() else { return true };
            work.draw(CANCEL_NOTICE_WORK);
            let consumer_tag = ShortStr::new(&tag).unwrap_or(ShortStr::EMPTY);
            let cancel = basic::Cancel { consumer_tag, no_wait: true };
            fx.reply(channel.slot, channel.number, Method::BasicCancel(cancel));
        }
        notices.tags.len() == 0
    }

    /// Undoes operations of a transaction as far as the budget of the turn allows: what it would have settled is unsettled again,
    /// what it would have published is dropped. Returns whether all is undone; then the client is told.
    pub fn roll_back<E: Effects>(&mut self, rollback: &mut Rollback, fx: &mut E) -> bool {
        let Dispatcher { channels, work, .. } = &mut self.data.dispatcher;
        let Some(channel) = channels.get_mut(rollback.channel) else { return true };
        while !work.is_spent() {
            match rollback.operations.next() {
                Some(TransactionOperation::Settle { deliveries, .. }) => {
                    work.draw(deliveries.len());
                    channel.ledger.restore(deliveries);
                }
                Some(TransactionOperation::Publish { message, further_keys, .. }) => {
                    work.draw(1 + further_keys.as_ref().map_or(0, |keys| keys.len() / KEYS_PER_WORK));
                    drop((message, further_keys));
                }
                None => {
                    if rollback.is_asked && !channel.closing {
                        fx.reply(channel.slot, channel.number, Method::TxRollbackOk(tx::RollbackOk {}));
                    }
                    return true;
                }
            }
        }
        false
    }

    /// A consumer of this shard leaves its queue, wherever that is.
    pub fn drop_consumer<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        let Some(consumer) = self.data.dispatcher.channels.consumer(key) else { return };
        let (queue, home, channel) = (consumer.queue, consumer.home, consumer.channel);
        if self.identity.is_home(home) {
            if self.remove_consumer(queue, ConsumerRef::Local(key)) {
                self.define(Definition::RemoveQueue { id: queue }, fx);
            }
        } else {
            let Some(channel) = self.data.dispatcher.channels.get(channel) else { return };
            let session = self.sessions.session_id(channel.slot);
            let requester = Requester { session, channel: channel.number, request: 0 };
            self.data.dispatcher.work.draw(CONSUMER_REMOVAL_WORK);
            fx.batch(home).push(ShardMessage::Request { requester, queue, request: QueueRequest::Cancel(key) });
        }
        self.data.dispatcher.drop_from_channel(key, fx);
    }

    /// A consumer leaves a queue of this shard. Returns whether the queue is to be deleted with it.
    pub fn remove_consumer(&mut self, id: QueueId, consumer: ConsumerRef) -> bool {
        let deletes = self.data.dispatcher.remove_consumer(id, consumer);
        deletes && self.definitions.catalog.queue_definition(id).is_some()
    }

    /// Does what is due: messages expire, delayed messages are routed, unused queues are deleted, overdue channels are closed.
    pub fn run_timers<E: Effects>(&mut self, ack_timeouts: &mut AckTimeouts, fx: &mut E) {
        let now_us = self.data.dispatcher.now_us;
        while !self.data.dispatcher.work.is_spent()
            && let Some(target) = self.data.dispatcher.queues.housekeeping.timers.pop_due(now_us)
        {
            self.data.dispatcher.work.draw(1);
            match target {
                TimerTarget::Queue(index) => self.on_queue_timer(index, now_us, fx),
                TimerTarget::Delayed => {
                    let DataPlane { dispatcher, forwarder, confirms, .. } = &mut *self.data;
                    forwarder.release_delayed((dispatcher, confirms), &mut self.definitions.catalog, fx);
                }
            }
        }
        self.dispatch_due(fx);
        if ack_timeouts.is_due(now_us) {
            let Dispatcher { channels, work, .. } = &mut self.data.dispatcher;
            // Queues whose timers use up their turns do not keep it waiting.
            work.start_turn();
            ack_timeouts.check(channels, work, now_us, fx);
        }
    }

    fn on_queue_timer<E: Effects>(&mut self, index: u32, now_us: u64, fx: &mut E) {
        let dispatcher = &mut self.data.dispatcher;
        let id = match dispatcher.queues.on_timer(index, now_us) {
            None => return,
            Some(QueueTimerResult::Unused(id)) => {
                self.define(Definition::RemoveQueue { id }, fx);
                id
            }
            Some(QueueTimerResult::Expiring(id)) => id,
        };
        self.data.dispatcher.queues.mark_due(id);
    }
}
