//! Messages and the queues of one shard: in which order they wait and for how long, what leaves the memory, what becomes a dead
//! letter, which consumer is next, and what was delivered and is not settled.
//!
//! Enters: messages, consumers, settlements, time.  Leaves: messages, in the order of their queue; what memory and store are to
//! keep and to forget ([`MessageStorage`]).
//! Owns:   the messages that wait, and those that were delivered and are not settled.
//!
//! [`Queues`] has the queues of a shard, [`Queue`] one of them, [`Message`] what waits there.
#![forbid(unsafe_code)]

mod bcc;
pub mod carbon_copies;
mod change_list;
mod chunked_queue;
mod consumer_rotation;
mod dead_letter_list;
mod dead_letter_reason;
mod death_events;
mod death_history;
mod delayed_messages;
pub mod delayed_record;
mod delivery_count;
mod detached_letters;
mod expiration;
mod expiry_turns;
mod features;
mod held_dead_letters;
mod ids;
mod ledger;
pub mod limits;
mod message;
mod message_storage;
mod page;
mod paged_slot_map;
mod pager;
mod paging;
mod peeked_message;
mod pending_dead_letters;
mod pending_purges;
mod priority_level;
mod purged_messages;
mod queue;
mod queue_entry;
mod queue_housekeeping;
mod queue_pages;
mod queue_stats;
mod queue_timers;
mod queues;
mod ready_messages;
mod remote_consumers;
mod settled_run;
mod subscription;
#[cfg(test)]
mod test_storage;
#[cfg(test)]
mod test_visits;
mod vhost_quotas;
mod work_budget;

pub use change_list::ChangeList;
pub use consumer_rotation::{ConsumerAnswer, ConsumerRotation};
pub use dead_letter_list::DeadLetterGroup;
pub use dead_letter_reason::DeadLetterReason;
pub use death_history::{CachedDeadLetterRoute, DeadLetter, DeadLetterTarget, DeathHistory, DeathHistoryWriter};
pub use delayed_messages::{DelayedMessage, DelayedMessages, negate_delay};
pub use delivery_count::with_delivery_count;
pub use expiration::check_expiration;
pub use ids::{ConsumerKey, ConsumerRef, QueuePosition, RemoteConsumerKey, Requester, SettledMessages, StoredPosition};
pub use ledger::{AcknowledgedRun, Ledger, OldestDelivery, SettlementOutcome, UnsettledDelivery};
pub use message::{BodyRef, Content, Message};
pub use message_storage::{AppendResult, MessageStorage};
pub use page::{PageSummary, PagedMessage};
pub use paged_slot_map::PagedSlotMap;
pub use pager::Pager;
pub use paging::WaitingGet;
pub use peeked_message::{PeekedMessage, PeekedQueue};
pub use pending_purges::{PendingPurge, Purges};
pub use queue::Queue;
pub use queue_entry::QueueEntry;
pub use queue_stats::{DeathStats, QueueStats};
pub use queue_timers::TimerTarget;
pub use queues::{GetResult, QueueTable, QueueTimerResult, Queues, stored_uid};
pub use remote_consumers::{RemoteConsumer, RemoteConsumers};
pub use settled_run::SettledRun;
pub use subscription::Subscription;
pub use work_budget::WorkBudget;
