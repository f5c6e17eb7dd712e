//! Limits of the verbs room.
//!
//! Leaves: the sizes and counts that the protocol and the engine keep to.
//! Owns:   their relations, checked when the crate is compiled.
//! Never:  reads a setting; what an operator may change is in [`Settings`](crate::Settings).

use std::time::Duration;

/// What every message begins with.
pub const MESSAGE_HEADER_BYTES: usize = 8;
/// Most bytes behind a header: its length has 24 bits.
pub const PAYLOAD_BYTES_MAX: u32 = (1 << 24) - 1;
/// The payload of a RENDEZVOUS.
pub const DESCRIPTOR_BYTES: usize = 24;
/// The payload of a DONE.
pub const DONE_BYTES: usize = 4;
/// Longest text of a CLOSE that says why.
pub const CLOSE_TEXT_BYTES_MAX: usize = 100;
/// What is written by value in front of a message: a header and the longest payload that is no part of the stream.
pub const HEAD_BYTES_MAX: usize = MESSAGE_HEADER_BYTES + 2 + CLOSE_TEXT_BYTES_MAX;

/// The private data of a request and of an acceptance.
pub const HELLO_BYTES: usize = 40;
/// The private data of a reject.
pub const REJECT_BYTES: usize = 8;
/// The private data that `rdma_cm` leaves of a connection request over InfiniBand (92 less its own 36).
pub const PRIVATE_BYTES_MAX: usize = 56;
/// A token. 128 bits are not guessed.
pub const TOKEN_BYTES: usize = 16;

/// Most bytes of one rendezvous. A longer body is offered in pieces, so that one piece does not hold a deadline alone.
pub const RENDEZVOUS_BYTES_MAX: u32 = 16 << 20;

/// Credits that only CREDIT, PONG and CLOSE use. What an end can say of these before it hears the peer again, and with
/// that gets them back: a CREDIT for each half of the peer's credits, a PONG and a CLOSE.
pub const CONTROL_CREDITS: u16 = 4;
/// Credits that the stream leaves to all else: those above, a PING, and a DONE, which stands for all before it.
pub const RESERVE_CREDITS: u16 = CONTROL_CREDITS + 2;
/// Fewest credits an end may begin with: a stream that has used all but the reserve has used half, which is returned.
pub const CREDITS_MIN: u16 = 2 * RESERVE_CREDITS;
/// Most credits an end may begin with: differences of the 16 bits in a header stay unambiguous.
pub const CREDITS_MAX: u16 = 1 << 14;
/// Smallest receive buffer an end may have: every message that is no part of the stream fits.
pub const RECEIVE_BUFFER_BYTES_MIN: u32 = 256;

/// Slots of the send queue that the stream leaves to what is no part of it: one of each kind, and a READ.
pub const RESERVE_SLOTS: usize = 8;
/// Fewest slots of a send queue.
pub const SEND_SLOTS_MIN: usize = 2 * RESERVE_SLOTS;
/// Parts of the stream that one message gathers. A message ends there; a stream does not mind.
pub const MESSAGE_PARTS_MAX: usize = 4;
/// Completions asked for in one call.
pub const COMPLETIONS_MAX: usize = 64;
/// Completions handled in one poll, so that a flood of them does not keep the owner from its other work.
pub const POLL_COMPLETIONS_MAX: usize = 4096;

/// How long a peer may leave unread what it is offered, unless set otherwise: as long as a consumer may take to acknowledge
/// a delivery elsewhere. What it holds meanwhile is bounded, and no more than what waits for a reader that is slow over TCP.
pub const FETCH_MAX: Duration = Duration::from_secs(30 * 60);

/// How often deadlines are looked at.
pub const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// An end that has to speak first does so again after this long, as long as nothing has come back.
pub const FIRST_PING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a program that drops its connection waits for its last words to arrive.
pub const LINGER_MAX: Duration = Duration::from_secs(2);
/// Requests for connections that wait for their handshake; more are refused.
pub const HANDSHAKES_MAX: usize = 256;
/// While there is no room for another, such a request has this part of its time only: 1.25 s of 10 s are many times what an
/// honest client needs, and a flood of requests that nobody finishes does not keep honest ones out for longer.
pub const CROWDED_SET_UP_DIVISOR: u32 = 8;
/// Tokens that wait for their client.
pub const TOKENS_MAX: usize = 4096;

/// Bytes of an inline send that a card is asked for; it may give fewer. Acknowledgements and orders fit.
pub const INLINE_BYTES_WANTED: u32 = 256;
/// Bytes of a slot for a message's head, in memory that a card has registered.
pub const HEAD_SLOT_BYTES: usize = 128;
/// Slots that are registered at once.
pub const HEAD_SLOTS: usize = 256;
/// READs of its peer that a queue pair answers at once; each is memory of the card's.
pub const READS_ANSWERED_MAX: u8 = 16;
/// Completions that a card's queue has room for, if the card can do so many: those of all receive buffers, and all work
/// of all queue pairs, since all of it may fail at once.
pub const CARD_COMPLETIONS_MAX: u32 = 1 << 16;
/// Requests for connections that wait in the kernel.
pub const BACKLOG_REQUESTS: u32 = 512;
/// 4.096 us times 2 to the power of this, 0.27 s: how long a card waits for an acknowledgement. Some wait up to four
/// times as long.
pub const ACKNOWLEDGE_EXPONENT: u8 = 16;
/// How often a card sends again what was not acknowledged. With the time above a peer that is gone is given up within
/// 2 to 8 s. One more, 7, would mean for ever.
pub const ACKNOWLEDGE_RETRIES: u8 = 6;
/// For each of the steps to find a peer: its device, and the way there.
pub const RESOLVE_MAX: Duration = Duration::from_secs(5);
/// How long a queue pair that has ended may keep the device from giving the last receive buffers back.
pub const LAST_WQE_TIMEOUT: Duration = Duration::from_millis(100);
/// A card's rare news (connections, faults) is looked for so often while messages are polled without a pause, since each
/// look is a call into the kernel; and when a descriptor tells of some.
pub const EVENT_POLL_INTERVAL: Duration = Duration::from_millis(2);

const _: () = assert!(HEAD_BYTES_MAX <= HEAD_SLOT_BYTES);
const _: () = assert!(HELLO_BYTES <= PRIVATE_BYTES_MAX && REJECT_BYTES <= PRIVATE_BYTES_MAX);
const _: () = assert!(HEAD_BYTES_MAX <= RECEIVE_BUFFER_BYTES_MIN as usize);
const _: () = assert!(MESSAGE_HEADER_BYTES + DESCRIPTOR_BYTES <= HEAD_BYTES_MAX);
const _: () = assert!(CREDITS_MIN >= 2 * RESERVE_CREDITS && CREDITS_MAX <= 1 << 15);
const _: () = assert!(RENDEZVOUS_BYTES_MAX as usize <= slab::BLOCK_BYTES_MAX);
