//! The broker's domain: queues, channels, consumers, settlement, and the mail between shards. Pure: commands in, effects out.
//!
//! Enters: commands of connections and letters of other shards.  Leaves: effects (see [`Effects`]).
//! Owns:   everything a broker knows on one shard, beside the bytes of its connections.
//! Never:  knows a frame, a thread, a lock, a future or JSON; reads a clock; draws chance.
#![forbid(unsafe_code)]

mod bcc;
mod chunked_queue;
mod channel;
mod consumer;
mod core;
mod pending_dead_letters;
mod death_history;
mod delayed_messages;
mod direct_reply;
mod effects;
mod expiration;
mod features;
mod ledger;
mod shard_message;
pub mod limits;
mod message;
mod session_state;
mod queue;
mod ready_messages;
mod admin_request;
mod vhost_quotas;
mod queue_timers;

pub use crate::core::{Broker, BrokerOptions, BrokerCounters, ReadControl, Publish};
pub use direct_reply::ReplyAddress;
pub use effects::{Confirm, ConfirmOutcome, Delivery, Effects, ConnectionSlot, AppendResult};
pub use shard_message::{ShardBatch, ShardMessage};
pub use message::{BodyRef, Content, Message};
pub use session_state::{ClientCapabilities, SessionLogin};
pub use queue::Queue;
pub use ready_messages::QueuePosition;
pub use admin_request::{AdminRequestError, AdminRequest};
