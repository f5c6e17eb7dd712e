//! What makes the messages and definitions of a broker durable: the store of each shard over its disks, the journal of
//! definitions, and the recovery of both.
//!
//! Enters: effects of the broker core, completions of disks.  Leaves: requests to disks; what is durable, and what is damaged.
//! Owns:   the logs of a broker while it runs.
//!
//! [`OpenStore`] has the folders of a store, [`MessageStore`] the log of a shard, [`DefinitionJournal`] that of definitions.
#![forbid(unsafe_code)]

mod definition_journal;
mod definition_recovery;
mod durability_gate;
pub mod limits;
mod logged_message;
mod lossy_reader;
mod lost_messages;
mod message_recovery;
mod message_store;
mod page_reads;
mod paging;
mod resharding;
mod spill;
mod store_backup;
mod store_check;
mod store_damage;
mod store_metrics;
mod store_opening;
mod store_options;
mod store_signals;

pub use definition_journal::{DefinitionJournal, JournalEvent};
pub use definition_recovery::{DefinitionRecoveryError, JOURNAL_LOG, RecoveredDefinitions, recover_definitions};
pub use lost_messages::{QueueNames, describe_losses};
pub use message_recovery::{LogSource, recover_messages};
pub use message_store::{MessageStore, MessageStoreOptions, StoreSync};
pub use page_reads::ReadPage;
pub use resharding::{ReshardTarget, Resharding, reshard, write_definitions};
pub use spill::SpillOpener;
pub use store_backup::StoreBackup;
pub use store_check::is_store_damaged;
pub use store_damage::StoreDamage;
pub use store_metrics::{ShardStoreMetrics, StoreMetrics};
pub use store_opening::{OpenStore, ShardStore, StoreOpenError};
pub use store_options::StoreOptions;
pub use store_signals::StoreSignals;
