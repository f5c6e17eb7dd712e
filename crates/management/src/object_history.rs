//! The past of one object: its readings in rings of different steps, and samples of them at the times that are asked for.
//!
//! Enters: readings.  Leaves: samples, the newest first. Between two readings a sample lies on the line between them; before the
//!         first one there is none.

use crate::limits::{HISTORY_RINGS, OBJECT_HISTORY_RINGS};
use crate::sample_range::{SampleKind, SampleRange};
use crate::sample_ring::SampleRing;

/// A number of an object as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub kind: SampleKind,
    /// `messages`, of which `messages_details` tells more.
    pub name: &'static str,
    /// In parts of the number.
    pub value: u64,
    /// How many parts make one: 1, but for numbers that are not whole.
    pub parts: u32,
}

/// Samples of one number.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// Value, in parts, and milliseconds since the epoch.
    pub samples: Vec<(u64, u64)>,
    /// How many parts make one.
    pub parts: u32,
    pub average: f64,
    /// By how much it grew a second, from the oldest sample to the newest.
    pub average_rate: f64,
}

/// What is known of the past of an object.
#[derive(Debug)]
pub struct ObjectHistory {
    rings: Vec<SampleRing>,
    now_ms: u64,
    now: Vec<Reading>,
}

impl ObjectHistory {
    /// Of the broker, the node and virtual hosts: a day.
    pub fn long() -> Self {
        Self::with(&HISTORY_RINGS)
    }

    /// Of an object that somebody looks at: the last minutes.
    pub fn short() -> Self {
        Self::with(&HISTORY_RINGS[..OBJECT_HISTORY_RINGS])
    }

    fn with(rings: &[(u64, usize)]) -> Self {
        let rings = rings.iter().map(|(step_s, steps)| SampleRing::new(step_s * 1_000, *steps)).collect();
        Self { rings, now_ms: 0, now: Vec::new() }
    }

    /// Takes what the object's numbers are at a time. They are the same ones each time.
    pub fn update(&mut self, at_ms: u64, readings: Vec<Reading>) {
        let values: Vec<u64> = readings.iter().map(|reading| reading.value).collect();
        self.rings.iter_mut().for_each(|ring| ring.push(at_ms, &values));
        (self.now_ms, self.now) = (at_ms, readings);
    }

    /// The place and the kind of a number.
    pub fn find(&self, name: &str) -> Option<(usize, SampleKind)> {
        let at = self.now.iter().position(|reading| reading.name == name)?;
        Some((at, self.now[at].kind))
    }

    /// Samples of the number at a place: at times that are multiples of the step, up to the last reading.
    pub fn samples(&self, number: usize, range: SampleRange) -> Samples {
        let SampleRange { age_ms, step_ms } = range;
        let Some(ring) = self.rings.iter().find(|ring| ring.span_ms() >= age_ms).or(self.rings.last()) else {
            return Samples { samples: Vec::new(), parts: 1, average: 0.0, average_rate: 0.0 };
        };
        let newest = self.now_ms / step_ms * step_ms;
        let times = (0..=age_ms / step_ms).map_while(|step| newest.checked_sub(step * step_ms));
        let mut samples: Vec<_> = times.map_while(|at_ms| Some((self.value_at(ring, number, at_ms)?, at_ms))).collect();
        if samples.is_empty() {
            // Nothing is known of the last multiple of the step: the object is that new.
            samples.push((self.now[number].value, newest));
        }
        let parts = self.now[number].parts;
        let sum: f64 = samples.iter().map(|(value, _)| *value as f64).sum();
        let average_rate = match (samples.first(), samples.last()) {
            (Some((newest, at)), Some((oldest, since))) if at > since => {
                (*newest as f64 - *oldest as f64) * 1_000.0 / (at - since) as f64
            }
            _ => 0.0,
        };
        let (average, average_rate) = (sum / samples.len() as f64 / f64::from(parts), average_rate / f64::from(parts));
        Samples { samples, parts, average, average_rate }
    }

