//! Deduplication of stamped messages on one connection: which of them this broker has not confirmed yet.
//!
//! A stamp is in the shared window from the arrival of its message on. If the broker does not accept the message, the
//! stamp is removed, because the message will be sent again.

use crate::effects::ShardEffects;
use crate::shared_state::SharedState;
use broker::{Broker, ConnectionSlot, Effects, Publish};
use catalog::MessageStamp;
use federation::UnconfirmedStamps;
use wire::ChannelNumber;

/// The stamps of one connection. Only connections over which stamped messages arrive have one.
#[derive(Default)]
pub struct ConnectionStamps {
    /// Messages that this broker has not confirmed, by channel.
    unconfirmed: Vec<UnconfirmedStamps>,
    /// Stamps to remove from the window: their messages will be sent again.
    refused: Vec<MessageStamp>,
}

impl ConnectionStamps {
    /// A stamped message is published on a channel with confirms, under this number.
    fn on_publish(&mut self, channel: ChannelNumber, number: u64, stamp: MessageStamp) {
        let index = channel.index();
        if self.unconfirmed.len() <= index {
            self.unconfirmed.resize_with(index + 1, UnconfirmedStamps::default);
        }
        self.unconfirmed[index].push(number, stamp);
    }

    /// This broker confirms the messages of these numbers.
    #[inline]
    pub fn on_ack(&mut self, channel: ChannelNumber, number: u64, multiple: bool) {
        if let Some(unconfirmed) = self.unconfirmed.get_mut(channel.index()) {
            unconfirmed.confirmed(number, multiple);
        }
    }

    /// This broker refuses them.
    pub fn on_nack(&mut self, channel: ChannelNumber, number: u64, multiple: bool) {
        if let Some(unconfirmed) = self.unconfirmed.get_mut(channel.index()) {
            unconfirmed.refused(number, multiple, |stamp| self.refused.push(stamp));
        }
    }

    /// The stamps to remove from the window since the last call.
    fn take_refused(&mut self) -> Vec<MessageStamp> {
        std::mem::take(&mut self.refused)
    }

    /// One channel is closed, or all are: unconfirmed messages will be sent again.
    fn drain_unconfirmed(&mut self, only: Option<ChannelNumber>) {
        for (channel, unconfirmed) in self.unconfirmed.iter_mut().enumerate() {
            if only.is_none_or(|only| only.index() == channel) {
                self.refused.extend(unconfirmed.drain());
            }
        }
    }
}

/// Records the stamp of a message that has arrived, and its number if it is to be confirmed. Returns whether it is
/// here for the first time.
#[cold]
pub(crate) fn record_stamp(
    shared: &SharedState,
    effects: &mut ShardEffects,
    slot: ConnectionSlot,
    channel: ChannelNumber,
    number: Option<u64>,
    stamp: MessageStamp,
) -> bool {
    let seed = effects.random();
    let Some(output) = effects.output(slot) else { return true };
    let stamped = output.stamps.get_or_insert_default();
    let refused = stamped.take_refused();
    if !refused.is_empty() {
        shared.remove_stamps(&refused);
    }
    let is_first = shared.insert_stamp(stamp, || seed);
    if let Some(number) = number.filter(|_| is_first) {
        stamped.on_publish(channel, number, stamp);
    }
    is_first
}

/// Whether a message that another broker pushes has been here before.
#[cold]
pub(crate) fn is_duplicate(
    slot: ConnectionSlot,
    channel: ChannelNumber,
    publish: &Publish<'_>,
    broker: &Broker,
    effects: &mut ShardEffects,
    shared: &SharedState,
) -> bool {
    let Some(stamp) = MessageStamp::of(publish.properties) else { return false };
    let stamp = stamp.at(broker.vhost_name(slot), publish.exchange);
    !record_stamp(shared, effects, slot, channel, broker.next_confirm_tag(slot, channel), stamp)
}

/// Removes the stamps of unconfirmed messages when one channel of a connection is closed, or all are.
pub(crate) fn release_stamps(
    shared: &SharedState,
    effects: &mut ShardEffects,
    slot: ConnectionSlot,
    only: Option<ChannelNumber>,
) {
    let Some(stamped) = effects.output(slot).and_then(|output| output.stamps.as_mut()) else { return };
    stamped.drain_unconfirmed(only);
    let refused = stamped.take_refused();
    if !refused.is_empty() {
        shared.remove_stamps(&refused);
    }
}
