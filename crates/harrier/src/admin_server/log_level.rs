//! Admin command that changes which events are logged.

use super::{AdminCommand, AdminError, AdminServer, error};
use crate::log;
use config::LogLevel;
use definitions::Json;

/// The levels by name; RabbitMQ's `warning` is one of them.
const LEVELS: [(&str, LogLevel); 6] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("warning", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

impl AdminServer {
    /// Sets the level from which on events are logged, until the broker ends.
    pub(super) fn set_log_level(&mut self, command: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let name = command.text("level")?.ok_or_else(|| error("malformed", "argument 'level' is missing"))?;
        let Some((_, level)) = LEVELS.iter().find(|(known, _)| *known == name) else {
            let names = LEVELS.map(|(known, _)| known).join(", ");
            return Err(error("malformed", format!("'{name}' is no level of the log; there are {names}")));
        };
        log::set_level(*level).map_err(|why| error("failed", why))?;
        tracing::info!(user = command.user, level = name, "the level of the log was set");
        Ok(Json::Object(vec![("level".to_owned(), Json::text(name))]))
    }
}
