//! The broker's domain: sessions, channels, consumers, routing, confirms, and the messages between shards. The crate `queues`
//! below it has the messages and queues.
//!
//! Commands of connections and messages of other shards enter; effects leave (see [`Effects`]). There are no frames, threads,
//! locks, futures or JSON here, time is told and random numbers are an effect.
//!
//! [`Broker`] is a facade. Below it, each module imports those below itself alone:
//!
//! | module | duty |
//! |---|---|
//! | `inbox`, `commands` | messages of other shards; methods of clients |
//! | `requests`, `declarations` | requests to queues and definitions, and what follows their responses |
//! | `control_plane` | what changes of definitions, ends of connections and timers do |
//! | `publishing` | from a publish or a commit to routed messages and confirms |
//! | `memory_growth` | which commands take memory, and may have to wait for it |
//! | `data_plane` | owns the objects through which messages pass |
//! | `restoration` | queues get the messages of an earlier life of the broker |
//! | `dead_letter_router`, `forwarder` | routed messages go to queues, other shards, delaying exchanges |
//! | `dispatcher` | which consumer gets the next message of a queue |
//! | `flow_control`, `channels`, `sessions`, `definitions`, `confirms` | state, each alone |
#![forbid(unsafe_code)]

mod access_review;
mod ack_timeouts;
mod admin_request;
mod body_sizes;
mod broker;
mod broker_options;
mod channel;
mod channel_confirms;
mod channel_counting;
mod channel_counts;
mod channels;
mod closed_queue;
mod commands;
mod commits;
mod confirms;
mod consumer;
mod consumers_by_tag;
mod control_plane;
mod data_plane;
mod dead_letter_router;
mod declarations;
mod deferred_work;
mod definitions;
mod delivery_latency;
mod demand_review;
mod direct_reply;
mod dispatcher;
mod early_publishes;
mod effects;
mod fence;
mod flow_control;
mod forwarder;
mod ids;
mod inbox;
pub mod limits;
mod mail_tally;
mod memory_growth;
mod message_stats;
mod observer;
mod payload;
mod publish_answers;
mod publish_origin;
mod publish_route;
mod publish_routes;
mod publish_runs;
mod publisher_release;
mod publishing;
mod queue_demand;
mod reports;
mod requests;
mod restoration;
mod rollback;
mod run_dispatch;
mod run_lists;
mod session_channels;
mod session_moves;
mod session_state;
mod sessions;
mod settlement_runs;
mod shard_answers;
mod shard_message;
mod stamps;
#[cfg(test)]
mod test_effects;
mod transaction;
mod waiting_consumers;
mod work_runner;

pub use crate::broker::Broker;
pub use crate::broker_options::{BrokerCounters, BrokerOptions};
pub use admin_request::{AdminRequest, AdminRequestError};
pub use body_sizes::{BODY_SIZE_BOUNDS, BODY_SIZE_CLASSES, BodySizeStats};
pub use delivery_latency::{TIME_CLASS_BOUNDS_US, TimeStats};
pub use direct_reply::ReplyAddress;
pub use effects::{Confirm, ConfirmOutcome, Delivery, Effects};
pub use ids::{ChannelKey, ConnectionSlot};
pub use mail_tally::MailTally;
pub use memory_growth::MemoryUse;
pub use message_stats::{ChannelStats, ExchangeStats, ShardStats};
pub use observer::Observer;
pub use publishing::Publish;
pub use reports::{
    BrokerReport, ChannelReport, ConsumerId, ConsumerReport, ExchangeReport, HeldTotals, QueueHold, QueueReport,
    ReportPart, SessionReport,
};
pub use session_moves::{MovedSession, SessionMobility};
pub use session_state::{ClientCapabilities, ReadControl, SessionLogin};
pub use shard_message::{ShardBatch, ShardMessage};
