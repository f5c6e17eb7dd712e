//! Shards: the threads of a broker. Each serves its connections, ticks its part of the broker core, and exchanges
//! messages with the others.
//!
//! Read `shard` first: `Shard::tick` is the order in which everything happens.
#![forbid(unsafe_code)]

mod admin_handle;
mod binding_watch;
mod connection;
mod connection_limits;
mod connection_stamps;
mod connections;
mod cpu_latency;
mod cpu_latency_guard;
mod dispatcher;
mod effects;
mod federate;
mod federation_link;
mod federation_links;
mod flush;
mod inbox;
pub mod limits;
mod link_context;
mod link_dial;
mod link_output;
mod link_record;
mod link_table;
mod link_timers;
mod local_routes;
mod login;
mod mailbox;
mod memory_account;
mod output_queues;
mod password_verifier;
mod pending_dial;
mod publisher_throttle;
mod push_setup;
mod rdma_options;
mod rdma_ports;
mod receive_buffer;
mod server;
mod sessions;
mod shard;
mod shared_state;
#[cfg(test)]
mod test_clock;
#[cfg(test)]
mod test_sessions;
mod timers;
mod tokens;
mod vhost_bytes;
mod worker;

pub use admin_handle::{AdminHandle, request_channel};
pub use broker::{AdminRequest, ReplyAddress};
pub use cpu_latency::IdleProcessors;
pub use effects::{CopiedBytes, ShardEffects};
pub use link_dial::{DialCallback, DialError, DialFallback, DialProgress, DialRequest, DialedLink, RdmaDial};
pub use link_table::FederationLinkId;
pub use login::ExternalMechanism;
pub use mailbox::{Mailbox, ShardWaker, WakeTarget};
pub use password_verifier::PasswordVerifier;
pub use rdma_options::{RdmaListen, RdmaOptions, RdmaPoll};
pub use reactor::Stopper;
pub use server::{BrokerStartError, Server, ServerOptions};
pub use shard::{Shard, ShardOptions, TickOutcome};
pub use shared_state::SharedState;
pub use worker::BrokerDialler;
