//! Appends messages: one, or several that differ in their bodies alone.

use super::{LoggedMessage, MessageLog};
use crate::ids::{Position, QueueUid, Ticket};

impl<M: LoggedMessage + Clone> MessageLog<M> {
    /// Appends a message. Positions of a level grow from message to message. The ticket is durable when the message is, or
    /// when what settled it is.
    #[inline]
    pub fn append(&mut self, queue: QueueUid, position: Position, message: M) -> Ticket {
        self.append_run(queue, position, [message])
    }

    /// Appends messages that differ in their bodies alone, at positions that follow one another: what is written of them is
    /// what [`MessageLog::append`] would write. Their tickets follow one another, too; returns that of the first.
    #[inline]
    pub fn append_run(
        &mut self,
        queue: QueueUid,
        first: Position,
        messages: impl IntoIterator<Item = M, IntoIter: ExactSizeIterator>,
    ) -> Ticket {
        let messages = messages.into_iter();
        debug_assert!(messages.len() > 0, "a run has messages");
        let queue = self.queues.find_or_new(queue);
        let first_unbegun = self.list.first_unbegun();
        let (entry, count) = (self.list.last() + 1, messages.len() as u64);
        self.queues.level(queue, first).push_pending(first.0, count, entry, first_unbegun);
        self.list.push_messages(queue, first, messages);
        Ticket(entry)
    }
}
