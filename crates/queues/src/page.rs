//! Pages: runs of waiting messages of one level of a queue that the store has and that are not in memory.

use crate::ids::QueuePosition;
use crate::message::Message;

/// A message of a page, back in memory.
pub struct PagedMessage {
    pub position: QueuePosition,
    pub message: Message,
    /// It had been handed out in an earlier life of the broker.
    pub redelivered: bool,
    /// How often consumers have returned it, see [`MessageStorage::mark_returned`](crate::MessageStorage::mark_returned).
    pub times_returned: u32,
}

/// What is known of a page without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageSummary {
    /// The position of its first message. All its messages are of the level of this one.
    pub first: QueuePosition,
    /// Behind the position of its last message.
    pub end: QueuePosition,
    /// Messages that wait. There may be fewer than positions.
    pub count: u32,
    /// Their bytes, as [`Message::bytes`] counts them.
    pub bytes: u64,
    /// Bytes of their bodies alone.
    pub body_bytes: u64,
    /// The earliest and the latest of their times, see [`Message::arrived_us`].
    pub first_arrived_us: u64,
    pub last_arrived_us: u64,
    /// Some may have an expiration of their own.
    pub may_have_expiration: bool,
}
