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

    /// The sections by name, with their entries.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &[Json])> {
        self.0.iter().map(|(name, entries)| (&**name, &entries[..]))
    }

    fn section_mut(&mut self, section: &str) -> &mut Vec<Json> {
        let at = self.0.iter().position(|(name, _)| name == section).unwrap_or_else(|| {
            self.0.push((section.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Puts an entry in the place of the one that has the same under all these keys. Answers whether there was one.
    pub fn put(&mut self, section: &str, identity: &[&str], entry: Json) -> bool {
        let entries = self.section_mut(section);
        match entries.iter_mut().find(|known| identity.iter().all(|key| known.get(key) == entry.get(key))) {
            Some(known) => {
                *known = entry;
                true
            }
            None => {
                entries.push(entry);
                false
            }
        }
    }

    /// Removes entries. Answers whether there were any.
    pub fn remove(&mut self, section: &str, is_meant: impl Fn(&Json) -> bool) -> bool {
        let entries = self.section_mut(section);
        let before = entries.len();
        entries.retain(|entry| !is_meant(entry));
        entries.len() != before
    }

    /// These entries, with those of a file in the place of those of their names.
    pub fn with(&self, file: &Self) -> Self {
        let mut both = self.clone();
        for (section, entries) in &file.0 {
            for entry in entries {
                both.put(section, &["component", "vhost", "name"], entry.clone());
            }
        }
        both
    }
}
