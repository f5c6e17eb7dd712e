//! Methods: one enum over every class, each variant a struct of borrowed fields.
//!
//! Enters: the payload of a method frame.  Leaves: a `Method`; and back.
//! Owns:   how a method's numbers and its arguments go together.
//!
//! The methods themselves are the table in `method/classes.rs`, how each kind of field is coded is in
//! `method/argument.rs`. A session that knows what comes may call `basic::Publish::decode` and its like directly.

mod argument;
mod classes;
#[cfg(test)]
mod tests;

pub use classes::{Method, access, basic, channel, confirm, connection, exchange, queue, tx};

use crate::ids::ChannelNumber;
use crate::{
    error::DecodeError,
    frame::{FRAME_HEAD_BYTES, FRAME_METHOD, FRAME_OVERHEAD_BYTES, enclose},
};

/// Bytes of a method payload before its arguments: class and method number.
pub const METHOD_ID_BYTES: usize = 4;

/// The numbers at the beginning of a method payload, and its arguments.
#[inline]
pub fn split_id(payload: &[u8]) -> Result<((u16, u16), &[u8]), DecodeError> {
    match payload {
        &[class_0, class_1, method_0, method_1, ref arguments @ ..] => {
            Ok(((u16::from_be_bytes([class_0, class_1]), u16::from_be_bytes([method_0, method_1])), arguments))
        }
        _ => Err(DecodeError::Truncated),
    }
}

impl<'a> Method<'a> {
    /// The method in a payload. Every table in it is validated, to `TABLE_DEPTH_MAX`; bytes left over are refused.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let (id, arguments) = split_id(payload)?;
        Self::decode_arguments(id, arguments)
    }

    /// Bytes of the payload: numbers and arguments.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        METHOD_ID_BYTES + self.arguments_len()
    }

    /// Bytes of the whole frame.
    #[inline]
    pub fn frame_len(&self) -> usize {
        FRAME_OVERHEAD_BYTES + self.encoded_len()
    }

    /// Writes the payload into `out`, which must be exactly `encoded_len()` bytes long (panics otherwise).
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        let (class_id, method_id) = self.id();
        let (id, arguments) = out.split_at_mut(METHOD_ID_BYTES);
        id[..2].copy_from_slice(&class_id.to_be_bytes());
        id[2..].copy_from_slice(&method_id.to_be_bytes());
        self.encode_arguments(arguments);
    }

    /// Writes the whole frame into `out`, which must be exactly `frame_len()` bytes long (panics otherwise).
    #[inline]
    pub fn encode_frame(&self, channel: ChannelNumber, out: &mut [u8]) {
        enclose(FRAME_METHOD, channel, out);
        let end = out.len() - 1;
        self.encode(&mut out[FRAME_HEAD_BYTES..end]);
    }

    /// Whether a content header and body frames follow it.
    #[inline]
    pub const fn has_content(&self) -> bool {
        matches!(self, Self::BasicPublish(_) | Self::BasicReturn(_) | Self::BasicDeliver(_) | Self::BasicGetOk(_))
    }
}

/// Appends the frame of a method to `out`.
pub fn encode_frame(channel: ChannelNumber, method: &Method<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + method.frame_len(), 0);
    method.encode_frame(channel, &mut out[start..]);
}
