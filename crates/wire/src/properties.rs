//! Message properties of the `basic` class: in wire form, or owned.
//!
//! Enters: property flags and values of a content header.  Leaves: single properties, found when asked for.
//! Owns:   the order of the flags (AMQP 0-9-1 §4.2.6.1, §1.8).

#[cfg(test)]
mod tests;

use crate::{
    error::DecodeError,
    limits::TABLE_DEPTH_MAX,
    read::Reader,
    short_str::{ShortStr, ShortString},
    table::{Table, TableRef},
};

/// Flag of a second word of flags; the `basic` class has none.
const FLAG_CONTINUED: u16 = 1 << 0;
/// Not defined by the `basic` class.
const FLAG_UNDEFINED: u16 = 1 << 1;

/// Property flags and values as a content header carries them. Two zero octets are none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawProperties<'a>(&'a [u8]);

/// How one property is coded.
trait Property<'a>: Sized {
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError>;

    fn check(self) -> Result<(), DecodeError> {
        Ok(())
    }
}

impl<'a> Property<'a> for u8 {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.u8()
    }
}

impl<'a> Property<'a> for u64 {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.u64()
    }
}

impl<'a> Property<'a> for ShortStr<'a> {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.short_str()
    }
}

impl<'a> Property<'a> for TableRef<'a> {
    #[inline(always)]
    fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.long_str().map(TableRef::new)
    }

    fn check(self) -> Result<(), DecodeError> {
        self.validate(TABLE_DEPTH_MAX)
    }
}

/// How one owned property is coded.
trait OwnedProperty {
    fn encoded_len(&self) -> usize;
    fn encode(&self, out: &mut Vec<u8>);
}

