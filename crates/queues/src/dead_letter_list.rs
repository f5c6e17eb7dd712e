//! Dead letters in their order, grouped by target and reason.

use crate::dead_letter_reason::DeadLetterReason;
use crate::death_history::DeadLetterTarget;
use crate::ids::StoredPosition;
use crate::limits::DEAD_LETTERS_CAPACITY_KEPT;
use crate::message::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// Dead letters that follow one another, of one target and reason.
pub struct DeadLetterGroup {
    pub target: Arc<DeadLetterTarget>,
    pub reason: DeadLetterReason,
    pub messages: usize,
    /// The store has the messages that they come from.
    pub is_stored: bool,
}

/// The messages of these groups are the first of the list's, group by group.
#[derive(Default)]
pub(crate) struct DeadLetterList {
    pub groups: VecDeque<DeadLetterGroup>,
    messages: VecDeque<Message>,
    /// Of the groups that are stored: where the store has the messages that they come from.
    sources: VecDeque<StoredPosition>,
}

impl DeadLetterList {
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Adds a letter. `keep` gives the reference of a new group.
    #[inline]
    pub fn push(
        &mut self,
        reason: DeadLetterReason,
        message: Message,
        source: Option<StoredPosition>,
        target: &Arc<DeadLetterTarget>,
        keep: impl FnOnce(&Arc<DeadLetterTarget>) -> Arc<DeadLetterTarget>,
    ) {
        let is_stored = source.is_some();
        self.messages.push_back(message);
        self.sources.extend(source);
        match self.groups.back_mut() {
            Some(group) if group.is_of(target, reason) && group.is_stored == is_stored => group.messages += 1,
            _ => self.groups.push_back(DeadLetterGroup { target: keep(target), reason, messages: 1, is_stored }),
        }
    }

    /// Takes the next message, and if its group `is_stored`, where the store has what it comes from.
    #[inline]
    pub fn pop(&mut self, is_stored: bool) -> Option<(Message, Option<StoredPosition>)> {
        let message = self.messages.pop_front();
        self.shrink();
        let source = if is_stored { self.pop_source() } else { None };
        message.map(|message| (message, source))
    }

    /// Returns the message that was taken last.
    pub fn put_back(&mut self, message: Message, source: Option<StoredPosition>) {
        self.messages.push_front(message);
        if let Some(source) = source {
            self.sources.push_front(source);
        }
    }

    /// Returns the message that was taken last, and its group with those that it has left.
    pub fn return_front(&mut self, group: &mut DeadLetterGroup, message: Message, source: Option<StoredPosition>) {
        self.put_back(message, source);
        let DeadLetterGroup { ref target, reason, is_stored, .. } = *group;
        let messages = 1 + std::mem::take(&mut group.messages);
        self.groups.push_front(DeadLetterGroup { target: Arc::clone(target), reason, messages, is_stored });
    }

    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter()
    }

    /// Drops the next messages. Passes on where the store has what they come from, if their group `is_stored`.
    pub fn drop_next(&mut self, count: usize, is_stored: bool, each: impl FnMut(StoredPosition)) {
        self.messages.drain(..count);
        self.shrink();
        if is_stored {
            (0..count).filter_map(|_| self.pop_source()).for_each(each);
        }
    }

    /// Messages have left it: if these were the last, most of its memory is free.
    #[inline]
    fn shrink(&mut self) {
        if self.messages.is_empty() && self.messages.capacity() > DEAD_LETTERS_CAPACITY_KEPT {
            self.messages.shrink_to(DEAD_LETTERS_CAPACITY_KEPT);
            self.groups.shrink_to(DEAD_LETTERS_CAPACITY_KEPT);
        }
    }

    fn pop_source(&mut self) -> Option<StoredPosition> {
        let source = self.sources.pop_front();
        if self.sources.is_empty() && self.sources.capacity() > DEAD_LETTERS_CAPACITY_KEPT {
            self.sources.shrink_to(DEAD_LETTERS_CAPACITY_KEPT);
        }
        source
    }
}

impl DeadLetterGroup {
    /// Whether a letter of this target and reason is like its letters.
    #[inline]
    pub(crate) fn is_of(&self, target: &Arc<DeadLetterTarget>, reason: DeadLetterReason) -> bool {
        self.reason == reason && Arc::ptr_eq(&self.target, target)
    }
}
