//! Mail between shards: a bounded ring for every pair, one wake-up per batch.
//!
//! Enters: batches of letters.  Leaves: the same at the other shard, in order; emptied batches come back for reuse.
//! Owns:   the rings and the doorbells.
//! Never:  blocks: what finds no place waits at the sender, which then stops reading.

use crate::limits::{MAIL_BATCHES, MAIL_WAITING_BYTES_MAX};
use broker::ShardBatch;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes a shard that sleeps.
pub trait Bell: Send + Sync {
    /// Interrupts its wait.
    fn ring(&self);
}

/// Whether a shard sleeps, and how to wake it.
pub struct Doorbell {
    asleep: AtomicBool,
    bell: Box<dyn Bell>,
}

impl Doorbell {
    /// A doorbell of a shard that is awake.
    pub fn new(bell: Box<dyn Bell>) -> Arc<Self> {
        Arc::new(Doorbell { asleep: AtomicBool::new(false), bell })
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
    pub fn call(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.bell.ring();
        }
    }

    /// Wakes the shard whether or not it sleeps: for what happens rarely.
    pub fn wake(&self) {
        self.bell.ring();
    }
}

/// The way to one other shard.
struct Road {
    out: rtrb::Producer<Box<ShardBatch>>,
    out_empty: rtrb::Consumer<Box<ShardBatch>>,
    inward: rtrb::Consumer<Box<ShardBatch>>,
    inward_empty: rtrb::Producer<Box<ShardBatch>>,
    bell: Arc<Doorbell>,
    waiting: VecDeque<Box<ShardBatch>>,
    waiting_bytes: usize,
    writing: Box<ShardBatch>,
    /// Batches lie in the ring of which the other shard was not told.
    unannounced: bool,
}

impl Road {
    /// Ends the batch that is being written.
    #[inline(never)]
    fn seal(&mut self) {
        let empty = self.out_empty.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut self.writing, empty);
        self.waiting_bytes += batch.capacity_bytes();
        self.waiting.push_back(batch);
    }

    /// Puts into the ring what it has room for.
    fn hand_over(&mut self) {
        while let Some(batch) = self.waiting.pop_front() {
            let bytes = batch.capacity_bytes();
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
pub struct Mail {
    roads: Vec<Option<Road>>,
}

impl Mail {
    /// The mail of every shard, connected; `bells` has one for each.
    pub fn connect(bells: &[Arc<Doorbell>]) -> Vec<Mail> {
        let count = bells.len();
        let mut ends: Vec<Vec<_>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
        let mut starts: Vec<Vec<_>> = (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
        for from in 0..count {
            for to in (0..count).filter(|&to| to != from) {
                let (out, inward) = rtrb::RingBuffer::new(MAIL_BATCHES);
                let (inward_empty, out_empty) = rtrb::RingBuffer::new(MAIL_BATCHES);
                starts[from][to] = Some((out, out_empty));
                ends[to][from] = Some((inward, inward_empty));
            }
        }
        let roads = starts.into_iter().zip(ends).map(|(starts, ends)| {
            let roads = starts.into_iter().zip(ends).zip(bells).map(|((start, end), bell)| {
                let ((out, out_empty), (inward, inward_empty)) = (start?, end?);
                let bell = Arc::clone(bell);
                Some(Road {
                    out,
                    out_empty,
                    inward,
                    inward_empty,
                    bell,
                    waiting: VecDeque::new(),
                    waiting_bytes: 0,
                    writing: Box::default(),
                    unannounced: false,
                })
            });
            Mail { roads: roads.collect() }
        });
        roads.collect()
    }

    /// The batch being written for a shard. A full one goes on its way, so that it stays small and the other shard can begin.
    #[inline]
    pub fn batch(&mut self, to: u16) -> &mut ShardBatch {
        match self.roads.get_mut(to as usize) {
            Some(Some(road)) => {
                if road.writing.is_full() {
                    road.seal();
                    road.hand_over();
                }
                &mut road.writing
            }
            _ => unreachable!("a shard writes to the others, not to itself"),
        }
    }

    /// Sends batches on their way: all of them, or only the full ones. Wakes whoever sleeps over them.
    pub fn send(&mut self, all: bool) {
        for road in self.roads.iter_mut().flatten() {
            if road.writing.is_full() || (all && !road.writing.is_empty()) {
                road.seal();
            }
            road.hand_over();
            if std::mem::take(&mut road.unannounced) {
                road.bell.call();
            }
        }
    }

    /// Whether so much mail waits that no more should be written: connections must not be read.
    pub fn is_congested(&self) -> bool {
        self.roads.iter().flatten().any(|road| road.waiting_bytes > MAIL_WAITING_BYTES_MAX)
    }

    /// Whether mail waits for a place in a ring.
    pub fn waits(&self) -> bool {
        self.roads.iter().flatten().any(|road| !road.waiting.is_empty())
    }

    /// Whether mail has arrived.
    pub fn has_arrived(&self) -> bool {
        self.roads.iter().flatten().any(|road| !road.inward.is_empty())
    }

    /// Shards that mail may come from.
    pub fn shards(&self) -> u16 {
        self.roads.len() as u16
    }

    /// The next batch from a shard.
    pub fn next(&mut self, from: u16) -> Option<Box<ShardBatch>> {
        self.roads.get_mut(from as usize)?.as_mut()?.inward.pop().ok()
    }

    /// Gives an emptied batch back to its sender. If many lie there already, it is dropped.
    pub fn give_back(&mut self, from: u16, batch: Box<ShardBatch>) {
        if let Some(Some(road)) = self.roads.get_mut(from as usize)
            && let Err(rtrb::PushError::Full(surplus)) = road.inward_empty.push(batch)
        {
            drop(surplus);
        }
    }

    /// Tells a sender that its ring has room again, if it sleeps over that.
    pub fn tell_room(&self, from: u16) {
        if let Some(Some(road)) = self.roads.get(from as usize) {
            road.bell.call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bell, Doorbell, Mail};
    use broker::ShardMessage;
    use broker::limits::BATCH_MESSAGES;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Count(Arc<AtomicU32>);

    impl Bell for Count {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_long_round_is_many_small_batches_in_order_and_one_wake_up() {
        let rung = Arc::new(AtomicU32::new(0));
        let bells: Vec<_> = (0..2).map(|_| Doorbell::new(Box::new(Count(Arc::clone(&rung))))).collect();
        let mut mail = Mail::connect(&bells);
        let mut receiver = mail.pop().expect("two were connected");
        let mut sender = mail.pop().expect("two were connected");
        bells[1].will_sleep();
        let letters = 3 * BATCH_MESSAGES as u32 + 1;
        for publishes in 0..letters {
            sender.batch(1).push(ShardMessage::PublishesAccepted { publishes });
        }
        assert!(receiver.has_arrived(), "the full ones are on their way");
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        sender.send(true);
        assert_eq!(rung.load(Ordering::Relaxed), 1);
        let mut expected = 0;
        while let Some(batch) = receiver.next(0) {
            assert!(batch.messages.len() <= BATCH_MESSAGES);
            for letter in &batch.messages {
                assert!(matches!(letter, ShardMessage::PublishesAccepted { publishes } if *publishes == expected), "{letter:?}");
                expected += 1;
            }
        }
        assert_eq!(expected, letters);
    }
}
