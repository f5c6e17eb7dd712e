//! Whether a shard that has nothing to do looks for work a while before it sleeps.
//!
//! Enters: how long each wait was.  Leaves: how long to look.
//! Owns:   the memory of whether looking would have paid.
//! Never:  reads a clock, waits.

use crate::limits::{SPIN_MISS_COST, SPIN_SCORE_MAX};
use std::time::Duration;

/// Spinning that adapts: as long as waits end within the window it pays, and once they do not it stops until they do again. A broker
/// at rest, or one with a message now and then, spins a few times and sleeps like one that never spins.
pub(crate) struct Spin {
    window: Duration,
    score: u8,
}

impl Spin {
    /// Spinning for this long at most; zero: never.
    pub fn new(window: Duration) -> Self {
        Spin { window, score: 0 }
    }

    /// Whether it may ever spin, so that waits must be told.
    pub fn is_on(&self) -> bool {
        !self.window.is_zero()
    }

    /// How long to look before the next sleep.
    pub fn window(&self) -> Duration {
        if self.score >= SPIN_MISS_COST { self.window } else { Duration::ZERO }
    }

    /// A wait is over, looking and sleeping together.
    pub fn waited(&mut self, wait: Duration) {
        self.score = if wait <= self.window {
            (self.score + 1).min(SPIN_SCORE_MAX)
        } else {
            self.score.saturating_sub(SPIN_MISS_COST)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_micros(50);
    const SHORT: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_millis(1);

    /// How many of these waits begin with a look.
    fn looks(spin: &mut Spin, waits: &[Duration]) -> usize {
        let mut looks = 0;
        for &wait in waits {
            looks += usize::from(!spin.window().is_zero());
            spin.waited(wait);
        }
        looks
    }

    #[test]
    fn it_looks_while_that_pays() {
        let mut spin = Spin::new(WINDOW);
        assert_eq!(looks(&mut spin, &[LONG; 100]), 0, "at rest");
        assert_eq!(looks(&mut spin, &[SHORT; 100]), 96, "round trips");
        assert_eq!(looks(&mut spin, &[LONG; 100]), 4, "at rest again");
        let mixed: Vec<_> = [SHORT, LONG].repeat(500);
        assert_eq!(looks(&mut spin, &mixed), 0, "every other wait is long");
    }

    #[test]
    fn it_never_looks_when_told_not_to() {
        let mut spin = Spin::new(Duration::ZERO);
        assert!(!spin.is_on());
        assert_eq!(looks(&mut spin, &[SHORT; 10]), 0);
    }
}
