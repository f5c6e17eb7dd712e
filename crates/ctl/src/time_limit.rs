//! How long a command goes on asking until the broker's answer is another one.

use std::time::{Duration, Instant};

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// A time from now on, in which something is tried again and again.
pub struct TimeLimit {
    begun: Instant,
    length: Duration,
}

impl TimeLimit {
    #[expect(clippy::disallowed_methods, reason = "a program that waits at a terminal")]
    pub fn begin(length: Duration) -> Self {
        TimeLimit { begun: Instant::now(), length }
    }

    /// What is left for an attempt: at least as long as a pause.
    pub fn left(&self) -> Duration {
        self.length.saturating_sub(self.begun.elapsed()).max(PAUSE)
    }

    /// Waits before another attempt. `false`: there is no time for one.
    #[expect(clippy::disallowed_methods, reason = "nothing tells that something has changed at a broker")]
    pub fn pause(&self) -> bool {
        if self.begun.elapsed() + PAUSE >= self.length {
            return false;
        }
        std::thread::sleep(PAUSE);
        true
    }
}
