//! Definitions outside of a catalog: RabbitMQ's files of them, as JSON, and the journal of those that survive a restart.
//!
//! Enters: a file that RabbitMQ or Harrier has exported, pieces of a journal; a catalog.  Leaves: definitions for a catalog; such
//!         a file, such pieces.
//! Owns:   the form of the file, and the words for what is wrong with one: each names its place, `.queues[3].durable`; the form
//!         of the journal.
//!
//! [`read`] checks a file as a whole, [`DefinitionsFile::load`] loads it into a catalog, [`write()`] writes what a catalog holds, and
//! [`snapshot`] is the same before it is text, for those who have little time at the catalog.
//!
//! [`journal_changes`] says what a definition changes that survives a restart, [`JournalReplay`] what such records come to, and
//! [`DurableDefinitions::restore`] brings a catalog there.
#![forbid(unsafe_code)]

mod binding_set;
mod catalog_snapshot;
mod durable_definitions;
mod entry;
mod file;
mod journal_changes;
mod journal_codec;
mod journal_entry;
mod journal_record;
mod journal_replay;
mod json;
mod json_table;
mod kept_sections;
pub mod limits;
mod load;
mod restore;
mod rules;
pub mod toml_text;
mod vhost_notes;
mod write;

pub use catalog_snapshot::CatalogSnapshot;
pub use durable_definitions::DurableDefinitions;
pub use entry::{read_password, read_policy, read_tags, read_user_limits, read_vhost_limits};
pub use file::{DefinitionsFile, read};
pub use journal_changes::journal_changes;
pub use journal_codec::RecordFault;
pub use journal_entry::{JOURNAL_FORMAT, JournalEntryReader, JournalEntryWriter, JournalFault};
pub use journal_record::{DurableBinding, DurableExchange, DurableQueue, JournalRecord, PasswordHash, StoredUser};
pub use journal_replay::JournalReplay;
pub use json::Json;
pub use json_table::{table_of_json, table_to_json};
pub use kept_sections::KeptSections;
pub use restore::RestoreFault;
pub use vhost_notes::{VHOST_NOTES, VhostNote};
pub use write::{snapshot, write};

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionsFault {
    /// The place: `.users[0].name`; empty for the file as a whole.
    pub path: String,
    pub why: String,
}

impl std::fmt::Display for DefinitionsFault {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.path {
            "" => to.write_str(&self.why),
            path => write!(to, "{path}: {}", self.why),
        }
    }
}

impl std::error::Error for DefinitionsFault {}
