//! What can go wrong in a client.
//!
//! Enters: closes of the server, faults of the link, misuse.  Leaves: one enum with clear texts.
//! Owns:   the words.

use std::fmt;
use wire::{ChannelNumber, Escaped};

use link::LinkError;
use session::ProtocolFault;

/// Why a call failed.
#[derive(Debug)]
pub enum ClientError {
    /// The address is not understood.
    Url {
        /// What is wrong with it.
        why: String,
    },
    /// No connection could be made, or it broke.
    Link(LinkError),
    /// The server ended the connection.
    ConnectionClosed {
        /// The reply code (AMQP 0-9-1 §1.2).
        code: u16,
        /// The reply text.
        text: String,
    },
    /// The server closed the channel; the connection goes on.
    ChannelClosed {
        /// The channel's number.
        channel: ChannelNumber,
        /// The reply code.
        code: u16,
        /// The reply text.
        text: String,
    },
    /// The channel is not open: never opened, or closed by this program.
    ChannelNotOpen {
        /// The channel's number.
        channel: ChannelNumber,
    },
    /// The server broke the protocol.
    Protocol(ProtocolFault),
    /// The server answered with a method that does not belong here.
    Unexpected { awaited: &'static str, came: &'static str },
    /// No answer, or no room to send, in time.
    TimedOut { awaited: &'static str },
    /// A name or key of more than 255 bytes.
    TooLong {
        /// How many bytes.
        bytes: usize,
    },
    /// More deliveries arrived than the client sets aside while it waits for an answer (`limits::ASIDE_BYTES_MAX`).
    TooMuchAside,
    /// The server does not say that it understands this extension, so it is not asked for it.
    NotAnnounced {
        /// The extension's name among a server's capabilities.
        what: &'static str,
    },
    /// The program wanted the call to end (`ConnectOptions::interrupt`). What it asked the server for may still happen.
    Interrupted,
    /// The call was made by `Client::begin` and is answered later.
    Pending,
    /// What was begun before (`Client::begin`) is not answered yet.
    Unanswered,
    /// All channel numbers that were agreed on are in use.
    NoChannelLeft,
    /// The client was closed before.
    Closed,
}

impl ClientError {
    /// Whether nothing more can be done with the connection.
    pub fn ends_connection(&self) -> bool {
        !matches!(
            self,
            Self::Url { .. }
                | Self::ChannelClosed { .. }
                | Self::ChannelNotOpen { .. }
                | Self::TooLong { .. }
                | Self::NotAnnounced { .. }
                | Self::NoChannelLeft
                | Self::Interrupted
                | Self::Pending
                | Self::Unanswered
        )
    }
}

/// The outcome of a call.
pub type Result<T> = std::result::Result<T, ClientError>;

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { why } => write!(f, "{why}"),
            Self::Link(error) => write!(f, "{error}"),
            Self::ConnectionClosed { code, text } => {
                write!(f, "the server closed the connection: {code} {}", Escaped(text))
            }
            Self::ChannelClosed { channel, code, text } => {
                write!(f, "the server closed channel {channel}: {code} {}", Escaped(text))
            }
            Self::ChannelNotOpen { channel } => write!(f, "channel {channel} is not open"),
            Self::Protocol(fault) => write!(f, "the server broke the protocol: {}", Escaped(&fault.text)),
            Self::Unexpected { awaited, came } => write!(f, "the server answered {came} instead of {awaited}"),
            Self::TimedOut { awaited } => write!(f, "no {awaited} in time"),
            Self::TooLong { bytes } => write!(f, "a name of {bytes} bytes; AMQP takes at most 255"),
            Self::TooMuchAside => f.write_str("more deliveries arrived than are set aside while waiting for an answer"),
            Self::NotAnnounced { what } => write!(f, "the broker does not offer {what}"),
            Self::Interrupted => f.write_str("the call was interrupted"),
            Self::Pending => f.write_str("the call is answered later"),
            Self::Unanswered => f.write_str("an earlier call is not answered yet"),
            Self::NoChannelLeft => f.write_str("no channel number is left"),
            Self::Closed => f.write_str("the connection is closed"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LinkError> for ClientError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<std::io::Error> for ClientError {
    fn from(error: std::io::Error) -> Self {
        Self::Link(LinkError::Lost(error))
    }
}

impl From<ProtocolFault> for ClientError {
    fn from(fault: ProtocolFault) -> Self {
        Self::Protocol(fault)
    }
}

impl From<wire::TooLong> for ClientError {
    fn from(error: wire::TooLong) -> Self {
        Self::TooLong { bytes: error.bytes }
    }
}
