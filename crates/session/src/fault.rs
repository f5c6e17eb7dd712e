//! What a peer did wrong, and how it is told.
//!
//! Enters: an offence.  Leaves: a `Fault`: reply code, scope, the text RabbitMQ 3.10 gives.
//! Owns:   the wording, including Erlang's way of printing bytes that users know from the logs.

use std::fmt::Write;
use wire::{ChannelNumber, ReplyCode};

/// How far the consequences reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultScope {
    /// The channel ends (`channel.close`); the connection goes on.
    Channel,
    /// The connection ends (`connection.close`), politely.
    Connection,
    /// The link ends, after what is already written: the peer is not trusted with an answer.
    Link,
}

/// A peer's offence. [`Inbound::fail`](crate::Inbound::fail) carries out the consequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolFault {
    /// The reply code.
    pub code: ReplyCode,
    /// How far it reaches.
    pub scope: FaultScope,
    /// The channel it happened on.
    pub channel: ChannelNumber,
    /// Class of the method that caused it, or 0.
    pub class_id: u16,
    /// Number of the method that caused it, or 0.
    pub method_id: u16,
    /// The whole reply text, `FRAME_ERROR - …`, at most 255 bytes.
    pub text: String,
}

impl ProtocolFault {
    /// A fault of the scope that the code has by itself (soft: channel, hard: connection); `explanation` goes behind
    /// the code's name.
    #[cold]
    pub fn new(code: ReplyCode, channel: ChannelNumber, method: (u16, u16), explanation: &str) -> Self {
        let scope = if code.is_hard() || channel == ChannelNumber::CONNECTION {
            FaultScope::Connection
        } else {
            FaultScope::Channel
        };
        Self { code, scope, channel, class_id: method.0, method_id: method.1, text: reply_text(code, explanation) }
    }

    #[cold]
    pub(crate) fn link(code: ReplyCode, explanation: &str) -> Self {
        Self { scope: FaultScope::Link, ..Self::new(code, ChannelNumber::CONNECTION, (0, 0), explanation) }
    }
}

impl std::fmt::Display for ProtocolFault {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} (channel {}, method {}.{})", self.text, self.channel, self.class_id, self.method_id)
    }
}

impl std::error::Error for ProtocolFault {}

/// `NAME - explanation`, cut as RabbitMQ cuts it: above 255 bytes the first 252 and three dots.
pub fn reply_text(code: ReplyCode, explanation: &str) -> String {
    cut(format!("{} - {explanation}", code.name()))
}

/// A whole reply text of any length, cut as RabbitMQ cuts it.
pub fn cut(mut text: String) -> String {
    if text.len() > 255 {
        text.truncate(text.floor_char_boundary(252));
        text.push_str("...");
    }
    text
}

/// `all octets = <<…>>` or `first 16 octets = <<…>>`.
pub(crate) fn snippet(payload: &[u8]) -> String {
    if payload.len() <= 16 {
        format!("all octets = {}", binary(payload))
    } else {
        format!("first 16 octets = {}", binary(&payload[..16]))
    }
}

/// Bytes as Erlang's `~p` prints a binary: text in quotes if all of it is printable, numbers otherwise.
fn binary(bytes: &[u8]) -> String {
    if bytes.is_empty() || !bytes.iter().all(|&byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r')) {
        return numbers(bytes);
    }
    let mut text = String::from("<<\"");
    for &byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            _ => text.push(char::from(byte)),
        }
    }
    text.push_str("\">>");
    text
}

/// Bytes as Erlang's `~w` prints a binary. Long ones are cut, since the reply text is.
pub(crate) fn numbers(bytes: &[u8]) -> String {
    let mut text = String::from("<<");
    for (index, byte) in bytes.iter().take(256).enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(text, "{comma}{byte}").expect("a String takes everything");
    }
    text.push_str(">>");
    text
}

#[cfg(test)]
mod tests {
    use super::{FaultScope, ProtocolFault, binary, reply_text, snippet};
    use wire::{ChannelNumber, ReplyCode};

    #[test]
    fn bytes_print_as_erlang_prints_them() {
        assert_eq!(binary(b""), "<<>>");
        assert_eq!(binary(b"GET \"/\""), "<<\"GET \\\"/\\\"\">>");
        assert_eq!(binary(&[0, 10, 206]), "<<0,10,206>>");
        assert_eq!(snippet(&[7; 17]), "first 16 octets = <<7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7>>");
    }

    #[test]
    fn a_long_text_is_cut_to_a_short_string() {
        let text = reply_text(ReplyCode::FrameError, &"é".repeat(200));
        assert!(text.len() <= 255 && text.ends_with("..."), "{text}");
    }

    #[test]
    fn the_scope_follows_the_code_and_channel_0_has_no_soft_errors() {
        assert_eq!(ProtocolFault::new(ReplyCode::NotFound, ChannelNumber(1), (0, 0), "").scope, FaultScope::Channel);
        assert_eq!(
            ProtocolFault::new(ReplyCode::NotFound, ChannelNumber::CONNECTION, (0, 0), "").scope,
            FaultScope::Connection
        );
        assert_eq!(
            ProtocolFault::new(ReplyCode::ChannelError, ChannelNumber(1), (0, 0), "").scope,
            FaultScope::Connection
        );
    }
}
