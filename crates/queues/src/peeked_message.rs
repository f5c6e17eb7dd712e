//! Messages of a queue that somebody looks at: copies of those at its head, which stay where they are.

use crate::limits::{PEEKED_BYTES_MAX, PEEKED_MESSAGES_MAX};
use crate::message::{BodyRef, Message};
use crate::ready_messages::ReadyMessages;
use std::ops::ControlFlow;

/// A copy of a message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekedMessage {
    pub exchange: Box<[u8]>,
    pub routing_key: Box<[u8]>,
    /// In wire form.
    pub properties: Box<[u8]>,
    /// The beginning of the body, as far as was asked for.
    pub body: Box<[u8]>,
    /// Bytes of the whole body.
    pub body_bytes: usize,
    pub redelivered: bool,
}

/// What was seen of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeekedQueue {
    /// In the order in which they would be delivered.
    pub messages: Vec<PeekedMessage>,
    /// All that are ready.
    pub ready: usize,
    /// The next one is on the disk alone, and would have to be read first.
    pub is_cut_at_page: bool,
}

impl PeekedQueue {
    /// Looks at the first messages, `count` and as many bytes of each body at most.
    pub fn of(ready: &ReadyMessages, count: usize, body_bytes: usize) -> Self {
        let count = count.min(PEEKED_MESSAGES_MAX);
        let (mut messages, mut bytes) = (Vec::new(), 0);
        let is_in_memory = ready.look(&mut |message, redelivered| {
            if messages.len() == count || bytes >= PEEKED_BYTES_MAX {
                return ControlFlow::Break(());
            }
            let copy = copied(message, redelivered, body_bytes.min(PEEKED_BYTES_MAX - bytes));
            bytes += copy.body.len() + copy.properties.len();
            messages.push(copy);
            ControlFlow::Continue(())
        });
        let is_cut_at_page = !is_in_memory && messages.len() < count && bytes < PEEKED_BYTES_MAX;
        Self { messages, ready: ready.len(), is_cut_at_page }
    }
}

fn copied(message: &Message, redelivered: bool, body_bytes: usize) -> PeekedMessage {
    let content = message.content();
    let body = match &content.body {
        BodyRef::Small(body) => *body,
        BodyRef::Large(slice) => slice,
    };
    PeekedMessage {
        exchange: content.exchange.into(),
        routing_key: content.routing_key.into(),
        properties: content.properties.into(),
        body: body[..body.len().min(body_bytes)].into(),
        body_bytes: body.len(),
        redelivered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Content;
    use crate::queue_entry::QueueEntry;
    use slab::{Pool, PoolOptions};

    fn message(pool: &Pool, body: &[u8]) -> Message {
        Content { routing_key: b"k", body: BodyRef::Small(body), ..Content::EMPTY }.keep(pool)
    }

    fn seen(messages: &[PeekedMessage]) -> Vec<(String, bool)> {
        let text = |of: &PeekedMessage| String::from_utf8_lossy(&of.body).into_owned();
        messages.iter().map(|of| (text(of), of.redelivered)).collect()
    }

    /// Numbers that look random, from a seed.
    fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    #[test]
    fn what_is_seen_is_what_would_be_delivered_as_far_as_it_is_in_memory() {
        let (mut whole, mut cut) = (0, 0);
        for seed in 0..300 {
            let pool = Pool::new(PoolOptions::default());
            let (mut ready, mut taken) = (ReadyMessages::default(), Vec::<QueueEntry>::new());
            let mut number = numbers(seed);
            for step in 0..60 {
                match number(8) {
                    0..4 => ready.push(number(3) as u8, message(&pool, format!("{step}").as_bytes())),
                    4 | 5 => taken.extend(ready.pop()),
                    6 if !taken.is_empty() => {
                        let entry = taken.swap_remove(number(taken.len() as u64) as usize);
                        ready.restore(QueueEntry { redelivered: number(2) == 0, ..entry });
                    }
                    _ if number(4) == 0 => {
                        let _paged = ready.page_out(number(3) as u8, 4, |messages| messages.count() > 0);
                    }
                    _ => {}
                }
            }
            let peeked = PeekedQueue::of(&ready, PEEKED_MESSAGES_MAX, usize::MAX);
            assert_eq!(peeked, PeekedQueue::of(&ready, PEEKED_MESSAGES_MAX, usize::MAX), "looking changes nothing");
            assert_eq!(peeked.ready, ready.len());
            let mut delivered = Vec::new();
            while let Some(entry) = ready.pop() {
                delivered.push(copied(&entry.message, entry.redelivered, usize::MAX));
            }
            assert_eq!(seen(&peeked.messages), seen(&delivered), "seed {seed}");
            assert_eq!(peeked.is_cut_at_page, !ready.is_empty(), "seed {seed}");
            *if peeked.is_cut_at_page { &mut cut } else { &mut whole } += 1;
        }
        assert!(whole > 20 && cut > 20, "{whole} {cut}");
    }

    #[test]
    fn as_many_messages_and_bytes_are_copied_as_may_be() {
        let pool = Pool::new(PoolOptions::default());
        let mut ready = ReadyMessages::default();
        let body = vec![b'x'; PEEKED_BYTES_MAX / 2 + 100];
        (0..3).for_each(|_| ready.push(0, message(&pool, &body)));
        let few = PeekedQueue::of(&ready, 10, 3);
        let lengths =
            |of: &PeekedQueue| of.messages.iter().map(|one| (one.body.len(), one.body_bytes)).collect::<Vec<_>>();
        assert_eq!(lengths(&few), [(3, body.len()); 3]);
        let many = PeekedQueue::of(&ready, 10, usize::MAX);
        assert_eq!(many.messages.len(), 2, "the third one is beyond the limit");
        assert!(many.messages.iter().map(|one| one.body.len()).sum::<usize>() <= PEEKED_BYTES_MAX);
        (0..PEEKED_MESSAGES_MAX).for_each(|_| ready.push(0, message(&pool, b"")));
        assert_eq!(PeekedQueue::of(&ready, usize::MAX, 0).messages.len(), PEEKED_MESSAGES_MAX);
        assert_eq!((few.ready, few.is_cut_at_page), (3, false));
    }
}
