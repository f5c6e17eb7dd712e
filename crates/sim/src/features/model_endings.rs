//! What the model concludes when deliveries are settled, and when consumers, channels and connections end.

use super::shadow_model::{PublishOutcome, SettlementProgress, ShadowModel};
use crate::simulated_client::{
    ChannelState, ClientChannel, ClientRequest, ConnectionState, ConsumerState, Settlement, SimulatedClient,
    UnsettledDelivery,
};

impl ShadowModel {
    /// A channel settles a delivery.
    pub fn settle(&mut self, channel: &mut ClientChannel, tag: u64, settlement: Settlement) {
        let Some(UnsettledDelivery { queue, message, consumer, .. }) = channel.unsettled.remove(&tag) else { return };
        if let Some(consumer) = consumer {
            channel.consumers[consumer].unsettled -= 1;
            channel.consumers_unsettled -= 1;
        }
        let known = &mut self.queues[queue];
        let delivery = known.deliveries.entry(message).or_default();
        delivery.holder = None;
        match settlement {
            Settlement::Requeue => known.disturbed = true,
            Settlement::Done | Settlement::Rejected => {
                channel.counts.ack += u64::from(settlement == Settlement::Done);
                let rejected = settlement == Settlement::Rejected;
                delivery.settled = SettlementProgress::SendOutcome;
                delivery.rejected |= rejected;
                known.owed.remove(&message);
                channel.unproven_settlements.push((queue, message, rejected));
            }
        }
    }

    /// A consumer leaves its queue, or is about to.
    pub fn consumer_leaves(&mut self, queue: usize, uid: u64) {
        let now = self.now;
        let queue = &mut self.queues[queue];
        queue.active.retain(|&(other, ..)| other != uid);
        if queue.auto_delete {
            queue.life.may_end(now);
        }
    }

    /// The last period in which the broker may notice the end of a channel that ends now: it reads nothing from a blocked
    /// connection.
    pub fn leaving_period(&self) -> u32 {
        if self.has_ample_limits { self.period } else { u32::MAX }
    }

    /// A channel ends without an answer of its broker: whether its last requests were executed is not known. `is_closing`:
    /// the client has closed it, and the broker will confirm that.
    pub fn end_channel(&mut self, channel: &mut ClientChannel, is_closing: bool) {
        let (now, period, ample) = (self.now, self.leaving_period(), self.has_ample_limits);
        let consumers = std::mem::take(&mut channel.consumers);
        let unsettled = std::mem::take(&mut channel.unsettled);
        let pending = channel.pending.take();
        let staged = std::mem::take(&mut channel.staged);
        let mut unknown = std::mem::take(&mut channel.committing);
        channel.doubtful = pending.is_some() || !staged.is_empty() || !unknown.is_empty();
        if is_closing {
            channel.state = ChannelState::Closing;
            channel.closed_behind = pending.as_ref().map(|pending| pending.request.clone());
        } else {
            unknown.append(&mut channel.unproven_publishes);
            unknown.extend(std::mem::take(&mut channel.unconfirmed).into_values());
            channel.state = ChannelState::Gone;
        }
        for consumer in consumers.iter().filter(|consumer| consumer.state != ConsumerState::Gone) {
            self.consumer_leaves(consumer.queue, consumer.uid);
            let queue = &mut self.queues[consumer.queue];
            queue.departed = Some(period);
            queue.disturbed = true;
            queue.had_unseen_deliveries = true;
            if consumer.no_ack {
                queue.allow_losses(ample);
            }
        }
        // The broker may not have received its last settlements.
        for &(queue, ..) in &channel.unproven_settlements {
            self.queues[queue].disturbed = true;
        }
        for delivery in unsettled.values() {
            let queue = &mut self.queues[delivery.queue];
            queue.disturbed = true;
            queue.deliveries.entry(delivery.message).or_default().holder = None;
        }
        for (ids, outcome) in [(staged, PublishOutcome::Never), (unknown, PublishOutcome::Unknown)] {
            for id in ids {
                if let Some(message) = self.messages.get_mut(&id) {
                    message.outcome = outcome;
                }
            }
        }
        match pending.map(|pending| pending.request) {
            Some(ClientRequest::Declare(queue)) if self.queues[queue].survival.is_proven => {
                self.queues[queue].life.made.get_or_insert(now);
            }
            Some(ClientRequest::Declare(queue)) => self.queues[queue].life.may_end(now),
            Some(ClientRequest::DeclareExchange(exchange)) => self.exchanges[exchange].life.may_end(now),
            Some(ClientRequest::Purge(queue)) => self.queues[queue].allow_losses(ample),
            Some(ClientRequest::Get(queue, no_ack)) => {
                let queue = &mut self.queues[queue];
                if no_ack {
                    queue.allow_losses(ample);
                }
                queue.departed = Some(period);
                queue.disturbed = true;
                queue.had_unseen_deliveries = true;
            }
            _ => {}
        }
    }

