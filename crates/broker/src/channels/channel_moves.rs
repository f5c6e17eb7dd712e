//! Channels that leave for another shard with their connection, or come from one.

use super::Channels;
use crate::channel::{Channel, ChannelMode};
use crate::ids::{ChannelKey, ConnectionSlot};

impl Channel {
    /// Whether the channel belongs where it is: it has consumers, a transaction or an address of direct replies, or deliveries that
    /// its client would have to settle, which is not read before it moves.
    pub fn is_bound_here(&self) -> bool {
        !self.consumers.is_empty()
            || self.ledger.unsettled() > 0
            || self.reply_consumer.is_some()
            || self.closing
            || matches!(self.mode, ChannelMode::Transaction(_))
    }

    /// Whether nothing is under way: no publish that is not confirmed.
    pub fn is_quiet(&self) -> bool {
        let is_confirmed =
            !matches!(self.mode, ChannelMode::Confirm) || self.confirms.published == self.confirms.confirmed;
        self.confirms.is_idle() && self.confirms.refused.is_empty() && is_confirmed && !self.wake_deferred
    }
}

impl Channels {
    /// Takes a channel out that leaves this shard: what it has counted here stays here, and its own counts go with it.
    pub fn depart(&mut self, key: ChannelKey) -> Option<Channel> {
        let mut channel = self.table.remove(key)?;
        self.counts.fold(&mut channel);
        self.counts.changes.note_gone(key);
        channel.route_cache = None;
        channel.waiting = Default::default();
        channel.awaits_output = false;
        channel.confirms.due = false;
        channel.is_reported = false;
        Some(channel)
    }

    /// Adds a channel that comes from another shard.
    pub fn arrive(&mut self, mut channel: Channel, slot: ConnectionSlot) -> ChannelKey {
        channel.slot = slot;
        let key = self.table.insert(channel);
        self.counts.changes.note(key);
        key
    }
}
