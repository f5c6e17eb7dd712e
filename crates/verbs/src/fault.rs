//! Why a connection ended that nobody wanted to end.
//!
//! Enters: what a peer did, or a device, or time.  Leaves: words for an operator and for the peer.
//! Owns:   the list.
//! Never:  ends anything itself.

use crate::device::{DeviceError, CompletionStatus};
use crate::wire::{CloseCode, PrivateDataError, Reject};
use std::fmt;
use std::io;

/// Why a connection broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// A message shorter than a header.
    ShortMessage {
        /// Its bytes.
        bytes: u32,
    },
    /// The header says another length than what arrived.
    LengthMismatch {
        /// What it says, without itself.
        announced: u32,
        /// What arrived, without the header.
        arrived: u32,
    },
    /// No kind of message has this code.
    UnknownKind {
        /// The code.
        code: u8,
    },
    /// A message is missing, or came twice.
    OutOfSequence {
        /// Its number.
        got: u16,
        /// The one that was next.
        expected: u16,
    },
    /// The payload is none of its kind.
    InvalidPayload {
        /// The kind.
        of: &'static str,
    },
    /// The peer sent more than it was allowed.
    CreditExceeded,
    /// The peer returned more credits than it had taken.
    CreditOverReturned,
    /// The peer offers more rendezvous than it may.
    TooManyRendezvous,
    /// A rendezvous or its end has a number that is not next.
    RendezvousNumber,
    /// Bytes of the stream behind its end.
    DataAfterClose,
    /// The peer never read what it was offered.
    NotFetched,
    /// Nothing was heard of the peer.
    PeerSilent,
    /// The connection did not stand in time.
    SetUpOverdue,
    /// A READ did not end in time.
    ReadOverdue,
    /// A piece of work failed.
    WorkFailed(CompletionStatus),
    /// The peer is gone without an orderly end.
    Disconnected,
    /// The peer gave up and said why.
    ClosedByPeer(CloseCode, String),
    /// The peer does not want the connection.
    Rejected(Option<Reject>),
    /// The acceptance makes no sense.
    InvalidPrivateData(PrivateDataError),
    /// The device does not take work.
    DeviceFailed(String),
}

impl ConnectionFault {
    /// What the peer is told, if it is its doing; it cannot be told when the connection is gone.
    pub(crate) fn close_code(&self) -> Option<CloseCode> {
        Some(match self {
            ConnectionFault::ShortMessage { .. }
            | ConnectionFault::LengthMismatch { .. }
            | ConnectionFault::UnknownKind { .. }
            | ConnectionFault::OutOfSequence { .. }
            | ConnectionFault::InvalidPayload { .. }
            | ConnectionFault::CreditExceeded
            | ConnectionFault::CreditOverReturned
            | ConnectionFault::TooManyRendezvous
            | ConnectionFault::RendezvousNumber
            | ConnectionFault::DataAfterClose => CloseCode::PROTOCOL,
            ConnectionFault::NotFetched | ConnectionFault::PeerSilent | ConnectionFault::ReadOverdue => CloseCode::OVERDUE,
            _ => return None,
        })
    }
}

impl fmt::Display for ConnectionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionFault::ShortMessage { bytes } => write!(f, "a message of {bytes} bytes has no header"),
            ConnectionFault::LengthMismatch { announced: says, arrived } => write!(f, "a header says {says} bytes, {arrived} arrived"),
            ConnectionFault::UnknownKind { code } => write!(f, "no message has the type {code:#04x}"),
            ConnectionFault::OutOfSequence { got, expected } => write!(f, "message {got} came where {expected} was next"),
            ConnectionFault::InvalidPayload { of } => write!(f, "the payload is none of a {of}"),
            ConnectionFault::CreditExceeded => f.write_str("the peer sent more than its credit"),
            ConnectionFault::CreditOverReturned => f.write_str("the peer returned credits that it did not have"),
            ConnectionFault::TooManyRendezvous => f.write_str("the peer offers more rendezvous than it may"),
            ConnectionFault::RendezvousNumber => f.write_str("a rendezvous is not the next one"),
            ConnectionFault::DataAfterClose => f.write_str("bytes came behind the end of the stream"),
            ConnectionFault::NotFetched => f.write_str("the peer did not read in time what it was offered"),
            ConnectionFault::PeerSilent => f.write_str("nothing was heard of the peer"),
            ConnectionFault::SetUpOverdue => f.write_str("the connection did not stand in time"),
            ConnectionFault::ReadOverdue => f.write_str("reading from the peer's memory took too long"),
            ConnectionFault::WorkFailed(status) => write!(f, "{status}"),
            ConnectionFault::Disconnected => f.write_str("the peer is gone"),
            ConnectionFault::ClosedByPeer(code, text) => write!(f, "the peer gave up ({code}): {text}"),
            ConnectionFault::Rejected(Some(reject)) => {
                let (least, most) = reject.versions;
                write!(f, "the peer refused: {} (it speaks versions {least} to {most})", reject.reason.as_str())
            }
            ConnectionFault::Rejected(None) => f.write_str("the peer refused: nobody listens there, or not for this protocol"),
            ConnectionFault::InvalidPrivateData(error) => write!(f, "the peer's answer is wrong: {error}"),
            ConnectionFault::DeviceFailed(why) => f.write_str(why),
        }
    }
}

impl From<DeviceError> for ConnectionFault {
    fn from(error: DeviceError) -> Self {
        ConnectionFault::DeviceFailed(error.0)
    }
}

impl From<&ConnectionFault> for io::Error {
    fn from(fault: &ConnectionFault) -> Self {
        let kind = match fault {
            ConnectionFault::PeerSilent | ConnectionFault::NotFetched | ConnectionFault::SetUpOverdue | ConnectionFault::ReadOverdue => io::ErrorKind::TimedOut,
            ConnectionFault::Rejected(_) => io::ErrorKind::ConnectionRefused,
            ConnectionFault::WorkFailed(_) | ConnectionFault::Disconnected | ConnectionFault::DeviceFailed(_) => io::ErrorKind::ConnectionReset,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, format!("RDMA: {fault}"))
    }
}
