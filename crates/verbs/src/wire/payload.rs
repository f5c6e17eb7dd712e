//! The payloads of messages: rendezvous descriptors, their DONE, and reasons to close.

use super::array;
use crate::limits::{CLOSE_TEXT_BYTES_MAX, DESCRIPTOR_BYTES, DONE_BYTES, RENDEZVOUS_BYTES_MAX};
use std::fmt;

/// The location of bytes of the stream in the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RendezvousDescriptor {
    /// The number of this rendezvous in its direction, from zero, modulo 2^32.
    pub number: u32,
    /// The number of bytes.
    pub bytes: u32,
    /// Their address in the sender's memory.
    pub address: u64,
    /// The remote key.
    pub key: u32,
}

impl RendezvousDescriptor {
    /// The payload.
    pub fn encode(self) -> [u8; DESCRIPTOR_BYTES] {
        let mut payload = [0; DESCRIPTOR_BYTES];
        payload[..4].copy_from_slice(&self.number.to_be_bytes());
        payload[4..8].copy_from_slice(&self.bytes.to_be_bytes());
        payload[8..16].copy_from_slice(&self.address.to_be_bytes());
        payload[16..20].copy_from_slice(&self.key.to_be_bytes());
        payload
    }

    /// Decodes a descriptor; `None` if it cannot be valid: no bytes, too many, or a range that overflows.
    pub fn decode(payload: &[u8]) -> Option<RendezvousDescriptor> {
        let payload: &[u8; DESCRIPTOR_BYTES] = payload.try_into().ok()?;
        let descriptor = RendezvousDescriptor {
            number: u32::from_be_bytes(array(payload, 0)?),
            bytes: u32::from_be_bytes(array(payload, 4)?),
            address: u64::from_be_bytes(array(payload, 8)?),
            key: u32::from_be_bytes(array(payload, 16)?),
        };
        let reserved = array::<4>(payload, 20)? == [0; 4];
        let some = (1..=RENDEZVOUS_BYTES_MAX).contains(&descriptor.bytes);
        let ends = descriptor.address.checked_add(u64::from(descriptor.bytes)).is_some();
        (reserved && some && ends).then_some(descriptor)
    }
}

/// The payload of a DONE for every rendezvous up to `number`.
pub fn encode_done(number: u32) -> [u8; DONE_BYTES] {
    number.to_be_bytes()
}

/// The number in the payload of a DONE.
pub fn decode_done(payload: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(payload.try_into().ok()?))
}

/// Why an end closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// The other end violated the protocol.
    pub const PROTOCOL: CloseCode = CloseCode(1);
    /// A time limit was exceeded.
    pub(crate) const OVERDUE: CloseCode = CloseCode(2);
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CloseCode::PROTOCOL => f.write_str("protocol violation"),
            CloseCode::OVERDUE => f.write_str("time-out"),
            CloseCode(code) => write!(f, "code {code}"),
        }
    }
}

/// The payload of a CLOSE with a reason, whose text is cut to fit. A CLOSE without payload ends the stream in order.
pub fn encode_close(code: CloseCode, text: &str) -> ([u8; 2 + CLOSE_TEXT_BYTES_MAX], usize) {
    let mut payload = [0; 2 + CLOSE_TEXT_BYTES_MAX];
    payload[..2].copy_from_slice(&code.0.to_be_bytes());
    let mut bytes = text.len().min(CLOSE_TEXT_BYTES_MAX);
    while !text.is_char_boundary(bytes) {
        bytes -= 1;
    }
    payload[2..2 + bytes].copy_from_slice(&text.as_bytes()[..bytes]);
    (payload, 2 + bytes)
}

/// The code and text of a CLOSE with a payload; `None` if it is malformed.
pub fn decode_close(payload: &[u8]) -> Option<(CloseCode, String)> {
    let code = u16::from_be_bytes(array(payload, 0)?);
    let text = payload.get(2..).filter(|text| text.len() <= CLOSE_TEXT_BYTES_MAX)?;
    // The text is shown to operators, so control characters are removed.
    let text = String::from_utf8_lossy(text).chars().filter(|message| !message.is_control()).collect();
    Some((CloseCode(code), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_documents() {
        let descriptor = RendezvousDescriptor {
            number: 0x01020304,
            bytes: 0x00060708,
            address: 0x090A0B0C0D0E0F10,
            key: 0x11121314,
        };
        let payload = descriptor.encode();
        assert_eq!(payload[..8], [1, 2, 3, 4, 0, 6, 7, 8]);
        assert_eq!(payload[8..], [9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0, 0, 0, 0]);
        assert_eq!(RendezvousDescriptor::decode(&payload), Some(descriptor));
    }

    #[test]
    fn what_cannot_be_true_is_no_descriptor() {
        let sound = RendezvousDescriptor { number: 1, bytes: 4_096, address: 1 << 40, key: 5 };
        for broken in [
            RendezvousDescriptor { bytes: 0, ..sound },
            RendezvousDescriptor { bytes: RENDEZVOUS_BYTES_MAX + 1, ..sound },
            RendezvousDescriptor { bytes: u32::MAX, ..sound },
            RendezvousDescriptor { address: u64::MAX - 10, ..sound },
        ] {
            assert_eq!(RendezvousDescriptor::decode(&broken.encode()), None, "{broken:?}");
        }
        let mut reserved = sound.encode();
        reserved[23] = 1;
        assert_eq!(RendezvousDescriptor::decode(&reserved), None);
    }

    #[test]
    fn a_reason_is_cut_at_a_letter() {
        let text = "é".repeat(60);
        let (payload, bytes) = encode_close(CloseCode::PROTOCOL, &text);
        let (code, read) = decode_close(&payload[..bytes]).expect("a reason");
        assert_eq!(code, CloseCode::PROTOCOL);
        assert!(text.starts_with(&read) && read.len() > CLOSE_TEXT_BYTES_MAX - 2);
    }
}
