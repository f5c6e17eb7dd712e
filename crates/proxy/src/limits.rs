//! Limits of the proxy, each with its name and its reason.
//!
//! Leaves: constants.
//! Owns:   the numbers that bound buffers, turns and waits.
//! Never:  reads a setting; what an operator may change is in [`ProxyOptions`](crate::ProxyOptions).

use std::time::Duration;

/// Bytes under way in one direction of a connection from which on nothing more is read for it. One read may go beyond.
pub const WINDOW_BYTES: usize = 256 * 1024;
/// The largest block that is read into at once: it still shares its region of message memory, which a device registers whole.
pub const READ_BYTES_MAX: usize = slab::CLASSED_BYTES_MAX;
/// The block of a connection that says little.
pub const READ_BYTES_MIN: usize = 8 * 1024;
/// A block is passed on as it is if so much of it is filled (one part in so many); of less the bytes are copied.
pub const FILLED_PART_MIN: usize = 4;
/// Bytes read for one direction before another connection has its turn.
pub const TURN_BYTES: usize = 1024 * 1024;
/// How long a side that sends to one that reads nothing more is listened to, once the other has nothing to say either.
pub const PARTING: Duration = Duration::from_secs(5);
/// Threads that connect by sockets. A broker that does not answer holds each for the time-out at most.
pub const DIALLERS: usize = 8;
/// How often a thread looks at the time, while something of its waits for it, or for room to accept.
pub const LOOK_UP: Duration = Duration::from_millis(50);
/// How often it looks at a device that has no descriptors to wait for.
pub const LOOK_AT_DEVICE: Duration = Duration::from_millis(1);
/// Threads of a proxy.
pub const THREADS_MAX: usize = 64;
/// Places to listen at.
pub const LISTENERS_MAX: usize = 64;
/// Connections of a proxy.
pub const CONNECTIONS_MAX: usize = 100_000;
/// Bytes of empty message memory that a thread keeps for later.
pub const CACHED_BYTES_MAX: usize = 8 << 20;
/// Events taken from the poll at once.
pub const EVENTS: usize = 1024;

const _: () = assert!(READ_BYTES_MIN.is_power_of_two() && READ_BYTES_MAX.is_power_of_two());
const _: () = assert!(READ_BYTES_MIN < READ_BYTES_MAX && READ_BYTES_MAX <= WINDOW_BYTES);
const _: () = assert!(WINDOW_BYTES <= TURN_BYTES);
const _: () = assert!(LOOK_AT_DEVICE.as_millis() < LOOK_UP.as_millis());
