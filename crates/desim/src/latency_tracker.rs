//! Times of messages on their way: from publication to each consumer, and to the last.
//!
//! Enters: when a message was due, when a consumer has it.  Leaves: two histograms.
//! Owns:   which messages are watched: every one of a short stream, every n-th of a long one.
//! Never:  counts a message that comes again.

use crate::histogram::Histogram;
use crate::limits::TIMED_MESSAGES_MAX;
use crate::sequence_ranges::SequenceRange;

/// Parts of a group of consumers whose times differ by their places.
const PARTS_OF_A_GROUP: u64 = 4;

pub(crate) struct LatencyTracker {
    stride: u32,
    published_ns: Vec<u64>,
    last_ns: Vec<u64>,
    arrivals: Vec<u32>,
    pub delivery: Histogram,
}

/// When the messages of a run arrive: the first of them, and how far one is behind the one before; all in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct BatchArrival {
    pub first_ns: f64,
    pub each_ns: f64,
    /// From the first consumer of the group to the last.
    pub spread_ns: f64,
    /// Consumers of the group.
    pub copies: u32,
}

impl LatencyTracker {
    pub fn new(messages: u32) -> Self {
        let stride = messages.div_ceil(TIMED_MESSAGES_MAX).max(1);
        let watched = messages.div_ceil(stride) as usize;
        Self {
            stride,
            published_ns: vec![0; watched],
            last_ns: vec![0; watched],
            arrivals: vec![0; watched],
            delivery: Histogram::default(),
        }
    }

    /// The watched messages of a run: their places here, and in the run.
    fn timed_messages(&self, run: SequenceRange) -> impl Iterator<Item = (usize, u32)> + use<> {
        let stride = self.stride;
        let first = run.first.div_ceil(stride);
        (first..run.end().div_ceil(stride)).map(move |place| (place as usize, place * stride - run.first))
    }

    pub fn on_published(&mut self, run: SequenceRange, at_ns: u64) {
        for (place, _) in self.timed_messages(run) {
            self.published_ns[place] = at_ns;
        }
    }

    pub fn on_arrived(&mut self, run: SequenceRange, arrival: BatchArrival) {
        let parts = u64::from(arrival.copies).clamp(1, PARTS_OF_A_GROUP);
        for (place, behind) in self.timed_messages(run) {
            let first_ns = arrival.first_ns + f64::from(behind) * arrival.each_ns;
            let last_ns = first_ns + arrival.spread_ns;
            self.last_ns[place] = self.last_ns[place].max(last_ns as u64);
            self.arrivals[place] = self.arrivals[place].saturating_add(arrival.copies);
            let published_ns = self.published_ns[place];
            for part in 0..parts {
                let share = if parts == 1 { 1.0 } else { part as f64 / (parts - 1) as f64 };
                let at_ns = (first_ns + share * arrival.spread_ns) as u64;
                let (copies, rest) = (u64::from(arrival.copies) / parts, u64::from(arrival.copies) % parts);
                self.delivery.add(at_ns.saturating_sub(published_ns), copies + u64::from(part < rest));
            }
        }
    }

    /// Times until the last consumer has a message, of those that every consumer has.
    pub fn last_delivery(&self, consumers: u32) -> Histogram {
        let mut histogram = Histogram::default();
        for place in (0..self.last_ns.len()).filter(|&place| self.arrivals[place] >= consumers) {
            histogram.add(self.last_ns[place].saturating_sub(self.published_ns[place]), 1);
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nth_message_is_watched_wherever_runs_are_cut() {
        let mut watch = LatencyTracker::new(TIMED_MESSAGES_MAX * 3);
        let run = |first, count| SequenceRange { first, count, is_redelivered: false };
        watch.on_published(run(0, 10), 100);
        let arrival = |copies| BatchArrival { first_ns: 120.0, each_ns: 0.0, spread_ns: 0.0, copies };
        for part in [run(0, 1), run(1, 5), run(6, 4)] {
            watch.on_arrived(part, arrival(2));
        }
        // 0, 3, 6 and 9, of two consumers each.
        assert_eq!((watch.delivery.count(), watch.last_delivery(2).count(), watch.last_delivery(3).count()), (8, 4, 0));
        assert_eq!((watch.last_delivery(2).quantile_ns(0.0), watch.last_delivery(2).quantile_ns(1.0)), (Some(20), Some(20)));
    }
}
