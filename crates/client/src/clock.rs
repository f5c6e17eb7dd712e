//! The client's clock: heartbeats and waits that end.
//!
//! Leaves: the time.
//! Owns:   the one place of this crate that reads a clock.

use std::time::Instant;

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "a client blocks on its own thread; there is no reactor to hand the time in"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
