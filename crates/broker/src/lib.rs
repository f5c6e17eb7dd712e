//! The broker's domain: queues, channels, consumers, settlement, and the messages between shards.
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
//! | `pager` | messages of queues leave the memory, and return to it |
//! | `restoration` | queues get the messages of an earlier life of the broker |
//! | `dead_letter_router`, `forwarder` | routed messages go to queues, other shards, delaying exchanges |
//! | `dispatcher` | which consumer gets the next message of a queue |
//! | `flow_control`, `queues`, `channels`, `remote_consumers`, `sessions`, `definitions`, `confirms` | state, each alone |
#![forbid(unsafe_code)]

mod access_review;
mod ack_timeouts;
mod admin_request;
mod bcc;
mod body_sizes;
mod broker;
mod broker_options;
mod carbon_copies;
mod change_list;
mod channel;
mod channel_confirms;
mod channel_counting;
mod channel_counts;
mod channels;
mod chunked_queue;
mod closed_queue;
mod commands;
mod commits;
mod confirms;
mod consumer;
mod consumer_rotation;
mod control_plane;
mod data_plane;
mod dead_letter_reason;
mod dead_letter_router;
mod death_events;
mod death_history;
mod declarations;
mod deferred_work;
mod definitions;
mod delayed_messages;
mod delayed_record;
mod delivery_count;
mod delivery_latency;
mod demand_review;
mod direct_reply;
mod dispatcher;
mod early_publishes;
mod effects;
mod expiration;
mod features;
mod fence;
mod flow_control;
mod forwarder;
mod ids;
mod inbox;
mod ledger;
pub mod limits;
mod mail_tally;
mod memory_growth;
mod message;
mod message_stats;
mod observer;
mod page;
mod paged_slot_map;
mod pager;
mod paging;
mod payload;
mod peeked_message;
mod pending_dead_letters;
mod pending_purges;
mod priority_level;
mod publish_answers;
mod publish_origin;
mod publish_route;
mod publish_routes;
mod publish_runs;
mod publisher_release;
mod publishing;
mod purged_messages;
mod queue;
mod queue_demand;
mod queue_entry;
mod queue_housekeeping;
mod queue_pages;
mod queue_timers;
mod queues;
mod ready_messages;
mod remote_consumers;
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
mod settled_run;
mod settlement_runs;
mod shard_answers;
mod shard_message;
mod stamps;
mod subscription;
#[cfg(test)]
mod test_effects;
mod transaction;
mod vhost_quotas;
mod waiting_consumers;
mod work_budget;
mod work_runner;

pub use crate::broker::Broker;
pub use crate::broker_options::{BrokerCounters, BrokerOptions};
pub use admin_request::{AdminRequest, AdminRequestError};
pub use body_sizes::{BODY_SIZE_BOUNDS, BODY_SIZE_CLASSES, BodySizeStats};
pub use change_list::ChangeList;
pub use dead_letter_reason::DeadLetterReason;
pub use delayed_record::delaying_shard;
pub use delivery_latency::{TIME_CLASS_BOUNDS_US, TimeStats};
pub use direct_reply::ReplyAddress;
pub use effects::{AppendResult, Confirm, ConfirmOutcome, Delivery, Effects};
pub use ids::{ChannelKey, ConnectionSlot, ConsumerKey, QueuePosition};
pub use ledger::OldestDelivery;
pub use mail_tally::MailTally;
pub use memory_growth::MemoryUse;
pub use message::{BodyRef, Content, Message};
pub use message_stats::{ChannelStats, DeathStats, ExchangeStats, QueueStats, ShardStats};
pub use observer::Observer;
pub use page::{PageSummary, PagedMessage};
pub use peeked_message::{PeekedMessage, PeekedQueue};
pub use publishing::Publish;
pub use queue::Queue;
pub use reports::{
    BrokerReport, ChannelReport, ConsumerId, ConsumerReport, ExchangeReport, HeldTotals, QueueHold, QueueReport,
    ReportPart, SessionReport,
};
pub use session_moves::{MovedSession, SessionMobility};
pub use session_state::{ClientCapabilities, ReadControl, SessionLogin};
pub use shard_message::{ShardBatch, ShardMessage};
