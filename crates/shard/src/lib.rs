//! Shards: the threads of a broker. Each serves its connections, ticks its part of the broker core, and exchanges
//! messages with the others.
//!
//! Read `shard` first: `Shard::tick` is the order in which everything happens.
#![forbid(unsafe_code)]

mod abort_text;
mod access_review;
mod admin_handle;
mod binding_watch;
mod close_count;
mod connection;
mod connection_limits;
mod connection_stamps;
mod connections;
mod copied_bytes;
mod cpu_latency;
mod cpu_latency_guard;
mod definition_journal;
mod definition_recovery;
mod disk_signal;
mod dispatcher;
mod durability_gate;
mod effects;
mod event_outcome;
mod federate;
mod federation_link;
mod federation_links;
mod flush;
mod given_up;
mod inbox;
pub mod limits;
mod link_context;
mod link_dial;
mod link_id;
mod link_output;
mod link_pushes;
mod link_record;
mod link_refusals;
mod link_status;
mod link_table;
mod link_timers;
mod local_routes;
mod logged_message;
mod login;
mod login_attempt;
mod login_failures;
mod login_queue;
mod login_source;
mod mailbox;
mod memory_account;
mod memory_check;
mod memory_pressure;
mod message_recovery;
mod message_store;
#[cfg(loom)]
mod model_ring;
mod output_queues;
mod page_reads;
mod paging;
mod password_verifier;
mod pending_dial;
mod publisher_throttle;
mod push_probe;
mod push_setup;
mod rdma_options;
mod rdma_ports;
mod receive_buffer;
mod route_counts;
mod server;
mod sessions;
mod shard;
mod shard_options;
mod shared_state;
mod spill;
mod stamp_check;
mod store_opening;
mod store_options;
mod store_signals;
mod store_turn;
mod sync;
#[cfg(test)]
mod test_clock;
#[cfg(test)]
mod test_sessions;
#[cfg(all(test, loom))]
mod tests;
mod timers;
mod tokens;
mod vhost_bytes;
mod worker;

pub use admin_handle::{AdminHandle, request_channel};
pub use broker::{AdminRequest, ReplyAddress};
pub use copied_bytes::CopiedBytes;
pub use cpu_latency::IdleProcessors;
pub use definition_journal::{DefinitionJournal, JournalEvent};
pub use definition_recovery::{DefinitionRecoveryError, JOURNAL_LOG, RecoveredDefinitions, recover_definitions};
pub use effects::ShardEffects;
pub use link_dial::{DialCallback, DialError, DialFallback, DialProgress, DialRequest, DialedLink, RdmaDial};
pub use link_id::FederationLinkId;
pub use login::ExternalMechanism;
pub use mailbox::{Mailbox, ShardWaker, WakeTarget};
pub use memory_pressure::ProcessMemory;
pub use message_recovery::LogSource;
pub use message_store::{MessageStore, MessageStoreOptions, StoreSync};
pub use password_verifier::PasswordVerifier;
pub use rdma_options::{RdmaListen, RdmaOptions, RdmaPoll};
pub use reactor::Stopper;
pub use server::{BrokerStartError, Server, ServerOptions};
pub use shard::{Shard, TickOutcome};
pub use shard_options::ShardOptions;
pub use shared_state::SharedState;
pub use spill::SpillOpener;
pub use store_opening::StoreOpenError;
pub use store_options::StoreOptions;
pub use worker::BrokerDialler;
