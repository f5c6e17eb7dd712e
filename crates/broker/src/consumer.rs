//! A consumer, on the shard of its connection.

use crate::effects::Effects;
use crate::ids::ChannelKey;
use crate::limits::REMOTE_WINDOW_MESSAGES;
use crate::payload::Payload;
use crate::shard_message::ShardMessage;
use catalog::{QueueId, ShardId};
use queues::limits::REMOTE_WINDOW_BYTES;
use queues::{ConsumerKey, Message, QueuePosition};
use std::collections::VecDeque;
use std::sync::Arc;

/// A delivery from another shard that waits until the connection or the prefetch count has capacity.
pub struct ParkedDelivery {
    pub position: QueuePosition,
    pub message: Message,
    pub redelivered: bool,
}

/// Whether a consumer is in the rotation of its queue, and what it waits for if it is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConsumerState {
    /// It is in the rotation, or its queue serves another alone.
    #[default]
    Active,
    /// It has as many unsettled deliveries as its own prefetch count allows.
    AwaitsSettlement,
    /// It is on the list of its channel, which allows no more deliveries, or whose connection's output is full.
    AwaitsChannel,
}

pub struct Consumer {
    pub channel: ChannelKey,
    pub tag: Arc<[u8]>,
    pub queue: QueueId,
    /// The shard where that queue lives.
    pub home: ShardId,
    pub no_ack: bool,
    /// It has its queue to itself.
    pub exclusive: bool,
    /// Its arguments, in wire form.
    pub arguments: Box<[u8]>,
    /// Unsettled deliveries it may have; zero is no limit.
    pub prefetch: u32,
    /// Unsettled deliveries it has.
    pub unsettled: u32,
    /// Higher priorities are served first.
    pub priority: i32,
    pub state: ConsumerState,
    /// Deliveries waiting here (queue on another shard only).
    pub parked: VecDeque<ParkedDelivery>,
    /// Messages delivered since the queue was last granted credit (queue on another shard only).
    pub credit_due_messages: u32,
    /// Bytes delivered since then.
    pub credit_due_bytes: i64,
    /// It is on the list of those that owe their queue credit.
    pub credit_listed: bool,
    /// Messages that the queue may send ahead.
    pub window: u32,
    /// Its queue, on another shard, is durable and is told which persistent messages it has taken, as it acknowledges none.
    pub reports_taken: bool,
}

impl Consumer {
    /// One of a queue of the first shard, without limits.
    #[cfg(test)]
    pub fn new(channel: ChannelKey, tag: &[u8]) -> Self {
        Consumer {
            channel,
            tag: tag.into(),
            queue: QueueId { index: 0, serial: 0 },
            home: ShardId(0),
            no_ack: false,
            exclusive: false,
            arguments: Box::default(),
            prefetch: 0,
            unsettled: 0,
            priority: 0,
            state: ConsumerState::Active,
            parked: VecDeque::new(),
            credit_due_messages: 0,
            credit_due_bytes: 0,
            credit_listed: false,
            window: REMOTE_WINDOW_MESSAGES,
            reports_taken: false,
        }
    }

    /// Whether its own prefetch count allows one more.
    #[inline]
    pub fn has_credit(&self) -> bool {
        self.no_ack || self.prefetch == 0 || self.unsettled < self.prefetch
    }

    /// Deliveries of so many bytes in all have left: its queue on another shard may send more, and is granted credit by the half window.
    #[inline]
    pub fn earn_credit<E: Effects>(&mut self, key: ConsumerKey, messages: u32, bytes: usize, fx: &mut E) {
        self.credit_due_bytes += bytes as i64;
        if self.no_ack || self.prefetch == 0 {
            self.credit_due_messages += messages;
        }
        if self.credit_due_messages >= self.window.div_ceil(2) || self.credit_due_bytes >= REMOTE_WINDOW_BYTES / 2 {
            self.send_credit(key, fx);
        }
    }

    /// Whether its queue is told when it has taken this message.
    #[inline]
    pub fn reports(&self, payload: &Payload<'_>) -> bool {
        self.reports_taken && payload.content().is_persistent()
    }

    /// Grants its queue the credit that is due.
    pub fn send_credit<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        let messages = std::mem::take(&mut self.credit_due_messages);
        let bytes = std::mem::take(&mut self.credit_due_bytes);
        if messages > 0 || bytes > 0 {
            let credit = ShardMessage::Credit { queue: self.queue, consumer: key, messages, bytes };
            fx.batch(self.home).push(credit);
        }
    }

    /// Owes its queue credit for further messages. Returns whether it has to be listed for that.
    #[inline]
    pub fn owe_credit(&mut self, messages: u32) -> bool {
        self.credit_due_messages += messages;
        !std::mem::replace(&mut self.credit_listed, true)
    }
}

/// How many messages a queue on another shard may send ahead to a consumer.
pub fn window_of(prefetch: u32, prefetch_shared: u32, no_ack: bool) -> u32 {
    let limits = [prefetch, prefetch_shared].into_iter().filter(|&limit| limit > 0 && !no_ack);
    limits.min().unwrap_or(REMOTE_WINDOW_MESSAGES).min(REMOTE_WINDOW_MESSAGES)
}

#[cfg(test)]
mod tests {
    use super::Consumer;
    use crate::effects::Effects;
    use crate::ids::ChannelKey;
    use crate::shard_message::ShardMessage;
    use crate::test_effects::RecordedEffects;
    use catalog::{QueueId, ShardId};
    use queues::ConsumerKey;
    use queues::limits::REMOTE_WINDOW_BYTES;

    fn consumer(no_ack: bool) -> Consumer {
        let queue = QueueId { index: 3, serial: 1 };
        Consumer {
            queue,
            home: ShardId(2),
            no_ack,
            prefetch: 5,
            window: 7,
            ..Consumer::new(ChannelKey::default(), b"tag")
        }
    }

    /// What its queue is granted.
    fn granted(fx: &mut RecordedEffects) -> Vec<(u32, i64)> {
        let credit = |message| match message {
            ShardMessage::Credit { messages, bytes, .. } => (messages, bytes),
            other => panic!("{other:?}"),
        };
        fx.batch(ShardId(2)).messages.drain(..).map(credit).collect()
    }

    #[test]
    fn credit_is_granted_by_the_half_window() {
        let (mut fx, key) = (RecordedEffects::default(), ConsumerKey::default());
        let mut unlimited = consumer(true);
        (0..3).for_each(|_| unlimited.earn_credit(key, 1, 10, &mut fx));
        assert_eq!(granted(&mut fx), []);
        unlimited.earn_credit(key, 1, 10, &mut fx);
        assert_eq!(granted(&mut fx), [(4, 40)], "half of seven messages, and all their bytes");
        let mut limited = consumer(false);
        let half = REMOTE_WINDOW_BYTES / 2;
        (0..100).for_each(|_| limited.earn_credit(key, 1, 10, &mut fx));
        assert_eq!(granted(&mut fx), [], "its messages are granted as they are settled");
        limited.earn_credit(key, 1, half as usize - 1_001, &mut fx);
        assert_eq!(granted(&mut fx), []);
        limited.earn_credit(key, 1, 1, &mut fx);
        assert_eq!(granted(&mut fx), [(0, half)]);
    }
}
