//! Why a connection ended that nobody wanted to end.
//!
//! Enters: what a peer did, or a device, or time.  Leaves: words for an operator and for the peer.
//! Owns:   the list.
//! Never:  ends anything itself.

use crate::device::{DeviceError, Status};
use crate::wire::{CloseCode, PrivateError, Reject};
use std::fmt;
use std::io;

/// Why a connection broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A message shorter than a header.
    Short {
        /// Its bytes.
        bytes: u32,
    },
    /// The header says another length than what arrived.
    Length {
        /// What it says, without itself.
        says: u32,
        /// What arrived, without the header.
        arrived: u32,
    },
    /// No kind of message has this code.
    UnknownKind {
        /// The code.
        code: u8,
    },
    /// A message is missing, or came twice.
    Sequence {
        /// Its number.
        got: u16,
        /// The one that was next.
        expected: u16,
    },
    /// The payload is none of its kind.
    Payload {
        /// The kind.
        of: &'static str,
    },
    /// The peer sent more than it was allowed.
    BeyondCredit,
    /// The peer returned more credits than it had taken.
    CreditsInvented,
    /// The peer offers more rendezvous than it may.
    TooManyRendezvous,
    /// A rendezvous or its end has a number that is not next.
    RendezvousNumber,
    /// Bytes of the stream behind its end.
    AfterEnd,
    /// The peer never read what it was offered.
    NotFetched,
    /// Nothing was heard of the peer.
    Silent,
    /// The connection did not stand in time.
    SetUpOverdue,
    /// A READ did not end in time.
    ReadOverdue,
    /// A piece of work failed.
    Work(Status),
    /// The peer is gone without an orderly end.
    Disconnected,
    /// The peer gave up and said why.
    Told(CloseCode, String),
    /// The peer does not want the connection.
    Rejected(Option<Reject>),
    /// The acceptance makes no sense.
    Private(PrivateError),
    /// The device does not take work.
    Device(String),
}

impl Fault {
    /// What the peer is told, if it is its doing; it cannot be told when the connection is gone.
    pub(crate) fn code(&self) -> Option<CloseCode> {
        Some(match self {
            Fault::Short { .. }
            | Fault::Length { .. }
            | Fault::UnknownKind { .. }
            | Fault::Sequence { .. }
            | Fault::Payload { .. }
            | Fault::BeyondCredit
            | Fault::CreditsInvented
            | Fault::TooManyRendezvous
            | Fault::RendezvousNumber
            | Fault::AfterEnd => CloseCode::PROTOCOL,
            Fault::NotFetched | Fault::Silent | Fault::ReadOverdue => CloseCode::OVERDUE,
            _ => return None,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short { bytes } => write!(f, "a message of {bytes} bytes has no header"),
            Fault::Length { says, arrived } => write!(f, "a header says {says} bytes, {arrived} arrived"),
            Fault::UnknownKind { code } => write!(f, "no message has the type {code:#04x}"),
            Fault::Sequence { got, expected } => write!(f, "message {got} came where {expected} was next"),
            Fault::Payload { of } => write!(f, "the payload is none of a {of}"),
            Fault::BeyondCredit => f.write_str("the peer sent more than its credit"),
            Fault::CreditsInvented => f.write_str("the peer returned credits that it did not have"),
            Fault::TooManyRendezvous => f.write_str("the peer offers more rendezvous than it may"),
            Fault::RendezvousNumber => f.write_str("a rendezvous is not the next one"),
            Fault::AfterEnd => f.write_str("bytes came behind the end of the stream"),
            Fault::NotFetched => f.write_str("the peer did not read in time what it was offered"),
            Fault::Silent => f.write_str("nothing was heard of the peer"),
            Fault::SetUpOverdue => f.write_str("the connection did not stand in time"),
            Fault::ReadOverdue => f.write_str("reading from the peer's memory took too long"),
            Fault::Work(status) => write!(f, "{status}"),
            Fault::Disconnected => f.write_str("the peer is gone"),
            Fault::Told(code, text) => write!(f, "the peer gave up ({code}): {text}"),
            Fault::Rejected(Some(reject)) => {
                let (least, most) = reject.versions;
                write!(f, "the peer refused: {} (it speaks versions {least} to {most})", reject.why.as_str())
            }
            Fault::Rejected(None) => f.write_str("the peer refused: nobody listens there, or not for this protocol"),
            Fault::Private(error) => write!(f, "the peer's answer is wrong: {error}"),
            Fault::Device(why) => f.write_str(why),
        }
    }
}

impl From<DeviceError> for Fault {
    fn from(error: DeviceError) -> Self {
        Fault::Device(error.0)
    }
}

impl From<&Fault> for io::Error {
    fn from(fault: &Fault) -> Self {
        let kind = match fault {
            Fault::Silent | Fault::NotFetched | Fault::SetUpOverdue | Fault::ReadOverdue => io::ErrorKind::TimedOut,
            Fault::Rejected(_) => io::ErrorKind::ConnectionRefused,
            Fault::Work(_) | Fault::Disconnected | Fault::Device(_) => io::ErrorKind::ConnectionReset,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, format!("RDMA: {fault}"))
    }
}
