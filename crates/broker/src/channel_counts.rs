//! What all channels of a shard have counted together, and which of them have changed since a reader was told of them.
//!
//! Enters: what a channel has counted since it was last folded: when it is reported, changes its mode or exchange, or is gone.
//! Leaves: sums of channels and exchanges.  So a message adds to its channel only.

use crate::channel::{Channel, ChannelMode};
use crate::ids::ChannelKey;
use crate::message_stats::{ChannelStats, ExchangeCounts};
use crate::publish_route::PublishRouteCache;
use queues::{ChangeList, ConsumerKey};

#[derive(Default)]
pub(crate) struct ChannelCounts {
    /// Of all channels that there ever were, as far as they are folded.
    pub totals: ChannelStats,
    /// Of the messages published, those on channels with confirms.
    pub published_confirm: u64,
    pub exchanges: ExchangeCounts,
    pub opened: u64,
    pub closed: u64,
    pub changes: ChangeList<ChannelKey>,
    /// Consumers change in nothing that is reported.
    pub consumer_changes: ChangeList<ConsumerKey>,
}

impl ChannelCounts {
    /// Adds what a channel has counted since this was last done.
    pub fn fold(&mut self, channel: &mut Channel) {
        let stats = channel.fold_stats();
        self.totals += stats;
        if matches!(channel.mode, ChannelMode::Confirm) {
            self.published_confirm += stats.publish;
        }
        if let Some(cache) = &mut channel.route_cache {
            let routed = cache.take_routed();
            self.exchanges.add(cache.exchange_id, routed);
        }
    }

    /// A channel publishes to another exchange, or its route has changed.
    pub fn replace_route(&mut self, channel: &mut Channel, cache: Box<PublishRouteCache>) {
        if let Some(mut before) = channel.route_cache.replace(cache) {
            let routed = before.take_routed();
            self.exchanges.add(before.exchange_id, routed);
        }
    }
}
