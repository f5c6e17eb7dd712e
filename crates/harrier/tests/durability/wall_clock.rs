//! The clock that messages expire by, also while a broker is down.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a test compares with the wall clock of a broker")]
pub fn wall_clock_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_micros() as u64
}
