//! Limits of the C library.
//!
//! Leaves: how much is written before it is sent, how long a body may be, how many connections there may be.
//! Owns:   the numbers, and the parts of a connection's handle.

/// Written bytes that are sent without being asked to.
pub(crate) const FLUSH_BYTES: usize = client::limits::FLUSH_BYTES;
/// Bytes that a blocking connection may have written and not sent: beyond them a call waits for room.
pub(crate) const UNSENT_BYTES_MAX: usize = 1 << 20;
/// The same of a polled one, whose calls then fail with `HARRIER_FULL`.
pub(crate) const POLLED_UNSENT_BYTES_MAX: usize = client::limits::UNSENT_BYTES_MAX;
/// Longest body that is accepted, which is the longest that a session accepts.
pub(crate) const BODY_BYTES_MAX: usize = 512 << 20;
/// Fields of one table of headers or arguments.
pub(crate) const FIELDS_MAX: usize = 4_096;
/// Bytes of one table or list with all that is in it, which must fit into a frame.
pub(crate) const TABLE_BYTES_MAX: usize = 64 << 20;
/// Bits of a handle that are its thread's number, its place in the thread's table, and how often that was used.
pub(crate) const THREAD_BITS: u32 = 24;
pub(crate) const SLOT_BITS: u32 = 16;
pub(crate) const TURN_BITS: u32 = 24;

const _: () = assert!(THREAD_BITS + SLOT_BITS + TURN_BITS == u64::BITS);
const _: () = assert!(FLUSH_BYTES <= UNSENT_BYTES_MAX && UNSENT_BYTES_MAX <= POLLED_UNSENT_BYTES_MAX);
