//! The reactor: shards, their ticks, the mail between them, and the broker as a running thing.
//!
//! Enters: options, links.  Leaves: a broker that serves clients.
//! Owns:   threads, connections, timers: the only room where the others meet.
//! Never:  decides what a message means; that is the broker's.
#![forbid(unsafe_code)]

mod asking;
mod binding_watch;
mod connection;
mod connections;
mod effects;
mod federate;
mod federation_link;
mod federation_links;
mod flush;
mod handshake;
mod latency;
pub mod limits;
mod link_context;
mod link_dial;
mod link_output;
mod link_record;
mod link_table;
mod link_timers;
mod local_routes;
mod mailbox;
mod operator;
mod ports;
mod proofs;
mod push_setup;
mod rdma;
mod reactor;
mod register;
mod serve;
mod server;
mod shard;
mod shared_state;
mod spin;
mod stamped;
mod timers;
mod tokens;
mod vigil;

pub use broker::{Address, Request};
pub use effects::{Copied, ShardEffects};
pub use link_dial::{DialCallback, DialError, DialFallback, DialProgress, DialRequest, DialedLink, RdmaDial};
pub use link_table::FederationLinkId;
pub use handshake::External;
pub use latency::IdleProcessors;
pub use mailbox::{Mailbox, ShardWaker, WakeTarget};
pub use operator::{Operator, requests};
pub use proofs::Prover;
pub use rdma::{RdmaListen, RdmaOptions, RdmaPoll};
pub use reactor::Dialler;
pub use server::{Server, ServerOptions, StartError, Stopper};
pub use shard::{Shard, ShardOptions, Work};
pub use shared_state::SharedState;
