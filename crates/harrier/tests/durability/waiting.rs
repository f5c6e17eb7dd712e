//! Waits for a condition, which must come.

use super::PATIENCE;
use std::time::{Duration, Instant};

/// Waits for a condition.
#[expect(clippy::disallowed_methods, reason = "a test has a deadline")]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        gauge::clock::pause(Duration::from_millis(1));
    }
}
