//! A connection that carries messages downward: from the publisher, between two brokers, or to consumers.
//!
//! Owns the queue at its upper end, what is in flight, and whether it is up. It knows no times.

use crate::sequence_ranges::{SequenceRange, SequenceRanges};
use crate::sequence_tracker::SequenceTracker;

/// The lower end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeTarget {
    Broker(u32),
    /// An index into the consumer groups.
    Consumers(u32),
}

/// One connection, or as many as a group has consumers.
#[derive(Debug)]
pub(crate) struct Edge {
    /// The broker at the upper end; `None`: the publisher.
    pub above: Option<u32>,
    pub target: EdgeTarget,
    /// Consumers of the group; 1 for a broker.
    pub copies: u32,
    /// From the start of a batch of one message until its last copy for this edge is made, in nanoseconds of one
    /// thread.
    pub copied_ns: f64,
    /// From sending to arrival, apart from the link's speed.
    pub delay_ns: u64,
    /// From the first of its consumers to the last, if links have no speed limit.
    pub spread_ns: f64,
    /// Messages that may be in flight.
    pub window: u64,
    /// Whether messages in flight are retained until they are confirmed.
    pub retains_unconfirmed: bool,
    /// Messages queued at the upper end.
    pub queue: SequenceRanges,
    /// Messages in flight, if they are retained.
    pub unsettled: SequenceRanges,
    pub in_flight: u64,
    /// Messages sent that wait for the link.
    pub outbox: SequenceRanges,
    /// Number of the connection: messages in flight on an earlier one are lost.
    pub epoch: u32,
    pub is_up: bool,
    /// Whether messages for it are queued at all.
    pub has_queue: bool,
    /// The queue has exceeded its limit and is not yet far enough below it.
    pub is_full: bool,
    pub carried: u64,
    pub in_flight_max: u64,
    pub queue_max: u64,
    /// Integral of the queue's depth: messages times nanoseconds.
    queue_area: f64,
    queue_area_until_ns: u64,
}

/// Identical consumers, or a single slow one.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {
    pub edge: u32,
    pub consumers: u32,
    pub received: SequenceTracker,
    /// Service time of a message.
    pub service_ns: f64,
    /// Messages that have arrived and are not consumed.
    pub inbox: SequenceRanges,
    pub is_busy: bool,
    /// When it had a quarter of all messages, and how many those were.
    pub quarter: Option<(u64, u64)>,
    pub last_ns: u64,
}

impl Edge {
    pub fn new(above: Option<u32>, below: EdgeTarget, copies: u32, room: u64, keeps: bool) -> Self {
        Self {
            above,
            target: below,
            copies,
            copied_ns: 0.0,
            delay_ns: 0,
            spread_ns: 0.0,
            window: room,
            retains_unconfirmed: keeps,
            queue: SequenceRanges::default(),
            unsettled: SequenceRanges::default(),
            in_flight: 0,
            outbox: SequenceRanges::default(),
            epoch: 0,
            is_up: true,
            has_queue: true,
            is_full: false,
            carried: 0,
            in_flight_max: 0,
            queue_max: 0,
            queue_area: 0.0,
            queue_area_until_ns: 0,
        }
    }

    /// Adds the current depth of the queue to its integral; call it before each change of the depth.
    pub fn accumulate_queue_area(&mut self, now_ns: u64) {
        self.queue_area += self.queue.len() as f64 * (now_ns - self.queue_area_until_ns) as f64;
        self.queue_area_until_ns = now_ns;
    }

    /// The mean depth of the queue up to the last accumulation.
    pub fn mean_queue_depth(&self, elapsed_ns: u64) -> f64 {
        self.queue_area / elapsed_ns.max(1) as f64
    }

    pub fn enqueue(&mut self, range: SequenceRange, now_ns: u64) {
        self.accumulate_queue_area(now_ns);
        self.queue.push(range);
        self.queue_max = self.queue_max.max(self.queue.len());
    }

    /// Takes the next range from the queue, as far as the window has capacity.
    pub fn send(&mut self, now_ns: u64) -> Option<SequenceRange> {
        if !self.is_up || self.queue.is_empty() || self.in_flight >= self.window {
            return None;
        }
        self.accumulate_queue_area(now_ns);
        let range = self.queue.take(self.window - self.in_flight)?;
        self.in_flight += u64::from(range.count);
        assert!(
            self.in_flight <= self.window,
            "{} messages are under way where {} may be",
            self.in_flight,
            self.window
        );
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
        self.carried += u64::from(range.count);
        if self.retains_unconfirmed {
            self.unsettled.push(range);
        }
        Some(range)
    }

    /// Removes `count` messages from those in flight.
    pub fn settle(&mut self, count: u64) {
        assert!(count <= self.in_flight, "{count} messages are settled of {} under way", self.in_flight);
        self.in_flight -= count;
        if self.retains_unconfirmed {
            self.unsettled.drop_first(count);
        }
    }

    /// Breaks the connection. Unconfirmed messages return to the queue if they are retained, and are lost otherwise.
    pub fn disconnect(&mut self, keeps_queue: bool, now_ns: u64) {
        self.accumulate_queue_area(now_ns);
        self.epoch += 1;
        self.is_up = false;
        self.outbox.clear();
        let in_flight = std::mem::take(&mut self.unsettled);
        self.in_flight = 0;
        self.has_queue = keeps_queue;
        if keeps_queue {
            self.queue.put_back(in_flight);
            self.queue_max = self.queue_max.max(self.queue.len());
        } else {
            self.queue.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, count: u32) -> SequenceRange {
        SequenceRange { first, count, is_redelivered: false }
    }

    #[test]
    fn no_more_is_under_way_than_there_is_room_for() {
        let mut edge = Edge::new(None, EdgeTarget::Broker(0), 1, 10, true);
        edge.enqueue(range(0, 25), 0);
        assert_eq!(edge.send(5), Some(range(0, 10)));
        assert_eq!(edge.send(5), None);
        edge.settle(4);
        assert_eq!(edge.send(10), Some(range(10, 4)));
        assert_eq!((edge.in_flight, edge.queue.len(), edge.unsettled.len()), (10, 11, 10));
        edge.accumulate_queue_area(10);
        // 25 for 5 ns, 15 for 5 ns.
        assert!((edge.mean_queue_depth(10) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_kept_comes_again_and_what_is_not_is_gone() {
        for keeps in [true, false] {
            let mut edge = Edge::new(None, EdgeTarget::Broker(0), 1, 10, keeps);
            edge.enqueue(range(0, 25), 0);
            edge.send(0);
            edge.disconnect(keeps, 1);
            assert_eq!((edge.send(1), edge.in_flight, edge.epoch), (None, 0, 1));
            assert_eq!(edge.queue.len(), if keeps { 25 } else { 0 });
            edge.is_up = true;
            assert_eq!(edge.send(2), keeps.then_some(SequenceRange { is_redelivered: true, ..range(0, 10) }));
        }
    }
}
