//! Policies of the file.
//!
//! Enters: `[[policy]]`, `[[operator_policy]]`.  Leaves: their parts with their lines; the same as text.
//! Owns:   how they are written.

use crate::accounts::TableReader;
use crate::origin::Origin;
use crate::setting::{quoted, type_of};
use toml::Spanned;
use toml::de::{DeInteger, DeValue};

#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// Where it applies.
    pub vhost: String,
    pub name: String,
    /// A pattern of names.
    pub pattern: String,
    /// To what: `queues`, `exchanges` or `all`.
    pub apply_to: String,
    /// Which of several counts.
    pub priority: i64,
    /// What it says.
    pub definition: Vec<PolicyTerm>,
    /// Where it is declared.
    pub origin: Origin,
}

/// One thing that a policy says.
#[derive(Clone, Debug)]
pub struct PolicyTerm {
    pub key: String,
    pub value: TermValue,
    /// Where that stands.
    pub origin: Origin,
}

/// A value as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub enum TermValue {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    Text(String),
    /// Values in their order.
    List(Vec<TermValue>),
}

const APPLY_TO: [&str; 3] = ["queues", "exchanges", "all"];

impl PolicyConfig {
    /// Takes one in, if nothing is wrong with it.
    pub(crate) fn read(entry: &mut TableReader<'_, '_>) -> Option<Self> {
        let (vhost, name, pattern) = (entry.name("vhost"), entry.name("name"), entry.text("pattern"));
        let apply_to = match entry.value("apply_to") {
            None => Some("all".to_owned()),
            Some((_, DeValue::String(word))) if APPLY_TO.contains(&&**word) => Some(word.to_string()),
            Some((origin, _)) => {
                entry.fault(origin, "apply_to", format!("it takes {}", APPLY_TO.join(", ")));
                None
            }
        };
        let priority = match entry.value("priority") {
            None => Some(0),
            Some((origin, value)) => match integer(value) {
                Some(number) => Some(number),
                None => {
                    entry.fault(origin, "priority", "a whole number is needed");
                    None
                }
            },
        };
        let definition = Self::definition(entry);
        let origin = entry.origin.clone();
        let (vhost, name, pattern, apply_to) = (vhost?, name?, pattern?, apply_to?);
        Some(PolicyConfig { vhost, name, pattern, apply_to, priority: priority?, definition: definition?, origin })
    }

    fn definition(entry: &mut TableReader<'_, '_>) -> Option<Vec<PolicyTerm>> {
        let (origin, why) = match entry.table.get("definition").map(Spanned::get_ref) {
            Some(DeValue::Table(table)) => {
                let said = table.iter().map(|(key, value)| {
                    let origin = entry.place.line_of(key.span().start);
                    let key = key.get_ref().to_string();
                    match term(value.get_ref()) {
                        Ok(value) => Ok(PolicyTerm { key, value, origin }),
                        Err(what) => Err((key, origin, what)),
                    }
                });
                match said.collect::<Result<Vec<_>, _>>() {
                    Ok(said) => return Some(said),
                    Err((key, origin, what)) => {
                        let why =
                            format!("a policy's value is a number, a text, a boolean or a list of them, not {what}");
                        entry.fault(origin, &format!("definition.{key}"), why);
                        return None;
                    }
                }
            }
            Some(other) => {
                let why = format!("a table is needed, such as {{ message-ttl = 1000 }}, not {}", type_of(other));
                (entry.value("definition").map(|(origin, _)| origin).unwrap_or(Origin::Default), why)
            }
            None => (entry.origin.clone(), "it is missing".to_owned()),
        };
        entry.fault(origin, "definition", why);
        None
    }

    /// Its keys and their values as a file has them.
    pub(crate) fn printed(&self) -> Vec<(&'static str, String)> {
        let said: Vec<_> =
            self.definition.iter().map(|said| format!("{} = {}", quoted(&said.key), said.value.printed())).collect();
        vec![
            ("vhost", quoted(&self.vhost)),
            ("name", quoted(&self.name)),
            ("pattern", quoted(&self.pattern)),
            ("apply_to", quoted(&self.apply_to)),
            ("priority", self.priority.to_string()),
            ("definition", format!("{{ {} }}", said.join(", "))),
        ]
    }
}

impl TermValue {
    fn printed(&self) -> String {
        match self {
            TermValue::Flag(flag) => flag.to_string(),
            TermValue::Number(number) => number.to_string(),
            TermValue::Text(text) => quoted(text),
            TermValue::List(items) => {
                format!("[{}]", items.iter().map(TermValue::printed).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let whole = |number: &DeInteger<'_>| i64::from_str_radix(number.as_str(), number.radix()).ok();
    if let DeValue::Integer(number) = value { whole(number) } else { None }
}

/// A value, or what it is instead.
fn term(value: &DeValue<'_>) -> Result<TermValue, &'static str> {
    match value {
        DeValue::Boolean(flag) => Ok(TermValue::Flag(*flag)),
        DeValue::String(text) => Ok(TermValue::Text(text.to_string())),
        DeValue::Integer(_) => integer(value).map(TermValue::Number).ok_or("a number beyond 64 bits"),
        DeValue::Array(items) => {
            items.iter().map(|item| term(item.get_ref())).collect::<Result<Vec<_>, _>>().map(TermValue::List)
        }
        other => Err(type_of(other)),
    }
}
