//! RabbitMQ's definitions files: what is defined, as JSON.
//!
//! Enters: a file that RabbitMQ or Harrier has exported; a catalog.  Leaves: definitions for a catalog; such a file.
//! Owns:   the form of the file, and the words for what is wrong with one: each names its place, `.queues[3].durable`.
//!
//! [`read`] checks a file as a whole, [`DefinitionsFile::load`] loads it into a catalog, [`write()`] writes what a catalog holds, and
//! [`snapshot`] is the same before it is text, for those who have little time at the catalog.
#![forbid(unsafe_code)]

mod file;
mod json;
pub mod limits;
mod load;
mod rules;
mod unused_sections;
mod write;

pub use file::{DefinitionsFile, read};
pub use json::Json;
pub use unused_sections::UnusedSections;
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
