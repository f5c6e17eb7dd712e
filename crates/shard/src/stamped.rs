//! What came with a stamp on one connection: whether it has been here, and what this broker has not answered for yet.
//!
//! Enters: stamped messages with their numbers, what became of them.  Leaves: whether each is here for the first time.
//! Owns:   which stamps must go out of the window again.
//! Never:  exists for a connection on which nothing stamped came.

use crate::desk::Desk;
use crate::household::Household;
use broker::{Broker, Effects, Publish, ConnectionSlot};
use catalog::Stamp;
use federation::Unconfirmed;

/// The stamps of one connection.
#[derive(Default)]
pub struct Stamped {
    /// By their channels: what this broker has not answered for.
    unconfirmed: Vec<Unconfirmed>,
    /// Stamps that must go out of the window: their messages will come again.
    refused: Vec<Stamp>,
}

impl Stamped {
    /// A stamped message is published on a channel with confirms, as this number.
    fn entered(&mut self, channel: u16, number: u64, stamp: Stamp) {
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
    fn take_refused(&mut self) -> Vec<Stamp> {
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
    household: &Household,
    desk: &mut Desk,
    slot: ConnectionSlot,
    channel: u16,
    number: Option<u64>,
    stamp: Stamp,
) -> bool {
    let seed = desk.random();
    let Some(outlet) = desk.outlet(slot) else { return true };
    let stamped = outlet.stamped.get_or_insert_default();
    let refused = stamped.take_refused();
    if !refused.is_empty() {
        household.take_out_stamps(&refused);
    }
    let is_first = household.enter_stamp(stamp, || seed);
    if let Some(number) = number.filter(|_| is_first) {
        stamped.entered(channel, number, stamp);
    }
    is_first
}

/// Whether what another broker pushes has been here.
#[cold]
pub(crate) fn was_here(
    slot: ConnectionSlot,
    channel: u16,
    publish: &Publish<'_>,
    broker: &Broker,
    desk: &mut Desk,
    household: &Household,
) -> bool {
    let Some(stamp) = Stamp::of(publish.properties) else { return false };
    let stamp = stamp.at(broker.vhost_name(slot), publish.exchange);
    !enter(household, desk, slot, channel, broker.next_confirm_tag(slot, channel), stamp)
}

/// A channel is over, or all of a connection are: what came on them and was not answered comes again.
pub(crate) fn forget(household: &Household, desk: &mut Desk, slot: ConnectionSlot, only: Option<u16>) {
    let Some(stamped) = desk.outlet(slot).and_then(|outlet| outlet.stamped.as_mut()) else { return };
    stamped.forget(only);
    let refused = stamped.take_refused();
    if !refused.is_empty() {
        household.take_out_stamps(&refused);
    }
}
