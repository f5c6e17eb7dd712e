//! The fields of a parameter's value, read one by one.
//!
//! Enters: an object of a client.  Leaves: typed values, and everything that is wrong with it, in RabbitMQ's words.
//! Never:  says what a value is: addresses have passwords.

use definitions::Json;
use std::time::Duration;

/// The longest delay that a parameter may ask for, in seconds: a year.
const DELAY_SECONDS_MAX: f64 = 31_536_000.0;

/// The fields, and the faults found so far.
pub struct ParameterFields<'a> {
    /// What the parameter is, for messages.
    what: &'static str,
    fields: &'a [(String, Json)],
    known: Vec<&'static str>,
    faults: Vec<String>,
}

impl<'a> ParameterFields<'a> {
    /// # Errors
    /// It is no object.
    pub fn of(what: &'static str, value: &'a Json) -> Result<Self, String> {
        match value {
            Json::Object(fields) => Ok(ParameterFields { what, fields, known: Vec::new(), faults: Vec::new() }),
            other => Err(format!("an object is needed, not {}", other.kind())),
        }
    }

    /// Notes what is wrong.
    pub fn fault(&mut self, why: impl Into<String>) {
        self.faults.push(why.into());
    }

    pub fn get(&mut self, key: &'static str) -> Option<&'a Json> {
        self.known.push(key);
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    fn typed<T>(&mut self, key: &'static str, expected: &str, read: impl FnOnce(&'a Json) -> Option<T>) -> Option<T> {
        let value = self.get(key)?;
        let read = read(value);
        if read.is_none() {
            self.fault(format!("{key} should be {expected}, actually was {}", value.kind()));
        }
        read
    }

    pub fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.typed(key, "a string", |value| match value {
            Json::Text(text) => Some(&**text),
            _ => None,
        })
    }

    /// A name or a routing key.
    pub fn name(&mut self, key: &'static str) -> Option<String> {
        let name = self.text(key)?;
        if name.len() > 255 {
            self.fault(format!("{key} has 255 bytes at most, not {}", name.len()));
        }
        Some(name.to_owned())
    }

    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.typed(key, "a boolean", |value| match value {
            Json::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    pub fn number(&mut self, key: &'static str, max: u64) -> Option<u64> {
        let expected = format!("a whole number from 0 to {max}");
        self.typed(key, &expected, |value| match value {
            Json::Int(number) => u64::try_from(*number).ok().filter(|number| *number <= max),
            _ => None,
        })
    }

    /// A time in milliseconds, at least this.
    pub fn milliseconds(&mut self, key: &'static str, least: u64) -> Option<Duration> {
        let ms = self.number(key, u64::from(u32::MAX))?;
        if ms < least {
            self.fault(format!("{key} is {least} at least"));
        }
        Some(Duration::from_millis(ms))
    }

    /// A wait between two tries, in seconds.
    pub fn delay(&mut self, key: &'static str) -> Option<Duration> {
        self.typed(key, "a number of seconds above 0", |value| {
            let seconds = match value {
                Json::Int(seconds) => *seconds as f64,
                Json::Float(seconds) => *seconds,
                _ => return None,
            };
            (seconds > 0.0 && seconds <= DELAY_SECONDS_MAX).then(|| Duration::from_secs_f64(seconds))
        })
    }

    /// One of several words; the first without the key.
    pub fn choice(&mut self, key: &'static str, words: &[&'static str]) -> &'static str {
        let expected = format!("one of {}", words.join(", "));
        let chosen = self.typed(key, &expected, |value| match value {
            Json::Text(text) => words.iter().copied().find(|word| word == text),
            _ => None,
        });
        chosen.unwrap_or(words[0])
    }

    /// One address or several, which are there.
    pub fn uris(&mut self, key: &'static str) -> Vec<String> {
        if !self.fields.iter().any(|(name, _)| name == key) {
            self.fault(format!("Key \"{key}\" not found in {}", self.what));
        }
        let uris = self.typed(key, "a string or a list of strings", |value| match value {
            Json::Text(uri) => Some(vec![uri.clone()]),
            Json::List(uris) if !uris.is_empty() => uris
                .iter()
                .map(|uri| match uri {
                    Json::Text(uri) => Some(uri.clone()),
                    _ => None,
                })
                .collect(),
            _ => None,
        });
        uris.unwrap_or_default()
    }

    /// A key that RabbitMQ knows and that would have no effect here, but for this value.
    pub fn without_effect(&mut self, key: &'static str, is_harmless: impl FnOnce(&Json) -> bool, why: &str) {
        if self.get(key).is_some_and(|value| !is_harmless(value)) {
            self.fault(format!("{key} would have no effect in this broker: {why}"));
        }
    }

    /// # Errors
    /// All that is wrong, a line each; also keys that were not asked for.
    pub fn end(mut self) -> Result<(), String> {
        let unknown = self.fields.iter().map(|(name, _)| &**name).filter(|name| !self.known.contains(name));
        let unknown: Vec<_> = unknown.map(|name| name.chars().take(64).collect::<String>()).collect();
        if !unknown.is_empty() {
            self.faults.push(format!("Unrecognised terms {} in {}", unknown.join(", "), self.what));
        }
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::ParameterFields;
    use definitions::Json;

    #[test]
    fn everything_that_is_wrong_is_told_and_no_value() {
        let value = r#"{"uri":[1],"n":70000,"t":5,"f":"yes","c":"x","d":0,"z":1,"secret":"amqp://u:pw@h"}"#;
        let value = Json::read(value.as_bytes()).expect("JSON");
        let mut fields = ParameterFields::of("something", &value).expect("an object");
        assert!(fields.uris("uri").is_empty() && fields.uris("other").is_empty());
        assert_eq!((fields.number("n", 65_535), fields.text("t"), fields.flag("f")), (None, None, None));
        assert_eq!((fields.choice("c", &["a", "b"]), fields.delay("d")), ("a", None));
        fields.without_effect("z", |_| false, "so it is");
        let why = fields.end().expect_err("faults");
        let expected = "uri should be a string or a list of strings, actually was a list\n\
                        Key \"other\" not found in something\n\
                        n should be a whole number from 0 to 65535, actually was a whole number\n\
                        t should be a string, actually was a whole number\n\
                        f should be a boolean, actually was a string\n\
                        c should be one of a, b, actually was a string\n\
                        d should be a number of seconds above 0, actually was a whole number\n\
                        z would have no effect in this broker: so it is\n\
                        Unrecognised terms secret in something";
        assert_eq!(why, expected);
    }
}
