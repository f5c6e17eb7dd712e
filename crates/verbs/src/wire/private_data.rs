//! The private data of the connection manager: what each end says of itself before the first message.
//!
//! Enters: values, or the bytes of a peer.  Leaves: the bytes, or the values.
//! Owns:   the layout, the versions, the reasons of a refusal.
//! Never:  decides whether a peer is welcome.

use super::array;
use crate::limits::{CREDITS_MIN, HELLO_BYTES, RECEIVE_BUFFER_BYTES_MIN, REJECT_BYTES, TOKEN_BYTES};
use std::fmt;

/// The first bytes of all private data: `HRDM`.
const MAGIC: [u8; 4] = *b"HRDM";
/// The oldest version this tree speaks.
pub const VERSION_MIN: u8 = 1;
/// The newest.
pub const VERSION_MAX: u8 = 1;
/// The flag that says that a token follows.
const HAS_TOKEN: u16 = 1;

/// What lets a client move an AMQP connection that it opened elsewhere onto a queue pair, once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RdmaToken(pub [u8; TOKEN_BYTES]);

impl fmt::Debug for RdmaToken {
    /// Says nothing of what is in it: logs are read by many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What an end says of itself: with the request for a connection, and with its acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest and the newest version it speaks; in an acceptance both are the one that was chosen.
    pub versions: (u8, u8),
    /// Bytes of each of its receive buffers, headers included: no message to it is longer.
    pub receive_buffer_bytes: u32,
    /// Messages it may be sent before it has returned a credit.
    pub credits: u16,
    /// Rendezvous it may be offered and has not done with.
    pub rendezvous_max: u16,
    /// Bodies of at least this many bytes are better offered to it than sent.
    pub rendezvous_threshold_bytes: u32,
    /// RDMA READs that it will have under way at once.
    pub reads_issued_max: u8,
    /// RDMA READs that it answers at once.
    pub reads_answered_max: u8,
    /// What it was given over another connection, in a request.
    pub token: Option<RdmaToken>,
}

/// Why private data is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateDataError {
    /// It is shorter than it must be.
    Short,
    /// It does not begin as ours does: another protocol's peer.
    Magic,
    /// A value in it cannot be.
    Value(&'static str),
}

impl fmt::Display for PrivateDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrivateDataError::Short => f.write_str("its private data is too short"),
            PrivateDataError::Magic => f.write_str("it does not speak this protocol"),
            PrivateDataError::Value(what) => write!(f, "its private data is wrong: {what}"),
        }
    }
}

impl Hello {
    /// The bytes.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.versions.0;
        bytes[5] = self.versions.1;
        let flags = if self.token.is_some() { HAS_TOKEN } else { 0 };
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.receive_buffer_bytes.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.credits.to_be_bytes());
        bytes[14..16].copy_from_slice(&self.rendezvous_max.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.rendezvous_threshold_bytes.to_be_bytes());
        bytes[20] = self.reads_issued_max;
        bytes[21] = self.reads_answered_max;
        if let Some(RdmaToken(token)) = &self.token {
            bytes[24..].copy_from_slice(token);
        }
        bytes
    }

    /// What a peer says. Bytes behind it are not looked at: connection managers pad, and later versions may say more.
    pub fn decode(bytes: &[u8]) -> Result<Hello, PrivateDataError> {
        let bytes: [u8; HELLO_BYTES] = array(bytes, 0).ok_or(PrivateDataError::Short)?;
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..4] != MAGIC {
            return Err(PrivateDataError::Magic);
        }
        let mut token = [0; TOKEN_BYTES];
        token.copy_from_slice(&bytes[24..]);
        let hello = Hello {
            versions: (bytes[4], bytes[5]),
            receive_buffer_bytes: u32_at(8),
            credits: u16_at(12),
            rendezvous_max: u16_at(14),
            rendezvous_threshold_bytes: u32_at(16),
            reads_issued_max: bytes[20],
            reads_answered_max: bytes[21],
            token: (u16_at(6) & HAS_TOKEN != 0).then_some(RdmaToken(token)),
        };
        let wrong = |what| Err(PrivateDataError::Value(what));
        match hello {
            _ if hello.versions.0 > hello.versions.1 => wrong("versions"),
            _ if hello.receive_buffer_bytes < RECEIVE_BUFFER_BYTES_MIN => wrong("receive buffers are too small"),
            _ if hello.credits < CREDITS_MIN => wrong("too few credits"),
            _ => Ok(hello),
        }
    }

    /// The newest version that both speak.
    pub fn version_with(&self, least: u8, most: u8) -> Option<u8> {
        let newest = self.versions.1.min(most);
        (newest >= self.versions.0.max(least)).then_some(newest)
    }
}