    /// What the number was at a time. `None`: before the first reading.
    fn value_at(&self, ring: &SampleRing, number: usize, at_ms: u64) -> Option<u64> {
        let times = ring.times();
        let after = times.partition_point(|time| *time <= at_ms);
        let (before_ms, before) = (times[after.checked_sub(1)?], ring.value(after - 1, number));
        let (after_ms, after) = match times.get(after) {
            Some(after_ms) => (*after_ms, ring.value(after, number)),
            None => (self.now_ms, self.now[number].value),
        };
        if after_ms <= before_ms {
            return Some(before);
        }
        let share = (at_ms - before_ms).min(after_ms - before_ms) as f64 / (after_ms - before_ms) as f64;
        Some((before as f64 + (after as f64 - before as f64) * share).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{ObjectHistory, Reading};
    use crate::sample_range::{SampleKind, SampleRange};

    fn reading(value: u64) -> Vec<Reading> {
        vec![Reading { kind: SampleKind::Lengths, name: "messages", value, parts: 1 }]
    }

    fn range(age_s: u64, step_s: u64) -> SampleRange {
        SampleRange { age_ms: age_s * 1_000, step_ms: step_s * 1_000 }
    }

    /// One reading a second, of which each is ten more, but for the seconds in which nobody looked.
    fn history(mut object: ObjectHistory, seconds: impl Iterator<Item = u64>) -> ObjectHistory {
        seconds.for_each(|second| object.update(second * 1_000 + 300, reading(second * 10)));
        object
    }

    #[test]
    fn samples_lie_at_multiples_of_their_step_the_newest_first() {
        let object = history(ObjectHistory::long(), 1..=101);
        assert_eq!(object.find("messages"), Some((0, SampleKind::Lengths)));
        assert_eq!(object.find("messages_ready"), None);
        let found = object.samples(0, range(20, 5));
        let expected = [(997, 100_000), (947, 95_000), (897, 90_000), (847, 85_000), (797, 80_000)];
        assert_eq!((&found.samples[..], found.average, found.average_rate), (&expected[..], 897.0, 10.0));
        // What is finer than the readings lies between them; what is before the first one is left out.
        assert_eq!(object.samples(0, range(3, 1)).samples.len(), 4);
        assert_eq!(object.samples(0, range(600, 5)).samples.len(), 20);
        assert_eq!(object.samples(0, range(600, 5)).samples.last(), Some(&(47, 5_000)));
    }

    #[test]
    fn a_new_object_has_one_sample_and_no_rate() {
        let object = history(ObjectHistory::short(), 1..=1);
        let found = object.samples(0, range(60, 5));
        assert_eq!((&found.samples[..], found.average, found.average_rate), (&[(10, 0)][..], 10.0, 0.0));
    }

    #[test]
    fn a_time_in_which_nobody_looked_is_bridged() {
        let object = history(ObjectHistory::long(), (1..=20).chain(80..=100));
        let samples = object.samples(0, range(90, 10)).samples;
        let at = |second: u64| samples.iter().find(|(_, at_ms)| *at_ms == second * 1_000).expect("it is there").0;
        assert!(at(50).abs_diff(497) <= 1 && at(90).abs_diff(897) <= 1, "{samples:?}");
    }

    #[test]
    fn longer_ranges_come_from_coarser_rings() {
        let object = history(ObjectHistory::long(), 0..=90_000);
        for (age_s, step_s, count) in [(600, 5, 121), (3_600, 60, 61), (28_800, 600, 49), (86_400, 1_800, 49)] {
            let samples = object.samples(0, range(age_s, step_s)).samples;
            assert_eq!(samples.len(), count, "{age_s}");
            // A reading of each step is kept, and they lie on a line.
            let off = samples.iter().map(|(value, at_ms)| value.abs_diff(at_ms.saturating_sub(300) / 100)).max();
            assert!(off <= Some(1), "{age_s}: {off:?}");
        }
        let short = history(ObjectHistory::short(), 0..=4_000);
        assert_eq!(short.samples(0, range(3_600, 60)).samples.len(), 10);
        let readings: usize = object.rings.iter().map(|ring| ring.times().len()).sum();
        assert_eq!(readings, 122 + 62 + 50 + 50);
    }
}
