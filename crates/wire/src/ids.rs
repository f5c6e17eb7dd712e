//! Identifiers of the protocol as distinct types, so that the compiler tells one number from another.

use std::fmt;

/// The number of a channel within its connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ChannelNumber(pub u16);

impl ChannelNumber {
    /// Channel 0, on which the connection itself is negotiated, kept alive and closed.
    pub const CONNECTION: Self = Self(0);

    /// The number as an index of a table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number as a frame head carries it.
    #[inline]
    pub const fn to_be_bytes(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }

    /// The number in a frame head.
    #[inline]
    pub const fn from_be_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_be_bytes(bytes))
    }
}

impl fmt::Display for ChannelNumber {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a delivery or of a confirmed publish within its channel, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DeliveryTag(pub u64);

impl DeliveryTag {
    /// Tag 0, which with `multiple` means every delivery of the channel that is still outstanding.
    pub const ALL: Self = Self(0);
}

impl fmt::Display for DeliveryTag {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
