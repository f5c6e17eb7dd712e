//! The reactor's limits, each with its reason.

use std::time::Duration;

/// Events that one call of the poll returns at most.
pub(crate) const EVENTS_PER_POLL: usize = 1024;
/// Connections that each listener accepts before others are served.
pub(crate) const ACCEPTED_PER_ROUND: usize = 64;
/// Listeners of one reactor: tokens are reserved for so many.
pub const LISTENERS_MAX: usize = 1024;
/// How long a thread sleeps at most while it drains or while the system has no descriptor for a waiting client.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Rounds in a row that may skip the poll while a device keeps its thread busy: the poll is a system call, which the
/// device does not need.
pub(crate) const ROUNDS_WITHOUT_POLL_MAX: u32 = 16;
/// Largest score of [`AdaptiveSpin`](crate::AdaptiveSpin): waits that spinning shortened, remembered up to this many.
pub(crate) const SPIN_SCORE_MAX: u8 = 16;
/// What a wait that spinning did not shorten takes off that score. Spinning starts at the same score.
pub(crate) const SPIN_MISS_COST: u8 = 4;
