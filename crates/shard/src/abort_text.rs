//! Why this broker aborted a connection to another one, in words.

use link::AbortReason;

/// Why this broker has aborted a connection to another one, for operators.
pub(crate) fn abort_reason(why: AbortReason) -> &'static str {
    match why {
        AbortReason::Silent => "closed: the other broker was silent for two heartbeats",
        AbortReason::Overdue => "closed: the other broker did not answer as expected in time",
        AbortReason::Slow => "closed: the other broker does not read",
        other => other.as_str(),
    }
}
