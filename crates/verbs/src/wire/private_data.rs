//! The private data of the connection manager: what each end announces before the first message.

use super::array;
use crate::limits::{CREDITS_MIN, HELLO_BYTES, RECEIVE_BUFFER_BYTES_MIN, REJECT_BYTES, TOKEN_BYTES};
use std::fmt;

/// The first bytes of all private data: `HRDM`.
const MAGIC: [u8; 4] = *b"HRDM";
/// The oldest version of the protocol that is supported.
pub const VERSION_MIN: u8 = 1;
/// The newest version.
pub const VERSION_MAX: u8 = 1;
/// The flag for a token.
const HAS_TOKEN: u16 = 1;

/// Lets a client that has opened a connection by TCP or TLS continue it over RDMA, once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RdmaToken(pub [u8; TOKEN_BYTES]);

impl fmt::Debug for RdmaToken {
    /// Hides the value, because logs are read by many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RdmaToken(…)")
    }
}

/// What an end announces: in the private data of a connection request and of its acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest and the newest version it supports; in an acceptance both are the chosen one.
    pub versions: (u8, u8),
    /// Bytes of its receive buffers: the longest message to it, with the header.
    pub receive_buffer_bytes: u32,
    /// The initial credits: messages that may be sent to it before it returns a credit.
    pub credits: u16,
    /// Rendezvous that may be offered to it at once.
    pub rendezvous_max: u16,
    /// Bodies of at least this many bytes should be offered to it, not sent.
    pub rendezvous_threshold_bytes: u32,
    /// RDMA READs that it issues at once.
    pub reads_issued_max: u8,
    /// RDMA READs that it answers at once.
    pub reads_answered_max: u8,
    /// In a request: the token from the bootstrap connection.
    pub token: Option<RdmaToken>,
}

/// Why private data is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateDataError {
    /// It is too short.
    Short,
    /// It does not start with the magic bytes: the peer uses another protocol.
    Magic,
    /// A value in it is invalid.
    Value(&'static str),
}

impl fmt::Display for PrivateDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrivateDataError::Short => f.write_str("its private data is too short"),
            PrivateDataError::Magic => f.write_str("it does not speak this protocol"),
            PrivateDataError::Value(what) => write!(f, "its private data is invalid: {what}"),
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

    /// Decodes private data. Further bytes are ignored: connection managers pad, and later versions may add fields.
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

    /// The newest version that both ends support.
    pub fn version_with(&self, least: u8, most: u8) -> Option<u8> {
        let newest = self.versions.1.min(most);
        (newest >= self.versions.0.max(least)).then_some(newest)
    }
}

/// Why a listener rejects a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RejectReason {
    /// The private data of the request is invalid.
    Malformed = 1,
    /// There is no version in common; the rejection contains the listener's versions.
    Version = 2,
    /// Connections without a token are not accepted.
    TokenNeeded = 3,
    /// The token is unknown, used or expired.
    TokenWrong = 4,
    /// There are no receive buffers left.
    Busy = 5,
    /// The listener is shutting down.
    Shutdown = 6,
}

impl RejectReason {
    pub const ALL: [RejectReason; 6] = [
        RejectReason::Malformed,
        RejectReason::Version,
        RejectReason::TokenNeeded,
        RejectReason::TokenWrong,
        RejectReason::Busy,
        RejectReason::Shutdown,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RejectReason::Malformed => "our private data is malformed",
            RejectReason::Version => "no version in common",
            RejectReason::TokenNeeded => "a token is needed: open the connection by TCP or TLS first",
            RejectReason::TokenWrong => "the token is unknown, used or expired",
            RejectReason::Busy => "the peer has no receive buffers left",
            RejectReason::Shutdown => "the peer is shutting down",
        }
    }
}

/// The private data of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Why.
    pub reason: RejectReason,
    /// The versions that the listener supports.
    pub versions: (u8, u8),
}

impl Reject {
    /// The bytes.
    pub fn encode(self) -> [u8; REJECT_BYTES] {
        let [a, b, c, d] = MAGIC;
        let [e, f] = (self.reason as u16).to_be_bytes();
        [a, b, c, d, e, f, self.versions.0, self.versions.1]
    }

    /// Decodes a rejection; `None` if it is not of this protocol: another program's, or the device's own.
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
        assert_eq!(wrong(Hello { versions: (2, 1), ..HELLO }), "its private data is invalid: versions");
        assert_eq!(wrong(Hello { credits: 1, ..HELLO }), "its private data is invalid: too few credits");
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
