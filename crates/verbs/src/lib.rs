//! The RDMA link: AMQP's byte stream over reliable queue pairs, with credits, inline and eager sends, and rendezvous.
//!
//! Enters: a device, bytes to send, memory to fill.  Leaves: links that keep the contract of every link.
//! Owns:   the protocol of `docs/protocol/rdma.md`, the receive buffers of a port, and who may read what.
//! Never:  trusts a peer, copies a large body whose owner lends memory, knows what the bytes mean.
//!
//! - [`wire`] is what goes over the wire; [`device`] is what is needed of a device, [`card`] a real one, and [`sim`] one in
//!   memory.
//! - `engine` is the protocol; [`Port`] is one shard's handle on it, [`VerbsLink`] a connection's.
#![forbid(unsafe_code)]

mod bell;
pub mod card;
pub mod device;
mod engine;
mod fault;
pub mod limits;
mod link_end;
mod port;
mod settings;
pub mod sim;
mod sole;
pub mod wire;

pub use engine::{Census, Counters, LinkCensus};
pub use fault::Fault;
pub use link_end::VerbsLink;
pub use port::{Doorkeeper, LinkId, Port, PortError, Readiness};
pub use settings::Settings;
pub use sole::SoleLink;
pub use wire::Token;
