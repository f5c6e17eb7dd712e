//! Channels: which are open, why others closed, and what each has published.
//!
//! Enters: openings, closings, publishes, confirms.  Leaves: a channel's state, or why it cannot be used.
//! Owns:   one record per channel number.
//! Never:  confuses a number's former user with its present one.

use session::Capabilities;
use wire::ChannelNumber;

use crate::confirms::Confirms;
use crate::error::{ClientError, Result};

/// A handle on an open channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientChannel {
    pub(crate) number: ChannelNumber,
    pub(crate) serial: u32,
}

impl ClientChannel {
    /// The channel's number on the wire.
    pub fn number(self) -> ChannelNumber {
        self.number
    }

    /// The handle as a number, for programs in languages that keep it so.
    pub fn to_bits(self) -> u64 {
        u64::from(self.serial) << 16 | u64::from(self.number.0)
    }

    /// The handle of `to_bits`. Another number is a channel that is not open, or one that is.
    pub fn from_bits(bits: u64) -> Self {
        Self { number: ChannelNumber((bits & 0xFFFF) as u16), serial: (bits >> 16) as u32 }
    }
}

#[derive(Debug)]
enum ChannelState {
    Open,
    ClosedByServer { code: u16, text: String },
    Gone,
}

#[derive(Debug)]
pub(crate) struct ChannelRecord {
    serial: u32,
    state: ChannelState,
    /// Whether publishes are counted: after `confirm_select`.
    pub(crate) confirming: bool,
    pub(crate) confirms: Confirms,
}

/// All channels of a connection.
#[derive(Debug, Default)]
pub(crate) struct ClientChannels {
    /// What the server says it understands beyond the specification; it is asked for nothing else.
    pub(crate) announced: Capabilities,
    records: Vec<Option<ChannelRecord>>,
    serial: u32,
}

impl ClientChannels {
    /// A number was opened.
    pub(crate) fn opened(&mut self, number: ChannelNumber) -> ClientChannel {
        self.serial += 1;
        let index = number.index();
        if self.records.len() <= index {
            self.records.resize_with(index + 1, || None);
        }
        self.records[index] = Some(ChannelRecord {
            serial: self.serial,
            state: ChannelState::Open,
            confirming: false,
            confirms: Confirms::default(),
        });
        ClientChannel { number, serial: self.serial }
    }

    /// Whether the server understands an extension; `what` is its name.
    pub(crate) fn announced(&self, extension: Capabilities, what: &'static str) -> Result<()> {
        if self.announced.has(extension) { Ok(()) } else { Err(ClientError::NotAnnounced { what }) }
    }

    pub(crate) fn closed_by_server(&mut self, number: ChannelNumber, code: u16, text: &str) {
        if let Some(record) = self.record(number) {
            record.state = ChannelState::ClosedByServer { code, text: text.to_owned() };
        }
    }

    /// This program closed it.
    pub(crate) fn gone(&mut self, channel: ClientChannel) {
        if let Some(record) = self.record(channel.number).filter(|record| record.serial == channel.serial) {
            record.state = ChannelState::Gone;
        }
    }

    /// The present user of a number.
    pub(crate) fn handle(&self, number: ChannelNumber) -> ClientChannel {
        let serial = self.records.get(number.index()).and_then(Option::as_ref).map_or(0, |record| record.serial);
        ClientChannel { number, serial }
    }

    pub(crate) fn record(&mut self, number: ChannelNumber) -> Option<&mut ChannelRecord> {
        self.records.get_mut(number.index())?.as_mut()
    }

    /// Unconfirmed publishes of a channel; none if it is not the number's present user.
    #[inline]
    pub(crate) fn outstanding(&self, channel: ClientChannel) -> u64 {
        match self.records.get(channel.number.index()) {
            Some(Some(record)) if record.serial == channel.serial => record.confirms.outstanding(),
            _ => 0,
        }
    }

    /// The tag up to which a channel's publishes are all confirmed; 0 if it is not the number's present user.
    #[inline]
    pub(crate) fn confirmed_up_to(&self, channel: ClientChannel) -> u64 {
        match self.records.get(channel.number.index()) {
            Some(Some(record)) if record.serial == channel.serial => record.confirms.settled(),
            _ => 0,
        }
    }

    /// Whether publishes of a channel were refused since they were asked for last.
    pub(crate) fn has_refused(&self, channel: ClientChannel) -> bool {
        match self.records.get(channel.number.index()) {
            Some(Some(record)) => record.serial == channel.serial && record.confirms.has_refused(),
            _ => false,
        }
    }

    /// The record of an open channel, or why it is not open.
    #[inline]
    pub(crate) fn open(&mut self, channel: ClientChannel) -> Result<&mut ChannelRecord> {
        match self.records.get_mut(channel.number.index()) {
            Some(Some(record)) if record.serial == channel.serial => match &record.state {
                ChannelState::Open => Ok(record),
                ChannelState::ClosedByServer { code, text } => {
                    Err(ClientError::ChannelClosed { channel: channel.number, code: *code, text: text.clone() })
                }
                ChannelState::Gone => Err(ClientError::ChannelNotOpen { channel: channel.number }),
            },
            _ => Err(ClientError::ChannelNotOpen { channel: channel.number }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_handle_does_not_reach_the_numbers_new_user() {
        let mut channels = ClientChannels::default();
        let first = channels.opened(ChannelNumber(1));
        channels.closed_by_server(ChannelNumber(1), 404, "NOT_FOUND");
        assert!(matches!(channels.open(first), Err(ClientError::ChannelClosed { code: 404, .. })));
        let second = channels.opened(ChannelNumber(1));
        assert!(matches!(channels.open(first), Err(ClientError::ChannelNotOpen { channel: ChannelNumber(1) })));
        assert!(channels.open(second).is_ok());
        channels.gone(first);
        assert!(channels.open(second).is_ok());
        channels.gone(second);
        assert!(channels.open(second).is_err());
    }
}
