//! The log: structured events on standard error.
//!
//! Enters: a level and a format.  Leaves: a line an event, with the time in UTC.
//! Owns:   how events look.
//! Never:  decides what is worth an event; colours anything.

use config::{LogFormat, LogLevel};
use std::io;
use tracing::Level;

/// Begins logging. Only the first call of a process has an effect.
pub fn begin(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    // Whoever read the log may have gone: that is no reason to end, and what cannot be written cannot be complained about there.
    let builder = tracing_subscriber::fmt().log_internal_errors(false).with_writer(io::stderr);
    let builder = builder.with_max_level(level).with_ansi(false);
    let begun = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.with_target(false).json().flatten_event(true).try_init(),
    };
    if let Err(error) = begun {
        tracing::warn!(error, "logging has begun before");
    }
}
