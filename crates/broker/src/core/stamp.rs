//! Stamps: what is put on a message before it goes where it may come twice.
//!
//! Enters: the properties of a publish, a dead letter or a message that was delayed.  Leaves: the same with the stamp it needs.
//! Owns:   the numbers of this shard; whose stamps are kept.
//! Never:  stamps before it was told which start of which broker this is: two alike would be taken for one message.
//!
//! A stamp stays as long as brokers pass a message on. What a client publishes is another message, though it may have copied the
//! headers of one that it got, and so is a dead letter: with the old stamp they would be dropped where that message has been.

use super::copies::PublishRewrite;
use super::{Broker, ReadControl, no_channel};
use crate::channel::ChannelMode;
use crate::effects::ConnectionSlot;
use catalog::{Refusal, Stamp};
use wire::{RawProperties, ReplyCode};

/// The numbers that this shard gives out.
#[derive(Default)]
pub(super) struct Stamps {
    origin: Option<u64>,
    given: u64,
}

impl Broker {
    /// The number of this start of this broker, drawn at random; the same on every shard. From now on messages are stamped where a
    /// binding asks for it (`x-harrier-window`).
    pub fn set_origin(&mut self, origin: u64) {
        self.stamps.origin = Some(origin);
    }

    /// This connection is a link to another broker: the messages that it publishes keep their stamps.
    pub fn mark_link(&mut self, slot: ConnectionSlot) {
        if let Some(peer) = self.peer_mut(slot) {
            peer.is_link = true;
        }
    }

    /// Whether this connection is a link to another broker.
    #[inline]
    pub fn is_link(&self, slot: ConnectionSlot) -> bool {
        matches!(self.tables.peers.get(slot as usize), Some(Some(peer)) if peer.is_link)
    }

    /// Another broker says that its publishes on this connection keep their stamps. It is believed if its user may be one; where
    /// that is needed, it is refused otherwise: its messages could come twice.
    #[cold]
    pub(super) fn claim_link(&mut self, slot: ConnectionSlot, needed: bool) -> Result<(), Refusal> {
        let (user, _, _) = self.whose(slot)?;
        if self.catalog.is_federation(user) {
            self.mark_link(slot);
        } else if needed {
            let name = self.catalog.user_name(user);
            let why = format!(
                "of a forced route user '{name}' needs the tag 'federation': it may not say which messages are one"
            );
            return Err(Refusal::detail(ReplyCode::AccessRefused, why));
        }
        Ok(())
    }

    /// The virtual host of a connection.
    pub fn vhost_name(&self, slot: ConnectionSlot) -> &str {
        self.whose(slot).map_or("", |(_, vhost, _)| self.catalog.vhost_name(vhost))
    }

    /// A publish that has been here already: it goes nowhere, and is confirmed.
    pub fn publish_duplicate(&mut self, slot: ConnectionSlot, number: u16) -> Result<ReadControl, Refusal> {
        let Some(Some(peer)) = self.tables.peers.get(slot as usize) else { return Err(no_channel()) };
        let key = peer.channel(number).ok_or_else(no_channel)?;
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        self.counters.published += 1;
        if matches!(channel.mode, ChannelMode::Confirm) {
            channel.confirms.published += 1;
            if !channel.confirms.due {
                channel.confirms.due = true;
                self.confirms_due.push(key);
            }
        }
        Ok(if self.may_read(slot) { ReadControl::Continue } else { ReadControl::Pause })
    }

    /// The number by which the next publish on a channel will be confirmed, if it will.
    pub fn next_confirm_tag(&self, slot: ConnectionSlot, number: u16) -> Option<u64> {
        let Some(Some(peer)) = self.tables.peers.get(slot as usize) else { return None };
        let channel = self.tables.channels.get(peer.channel(number)?)?;
        matches!(channel.mode, ChannelMode::Confirm).then_some(channel.confirms.published + 1)
    }

    /// Takes a stamp off that a client has put on.
    #[cold]
    pub(super) fn take_stamp_off(&mut self, slot: ConnectionSlot, properties: RawProperties<'_>, copies: &mut Option<PublishRewrite>) {
        let is_link = self.peer_mut(slot).is_some_and(|peer| peer.is_link);
        if !is_link && Stamp::of(properties).is_some() {
            let changed = Stamp::take_off(now(properties, copies));
            copies.get_or_insert_default().properties = Some(changed);
        }
    }

    /// Stamps what is published, if it has no stamp yet.
    #[cold]
    pub(super) fn stamp_publish(&mut self, properties: RawProperties<'_>, copies: &mut Option<PublishRewrite>) {
        if let Some(changed) = self.stamp(now(properties, copies)) {
            copies.get_or_insert_default().properties = Some(changed);
        }
    }

    /// The properties of a message that needs a stamp, with one; `None` if it has one already.
    #[cold]
    pub(super) fn stamp(&mut self, properties: RawProperties<'_>) -> Option<Vec<u8>> {
        let origin = self.stamps.origin?;
        if Stamp::of(properties).is_some() {
            return None;
        }
        self.stamps.given += 1;
        Some(Stamp::new(origin, self.options.shard.0, self.stamps.given).put_on(properties))
    }
}

/// The properties with which a publish goes on.
fn now<'a>(properties: RawProperties<'a>, copies: &'a Option<PublishRewrite>) -> RawProperties<'a> {
    let changed = copies.as_ref().and_then(|copies| copies.properties.as_deref());
    changed.map_or(properties, RawProperties::new)
}
