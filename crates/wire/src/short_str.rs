//! Short strings: at most 255 bytes, in no particular encoding.
//!
//! Enters: bytes or text.  Leaves: a view (`ShortStr`) or an owner (`ShortString`) that is known to be short.
//! Owns:   the promise that a length fits one octet.

use crate::limits::SHORT_STR_BYTES_MAX;
use std::{fmt, ops::Deref, str::Utf8Error};

/// A short string in somebody else's memory (AMQP 0-9-1 §4.2.5.3).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortStr<'a>(&'a [u8]);

/// More than 255 bytes were offered as a short string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    pub bytes: usize,
}

impl<'a> ShortStr<'a> {
    /// Nothing.
    pub const EMPTY: ShortStr<'static> = ShortStr(&[]);

    /// These bytes, unless there are more than 255.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Result<Self, TooLong> {
        if bytes.len() > SHORT_STR_BYTES_MAX { Err(TooLong { bytes: bytes.len() }) } else { Ok(Self(bytes)) }
    }

    /// A text of the program itself. Panics over 255 bytes: at compile time, in a `const`.
    pub const fn literal(text: &'static str) -> ShortStr<'static> {
        assert!(text.len() <= SHORT_STR_BYTES_MAX, "a literal short string over 255 bytes");
        ShortStr(text.as_bytes())
    }

    /// The beginning of `text`, as much as fits, cut between characters. For reply texts.
    pub fn truncated(text: &'a str) -> Self {
        Self(&text.as_bytes()[..text.floor_char_boundary(SHORT_STR_BYTES_MAX)])
    }

    /// The bytes.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text, if it is text.
    pub const fn to_str(self) -> Result<&'a str, Utf8Error> {
        std::str::from_utf8(self.0)
    }

    /// A copy on the heap.
    pub fn to_owned(self) -> ShortString {
        ShortString(self.0.into())
    }

    #[inline]
    pub(crate) const fn of_short_bytes(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.len() <= SHORT_STR_BYTES_MAX);
        Self(bytes)
    }
}

impl Deref for ShortStr<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl AsRef<[u8]> for ShortStr<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl<'a> TryFrom<&'a str> for ShortStr<'a> {
    type Error = TooLong;
    fn try_from(text: &'a str) -> Result<Self, TooLong> {
        Self::new(text.as_bytes())
    }
}

impl<'a> TryFrom<&'a [u8]> for ShortStr<'a> {
    type Error = TooLong;
    fn try_from(bytes: &'a [u8]) -> Result<Self, TooLong> {
        Self::new(bytes)
    }
}

impl PartialEq<str> for ShortStr<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for ShortStr<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Debug for ShortStr<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "\"{}\"", self.0.escape_ascii())
    }
}

/// Shows the text, with U+FFFD for what is not UTF-8.
impl fmt::Display for ShortStr<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&String::from_utf8_lossy(self.0), to)
    }
}

/// A short string that owns its bytes (16 bytes and one allocation; none when empty).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortString(Box<[u8]>);

impl ShortString {
    /// These bytes, unless there are more than 255.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, TooLong> {
        let bytes = bytes.into();
        if bytes.len() > SHORT_STR_BYTES_MAX { Err(TooLong { bytes: bytes.len() }) } else { Ok(Self(bytes)) }
    }

    /// A view of it.
    #[inline]
    pub(crate) fn as_short_str(&self) -> ShortStr<'_> {
        ShortStr(&self.0)
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is text.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.0)
    }
}

impl TryFrom<&str> for ShortString {
    type Error = TooLong;
    fn try_from(text: &str) -> Result<Self, TooLong> {
        ShortStr::try_from(text).map(ShortStr::to_owned)
    }
}

impl TryFrom<&[u8]> for ShortString {
    type Error = TooLong;
    fn try_from(bytes: &[u8]) -> Result<Self, TooLong> {
        ShortStr::new(bytes).map(ShortStr::to_owned)
    }
}

impl From<ShortStr<'_>> for ShortString {
    fn from(view: ShortStr<'_>) -> Self {
        view.to_owned()
    }
}

impl fmt::Debug for ShortString {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_short_str().fmt(to)
    }
}

impl fmt::Display for ShortString {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_short_str(), to)
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} bytes where a short string holds {SHORT_STR_BYTES_MAX}", self.bytes)
    }
}

impl std::error::Error for TooLong {}

#[cfg(test)]
mod tests {
    use super::{ShortStr, ShortString, TooLong};

    #[test]
    fn holds_255_bytes_and_no_more() {
        let text = "x".repeat(256);
        assert_eq!(ShortStr::try_from(text.as_str()), Err(TooLong { bytes: 256 }));
        assert_eq!(ShortString::try_from(text.as_str()), Err(TooLong { bytes: 256 }));
        assert_eq!(ShortString::new(text.as_bytes()), Err(TooLong { bytes: 256 }));
        assert_eq!(ShortStr::try_from(&text[..255]).map(|short| short.len()), Ok(255));
    }

    #[test]
    fn truncates_between_characters() {
        let text = format!("{}é", "x".repeat(254));
        assert_eq!(ShortStr::truncated(&text).len(), 254);
        assert_eq!(ShortStr::truncated("short"), "short");
    }

    #[test]
    fn text_is_optional() {
        let bytes = ShortStr::new(b"a\xff").expect("two bytes are short");
        assert!(bytes.to_str().is_err());
        assert_eq!(format!("{bytes:?} {bytes}"), "\"a\\xff\" a\u{fffd}");
        assert_eq!(ShortStr::literal("queue").to_str(), Ok("queue"));
    }
}
