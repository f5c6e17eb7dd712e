//! Why a connection ended in disorder, as text for operators and as a close code for the peer.

use crate::device::{CompletionStatus, DeviceError};
use crate::wire::{CloseCode, PrivateDataError, Reject};
use std::fmt;
use std::io;

/// Why a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// A message shorter than a header.
    ShortMessage {
        /// Its bytes.
        bytes: u32,
    },
    /// The length in the header differs from what arrived.
    LengthMismatch {
        /// The length in the header.
        announced: u32,
        /// The length of the received payload.
        arrived: u32,
    },
    /// An unknown type of message.
    UnknownKind {
        code: u8,
    },
    /// A message is missing or duplicated.
    OutOfSequence {
        /// Its number.
        got: u16,
        /// The expected number.
        expected: u16,
    },
    /// The payload is invalid for its type of message.
    InvalidPayload {
        of: &'static str,
    },
    /// The peer sent a message without credit.
    CreditExceeded,
    /// The peer returned more credits than were used.
    CreditOverReturned,
    /// The peer has more rendezvous open than allowed.
    TooManyRendezvous,
    /// A RENDEZVOUS or DONE has an unexpected number.
    RendezvousNumber,
    /// Bytes of the stream after its end.
    DataAfterClose,
    /// The peer did not read an offer in time.
    NotFetched,
    /// Nothing was received from the peer for too long.
    PeerSilent,
    /// The connection was not established in time.
    SetUpOverdue,
    /// A READ did not complete in time.
    ReadOverdue,
    /// A work request failed.
    WorkFailed(CompletionStatus),
    /// The peer disconnected without an orderly end.
    Disconnected,
    /// The peer closed the connection with this reason.
    ClosedByPeer(CloseCode, String),
    /// The peer rejected the connection.
    Rejected(Option<Reject>),
    /// The private data of the acceptance is invalid.
    InvalidPrivateData(PrivateDataError),
    DeviceFailed(String),
}

impl ConnectionFault {
    /// The close code to send, if the peer is at fault and the connection still exists.
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
            ConnectionFault::NotFetched | ConnectionFault::PeerSilent | ConnectionFault::ReadOverdue => {
                CloseCode::OVERDUE
            }
            _ => return None,
        })
    }
}

impl fmt::Display for ConnectionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionFault::ShortMessage { bytes } => write!(f, "a message of {bytes} bytes has no header"),
            ConnectionFault::LengthMismatch { announced: says, arrived } => {
                write!(f, "a header announces {says} bytes, {arrived} arrived")
            }
            ConnectionFault::UnknownKind { code } => write!(f, "no message has the type {code:#04x}"),
            ConnectionFault::OutOfSequence { got, expected } => {
                write!(f, "message {got} arrived instead of {expected}")
            }
            ConnectionFault::InvalidPayload { of } => write!(f, "the payload of a {of} is invalid"),
            ConnectionFault::CreditExceeded => f.write_str("the peer sent more than its credit"),
            ConnectionFault::CreditOverReturned => f.write_str("the peer returned more credits than were used"),
            ConnectionFault::TooManyRendezvous => f.write_str("the peer has too many rendezvous open"),
            ConnectionFault::RendezvousNumber => f.write_str("a rendezvous has an unexpected number"),
            ConnectionFault::DataAfterClose => f.write_str("bytes arrived after the end of the stream"),
            ConnectionFault::NotFetched => f.write_str("the peer did not read an offer in time"),
            ConnectionFault::PeerSilent => f.write_str("nothing was received from the peer"),
            ConnectionFault::SetUpOverdue => f.write_str("the connection was not established in time"),
            ConnectionFault::ReadOverdue => f.write_str("reading from the peer's memory took too long"),
            ConnectionFault::WorkFailed(status) => write!(f, "{status}"),
            ConnectionFault::Disconnected => f.write_str("the peer has disconnected"),
            ConnectionFault::ClosedByPeer(code, text) => write!(f, "the peer closed the connection ({code}): {text}"),
            ConnectionFault::Rejected(Some(reject)) => {
                let (least, most) = reject.versions;
                write!(
                    f,
                    "the peer rejected the connection: {} (it supports versions {least} to {most})",
                    reject.reason.as_str()
                )
            }
            ConnectionFault::Rejected(None) => {
                f.write_str("the peer rejected the connection: nobody listens there, or not for this protocol")
            }
            ConnectionFault::InvalidPrivateData(error) => write!(f, "the peer's answer is invalid: {error}"),
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
            ConnectionFault::PeerSilent
            | ConnectionFault::NotFetched
            | ConnectionFault::SetUpOverdue
            | ConnectionFault::ReadOverdue => io::ErrorKind::TimedOut,
            ConnectionFault::Rejected(_) => io::ErrorKind::ConnectionRefused,
            ConnectionFault::WorkFailed(_) | ConnectionFault::Disconnected | ConnectionFault::DeviceFailed(_) => {
                io::ErrorKind::ConnectionReset
            }
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, format!("RDMA: {fault}"))
    }
}
