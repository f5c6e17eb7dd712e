//! The sequence number at the start of a body.

/// Bytes of a body for its sequence number, little-endian: as many as fit, at most eight.
pub const SEQUENCE_BYTES_MAX: usize = 8;

/// Writes a message's sequence number to the start of its body.
#[inline]
pub fn write_sequence(body: &mut [u8], sequence: u64) {
    let bytes = sequence.to_le_bytes();
    let [b0, b1, b2, b3, ..] = bytes;
    // Specialised for the sizes that benchmarks use, to avoid a loop.
    match body {
        [] => {}
        [one] => *one = b0,
        [one, two] => (*one, *two) = (b0, b1),
        [one, two, three, four] => (*one, *two, *three, *four) = (b0, b1, b2, b3),
        _ => match body.first_chunk_mut() {
            Some(first) => *first = bytes,
            None => body.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte),
        },
    }
}

/// Reads the sequence number.
#[inline(always)]
pub(crate) fn sequence_of(body: &[u8]) -> u64 {
    match *body {
        [one] => u64::from(one),
        [one, two] => u64::from(u16::from_le_bytes([one, two])),
        [one, two, three, four] => u64::from(u32::from_le_bytes([one, two, three, four])),
        _ => match body.first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => body.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        },
    }
}
