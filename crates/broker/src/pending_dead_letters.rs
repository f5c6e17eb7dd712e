//! Dead letters that nobody has routed yet, in their order, grouped by target and reason.

use crate::death_history::{DeadLetterReason, DeadLetterTarget};
use crate::limits::DEAD_LETTERS_CAPACITY_KEPT;
use crate::message::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// Dead letters that follow one another, of one target and reason.
pub struct DeadLetterGroup {
    pub target: Arc<DeadLetterTarget>,
    pub reason: DeadLetterReason,
    pub messages: usize,
}

/// The list of them.
#[derive(Default)]
pub struct PendingDeadLetters {
    groups: VecDeque<DeadLetterGroup>,
    messages: VecDeque<Message>,
    /// The last group that was routed: the next is often of the same target and reason, and reuses its reference.
    routed: Option<DeadLetterGroup>,
}

impl PendingDeadLetters {
    #[inline]
    pub fn push(&mut self, target: &Arc<DeadLetterTarget>, reason: DeadLetterReason, message: Message) {
        self.messages.push_back(message);
        match self.groups.back_mut() {
            Some(group) if group.reason == reason && Arc::ptr_eq(&group.target, target) => group.messages += 1,
            _ => {
                let known = self.routed.take_if(|group| group.reason == reason && Arc::ptr_eq(&group.target, target));
                let target = known.map_or_else(|| Arc::clone(target), |group| group.target);
                self.groups.push_back(DeadLetterGroup { target, reason, messages: 1 });
            }
        }
    }

    /// All messages of a group are routed.
    #[inline]
    pub fn finish_group(&mut self, group: DeadLetterGroup) {
        self.routed = Some(group);
    }

    /// Takes the first group: its messages are those that [`next`](Self::next) returns next.
    #[inline]
    pub fn next_group(&mut self) -> Option<DeadLetterGroup> {
        self.groups.pop_front()
    }

    #[inline]
    pub fn next(&mut self) -> Option<Message> {
        let message = self.messages.pop_front();
        if self.messages.is_empty() && self.messages.capacity() > DEAD_LETTERS_CAPACITY_KEPT {
            self.messages.shrink_to(DEAD_LETTERS_CAPACITY_KEPT);
        }
        message
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
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
            pending.push(target, reason, content.keep(&pool));
        }
        assert_eq!(pending.len(), 5);
        let mut groups = Vec::new();
        while let Some(group) = pending.next_group() {
            let bodies: Vec<u8> = (0..group.messages)
                .map(|_| match pending.next().expect("as many as the group has").content().body {
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
        assert!(pending.is_empty() && pending.next().is_none());
    }
}
