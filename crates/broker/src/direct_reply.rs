//! Direct reply-to (RabbitMQ extension): replies go straight to the requester's channel, through no queue.
//!
//! An address alone is not trusted: its nonce must match that of the channel's reply consumer.

use crate::ids::ChannelKey;
use catalog::ShardId;
use slotmap::{Key, KeyData};

/// The pseudo-queue that a requester consumes from and names in `reply-to`.
pub const PSEUDO_QUEUE: &str = "amq.rabbitmq.reply-to";

/// The consumer of direct replies of a channel.
pub struct ReplyConsumer {
    pub tag: Box<[u8]>,
    /// Known only to those who have seen a request of this channel.
    pub nonce: u64,
}

/// The address of a channel's reply consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyAddress {
    pub shard: ShardId,
    pub channel: ChannelKey,
    /// Must match the reply consumer's.
    pub nonce: u64,
}

impl ReplyAddress {
    /// The name that replaces the pseudo-queue's in a request's `reply-to`.
    pub fn name(&self) -> String {
        format!("{PSEUDO_QUEUE}.{:04x}{:016x}{:016x}", self.shard.0, self.channel.data().as_ffi(), self.nonce)
    }

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
    fn a_name_is_parsed_to_its_address() {
        let address =
            ReplyAddress { shard: ShardId(3), channel: KeyData::from_ffi(0x1_0000_0007).into(), nonce: 0xfeed_beef };
        assert_eq!(ReplyAddress::parse(address.name().as_bytes()), Some(address));
        for other in ["amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.", "amq.rabbitmq.reply-to.xyz", "q"] {
            assert_eq!(ReplyAddress::parse(other.as_bytes()), None, "{other}");
        }
    }
}
