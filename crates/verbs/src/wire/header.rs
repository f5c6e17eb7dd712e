//! The eight bytes that start every message.

use super::array;
use crate::limits::{MESSAGE_HEADER_BYTES, PAYLOAD_BYTES_MAX};

/// The type of a message.
///
/// All codes have an even number of ones, so a single flipped bit gives an invalid code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// Bytes of the stream.
    Data = 0x03,
    /// No payload, only the credits in its header.
    Credit = 0x05,
    /// Bytes of the stream that the receiver reads from the sender's memory: a
    /// [`RendezvousDescriptor`](super::RendezvousDescriptor).
    Rendezvous = 0x06,
    /// Rendezvous were read; their grants may be revoked.
    Done = 0x09,
    /// Requests a PONG.
    Ping = 0x0A,
    /// Answers a PING.
    Pong = 0x0C,
    /// The end of the sender's stream, or with a reason the end of the connection.
    Close = 0x0F,
}

impl MessageKind {
    pub const ALL: [MessageKind; 7] = [
        MessageKind::Data,
        MessageKind::Credit,
        MessageKind::Rendezvous,
        MessageKind::Done,
        MessageKind::Ping,
        MessageKind::Pong,
        MessageKind::Close,
    ];

    pub(crate) fn from_code(code: u8) -> Option<MessageKind> {
        MessageKind::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Bytes after the header; 24 bits.
    pub payload_bytes: u32,
    pub kind: MessageKind,
    /// Credits that the sender has returned since the connection began, modulo 2^16.
    pub returned: u16,
    /// The sequence number of the message in its direction, from zero, modulo 2^16.
    pub sequence: u16,
}

impl MessageHeader {
    /// The bytes.
    ///
    /// # Panics
    /// If the payload length exceeds 24 bits.
    pub fn encode(self) -> [u8; MESSAGE_HEADER_BYTES] {
        assert!(self.payload_bytes <= PAYLOAD_BYTES_MAX, "a payload beyond 24 bits");
        let [_, a, b, c] = self.payload_bytes.to_be_bytes();
        let [d, e] = self.returned.to_be_bytes();
        let [f, g] = self.sequence.to_be_bytes();
        [a, b, c, self.kind as u8, d, e, f, g]
    }

    /// The header of a message. The error is an unknown code, or `None` if the message is shorter than a header.
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
        let header =
            MessageHeader { payload_bytes: 0x01_02_03, kind: MessageKind::Done, returned: 0x0405, sequence: 0x0607 };
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
