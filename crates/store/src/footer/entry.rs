//! The entries of a footer: what the frames of a segment do to queues, without bodies, in the order of the log.

use crate::ids::{Block, Position, QueueUid};

/// Messages of one level of a queue that have neighbouring positions and lie in one extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageRun {
    pub first: Position,
    pub count: u64,
    /// Bytes by which they count in their segment.
    pub log_bytes: u64,
    pub body_bytes: u64,
    /// The times of the earliest and of the latest of them, in microseconds since 1970.
    pub first_arrived_us: u64,
    pub last_arrived_us: u64,
    /// The first two bytes of the properties of all of them, combined by OR.
    pub flags: u16,
}

/// A level of a queue in the table of its footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FooterQueue(pub u32);

/// An entry of a footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FooterEntry {
    /// The next entries are about frames from this block on.
    Extent {
        block: Block,
    },
    /// The next level in the footer's table.
    Queue {
        uid: QueueUid,
        level: u8,
    },
    /// Messages. The order among runs of different levels is that of their first messages.
    Messages {
        queue: FooterQueue,
        run: MessageRun,
    },
    /// A message whose body follows in parts: if it does not, the message was never written to its end.
    Large {
        queue: FooterQueue,
        run: MessageRun,
    },
    /// So many bytes of the body of the last large message.
    Part {
        bytes: u64,
    },
    /// Messages that their queue is done with.
    Settled {
        queue: FooterQueue,
        first: Position,
        count: u64,
    },
    /// Every message up to this position was handed out.
    Seen {
        queue: FooterQueue,
        position: Position,
    },
    /// A message was returned so many times.
    Returned {
        queue: FooterQueue,
        position: Position,
        times: u64,
    },
    CommitBegin,
    CommitEnd,
    CommitAborted,
}

impl MessageRun {
    /// The position behind the last one.
    pub fn end(&self) -> u64 {
        self.first.0 + self.count
    }

    /// Takes the first `count` messages off. Their bytes are a share, so that those of all are what was written.
    pub(crate) fn split_front(&mut self, count: u64) -> MessageRun {
        let share = |bytes: u64| (u128::from(bytes) * u128::from(count) / u128::from(self.count)) as u64;
        let (log_bytes, body_bytes) = (share(self.log_bytes), share(self.body_bytes));
        let front = MessageRun { count, log_bytes, body_bytes, ..*self };
        self.first.0 += count;
        self.count -= count;
        self.log_bytes -= log_bytes;
        self.body_bytes -= body_bytes;
        front
    }

    /// Adds a message behind the last one.
    #[inline]
    pub fn extend(&mut self, message: &MessageRun) {
        self.count += message.count;
        self.log_bytes += message.log_bytes;
        self.body_bytes += message.body_bytes;
        self.first_arrived_us = self.first_arrived_us.min(message.first_arrived_us);
        self.last_arrived_us = self.last_arrived_us.max(message.last_arrived_us);
        self.flags |= message.flags;
    }
}
