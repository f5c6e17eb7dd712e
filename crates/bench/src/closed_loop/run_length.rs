//! Chooses the number of messages per run, by a short trial per target; all runs and targets then use the same number.
//!
//! A fast target needs many messages for a stable figure, and a slow one can only finish a few in time.

use harness::limits::SEGMENT_MESSAGES_MAX;
use harness::role_protocol::{LoadSegment, MessageCounts, TrafficShape};
use load::scenario::RunningScenario;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLength {
    /// The number of messages, if given.
    pub iterations: Option<u64>,
    /// Otherwise the approximate seconds.
    pub seconds: f64,
}

impl RunLength {
    /// Determines the number of messages for these running scenarios, and warms them up.
    pub fn counts(
        self,
        all: &mut [(String, RunningScenario)],
        shape: TrafficShape,
        size_bytes: usize,
    ) -> Result<MessageCounts, String> {
        if let Some(iterations) = self.iterations {
            return Ok(MessageCounts::with_tenth(iterations));
        }
        let mut rates_per_s = Vec::with_capacity(all.len());
        for (name, running) in all {
            let rate = trial(running, self.seconds, shape, size_bytes).map_err(|why| format!("{name}: {why}"))?;
            rates_per_s.push(rate);
        }
        Ok(MessageCounts::with_tenth(count(&rates_per_s, self.seconds)))
    }
}

/// The slowest target takes `seconds`. If the fastest would then take less than an eighth of that, the slowest takes longer, up
/// to four times as long.
fn count(rates_per_s: &[f64], seconds: f64) -> u64 {
    let slowest = rates_per_s.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = rates_per_s.iter().copied().fold(0.0, f64::max);
    if !slowest.is_finite() {
        return 1;
    }
    let wanted = (fastest * seconds / 8.0).clamp(slowest * seconds, slowest * seconds * 4.0);
    round((wanted as u64).clamp(1, SEGMENT_MESSAGES_MAX))
}

/// Two significant digits are enough, and easier to read.
fn round(count: u64) -> u64 {
    let step = 10_u64.pow(count.max(1).ilog10().saturating_sub(1));
    (count / step * step).max(1)
}

/// Messages per second, measured with runs that grow until they are long enough.
fn trial(running: &mut RunningScenario, seconds: f64, shape: TrafficShape, size_bytes: usize) -> Result<f64, String> {
    let long_enough_s = seconds / 8.0;
    let mut count = match shape {
        TrafficShape::Stream => (1 << 20) / size_bytes.max(1 << 10) as u64,
        TrafficShape::PingPong => 20,
    };
    loop {
        let figures = running.segment(&LoadSegment { shape, size_bytes, count })?;
        let rate = count as f64 / figures.elapsed_s;
        if figures.elapsed_s >= long_enough_s || count >= SEGMENT_MESSAGES_MAX {
            return Ok(rate);
        }
        let wanted = (rate * long_enough_s * 1.2) as u64;
        count = wanted.clamp(count * 2, count * 20).min(SEGMENT_MESSAGES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::{count, round};

    #[test]
    fn the_slowest_decides_and_the_fastest_is_not_forgotten() {
        assert_eq!(count(&[1_000.0], 2.0), 2_000);
        assert_eq!(count(&[1_000.0, 2_000.0], 1.0), 1_000);
        assert_eq!(count(&[1_000.0, 16_000.0], 1.0), 2_000);
        assert_eq!(count(&[1_000.0, 1_000_000.0], 1.0), 4_000);
        assert_eq!(count(&[0.1], 1.0), 1);
        assert_eq!(count(&[], 1.0), 1);
    }

    #[test]
    fn counts_are_round() {
        assert_eq!([0, 7, 42, 987, 12_345].map(round), [1, 7, 42, 980, 12_000]);
    }
}
