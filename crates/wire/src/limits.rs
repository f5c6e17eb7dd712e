//! The limits of the grammar, and how they depend on each other.
//!
//! Leaves: constants.
//! Owns:   every bound that this crate applies to the bytes of a peer.

/// Bytes of a frame besides its payload: head and end octet.
pub const FRAME_OVERHEAD_BYTES: usize = 8;

/// The smallest frame size that may be negotiated; until then it is also the largest that may be sent.
pub const FRAME_BYTES_MIN: u32 = 4096;

/// How deep tables and lists may nest; the outermost one counts as 1. A harrier bound: the specification has none.
pub const TABLE_DEPTH_MAX: usize = 128;

/// Bytes of a short string, since its length is one octet (AMQP 0-9-1 §4.2.5.3).
pub const SHORT_STR_BYTES_MAX: usize = 255;

// The longest method without a table has four short strings; it must fit the smallest frame there may be.
const _: () = assert!(4 * (SHORT_STR_BYTES_MAX + 1) + 32 + FRAME_OVERHEAD_BYTES <= FRAME_BYTES_MIN as usize);
// One level of nesting costs at least 5 bytes on the wire, so this depth fits any frame and is worth a bound.
const _: () = assert!(TABLE_DEPTH_MAX * 6 < FRAME_BYTES_MIN as usize);
