//! What a queue hands out and gets back.

use crate::ids::QueuePosition;
use crate::message::Message;

/// A message of a queue with its position.
pub struct QueueEntry {
    pub position: QueuePosition,
    pub message: Message,
    /// It was delivered before.
    pub redelivered: bool,
}
