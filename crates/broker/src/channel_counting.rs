//! What is counted of channels.

use crate::channel::{Channel, not_open};
use crate::channels::Channels;
use crate::ids::ChannelKey;
use crate::message_stats::ChannelStats;
use crate::publish_route::PublishRouteCache;
use catalog::Refusal;

impl Channels {
    /// A channel publishes a message. Returns it.
    #[inline]
    pub fn count_publish(&mut self, key: ChannelKey) -> Result<&mut Channel, Refusal> {
        let (channel, counts) = self.get_with_counts(key).ok_or_else(not_open)?;
        channel.stats.publish += 1;
        channel.note_change(key, &mut counts.changes);
        Ok(channel)
    }

    /// A channel publishes to another exchange, or its route has changed.
    pub fn replace_route(&mut self, key: ChannelKey, cache: Box<PublishRouteCache>) {
        if let Some((channel, counts)) = self.get_with_counts(key) {
            counts.replace_route(channel, cache);
        }
    }

    /// Adds what a channel has counted to the sums.
    pub fn fold_counts(&mut self, key: ChannelKey) {
        if let Some((channel, counts)) = self.get_with_counts(key) {
            counts.fold(channel);
        }
    }

    /// Counts something rare of a channel.
    #[cold]
    pub fn count(&mut self, key: ChannelKey, count: impl Fn(&mut ChannelStats)) {
        if let Some((channel, counts)) = self.get_with_counts(key) {
            count(&mut channel.stats);
            channel.note_change(key, &mut counts.changes);
        }
    }

    /// Deliveries of a channel are settled, so many of them acknowledged.
    #[inline]
    pub fn count_acks(&mut self, key: ChannelKey, deliveries: u64) {
        if let Some((channel, counts)) = self.get_with_counts(key) {
            channel.stats.ack += deliveries;
            channel.note_change(key, &mut counts.changes);
        }
    }
}
