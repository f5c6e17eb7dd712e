//! Limits of links over rsockets.

/// Most parts that one call gathers.
pub const GATHER_PARTS_MAX: usize = 64;
/// Bodies below this many bytes are copied between the headers: an rsocket copies everything that it sends in any case.
pub const COPY_BELOW_BYTES: usize = 4_096;
/// Longest wait with a time-out, in milliseconds: a day. A longer one ends after a day with nothing ready.
pub const WAIT_MS_MAX: u64 = 86_400_000;
/// Threads that close sockets: so many slow ones do not hold up others. One whose peer is gone takes until its device has
/// sent again as often as it does.
pub const CLOSING_THREADS: usize = 16;
