//! The last changes that were asked for: what the log says of them, kept for those who look.
//!
//! Owns: the bound on how many there are and how long each is.

use crate::json_object::JsonObject;
use crate::limits::{AUDIT_EVENTS_MAX, AUDIT_TEXT_BYTES_MAX};
use definitions::Json;
use std::cell::RefCell;
use std::collections::VecDeque;

/// A change that was asked for.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// Milliseconds since the epoch.
    pub at_ms: u64,
    pub user: String,
    /// The address of the client.
    pub source: String,
    pub method: &'static str,
    pub pattern: &'static str,
    /// What the path names.
    pub names: String,
    /// 0 as long as nothing is answered.
    pub status: u16,
}

/// The newest changes.
#[derive(Default)]
pub struct AuditLog {
    events: RefCell<VecDeque<AuditEvent>>,
}

impl AuditLog {
    /// Adds one. The oldest goes if there are as many as may be.
    pub fn add(&self, event: &AuditEvent) {
        let mut events = self.events.borrow_mut();
        if events.len() == AUDIT_EVENTS_MAX {
            events.pop_front();
        }
        let event = event.clone();
        let (user, source, names) = (cut(event.user), cut(event.source), cut(event.names));
        events.push_back(AuditEvent { user, source, names, ..event });
    }

    /// All of them, the newest first.
    pub fn to_json(&self) -> Json {
        let event = |event: &AuditEvent| {
            JsonObject::new()
                .int("timestamp", event.at_ms)
                .text("user", &event.user)
                .text("source", &event.source)
                .text("action", &format!("{} {}", event.method, event.pattern))
                .text("names", &event.names)
                .int("status", event.status)
                .build()
        };
        let events = self.events.borrow().iter().rev().map(event).collect();
        JsonObject::new().int("kept", AUDIT_EVENTS_MAX as u64).put("events", Json::List(events)).build()
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(AUDIT_TEXT_BYTES_MAX));
    text.shrink_to_fit();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(user: &str) -> AuditEvent {
        AuditEvent {
            at_ms: 0,
            user: user.to_owned(),
            source: "127.0.0.1:1".to_owned(),
            method: "PUT",
            pattern: "/api/users/{user}",
            names: String::new(),
            status: 204,
        }
    }

    fn users(log: &AuditLog) -> Vec<String> {
        let Json::Object(fields) = log.to_json() else { panic!("an object") };
        let Some((_, Json::List(events))) = fields.into_iter().find(|(key, _)| key == "events") else {
            panic!("a list")
        };
        let user = |event: &Json| match event.get("user") {
            Some(Json::Text(user)) => user.clone(),
            other => panic!("{other:?}"),
        };
        events.iter().map(user).collect()
    }

    #[test]
    fn the_newest_is_first_and_the_oldest_goes() {
        let log = AuditLog::default();
        for number in 0..AUDIT_EVENTS_MAX + 2 {
            log.add(&event(&number.to_string()));
        }
        let users = users(&log);
        assert_eq!(users.len(), AUDIT_EVENTS_MAX);
        assert_eq!(users.first(), Some(&(AUDIT_EVENTS_MAX + 1).to_string()));
        assert_eq!(users.last(), Some(&"2".to_owned()));
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        let log = AuditLog::default();
        log.add(&event(&"ä".repeat(AUDIT_TEXT_BYTES_MAX)));
        assert_eq!(users(&log)[0].len(), AUDIT_TEXT_BYTES_MAX / 2 * 2);
        log.add(&event(&format!("x{}", "ä".repeat(AUDIT_TEXT_BYTES_MAX))));
        assert_eq!(users(&log)[0].len(), AUDIT_TEXT_BYTES_MAX - 1);
    }
}
