//! Writes and verifies every byte of a message body, for `-c`.
//!
//! The layout is an eight-byte sequence number, a four-byte checksum and a pattern that is the same in each message.
//!
//! The checksum is the CRC-32 of the pattern followed by the sequence number, so that the sender extends the pattern's sum by
//! eight bytes per message. The receiver sums the whole body. A body of fewer than twelve bytes has no space for a sum: its
//! bytes after the sequence number are compared with the pattern, and a wrong number shows as a lost, duplicate, reordered
//! or stray message. Either way every byte is checked.

use crc32fast::Hasher;

use crate::sequence_number::{SEQUENCE_BYTES_MAX, write_sequence};

const SUM_BYTES: usize = 4;
const HEAD_BYTES: usize = SEQUENCE_BYTES_MAX + SUM_BYTES;

/// The stamp of all bodies of one size.
#[derive(Clone, Debug)]
pub struct BodyStamp {
    pattern: Vec<u8>,
    /// Checksum state after the pattern.
    begun: Hasher,
}

impl BodyStamp {
    pub fn new(size_bytes: usize) -> Self {
        // Each position has its own byte, as far as 251 and 8 bits allow: a part that is moved or cut is detected.
        let pattern: Vec<u8> =
            (0..size_bytes).map(|index| (index % 251) as u8 ^ (index / 251).wrapping_mul(31) as u8).collect();
        let mut begun = Hasher::new();
        begun.update(pattern.get(HEAD_BYTES..).unwrap_or_default());
        Self { pattern, begun }
    }

    pub fn size_bytes(&self) -> usize {
        self.pattern.len()
    }

    /// Fills a body with the constant part; once is enough for a reused body.
    pub fn fill(&self, body: &mut [u8]) {
        assert_eq!(body.len(), self.pattern.len(), "a stamp is for bodies of its size");
        body.copy_from_slice(&self.pattern);
    }

    /// Writes a message's sequence number and checksum into a filled body.
    #[inline]
    pub fn write(&self, body: &mut [u8], sequence: u64) {
        write_sequence(body, sequence);
        if let Some((number, sum)) =
            body.get_mut(..HEAD_BYTES).and_then(|head| head.split_at_mut_checked(SEQUENCE_BYTES_MAX))
        {
            let mut hasher = self.begun.clone();
            hasher.update(number);
            sum.copy_from_slice(&hasher.finalize().to_le_bytes());
        }
    }

    /// Whether a body is intact; in a body too short for a checksum the sequence number is not verified.
    #[inline]
    pub fn holds(&self, body: &[u8]) -> bool {
        if body.len() != self.pattern.len() {
            return false;
        }
        match body.split_at_checked(HEAD_BYTES) {
            Some((head, rest)) => {
                let (number, sum) = head.split_at(SEQUENCE_BYTES_MAX);
                let mut hasher = Hasher::new();
                hasher.update(rest);
                hasher.update(number);
                hasher.finalize().to_le_bytes() == sum
            }
            None => body.get(SEQUENCE_BYTES_MAX..) == self.pattern.get(SEQUENCE_BYTES_MAX..),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_is_noticed() {
        for size_bytes in [0, 1, 4, 8, 9, 11, 12, 13, 64, 4_096] {
            let stamp = BodyStamp::new(size_bytes);
            let mut body = vec![0; size_bytes];
            stamp.fill(&mut body);
            stamp.write(&mut body, 0x0102_0304_0506_0708);
            assert!(stamp.holds(&body), "{size_bytes}");
            let first = if size_bytes < HEAD_BYTES { SEQUENCE_BYTES_MAX } else { 0 };
            for index in first..size_bytes {
                body[index] ^= 0x10;
                assert!(!stamp.holds(&body), "{size_bytes} bytes, byte {index}");
                body[index] ^= 0x10;
            }
            assert!(!stamp.holds(&vec![0; size_bytes + 1]), "another size");
        }
    }

    #[test]
    fn a_part_of_another_place_is_noticed() {
        let stamp = BodyStamp::new(8_192);
        let mut body = vec![0; 8_192];
        stamp.fill(&mut body);
        stamp.write(&mut body, 5);
        body.copy_within(4_096..4_160, 2_048);
        assert!(!stamp.holds(&body));
    }

    #[test]
    fn a_body_is_stamped_again_and_again() {
        let stamp = BodyStamp::new(100);
        let mut body = vec![0; 100];
        stamp.fill(&mut body);
        for sequence in 0..1_000 {
            stamp.write(&mut body, sequence);
            assert!(stamp.holds(&body), "{sequence}");
        }
    }
}
