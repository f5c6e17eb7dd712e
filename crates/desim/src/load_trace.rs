//! Samples of the loads of brokers and links over time, a bounded number at regular intervals however long a run lasts.
//!
//! Of a level with too many brokers only an evenly spaced selection is traced.

use crate::limits::{PLOTTED_BROKERS_MAX, SAMPLE_INTERVAL_NS_FIRST, SAMPLES_MAX, TRACED_BROKERS_MAX};
use crate::tree_topology::TreeTopology;

/// Cumulative counters of a broker at the time of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BrokerCounters {
    pub busy_ns: u64,
    pub link_ns: u64,
    /// Messages sent to it.
    pub carried: u64,
    /// Messages in its longest queue.
    pub queued: u64,
    pub unread: u64,
    pub is_up: bool,
}

/// The load of a broker in one sample interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BrokerLoad {
    /// Share of the time in which its busiest thread works.
    pub processor: f64,
    /// Share of the time in which its link sends.
    pub link: f64,
    /// Messages a second that are sent to it.
    pub taken_per_s: f64,
    /// Messages in its longest queue, at the end of the interval.
    pub queued: f64,
    /// Messages that have arrived and are not read, at the end of the interval.
    pub unread: f64,
    /// 1 if it is up, else 0.
    pub is_up: f64,
}

/// Minimum, median and maximum of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        match values[..] {
            [] => Self::default(),
            [least, ..] => {
                Self { min: least, median: values[values.len() / 2], max: values.last().copied().unwrap_or(least) }
            }
        }
    }
}

/// The time between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleInterval {
    pub from_ns: u64,
    pub to_ns: u64,
}

/// The samples of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadTrace {
    brokers: Vec<u32>,
    levels: Vec<std::ops::Range<usize>>,
    interval_ns: u64,
    samples: Vec<Vec<BrokerCounters>>,
}

impl LoadTrace {
    pub(crate) fn new(topology: &TreeTopology) -> Self {
        let (mut brokers, mut levels) = (Vec::new(), Vec::new());
        let quota = TRACED_BROKERS_MAX / topology.levels().max(1) as usize;
        let mut all = (0..topology.brokers()).peekable();
        for level in 0..topology.levels() {
            let mut own = Vec::new();
            while let Some(broker) = all.next_if(|&broker| topology.level_of(broker) == level) {
                own.push(broker);
            }
            let from = brokers.len();
            let kept = own.len().min(quota.max(1));
            brokers.extend((0..kept).map(|place| own[place * own.len() / kept]));
            levels.push(from..brokers.len());
        }
        Self { brokers, levels, interval_ns: SAMPLE_INTERVAL_NS_FIRST, samples: Vec::new() }
    }

    /// Numbers of the traced brokers.
    pub fn brokers(&self) -> &[u32] {
        &self.brokers
    }

    /// Whether the tree is small enough to plot each broker.
    pub fn is_small(&self) -> bool {
        self.brokers.len() <= PLOTTED_BROKERS_MAX
    }

    /// When the next sample is due. The sample at time 0 is implicit.
    pub(crate) fn next_sample_ns(&self) -> u64 {
        self.interval_ns * (self.samples.len() as u64 + 1)
    }

    pub(crate) fn push(&mut self, picture: Vec<BrokerCounters>) {
        self.samples.push(picture);
        if self.samples.len() == SAMPLES_MAX {
            let mut is_second = true;
            self.samples.retain(|_| {
                is_second = !is_second;
                is_second
            });
            self.interval_ns *= 2;
        }
    }

    /// The intervals between samples.
    pub fn intervals(&self) -> impl Iterator<Item = SampleInterval> + '_ {
        let every_ns = self.interval_ns;
        (0..self.samples.len() as u64)
            .map(move |at| SampleInterval { from_ns: at * every_ns, to_ns: (at + 1) * every_ns })
    }

    /// The load of a broker, by its index in [`brokers`](Self::brokers), in an interval.
    pub fn load(&self, frame: usize, place: usize) -> BrokerLoad {
        let to = self.samples[frame][place];
        let from = frame.checked_sub(1).map_or_else(BrokerCounters::default, |before| self.samples[before][place]);
        let share = |from: u64, to: u64| to.saturating_sub(from) as f64 / self.interval_ns as f64;
        BrokerLoad {
            processor: share(from.busy_ns, to.busy_ns).min(1.0),
            link: share(from.link_ns, to.link_ns).min(1.0),
            taken_per_s: share(from.carried, to.carried) * 1e9,
            queued: to.queued as f64,
            unread: to.unread as f64,
            is_up: f64::from(u8::from(to.is_up)),
        }
    }

    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The indexes of a level's brokers in [`brokers`](Self::brokers).
    pub fn indexes_of(&self, level: usize) -> std::ops::Range<usize> {
        self.levels[level].clone()
    }

    /// The spread of one value over the brokers of a level, in an interval.
    pub fn level(&self, frame: usize, level: usize, value: impl Fn(&BrokerLoad) -> f64) -> Spread {
        Spread::of(self.levels[level].clone().map(|place| value(&self.load(frame, place))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree_topology::ServiceTimes;

    #[test]
    fn a_trace_has_a_bounded_number_of_samples_however_long_it_lasts() {
        let tree = "B-4B-8C".parse().expect("a tree");
        let topology = TreeTopology::from_tree(&tree, |_, _| ServiceTimes::default()).expect("a topology");
        let mut trace = LoadTrace::new(&topology);
        for _ in 0..1_000 {
            let at_ns = trace.next_sample_ns();
            // The third broker is busy half of the time.
            let tally =
                |place| BrokerCounters { busy_ns: if place == 2 { at_ns / 2 } else { 0 }, ..BrokerCounters::default() };
            trace.push((0..5).map(tally).collect());
        }
        let frames: Vec<SampleInterval> = trace.intervals().collect();
        assert!(frames.len() < SAMPLES_MAX && frames.len() >= SAMPLES_MAX / 2, "{}", frames.len());
        assert!(frames.windows(2).all(|two| two[0].to_ns == two[1].from_ns));
        for frame in 0..frames.len() {
            assert_eq!(trace.load(frame, 2).processor, 0.5);
            let spread = trace.level(frame, 1, |load| load.processor);
            assert_eq!((spread.min, spread.median, spread.max), (0.0, 0.0, 0.5));
        }
    }

    #[test]
    fn a_large_level_is_thinned_out_evenly() {
        let tree = "B-20000B-20000C".parse().expect("a tree");
        let trace =
            LoadTrace::new(&TreeTopology::from_tree(&tree, |_, _| ServiceTimes::default()).expect("a topology"));
        assert!(trace.brokers().len() <= TRACED_BROKERS_MAX && !trace.is_small());
        assert!(trace.brokers().windows(2).all(|two| two[0] < two[1]));
    }
}
