//! Deduplication of stamped messages on one connection: which of them this broker has not confirmed yet.
//!
//! A stamp is in the shared window from the arrival of its message on. If the broker does not accept the message, the
//! stamp is removed, because the message will be sent again.

use catalog::MessageStamp;
use federation::UnconfirmedStamps;
use wire::{ChannelNumber, DeliveryTag};

/// The stamps of one connection. Only connections over which stamped messages arrive have one.
#[derive(Default)]
pub struct ConnectionStamps {
    /// Messages that this broker has not confirmed, by channel.
    unconfirmed: Vec<UnconfirmedStamps>,
    /// Stamps to remove from the window: their messages will be sent again.
    refused: Vec<MessageStamp>,
}

impl ConnectionStamps {
    /// A stamped message is published on a channel with confirms, under this tag.
    pub fn on_publish(&mut self, channel: ChannelNumber, tag: DeliveryTag, stamp: MessageStamp) {
        let index = channel.index();
        if self.unconfirmed.len() <= index {
            self.unconfirmed.resize_with(index + 1, UnconfirmedStamps::default);
        }
        self.unconfirmed[index].push(tag, stamp);
    }

    /// This broker confirms the messages of these tags.
    #[inline]
    pub fn on_ack(&mut self, channel: ChannelNumber, tag: DeliveryTag, multiple: bool) {
        if let Some(unconfirmed) = self.unconfirmed.get_mut(channel.index()) {
            unconfirmed.confirmed(tag, multiple);
        }
    }

    /// This broker refuses them.
    pub fn on_nack(&mut self, channel: ChannelNumber, tag: DeliveryTag, multiple: bool) {
        if let Some(unconfirmed) = self.unconfirmed.get_mut(channel.index()) {
            unconfirmed.refused(tag, multiple, |stamp| self.refused.push(stamp));
        }
    }

    /// The stamps to remove from the window since the last call.
    pub fn take_refused(&mut self) -> Vec<MessageStamp> {
        std::mem::take(&mut self.refused)
    }

    /// One channel is closed, or all are: unconfirmed messages will be sent again.
    pub fn drain_unconfirmed(&mut self, only: Option<ChannelNumber>) {
        for (channel, unconfirmed) in self.unconfirmed.iter_mut().enumerate() {
            if only.is_none_or(|only| only.index() == channel) {
                self.refused.extend(unconfirmed.drain());
            }
        }
    }
}
