//! The time, for what the management API tells and how often it asks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "how often shards are asked is no affair of theirs")]
pub fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "answers tell when something happened")]
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
