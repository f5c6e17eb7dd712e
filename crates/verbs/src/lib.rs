//! AMQP over RDMA: a byte stream over reliable queue pairs, with credits, inline and eager sends, and rendezvous.
//!
//! - [`wire`] is the wire format (`docs/protocol/rdma.md`); [`device`] is the interface of a device, [`card`]
//!   implements it for real devices, and [`sim`] in memory.
//! - `engine` is the protocol; [`Port`] is a shard's handle on it, [`VerbsLink`] that of a connection.
//!
//! A large body is never copied if its owner lends memory for it. Peers are not trusted.
#![forbid(unsafe_code)]

pub mod card;
pub mod device;
mod engine;
mod fault;
pub mod limits;
mod port;
mod settings;
pub mod sim;
mod standalone_link;
mod verbs_link;
mod wake_pipe;
pub mod wire;

pub use engine::{NamedCounter, PortCounters, PortUsage};
pub use fault::ConnectionFault;
pub use port::{LinkId, Port, PortError, ReadinessEdges, TokenVerifier};
pub use settings::PortSettings;
pub use standalone_link::StandaloneLink;
pub use verbs_link::VerbsLink;
pub use wire::RdmaToken;
