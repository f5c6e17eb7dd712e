//! Mail between shards: a bounded ring for every pair, one wake-up per batch.
//!
//! Enters: batches of letters.  Leaves: the same at the other shard, in order; emptied batches come back for reuse.
//! Owns:   the rings and the doorbells.
//! Never:  blocks: what finds no place waits at the sender, which then stops reading.

use crate::limits::{MAILBOX_BATCHES, MAILBOX_WAITING_BYTES_MAX};
use broker::Batch;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes a shard that sleeps.
pub trait WakeTarget: Send + Sync {
    /// Interrupts its wait.
    fn wake(&self);
}

/// Whether a shard sleeps, and how to wake it.
pub struct ShardWaker {
    asleep: AtomicBool,
    target: Box<dyn WakeTarget>,
}

impl ShardWaker {
    /// A doorbell of a shard that is awake.
    pub fn new(target: Box<dyn WakeTarget>) -> Arc<Self> {
        Arc::new(ShardWaker { asleep: AtomicBool::new(false), target })
    }

    /// The shard is about to sleep; it must look at its mail once more after this.
    pub fn will_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The shard is awake.
    pub fn is_awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Something lies ready for the shard.
    pub fn wake_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.target.wake();
        }
    }

    /// Wakes the shard whether or not it sleeps: for what happens rarely.
    pub fn wake(&self) {
        self.target.wake();
    }
}

/// The way to one other shard.
struct RingPair {
    out: rtrb::Producer<Box<Batch>>,
    out_empty: rtrb::Consumer<Box<Batch>>,
    inward: rtrb::Consumer<Box<Batch>>,
    inward_empty: rtrb::Producer<Box<Batch>>,
    waker: Arc<ShardWaker>,
    waiting: VecDeque<Box<Batch>>,
    waiting_bytes: usize,
    writing: Box<Batch>,
    /// Batches lie in the ring of which the other shard was not told.
    unannounced: bool,
}

impl RingPair {
    /// Ends the batch that is being written.
    #[inline(never)]
    fn seal(&mut self) {
        let empty = self.out_empty.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut self.writing, empty);
        self.waiting_bytes += batch.room_bytes();
        self.waiting.push_back(batch);
    }

    /// Puts into the ring what it has room for.
    fn hand_over(&mut self) {
        while let Some(batch) = self.waiting.pop_front() {
            let bytes = batch.room_bytes();
            match self.out.push(batch) {
                Ok(()) => {
                    self.waiting_bytes -= bytes;
                    self.unannounced = true;
                }
                Err(rtrb::PushError::Full(batch)) => {
                    self.waiting.push_front(batch);
                    return;
                }
            }
        }
    }
}

/// The mail of one shard.
pub struct Mailbox {
    rings: Vec<Option<RingPair>>,
}

impl Mailbox {
    /// The mail of every shard, connected; `bells` has one for each.
    pub fn connect(wakers: &[Arc<ShardWaker>]) -> Vec<Mailbox> {
        let count = wakers.len();
        let mut ends: Vec<Vec<_>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
        let mut starts: Vec<Vec<_>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
        for from in 0..count {
            for to in (0..count).filter(|&to| to != from) {
                let (out, inward) = rtrb::RingBuffer::new(MAILBOX_BATCHES);
                let (inward_empty, out_empty) = rtrb::RingBuffer::new(MAILBOX_BATCHES);
                starts[from][to] = Some((out, out_empty));
                ends[to][from] = Some((inward, inward_empty));
            }
        }
        let rings = starts.into_iter().zip(ends).map(|(starts, ends)| {
            let rings = starts.into_iter().zip(ends).zip(wakers).map(|((start, end), waker)| {
                let ((out, out_empty), (inward, inward_empty)) = (start?, end?);
                let waker = Arc::clone(waker);
                Some(RingPair {
                    out,
                    out_empty,
                    inward,
                    inward_empty,
                    waker,
                    waiting: VecDeque::new(),
                    waiting_bytes: 0,
                    writing: Box::default(),
                    unannounced: false,
                })
            });
            Mailbox { rings: rings.collect() }
        });
        rings.collect()
    }

