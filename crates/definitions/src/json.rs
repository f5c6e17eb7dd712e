//! JSON as it is written: keys keep their order, and one given twice is an error.
//!
//! Enters: text.  Leaves: values, and text again.

use crate::limits::KEYS_COMPARED_MAX;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::HashSet;
use std::fmt;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A string.
    Text(String),
    /// `[…]`
    List(Vec<Json>),
    /// `{…}`
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A string.
    pub fn text(text: &str) -> Self {
        Json::Text(text.to_owned())
    }

    /// Reads a text.
    ///
    /// # Errors
    /// Why it is no JSON.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    /// The text, on one line.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("JSON of strings, numbers and lists can be written")
    }

    /// The text, for people to read.
    pub fn page(&self) -> String {
        serde_json::to_string_pretty(self).expect("JSON of strings, numbers and lists can be written")
    }

    /// An entry of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        let Json::Object(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// What it is, with its article.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Int(_) => "a whole number",
            Json::Float(_) => "a number with a fraction",
            Json::Text(_) => "a string",
            Json::List(_) => "a list",
            Json::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        i64::try_from(value).map(Json::Int).map_err(|_| E::custom(format!("the number {value} is too large")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::text(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut entries: Vec<(String, Json)> = Vec::new();
        let mut known_keys = HashSet::new();
        while let Some((key, value)) = from.next_entry::<String, Json>()? {
            if entries.len() == KEYS_COMPARED_MAX {
                known_keys.extend(entries.iter().map(|(known, _)| known.clone()));
            }
            let is_known = match entries.len() {
                ..KEYS_COMPARED_MAX => entries.iter().any(|(known, _)| *known == key),
                _ => !known_keys.insert(key.clone()),
            };
            if is_known {
                return Err(A::Error::custom(format!("the key \"{key}\" is there twice")));
            }
            entries.push((key, value));
        }
        Ok(Json::Object(entries))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => to.serialize_unit(),
            Json::Bool(value) => to.serialize_bool(*value),
            Json::Int(value) => to.serialize_i64(*value),
            Json::Float(value) => to.serialize_f64(*value),
            Json::Text(value) => to.serialize_str(value),
            Json::List(items) => to.collect_seq(items),
            Json::Object(entries) => {
                let mut map = to.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Json;
    use crate::limits::KEYS_COMPARED_MAX;

    #[test]
    fn a_key_that_is_there_twice_is_found_in_objects_of_any_size() {
        for count in [1, 2, KEYS_COMPARED_MAX - 1, KEYS_COMPARED_MAX, KEYS_COMPARED_MAX + 1, 100_000] {
            let keys: Vec<_> = (0..count).map(|key| format!("\"{key}\":0")).collect();
            let object = |keys: &[String]| Json::read(format!("{{{}}}", keys.join(",")).as_bytes());
            assert!(object(&keys).is_ok(), "{count}");
            for again in [0, count / 2, count - 1] {
                let more = [&keys[..], &keys[again..=again]].concat();
                assert!(object(&more).is_err_and(|why| why.contains("there twice")), "{count} {again}");
            }
        }
    }
}
