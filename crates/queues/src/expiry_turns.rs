//! Queues whose messages have expired while very many dead letters wait: they give them up in turns, as these are routed.

use catalog::QueueId;
use std::collections::VecDeque;

/// Whether a queue may give up what has expired.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ExpiryTurn {
    /// Unless others wait.
    #[default]
    Free,
    /// It waits for its turn.
    Waits,
    /// It has its turn when it is dispatched.
    Has,
}

/// The queues that wait, each once.
#[derive(Default)]
pub(crate) struct ExpiryTurns(VecDeque<QueueId>);

impl ExpiryTurns {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn push(&mut self, queue: QueueId) {
        self.0.push_back(queue);
    }

    pub fn next(&mut self) -> Option<QueueId> {
        self.0.pop_front()
    }
}
