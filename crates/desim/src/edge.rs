//! A connection that messages go down: from the publisher, between two brokers, to consumers.
//!
//! Enters: runs to send, what comes back of them.  Leaves: runs as far as there is room on the way.
//! Owns:   the queue at its upper end, what is under way, whether it stands.
//! Never:  knows times.

use crate::run::{Run, Runs};
use crate::seen::Seen;

/// Who is at the lower end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    Broker(u32),
    /// Consumers that do the same, by their account.
    Consumers(u32),
}

/// One connection, or as many as a group has consumers.
#[derive(Debug)]
pub(crate) struct Edge {
    /// The broker at the upper end; `None`: the publisher.
    pub above: Option<u32>,
    pub below: Below,
    /// Consumers of a group; 1 to a broker.
    pub copies: u32,
    /// From the beginning of a batch of one message until its last copy here is made, in nanoseconds of one thread.
    pub copied_ns: f64,
    /// From sending to arriving, beside the link's speed.
    pub delay_ns: u64,
    /// From the first of its consumers to the last, where links have no speed.
    pub spread_ns: f64,
    /// Messages that may be under way.
    pub room: u64,
    /// Whether what is under way is kept until it is confirmed.
    pub keeps: bool,
    /// Waiting at the upper end.
    pub queue: Runs,
    /// Under way, if it is kept.
    pub unsettled: Runs,
    pub under_way: u64,
    /// Sent, and waiting for the link.
    pub outbox: Runs,
    /// Of the connection: what was on its way on an earlier one is gone.
    pub epoch: u32,
    pub is_up: bool,
    /// Whether there is a queue for it at all.
    pub collects: bool,
    /// Its queue is over the limit, and not yet far enough below.
    pub is_full: bool,
    pub carried: u64,
    pub under_way_max: u64,
    pub queue_max: u64,
    /// Messages times nanoseconds.
    waited: f64,
    waited_until_ns: u64,
}

/// Consumers that do the same, or one that is slow.
#[derive(Debug, Default)]
pub(crate) struct Taker {
    pub edge: u32,
    pub consumers: u32,
    pub seen: Seen,
    /// Time that it takes for a message.
    pub take_ns: f64,
    /// What has come, and is not taken.
    pub inbox: Runs,
    pub is_busy: bool,
    /// When it had a quarter of all messages, and how many that were.
    pub quarter: Option<(u64, u64)>,
    pub last_ns: u64,
}

impl Edge {
    pub fn new(above: Option<u32>, below: Below, copies: u32, room: u64, keeps: bool) -> Self {
        Self {
            above,
            below,
            copies,
            copied_ns: 0.0,
            delay_ns: 0,
            spread_ns: 0.0,
            room,
            keeps,
            queue: Runs::default(),
            unsettled: Runs::default(),
            under_way: 0,
            outbox: Runs::default(),
            epoch: 0,
            is_up: true,
            collects: true,
            is_full: false,
            carried: 0,
            under_way_max: 0,
            queue_max: 0,
            waited: 0.0,
            waited_until_ns: 0,
        }
    }

    /// Accounts for the depth of the queue until now; before each change of it.
    pub fn wait_until(&mut self, now_ns: u64) {
        self.waited += self.queue.len() as f64 * (now_ns - self.waited_until_ns) as f64;
        self.waited_until_ns = now_ns;
    }

    /// The mean depth of the queue up to the last account.
    pub fn waited_mean(&self, elapsed_ns: u64) -> f64 {
        self.waited / elapsed_ns.max(1) as f64
    }

    /// Puts a run into the queue.
    pub fn enqueue(&mut self, run: Run, now_ns: u64) {
        self.wait_until(now_ns);
        self.queue.push(run);
        self.queue_max = self.queue_max.max(self.queue.len());
    }

    /// Takes the next run from the queue for which there is room on the way.
    pub fn send(&mut self, now_ns: u64) -> Option<Run> {
        if !self.is_up || self.queue.is_empty() || self.under_way >= self.room {
            return None;
        }
        self.wait_until(now_ns);
        let run = self.queue.take(self.room - self.under_way)?;
        self.under_way += u64::from(run.count);
        assert!(self.under_way <= self.room, "{} messages are under way where {} may be", self.under_way, self.room);
        self.under_way_max = self.under_way_max.max(self.under_way);
        self.carried += u64::from(run.count);
        if self.keeps {
            self.unsettled.push(run);
        }
        Some(run)
    }

    /// So many are no longer under way.
    pub fn settle(&mut self, count: u64) {
        assert!(count <= self.under_way, "{count} messages are settled of {} under way", self.under_way);
        self.under_way -= count;
        if self.keeps {
            self.unsettled.drop_first(count);
        }
    }

    /// The connection breaks: how many messages are lost by that.
    pub fn break_off(&mut self, keeps_queue: bool, now_ns: u64) {
        self.wait_until(now_ns);
        self.epoch += 1;
        self.is_up = false;
        self.outbox.clear();
        let under_way = std::mem::take(&mut self.unsettled);
        self.under_way = 0;
        self.collects = keeps_queue;
        if keeps_queue {
            self.queue.put_back(under_way);
            self.queue_max = self.queue_max.max(self.queue.len());
        } else {
            self.queue.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, count: u32) -> Run {
        Run { first, count, again: false }
    }

    #[test]
    fn no_more_is_under_way_than_there_is_room_for() {
        let mut edge = Edge::new(None, Below::Broker(0), 1, 10, true);
        edge.enqueue(run(0, 25), 0);
        assert_eq!(edge.send(5), Some(run(0, 10)));
        assert_eq!(edge.send(5), None);
        edge.settle(4);
        assert_eq!(edge.send(10), Some(run(10, 4)));
        assert_eq!((edge.under_way, edge.queue.len(), edge.unsettled.len()), (10, 11, 10));
        edge.wait_until(10);
        // 25 for 5 ns, 15 for 5 ns.
        assert!((edge.waited_mean(10) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_kept_comes_again_and_what_is_not_is_gone() {
        for keeps in [true, false] {
            let mut edge = Edge::new(None, Below::Broker(0), 1, 10, keeps);
            edge.enqueue(run(0, 25), 0);
            edge.send(0);
            edge.break_off(keeps, 1);
            assert_eq!((edge.send(1), edge.under_way, edge.epoch), (None, 0, 1));
            assert_eq!(edge.queue.len(), if keeps { 25 } else { 0 });
            edge.is_up = true;
            assert_eq!(edge.send(2), keeps.then_some(Run { again: true, ..run(0, 10) }));
        }
    }
}
