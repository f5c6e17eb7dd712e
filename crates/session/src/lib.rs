//! One end of an AMQP 0-9-1 connection as a state machine: bytes in, events out; commands in, bytes out.
//!
//! Enters: received bytes, and the owner's decisions.  Leaves: events, and bytes to send in a `Gather`.
//! Owns:   the protocol: who may say what when, contents put together, answers that need no thought.
//! Never:  opens a socket, reads a clock, knows an exchange or a queue. Both roles, server and client, are here.
//!
//! A session has two halves, so that an event may borrow the input while anything is sent: [`Inbound`] and
//! [`Outbound`]. Its owner (a reactor, a client) drives it like this:
//!
//! ```text
//! loop {
//!     // `scratch` begins with what was left last time: `left` bytes. Heads and small contents come through it, large
//!     // bodies straight into their memory.
//!     let wanted = inbound.scratch_bytes_wanted().min(scratch.len() - left);
//!     let n = match link.receive(inbound.direct(), &mut scratch[left..left + wanted])? { Bytes(n) => n, … };
//!     let placed = n.min(inbound.direct().len());
//!     inbound.direct_filled(placed);
//!     let mut input = &scratch[..left + n - placed];
//!     loop {
//!         match inbound.next(&mut input, &mut outbound, &pool) {
//!             Ok(Some(event)) => …,                            // may send to any outbound, this one included
//!             Ok(None) => break,                               // `input` is what to keep for the next round
//!             Err(fault) => _ = inbound.fail(&fault, &mut outbound, &pool),
//!         }
//!     }
//!     left = …;                                                // move `input` to the start of `scratch`
//!     while link.send(outbound.gather_mut(&pool))? == Drained && !outbound.is_empty() {}
//!     if inbound.is_done() { … }                               // end the link once everything is sent
//! }
//! ```
//!
//! While a body is being received in place `left` is 0: whatever came was taken. `scratch` must be able
//! to hold [`Inbound::input_bytes_max`]; a smaller one may be lent as long as little is left.
//!
//! **Server.** `Inbound::server` greets. The owner answers `Login` with `login_accepted`, `login_challenged` or
//! `login_refused`, and `Open` with `open_accepted` or `fail`, before it calls `next` again. From then on `Method` and
//! `Publish` want answers; channels are opened and closed by the session, and reported, unless the owner wants to answer
//! (`SessionLimits`).
//!
//! **Client.** The owner sends `Outbound::protocol_header`, then answers `Start` with `log_in`, `Tune` with `tune` and
//! `open`; after `OpenOk` it may `open_channel`, and send methods and contents on those that have `ChannelOpened`.
#![forbid(unsafe_code)]

mod assembly;
mod body_frames;
mod capabilities;
mod channels;
#[cfg(any(test, feature = "fuzz"))]
mod drive;
mod event;
mod fault;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod greeting;
pub mod heartbeat;
mod inbound;
pub mod limits;
mod outbound;
mod passed_over;
pub mod sasl;
mod slice_writer;
#[cfg(test)]
mod tests;
mod tuning;
mod waiting_pieces;

pub use assembly::BodyRoom;
pub use capabilities::Capabilities;
pub use event::{Body, ContentDefect, Event};
pub use fault::{FaultScope, ProtocolFault, cut, reply_text};
pub use greeting::Greeting;
pub use heartbeat::Heartbeat;
pub use inbound::{DeliveryTemplate, Inbound, PeekedFrame, RepeatedDelivery};
pub use limits::SessionLimits;
pub use outbound::{BodyOut, DeliverHead, GetOkHead, Outbound, PublishHead, ReturnHead};
pub use tuning::Tuning;
