//! Sampling of where a shard's time goes: some turns, and some sends outside of turns, are timed, and stand for the others.

use crate::limits::WORK_SAMPLE_INTERVAL;
use std::time::{Duration, Instant};

/// Decides what is timed. Reading the clock twice for each would cost more than small messages do.
pub(crate) struct WorkSampler {
    clock: fn() -> Instant,
    /// Turns and sends until the next one that is timed.
    remaining: u32,
    turn: Turn,
}

/// The turn of a connection.
enum Turn {
    /// Nobody has one.
    Outside,
    Untimed,
    Timed {
        began: Instant,
        /// What sending to connections has taken of it: that is theirs.
        sent: Duration,
    },
}

impl WorkSampler {
    pub fn new(clock: fn() -> Instant) -> Self {
        WorkSampler { clock, remaining: WORK_SAMPLE_INTERVAL, turn: Turn::Outside }
    }

    /// A connection begins a turn.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.turn = match self.is_next() {
            true => Turn::Timed { began: (self.clock)(), sent: Duration::ZERO },
            false => Turn::Untimed,
        };
    }

    /// Its turn is over. Returns what this one adds to the connection's work.
    #[inline]
    pub fn end_turn(&mut self) -> Option<Duration> {
        match std::mem::replace(&mut self.turn, Turn::Outside) {
            Turn::Timed { began, sent } => Some(self.since(began).saturating_sub(sent) * WORK_SAMPLE_INTERVAL),
            Turn::Outside | Turn::Untimed => None,
        }
    }

    /// A connection is sent its output. In a turn that is timed all of them are timed, in another none.
    #[inline]
    pub fn begin_send(&mut self) -> Option<Instant> {
        let is_timed = match self.turn {
            Turn::Timed { .. } => true,
            Turn::Untimed => false,
            Turn::Outside => self.is_next(),
        };
        is_timed.then(self.clock)
    }

    /// It was sent. Returns what this adds to the connection's work.
    pub fn end_send(&mut self, began: Instant) -> Duration {
        let took = self.since(began);
        if let Turn::Timed { sent, .. } = &mut self.turn {
            *sent += took;
        }
        took * WORK_SAMPLE_INTERVAL
    }

    #[inline]
    fn is_next(&mut self) -> bool {
        self.remaining -= 1;
        if self.remaining == 0 {
            self.remaining = WORK_SAMPLE_INTERVAL;
            return true;
        }
        false
    }

    fn since(&self, began: Instant) -> Duration {
        (self.clock)().saturating_duration_since(began)
    }
}

#[cfg(test)]
mod tests {
    use super::WorkSampler;
    use crate::limits::WORK_SAMPLE_INTERVAL;
    use crate::test_clock::some_instant;
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static NOW: Cell<Instant> = Cell::new(some_instant());
    }

    fn pass(millis: u64) {
        NOW.set(NOW.get() + Duration::from_millis(millis));
    }

    #[test]
    fn what_is_timed_stands_for_what_is_not() {
        let mut sampler = WorkSampler::new(|| NOW.get());
        let (mut turns, mut sends) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..WORK_SAMPLE_INTERVAL {
            sampler.begin_turn();
            pass(3);
            for _ in 0..2 {
                let began = sampler.begin_send();
                pass(5);
                sends += began.map_or(Duration::ZERO, |began| sampler.end_send(began));
            }
            turns += sampler.end_turn().unwrap_or_default();
        }
        let all = Duration::from_millis(u64::from(WORK_SAMPLE_INTERVAL));
        assert_eq!((turns, sends), (all * 3, all * 10), "one turn was timed, and both sends in it");
        for _ in 0..WORK_SAMPLE_INTERVAL {
            let began = sampler.begin_send();
            pass(1);
            sends += began.map_or(Duration::ZERO, |began| sampler.end_send(began));
        }
        assert_eq!(sends, all * 11, "outside of turns one send of so many");
        assert!(sampler.end_turn().is_none(), "there is no turn");
    }
}
