//! Does what turns have left undone, as far as the budget of another turn allows; takes closed channels and connections apart.

use crate::commits::Commits;
use crate::control_plane::ControlPlane;
use crate::deferred_work::{DeferredKey, DeferredWork};
use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::forwarder::ForwardResult;
use crate::ids::{ChannelKey, ConnectionSlot, PublishKey};
use crate::limits::CHANNEL_REMOVAL_WORK;
use crate::requests::Requests;
use crate::shard_message::QueueRequest;
use catalog::{Definition, QueueRoute};
use queues::{Message, SettlementOutcome};
use std::sync::Arc;
use wire::{ChannelNumber, DeliveryTag};

/// What deferred work may touch.
pub(crate) struct WorkRunner<'a> {
    pub control: ControlPlane<'a>,
}

impl WorkRunner<'_> {
    /// One turn: the queues and dead letters that commands have left, and each connection's work. What is left of the former may
    /// use up any turn, so that the latter goes before it in every second one.
    pub fn run<E: Effects>(&mut self, fx: &mut E) {
        self.control.data.dispatcher.wake_settled(self.control.sessions, fx);
        if self.control.data.has_backlog {
            let deferred_is_first = std::mem::take(&mut self.control.data.backlog_had_turn);
            if deferred_is_first {
                // Some may wait for the backlog: each is looked at once.
                let turns = self.control.sessions.deferred.turns();
                self.run_lists(turns, fx);
                if self.control.data.dispatcher.work.is_spent() {
                    return;
                }
            }
            self.control.data.backlog_had_turn = !deferred_is_first;
            self.control.data.has_backlog = false;
        }
        self.control.dispatch_due(fx);
        self.run_lists(usize::MAX, fx);
    }

    /// Does the work of so many connections, or of the same ones again, as far as the budget of the turn allows.
    fn run_lists<E: Effects>(&mut self, turns: usize, fx: &mut E) {
        for _ in 0..turns {
            if self.control.data.dispatcher.work.is_spent() {
                return;
            }
            let Some(key) = self.control.sessions.deferred.next_turn() else { return };
            self.run_list(key, fx);
            self.control.dispatch_due(fx);
        }
    }

    /// A connection is gone: its deliveries return, and its exclusive queues are deleted.
    pub fn close_session<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        let Some(session) = self.control.sessions.close(slot) else { return };
        self.control.data.dispatcher.channels.forget_output(slot);
        let end = session.end();
        if let Some(batch) = session.definition_batch {
            self.control.send_definitions(None, batch.definitions, true, fx);
        }
        let deferred = &mut self.control.sessions.deferred;
        let key = session.deferred.unwrap_or_else(|| deferred.open(None));
        deferred.detach(key, end);
        for channel in session.channels.iter() {
            if let Some(rollback) = self.control.data.dispatcher.channels.close(channel) {
                deferred.push(key, DeferredWork::RollBack(rollback));
            }
            let outcome = SettlementOutcome::Requeued;
            deferred.push(key, DeferredWork::CloseChannel { channel, outcome });
        }
        if session.owns_queues {
            deferred.push(key, DeferredWork::EndSession { session: session.identity.session });
        }
        self.run_list(key, fx);
        self.control.dispatch_due(fx);
    }

    /// A channel is closed, by either side, and its deliveries are settled so.
    pub fn close_channel<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        outcome: SettlementOutcome,
        fx: &mut E,
    ) {
        let Some((key, batch)) = self.control.sessions.detach_channel(slot, number) else { return };
        if let Some(batch) = batch {
            self.control.send_definitions(None, batch.definitions, true, fx);
        }
        if let Some(rollback) = self.control.data.dispatcher.channels.close(key) {
            self.control.sessions.defer(slot, DeferredWork::RollBack(rollback));
        }
        self.control.sessions.defer(slot, DeferredWork::CloseChannel { channel: key, outcome });
        if let Some(deferred) = self.control.sessions.get(slot).and_then(|session| session.deferred) {
            self.run_list(deferred, fx);
            self.control.dispatch_due(fx);
        }
    }

    fn next_dead_letter(&self) -> u64 {
        self.control.data.dispatcher.queues.housekeeping.dead_letters.next_number()
    }

    fn requests(&mut self) -> Requests<'_> {
        let ControlPlane { identity, sessions, definitions, data } = &mut self.control;
        Requests { control: ControlPlane { identity: *identity, sessions, definitions, data } }
    }

    /// Does the work of one connection.
    fn run_list<E: Effects>(&mut self, key: DeferredKey, fx: &mut E) {
        let mut rest = self.control.sessions.deferred.take(key);
        while !self.control.data.dispatcher.work.is_spent()
            && let Some(work) = rest.pop_front()
        {
            let begin = self.next_dead_letter();
            let unfinished = self.run_one(work, fx);
            let is_finished = unfinished.is_none();
            // What it has deferred in turn comes before the rest, which may be long.
            for nested in self.control.sessions.deferred.take(key).into_iter().chain(unfinished).rev() {
                rest.push_front(nested);
            }
            // Its dead letters come before that, so that they are no more than a turn can cause.
            let end = self.next_dead_letter();
            if begin < end {
                rest.push_front(DeferredWork::AwaitDeadLetters(begin..end));
                break;
            }
            if !is_finished {
                break;
            }
        }
        self.control.sessions.deferred.restore(key, rest);
        if let Some(slot) = self.control.sessions.deferred.end_turn(key) {
            self.control.sessions.end_deferral(slot, fx);
        }
    }

    /// Does a piece of work, or some of it. Returns what is left.
    fn run_one<E: Effects>(&mut self, work: DeferredWork, fx: &mut E) -> Option<DeferredWork> {
        match work {
            DeferredWork::Forward { message, route, next, publish } => self.forward(message, route, next, publish, fx),
            DeferredWork::Publish(publish) => {
                self.control.publishing().run_publish(publish, fx).map(DeferredWork::Publish)
            }
            DeferredWork::FinishDefinitions => {
                if self.control.finish_definitions(fx) {
                    return Some(DeferredWork::FinishDefinitions);
                }
                self.requests().send_outcomes(fx);
                None
            }
            DeferredWork::Get { requester, queue, no_ack } => {
                let mut requests = self.requests();
                // What is left of it then is deferred anew.
                let response = requests.respond(requester, queue, QueueRequest::Get { no_ack }, fx);
                requests.send_response(requester, response, fx);
                None
            }
            DeferredWork::Settle { channel, through, outcome } => self.settle(channel, through, outcome, fx),
            DeferredWork::SettleInTransaction { channel, through, outcome } => {
                let Dispatcher { channels, work, .. } = &mut self.control.data.dispatcher;
                // Once the channel is closed there is no transaction, and nothing is left.
                let found = channels.get_mut(channel);
                let is_done = found.is_none_or(|found| found.settle_through_in_transaction(through, outcome, work));
                (!is_done).then_some(DeferredWork::SettleInTransaction { channel, through, outcome })
            }
            DeferredWork::RollBack(mut rollback) => {
                (!self.control.roll_back(&mut rollback, fx)).then_some(DeferredWork::RollBack(rollback))
            }
            DeferredWork::Wake { channel } => {
                if let Some(channel) = self.control.data.dispatcher.channels.get_mut(channel) {
                    channel.wake_deferred = false;
                }
                self.control.wake_channel(channel, fx);
                None
            }
            DeferredWork::Commit(commit) => {
                Commits { publishing: self.control.publishing() }.run(commit, fx).map(DeferredWork::Commit)
            }
            DeferredWork::AwaitDeadLetters(numbers) => {
                let Dispatcher { queues, work, .. } = &mut self.control.data.dispatcher;
                work.draw(queues.housekeeping.dead_letters.waiting_work());
                let are_routed = queues.housekeeping.dead_letters.are_routed(&numbers);
                (!are_routed).then_some(DeferredWork::AwaitDeadLetters(numbers))
            }
            DeferredWork::CloseChannel { channel, outcome } => {
                self.take_apart(channel, outcome, fx).then_some(DeferredWork::CloseChannel { channel, outcome })
            }
            DeferredWork::DropQueue(mut queue) => {
                (!self.control.drop_queue(&mut queue, fx)).then_some(DeferredWork::DropQueue(queue))
            }
            DeferredWork::CancelConsumers(mut consumers) => {
                (!self.control.cancel_consumers(&mut consumers, fx)).then_some(DeferredWork::CancelConsumers(consumers))
            }
            DeferredWork::NotifyCancelled(mut notices) => {
                (!self.control.send_cancels(&mut notices, fx)).then_some(DeferredWork::NotifyCancelled(notices))
            }
            DeferredWork::Purge(queue) => self.requests().run_purge(queue, fx).then_some(DeferredWork::Purge(queue)),
            DeferredWork::EndSession { session } => {
                self.control.define(Definition::SessionGone { session }, fx);
                None
            }
        }
    }

    /// Adds a publish to more of its queues.
    fn forward<E: Effects>(
        &mut self,
        message: Message,
        route: Arc<QueueRoute>,
        next: usize,
        publish: Option<PublishKey>,
        fx: &mut E,
    ) -> Option<DeferredWork> {
        let data = &mut *self.control.data;
        let mut result = ForwardResult::default();
        let next = data.forwarder.forward_rest(
            &route,
            next,
            &message,
            publish,
            (&mut data.dispatcher, &mut data.confirms),
            &mut result,
            fx,
        );
        // Its publisher has waited for this, and need not be throttled for it.
        data.dispatcher.flow.slow_queue = None;
        if let Some(publish) = publish {
            self.control.publishing().await_more(publish, &result, fx);
        }
        match (next, publish) {
            (Some(next), _) => Some(DeferredWork::Forward { message, route, next, publish }),
            (None, Some(publish)) => {
                self.control.publishing().answers().on_answer(publish, fx);
                None
            }
            (None, None) => None,
        }
    }

    fn settle<E: Effects>(
        &mut self,
        channel: ChannelKey,
        through: DeliveryTag,
        outcome: SettlementOutcome,
        fx: &mut E,
    ) -> Option<DeferredWork> {
        let (dispatcher, catalog) = (&mut self.control.data.dispatcher, &self.control.definitions.catalog);
        if !dispatcher.settle_through(channel, through, outcome, catalog, fx) {
            return Some(DeferredWork::Settle { channel, through, outcome });
        }
        self.control.wake_channel(channel, fx);
        None
    }

    /// Has the consumers of a closed channel leave and its deliveries settled, which mostly means that they return. Returns whether some are left.
    fn take_apart<E: Effects>(&mut self, key: ChannelKey, outcome: SettlementOutcome, fx: &mut E) -> bool {
        while !self.control.data.dispatcher.work.is_spent() {
            let channel = self.control.data.dispatcher.channels.get(key);
            let Some(consumer) = channel.and_then(|channel| channel.consumers.first()) else { break };
            self.control.drop_consumer(consumer, fx);
        }
        let dispatcher = &mut self.control.data.dispatcher;
        let Some(channel) = dispatcher.channels.get(key) else { return false };
        if !channel.consumers.is_empty() {
            return true;
        }
        // Deliveries return after the consumers have left, so that they cannot come back to them.
        let (through, catalog) = (channel.ledger.last_tag(), &self.control.definitions.catalog);
        if !dispatcher.settle_through(key, through, outcome, catalog, fx) {
            return true;
        }
        dispatcher.channels.remove(key);
        dispatcher.work.draw(CHANNEL_REMOVAL_WORK);
        false
    }
}
