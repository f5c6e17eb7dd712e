//! The log: structured events on standard error, one line each, with the time in UTC.

use config::{LogFormat, LogLevel};
use std::io;
use tracing::Level;

/// Initializes logging. Only the first call in a process has an effect.
pub fn begin(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    // The reader of the log may be gone. That does not end the process, and an error could not be logged there.
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
