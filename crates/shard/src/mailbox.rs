//! Messages between shards: a pair of bounded rings for every two shards, and at most one wake-up for a batch.
//!
//! Batches arrive in order, and emptied ones go back to their sender for reuse. Sending never blocks: batches for a full ring
//! wait at the sender, which stops reading its connections when too many of them wait.

use crate::limits::{MAILBOX_BATCHES, MAILBOX_WAITING_BYTES_MAX};
use crate::sync::{AtomicBool, Consumer, Ordering, Producer, PushError, RingBuffer, fence};
use crate::thread_stats::MailStats;
use broker::ShardBatch;
use catalog::ShardId;
use std::collections::VecDeque;
use std::sync::Arc;

/// Wakes a shard that sleeps.
pub trait WakeTarget: Send + Sync {
    /// Interrupts its wait.
    fn wake(&self);
}

/// Knows whether a shard sleeps, and wakes it.
pub struct ShardWaker {
    asleep: AtomicBool,
    target: Box<dyn WakeTarget>,
}

impl ShardWaker {
    /// The waker of a shard that is awake.
    pub fn new(target: Box<dyn WakeTarget>) -> Arc<Self> {
        Arc::new(ShardWaker { asleep: AtomicBool::new(false), target })
    }

    /// The shard is about to sleep. It must check its mailbox once more after this call.
    pub fn will_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub fn is_awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the shard if it sleeps: a message for it is ready.
    pub(crate) fn wake_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.target.wake();
        }
    }

    /// Wakes the shard whether or not it sleeps, for rare events.
    pub fn wake(&self) {
        self.target.wake();
    }
}

/// The rings to and from one other shard.
struct RingPair {
    outgoing: Producer<Box<ShardBatch>>,
    /// Emptied batches that come back from the other shard.
    outgoing_empty: Consumer<Box<ShardBatch>>,
    incoming: Consumer<Box<ShardBatch>>,
    /// Emptied batches that go back to the other shard.
    incoming_empty: Producer<Box<ShardBatch>>,
    /// Wakes the other shard.
    waker: Arc<ShardWaker>,
    /// Batches that wait for space in the ring.
    waiting: VecDeque<Box<ShardBatch>>,
    waiting_bytes: usize,
    /// Messages and batches that were sent.
    sent: MailStats,
    writing: Box<ShardBatch>,
    /// The ring has batches for which the other shard was not woken yet.
    needs_wake: bool,
}

impl RingPair {
    /// Completes the batch that is being written.
    #[inline(never)]
    fn seal(&mut self) {
        let empty = self.outgoing_empty.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut self.writing, empty);
        self.sent.messages += batch.messages.len() as u64;
        self.sent.batches += 1;
        self.waiting_bytes += batch.capacity_bytes();
        self.waiting.push_back(batch);
    }

    /// Moves waiting batches into the ring, as far as it has space.
    fn push_waiting(&mut self) {
        while let Some(batch) = self.waiting.pop_front() {
            let bytes = batch.capacity_bytes();
            match self.outgoing.push(batch) {
                Ok(()) => {
                    self.waiting_bytes -= bytes;
                    self.needs_wake = true;
                }
                Err(PushError::Full(batch)) => {
                    self.waiting.push_front(batch);
                    return;
                }
            }
        }
    }
}

/// One shard's messages from and to all other shards.
pub struct Mailbox {
    rings: Vec<Option<RingPair>>,
}

impl Mailbox {
    /// The connected mailboxes of all shards, whose wakers these are.
    pub fn connect(wakers: &[Arc<ShardWaker>]) -> Vec<Mailbox> {
        let count = wakers.len();
        let mut receivers: Vec<Vec<_>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
        let mut senders: Vec<Vec<_>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
        for from in 0..count {
            for to in (0..count).filter(|&to| to != from) {
                let (outgoing, incoming) = RingBuffer::new(MAILBOX_BATCHES);
                let (incoming_empty, outgoing_empty) = RingBuffer::new(MAILBOX_BATCHES);
                senders[from][to] = Some((outgoing, outgoing_empty));
                receivers[to][from] = Some((incoming, incoming_empty));
            }
        }
        let rings = senders.into_iter().zip(receivers).map(|(senders, receivers)| {
            let rings = senders.into_iter().zip(receivers).zip(wakers).map(|((sender, receiver), waker)| {
                let ((outgoing, outgoing_empty), (incoming, incoming_empty)) = (sender?, receiver?);
                let waker = Arc::clone(waker);
                Some(RingPair {
                    outgoing,
                    outgoing_empty,
                    incoming,
                    incoming_empty,
                    waker,
                    waiting: VecDeque::new(),
                    waiting_bytes: 0,
                    sent: MailStats::default(),
                    writing: Box::default(),
                    needs_wake: false,
                })
            });
            Mailbox { rings: rings.collect() }
        });
        rings.collect()
    }

    /// The batch being written for a shard. A full batch is sent first, so that the other shard can begin.
    #[inline]
    pub fn batch(&mut self, to: ShardId) -> &mut ShardBatch {
        match self.rings.get_mut(usize::from(to.0)) {
            Some(Some(ring)) => {
                if ring.writing.is_full() {
                    ring.seal();
                    ring.push_waiting();
                }
                &mut ring.writing
            }
            _ => unreachable!("a shard writes to the others, not to itself"),
        }
    }

