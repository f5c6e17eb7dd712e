//! The log lines that wait to be written. Whoever logs never waits: a line without space is dropped and counted.

use crate::limits::{LOG_BYTES_MAX, LOG_LINE_OVERHEAD_BYTES};
use crate::repeat_limit::{LeftOutEvents, RepeatLimit, RepeatVerdict};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use tracing::Level;

/// What the log's thread has to write.
#[derive(PartialEq, Eq, Debug)]
pub enum LogEntry {
    /// A line, with its end.
    Line(Box<str>),
    /// So many lines were dropped here.
    Dropped(u64),
    /// Events of one place were left out.
    LeftOut(LeftOutEvents),
}

struct LogState<P> {
    entries: VecDeque<LogEntry>,
    bytes: usize,
    repeats: RepeatLimit<P>,
    /// The log's thread writes an entry.
    is_writing: bool,
    /// Somebody waits until everything is written.
    flushing: usize,
}

/// The lines that wait, and the counts of those that do not, by the place `P` of the program that logs them.
pub struct LogQueue<P> {
    state: Mutex<LogState<P>>,
    /// There is something to write.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
}

impl<P> Default for LogQueue<P> {
    fn default() -> Self {
        let state = LogState {
            entries: VecDeque::new(),
            bytes: 0,
            repeats: RepeatLimit::default(),
            is_writing: false,
            flushing: 0,
        };
        LogQueue { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new() }
    }
}

impl<P: Hash + Eq + Clone> LogQueue<P> {
    /// Adds a line, or counts it as dropped.
    pub fn push(&self, line: &str) {
        self.locked().push(line);
        self.filled.notify_one();
    }

    /// Counts an event of a place of the program. Returns whether it is logged; `message` is asked for the first that is not.
    pub fn admits(&self, place: &P, level: Level, now: Instant, message: impl FnOnce() -> String) -> bool {
        let mut state = self.locked();
        match state.repeats.count(place, level, now) {
            RepeatVerdict::Log => true,
            RepeatVerdict::LeaveOut { is_first: false } => false,
            RepeatVerdict::LeaveOut { is_first: true } => {
                state.repeats.keep_message(place, message());
                // The log's thread must wake at the end of the window.
                self.filled.notify_one();
                false
            }
        }
    }

    /// For the log's thread: waits for the next entry. The one before is written.
    pub fn next(&self, clock: impl Fn() -> Instant) -> LogEntry {
        let mut state = self.locked();
        state.is_writing = false;
        loop {
            if let Some(entry) = state.pop() {
                state.is_writing = true;
                return entry;
            }
            let now = clock();
            let all = state.flushing > 0;
            let left_out = state.repeats.take_ended(all, now);
            if !left_out.is_empty() {
                state.entries.extend(left_out.into_iter().map(LogEntry::LeftOut));
                continue;
            }
            self.emptied.notify_all();
            let wait = state.repeats.next_end().map(|end| end.saturating_duration_since(now));
            state = match wait {
                Some(wait) => self.filled.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => self.filled.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Waits until everything is written, but not for longer than `timeout`. Returns whether it is.
    pub fn flush(&self, timeout: Duration, clock: impl Fn() -> Instant) -> bool {
        let deadline = clock() + timeout;
        let mut state = self.locked();
        state.flushing += 1;
        self.filled.notify_one();
        while !state.is_empty() {
            let left = deadline.saturating_duration_since(clock());
            if left.is_zero() {
                break;
            }
            state = self.emptied.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.flushing -= 1;
        state.is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, LogState<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Hash + Eq + Clone> LogState<P> {
    fn push(&mut self, line: &str) {
        let cost = line.len() + LOG_LINE_OVERHEAD_BYTES;
        if self.bytes + cost > LOG_BYTES_MAX {
            return self.count_dropped();
        }
        self.bytes += cost;
        self.entries.push_back(LogEntry::Line(line.into()));
    }

    fn count_dropped(&mut self) {
        match self.entries.back_mut() {
            Some(LogEntry::Dropped(count)) => *count += 1,
            _ => self.entries.push_back(LogEntry::Dropped(1)),
        }
    }

    fn pop(&mut self) -> Option<LogEntry> {
        let entry = self.entries.pop_front()?;
        if let LogEntry::Line(line) = &entry {
            self.bytes -= line.len() + LOG_LINE_OVERHEAD_BYTES;
        }
        Some(entry)
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.is_writing && self.repeats.next_end().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{LogEntry, LogQueue};
    use crate::limits::{LOG_BYTES_MAX, LOG_LINE_OVERHEAD_BYTES};
    use std::time::{Duration, Instant};

    #[expect(clippy::disallowed_methods, reason = "the clock of the log")]
    fn clock() -> Instant {
        Instant::now()
    }

    #[test]
    fn lines_without_space_are_counted_where_they_are_missing() {
        let queue = LogQueue::<u8>::default();
        let line = "x".repeat(1_000);
        let fit = LOG_BYTES_MAX / (line.len() + LOG_LINE_OVERHEAD_BYTES);
        (0..fit + 7).for_each(|_| queue.push(&line));
        assert!(!queue.flush(Duration::ZERO, clock), "nobody writes");
        for _ in 0..2 {
            assert_eq!(queue.next(clock), LogEntry::Line(line.as_str().into()));
        }
        queue.push("behind the gap");
        queue.push(&"y".repeat(LOG_BYTES_MAX));
        for _ in 2..fit {
            assert_eq!(queue.next(clock), LogEntry::Line(line.as_str().into()));
        }
        assert_eq!(queue.next(clock), LogEntry::Dropped(7));
        assert_eq!(queue.next(clock), LogEntry::Line("behind the gap".into()));
        assert_eq!(queue.next(clock), LogEntry::Dropped(1));
    }

    #[test]
    fn a_flush_ends_when_the_last_line_is_written() {
        let queue = LogQueue::<u8>::default();
        (0..100).for_each(|number| queue.push(&number.to_string()));
        let written = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (queue, written) = (&queue, &written);
            scope.spawn(move || {
                while queue.next(clock) != LogEntry::Line("end".into()) {
                    written.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
            assert!(queue.flush(Duration::from_secs(30), clock));
            assert_eq!(written.load(std::sync::atomic::Ordering::Relaxed), 100);
            queue.push("end");
        });
    }
}