impl OwnedProperty for u8 {
    fn encoded_len(&self) -> usize {
        1
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
}

impl OwnedProperty for u64 {
    fn encoded_len(&self) -> usize {
        8
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl OwnedProperty for ShortString {
    fn encoded_len(&self) -> usize {
        1 + self.as_bytes().len()
    }
    fn encode(&self, out: &mut Vec<u8>) {
        // A ShortString is known to be short.
        out.push(self.as_bytes().len() as u8);
        out.extend_from_slice(self.as_bytes());
    }
}

impl OwnedProperty for Table {
    fn encoded_len(&self) -> usize {
        Table::encoded_len(self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        Table::encode(self, out);
    }
}

macro_rules! properties {
    ($( $(#[$doc:meta])* $bit:literal $name:ident: $borrowed:ty, $owned:ty, |$value:ident| $convert:expr; )*) => {
        impl<'a> RawProperties<'a> {
            /// Refuses malformed values, unknown flags, left-over bytes, and headers nested deeper than
            /// `TABLE_DEPTH_MAX`. The accessors of validated properties miss nothing.
            #[inline]
            pub fn validate(self) -> Result<(), DecodeError> {
                if self.0 == Self::EMPTY.0 {
                    return Ok(());
                }
                let mut from = Reader::new(self.0);
                let flags = from.u16()?;
                if flags & (FLAG_CONTINUED | FLAG_UNDEFINED) != 0 {
                    return Err(DecodeError::UnknownProperty { flags });
                }
                $(
                    if flags & (1 << $bit) != 0 {
                        <$borrowed>::take(&mut from)?.check()?;
                    }
                )*
                from.finish()
            }

            $(
                $(#[$doc])*
                ///
                /// `None` if it is not set, or if something before it is malformed.
                #[inline]
                pub fn $name(self) -> Option<$borrowed> {
                    let mut from = Reader::new(self.0);
                    let flags = self.skip_to($bit, &mut from)?;
                    if flags & (1 << $bit) == 0 {
                        return None;
                    }
                    <$borrowed>::take(&mut from).ok()
                }
            )*

            /// Moves `from` behind the flags and every property whose flag is higher than `bit`; gives the flags.
            #[inline(always)]
            fn skip_to(self, bit: u16, from: &mut Reader<'a>) -> Option<u16> {
                let flags = from.u16().ok()?;
                $(
                    if $bit > bit && flags & (1 << $bit) != 0 {
                        <$borrowed>::take(from).ok()?;
                    }
                )*
                Some(flags)
            }

            /// A copy on the heap, each property by itself. Refuses what `validate` refuses.
            pub fn to_properties(self) -> Result<Properties, DecodeError> {
                self.validate()?;
                Ok(Properties {
                    $( $name: match self.$name() {
                        Some($value) => Some($convert),
                        None => None,
                    }, )*
                })
            }
        }

        /// Message properties, each by itself. `Properties { delivery_mode: Some(2), ..Default::default() }`.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Properties {
            $( $(#[$doc])* pub $name: Option<$owned>, )*
        }

        impl Properties {
            /// Bytes of flags and values.
            pub fn encoded_len(&self) -> usize {
                2 $( + self.$name.as_ref().map_or(0, OwnedProperty::encoded_len) )*
            }

            /// Appends flags and values.
            pub fn encode(&self, out: &mut Vec<u8>) {
                let flags: u16 = 0 $( | (u16::from(self.$name.is_some()) << $bit) )*;
                out.extend_from_slice(&flags.to_be_bytes());
                $( if let Some(value) = &self.$name { value.encode(out); } )*
            }

            /// Flags and values: what `RawProperties::new` takes.
            pub fn to_bytes(&self) -> Vec<u8> {
                let mut out = Vec::with_capacity(self.encoded_len());
                self.encode(&mut out);
                out
            }
        }
    };
}

properties! {
    /// The body's MIME type.
    15 content_type: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// The body's MIME encoding.
    14 content_encoding: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// What the application adds; headers exchanges match it.
    13 headers: TableRef<'a>, Table, |table| table.to_table()?;
    /// 1 is transient, 2 is persistent.
    12 delivery_mode: u8, u8, |mode| mode;
    /// 0 to 9 by the specification, to 255 in RabbitMQ.
    11 priority: u8, u8, |priority| priority;
    /// Relates a reply to its request.
    10 correlation_id: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// Where a reply shall go.
    9 reply_to: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// Milliseconds the message may wait, as decimal digits.
    8 expiration: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// The application's name of this message.
    7 message_id: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// Seconds since 1970, as the application says.
    6 timestamp: u64, u64, |seconds| seconds;
    /// The application's name of this kind of message (`type`).
    5 kind: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// Who published it; a broker checks it.
    4 user_id: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// The publishing application.
    3 app_id: ShortStr<'a>, ShortString, |text| text.to_owned();
    /// Left from AMQP 0-8.
    2 cluster_id: ShortStr<'a>, ShortString, |text| text.to_owned();
}

impl<'a> RawProperties<'a> {
    /// No property is set.
    pub const EMPTY: RawProperties<'static> = RawProperties(&[0, 0]);

    /// The properties of these bytes: flags and values. Nothing is checked yet.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Flags and values.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether there are headers: looks at the flags alone.
    #[inline]
    pub fn has_headers(self) -> bool {
        matches!(self.0, [flags, ..] if flags & 1 << 5 != 0)
    }

    /// Whether a queue for answers is named: looks at the flags alone.
    #[inline]
    pub fn has_reply_to(self) -> bool {
        matches!(self.0, [flags, ..] if flags & 1 << 1 != 0)
    }

    /// Whether a user id is set: looks at the flags alone.
    #[inline]
    pub fn has_user_id(self) -> bool {
        matches!(self.0, [_, flags, ..] if flags & 1 << 4 != 0)
    }

    /// Whether an expiration is set: looks at the flags alone.
    #[inline]
    pub fn has_expiration(self) -> bool {
        matches!(self.0, [flags, ..] if flags & 1 != 0)
    }

    /// Appends these properties with other headers to `out`. `headers` gets the entries there are (those behind the table's
    /// length) and appends those there shall be. Without `expiration` that property is left out. Properties that are not
    /// validated may come out empty.
    pub fn rewrite(self, expiration: bool, out: &mut Vec<u8>, headers: impl FnOnce(&[u8], &mut Vec<u8>)) {
        const HEADERS: u16 = 13;
        const EXPIRATION: u16 = 8;
        let behind = |bit: u16| {
            let mut from = Reader::new(self.0);
            self.skip_to(bit, &mut from).map(|flags| (flags, self.0.len() - from.rest().len()))
        };
        let spots = (behind(HEADERS), behind(HEADERS - 1), behind(EXPIRATION), behind(EXPIRATION - 1));
        let (Some((flags, to_headers)), Some((_, from_headers)), Some((_, to_expiration)), Some((_, from_expiration))) =
            spots
        else {
            return out.extend_from_slice(Self::EMPTY.0);
        };
        let flags = flags | 1 << HEADERS;
        let flags = if expiration { flags } else { flags & !(1 << EXPIRATION) };
        out.reserve(self.0.len() + 64);
        out.extend_from_slice(&flags.to_be_bytes());
        out.extend_from_slice(&self.0[2..to_headers]);
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        headers(self.0.get(to_headers + 4..from_headers).unwrap_or_default(), out);
        let length = crate::write::length_u32(out.len() - length_at - 4);
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
        let to_expiration = if expiration { from_expiration } else { to_expiration };
        out.extend_from_slice(&self.0[from_headers..to_expiration]);
        out.extend_from_slice(&self.0[from_expiration..]);
    }

    /// Appends these properties without the user id to `out`. Properties that are not validated may come out empty.
    pub fn without_user_id(self, out: &mut Vec<u8>) {
        const USER_ID: u16 = 4;
        let behind = |bit: u16| {
            let mut from = Reader::new(self.0);
            self.skip_to(bit, &mut from).map(|flags| (flags, self.0.len() - from.rest().len()))
        };
        let (Some((flags, start)), Some((_, end))) = (behind(USER_ID), behind(USER_ID - 1)) else {
            return out.extend_from_slice(Self::EMPTY.0);
        };
        out.extend_from_slice(&(flags & !(1 << USER_ID)).to_be_bytes());
        out.extend_from_slice(&self.0[2..start]);
        out.extend_from_slice(&self.0[end..]);
    }

    /// Whether the message shall survive a restart (delivery mode 2).
    #[inline]
    pub fn is_persistent(self) -> bool {
        self.delivery_mode() == Some(2)
    }
}

impl Default for RawProperties<'_> {
    fn default() -> Self {
        RawProperties::EMPTY
    }
}