    /// The batch being written for a shard. A full one goes on its way, so that it stays small and the other shard can begin.
    #[inline]
    pub fn batch(&mut self, to: u16) -> &mut Batch {
        match self.rings.get_mut(to as usize) {
            Some(Some(ring)) => {
                if ring.writing.is_full() {
                    ring.seal();
                    ring.hand_over();
                }
                &mut ring.writing
            }
            _ => unreachable!("a shard writes to the others, not to itself"),
        }
    }

    /// Sends batches on their way: all of them, or only the full ones. Wakes whoever sleeps over them.
    pub fn send(&mut self, all: bool) {
        for ring in self.rings.iter_mut().flatten() {
            if ring.writing.is_full() || (all && !ring.writing.is_empty()) {
                ring.seal();
            }
            ring.hand_over();
            if std::mem::take(&mut ring.unannounced) {
                ring.waker.wake_if_asleep();
            }
        }
    }

    /// Whether so much mail waits that no more should be written: connections must not be read.
    pub fn is_congested(&self) -> bool {
        self.rings.iter().flatten().any(|ring| ring.waiting_bytes > MAILBOX_WAITING_BYTES_MAX)
    }

    /// Whether mail waits for a place in a ring.
    pub fn waits(&self) -> bool {
        self.rings.iter().flatten().any(|ring| !ring.waiting.is_empty())
    }

    /// Whether mail has arrived.
    pub fn has_arrived(&self) -> bool {
        self.rings.iter().flatten().any(|ring| !ring.inward.is_empty())
    }

    /// Shards that mail may come from.
    pub fn shards(&self) -> u16 {
        self.rings.len() as u16
    }

    /// The next batch from a shard.
    pub fn next(&mut self, from: u16) -> Option<Box<Batch>> {
        self.rings.get_mut(from as usize)?.as_mut()?.inward.pop().ok()
    }

    /// Gives an emptied batch back to its sender. If many lie there already, it is dropped.
    pub fn give_back(&mut self, from: u16, batch: Box<Batch>) {
        if let Some(Some(ring)) = self.rings.get_mut(from as usize)
            && let Err(rtrb::PushError::Full(surplus)) = ring.inward_empty.push(batch)
        {
            drop(surplus);
        }
    }

    /// Tells a sender that its ring has room again, if it sleeps over that.
    pub fn tell_room(&self, from: u16) {
        if let Some(Some(ring)) = self.rings.get(from as usize) {
            ring.waker.wake_if_asleep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mailbox, ShardWaker, WakeTarget};
    use broker::Letter;
    use broker::limits::BATCH_LETTERS;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Count(Arc<AtomicU32>);

    impl WakeTarget for Count {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_long_round_is_many_small_batches_in_order_and_one_wake_up() {
        let rung = Arc::new(AtomicU32::new(0));
        let wakers: Vec<_> = (0..2).map(|_| ShardWaker::new(Box::new(Count(Arc::clone(&rung))))).collect();
        let mut mail = Mailbox::connect(&wakers);
        let mut receiver = mail.pop().expect("two were connected");
        let mut sender = mail.pop().expect("two were connected");
        wakers[1].will_sleep();
        let letters = 3 * BATCH_LETTERS as u32 + 1;
        for publishes in 0..letters {
            sender.batch(1).push(Letter::Accepted { publishes });
        }
        assert!(receiver.has_arrived(), "the full ones are on their way");
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        sender.send(true);
        assert_eq!(rung.load(Ordering::Relaxed), 1);
        let mut expected = 0;
        while let Some(batch) = receiver.next(0) {
            assert!(batch.letters.len() <= BATCH_LETTERS);
            for letter in &batch.letters {
                assert!(matches!(letter, Letter::Accepted { publishes } if *publishes == expected), "{letter:?}");
                expected += 1;
            }
        }
        assert_eq!(expected, letters);
    }
}
