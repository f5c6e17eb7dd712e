//! The monotonic clock of all measurements, comparable between processes of one machine.
//!
//! Only this file of the crate reads a clock or sleeps.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The monotonic clock in nanoseconds.
pub fn now_ns() -> u64 {
    match clock_gettime(ClockId::CLOCK_MONOTONIC) {
        Ok(time) => (time.tv_sec() as u64) * 1_000_000_000 + time.tv_nsec() as u64,
        Err(error) => unreachable!("the monotonic clock cannot be read: {error}"),
    }
}

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end_ns: u64,
}

impl Deadline {
    /// A deadline `wait` from now.
    pub fn after(wait: Duration) -> Self {
        Self { end_ns: now_ns().saturating_add(wait.as_nanos() as u64) }
    }

    pub fn passed(self) -> bool {
        now_ns() >= self.end_ns
    }

    /// The remaining time, zero after the deadline.
    pub fn left(self) -> Duration {
        Duration::from_nanos(self.end_ns.saturating_sub(now_ns()))
    }
}

/// Sleeps while polling a condition outside this process that cannot be waited for (a port that opens, memory that settles), or
/// until the next step of a load is due.
pub fn pause(wait: Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "a program's state is polled, or a load is paced: nothing can wake us"
    )]
    std::thread::sleep(wait);
}

/// Today's date in UTC as `YYYY-MM-DD`, for file names.
pub fn date() -> String {
    timestamp_of(wall_s()).chars().take(10).collect()
}

/// The time in UTC as `YYYY-MM-DDThh:mm:ssZ`, for documents.
pub fn timestamp() -> String {
    timestamp_of(wall_s())
}

fn wall_s() -> i64 {
    clock_gettime(ClockId::CLOCK_REALTIME).map(|time| time.tv_sec()).unwrap_or(0)
}

fn timestamp_of(seconds: i64) -> String {
    let (year, month, day) = civil_date(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date of a day counted from 1970-01-01, found by walking 400-year eras that begin in March.
fn civil_date(days_since_epoch: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    const DAYS_FROM_MARCH_OF_YEAR_0_TO_EPOCH: i64 = 719_468;
    let days = days_since_epoch + DAYS_FROM_MARCH_OF_YEAR_0_TO_EPOCH;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_known_seconds() {
        assert_eq!(timestamp_of(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp_of(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(timestamp().len(), "1970-01-01T00:00:00Z".len());
        assert_eq!(date().len(), "1970-01-01".len());
    }

    #[test]
    fn dates_of_known_days() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (-1, (1969, 12, 31)),
        ] {
            assert_eq!(civil_date(day), date, "day {day}");
        }
    }
}
