//! Adaptive spinning: whether a thread without work polls a while before it sleeps.

use crate::limits::{SPIN_MISS_COST, SPIN_SCORE_MAX};
use std::time::Duration;

/// Spins as long as waits end within the window, and stops until they do so again. A thread at rest, or one with a
/// message now and then, spins a few times and then sleeps like one that never spins.
pub struct AdaptiveSpin {
    window: Duration,
    score: u8,
}

impl AdaptiveSpin {
    /// Spins for `window` at most; if that is zero, never.
    pub fn new(window: Duration) -> Self {
        AdaptiveSpin { window, score: 0 }
    }

    /// Whether it ever spins, so that waits have to be measured.
    pub fn is_enabled(&self) -> bool {
        !self.window.is_zero()
    }

    /// How long to spin before the next sleep.
    pub fn window(&self) -> Duration {
        if self.score >= SPIN_MISS_COST { self.window } else { Duration::ZERO }
    }

    /// A wait took this long, spinning and sleeping together.
    pub fn on_wait_end(&mut self, elapsed: Duration) {
        self.score = if elapsed <= self.window {
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

    /// How many of these waits begin with spinning.
    fn spins(spin: &mut AdaptiveSpin, waits: &[Duration]) -> usize {
        let mut spins = 0;
        for &wait in waits {
            spins += usize::from(!spin.window().is_zero());
            spin.on_wait_end(wait);
        }
        spins
    }

    #[test]
    fn spins_while_that_shortens_waits() {
        let mut spin = AdaptiveSpin::new(WINDOW);
        assert_eq!(spins(&mut spin, &[LONG; 100]), 0, "at rest");
        assert_eq!(spins(&mut spin, &[SHORT; 100]), 96, "round trips");
        assert_eq!(spins(&mut spin, &[LONG; 100]), 4, "at rest again");
        let mixed: Vec<_> = [SHORT, LONG].repeat(500);
        assert_eq!(spins(&mut spin, &mixed), 0, "every other wait is long");
    }

    #[test]
    fn never_spins_with_an_empty_window() {
        let mut spin = AdaptiveSpin::new(Duration::ZERO);
        assert!(!spin.is_enabled());
        assert_eq!(spins(&mut spin, &[SHORT; 10]), 0);
    }
}
