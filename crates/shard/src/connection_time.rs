//! The time of a connection: what it took of its shard's thread, and how long its input was held back.

use std::time::{Duration, Instant};

/// Where the time of a connection went since it was made.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ConnectionTime {
    /// Of its shard's thread, an estimate from samples.
    pub worked: Duration,
    held: Duration,
    held_since: Option<Instant>,
}

impl ConnectionTime {
    /// The next command of its client waits: for memory, a disk, a queue, another shard.
    #[inline]
    pub fn hold(&mut self, now: Instant) {
        self.held_since.get_or_insert(now);
    }

    /// Its commands are carried out.
    #[inline]
    pub fn release(&mut self, now: Instant) {
        if let Some(since) = self.held_since.take() {
            self.held += now.saturating_duration_since(since);
        }
    }

    /// How long it was held back before, and since when it is now.
    pub fn held(&self) -> (Duration, Option<Instant>) {
        (self.held, self.held_since)
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionTime;
    use crate::test_clock::some_instant;
    use std::time::Duration;

    #[test]
    fn times_in_which_it_is_held_back_are_added_up() {
        let (start, second) = (some_instant(), Duration::from_secs(1));
        let mut time = ConnectionTime::default();
        time.release(start);
        assert_eq!(time.held(), (Duration::ZERO, None));
        time.hold(start);
        time.hold(start + second);
        assert_eq!(time.held(), (Duration::ZERO, Some(start)), "the first counts");
        time.release(start + 2 * second);
        time.hold(start + 5 * second);
        assert_eq!(time.held(), (2 * second, Some(start + 5 * second)));
        time.release(start + 6 * second);
        assert_eq!(time.held(), (3 * second, None));
    }
}
