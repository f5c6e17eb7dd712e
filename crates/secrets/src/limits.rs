//! Limits of what is read.

/// Bytes of an address.
pub const ADDRESS_BYTES_MAX: u64 = 64 * 1024;
