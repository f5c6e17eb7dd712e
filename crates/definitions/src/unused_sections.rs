//! What of a file has no effect here, and goes into the next export as it is written.
//!
//! Enters: entries of a file.  Leaves: the same.
//! Owns:   them.

use crate::Json;

/// Entries that are kept, by section.
#[derive(Clone, Debug, Default)]
pub struct UnusedSections(pub(crate) Vec<(String, Vec<Json>)>);

impl UnusedSections {
    /// The entries of a section.
    pub fn section(&self, section: &str) -> &[Json] {
        self.0.iter().find(|(name, _)| name == section).map_or(&[], |(_, entries)| entries)
    }
}
