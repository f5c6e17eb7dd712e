//! What came with a stamp on one connection: whether it has been here, and what this broker has not answered for yet.
//!
//! Enters: stamped messages with their numbers, what became of them.  Leaves: whether each is here for the first time.
//! Owns:   which stamps must go out of the window again.
//! Never:  exists for a connection on which nothing stamped came.

use crate::effects::ShardEffects;
use crate::shared_state::SharedState;
use broker::{Broker, Effects, Publish, Slot};
use catalog::MessageStamp;
use federation::Unconfirmed;

/// The stamps of one connection.
#[derive(Default)]
pub struct Stamped {
    /// By their channels: what this broker has not answered for.
    unconfirmed: Vec<Unconfirmed>,
    /// Stamps that must go out of the window: their messages will come again.
    refused: Vec<MessageStamp>,
}

impl Stamped {
    /// A stamped message is published on a channel with confirms, as this number.
    fn entered(&mut self, channel: u16, number: u64, stamp: MessageStamp) {
        let index = usize::from(channel);
        if self.unconfirmed.len() <= index {
            self.unconfirmed.resize_with(index + 1, Unconfirmed::default);
        }
        self.unconfirmed[index].push(number, stamp);
    }

    /// This broker has taken what came with these numbers.
    #[inline]
    pub fn confirmed(&mut self, channel: u16, number: u64, multiple: bool) {
        if let Some(unconfirmed) = self.unconfirmed.get_mut(usize::from(channel)) {
            unconfirmed.confirmed(number, multiple);
        }
    }

    /// This broker did not take it.
    pub fn refuse(&mut self, channel: u16, number: u64, multiple: bool) {
        if let Some(unconfirmed) = self.unconfirmed.get_mut(usize::from(channel)) {
            unconfirmed.refused(number, multiple, |stamp| self.refused.push(stamp));
        }
    }

    /// Stamps that must go out of the window, since the last time.
    fn take_refused(&mut self) -> Vec<MessageStamp> {
        std::mem::take(&mut self.refused)
    }

    /// A channel is over, or all are: what is unanswered comes again.
    fn forget(&mut self, only: Option<u16>) {
        for (channel, unconfirmed) in self.unconfirmed.iter_mut().enumerate() {
            if only.is_none_or(|only| usize::from(only) == channel) {
                self.refused.extend(unconfirmed.drain());
            }
        }
    }
}

/// A stamped message is here, as this number of a channel if it is to be confirmed. Answers whether it is for the first time.
#[cold]
pub(crate) fn enter(
    shared: &SharedState,
    effects: &mut ShardEffects,
    slot: Slot,
    channel: u16,
    number: Option<u64>,
    stamp: MessageStamp,
) -> bool {
    let seed = effects.chance();
    let Some(output) = effects.output(slot) else { return true };
    let stamped = output.stamped.get_or_insert_default();
    let refused = stamped.take_refused();
    if !refused.is_empty() {
        shared.take_out_stamps(&refused);
    }
    let is_first = shared.enter_stamp(stamp, || seed);
    if let Some(number) = number.filter(|_| is_first) {
        stamped.entered(channel, number, stamp);
    }
    is_first
}

/// Whether what another broker pushes has been here.
#[cold]
pub(crate) fn was_here(
    slot: Slot,
    channel: u16,
    publish: &Publish<'_>,
    broker: &Broker,
    effects: &mut ShardEffects,
    shared: &SharedState,
) -> bool {
    let Some(stamp) = MessageStamp::of(publish.properties) else { return false };
    let stamp = stamp.at(broker.vhost_name(slot), publish.exchange);
    !enter(shared, effects, slot, channel, broker.next_confirmed(slot, channel), stamp)
}

/// A channel is over, or all of a connection are: what came on them and was not answered comes again.
pub(crate) fn forget(shared: &SharedState, effects: &mut ShardEffects, slot: Slot, only: Option<u16>) {
    let Some(stamped) = effects.output(slot).and_then(|output| output.stamped.as_mut()) else { return };
    stamped.forget(only);
    let refused = stamped.take_refused();
    if !refused.is_empty() {
        shared.take_out_stamps(&refused);
    }
}
