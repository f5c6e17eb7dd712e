//! Failed logins by source: who fails often is slowed down, and nobody is locked out.
//!
//! The shards share the counts. The lock is taken for a login by password, never for a message.

use crate::limits::{
    LOGIN_FAILURE_DECAY, LOGIN_FAILURES_FREE, LOGIN_FAILURES_MAX, LOGIN_INTERVAL_STEP, LOGIN_SOURCES_MAX,
};
use crate::login_source::LoginSource;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
struct FailureCount {
    failures: u32,
    /// When `failures` was right; since then they age.
    counted_at: Instant,
    /// When the next login may be verified.
    next_turn: Instant,
}

impl FailureCount {
    fn now(&self, now: Instant) -> u32 {
        let aged = now.saturating_duration_since(self.counted_at).as_secs() / LOGIN_FAILURE_DECAY.as_secs();
        self.failures.saturating_sub(u32::try_from(aged).unwrap_or(u32::MAX))
    }
}

#[derive(Default)]
struct FailureTable {
    sources: HashMap<LoginSource, FailureCount>,
    /// When the sources that have aged out were last removed.
    cleaned_at: Option<Instant>,
}

/// The failed logins of all sources.
#[derive(Default)]
pub(crate) struct LoginFailures(Mutex<FailureTable>);

impl LoginFailures {
    fn locked(&self) -> MutexGuard<'_, FailureTable> {
        // Nothing panics while the lock is held, and the table is whole at every moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failed login. Beyond [`LOGIN_SOURCES_MAX`] sources, a new one is not counted.
    pub fn count(&self, source: LoginSource, now: Instant) {
        let mut table = self.locked();
        let FailureTable { sources, cleaned_at } = &mut *table;
        let is_full = sources.len() >= LOGIN_SOURCES_MAX && !sources.contains_key(&source);
        if is_full && cleaned_at.is_none_or(|at| now >= at + LOGIN_FAILURE_DECAY) {
            *cleaned_at = Some(now);
            sources.retain(|_, count| count.now(now) > 0);
        }
        if is_full && sources.len() >= LOGIN_SOURCES_MAX {
            return;
        }
        let count = sources.entry(source).or_insert(FailureCount { failures: 0, counted_at: now, next_turn: now });
        count.failures = (count.now(now) + 1).min(LOGIN_FAILURES_MAX);
        count.counted_at = now;
    }

    /// The time between two logins of a source; zero for one that seldom fails.
    pub fn interval(&self, source: LoginSource, now: Instant) -> Duration {
        let failures = self.locked().sources.get(&source).map_or(0, |count| count.now(now));
        interval(failures)
    }

    /// Whether a source has failed as often as is counted: nothing is taken on trust from it.
    pub fn is_suspect(&self, source: LoginSource, now: Instant) -> bool {
        self.locked().sources.get(&source).is_some_and(|count| count.now(now) >= LOGIN_FAILURES_MAX)
    }

    /// Takes the turn of a source for one login.
    ///
    /// # Errors
    /// When its turn comes.
    pub fn take_turn(&self, source: LoginSource, now: Instant) -> Result<(), Instant> {
        let mut table = self.locked();
        let Some(count) = table.sources.get_mut(&source) else { return Ok(()) };
        match interval(count.now(now)) {
            Duration::ZERO => Ok(()),
            _ if now < count.next_turn => Err(count.next_turn),
            interval => {
                count.next_turn = now + interval;
                Ok(())
            }
        }
    }
}

fn interval(failures: u32) -> Duration {
    LOGIN_INTERVAL_STEP * failures.saturating_sub(LOGIN_FAILURES_FREE)
}

#[cfg(test)]
mod tests {
    use super::LoginFailures;
    use crate::limits::{
        LOGIN_FAILURE_DECAY, LOGIN_FAILURES_FREE, LOGIN_FAILURES_MAX, LOGIN_INTERVAL_STEP, LOGIN_SOURCES_MAX,
    };
    use crate::login_source::LoginSource;
    use crate::test_clock::some_instant;
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    fn source(number: u32) -> LoginSource {
        LoginSource::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn who_fails_often_is_slowed_down_and_recovers() {
        let (failures, now, one) = (LoginFailures::default(), some_instant(), source(1));
        for _ in 0..LOGIN_FAILURES_FREE {
            failures.count(one, now);
            assert!(failures.take_turn(one, now).is_ok() && failures.interval(one, now).is_zero());
        }
        failures.count(one, now);
        assert!(failures.take_turn(one, now).is_ok(), "the first turn is free");
        let turn = now + LOGIN_INTERVAL_STEP;
        assert_eq!(failures.take_turn(one, now), Err(turn));
        assert!(failures.take_turn(one, turn).is_ok() && failures.take_turn(one, turn).is_err());
        assert!(failures.take_turn(source(2), now).is_ok(), "others are not concerned");
        (0..10 * LOGIN_FAILURES_MAX).for_each(|_| failures.count(one, now));
        let slowest = LOGIN_INTERVAL_STEP * (LOGIN_FAILURES_MAX - LOGIN_FAILURES_FREE);
        assert!(failures.is_suspect(one, now) && failures.interval(one, now) == slowest);
        let later = now + LOGIN_FAILURE_DECAY * LOGIN_FAILURES_MAX;
        assert!(!failures.is_suspect(one, later) && failures.take_turn(one, later).is_ok());
        assert_eq!(failures.interval(one, later), Duration::ZERO);
    }

    #[test]
    fn the_table_is_bounded_and_those_who_have_aged_out_give_way() {
        let (failures, now) = (LoginFailures::default(), some_instant());
        for number in 0..LOGIN_SOURCES_MAX as u32 + 100 {
            (0..2).for_each(|_| failures.count(source(number), now));
        }
        assert_eq!(failures.locked().sources.len(), LOGIN_SOURCES_MAX);
        let later = now + 3 * LOGIN_FAILURE_DECAY;
        failures.count(source(u32::MAX), later);
        assert_eq!(failures.locked().sources.len(), 1);
    }
}
