//! Limits of the protocol and the engine, and the relations between them. What an operator may change is in
//! [`PortSettings`](crate::PortSettings).

use std::time::Duration;

/// The header of every message.
pub const MESSAGE_HEADER_BYTES: usize = 8;
/// Most payload bytes of a message: the length field has 24 bits.
pub const PAYLOAD_BYTES_MAX: u32 = (1 << 24) - 1;
/// The payload of a RENDEZVOUS.
pub(crate) const DESCRIPTOR_BYTES: usize = 24;
/// The payload of a DONE.
pub const DONE_BYTES: usize = 4;
/// Longest text in a CLOSE with a reason.
pub const CLOSE_TEXT_BYTES_MAX: usize = 100;
/// A header and the longest payload of a control message: the part of a message that is passed by value.
pub const HEAD_BYTES_MAX: usize = MESSAGE_HEADER_BYTES + 2 + CLOSE_TEXT_BYTES_MAX;

/// The private data of a request and of an acceptance.
pub(crate) const HELLO_BYTES: usize = 40;
/// The private data of a reject.
pub(crate) const REJECT_BYTES: usize = 8;
/// The private data of a connection request that `rdma_cm` leaves to programs on InfiniBand (92 less its own 36).
pub(crate) const PRIVATE_BYTES_MAX: usize = 56;
/// A token: 128 bits cannot be guessed.
pub const TOKEN_BYTES: usize = 16;

/// Most bytes of one rendezvous. A longer body is offered in pieces, each with a deadline of its own.
pub const RENDEZVOUS_BYTES_MAX: u32 = 16 << 20;

/// Credits that only CREDIT, PONG and CLOSE may use: the most that an end can send of these before it receives a
/// message that returns credits: a CREDIT for each half of the peer's credits, a PONG and a CLOSE.
pub(crate) const CONTROL_CREDITS: u16 = 4;
/// Credits that the stream leaves to control messages: those above, a PING, and a DONE, which covers all before it.
pub(crate) const RESERVE_CREDITS: u16 = CONTROL_CREDITS + 2;
/// Fewest initial credits: a stream that has used all but the reserve has used half of them, which are then returned.
pub const CREDITS_MIN: u16 = 2 * RESERVE_CREDITS;
/// Most initial credits: differences of the 16-bit totals in headers stay unambiguous.
pub const CREDITS_MAX: u16 = 1 << 14;
/// Smallest receive buffer: every control message fits.
pub const RECEIVE_BUFFER_BYTES_MIN: u32 = 256;

/// Slots of the send queue that the stream leaves to control messages, one of each type, and a READ.
pub(crate) const RESERVE_SLOTS: usize = 8;
/// Fewest slots of a send queue.
pub(crate) const SEND_SLOTS_MIN: usize = 2 * RESERVE_SLOTS;
/// Parts of the stream that one message gathers.
pub(crate) const MESSAGE_PARTS_MAX: usize = 4;
/// Completions polled in one call.
pub(crate) const COMPLETIONS_MAX: usize = 64;
/// Completions handled in one round, so that a flood of them does not starve the owner's other work.
pub(crate) const POLL_COMPLETIONS_MAX: usize = 4096;

/// Default time for a peer to read an offer: as long as RabbitMQ gives a consumer to acknowledge a delivery. The memory
/// held meanwhile is bounded, and no more than what waits for a slow reader over TCP.
pub(crate) const FETCH_MAX: Duration = Duration::from_secs(30 * 60);

pub const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How often an end that must send first repeats its PING until something arrives.
pub const FIRST_PING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a program that drops its connection waits until its last messages are delivered.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(2);
/// Accepted requests whose handshake is not finished; more requests are refused.
pub(crate) const HANDSHAKES_MAX: usize = 256;
/// While requests are being refused, the set-up time is divided by this: 1.25 s of 10 s are many times what an honest
/// client needs, and a flood of requests that are never finished keeps honest ones out no longer.
pub(crate) const CROWDED_SET_UP_DIVISOR: u32 = 8;
/// Tokens that wait for their client.
pub const TOKENS_MAX: usize = 4096;

/// Inline bytes that are requested of a card; it may allow fewer. Acknowledgements and small messages fit.
pub(crate) const INLINE_BYTES_WANTED: u32 = 256;
/// Bytes of a registered slot for a message's header.
pub(crate) const HEAD_SLOT_BYTES: usize = 128;
/// Slots that are registered at once.
pub(crate) const HEAD_SLOTS: usize = 256;
/// READs of its peer that a queue pair answers at once; each takes memory of the card.
pub(crate) const READS_ANSWERED_MAX: u8 = 16;
/// Entries of a card's completion queue, if the card allows so many: for all receive buffers and all work of all queue
/// pairs, which may fail at once.
pub(crate) const CARD_COMPLETIONS_MAX: u32 = 1 << 16;
/// Connection requests that the kernel queues.
pub(crate) const BACKLOG_REQUESTS: u32 = 512;
/// The acknowledgement time-out: 4.096 us times 2 to the power of this, 0.27 s. Some cards wait up to four times as
/// long.
pub(crate) const ACKNOWLEDGE_EXPONENT: u8 = 16;
/// How often a card retransmits an unacknowledged packet. With the time-out above, a peer that is gone is noticed
/// within 2 to 8 s. One more, 7, would mean without end.
pub(crate) const ACKNOWLEDGE_RETRIES: u8 = 6;
/// The time-out of address resolution, and of route resolution.
pub(crate) const RESOLVE_MAX: Duration = Duration::from_secs(5);
/// How long a disconnected queue pair waits for the device to return its last receive buffers.
pub(crate) const LAST_WQE_TIMEOUT: Duration = Duration::from_millis(100);
/// How often a card's events (connections, faults) are polled for while messages are polled without a pause: each such
/// poll is a system call. They are also polled for when their descriptor is readable.
pub(crate) const EVENT_POLL_INTERVAL: Duration = Duration::from_millis(2);

const _: () = assert!(HEAD_BYTES_MAX <= HEAD_SLOT_BYTES);
const _: () = assert!(HELLO_BYTES <= PRIVATE_BYTES_MAX && REJECT_BYTES <= PRIVATE_BYTES_MAX);
const _: () = assert!(HEAD_BYTES_MAX <= RECEIVE_BUFFER_BYTES_MIN as usize);
const _: () = assert!(MESSAGE_HEADER_BYTES + DESCRIPTOR_BYTES <= HEAD_BYTES_MAX);
const _: () = assert!(CREDITS_MIN >= 2 * RESERVE_CREDITS && CREDITS_MAX <= 1 << 15);
const _: () = assert!(RENDEZVOUS_BYTES_MAX as usize <= slab::BLOCK_BYTES_MAX);
