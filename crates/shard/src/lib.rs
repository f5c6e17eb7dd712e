//! The reactor: shards, their ticks, the mail between them, and the broker as a running thing.
//!
//! Enters: options, links.  Leaves: a broker that serves clients.
//! Owns:   threads, connections, timers: the only room where the others meet.
//! Never:  decides what a message means; that is the broker's.
#![forbid(unsafe_code)]

mod asking;
mod connection;
mod connections;
mod cpu_latency;
mod cpu_latency_guard;
mod effects;
mod federate;
mod federation_link;
mod federation_links;
mod flush;
mod handshake;
mod inbox;
pub mod limits;
mod mailbox;
mod operator;
mod proofs;
mod push;
mod pushed;
mod rdma_options;
mod rdma_ports;
mod register;
mod serve;
mod server;
mod shard;
mod shared_state;
mod stamped;
mod standing;
mod tied;
mod timers;
mod tokens;
mod wants;
mod worker;

pub use broker::{Address, Request};
pub use cpu_latency::IdleProcessors;
pub use effects::{Copied, ShardEffects};
pub use federation_links::{Asked, Dial, DialError, Dialled, Otherwise, Reached, Tell};
pub use handshake::External;
pub use mailbox::{Mailbox, ShardWaker, WakeTarget};
pub use operator::{Operator, requests};
pub use proofs::Prover;
pub use rdma_options::{RdmaListen, RdmaOptions, RdmaPoll};
pub use reactor::Stopper;
pub use server::{BrokerStartError, Server, ServerOptions};
pub use shard::{Shard, ShardOptions, Work};
pub use shared_state::SharedState;
pub use worker::BrokerDialler;
