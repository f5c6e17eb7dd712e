//! The timers of a federation link: back-off between tries, requests of the lag, the wait of delayed routes.

use federation::limits::{BACK_OFF_MAX, BACK_OFF_MIN, LAG_INTERVAL, REFUSED_WAIT, RETURN_WAIT};
use std::time::{Duration, Instant};

/// When a link has to try, ask or go on again.
pub(crate) struct LinkTimers {
    /// Failed tries since messages last flowed.
    attempts: u32,
    /// When the source is next asked how many messages wait, while there is a connection.
    lag_at: Instant,
    /// Until then, routes that existed before this broker started take nothing.
    delayed_until: Option<Instant>,
}

/// The wait after so many attempts: between half of it and all of it, by `chance`.
pub(crate) fn back_off(attempts: u32, chance: u64) -> Duration {
    let whole = BACK_OFF_MIN.saturating_mul(1 << attempts.min(16)).min(BACK_OFF_MAX);
    let half = whole / 2;
    half + Duration::from_micros(chance % (half.as_micros() as u64 + 1))
}

impl LinkTimers {
    pub fn new(now: Instant) -> Self {
        LinkTimers { attempts: 0, lag_at: now, delayed_until: None }
    }

    /// The wait before the next try, which counts as one even if it is made at once. `fixed`: what the operator has chosen.
    pub fn next_retry(&mut self, is_refused: bool, at_once: bool, fixed: Option<Duration>, chance: u64) -> Duration {
        let wait = match (at_once, is_refused) {
            (true, _) => Duration::ZERO,
            (false, _) if fixed.is_some() => fixed.unwrap_or_default(),
            (false, true) => REFUSED_WAIT / 2 + Duration::from_micros(chance % (REFUSED_WAIT.as_micros() as u64 / 2)),
            (false, false) => back_off(self.attempts, chance),
        };
        self.attempts = self.attempts.saturating_add(1);
        wait
    }

    /// Messages flow: the next failure is the first again.
    pub fn reset_attempts(&mut self) {
        self.attempts = 0;
    }

    pub fn start_lag_interval(&mut self, now: Instant) {
        self.lag_at = now + LAG_INTERVAL;
    }

    /// Whether the lag is to be requested now; the next interval begins.
    pub fn lag_expired(&mut self, now: Instant) -> bool {
        let is_expired = self.lag_at <= now;
        if is_expired {
            self.start_lag_interval(now);
        }
        is_expired
    }

    pub fn delay_routes(&mut self, now: Instant) {
        self.delayed_until = Some(now + RETURN_WAIT);
    }

    /// Whether delayed routes may go on now, which is the case once.
    pub fn delay_expired(&mut self, now: Instant) -> bool {
        self.delayed_until.take_if(|until| *until <= now).is_some()
    }

    /// The next timer of a connected link.
    pub fn next(&self) -> Instant {
        self.delayed_until.map_or(self.lag_at, |until| until.min(self.lag_at))
    }
}

#[cfg(test)]
mod tests {
    use super::back_off;
    use federation::limits::{BACK_OFF_MAX, BACK_OFF_MIN};

    #[test]
    fn waits_grow_to_a_limit_and_differ() {
        for chance in [0, 1, 12_345, u64::MAX] {
            assert!((BACK_OFF_MIN / 2..=BACK_OFF_MIN).contains(&back_off(0, chance)));
            assert!(back_off(1, chance) >= BACK_OFF_MIN);
            assert!((BACK_OFF_MAX / 2..=BACK_OFF_MAX).contains(&back_off(u32::MAX, chance)));
        }
        assert_ne!(back_off(3, 1), back_off(3, 400_000));
    }
}
