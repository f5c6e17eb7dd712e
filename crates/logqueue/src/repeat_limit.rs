//! Counts the log lines of each place of the program, so that a flood of the same line becomes one with a number.
//!
//! There are as many windows as the program has places that log.

use crate::limits::{LOG_REPEAT_WINDOW, LOG_REPEATS_MAX};
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;
use tracing::Level;

/// What becomes of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepeatVerdict {
    Log,
    /// It is counted; `is_first`: the first of its window, whose message is wanted.
    LeaveOut {
        is_first: bool,
    },
}

/// Events of one place that were left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOutEvents {
    pub count: u64,
    pub level: Level,
    /// The message of the first of them.
    pub message: String,
}

struct RepeatWindow {
    end: Instant,
    logged: u32,
    left_out: LeftOutEvents,
}

/// The windows of all places `P`.
pub struct RepeatLimit<P> {
    windows: HashMap<P, RepeatWindow>,
    /// Windows in which events were left out.
    overfull: usize,
}

impl<P> Default for RepeatLimit<P> {
    fn default() -> Self {
        RepeatLimit { windows: HashMap::new(), overfull: 0 }
    }
}

impl<P: Hash + Eq + Clone> RepeatLimit<P> {
    /// Counts an event.
    pub fn count(&mut self, place: &P, level: Level, now: Instant) -> RepeatVerdict {
        let end = now + LOG_REPEAT_WINDOW;
        let fresh =
            || RepeatWindow { end, logged: 0, left_out: LeftOutEvents { count: 0, level, message: String::new() } };
        let window = self.windows.entry(place.clone()).or_insert_with(fresh);
        if now >= window.end && window.left_out.count == 0 {
            (window.end, window.logged) = (end, 0);
        }
        if window.logged < LOG_REPEATS_MAX {
            window.logged += 1;
            return RepeatVerdict::Log;
        }
        window.left_out.count += 1;
        let is_first = window.left_out.count == 1;
        self.overfull += usize::from(is_first);
        RepeatVerdict::LeaveOut { is_first }
    }

    /// Keeps the message of the first event that was left out.
    pub fn keep_message(&mut self, place: &P, message: String) {
        if let Some(window) = self.windows.get_mut(place) {
            window.left_out.message = message;
        }
    }

    /// When [`take_ended`](Self::take_ended) has something to say next.
    pub fn next_end(&self) -> Option<Instant> {
        if self.overfull == 0 {
            return None;
        }
        self.windows.values().filter(|window| window.left_out.count > 0).map(|window| window.end).min()
    }

    /// What was left out in windows that have ended; `all`: in the others as well. They begin anew.
    pub fn take_ended(&mut self, all: bool, now: Instant) -> Vec<LeftOutEvents> {
        if self.overfull == 0 {
            return Vec::new();
        }
        let is_due = |window: &&mut RepeatWindow| window.left_out.count > 0 && (all || now >= window.end);
        let mut taken = Vec::new();
        for window in self.windows.values_mut().filter(is_due) {
            let level = window.left_out.level;
            let fresh = LeftOutEvents { count: 0, level, message: String::new() };
            taken.push(std::mem::replace(&mut window.left_out, fresh));
            (window.end, window.logged) = (now + LOG_REPEAT_WINDOW, 0);
            self.overfull -= 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::{LeftOutEvents, RepeatLimit, RepeatVerdict};
    use crate::limits::{LOG_REPEAT_WINDOW, LOG_REPEATS_MAX};
    use std::time::Instant;
    use tracing::Level;

    #[test]
    fn a_flood_of_one_place_is_counted_and_other_places_are_heard() {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
        let now = Instant::now();
        let mut limit = RepeatLimit::<u8>::default();
        let mut logged = 0;
        for _ in 0..5_000 {
            match limit.count(&1, Level::INFO, now) {
                RepeatVerdict::Log => logged += 1,
                RepeatVerdict::LeaveOut { is_first: true } => limit.keep_message(&1, "refused".to_owned()),
                RepeatVerdict::LeaveOut { is_first: false } => {}
            }
        }
        assert_eq!(logged, LOG_REPEATS_MAX);
        assert_eq!(limit.count(&2, Level::WARN, now), RepeatVerdict::Log);
        let end = now + LOG_REPEAT_WINDOW;
        assert_eq!((limit.next_end(), limit.take_ended(false, now)), (Some(end), vec![]));
        let count = 5_000 - u64::from(LOG_REPEATS_MAX);
        let expected = LeftOutEvents { count, level: Level::INFO, message: "refused".to_owned() };
        assert_eq!(limit.take_ended(false, end), [expected]);
        assert_eq!((limit.next_end(), limit.take_ended(true, end)), (None, vec![]));
        assert_eq!(limit.count(&1, Level::INFO, end), RepeatVerdict::Log, "a new window");
    }

    #[test]
    fn a_place_that_logs_now_and_then_is_never_silenced() {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
        let mut now = Instant::now();
        let mut limit = RepeatLimit::<u8>::default();
        for _ in 0..3 * LOG_REPEATS_MAX {
            assert_eq!(limit.count(&1, Level::INFO, now), RepeatVerdict::Log);
            now += 2 * LOG_REPEAT_WINDOW / LOG_REPEATS_MAX;
        }
    }
}
