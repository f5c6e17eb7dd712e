//! Writing fields into memory whose size was computed before.
//!
//! Enters: values.  Leaves: bytes in the caller's slice.
//! Owns:   nothing but the place of the next byte.

use crate::short_str::ShortStr;

/// A slice being filled from its beginning, and the octet that consecutive bits go into.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
    /// Mask of the next bit in the octet before `at`; 0 when the next bit opens a new octet.
    bit_next: u8,
}

impl<'a> Writer<'a> {
    #[inline(always)]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0, bit_next: 0 }
    }

    /// Asserts that the slice was filled to its last byte.
    #[inline(always)]
    pub fn finish(self) {
        assert_eq!(self.at, self.out.len(), "the encoded length differs from the computed one");
    }

    #[inline(always)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bit_next = 0;
        self.out[self.at..][..bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    #[inline(always)]
    pub fn u8(&mut self, value: u8) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline(always)]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline(always)]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline(always)]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline(always)]
    pub fn bit(&mut self, set: bool) {
        if self.bit_next == 0 {
            self.u8(0);
            self.bit_next = 1;
        }
        if set {
            self.out[self.at - 1] |= self.bit_next;
        }
        self.bit_next = self.bit_next.wrapping_shl(1);
    }

    #[inline(always)]
    pub fn short_str(&mut self, text: ShortStr<'_>) {
        // A ShortStr is known to be short.
        self.u8(text.len() as u8);
        self.bytes(text.as_bytes());
    }

    /// Panics over 4 GiB, which no frame can hold.
    #[inline(always)]
    pub fn long_str(&mut self, bytes: &[u8]) {
        self.u32(length_u32(bytes.len()));
        self.bytes(bytes);
    }
}

/// A length as the wire has it. Panics over 4 GiB, which no frame can hold.
#[inline(always)]
pub(crate) fn length_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a field of more than 4 GiB cannot be sent")
}
