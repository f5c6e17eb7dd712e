//! Settlements: what becomes of the deliveries of a channel that its client acknowledges, rejects or returns.
//!
//! Acknowledgements are carried out for as many deliveries at once as followed one another in their queue.

use crate::channel::unknown_tag;
use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::ids::ChannelKey;
use crate::shard_message::ShardMessage;
use catalog::{Catalog, QueueId, Refusal, ShardId};
use queues::{
    AcknowledgedRun, QueueEntry, QueuePosition, SettledMessages, SettledRun, SettlementOutcome, StoredPosition,
    UnsettledDelivery,
};
use wire::DeliveryTag;

impl Dispatcher {
    /// Settles one tag of a channel.
    #[inline]
    pub fn settle<E: Effects>(
        &mut self,
        key: ChannelKey,
        tag: DeliveryTag,
        outcome: SettlementOutcome,
        catalog: &Catalog,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let delivery = self.channels.open_channel(key)?.ledger.settle(tag).ok_or_else(|| unknown_tag(tag))?;
        self.settle_all(key, [delivery], outcome, catalog, fx);
        Ok(())
    }

    /// Settles the deliveries of a channel up to a tag, as far as the budget of the turn allows. Returns whether all are settled.
    pub fn settle_through<E: Effects>(
        &mut self,
        key: ChannelKey,
        through: DeliveryTag,
        outcome: SettlementOutcome,
        catalog: &Catalog,
        fx: &mut E,
    ) -> bool {
        let Some(channel) = self.channels.get_mut(key) else { return true };
        // One alone, as of clients that acknowledge each message: the ledger stays where it is.
        if channel.ledger.oldest() == Some(through)
            && let Some(delivery) = channel.ledger.settle(through)
        {
            self.settle_all(key, [delivery], outcome, catalog, fx);
            return true;
        }
        let mut ledger = std::mem::take(&mut channel.ledger);
        let mut done = SettledRun::default();
        let mut acknowledged = 0;
        loop {
            if outcome == SettlementOutcome::Acknowledged {
                let most = usize::try_from(self.work.left()).unwrap_or(usize::MAX);
                let Some(run) = ledger.acknowledge_run(through, most) else { break };
                acknowledged += u64::from(run.count);
                self.acknowledge(key, run, &mut done, fx);
            } else {
                let Some((_, delivery)) = ledger.take_first(through) else { break };
                self.settle_delivery(key, delivery, outcome, &mut done, catalog, fx);
            }
            if self.work.is_spent() {
                break;
            }
        }
        let is_done = !ledger.has_through(through);
        done.forget(fx);
        self.channels.count_acks(key, acknowledged);
        if let Some(channel) = self.channels.get_mut(key) {
            channel.ledger = ledger;
        }
        is_done
    }

    /// Settles deliveries of a channel, whose tags it has no more.
    #[inline]
    pub fn settle_all<E: Effects>(
        &mut self,
        key: ChannelKey,
        deliveries: impl IntoIterator<Item = UnsettledDelivery>,
        outcome: SettlementOutcome,
        catalog: &Catalog,
        fx: &mut E,
    ) {
        let (mut done, mut settled) = (SettledRun::default(), 0);
        for delivery in deliveries {
            self.settle_delivery(key, delivery, outcome, &mut done, catalog, fx);
            settled += 1;
        }
        done.forget(fx);
        self.channels.count_acks(key, if outcome == SettlementOutcome::Acknowledged { settled } else { 0 });
    }

    /// A client has a message for which it sends no acknowledgement: a durable queue, here or on another shard, is done with it.
    pub fn take<E: Effects>(&mut self, queue: QueueId, home: ShardId, position: QueuePosition, fx: &mut E) {
        if self.identity.is_home(home) {
            self.queues.forget(queue, position, 1, fx);
        } else {
            fx.batch(home).push_taken(queue, position);
        }
    }

    /// Deliveries of a queue, here or on another shard, are acknowledged. What the store is to forget joins `done`.
    #[inline]
    fn acknowledge<E: Effects>(&mut self, key: ChannelKey, run: AcknowledgedRun, done: &mut SettledRun, fx: &mut E) {
        let AcknowledgedRun { queue, home, first, count, bytes, are_persistent, consumer } = run;
        self.work.draw(count as usize);
        self.channels.count_settled(key, consumer, home, count);
        let settled = SettledMessages { first, count, bytes, are_rejected: false };
        if !self.identity.is_home(home) {
            return fx.batch(home).push_settled(queue, settled);
        }
        if let Some(uid) = self.queues.end_deliveries(queue, settled)
            && are_persistent
        {
            done.push(StoredPosition { uid, position: first }, count, fx);
        }
    }

    /// Settles one delivery: its queue, here or on another shard, is done with the message or gets it back. What the store is to
    /// forget joins `done`.
    #[inline]
    fn settle_delivery<E: Effects>(
        &mut self,
        key: ChannelKey,
        delivery: UnsettledDelivery,
        outcome: SettlementOutcome,
        done: &mut SettledRun,
        catalog: &Catalog,
        fx: &mut E,
    ) {
        if outcome == SettlementOutcome::Acknowledged {
            return self.acknowledge(key, AcknowledgedRun::of(&delivery), done, fx);
        }
        let are_rejected = outcome == SettlementOutcome::Rejected;
        self.work.draw(1);
        let UnsettledDelivery { queue, home, position, message, consumer } = delivery;
        self.channels.count_settled(key, consumer, home, 1);
        if self.identity.is_home(home) {
            let work = if are_rejected {
                self.queues.reject(queue, position, message, fx)
            } else {
                self.queues.requeue(queue, QueueEntry { position, message, redelivered: true }, true, true, fx)
            };
            return self.work.draw(work);
        }
        let batch = fx.batch(home);
        if !are_rejected {
            let (redelivered, was_delivered, ack_required) = (true, true, true);
            batch.push(ShardMessage::Returned { queue, position, message, redelivered, was_delivered, ack_required });
        } else if catalog.has_dead_letters(queue) {
            batch.push(ShardMessage::Rejected { queue, position, message });
        } else {
            let bytes = message.body_bytes() as u64;
            batch.push_settled(queue, SettledMessages { first: position, count: 1, bytes, are_rejected });
        }
    }
}
