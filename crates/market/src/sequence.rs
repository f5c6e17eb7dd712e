//! Sequence numbers in messages: the low 24 bits of a 64-bit number, and their expansion.

use crate::limits::SEQUENCE_BITS;

const MASK: u64 = (1 << SEQUENCE_BITS) - 1;
const HALF: u64 = 1 << (SEQUENCE_BITS - 1);

/// The low `SEQUENCE_BITS` bits of a sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShortSequence(u32);

impl ShortSequence {
    /// Truncates a full number.
    #[inline]
    pub fn of(whole: u64) -> Self {
        Self((whole & MASK) as u32)
    }

    /// The bits as they are in a message.
    #[inline]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The full number with these low bits that is nearest to another: less than 2^23 above it, or at most that far
    /// below. Near 0, if there is no such number below, it is the one above.
    #[inline]
    pub(crate) fn expand_near(self, other: u64) -> u64 {
        let ahead = u64::from(self.0).wrapping_sub(other) & MASK;
        if ahead < HALF {
            return other.saturating_add(ahead);
        }
        let behind = MASK + 1 - ahead;
        if behind <= other { other - behind } else { other + ahead }
    }

    /// From three bytes in big-endian order.
    #[inline]
    pub(crate) fn read(bytes: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
    }

    #[inline]
    pub(crate) fn write(self) -> [u8; 3] {
        let [_, high, middle, low] = self.0.to_be_bytes();
        [high, middle, low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_number_is_the_nearest_whole_one() {
        const WRAP: u64 = 1 << SEQUENCE_BITS;
        for (whole, near) in [
            (0, 0),
            (5, 0),
            (0, 5),
            (WRAP, WRAP - 1),
            (WRAP - 1, WRAP),
            (WRAP - 1, WRAP + HALF - 1),
            (WRAP + HALF - 1, WRAP),
            (WRAP - HALF, WRAP),
            (7 * WRAP + 3, 7 * WRAP - 3),
            (u64::MAX >> 8, (u64::MAX >> 8) - 4_000_000),
        ] {
            assert_eq!(ShortSequence::of(whole).expand_near(near), whole, "{whole} near {near}");
            assert_eq!(ShortSequence::read(ShortSequence::of(whole).write()), ShortSequence::of(whole));
        }
    }

    #[test]
    fn below_0_there_is_nothing() {
        assert_eq!(ShortSequence::of((1 << SEQUENCE_BITS) - 1).expand_near(0), (1 << SEQUENCE_BITS) - 1);
    }
}
