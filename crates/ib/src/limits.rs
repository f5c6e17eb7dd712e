//! Limits of this crate, most of them from the InfiniBand standard. Those of a device are its attributes.

/// Private data of a connection request (InfiniBand: 92 bytes, 36 of which the connection manager uses for IP
/// addresses).
pub const CONNECT_DATA_BYTES_MAX: usize = 56;
/// Private data of a reply that accepts.
pub const ACCEPT_DATA_BYTES_MAX: usize = 196;
/// Private data of a rejection.
pub const REJECT_DATA_BYTES_MAX: usize = 148;
/// Retries of a lost packet, and of one for which the receiver was not ready. One more, 7, means "without end": a peer
/// that is gone would never be noticed, so it is not allowed here.
pub const RETRIES_MAX: u8 = 6;
/// The longest acknowledgement time-out: 4.096 us times 2 to the power of this, some two hours.
pub(crate) const ACK_TIMEOUT_EXPONENT_MAX: u8 = 31;
/// Completions that one poll takes.
pub const POLL_BATCH: usize = 32;
/// Scatter/gather elements of one work request, whatever a device allows.
pub(crate) const SGE_MAX: usize = 64;
/// Blocks of an arena: their slots fit in the lower half of a work request's id.
pub(crate) const ARENA_BLOCKS_MAX: usize = 1 << 20;
/// Work requests that one queue holds, so that slot numbers stay unique when they wrap.
pub const WORK_REQUESTS_MAX: u32 = 1 << 20;
/// Bytes that may be registered or sent at once.
pub(crate) const SGE_BYTES_MAX: usize = 1 << 30;
/// Longest time-out of a poll of rsockets, in milliseconds: a day.
pub const RPOLL_MS_MAX: u32 = 86_400_000;

const _: () =
    assert!(CONNECT_DATA_BYTES_MAX <= REJECT_DATA_BYTES_MAX && REJECT_DATA_BYTES_MAX <= ACCEPT_DATA_BYTES_MAX);
const _: () = assert!(ACCEPT_DATA_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(WORK_REQUESTS_MAX < u32::MAX / 2);
const _: () = assert!(SGE_BYTES_MAX < u32::MAX as usize);
