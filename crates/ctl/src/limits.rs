//! Limits of a command: what it waits for, and what it sends at once.

use std::time::Duration;

/// The time for an answer, unless `--timeout` says another.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a broker is waited for, unless `--timeout` says another.
pub const STARTUP_TIMEOUT: Duration = Duration::from_secs(300);
/// Seconds of the longest wait that may be asked for: a day.
pub const TIMEOUT_S_MAX: u64 = 86_400;
/// Bytes of a body that fit into a request beside everything else, however many of them JSON escapes.
pub const PIECE_BYTES: usize = 10_000;
