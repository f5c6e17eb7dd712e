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

mod wake_pipe;
pub mod card;
pub mod device;
mod engine;
mod fault;
pub mod limits;
mod verbs_link;
mod port;
mod settings;
pub mod sim;
mod standalone_link;
pub mod wire;

pub use engine::{PortUsage, PortCounters, LinkUsage};
pub use fault::ConnectionFault;
pub use verbs_link::VerbsLink;
pub use port::{TokenVerifier, LinkId, Port, PortError, ReadinessEdges};
pub use settings::PortSettings;
pub use standalone_link::StandaloneLink;
pub use wire::RdmaToken;
