//! Detection of duplicates among stamped messages: the window of stamps that all shards share, and what each connection
//! added to it.

use crate::effects::ShardEffects;
use crate::shared_state::SharedState;
use broker::{Broker, ConnectionSlot, Effects, Publish};
use catalog::MessageStamp;
use wire::{ChannelNumber, DeliveryTag};

/// Records the stamp of a message that has arrived, and its number if it is to be confirmed. Returns whether it is
/// here for the first time.
#[cold]
pub(crate) fn record_stamp(
    shared: &SharedState,
    effects: &mut ShardEffects,
    slot: ConnectionSlot,
    channel: ChannelNumber,
    tag: Option<DeliveryTag>,
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
    if let Some(tag) = tag.filter(|_| is_first) {
        stamped.on_publish(channel, tag, stamp);
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
