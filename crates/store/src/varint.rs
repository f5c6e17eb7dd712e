//! Numbers of variable length: seven bits a byte, the lowest first, as in LEB128 and protocol buffers.

/// Bytes of the longest number.
pub const VARINT_BYTES_MAX: usize = 10;

/// Writes a number at the front of `out`, and returns its length.
///
/// # Panics
/// If there are fewer than [`VARINT_BYTES_MAX`] bytes and it needs them.
#[inline]
pub fn write(out: &mut [u8], mut value: u64) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

/// Reads a number from the front of `bytes`, which it shortens; `None` if there is none that fits into 64 bits.
#[inline]
pub fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(first.into());
    }
    read_long(bytes)
}

fn read_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().enumerate().take(VARINT_BYTES_MAX) {
        let bits = u64::from(byte & 0x7f);
        if at == VARINT_BYTES_MAX - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}

/// A signed difference as an unsigned number: small ones of either sign stay short.
#[inline]
pub fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The number that is so far from `from`: undoes [`zigzag`].
#[inline]
pub fn unzigzag(from: u64, encoded: u64) -> u64 {
    from.wrapping_add((encoded >> 1) ^ 0u64.wrapping_sub(encoded & 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_read_as_it_was_written(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = [0xff; VARINT_BYTES_MAX + 1];
            let len = write(&mut out, value);
            let mut rest = &out[..];
            prop_assert_eq!(read(&mut rest), Some(value));
            prop_assert_eq!(rest.len(), out.len() - len);
            prop_assert_eq!(read(&mut &out[..len - 1]), None, "a number that is cut off is none");
        }

        #[test]
        fn a_difference_leads_back(from: u64, to: u64) {
            prop_assert_eq!(unzigzag(from, zigzag(from, to)), to);
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        assert_eq!(read(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..]), None);
        assert_eq!(read(&mut &[0xff; 11][..]), None);
        assert_eq!(read(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..]), Some(u64::MAX));
    }
}
