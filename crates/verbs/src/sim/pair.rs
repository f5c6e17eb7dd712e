//! A simulated queue pair: work that waits, work that is not acknowledged.
//!
//! Enters: work.  Leaves: its completions, in order.
//! Owns:   what was posted, until it is polled.
//! Never:  releases memory before a completion stands for it.

use crate::device::{Completion, QueuePair, QueueWishes, Status, Work};
use slab::{BlockMut, Slice};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The peer has not accepted.
    Asking,
    Up,
    Down,
}

/// Work that the peer has, and of which we do not know that.
struct Unacknowledged {
    due: u64,
    work: Work,
}

pub(super) struct Pair {
    pub number: u32,
    pub stage: Stage,
    /// The node and the queue pair at the other end.
    pub peer: Option<(usize, u32)>,
    pub queue: VecDeque<Work>,
    unacknowledged: VecDeque<Unacknowledged>,
    /// Memory of sends without a completion of their own.
    held: Vec<Slice>,
    /// The step before which nothing is done.
    pub due: u64,
    /// Steps for which the first piece of work has found nobody.
    pub tries: u32,
    pub wishes: QueueWishes,
}

/// A completion, and the memory that goes when it is polled.
pub(super) struct Entry {
    pub completion: Completion,
    _held: Vec<Slice>,
}

impl Entry {
    pub fn of_receive(completion: Completion) -> Self {
        Entry { completion, _held: Vec::new() }
    }
}

impl Pair {
    pub fn new(number: u32, stage: Stage, peer: Option<(usize, u32)>, wishes: QueueWishes) -> Self {
        Pair {
            number,
            stage,
            peer,
            queue: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            held: Vec::new(),
            due: 0,
            tries: 0,
            wishes,
        }
    }

    pub fn slots_used(&self) -> usize {
        self.queue.len() + self.unacknowledged.len()
    }

    /// Whether another step would do something for it.
    pub fn is_working(&self) -> bool {
        (self.stage == Stage::Up && !self.queue.is_empty()) || !self.unacknowledged.is_empty()
    }

    /// The peer has it; the acknowledgement comes at `due`.
    pub fn sent(&mut self, work: Work, due: u64) {
        let earlier = self.unacknowledged.back().map_or(0, |last| last.due);
        self.unacknowledged.push_back(Unacknowledged { due: due.max(earlier), work });
    }

    /// Completions of what is acknowledged by this step.
    pub fn acknowledge(&mut self, step: u64, out: &mut Vec<Entry>) {
        while let Some(first) = self.unacknowledged.front()
            && first.due <= step
            && let Some(first) = self.unacknowledged.pop_front()
        {
            self.complete(first.work, Status::Done, out);
        }
    }

    fn complete(&mut self, work: Work, status: Status, out: &mut Vec<Entry>) {
        let pair = QueuePair(self.number);
        match work {
            Work::Send { id, parts, signalled, .. } => {
                self.held.extend(parts.into_iter().filter(|part| !part.is_empty()));
                if signalled || status != Status::Done {
                    let completion = Completion { id, pair, status, bytes: 0, memory: BlockMut::empty() };
                    out.push(Entry { completion, _held: std::mem::take(&mut self.held) });
                }
            }
            Work::Read { id, into, bytes, .. } => {
                let completion = Completion { id, pair, status, bytes, memory: into };
                out.push(Entry { completion, _held: std::mem::take(&mut self.held) });
            }
        }
    }

    /// The first piece of work fails with `status`, if one is named, and all the rest is flushed.
    pub fn down(&mut self, status: Option<Status>, out: &mut Vec<Entry>) {
        self.stage = Stage::Down;
        self.acknowledge(u64::MAX, out);
        let mut status = status.unwrap_or(Status::Flushed);
        while let Some(work) = self.queue.pop_front() {
            self.complete(work, std::mem::replace(&mut status, Status::Flushed), out);
        }
    }
}