    /// All channels end with their connection, and so do the queues that it owns.
    pub fn end_channels(&mut self, client: &mut SimulatedClient) {
        for mut channel in std::mem::take(&mut client.channels) {
            self.end_channel(&mut channel, false);
        }
        self.end_owned_queues(client.uid);
    }

    /// The exclusive queues of a connection may end from now on.
    pub fn end_owned_queues(&mut self, connection: u32) {
        let now = self.now;
        for queue in self.queues.iter_mut().filter(|queue| queue.owner == Some(connection)) {
            queue.life.may_end(now);
        }
    }

    /// A connection is gone.
    pub fn end_connection(&mut self, client: &mut SimulatedClient) {
        self.tick();
        self.end_channels(client);
        client.state = ConnectionState::Gone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ChannelNumber;

    #[test]
    fn a_channel_that_ends_leaves_its_publishes_unknown_and_its_rolled_back_ones_unpublished() {
        let mut model = ShadowModel::new(true);
        let queue = model.add_queue("q".into(), None, false);
        let mut channel = ClientChannel::new(ChannelNumber(1), 7);
        for id in [1, 2] {
            model.messages.insert(id, crate::features::shadow_model::ShadowMessage::example(7));
        }
        (channel.unproven_publishes, channel.staged) = (vec![1], vec![2]);
        channel.await_reply(ClientRequest::Declare(queue), model.now);
        model.end_channel(&mut channel, false);
        assert_eq!(model.messages[&1].outcome, PublishOutcome::Unknown);
        assert_eq!(model.messages[&2].outcome, PublishOutcome::Never);
        assert!(model.queues[queue].life.ending.is_some() && channel.doubtful && channel.state == ChannelState::Gone);
    }

    #[test]
    fn a_channel_that_its_client_closes_keeps_the_request_that_is_before_the_close() {
        let mut model = ShadowModel::new(true);
        let queue = model.add_queue("q".into(), None, false);
        for (is_closing, kept) in [(true, Some(ClientRequest::Purge(queue))), (false, None)] {
            let mut channel = ClientChannel::new(ChannelNumber(1), 7);
            channel.await_reply(ClientRequest::Purge(queue), model.now);
            model.end_channel(&mut channel, is_closing);
            assert_eq!((channel.closed_behind, channel.pending.is_none()), (kept, true));
        }
    }

    #[test]
    fn a_requeued_delivery_is_owed_and_a_settled_one_is_not() {
        let mut model = ShadowModel::new(true);
        let queue = model.add_queue("q".into(), None, false);
        let mut channel = ClientChannel::new(ChannelNumber(1), 7);
        for (tag, settlement, owed) in [(1, Settlement::Requeue, true), (2, Settlement::Done, false)] {
            let delivery = UnsettledDelivery { queue, message: tag, consumer: None, staged: false, since_us: 0 };
            channel.unsettled.insert(tag, delivery);
            model.queues[queue].owed.insert(tag);
            model.settle(&mut channel, tag, settlement);
            assert_eq!(model.queues[queue].owed.contains(&tag), owed);
        }
        assert!(channel.unsettled.is_empty() && channel.unproven_settlements == [(queue, 2, false)]);
    }
}
