//! A message on its way to a consumer: borrowed from its publisher's buffer as long as possible, kept once somebody must.

use queues::{Content, Message};
use slab::Pool;

/// A message for a consumer of this shard.
pub(crate) enum Payload<'a> {
    /// Straight from its publisher; kept already, perhaps.
    Passing(Content<'a>, Option<Message>),
    /// It has waited, and nobody else has it.
    Kept(Message),
}

impl Payload<'_> {
    #[inline]
    pub fn content(&self) -> Content<'_> {
        match self {
            Payload::Passing(content, _) => *content,
            Payload::Kept(message) => message.content(),
        }
    }

    #[inline]
    pub fn keep(self, pool: &Pool) -> Message {
        match self {
            Payload::Passing(_, Some(message)) | Payload::Kept(message) => message,
            Payload::Passing(content, None) => content.keep(pool),
        }
    }
}

/// A message that leaves its queue.
pub(crate) enum DispatchSource<'a> {
    /// It passes through: `kept` once somebody had to keep it, `last` if no other queue will want it.
    Passing { content: &'a Content<'a>, kept: &'a mut Option<Message>, last: bool },
    /// It has waited.
    Kept(Message),
}
