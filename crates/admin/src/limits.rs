//! Limits of waiting.

use std::time::Duration;

/// Time limit for connecting, and for each step of the protocol.
pub const STEP_WAIT: Duration = Duration::from_secs(15);
/// Time limit for a reply: the broker answers other requests first.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(60);
