//! When connections follow the queue that they use to the shard where it lives.

use crate::limits::{MOVE_PATIENCE, MOVE_REST, MOVE_WINDOW_MESSAGES};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MoveOptions {
    pub is_enabled: bool,
    /// Messages that a publisher publishes before it is looked at where they went.
    pub window_messages: u64,
    /// How long it waits for what it has under way, at most. It is not read meanwhile.
    pub patience: Duration,
    /// How long a connection that has moved, or could not, stays where it is.
    pub rest: Duration,
}

impl Default for MoveOptions {
    fn default() -> Self {
        let (window_messages, patience, rest) = (MOVE_WINDOW_MESSAGES, MOVE_PATIENCE, MOVE_REST);
        MoveOptions { is_enabled: false, window_messages, patience, rest }
    }
}
