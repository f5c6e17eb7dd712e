//! The eight bytes that every message begins with.
//!
//! Enters: their values, or the bytes of a message.  Leaves: the bytes, or the values.
//! Owns:   the codes of the seven kinds.
//! Never:  compares with what is expected; the engine does that.

use super::array;
use crate::limits::{MESSAGE_HEADER_BYTES, PAYLOAD_BYTES_MAX};

/// What a message is for.
///
/// All codes have an even number of ones: a single flipped bit gives no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// Bytes of the stream.
    Data = 0x03,
    /// Nothing but the credits in its header.
    Credit = 0x05,
    /// Bytes of the stream that the receiver reads from the sender's memory: a [`Descriptor`](super::Descriptor).
    Rendezvous = 0x06,
    /// Such bytes were read; the grant may end.
    Done = 0x09,
    /// Asks for a sign of life.
    Ping = 0x0A,
    /// Gives it.
    Pong = 0x0C,
    /// The end of the sender's stream, or of everything and why.
    Close = 0x0F,
}

impl MessageKind {
    /// All kinds.
    pub const ALL: [MessageKind; 7] =
        [MessageKind::Data, MessageKind::Credit, MessageKind::Rendezvous, MessageKind::Done, MessageKind::Ping, MessageKind::Pong, MessageKind::Close];

    /// The kind of a code.
    pub fn from_code(code: u8) -> Option<MessageKind> {
        MessageKind::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Bytes behind the header; 24 bits.
    pub payload_bytes: u32,
    /// What the message is for.
    pub kind: MessageKind,
    /// How many credits the sender of this message has returned since the connection began, modulo 2^16.
    pub returned: u16,
    /// The number of the message in its direction, from zero, modulo 2^16.
    pub sequence: u16,
}

impl MessageHeader {
    /// The bytes.
    ///
    /// # Panics
    /// If the payload is beyond 24 bits, which is a mistake of the caller's.
    pub fn encode(self) -> [u8; MESSAGE_HEADER_BYTES] {
        assert!(self.payload_bytes <= PAYLOAD_BYTES_MAX, "a payload beyond 24 bits");
        let [_, a, b, c] = self.payload_bytes.to_be_bytes();
        let [d, e] = self.returned.to_be_bytes();
        let [f, g] = self.sequence.to_be_bytes();
        [a, b, c, self.kind as u8, d, e, f, g]
    }

    /// The header of a message. `Err` has the code of an unknown kind; `None` in it: the message is too short for a header.
    pub fn decode(message: &[u8]) -> Result<MessageHeader, Option<u8>> {
        let [a, b, c, code, d, e, f, g] = array::<MESSAGE_HEADER_BYTES>(message, 0).ok_or(None)?;
        Ok(MessageHeader {
            payload_bytes: u32::from_be_bytes([0, a, b, c]),
            kind: MessageKind::from_code(code).ok_or(Some(code))?,
            returned: u16::from_be_bytes([d, e]),
            sequence: u16::from_be_bytes([f, g]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_documents() {
        let header = MessageHeader { payload_bytes: 0x01_02_03, kind: MessageKind::Done, returned: 0x0405, sequence: 0x0607 };
        assert_eq!(header.encode(), [1, 2, 3, 9, 4, 5, 6, 7]);
        assert_eq!(MessageHeader::decode(&header.encode()), Ok(header));
        assert_eq!(MessageHeader::decode(&[0; 7]), Err(None));
    }

    #[test]
    fn a_flipped_bit_in_the_kind_gives_no_kind() {
        for kind in MessageKind::ALL {
            for bit in 0..8 {
                assert_eq!(MessageKind::from_code(kind as u8 ^ 1 << bit), None);
            }
        }
    }
}
