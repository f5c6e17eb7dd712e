//! Limits of the client.
//!
//! Leaves: named bounds and the defaults of what a program may set.
//! Owns:   the numbers and the relations between them.

use std::time::Duration;

/// Bytes read from the link at once, at most. The buffer grows only when more than this must wait (see below).
pub const RECEIVE_BYTES: usize = 256 << 10;
/// Bytes that may wait unread in the client while it is blocked in sending. Beyond this it stops reading.
pub(crate) const UNREAD_BYTES_MAX: usize = 64 << 20;
/// Bytes of deliveries that may be set aside while the client waits for the answer to something else.
pub(crate) const ASIDE_BYTES_MAX: usize = 256 << 20;
/// Returned messages kept until the program asks for them; later ones are counted only.
pub(crate) const RETURNED_MAX: usize = 65_536;
/// Refused (nacked) publish tags kept until the program asks for them; later ones are counted only.
pub(crate) const REFUSED_TAGS_MAX: usize = 65_536;
/// Bytes written before they are sent without being asked to.
pub const FLUSH_BYTES: usize = 64 << 10;
/// Bytes that a handler may have written before its next delivery waits until they are sent.
pub(crate) const WRITTEN_BYTES_MAX: usize = 1 << 20;
/// Bodies of at least this many bytes are sent from memory of their own and not copied between the heads.
pub const SHARED_BODY_BYTES_MIN: usize = 16 << 10;
/// Bytes of a batch of canned publishes before it is repeated.
pub(crate) const CANNED_BYTES_MAX: usize = 512 << 10;
/// Bytes that a polled client may have written and not sent before its handler waits. Far more than a handler's own
/// answers: who is not read from while he does not read would wait for ever.
pub const UNSENT_BYTES_MAX: usize = 64 << 20;
/// Reads in one call of `dispatch_now`; what is left then waits until the thread's other clients had their turn.
pub(crate) const READS_A_TURN_MAX: u32 = 16;
/// How long a call with an interrupt check waits before it asks again. A signal usually ends the wait earlier.
pub(crate) const INTERRUPT_CHECK_WAIT: Duration = Duration::from_millis(250);
/// Longest wait of a program that watches a link. A shorter one follows from the heartbeat; longer calls wait again.
pub(crate) const WATCH_WAIT_MAX: Duration = Duration::from_secs(5);
/// Such waits in one interval of heartbeats.
pub(crate) const WAITS_A_HEARTBEAT: u32 = 4;
/// Readiness events taken at once by a watch: the link's few descriptors and the waker.
pub(crate) const WATCH_EVENTS_MAX: usize = 8;
/// How long to wait for a connection, an answer, or for room to send.
pub const ANSWER_WAIT: Duration = Duration::from_secs(30);

const _: () = assert!(FLUSH_BYTES <= WRITTEN_BYTES_MAX);
const _: () = assert!(RECEIVE_BYTES < UNREAD_BYTES_MAX);
const _: () = assert!(SHARED_BODY_BYTES_MIN < RECEIVE_BYTES);
