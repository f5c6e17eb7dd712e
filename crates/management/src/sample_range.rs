//! Ranges of samples: how far back a client wants to see each kind of number, and in which steps.
//!
//! Enters: `lengths_age`, `lengths_incr` and their kin, in seconds.  Leaves: ranges of a bounded number of samples.

use crate::api_error::ApiError;
use crate::limits::SAMPLES_MAX;
use crate::query::Query;

/// Which of the ranges a number belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleKind {
    /// Messages that wait.
    Lengths,
    /// What happened to messages.
    MessageRates,
    /// Bytes of connections.
    DataRates,
    /// What the node has, and what came and went.
    NodeStatistics,
}

impl SampleKind {
    pub const ALL: [Self; 4] = [Self::Lengths, Self::MessageRates, Self::DataRates, Self::NodeStatistics];

    /// What the parameters begin with.
    const fn name(self) -> &'static str {
        match self {
            Self::Lengths => "lengths",
            Self::MessageRates => "msg_rates",
            Self::DataRates => "data_rates",
            Self::NodeStatistics => "node_stats",
        }
    }
}

/// A range: so many milliseconds back, one sample each so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRange {
    pub age_ms: u64,
    pub step_ms: u64,
}

/// The ranges of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRanges([Option<SampleRange>; 4]);

impl SampleRanges {
    /// Reads the parameters. A range has an age and a step; one of them alone asks for nothing, as in RabbitMQ.
    ///
    /// # Errors
    /// One is no whole number of at least 1, or there would be too many samples.
    pub fn of(query: &Query) -> Result<Self, ApiError> {
        let mut ranges = Self::default();
        for (range, kind) in ranges.0.iter_mut().zip(SampleKind::ALL) {
            let (age, step) = (format!("{}_age", kind.name()), format!("{}_incr", kind.name()));
            if let (Some(age_s), Some(step_s)) = (query.count(&age)?, query.count(&step)?) {
                if age_s / step_s >= SAMPLES_MAX {
                    let reason = format!("{age}={age_s} in steps of {step_s}: {SAMPLES_MAX} samples are the most");
                    return Err(ApiError::bad_request(reason));
                }
                let ms = |seconds: usize| (seconds as u64).saturating_mul(1_000);
                *range = Some(SampleRange { age_ms: ms(age_s), step_ms: ms(step_s) });
            }
        }
        Ok(ranges)
    }

    pub fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Samples of a number of each kind for which there is a range, added up.
    pub fn samples(&self) -> u64 {
        self.0.iter().flatten().map(|range| range.age_ms / range.step_ms + 1).sum()
    }

    /// The range of a kind of numbers.
    pub fn get(&self, kind: SampleKind) -> Option<SampleRange> {
        let at = SampleKind::ALL.iter().position(|known| *known == kind)?;
        self.0[at]
    }
}

#[cfg(test)]
mod tests {
    use super::{SampleKind, SampleRange, SampleRanges};
    use crate::query::Query;

    #[test]
    fn a_range_has_two_whole_numbers_and_not_too_many_samples() {
        let read = |text: &str| SampleRanges::of(&Query::parse(text).expect(text)).map_err(|error| error.reason);
        let range = |age_s: u64, step_s: u64| Some(SampleRange { age_ms: age_s * 1_000, step_ms: step_s * 1_000 });
        let found =
            read("lengths_age=60&lengths_incr=5&data_rates_age=86400&data_rates_incr=1800").expect("two ranges");
        assert_eq!((found.samples(), SampleRanges::default().samples()), (13 + 49, 0));
        let kinds = SampleKind::ALL.map(|kind| found.get(kind));
        assert_eq!(kinds, [range(60, 5), None, range(86_400, 1_800), None]);
        for text in ["", "lengths_age=60", "node_stats_incr=5", "msg_rates_age=&msg_rates_incr=", "other_age=x"] {
            assert!(read(text).expect(text).is_none(), "{text}");
        }
        assert!(read("msg_rates_age=999&msg_rates_incr=1").is_ok_and(|ranges| !ranges.is_none()));
        for text in [
            "lengths_age=x&lengths_incr=5",
            "lengths_age=60&lengths_incr=x",
            "lengths_age=60&lengths_incr=0",
            "lengths_age=-1&lengths_incr=5",
            "lengths_age=1.5&lengths_incr=5",
            "node_stats_incr=0",
            "msg_rates_age=1000&msg_rates_incr=1",
            "msg_rates_age=99999999999999999999&msg_rates_incr=1",
        ] {
            let reason = read(text).expect_err(text);
            assert!(reason.contains("_age") || reason.contains("_incr"), "{reason}");
        }
    }
}
