//! Kinds of fields in methods: how each is read, counted and written.
//!
//! Enters: a `Reader` or `Writer` at the field.  Leaves: the field, and the cursor behind it.
//! Owns:   the mapping of Rust types to AMQP domains: `bool` is a bit, `&[u8]` a long string.

use crate::{
    error::DecodeError, ids::DeliveryTag, limits::TABLE_DEPTH_MAX, read::Reader, short_str::ShortStr, table::TableRef,
    write::Writer,
};

/// Bytes counted so far, and whether the next bit still fits the octet of the bit before.
#[derive(Default)]
pub(super) struct EncodedLength {
    pub bytes: usize,
    bits: u8,
}

impl EncodedLength {
    #[inline(always)]
    fn add(&mut self, bytes: usize) {
        self.bits = 0;
        self.bytes += bytes;
    }
}

/// A field of a method.
pub(super) trait Argument<'a>: Sized {
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError>;
    fn count(&self, count: &mut EncodedLength);
    fn put(&self, to: &mut Writer<'_>);
}

macro_rules! integer_arguments {
    ($($integer:ident)*) => {$(
        impl<'a> Argument<'a> for $integer {
            #[inline(always)]
            fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                from.$integer()
            }
            #[inline(always)]
            fn count(&self, count: &mut EncodedLength) {
                count.add(size_of::<Self>());
            }
            #[inline(always)]
            fn put(&self, to: &mut Writer<'_>) {
                to.$integer(*self);
            }
        }
    )*};
}

integer_arguments!(u8 u16 u32 u64);

impl<'a> Argument<'a> for DeliveryTag {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.u64().map(Self)
    }
    #[inline(always)]
    fn count(&self, count: &mut EncodedLength) {
        self.0.count(count);
    }
    #[inline(always)]
    fn put(&self, to: &mut Writer<'_>) {
        to.u64(self.0);
    }
}

impl<'a> Argument<'a> for bool {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.bit()
    }
    #[inline(always)]
    fn count(&self, count: &mut EncodedLength) {
        if count.bits.is_multiple_of(8) {
            count.bytes += 1;
        }
        count.bits += 1;
    }
    #[inline(always)]
    fn put(&self, to: &mut Writer<'_>) {
        to.bit(*self);
    }
}

impl<'a> Argument<'a> for ShortStr<'a> {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.short_str()
    }
    #[inline(always)]
    fn count(&self, count: &mut EncodedLength) {
        count.add(1 + self.len());
    }
    #[inline(always)]
    fn put(&self, to: &mut Writer<'_>) {
        to.short_str(*self);
    }
}

impl<'a> Argument<'a> for &'a [u8] {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.long_str()
    }
    #[inline(always)]
    fn count(&self, count: &mut EncodedLength) {
        count.add(4 + self.len());
    }
    #[inline(always)]
    fn put(&self, to: &mut Writer<'_>) {
        to.long_str(self);
    }
}

impl<'a> Argument<'a> for TableRef<'a> {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let table = TableRef::new(from.long_str()?);
        table.validate(TABLE_DEPTH_MAX)?;
        Ok(table)
    }
    #[inline(always)]
    fn count(&self, count: &mut EncodedLength) {
        count.add(4 + self.as_bytes().len());
    }
    #[inline(always)]
    fn put(&self, to: &mut Writer<'_>) {
        to.long_str(self.as_bytes());
    }
}
