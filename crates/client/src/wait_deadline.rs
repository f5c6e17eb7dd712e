//! How long a call waits for what may come.
//!
//! Enters: a time-out, the time when the first wait begins.  Leaves: until when.

use std::time::{Duration, Instant};

/// A time-out that begins with the first wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitDeadline {
    /// Nobody has waited yet.
    For(Duration),
    /// It ends then, or never.
    Until(Option<Instant>),
}

impl WaitDeadline {
    /// When it ends, for one who waits from now on.
    pub(crate) fn until(&mut self, now: Instant) -> Option<Instant> {
        if let WaitDeadline::For(timeout) = *self {
            // What no clock can count to never comes.
            *self = WaitDeadline::Until(now.checked_add(timeout));
        }
        match *self {
            WaitDeadline::Until(until) => until,
            WaitDeadline::For(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WaitDeadline;
    use crate::clock::now;
    use std::time::Duration;

    #[test]
    fn it_begins_with_the_first_wait() {
        let (start, second) = (now(), Duration::from_secs(1));
        let mut patience = WaitDeadline::For(second);
        assert_eq!(patience.until(start + second), Some(start + 2 * second));
        assert_eq!(patience.until(start + 5 * second), Some(start + 2 * second));
        assert_eq!(WaitDeadline::For(Duration::MAX).until(start), None);
    }
}
