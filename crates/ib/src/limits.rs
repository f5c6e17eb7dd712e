//! Limits of this crate, most of them from the InfiniBand standard. Those of a device are its attributes.

/// Private data of a connection request (InfiniBand: 92 bytes, of which an address in IP's manner takes 36).
pub const CONNECT_DATA_BYTES_MAX: usize = 56;
/// Private data of an acceptance.
pub const ACCEPT_DATA_BYTES_MAX: usize = 196;
/// Private data of a rejection.
pub const REJECT_DATA_BYTES_MAX: usize = 148;
/// Retries of a lost packet, and of one that found no receive posted. One more, 7, is the card's word for "for ever":
/// with it a peer that is gone is never noticed, so it cannot be asked for here.
pub const RETRIES_MAX: u8 = 6;
/// The longest time-out of an acknowledgement: 4.096 us times 2 to the power of this, some two hours.
pub const ACK_TIMEOUT_EXPONENT_MAX: u8 = 31;
/// Completions that one call to the device takes.
pub const POLL_BATCH: usize = 32;
/// Pieces in one work request, whatever a device says.
pub const SGE_MAX: usize = 64;
/// Parts of an arena. Their places fit in the half of a work request's number that is theirs.
pub const ARENA_BLOCKS_MAX: usize = 1 << 20;
/// Work that one queue holds, so that its numbers never meet themselves when they wrap.
pub const WORK_REQUESTS_MAX: u32 = 1 << 20;
/// What may be registered or sent as one piece.
pub const SGE_BYTES_MAX: usize = 1 << 30;
/// Longest poll of rsockets that has an end, in milliseconds: a day.
pub const RPOLL_MS_MAX: u32 = 86_400_000;

const _: () =
    assert!(CONNECT_DATA_BYTES_MAX <= REJECT_DATA_BYTES_MAX && REJECT_DATA_BYTES_MAX <= ACCEPT_DATA_BYTES_MAX);
const _: () = assert!(ACCEPT_DATA_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(WORK_REQUESTS_MAX < u32::MAX / 2);
const _: () = assert!(SGE_BYTES_MAX < u32::MAX as usize);
