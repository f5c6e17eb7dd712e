//! Reading fields from a payload, one after the other.
//!
//! Enters: a slice.  Leaves: integers and sub-slices of it.
//! Owns:   the bounds checks of the whole crate.

use crate::{error::DecodeError, short_str::ShortStr};

/// What is left of a payload, and the octet that consecutive bits are taken from (AMQP 0-9-1 §4.2.5.2).
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    bits: u8,
    /// Mask of the next bit in `bits`; 0 when the next bit opens a new octet.
    bit_next: u8,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    pub const fn new(input: &'a [u8]) -> Self {
        Self { rest: input, bits: 0, bit_next: 0 }
    }

    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Refuses what is left over.
    #[inline(always)]
    pub const fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing { bytes: self.rest.len() }) }
    }

    #[inline(always)]
    pub const fn rest(self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.bit_next = 0;
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline(always)]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        self.bit_next = 0;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline(always)]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_be_bytes)
    }

    #[inline(always)]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline(always)]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline(always)]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bits that follow each other share an octet, the first in its lowest bit.
    #[inline(always)]
    pub fn bit(&mut self) -> Result<bool, DecodeError> {
        if self.bit_next == 0 {
            self.bits = self.u8()?;
            self.bit_next = 1;
        }
        let set = self.bits & self.bit_next != 0;
        self.bit_next = self.bit_next.wrapping_shl(1);
        Ok(set)
    }

    #[inline(always)]
    pub fn short_str(&mut self) -> Result<ShortStr<'a>, DecodeError> {
        let count = self.u8()?;
        self.bytes(count.into()).map(ShortStr::of_short_bytes)
    }

    #[inline(always)]
    pub fn long_str(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.u32()?;
        self.bytes(usize::try_from(count).map_err(|_| DecodeError::Truncated)?)
    }
}
