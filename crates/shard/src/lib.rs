//! The reactor: shards, their ticks, the mail between them, and the broker as a running thing.
//!
//! Enters: options, links.  Leaves: a broker that serves clients.
//! Owns:   threads, connections, timers: the only room where the others meet.
//! Never:  decides what a message means; that is the broker's.
#![forbid(unsafe_code)]

mod asking;
mod connection;
mod desk;
mod federate;
mod flush;
mod handshake;
mod household;
mod latency;
pub mod limits;
mod mail;
mod operator;
mod ports;
mod proofs;
mod push;
mod pushed;
mod rdma;
mod reactor;
mod register;
mod serve;
mod server;
mod shard;
mod spin;
mod stamped;
mod standing;
mod tie;
mod tied;
mod ties;
mod timers;
mod tokens;
mod vigil;
mod wants;

pub use broker::{ReplyAddress, AdminRequest};
pub use desk::{Copied, Desk};
pub use handshake::External;
pub use household::Household;
pub use latency::IdleProcessors;
pub use mail::{Bell, Doorbell, Mail};
pub use operator::{Operator, requests};
pub use proofs::Prover;
pub use rdma::{RdmaListen, RdmaOptions, RdmaPoll};
pub use reactor::Dialler;
pub use server::{Server, ServerOptions, StartError, Stopper};
pub use shard::{Shard, ShardOptions, Work};
pub use ties::{Asked, Dial, DialError, Dialled, Otherwise, Reached, Tell};
