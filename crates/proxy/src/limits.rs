//! The limits of the proxy, each with its reason. Options have their defaults in [`ProxyOptions`](crate::ProxyOptions).

use std::time::Duration;

/// Bytes read and not yet sent in one direction of a connection: reading stops there. One read may go beyond.
pub const WINDOW_BYTES: usize = 256 * 1024;
/// The largest block that is read into: it still shares its region of message memory, which a device registers whole.
pub const READ_BYTES_MAX: usize = slab::CLASSED_BYTES_MAX;
/// The block of a connection that sends little.
pub(crate) const READ_BYTES_MIN: usize = 8 * 1024;
/// A block is sent from where it lies if at least this part of it is filled (one in so many); else its bytes are copied.
pub(crate) const FILLED_PART_MIN: usize = 4;
/// Bytes read for one direction before another connection has its turn.
pub(crate) const TURN_BYTES: usize = 1024 * 1024;
/// What a read counts for in a turn at least: over TLS it may have taken long for few bytes.
pub(crate) const RECEIVED_BYTES_MIN: usize = TURN_BYTES / 64;
/// How long the proxy reads from an end whose peer takes nothing more, once the other direction has ended.
pub(crate) const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Threads that dial. A broker that does not answer occupies each of them until the time-out.
pub(crate) const DIALLERS: usize = 8;
/// How often a thread checks deadlines, while a connection has one.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How often a thread polls a device that has no descriptors to wait for.
pub(crate) const DEVICE_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Threads of a proxy.
pub const THREADS_MAX: usize = 64;
/// Addresses to listen on.
pub const LISTENERS_MAX: usize = 64;
/// Connections of a proxy.
pub const CONNECTIONS_MAX: usize = 100_000;
/// Bytes of empty message memory that a thread keeps for later.
pub(crate) const CACHED_BYTES_MAX: usize = 8 << 20;

const _: () = assert!(READ_BYTES_MIN.is_power_of_two() && READ_BYTES_MAX.is_power_of_two());
const _: () = assert!(READ_BYTES_MIN < READ_BYTES_MAX && READ_BYTES_MAX <= WINDOW_BYTES);
const _: () = assert!(WINDOW_BYTES <= TURN_BYTES);
const _: () = assert!(LISTENERS_MAX <= reactor::limits::LISTENERS_MAX);
const _: () = assert!(DEVICE_POLL_INTERVAL.as_millis() < CHECK_INTERVAL.as_millis());
