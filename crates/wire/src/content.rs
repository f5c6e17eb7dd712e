//! The content header: class, body size, properties.
//!
//! Enters: the payload of a header frame.  Leaves: a `ContentHeader`; and back.
//! Owns:   the fixed part in front of the properties (AMQP 0-9-1 §4.2.6.1).

use crate::{error::DecodeError, properties::RawProperties, read::Reader, write::Writer};

/// Bytes in front of the property flags: class, weight, body size.
pub(crate) const CONTENT_HEADER_FIXED_BYTES: usize = 12;

/// What a header frame says about the content it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// The class of the method before it.
    pub class_id: u16,
    /// Bytes of the body, over all body frames; 0 means that none follows.
    pub body_bytes: u64,
    /// Property flags and values, not validated.
    pub properties: RawProperties<'a>,
}

impl<'a> ContentHeader<'a> {
    /// Reads the payload of a header frame. The properties are all that is left; `RawProperties::validate` checks them.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(payload);
        let class_id = from.u16()?;
        let weight = from.u16()?;
        let body_bytes = from.u64()?;
        if weight != 0 {
            return Err(DecodeError::Weight { weight });
        }
        Ok(Self { class_id, body_bytes, properties: RawProperties::new(from.rest()) })
    }

    /// Bytes of the payload.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        CONTENT_HEADER_FIXED_BYTES + self.properties.as_bytes().len()
    }

    /// Writes the payload into `out`, which must be exactly `encoded_len()` bytes long (panics otherwise).
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        let mut to = Writer::new(out);
        to.u16(self.class_id);
        to.u16(0);
        to.u64(self.body_bytes);
        to.bytes(self.properties.as_bytes());
        to.finish();
    }
}
