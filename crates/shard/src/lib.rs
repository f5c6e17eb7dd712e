//! Shards: the threads of a broker. Each serves its connections, ticks its part of the broker core, and exchanges messages with the
//! others.
//!
//! Read `shard` first: `Shard::tick` is the order in which everything happens.
#![forbid(unsafe_code)]

mod pending_dial;
mod connection;
mod connections;
mod effects;
mod federate;
mod federation_link;
mod federation_links;
mod flush;
mod login;
mod latency;
pub mod limits;
mod mailbox;
mod vhost_bytes;
mod sessions;
mod receive_buffer;
mod publisher_throttle;
mod output_queues;
mod memory_account;
mod admin_handle;
mod ports;
mod password_verifier;
mod push;
mod pushed;
mod rdma;
mod reactor;
mod connection_limits;
mod serve;
mod server;
mod shard;
mod shared_state;
mod spin;
mod connection_stamps;
mod standing;
mod tied;
#[cfg(test)]
mod test_clock;
#[cfg(test)]
mod test_sessions;
mod timers;
mod tokens;
mod vigil;
mod wants;

pub use broker::{Address, Request};
pub use effects::{CopiedBytes, ShardEffects};
pub use federation_links::{Asked, Dial, DialError, Dialled, Otherwise, Reached, Tell};
pub use login::ExternalMechanism;
pub use latency::IdleProcessors;
pub use mailbox::{Mailbox, ShardWaker, WakeTarget};
pub use admin_handle::{AdminHandle, request_channel};
pub use password_verifier::PasswordVerifier;
pub use rdma::{RdmaListen, RdmaOptions, RdmaPoll};
pub use reactor::Dialler;
pub use server::{Server, ServerOptions, StartError, Stopper};
pub use shard::{Shard, ShardOptions, TickOutcome};
pub use shared_state::SharedState;