    /// Sends all batches, or only the full ones, and wakes the shards that sleep.
    pub fn send(&mut self, all: bool) {
        for ring in self.rings.iter_mut().flatten() {
            if ring.writing.is_full() || (all && !ring.writing.is_empty()) {
                ring.seal();
            }
            ring.push_waiting();
            if std::mem::take(&mut ring.needs_wake) {
                ring.waker.wake_if_asleep();
            }
        }
    }

    /// Whether so many bytes wait for space in rings that connections must not be read.
    pub(crate) fn is_congested(&self) -> bool {
        self.rings.iter().flatten().any(|ring| ring.waiting_bytes > MAILBOX_WAITING_BYTES_MAX)
    }

    /// What was sent to all other shards.
    pub fn stats(&self) -> MailStats {
        self.rings.iter().flatten().fold(MailStats::default(), |sum, ring| MailStats {
            messages: sum.messages + ring.sent.messages,
            batches: sum.batches + ring.sent.batches,
            waiting_bytes: sum.waiting_bytes + ring.waiting_bytes as u64,
        })
    }

    /// Whether any batch waits for space in its ring.
    pub(crate) fn has_waiting(&self) -> bool {
        self.rings.iter().flatten().any(|ring| !ring.waiting.is_empty())
    }

    /// Whether a batch has arrived from a shard that is not `held_back`.
    pub(crate) fn has_arrived(&self, held_back: impl Fn(ShardId) -> bool) -> bool {
        let mut rings = self.shards().zip(&self.rings);
        rings.any(|(from, ring)| ring.as_ref().is_some_and(|ring| !ring.incoming.is_empty()) && !held_back(from))
    }

    /// Whether a batch waits for space that its ring has again.
    fn can_send_waiting(&self) -> bool {
        self.rings.iter().flatten().any(|ring| !ring.waiting.is_empty() && !ring.outgoing.is_full())
    }

    /// Whether another shard will wake this one for whatever comes next: nothing has arrived, and there is no space that it
    /// waits for. To be asked after [`ShardWaker::will_sleep`], which says why.
    pub(crate) fn may_sleep(&self, held_back: impl Fn(ShardId) -> bool) -> bool {
        !self.has_arrived(held_back) && !self.can_send_waiting()
    }

    /// All shards, including this one.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.rings.len() as u16).map(ShardId)
    }

    /// The next batch from a shard.
    pub fn next(&mut self, from: ShardId) -> Option<Box<ShardBatch>> {
        self.rings.get_mut(usize::from(from.0))?.as_mut()?.incoming.pop().ok()
    }

    /// Returns an emptied batch to its sender. It is dropped if the sender has many already.
    pub(crate) fn return_batch(&mut self, from: ShardId, batch: Box<ShardBatch>) {
        if let Some(Some(ring)) = self.rings.get_mut(usize::from(from.0))
            && let Err(PushError::Full(surplus)) = ring.incoming_empty.push(batch)
        {
            drop(surplus);
        }
    }

    /// Wakes every other shard that sleeps: something that all share has changed.
    pub(crate) fn wake_others(&self) {
        self.rings.iter().flatten().for_each(|ring| ring.waker.wake_if_asleep());
    }

    /// Wakes a sender that sleeps, because its ring has space again.
    pub(crate) fn notify_space(&self, from: ShardId) {
        if let Some(Some(ring)) = self.rings.get(usize::from(from.0)) {
            ring.waker.wake_if_asleep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mailbox, ShardWaker, WakeTarget};
    use broker::ShardMessage;
    use broker::limits::BATCH_MESSAGES;
    use catalog::ShardId;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct WakeCount(Arc<AtomicU32>);

    impl WakeTarget for WakeCount {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn many_messages_are_small_batches_in_order_and_one_wake_up() {
        let wakes = Arc::new(AtomicU32::new(0));
        let wakers: Vec<_> = (0..2).map(|_| ShardWaker::new(Box::new(WakeCount(Arc::clone(&wakes))))).collect();
        let mut mail = Mailbox::connect(&wakers);
        let mut receiver = mail.pop().expect("two were connected");
        let mut sender = mail.pop().expect("two were connected");
        wakers[1].will_sleep();
        let letters = 3 * BATCH_MESSAGES as u32 + 1;
        for publishes in 0..letters {
            sender.batch(ShardId(1)).push(ShardMessage::PublishesAccepted { publishes });
        }
        assert!(receiver.has_arrived(|_| false), "the full ones are on their way");
        assert_eq!(wakes.load(Ordering::Relaxed), 0);
        sender.send(true);
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        let mut expected = 0;
        while let Some(batch) = receiver.next(ShardId(0)) {
            assert!(batch.messages.len() <= BATCH_MESSAGES);
            for letter in &batch.messages {
                assert!(
                    matches!(letter, ShardMessage::PublishesAccepted { publishes } if *publishes == expected),
                    "{letter:?}"
                );
                expected += 1;
            }
        }
        assert_eq!(expected, letters);
        assert_eq!((sender.stats().messages, sender.stats().batches), (letters.into(), 4));
        assert_eq!(receiver.stats(), crate::thread_stats::MailStats::default());
    }
}