/// Why a listener does not want a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RejectReason {
    /// The private data of the request made no sense.
    Malformed = 1,
    /// No version that both speak; the reject names those of the listener.
    Version = 2,
    /// Connections without a token are not let in here.
    TokenNeeded = 3,
    /// The token is unknown, was used, or is too old.
    TokenWrong = 4,
    /// There are no receive buffers left to promise.
    Busy = 5,
    /// The listener is about to stop.
    Shutdown = 6,
}

impl RejectReason {
    /// All of them.
    pub const ALL: [RejectReason; 6] = [
        RejectReason::Malformed,
        RejectReason::Version,
        RejectReason::TokenNeeded,
        RejectReason::TokenWrong,
        RejectReason::Busy,
        RejectReason::Shutdown,
    ];

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            RejectReason::Malformed => "our private data is malformed",
            RejectReason::Version => "no version in common",
            RejectReason::TokenNeeded => "a token is needed: open the connection by TCP or TLS first",
            RejectReason::TokenWrong => "the token is unknown, used or too old",
            RejectReason::Busy => "no receive buffers are left there",
            RejectReason::Shutdown => "it is about to stop",
        }
    }
}

/// The private data of a reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Why.
    pub reason: RejectReason,
    /// The versions that the listener speaks.
    pub versions: (u8, u8),
}

impl Reject {
    /// The bytes.
    pub fn encode(self) -> [u8; REJECT_BYTES] {
        let [a, b, c, d] = MAGIC;
        let [e, f] = (self.reason as u16).to_be_bytes();
        [a, b, c, d, e, f, self.versions.0, self.versions.1]
    }

    /// Why a listener refused; `None` if these bytes do not say: another program, or the device itself.
    pub fn decode(bytes: &[u8]) -> Option<Reject> {
        let [a, b, c, d, e, f, least, most] = array::<REJECT_BYTES>(bytes, 0)?;
        let code = u16::from_be_bytes([e, f]);
        let why = RejectReason::ALL.into_iter().find(|why| *why as u16 == code)?;
        ([a, b, c, d] == MAGIC).then_some(Reject { reason: why, versions: (least, most) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello {
        versions: (1, 3),
        receive_buffer_bytes: 4_096,
        credits: 16,
        rendezvous_max: 8,
        rendezvous_threshold_bytes: 0x1_0000,
        reads_issued_max: 1,
        reads_answered_max: 4,
        token: Some(RdmaToken([7; 16])),
    };

    #[test]
    fn the_layout_is_the_documents() {
        let bytes = HELLO.encode();
        assert_eq!(bytes[..8], [b'H', b'R', b'D', b'M', 1, 3, 0, 1]);
        assert_eq!(bytes[8..24], [0, 0, 16, 0, 0, 16, 0, 8, 0, 1, 0, 0, 1, 4, 0, 0]);
        assert_eq!(bytes[24..], [7; 16]);
        let mut padded = bytes.to_vec();
        padded.resize(56, 0);
        assert_eq!(Hello::decode(&padded), Ok(HELLO));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let wrong = |hello: Hello| Hello::decode(&hello.encode()).expect_err("wrong").to_string();
        assert_eq!(wrong(Hello { versions: (2, 1), ..HELLO }), "its private data is wrong: versions");
        assert_eq!(wrong(Hello { credits: 1, ..HELLO }), "its private data is wrong: too few credits");
        assert!(wrong(Hello { receive_buffer_bytes: 10, ..HELLO }).contains("too small"));
        assert_eq!(Hello::decode(b"HRDM"), Err(PrivateDataError::Short));
        assert_eq!(Hello::decode(&[0; 56]), Err(PrivateDataError::Magic));
    }

    #[test]
    fn the_newest_version_of_both_is_chosen() {
        for (theirs, ours, expect) in [
            ((1, 1), (1, 1), Some(1)),
            ((1, 5), (1, 3), Some(3)),
            ((2, 4), (1, 3), Some(3)),
            ((4, 5), (1, 3), None),
            ((1, 1), (2, 3), None),
        ] {
            let hello = Hello { versions: theirs, ..HELLO };
            assert_eq!(hello.version_with(ours.0, ours.1), expect, "{theirs:?} {ours:?}");
        }
    }

    #[test]
    fn every_refusal_can_be_read() {
        for why in RejectReason::ALL {
            let reject = Reject { reason: why, versions: (1, 2) };
            assert_eq!(Reject::decode(&reject.encode()), Some(reject));
        }
        assert_eq!(Reject::decode(&[0; 148]), None);
    }
}
