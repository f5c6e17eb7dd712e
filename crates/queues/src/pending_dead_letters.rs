//! Dead letters that nobody has routed yet, in their order, grouped by target and reason.
//!
//! What a dead letter causes in turn is routed before the letters behind it. So one message that dies again and again in many
//! queues takes as many entries here as these queues have, times the deaths of one copy, and not one for each of its copies.

use crate::dead_letter_reason::DeadLetterReason;
use crate::death_history::DeadLetterTarget;
use crate::ids::StoredPosition;
use crate::limits::{DEAD_LETTERS_CAPACITY_KEPT, DEAD_LETTERS_PENDING_MAX};
use crate::message::Message;
use crate::queue_stats::DeathStats;
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

/// Dead letters in their order.
#[derive(Default)]
struct DeadLetterList {
    groups: VecDeque<DeadLetterGroup>,
    messages: VecDeque<Message>,
    /// Of the groups that are stored: where the store has the messages that they come from.
    sources: VecDeque<StoredPosition>,
}

/// The dead letters of a shard.
#[derive(Default)]
pub struct PendingDeadLetters {
    /// Those that commands and timers have caused.
    first: DeadLetterList,
    /// Those that dead letters have caused, each list by a letter of the one before it. The last is routed first.
    nested: Vec<DeadLetterList>,
    /// A list whose capacity serves again.
    spare: Option<DeadLetterList>,
    /// A letter is being routed: what is added is caused by it.
    routing: bool,
    /// It has caused others.
    has_caused: bool,
    /// A letter is between two of its queues, and is to be finished before others: whether it has caused others.
    suspended: Option<bool>,
    messages: usize,
    pushed: u64,
    /// The same by reason.
    pub by_reason: DeathStats,
    /// Letters dropped because there were too many.
    dropped: u64,
    /// The last group that was routed: the next is often of the same target and reason, and reuses its reference.
    routed: Option<DeadLetterGroup>,
}

impl DeadLetterList {
    /// Messages have left it: if these were the last, most of its memory is free.
    #[inline]
    fn shrink(&mut self) {
        if self.messages.is_empty() && self.messages.capacity() > DEAD_LETTERS_CAPACITY_KEPT {
            self.messages.shrink_to(DEAD_LETTERS_CAPACITY_KEPT);
        }
    }

    fn next_source(&mut self) -> Option<StoredPosition> {
        let source = self.sources.pop_front();
        if self.sources.is_empty() && self.sources.capacity() > DEAD_LETTERS_CAPACITY_KEPT {
            self.sources.shrink_to(DEAD_LETTERS_CAPACITY_KEPT);
        }
        source
    }
}

impl PendingDeadLetters {
    /// Adds a letter: `source` is where the store has the message that it comes from. Returns whether there is room for it.
    #[inline]
    pub fn push(
        &mut self,
        target: &Arc<DeadLetterTarget>,
        reason: DeadLetterReason,
        message: Message,
        source: Option<StoredPosition>,
    ) -> bool {
        self.pushed += 1;
        self.by_reason.add(reason, 1);
        if self.messages >= DEAD_LETTERS_PENDING_MAX {
            self.dropped += 1;
            return false;
        }
        let is_stored = source.is_some();
        self.messages += 1;
        if self.routing && !std::mem::replace(&mut self.has_caused, true) {
            self.nested.push(self.spare.take().unwrap_or_default());
        }
        let list = match self.nested.last_mut() {
            Some(list) if self.routing => list,
            _ => &mut self.first,
        };
        list.messages.push_back(message);
        list.sources.extend(source);
        let is_like = |group: &DeadLetterGroup| group.reason == reason && Arc::ptr_eq(&group.target, target);
        match list.groups.back_mut() {
            Some(group) if is_like(group) && group.is_stored == is_stored => group.messages += 1,
            _ => {
                let known = self.routed.take_if(|group| is_like(group));
                let target = known.map_or_else(|| Arc::clone(target), |group| group.target);
                list.groups.push_back(DeadLetterGroup { target, reason, messages: 1, is_stored });
            }
        }
        true
    }

    /// How many more may be added.
    #[inline]
    pub fn room(&self) -> usize {
        DEAD_LETTERS_PENDING_MAX.saturating_sub(self.messages)
    }

    /// How many were ever added: who compares it knows whether a command has caused any.
    #[inline]
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// How many were dropped because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes the first group: its messages are those that [`next`](Self::next) returns next, until
    /// [`finish_group`](Self::finish_group).
    #[inline]
    pub fn next_group(&mut self) -> Option<DeadLetterGroup> {
        while let Some(list) = self.nested.last_mut() {
            if let Some(group) = list.groups.pop_front() {
                return Some(group);
            }
            self.spare = self.nested.pop();
        }
        self.first.groups.pop_front()
    }

    /// Takes the next message of the group at hand, and if that `is_stored`, where the store has what it comes from. What is added
    /// from now on is caused by it.
    #[inline]
    pub fn next(&mut self, is_stored: bool) -> Option<(Message, Option<StoredPosition>)> {
        self.routing = true;
        let list = self.nested.last_mut().unwrap_or(&mut self.first);
        let message = list.messages.pop_front();
        list.shrink();
        let source = if is_stored { list.next_source() } else { None };
        self.messages -= usize::from(message.is_some());
        message.map(|message| (message, source))
    }

    /// The messages behind the one at hand, if that has caused no others.
    #[inline]
    pub fn following(&self) -> impl Iterator<Item = &Message> {
        self.nested.last().unwrap_or(&self.first).messages.iter()
    }

