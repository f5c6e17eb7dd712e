//! Dead letters that nobody has routed yet.
//!
//! Enters: messages that queues gave up, and why.  Leaves: the same, in runs of one grave and reason, in their order.
//! Owns:   the list, and its memory.
//! Never:  routes.

use crate::death_history::{DeadLetterTarget, DeadLetterReason};
use crate::limits::DEAD_LETTERS_CAPACITY_KEPT;
use crate::message::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages that followed one another into the same grave for the same reason.
pub struct DeadLetterGroup {
    /// Which queue, and where they go.
    pub target: Arc<DeadLetterTarget>,
    /// Why.
    pub reason: DeadLetterReason,
    /// How many.
    pub messages: usize,
}

/// The list.
#[derive(Default)]
pub struct PendingDeadLetters {
    groups: VecDeque<DeadLetterGroup>,
    messages: VecDeque<Message>,
    /// The last run that was routed: the next is often of the same grave and reason, and counts on its hold of the grave.
    routed: Option<DeadLetterGroup>,
}

impl PendingDeadLetters {
    /// One more at the end.
    #[inline]
    pub fn push(&mut self, grave: &Arc<DeadLetterTarget>, reason: DeadLetterReason, message: Message) {
        self.messages.push_back(message);
        match self.groups.back_mut() {
            Some(run) if run.reason == reason && Arc::ptr_eq(&run.target, grave) => run.messages += 1,
            _ => {
                let known = self.routed.take_if(|run| run.reason == reason && Arc::ptr_eq(&run.target, grave));
                let grave = known.map_or_else(|| Arc::clone(grave), |run| run.target);
                self.groups.push_back(DeadLetterGroup { target: grave, reason, messages: 1 });
            }
        }
    }

    /// All messages of a run are routed.
    #[inline]
    pub fn finish_group(&mut self, run: DeadLetterGroup) {
        self.routed = Some(run);
    }

    /// Takes the first run: its messages are the next that [`next`](Self::next) gives.
    #[inline]
    pub fn next_group(&mut self) -> Option<DeadLetterGroup> {
        self.groups.pop_front()
    }

    /// Takes the first message.
    #[inline]
    pub fn next(&mut self) -> Option<Message> {
        let message = self.messages.pop_front();
        if self.messages.is_empty() && self.messages.capacity() > DEAD_LETTERS_CAPACITY_KEPT {
            self.messages.shrink_to(DEAD_LETTERS_CAPACITY_KEPT);
        }
        message
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
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
    fn runs_end_where_grave_or_reason_change() {
        let pool = Pool::new(PoolOptions::default());
        let grave = |name: &str| {
            let exchange = b"d".as_slice().into();
            Arc::new(DeadLetterTarget { vhost: VhostId(0), queue: name.into(), exchange, routing_key: None })
        };
        let (a, b) = (grave("a"), grave("b"));
        let mut dead = PendingDeadLetters::default();
        use DeadLetterReason::{Expired, Rejected};
        for (at, (grave, reason)) in
            [(&a, Expired), (&a, Expired), (&a, Rejected), (&b, Rejected), (&a, Expired)].into_iter().enumerate()
        {
            let body = BodyRef::Small(&[at as u8]);
            let content = Content { exchange: b"", routing_key: b"k", properties: &[0, 0], body, ..Content::EMPTY };
            dead.push(grave, reason, content.keep(&pool));
        }
        assert_eq!(dead.len(), 5);
        let mut seen = Vec::new();
        while let Some(run) = dead.next_group() {
            let bodies: Vec<u8> = (0..run.messages)
                .map(|_| match dead.next().expect("as many as it says").content().body {
                    BodyRef::Small(body) => body[0],
                    BodyRef::Large(_) => unreachable!("bodies here are small"),
                })
                .collect();
            seen.push((run.target.queue.to_string(), run.reason, bodies));
            dead.finish_group(run);
        }
        let expect =
            [("a", Expired, vec![0, 1]), ("a", Rejected, vec![2]), ("b", Rejected, vec![3]), ("a", Expired, vec![4])];
        assert_eq!(seen, expect.map(|(queue, reason, bodies)| (queue.to_owned(), reason, bodies)));
        assert!(dead.is_empty() && dead.next().is_none());
    }
}
