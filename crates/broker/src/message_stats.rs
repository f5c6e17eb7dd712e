//! Counts of what happens to messages, each kept by one shard in what it owns. Whoever reads them adds up the shards.

use crate::body_sizes::BodySizeStats;
use crate::delivery_latency::TimeStats;
use catalog::ExchangeId;
use queues::{ChangeList, DeathStats};
use std::ops::AddAssign;

/// What a channel's client has done, and what it was sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ChannelStats {
    /// Messages that arrived with `basic.publish`.
    pub publish: u64,
    /// Publishes that were confirmed, without those that were refused (`basic.nack`).
    pub confirm: u64,
    /// Messages without a queue that were returned, and others.
    pub return_unroutable: u64,
    pub drop_unroutable: u64,
    /// Deliveries to consumers that acknowledge, and to others.
    pub deliver: u64,
    pub deliver_no_ack: u64,
    /// Messages that `basic.get` took to be acknowledged, and others.
    pub get: u64,
    pub get_no_ack: u64,
    pub get_empty: u64,
    /// Of all these deliveries, those with the redelivered flag.
    pub redeliver: u64,
    /// Deliveries that were acknowledged.
    pub ack: u64,
}

/// What has gone through an exchange on one shard: messages published to it, and their copies in queues.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ExchangeStats {
    pub publish_in: u64,
    pub publish_out: u64,
}

/// All that one shard has counted since it started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ShardStats {
    /// Of all channels that its connections ever had.
    pub channels: ChannelStats,
    /// Of the messages published, those on channels with confirms.
    pub publish_confirm: u64,
    /// Of the bodies that its clients published, without duplicates and those that are refused unread.
    pub body_sizes: BodySizeStats,
    /// Of all exchanges.
    pub exchanges: ExchangeStats,
    /// Messages that queues which live here let die, with dead letters and without.
    pub dead_lettered: DeathStats,
    pub dropped_dead: DeathStats,
    /// Of deliveries to its clients, one in about a thousand: from the turn in which the message was published to the one in
    /// which it was delivered first.
    pub delivery_latency: TimeStats,
    pub connections_opened: u64,
    pub connections_closed: u64,
    pub channels_opened: u64,
    pub channels_closed: u64,
    /// Declarations of queues by its clients, new or not; queues that have begun and ended to live here.
    pub queues_declared: u64,
    pub queues_created: u64,
    pub queues_deleted: u64,
}

impl AddAssign for ExchangeStats {
    #[inline]
    fn add_assign(&mut self, other: ExchangeStats) {
        self.publish_in += other.publish_in;
        self.publish_out += other.publish_out;
    }
}

impl AddAssign for ChannelStats {
    fn add_assign(&mut self, other: ChannelStats) {
        let ChannelStats { publish, confirm, return_unroutable, drop_unroutable, deliver, deliver_no_ack, .. } = other;
        let ChannelStats { get, get_no_ack, get_empty, redeliver, ack, .. } = other;
        self.publish += publish;
        self.confirm += confirm;
        self.return_unroutable += return_unroutable;
        self.drop_unroutable += drop_unroutable;
        self.deliver += deliver;
        self.deliver_no_ack += deliver_no_ack;
        self.get += get;
        self.get_no_ack += get_no_ack;
        self.get_empty += get_empty;
        self.redeliver += redeliver;
        self.ack += ack;
    }
}

impl ChannelStats {
    /// The count of messages without a queue that were `mandatory`, or not.
    pub(crate) fn unroutable(&mut self, mandatory: bool) -> &mut u64 {
        if mandatory { &mut self.return_unroutable } else { &mut self.drop_unroutable }
    }

    /// All deliveries, `basic.get` included.
    pub fn delivered(&self) -> u64 {
        self.deliver + self.deliver_no_ack + self.get + self.get_no_ack
    }
}

/// An exchange with its counts.
#[derive(Clone, Copy)]
struct ExchangeCount {
    id: ExchangeId,
    stats: ExchangeStats,
    is_reported: bool,
}

/// The counts of exchanges on this shard, by the index in their ids. One that is deleted keeps its place for its successor.
#[derive(Default)]
pub(crate) struct ExchangeCounts {
    table: Vec<Option<ExchangeCount>>,
    pub all: ExchangeStats,
    pub changes: ChangeList<ExchangeId>,
}

impl ExchangeCounts {
    /// Messages were published to an exchange, and routed to queues.
    pub fn add(&mut self, id: ExchangeId, routed: ExchangeStats) {
        if routed == ExchangeStats::default() {
            return;
        }
        self.all += routed;
        if let Some(Some(count)) = self.table.get_mut(id.index as usize)
            && count.id == id
        {
            count.stats += routed;
            if count.is_reported {
                count.is_reported = false;
                self.changes.note(id);
            }
            return;
        }
        self.begin(id, routed);
    }

    /// The first messages of an exchange.
    #[cold]
    fn begin(&mut self, id: ExchangeId, stats: ExchangeStats) {
        let index = id.index as usize;
        if self.table.len() <= index {
            self.table.resize(index + 1, None);
        }
        self.table[index] = Some(ExchangeCount { id, stats, is_reported: false });
        self.changes.note(id);
    }

    /// The counts of an exchange.
    pub fn stats(&self, id: ExchangeId) -> Option<ExchangeStats> {
        self.table.get(id.index as usize)?.filter(|count| count.id == id).map(|count| count.stats)
    }

    /// A reader knows the counts of an exchange.
    pub fn note_reported(&mut self, id: ExchangeId) {
        if let Some(Some(count)) = self.table.get_mut(id.index as usize)
            && count.id == id
        {
            count.is_reported = true;
        }
    }

    /// The exchange at a place of the table.
    pub fn at(&self, place: usize) -> Option<ExchangeId> {
        self.table.get(place)?.map(|count| count.id)
    }

    pub fn places(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_that_takes_the_place_of_another_begins_at_zero() {
        let mut counts = ExchangeCounts::default();
        let id = |serial| ExchangeId { index: 3, serial };
        let routed = |publish_out| ExchangeStats { publish_in: 1, publish_out };
        counts.add(id(1), routed(6));
        counts.add(id(1), routed(0));
        assert_eq!(counts.stats(id(1)), Some(ExchangeStats { publish_in: 2, publish_out: 6 }));
        counts.add(id(2), routed(1));
        assert_eq!((counts.stats(id(1)), counts.at(3)), (None, Some(id(2))));
        assert_eq!(counts.stats(id(2)), Some(ExchangeStats { publish_in: 1, publish_out: 1 }));
        assert_eq!(counts.all, ExchangeStats { publish_in: 3, publish_out: 7 });
        counts.changes.start();
        counts.note_reported(id(2));
        counts.add(id(2), ExchangeStats::default());
        counts.add(id(2), routed(1));
        counts.add(id(2), routed(1));
        assert_eq!([(); 2].map(|()| counts.changes.next_changed()), [Some(id(2)), None], "once until it is reported");
    }

    #[test]
    fn sums_of_channels_have_every_count() {
        let one = ChannelStats {
            publish: 1,
            confirm: 2,
            return_unroutable: 3,
            drop_unroutable: 4,
            deliver: 5,
            deliver_no_ack: 6,
            get: 7,
            get_no_ack: 8,
            get_empty: 9,
            redeliver: 10,
            ack: 11,
        };
        let mut sum = ChannelStats::default();
        sum += one;
        assert_eq!((sum, sum.delivered()), (one, 26));
    }
}
