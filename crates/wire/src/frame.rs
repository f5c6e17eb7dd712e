//! Frames: a 7-byte head, a payload, an end octet.
//!
//! Enters: received bytes.  Leaves: one frame and how many bytes it took, or that more are needed.
//! Owns:   the shape of AMQP 0-9-1 §4.2.3.

use crate::ids::ChannelNumber;
use crate::reply::ReplyCode;
use std::fmt;

pub use crate::limits::{FRAME_BYTES_MIN, FRAME_OVERHEAD_BYTES};

/// Frame kind: a method.
pub const FRAME_METHOD: u8 = 1;
/// Frame kind: a content header.
pub const FRAME_HEADER: u8 = 2;
/// Frame kind: a part of a content body.
pub const FRAME_BODY: u8 = 3;
/// Frame kind: a sign of life.
pub const FRAME_HEARTBEAT: u8 = 8;
/// The last octet of every frame.
pub const FRAME_END: u8 = 0xCE;

/// Bytes of the head: kind, channel, payload size.
pub const FRAME_HEAD_BYTES: usize = 7;

/// What a client sends first: `AMQP`, 0, 0, 9, 1.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// A whole heartbeat frame.
pub const HEARTBEAT_FRAME: [u8; FRAME_OVERHEAD_BYTES] = [FRAME_HEARTBEAT, 0, 0, 0, 0, 0, 0, FRAME_END];

/// A complete frame; the payload is in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// One of the `FRAME_` kinds.
    pub kind: u8,
    /// The channel; 0 is the connection itself.
    pub channel: ChannelNumber,
    /// What lies between head and end octet.
    pub payload: &'a [u8],
}

/// The first seven bytes of a frame, whatever they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The frame's kind; not yet known to be one that exists.
    pub kind: u8,
    /// The channel; 0 is the connection itself.
    pub channel: ChannelNumber,
    /// Announced size of the payload; not yet known to be allowed.
    pub payload_bytes: u32,
}

/// A frame that cannot be: after it the stream makes no sense any more. Reply code 501.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame would be larger than allowed.
    TooLarge {
        /// What was announced.
        head: FrameHead,
        /// The most there may be in the payload.
        payload_bytes_max: u32,
    },
    /// The kind does not exist.
    UnknownKind {
        /// What was announced.
        head: FrameHead,
    },
    /// The octet behind the payload is not the frame end.
    WrongEnd {
        /// What was announced.
        head: FrameHead,
        /// The octet found instead.
        found: u8,
    },
}

impl FrameHead {
    /// Refuses unknown kinds and payloads that would make a frame of more than `frame_bytes_max` bytes.
    #[inline]
    pub const fn check(self, frame_bytes_max: u32) -> Result<Self, FrameError> {
        if !matches!(self.kind, FRAME_METHOD | FRAME_HEADER | FRAME_BODY | FRAME_HEARTBEAT) {
            return Err(FrameError::UnknownKind { head: self });
        }
        let payload_bytes_max = frame_bytes_max.saturating_sub(FRAME_OVERHEAD_BYTES as u32);
        if self.payload_bytes > payload_bytes_max {
            return Err(FrameError::TooLarge { head: self, payload_bytes_max });
        }
        Ok(self)
    }

    /// The seven bytes.
    #[inline]
    pub const fn to_bytes(self) -> [u8; FRAME_HEAD_BYTES] {
        let [channel_0, channel_1] = self.channel.to_be_bytes();
        let [size_0, size_1, size_2, size_3] = self.payload_bytes.to_be_bytes();
        [self.kind, channel_0, channel_1, size_0, size_1, size_2, size_3]
    }
}

/// The head at the beginning of `input`, unchecked; `None` while it has fewer than seven bytes.
#[inline]
pub const fn split_head(input: &[u8]) -> Option<FrameHead> {
    match input {
        &[kind, channel_0, channel_1, size_0, size_1, size_2, size_3, ..] => Some(FrameHead {
            kind,
            channel: ChannelNumber::from_be_bytes([channel_0, channel_1]),
            payload_bytes: u32::from_be_bytes([size_0, size_1, size_2, size_3]),
        }),
        _ => None,
    }
}

/// The frame at the beginning of `input` and how many bytes it takes; `None` while it is incomplete.
///
/// `frame_bytes_max` bounds the whole frame; `u32::MAX` stands for no limit. A wrong kind or size is refused as
/// soon as the head is there, a wrong end octet as soon as it is.
#[inline]
pub fn split(input: &[u8], frame_bytes_max: u32) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some(head) = split_head(input) else {
        return Ok(None);
    };
    let head = head.check(frame_bytes_max)?;
    // The check left room for the overhead in 32 bits, so this does not overflow.
    let end = FRAME_HEAD_BYTES + head.payload_bytes as usize;
    match input.get(end) {
        None => Ok(None),
        Some(&FRAME_END) => {
            let payload = &input[FRAME_HEAD_BYTES..end];
            Ok(Some((Frame { kind: head.kind, channel: head.channel, payload }, end + 1)))
        }
        Some(&found) => Err(FrameError::WrongEnd { head, found }),
    }
}

/// Writes a head into the first seven bytes of `out` and the end octet into its last one; `out` is the whole
/// frame, so its length says how large the payload is. Panics if `out` holds less than an empty frame.
#[inline]
pub(crate) fn enclose(kind: u8, channel: ChannelNumber, out: &mut [u8]) {
    let payload_bytes = crate::write::length_u32(out.len() - FRAME_OVERHEAD_BYTES);
    out[..FRAME_HEAD_BYTES].copy_from_slice(&FrameHead { kind, channel, payload_bytes }.to_bytes());
    let end = out.len() - 1;
    out[end] = FRAME_END;
}

/// Appends a whole frame to `out`.
pub fn append(kind: u8, channel: ChannelNumber, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
    out.extend_from_slice(payload);
    out.push(FRAME_END);
    enclose(kind, channel, &mut out[start..]);
}

impl FrameError {
    /// The reply code for a peer that sent this.
    pub const fn reply_code(self) -> ReplyCode {
        ReplyCode::FrameError
    }

    /// The head of the frame in question.
    pub const fn head(self) -> FrameHead {
        match self {
            Self::TooLarge { head, .. } | Self::UnknownKind { head } | Self::WrongEnd { head, .. } => head,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { head, payload_bytes_max } => {
                write!(to, "a payload of {} bytes where {payload_bytes_max} are allowed", head.payload_bytes)
            }
            Self::UnknownKind { head } => write!(to, "unknown frame kind {}", head.kind),
            Self::WrongEnd { found, .. } => {
                write!(to, "a frame ends in {found:#04x} instead of 0xce")
            }
        }
    }
}

impl std::error::Error for FrameError {}

#[cfg(test)]
mod tests;
