//! Latencies of messages: from publication to each consumer, and to the last one.
//!
//! Every message of a short stream is timed, every n-th of a long one; redeliveries are not counted.

use crate::histogram::Histogram;
use crate::limits::TIMED_MESSAGES_MAX;
use crate::sequence_ranges::SequenceRange;

/// A group of consumers counts as this many parts, whose times differ by their positions.
const PARTS_OF_A_GROUP: u64 = 4;

pub(crate) struct LatencyTracker {
    stride: u32,
    published_ns: Vec<u64>,
    last_ns: Vec<u64>,
    arrivals: Vec<u32>,
    pub delivery: Histogram,
}

/// When the messages of a range arrive: the first one, and the interval from one to the next, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct BatchArrival {
    pub first_ns: f64,
    pub each_ns: f64,
    /// From the first consumer of the group to the last.
    pub spread_ns: f64,
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

    /// The timed messages of a range: their indexes here and within the range.
    fn timed_messages(&self, range: SequenceRange) -> impl Iterator<Item = (usize, u32)> + use<> {
        let stride = self.stride;
        let first = range.first.div_ceil(stride);
        (first..range.end().div_ceil(stride)).map(move |place| (place as usize, place * stride - range.first))
    }

    pub fn on_published(&mut self, range: SequenceRange, at_ns: u64) {
        for (place, _) in self.timed_messages(range) {
            self.published_ns[place] = at_ns;
        }
    }

    pub fn on_arrived(&mut self, range: SequenceRange, arrival: BatchArrival) {
        let parts = u64::from(arrival.copies).clamp(1, PARTS_OF_A_GROUP);
        for (place, behind) in self.timed_messages(range) {
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

    /// Times until the last consumer has a message, for messages that every consumer has.
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
        let range = |first, count| SequenceRange { first, count, is_redelivered: false };
        watch.on_published(range(0, 10), 100);
        let arrival = |copies| BatchArrival { first_ns: 120.0, each_ns: 0.0, spread_ns: 0.0, copies };
        for part in [range(0, 1), range(1, 5), range(6, 4)] {
            watch.on_arrived(part, arrival(2));
        }
        // 0, 3, 6 and 9, of two consumers each.
        assert_eq!((watch.delivery.count(), watch.last_delivery(2).count(), watch.last_delivery(3).count()), (8, 4, 0));
        assert_eq!(
            (watch.last_delivery(2).quantile_ns(0.0), watch.last_delivery(2).quantile_ns(1.0)),
            (Some(20), Some(20))
        );
    }
}