    /// Drops so many of the messages behind the one at hand, which are routed. Passes on where the store has what they come from, if
    /// the group at hand `is_stored`.
    pub fn drop_following(&mut self, count: usize, is_stored: bool, mut routed: impl FnMut(StoredPosition)) {
        let list = self.nested.last_mut().unwrap_or(&mut self.first);
        self.messages -= list.messages.drain(..count).len();
        list.shrink();
        if is_stored {
            (0..count).filter_map(|_| list.next_source()).for_each(&mut routed);
        }
    }

    /// Returns the message at hand: it is the next again. It has caused nothing.
    pub fn put_back(&mut self, message: Message, source: Option<StoredPosition>) {
        self.messages += 1;
        let list = self.nested.last_mut().unwrap_or(&mut self.first);
        list.messages.push_front(message);
        if let Some(source) = source {
            list.sources.push_front(source);
        }
    }

    /// Whether the message at hand has caused dead letters, which go before the rest of its group.
    #[inline]
    pub fn has_caused(&self) -> bool {
        self.has_caused
    }

    /// The group at hand is routed, but for the messages that it has left.
    #[inline]
    pub fn finish_group(&mut self, group: DeadLetterGroup) {
        self.routing = false;
        let has_caused = std::mem::take(&mut self.has_caused);
        if group.messages == 0 {
            self.routed = Some(group);
            return;
        }
        let depth = self.nested.len() - usize::from(has_caused);
        let list = match depth.checked_sub(1).and_then(|at| self.nested.get_mut(at)) {
            Some(list) => list,
            None => &mut self.first,
        };
        list.groups.push_front(group);
    }

    /// The letter at hand has not reached all its queues, and is left for another turn.
    #[cold]
    pub fn suspend(&mut self) {
        self.suspended = Some(self.has_caused);
    }

    /// Goes on with the letter that was suspended: what is added until [`end_letter`](Self::end_letter) is caused by it.
    pub fn resume(&mut self) {
        self.routing = true;
        self.has_caused = self.suspended.take().unwrap_or_default();
    }

    /// The letter that was resumed has reached its queues, or is suspended again.
    #[inline]
    pub fn end_letter(&mut self) {
        (self.routing, self.has_caused) = (false, false);
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.messages + usize::from(self.suspended.is_some())
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages == 0 && self.suspended.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{BodyRef, Content};
    use catalog::VhostId;
    use slab::{Pool, PoolOptions};

    #[test]
    fn a_group_ends_where_target_or_reason_change() {
        let pool = Pool::new(PoolOptions::default());
        let target = |name: &str| {
            let exchange = b"d".as_slice().into();
            Arc::new(DeadLetterTarget { vhost: VhostId(0), queue: name.into(), exchange, routing_key: None })
        };
        let (a, b) = (target("a"), target("b"));
        let mut pending = PendingDeadLetters::default();
        use DeadLetterReason::{Expired, Rejected};
        for (at, (target, reason)) in
            [(&a, Expired), (&a, Expired), (&a, Rejected), (&b, Rejected), (&a, Expired)].into_iter().enumerate()
        {
            let body = BodyRef::Small(&[at as u8]);
            let content = Content { exchange: b"", routing_key: b"k", properties: &[0, 0], body, ..Content::EMPTY };
            assert!(pending.push(target, reason, content.keep(&pool), None));
        }
        assert_eq!(pending.len(), 5);
        let mut groups = Vec::new();
        while let Some(mut group) = pending.next_group() {
            let bodies: Vec<u8> = (0..std::mem::take(&mut group.messages))
                .map(|_| match pending.next(false).expect("as many as the group has").0.content().body {
                    BodyRef::Small(body) => body[0],
                    BodyRef::Large(_) => unreachable!("bodies here are small"),
                })
                .collect();
            groups.push((group.target.queue.to_string(), group.reason, bodies));
            pending.finish_group(group);
        }
        let expect =
            [("a", Expired, vec![0, 1]), ("a", Rejected, vec![2]), ("b", Rejected, vec![3]), ("a", Expired, vec![4])];
        assert_eq!(groups, expect.map(|(queue, reason, bodies)| (queue.to_owned(), reason, bodies)));
        assert!(pending.is_empty() && pending.next(false).is_none());
    }

    #[test]
    fn what_a_letter_causes_goes_before_the_letters_behind_it() {
        let pool = Pool::new(PoolOptions::default());
        let exchange = b"d".as_slice().into();
        let target = Arc::new(DeadLetterTarget { vhost: VhostId(0), queue: "q".into(), exchange, routing_key: None });
        let letter = |body: &[u8]| Content { body: BodyRef::Small(body), ..Content::EMPTY }.keep(&pool);
        let mut pending = PendingDeadLetters::default();
        let (mut order, mut most) = (Vec::new(), 0);
        [b"1", b"2"].iter().for_each(|body| {
            pending.push(&target, DeadLetterReason::Expired, letter(*body), None);
        });
        // Each letter of one or two digits causes three with one more.
        while let Some(mut group) = pending.next_group() {
            while group.messages > 0
                && let Some((message, None)) = pending.next(false)
            {
                group.messages -= 1;
                let BodyRef::Small(body) = message.content().body else { unreachable!("bodies here are small") };
                order.push(String::from_utf8_lossy(body).into_owned());
                for digit in b"abc".iter().filter(|_| body.len() < 3) {
                    pending.push(&target, DeadLetterReason::Expired, letter(&[body, &[*digit]].concat()), None);
                }
                if pending.has_caused() {
                    break;
                }
            }
            most = most.max(pending.len());
            pending.finish_group(group);
        }
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!((order.len(), &order), (2 * (1 + 3 + 9), &sorted), "as if each were routed as it was caused");
        assert!(most <= 1 + 3 * 2 && pending.is_empty(), "{most} letters at once");
    }
}
