//! Readings of some numbers over time: one each step, so many steps back.
//!
//! Owns: the readings of a ring, the oldest of which makes place for the next.

use std::collections::VecDeque;

/// Readings of an object's numbers, which are always the same and in the same order.
#[derive(Debug)]
pub struct SampleRing {
    step_ms: u64,
    readings_max: usize,
    /// When each was made, in milliseconds since the epoch.
    times: VecDeque<u64>,
    /// Those of a reading one behind the other.
    values: VecDeque<u64>,
}

impl SampleRing {
    /// One whose readings reach so many steps back, wherever in a step they were made.
    pub fn new(step_ms: u64, steps: usize) -> Self {
        Self { step_ms, readings_max: steps + 2, times: VecDeque::new(), values: VecDeque::new() }
    }

    /// How far it reaches back.
    pub fn span_ms(&self) -> u64 {
        self.step_ms * (self.readings_max as u64 - 2)
    }

    /// Takes a reading, if it is the first one of its step.
    pub fn push(&mut self, at_ms: u64, values: &[u64]) {
        if self.times.back().is_some_and(|last| at_ms / self.step_ms <= last / self.step_ms) {
            return;
        }
        if self.times.len() == self.readings_max {
            self.times.pop_front();
            self.values.drain(..values.len());
        }
        self.times.push_back(at_ms);
        self.values.extend(values);
    }

    pub fn times(&self) -> &VecDeque<u64> {
        &self.times
    }

    /// A number of a reading.
    pub fn value(&self, reading: usize, number: usize) -> u64 {
        self.values[reading * (self.values.len() / self.times.len()) + number]
    }
}

#[cfg(test)]
mod tests {
    use super::SampleRing;

    #[test]
    fn a_ring_has_one_reading_a_step_and_so_many_steps() {
        let mut ring = SampleRing::new(5_000, 3);
        assert_eq!(ring.span_ms(), 15_000);
        for second in 1..=40 {
            ring.push(second * 1_000, &[second, second * 2]);
        }
        // A clock that is set back makes no reading.
        ring.push(1_000, &[9, 9]);
        assert_eq!(ring.times(), &[20_000, 25_000, 30_000, 35_000, 40_000]);
        let values: Vec<_> = (0..5).map(|at| (ring.value(at, 0), ring.value(at, 1))).collect();
        assert_eq!(values, [(20, 40), (25, 50), (30, 60), (35, 70), (40, 80)]);
    }
}
