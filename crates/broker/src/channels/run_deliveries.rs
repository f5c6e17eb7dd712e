//! Deliveries of runs: how many messages that are alike a consumer accepts, and their delivery to it, all at once.

use super::Channels;
use crate::effects::{Delivery, Effects};
use crate::ids::ConnectionSlot;
use crate::payload::Payload;
use queues::{ConsumerKey, Content, Message, QueuePosition};
use wire::BodyRun;

/// The connections that get anything of the run at hand. Where several queues had the same, their messages would have to alternate
/// there.
#[derive(Default)]
pub(crate) struct RunOutputs {
    run: u64,
    /// The last run of each connection, by its slot.
    last_runs: Vec<u64>,
    /// The messages of a run from another shard, if anybody must keep them: their memory serves the next.
    kept: Vec<Message>,
}

impl RunOutputs {
    /// Another run: nobody gets any of it yet.
    #[inline]
    pub fn begin(&mut self) {
        self.run += 1;
    }

    /// Whether a connection gets nothing of the run yet. From now on it does.
    #[inline]
    fn is_first(&mut self, slot: ConnectionSlot) -> bool {
        let index = slot.index();
        if self.last_runs.len() <= index {
            self.last_runs.resize(index + 1, 0);
        }
        std::mem::replace(&mut self.last_runs[index], self.run) != self.run
    }
}

impl Channels {
    /// How many deliveries that are alike a consumer accepts on end, up to so many: none if its connection has got another queue's
    /// of this run.
    #[inline]
    pub fn accepted_of_run<E: Effects>(
        &mut self,
        key: ConsumerKey,
        content: &Content<'_>,
        most: usize,
        fx: &E,
    ) -> usize {
        let Some(consumer) = self.consumers.get(key) else { return 0 };
        let Some(channel) = self.table.get(consumer.channel) else { return 0 };
        if !consumer.has_credit() || !channel.allows_delivery() {
            return 0;
        }
        let mut most = most;
        if !consumer.no_ack {
            let limits = [(consumer.prefetch, consumer.unsettled), (channel.prefetch_shared, channel.unsettled)];
            for (limit, unsettled) in limits.into_iter().filter(|&(limit, _)| limit > 0) {
                most = most.min(limit.saturating_sub(unsettled) as usize);
            }
        }
        let (slot, tag) = (channel.slot, channel.ledger.next_tag());
        let delivery = Delivery { consumer_tag: &consumer.tag, tag, redelivered: false, content: *content };
        if self.run_outputs.is_first(slot) { fx.accepted_deliveries(slot, &delivery, most) } else { 0 }
    }

    /// Delivers messages of another shard's queue that are alike and come for the first time, as many as their consumer accepts now.
    /// Returns how many.
    pub fn deliver_remote_run<E: Effects>(
        &mut self,
        key: ConsumerKey,
        first: QueuePosition,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        let Some(consumer) = self.consumers.get(key) else { return 0 };
        if !consumer.parked.is_empty() || consumer.reports(&Payload::Passing(*content, None)) {
            return 0;
        }
        let no_ack = consumer.no_ack;
        self.run_outputs.begin();
        let most = self.accepted_of_run(key, content, bodies.len(), fx);
        let Some(bodies) = bodies.take(most) else { return 0 };
        let mut kept = std::mem::take(&mut self.run_outputs.kept);
        if !no_ack {
            content.keep_all(bodies, &mut kept, fx.pool());
        }
        self.deliver_run(key, first, content, bodies, (&mut kept, true), fx);
        self.run_outputs.kept = kept;
        if let Some(consumer) = self.consumers.get_mut(key) {
            consumer.earn_credit(key, most as u32, most * content.bytes(), fx);
        }
        most
    }

    /// Delivers a run to a consumer that accepts all of it.
    pub fn deliver_run<E: Effects>(
        &mut self,
        key: ConsumerKey,
        first: QueuePosition,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        (kept, is_last): (&mut Vec<Message>, bool),
        fx: &mut E,
    ) {
        self.delivered += bodies.len() as u64;
        self.latency.count_alike(content.arrived_us, bodies.len() as u32);
        let Some(consumer) = self.consumers.get_mut(key) else { return };
        let Some(channel) = self.table.get_mut(consumer.channel) else { return };
        let messages = bodies.len();
        let tag = channel.ledger.next_tag();
        let delivery = Delivery { consumer_tag: &consumer.tag, tag, redelivered: false, content: *content };
        fx.deliver_run(channel.slot, channel.number, delivery, bodies);
        channel.note_change(consumer.channel, &mut self.counts.changes);
        if consumer.no_ack {
            channel.ledger.assign_all_settled(messages);
            channel.stats.deliver_no_ack += messages as u64;
            return;
        }
        channel.stats.deliver += messages as u64;
        consumer.unsettled += messages as u32;
        channel.unsettled += messages as u32;
        let queue = (consumer.queue, consumer.home);
        match is_last {
            true => channel.ledger.assign_all_unsettled(queue, first, key, kept.drain(..)),
            false => channel.ledger.assign_all_unsettled(queue, first, key, kept.iter().cloned()),
        }
        self.unsettled += messages;
    }
}
