//! An instant from which tests count simulated time.

use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "simulated time needs some instant to count from")]
pub(crate) fn some_instant() -> Instant {
    Instant::now()
}
