//! The first 32 bytes of every body, little-endian: message number, intended and actual send time, and a checksum of the body.

use crc32fast::Hasher;

/// Bytes of the stamp, and of the smallest body.
pub const STAMP_BYTES: usize = 32;
/// The offset of the checksum.
const SUM_PLACE: usize = 12;

/// The stamp at the start of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadStamp {
    /// The run's number; a message of another run is a stray.
    pub run: u32,
    /// The publisher.
    pub stream: u32,
    /// Its messages are numbered from 0.
    pub sequence: u32,
    /// The intended send time on the machine's monotonic clock.
    pub due_ns: u64,
    /// The actual send time.
    pub sent_ns: u64,
}

impl WorkloadStamp {
    /// Writes it to the start of a body, which must be long enough.
    #[inline]
    pub fn write(&self, body: &mut [u8]) {
        body[0..4].copy_from_slice(&self.run.to_le_bytes());
        body[4..8].copy_from_slice(&self.stream.to_le_bytes());
        body[8..12].copy_from_slice(&self.sequence.to_le_bytes());
        body[12..16].fill(0);
        body[16..24].copy_from_slice(&self.due_ns.to_le_bytes());
        body[24..32].copy_from_slice(&self.sent_ns.to_le_bytes());
    }

    /// Reads it; `None` if the body is too short.
    #[inline]
    pub fn read(body: &[u8]) -> Option<Self> {
        let stamp: &[u8; STAMP_BYTES] = body.first_chunk()?;
        let four = |at: usize| u32::from_le_bytes([stamp[at], stamp[at + 1], stamp[at + 2], stamp[at + 3]]);
        let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
        Some(Self { run: four(0), stream: four(4), sequence: four(8), due_ns: eight(16), sent_ns: eight(24) })
    }
}

/// The CRC-32 of a body except for the checksum itself.
fn sum(body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(body.get(..SUM_PLACE).unwrap_or_default());
    hasher.update(body.get(SUM_PLACE + 4..).unwrap_or_default());
    hasher.finalize()
}

/// Writes the checksum of a stamped body.
pub fn seal(body: &mut [u8]) {
    let sum = sum(body);
    body[SUM_PLACE..SUM_PLACE + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Whether the checksum of a body is correct.
pub(crate) fn holds(body: &[u8]) -> bool {
    body.get(SUM_PLACE..SUM_PLACE + 4) == Some(&sum(body).to_le_bytes())
}

/// The fill pattern after the stamp. Each position has its own byte, as far as 251 and 8 bits allow, so that a part that is moved
/// or cut is detected.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index % 251) as u8 ^ (index / 251).wrapping_mul(31) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back() {
        let stamp = WorkloadStamp { run: 1, stream: 2, sequence: u32::MAX - 3, due_ns: 1 << 40, sent_ns: 5 };
        let mut body = vec![0xff; 40];
        stamp.write(&mut body);
        assert_eq!(WorkloadStamp::read(&body), Some(stamp));
        assert_eq!(WorkloadStamp::read(&body[..STAMP_BYTES - 1]), None);
    }

    #[test]
    fn every_changed_byte_breaks_the_seal() {
        let mut body = pattern(1_000);
        WorkloadStamp { run: 1, stream: 2, sequence: 3, due_ns: 4, sent_ns: 5 }.write(&mut body);
        seal(&mut body);
        assert!(holds(&body));
        for index in 0..body.len() {
            body[index] ^= 4;
            assert!(!holds(&body), "byte {index}");
            body[index] ^= 4;
        }
        assert!(!holds(&body[..999]) && !holds(&[]) && holds(&body));
    }
}
