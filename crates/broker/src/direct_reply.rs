//! Direct reply-to (RabbitMQ extension): replies that go straight to the requester's channel, through no queue.
//!
//! Enters: the name in a `reply-to` property.  Leaves: the shard and channel it means.
//! Owns:   the form of the address.
//! Never:  trusts an address: the nonce must match.

use crate::ids::ChannelKey;
use catalog::ShardId;
use slotmap::{Key, KeyData};

/// The pseudo-queue that a requester consumes from and names in `reply-to`.
pub const PSEUDO_QUEUE: &str = "amq.rabbitmq.reply-to";

/// What a channel that consumes from the pseudo-queue keeps.
pub struct ReplyConsumer {
    /// The consumer's tag.
    pub tag: Box<[u8]>,
    /// Known only to those who saw a request of this channel.
    pub nonce: u64,
}

/// A channel's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyAddress {
    /// The shard of its connection.
    pub shard: ShardId,
    /// The channel there.
    pub channel: ChannelKey,
    /// Must match the mailbox.
    pub nonce: u64,
}

impl ReplyAddress {
    /// The name that takes the pseudo-queue's place in a request's `reply-to`.
    pub fn name(&self) -> String {
        format!("{PSEUDO_QUEUE}.{:04x}{:016x}{:016x}", self.shard.0, self.channel.data().as_ffi(), self.nonce)
    }

    /// The address behind such a name.
    pub fn parse(name: &[u8]) -> Option<ReplyAddress> {
        let hex = name.strip_prefix(PSEUDO_QUEUE.as_bytes())?.strip_prefix(b".")?;
        let hex = std::str::from_utf8(hex)
            .ok()
            .filter(|hex| hex.len() == 36 && hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let shard = u16::from_str_radix(&hex[..4], 16).ok()?;
        let channel = u64::from_str_radix(&hex[4..20], 16).ok()?;
        let nonce = u64::from_str_radix(&hex[20..], 16).ok()?;
        Some(ReplyAddress { shard: ShardId(shard), channel: KeyData::from_ffi(channel).into(), nonce })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_address() {
        let address =
            ReplyAddress { shard: ShardId(3), channel: KeyData::from_ffi(0x1_0000_0007).into(), nonce: 0xfeed_beef };
        assert_eq!(ReplyAddress::parse(address.name().as_bytes()), Some(address));
        for other in ["amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.", "amq.rabbitmq.reply-to.xyz", "q"] {
            assert_eq!(ReplyAddress::parse(other.as_bytes()), None, "{other}");
        }
    }
}
