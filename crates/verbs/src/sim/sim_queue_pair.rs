//! A simulated queue pair: queued work, unacknowledged work, and their completions in order.

use crate::device::{CompletionStatus, QueuePairId, QueuePairLimits, WorkCompletion, WorkRequest};
use slab::{BlockMut, Slice};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimQueuePairState {
    /// The peer has not accepted.
    Connecting,
    Connected,
    Failed,
}

/// Work that is delivered and not acknowledged.
struct Unacknowledged {
    due: u64,
    work: WorkRequest,
}

pub(super) struct SimQueuePair {
    pub number: u32,
    pub state: SimQueuePairState,
    /// The peer's node and queue pair.
    pub peer: Option<(usize, u32)>,
    pub queue: VecDeque<WorkRequest>,
    unacknowledged: VecDeque<Unacknowledged>,
    /// Memory of unsignalled sends.
    held: Vec<Slice>,
    /// The next step in which it executes work.
    pub due: u64,
    /// Steps in which the first work request could not be delivered.
    pub retries: u32,
    pub limits: QueuePairLimits,
}

/// A completion, and the memory that is freed when it is polled.
pub(super) struct QueuedCompletion {
    pub completion: WorkCompletion,
    _held: Vec<Slice>,
}

impl QueuedCompletion {
    pub fn of_receive(completion: WorkCompletion) -> Self {
        QueuedCompletion { completion, _held: Vec::new() }
    }
}

impl SimQueuePair {
    pub fn new(number: u32, stage: SimQueuePairState, peer: Option<(usize, u32)>, limits: QueuePairLimits) -> Self {
        SimQueuePair {
            number,
            state: stage,
            peer,
            queue: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            held: Vec::new(),
            due: 0,
            retries: 0,
            limits,
        }
    }

    pub fn slots_used(&self) -> usize {
        self.queue.len() + self.unacknowledged.len()
    }

    /// Whether it has something to do in the next step.
    pub fn is_working(&self) -> bool {
        (self.state == SimQueuePairState::Connected && !self.queue.is_empty()) || !self.unacknowledged.is_empty()
    }

    /// The work is delivered; the acknowledgement arrives in step `due`.
    pub fn on_sent(&mut self, work: WorkRequest, due: u64) {
        let earlier = self.unacknowledged.back().map_or(0, |last| last.due);
        self.unacknowledged.push_back(Unacknowledged { due: due.max(earlier), work });
    }

    /// Completes the work that is acknowledged by this step.
    pub fn acknowledge(&mut self, step: u64, out: &mut Vec<QueuedCompletion>) {
        while let Some(first) = self.unacknowledged.front()
            && first.due <= step
            && let Some(first) = self.unacknowledged.pop_front()
        {
            self.complete(first.work, CompletionStatus::Success, out);
        }
    }

    fn complete(&mut self, work: WorkRequest, status: CompletionStatus, out: &mut Vec<QueuedCompletion>) {
        let pair = QueuePairId(self.number);
        match work {
            WorkRequest::Send { id, parts, signalled, .. } => {
                self.held.extend(parts.into_iter().filter(|part| !part.is_empty()));
                if signalled || status != CompletionStatus::Success {
                    let completion = WorkCompletion { id, pair, status, bytes: 0, memory: BlockMut::empty() };
                    out.push(QueuedCompletion { completion, _held: std::mem::take(&mut self.held) });
                }
            }
            WorkRequest::Read { id, into, bytes, .. } => {
                let completion = WorkCompletion { id, pair, status, bytes, memory: into };
                out.push(QueuedCompletion { completion, _held: std::mem::take(&mut self.held) });
            }
        }
    }

    /// Fails the first work request with `status`, if given, and flushes the rest.
    pub fn fail(&mut self, status: Option<CompletionStatus>, out: &mut Vec<QueuedCompletion>) {
        self.state = SimQueuePairState::Failed;
        self.acknowledge(u64::MAX, out);
        let mut status = status.unwrap_or(CompletionStatus::Flushed);
        while let Some(work) = self.queue.pop_front() {
            self.complete(work, std::mem::replace(&mut status, CompletionStatus::Flushed), out);
        }
    }
}
