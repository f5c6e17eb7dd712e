//! What is known of definitions: each object that tests define, with the contents that it may have after a restart.
//!
//! Enters: changes, before and after they are answered.  Leaves: a verdict on the definitions that a broker says it has.

use serde_json::Value;
use std::collections::BTreeMap;

/// What the names of objects that are entered here contain.
pub const MARK: &str = "kept.";

/// Objects by section and name, with what defines them.
pub type Definitions = BTreeMap<String, String>;

#[derive(Clone, Default)]
pub struct DefinitionLedger {
    /// What each object may be: nothing, or so. Without an open change there is one of these.
    objects: BTreeMap<String, Vec<Option<String>>>,
}

/// A change that is not answered.
#[must_use]
pub struct OpenChange(Vec<(String, Option<String>)>);

impl DefinitionLedger {
    /// Objects are about to become these, or to be removed.
    pub fn change(&mut self, objects: impl IntoIterator<Item = (String, Option<String>)>) -> OpenChange {
        let objects: Vec<_> = objects.into_iter().collect();
        for (name, content) in &objects {
            self.objects.entry(name.clone()).or_insert_with(|| vec![None]).push(content.clone());
        }
        OpenChange(objects)
    }

    /// A change was answered.
    pub fn answer(&mut self, change: OpenChange) {
        for (name, content) in change.0 {
            self.objects.insert(name, vec![content]);
        }
    }

    /// Names of objects of a section that are there.
    pub fn names<'a>(&'a self, section: &'a str) -> impl Iterator<Item = &'a str> {
        let is_there = |contents: &[Option<String>]| contents.iter().any(Option::is_some);
        let objects = self.objects.iter().filter(move |(_, contents)| is_there(contents));
        objects.filter_map(move |(name, _)| name.strip_prefix(section)?.strip_prefix(' '))
    }

    /// Contents that an object may have.
    pub fn contents(&self, name: &str) -> impl Iterator<Item = &str> {
        self.objects.get(name).into_iter().flatten().filter_map(|content| content.as_deref())
    }

    /// What is known at a moment between two.
    pub fn since(mut self, before: &DefinitionLedger) -> DefinitionLedger {
        for (name, contents) in &mut self.objects {
            match before.objects.get(name) {
                Some(earlier) => contents.extend(earlier.iter().cloned()),
                None => contents.push(None),
            }
        }
        self
    }

    /// Compares what there is after a restart with what must and may be, and goes on from there.
    pub fn compare(&mut self, found: &Definitions) -> Result<(), String> {
        if let Some((name, content)) = found.iter().find(|(name, _)| !self.objects.contains_key(*name)) {
            return Err(format!("{name} is there, and nobody defined it: {content}"));
        }
        for (name, contents) in &mut self.objects {
            let found = found.get(name).cloned();
            if !contents.contains(&found) {
                return Err(format!("{name} is {found:?}, and may be {contents:?}"));
            }
            *contents = vec![found];
        }
        Ok(())
    }
}

/// What names an object of a section: these fields.
const SECTIONS: [(&str, &[&str]); 8] = [
    ("users", &["name"]),
    ("vhosts", &["name"]),
    ("permissions", &["user", "vhost"]),
    ("topic_permissions", &["user", "vhost", "exchange"]),
    ("parameters", &["component", "vhost", "name"]),
    ("policies", &["vhost", "name"]),
    ("exchanges", &["vhost", "name"]),
    ("bindings", &["source", "destination", "routing_key"]),
];

/// The objects of a definitions file whose names have the mark. Of a user without its password, which has another salt each time.
pub fn definitions_of(mut file: Value) -> Definitions {
    let mut definitions = Definitions::new();
    for (section, fields) in SECTIONS {
        let objects = file.get_mut(section).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        for mut object in objects {
            let name = fields.iter().map(|field| object[field].as_str().unwrap_or_default()).collect::<Vec<_>>();
            let name = format!("{section} {}", name.join(" "));
            if !name.contains(MARK) {
                continue;
            }
            if let Some(fields) = object.as_object_mut() {
                fields.retain(|field, _| field != "password_hash" && field != "hashing_algorithm");
            }
            definitions.insert(name, object.to_string());
        }
    }
    definitions
}
