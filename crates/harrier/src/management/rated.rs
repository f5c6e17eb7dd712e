//! Counts with their rates: what a reader knew at the last two rounds.

use broker::{ChannelStats, ExchangeStats, QueueReport};
use management::{ExchangeCounts, MessageCounts, RatedCount, WaitingMessages};
use queues::QueueStats;

/// The round in which a shard tells what has changed, about once a second.
#[derive(Clone, Copy, Default, Debug)]
pub struct Round {
    pub number: u64,
    /// Since it told in the round before; 0 in the first one.
    pub seconds: f64,
}

/// Counts of one object at the last round in which they have changed, and before.
#[derive(Clone, Copy, Default)]
pub struct Rated<T> {
    now: T,
    before: T,
    changed_in: Round,
}

impl<T: Copy> Rated<T> {
    /// An object of which nothing was known: what it has counted so far has no rate.
    pub fn begin(stats: T) -> Self {
        Rated { now: stats, before: stats, changed_in: Round::default() }
    }

    /// An object that was not there in the round before: all that it has counted is of this one.
    pub fn appeared(stats: T, round: Round) -> Self
    where
        T: Default,
    {
        let mut rated = Rated::begin(T::default());
        rated.update(stats, round);
        rated
    }

    /// The object has changed. It may be told of several times in one round.
    pub fn update(&mut self, stats: T, round: Round) {
        if self.changed_in.number != round.number {
            self.before = self.now;
            self.changed_in = round;
        }
        self.now = stats;
    }

    pub fn now(&self) -> &T {
        &self.now
    }

    /// One of the counts, with its rate in this round.
    pub fn count(&self, round: u64, of: impl Fn(&T) -> u64) -> RatedCount {
        let total = of(&self.now);
        let change = total.saturating_sub(of(&self.before));
        RatedCount { total, rate: self.seconds(round).map_or(0.0, |seconds| change as f64 / seconds) }
    }

    /// Whether it has changed in this round.
    pub fn is_moving(&self, round: u64) -> bool {
        self.changed_in.number == round
    }

    /// The seconds in which it has changed, if it has in this round.
    fn seconds(&self, round: u64) -> Option<f64> {
        let seconds = self.changed_in.seconds;
        (self.is_moving(round) && seconds > 0.0).then_some(seconds)
    }
}

/// Messages that wait in a queue, which become fewer as well.
#[derive(Clone, Copy, Default)]
pub struct WaitingStats {
    ready: u64,
    unacknowledged: u64,
}

impl WaitingStats {
    pub fn of(report: &QueueReport) -> Self {
        WaitingStats { ready: report.ready, unacknowledged: report.unacknowledged }
    }
}

impl Rated<WaitingStats> {
    pub fn waiting(&self, round: u64) -> WaitingMessages {
        let rate = |of: fn(&WaitingStats) -> u64| {
            let change = of(&self.now) as f64 - of(&self.before) as f64;
            self.seconds(round).map_or(0.0, |seconds| change / seconds)
        };
        WaitingMessages {
            ready: self.now.ready,
            ready_rate: rate(|stats| stats.ready),
            unacknowledged: self.now.unacknowledged,
            unacknowledged_rate: rate(|stats| stats.unacknowledged),
        }
    }
}

impl Rated<ChannelStats> {
    pub fn messages(&self, round: u64) -> MessageCounts {
        channel_messages(|of| self.count(round, of))
    }
}

/// What channels count, by a function that has each of the counts with its rate.
pub fn channel_messages(count: impl Fn(fn(&ChannelStats) -> u64) -> RatedCount) -> MessageCounts {
    MessageCounts {
        publish: count(|stats| stats.publish),
        confirm: count(|stats| stats.confirm),
        deliver: count(|stats| stats.deliver),
        deliver_no_ack: count(|stats| stats.deliver_no_ack),
        get: count(|stats| stats.get),
        get_no_ack: count(|stats| stats.get_no_ack),
        get_empty: count(|stats| stats.get_empty),
        redeliver: count(|stats| stats.redeliver),
        ack: count(|stats| stats.ack),
        return_unroutable: count(|stats| stats.return_unroutable),
        drop_unroutable: count(|stats| stats.drop_unroutable),
    }
}

impl Rated<QueueStats> {
    pub fn messages(&self, round: u64) -> MessageCounts {
        let count = |of: fn(&QueueStats) -> u64| self.count(round, of);
        MessageCounts {
            publish: count(|stats| stats.publish),
            deliver: count(|stats| stats.deliver),
            deliver_no_ack: count(|stats| stats.deliver_no_ack),
            get: count(|stats| stats.get),
            get_no_ack: count(|stats| stats.get_no_ack),
            get_empty: count(|stats| stats.get_empty),
            redeliver: count(|stats| stats.redeliver),
            ack: count(|stats| stats.ack),
            ..MessageCounts::default()
        }
    }
}

impl Rated<ExchangeStats> {
    pub fn counts(&self, round: u64) -> ExchangeCounts {
        ExchangeCounts {
            publish_in: self.count(round, |stats| stats.publish_in),
            publish_out: self.count(round, |stats| stats.publish_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rated, Round, WaitingStats};

    #[test]
    fn a_count_that_stands_still_has_no_rate() {
        let round = |number| Round { number, seconds: 2.0 };
        let mut rated = Rated::begin(10u64);
        let told = |rated: &Rated<u64>, number| {
            let count = rated.count(number, |count| *count);
            (count.total, count.rate)
        };
        assert_eq!(told(&rated, 1), (10, 0.0), "what was counted before it was known has no rate");
        rated.update(14, round(1));
        rated.update(16, round(1));
        assert_eq!(told(&rated, 1), (16, 3.0));
        assert_eq!(told(&rated, 2), (16, 0.0));
        rated.update(18, round(2));
        assert_eq!(told(&rated, 2), (18, 1.0));
    }

    #[test]
    fn all_that_a_new_object_has_counted_is_of_the_round_in_which_it_appeared() {
        let mut rated = Rated::appeared(3u64, Round { number: 4, seconds: 2.0 });
        assert_eq!(rated.count(4, |count| *count).rate, 1.5);
        assert_eq!(rated.count(5, |count| *count).rate, 0.0);
        rated.update(4, Round { number: 5, seconds: 1.0 });
        assert_eq!(rated.count(5, |count| *count).rate, 1.0);
        // Before the first round nobody knows how long it took.
        assert_eq!(Rated::appeared(3u64, Round { number: 1, seconds: 0.0 }).count(1, |count| *count).rate, 0.0);
    }

    #[test]
    fn a_queue_that_drains_has_a_negative_rate() {
        let mut rated = Rated::begin(WaitingStats { ready: 10, unacknowledged: 1 });
        let round = Round { number: 1, seconds: 2.0 };
        rated.update(WaitingStats { ready: 4, unacknowledged: 7 }, round);
        let waiting = rated.waiting(1);
        assert_eq!((waiting.ready, waiting.ready_rate), (4, -3.0));
        assert_eq!((waiting.unacknowledged, waiting.unacknowledged_rate), (7, 3.0));
        assert_eq!(rated.waiting(2).ready_rate, 0.0);
    }
}
