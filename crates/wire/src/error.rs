//! What can be wrong with a payload.
//!
//! Leaves: one enum, with the reply code that tells the peer.
//! Owns:   the wording of decoding failures.

use crate::reply::ReplyCode;
use std::fmt;

/// Why a payload (of a method or a content header) or a table is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A field reaches past the end of what holds it.
    Truncated,
    /// Bytes are left over behind the last field.
    Trailing { bytes: usize },
    /// No method has these numbers.
    UnknownMethod {
        /// The class asked for.
        class_id: u16,
        /// The method asked for.
        method_id: u16,
    },
    /// A table or list holds a value of a type that does not exist.
    UnknownFieldType {
        /// The type octet.
        tag: u8,
    },
    /// Tables and lists are nested deeper than allowed.
    TooDeep {
        /// What is allowed.
        depth_max: usize,
    },
    /// A property flag is set that the `basic` class does not define, or a second word of flags is announced.
    UnknownProperty {
        /// The flags as received.
        flags: u16,
    },
    /// The weight of a content header is not zero (AMQP 0-9-1 §4.2.6.1).
    Weight {
        /// The weight as received.
        weight: u16,
    },
}

impl DecodeError {
    /// The reply code for a peer that sent this; all of them concern the connection.
    pub const fn reply_code(self) -> ReplyCode {
        match self {
            Self::Truncated
            | Self::Trailing { .. }
            | Self::UnknownFieldType { .. }
            | Self::TooDeep { .. }
            | Self::UnknownProperty { .. } => ReplyCode::SyntaxError,
            Self::UnknownMethod { .. } => ReplyCode::NotImplemented,
            Self::Weight { .. } => ReplyCode::FrameError,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated => write!(to, "a field reaches past its end"),
            Self::Trailing { bytes } => write!(to, "{bytes} bytes behind the last field"),
            Self::UnknownMethod { class_id, method_id } => write!(to, "unknown method {method_id} of class {class_id}"),
            Self::UnknownFieldType { tag } => write!(to, "unknown field type {tag:#04x}"),
            Self::TooDeep { depth_max } => write!(to, "tables nested deeper than {depth_max}"),
            Self::UnknownProperty { flags } => write!(to, "unknown property in flags {flags:#06x}"),
            Self::Weight { weight } => write!(to, "content weight {weight} is not 0"),
        }
    }
}

impl std::error::Error for DecodeError {}
