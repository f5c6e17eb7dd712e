//! The clock of a run.
//!
//! Owns:   the instant from which simulated time counts. Nothing depends on which it is.

use std::time::Instant;

/// Simulated time.
#[derive(Clone, Copy)]
pub struct SimulatedClock {
    pub now: Instant,
    pub start: Instant,
}

impl SimulatedClock {
    pub fn new() -> Self {
        let now = some_instant();
        SimulatedClock { now, start: now }
    }

    /// Microseconds since the run began.
    pub fn us(&self) -> u64 {
        self.now.duration_since(self.start).as_micros() as u64
    }
}

/// An instant to count simulated time from.
#[expect(clippy::disallowed_methods, reason = "simulated time counts from any instant; nothing depends on it")]
pub fn some_instant() -> Instant {
    Instant::now()
}
