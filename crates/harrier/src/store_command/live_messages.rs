//! The messages that no queue is done with, by queue and log.

use super::log_steps::{LogStep, LogSteps};
use super::position_runs::PositionRuns;
use std::collections::BTreeMap;
use store::{LogId, QueueUid, RecordVisitor};

/// What a queue has in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueContent {
    pub log: LogId,
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    pub first: u64,
    pub last: u64,
}

/// A queue, and the log that has its messages: in a sound store a queue has one log.
type LoggedQueue = (QueueUid, LogId);

/// The messages of each queue. A log is read twice: for the positions that are alive, and then for their bodies' sizes.
#[derive(Default)]
pub struct LiveMessages {
    alive: BTreeMap<LoggedQueue, PositionRuns>,
    /// Positions whose bodies have not been counted.
    uncounted: BTreeMap<LoggedQueue, PositionRuns>,
    body_bytes: BTreeMap<LoggedQueue, u64>,
}

impl LiveMessages {
    /// Finds the positions in a log.
    pub fn positions(&mut self, log: LogId) -> impl RecordVisitor {
        LogSteps::new(move |step| match step {
            LogStep::Arrived { queue, position, .. } => self.alive.entry((queue, log)).or_default().insert(position.0),
            LogStep::Settled { queue, first, count } => {
                if let Some(runs) = self.alive.get_mut(&(queue, log)) {
                    runs.remove(first.0, count);
                }
            }
        })
    }

    /// Counts the bodies of a log: to be used for each log when the positions of all logs are known.
    pub fn sizes(&mut self, log: LogId) -> impl RecordVisitor {
        if self.uncounted.is_empty() {
            self.uncounted.clone_from(&self.alive);
        }
        LogSteps::new(move |step| {
            // A message that was moved to another segment is in the log twice.
            if let LogStep::Arrived { queue, position, body_bytes } = step
                && self.uncounted.get_mut(&(queue, log)).is_some_and(|runs| runs.take(position.0))
            {
                *self.body_bytes.entry((queue, log)).or_default() += body_bytes;
            }
        })
    }

    /// The queues that have messages.
    pub fn queues(&self) -> impl Iterator<Item = (QueueUid, QueueContent)> {
        self.alive.iter().filter_map(|(queue, runs)| {
            let (first, last) = (runs.first()?, runs.last()?);
            let body_bytes = self.body_bytes.get(queue).copied().unwrap_or(0);
            let &(uid, log) = queue;
            Some((uid, QueueContent { log, messages: runs.count(), body_bytes, first, last }))
        })
    }
}
