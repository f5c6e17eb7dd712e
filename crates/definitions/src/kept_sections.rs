//! What of a file a catalog has no objects for: parameters, and what is noted of virtual hosts. It goes into the next export as
//! it is written. A program may act on parameters that it knows.
//!
//! Enters: entries of a file.  Leaves: the same.
//! Owns:   them.

use crate::Json;

/// The keys by which an entry is known; not every kind has all of them.
const IDENTITY: [&str; 3] = ["component", "vhost", "name"];

/// Entries that are kept, by section.
#[derive(Clone, Debug, Default)]
pub struct KeptSections(pub(crate) Vec<(String, Vec<Json>)>);

impl KeptSections {
    /// The entries of a section.
    pub fn section(&self, section: &str) -> &[Json] {
        self.0.iter().find(|(name, _)| name == section).map_or(&[], |(_, entries)| entries)
    }

    /// The sections by name, with their entries.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &[Json])> {
        self.0.iter().map(|(name, entries)| (&**name, &entries[..]))
    }

    /// All of them as one object.
    pub fn to_json(&self) -> Json {
        let sections = self.0.iter().filter(|(_, entries)| !entries.is_empty());
        Json::Object(sections.map(|(name, entries)| (name.clone(), Json::List(entries.clone()))).collect())
    }

    /// What [`to_json`](Self::to_json) has made. `None`: it is something else.
    pub fn from_json(json: Json) -> Option<Self> {
        let Json::Object(sections) = json else { return None };
        let section = |(name, entries)| match entries {
            Json::List(entries) => Some((name, entries)),
            _ => None,
        };
        Some(Self(sections.into_iter().map(section).collect::<Option<_>>()?))
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
                both.put(section, &IDENTITY, entry.clone());
            }
        }
        both
    }

    /// These entries, but for those of the names that a file has.
    pub fn without(&self, file: &Self) -> Self {
        let mut rest = self.clone();
        for (section, entries) in &file.0 {
            for of_file in entries {
                rest.remove(section, |entry| IDENTITY.iter().all(|key| entry.get(key) == of_file.get(key)));
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::KeptSections;
    use crate::Json;

    fn sections(text: &str) -> KeptSections {
        KeptSections::from_json(Json::read(text.as_bytes()).expect("JSON")).expect("sections")
    }

    #[test]
    fn entries_are_known_by_their_names() {
        let kept = sections(
            r#"{"parameters":[{"component":"c","vhost":"/","name":"a","value":1},{"component":"c","vhost":"v","name":"a","value":2}],"global_parameters":[{"name":"g","value":3}]}"#,
        );
        let file = sections(
            r#"{"parameters":[{"component":"c","vhost":"v","name":"a","value":4}],"global_parameters":[{"name":"h","value":5}]}"#,
        );
        let both = kept.with(&file);
        let expect = r#"{"parameters":[{"component":"c","vhost":"/","name":"a","value":1},{"component":"c","vhost":"v","name":"a","value":4}],"global_parameters":[{"name":"g","value":3},{"name":"h","value":5}]}"#;
        assert_eq!(both.to_json().line(), expect);
        let rest = r#"{"parameters":[{"component":"c","vhost":"/","name":"a","value":1}],"global_parameters":[{"name":"g","value":3}]}"#;
        assert_eq!(both.without(&file).to_json().line(), rest);
        assert_eq!(both.without(&both).to_json().line(), "{}");
        for wrong in ["[]", r#"{"parameters":1}"#] {
            assert!(KeptSections::from_json(Json::read(wrong.as_bytes()).expect("JSON")).is_none(), "{wrong}");
        }
    }
}
