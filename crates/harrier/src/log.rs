//! The log: structured events on standard error, one line each, with the time in UTC.
//!
//! A thread of its own writes the lines, so that a reader who does not read holds nobody up. Everything that is written
//! is escaped: a peer may have chosen any part of it.

use crate::limits::LOG_FLUSH_TIMEOUT;
use config::{LogFormat, LogLevel};
use logqueue::{LeftOutEvents, LogEntry, LogQueue};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::subscriber::Subscriber;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, reload};
use wire::Escaped;

/// The lines of the log; a place of the program is where `tracing` is called.
type PlacedLogQueue = LogQueue<Identifier>;

/// The level from which on events are logged, of each of the two subscribers.
type LevelHandle = reload::Handle<LevelFilter, Registry>;

/// What sets the level, once the log has begun.
static LEVELS: OnceLock<[LevelHandle; 2]> = OnceLock::new();

/// The log of the process, once it has begun.
static QUEUE: OnceLock<Arc<PlacedLogQueue>> = OnceLock::new();

/// The log of a running program; flushed at its end.
#[must_use]
pub struct Log(());

impl Drop for Log {
    fn drop(&mut self) {
        flush();
    }
}

/// Initializes logging. Only the first call in a process has an effect.
pub fn begin(level: LogLevel, format: LogFormat) -> Log {
    let queue = Arc::clone(QUEUE.get_or_init(Arc::default));
    let stream = Arc::new(ErrorStream::default());
    let (own_lines, own_level) = subscriber(level, format, None, EventWriter(Arc::clone(&stream)));
    let (lines, lines_level) = subscriber(level, format, Some(Arc::clone(&queue)), EventWriter(Arc::clone(&queue)));
    if tracing::dispatcher::set_global_default(lines).is_err() {
        tracing::warn!("logging has begun before");
        return Log(());
    }
    LEVELS.get_or_init(|| [own_level, lines_level]);
    let write = move || tracing::dispatcher::with_default(&own_lines, || write_entries(&queue, &stream));
    // The thread lives as long as the process.
    if let Err(error) = std::thread::Builder::new().name("log".to_owned()).spawn(write) {
        cli::print_error(&format!("harrier: nothing is logged, because the system refuses a thread: {error}"));
    }
    Log(())
}

/// Sets the level from which on events are logged.
///
/// # Errors
/// There is no log.
pub fn set_level(level: LogLevel) -> Result<(), String> {
    let handles = LEVELS.get().ok_or("there is no log")?;
    handles.iter().try_for_each(|handle| handle.reload(filter(level))).map_err(|error| error.to_string())
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Waits until everything is written, but not for ever.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        // Nobody can be told of a log that nobody reads.
        let _is_written = queue.flush(LOG_FLUSH_TIMEOUT, clock);
    }
}

fn subscriber<W>(
    level: LogLevel,
    format: LogFormat,
    limit: Option<Arc<PlacedLogQueue>>,
    writer: W,
) -> (tracing::Dispatch, LevelHandle)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter(level));
    let filtered = tracing_subscriber::registry().with(filter);
    // An error of the log could not be logged there.
    let lines = tracing_subscriber::fmt::layer().log_internal_errors(false).with_writer(writer);
    let lines = lines.with_ansi(false).with_ansi_sanitization(false);
    let dispatch = match format {
        LogFormat::Text => {
            let format = LimitedFormat { format: Format::default().with_target(false).with_ansi(false), limit };
            filtered.with(lines.event_format(format)).into()
        }
        LogFormat::Json => {
            let format: Format<Json> = Format::default().with_target(false).json().flatten_event(true);
            let format = LimitedFormat { format, limit };
            filtered.with(lines.fmt_fields(JsonFields::new()).event_format(format)).into()
        }
    };
    (dispatch, handle)
}

/// Formats events, but for those that repeat themselves.
struct LimitedFormat<F> {
    format: F,
    /// Counts the events; without it all of them are formatted.
    limit: Option<Arc<PlacedLogQueue>>,
}

/// Whether events of a place are limited: not those of the program itself, which an operator causes, nor those that an
/// operator has asked for.
fn is_limited(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO && !metadata.target().starts_with("harrier::")
}

impl<S, N, F> FormatEvent<S, N> for LimitedFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, to: Writer<'_>, event: &Event<'_>) -> std::fmt::Result {
        let metadata = event.metadata();
        if let Some(limit) = self.limit.as_ref().filter(|_| is_limited(metadata))
            && !limit.admits(&metadata.callsite(), *metadata.level(), clock(), || message(event))
        {
            return Ok(());
        }
        self.format.format_event(context, to, event)
    }
}

#[expect(clippy::disallowed_methods, reason = "the log counts what repeats itself within a second")]
fn clock() -> Instant {
    Instant::now()
}

/// The message of an event, without its fields.
fn message(event: &Event<'_>) -> String {
    struct MessageVisitor(String);

    impl Visit for MessageVisitor {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }

    let mut visitor = MessageVisitor(String::new());
    event.record(&mut visitor);
    visitor.0
}

/// Where the lines of events go.
trait LineSink {
    fn put_line(&self, line: &str);
}

impl LineSink for PlacedLogQueue {
    fn put_line(&self, line: &str) {
        if !line.is_empty() {
            self.push(line);
        }
    }
}

/// Writes events to a sink, one line each.
struct EventWriter<S>(Arc<S>);

impl<'a, S: LineSink + 'a> MakeWriter<'a> for EventWriter<S> {
    type Writer = EventLine<'a, S>;

    fn make_writer(&'a self) -> EventLine<'a, S> {
        EventLine(&self.0)
    }
}

struct EventLine<'a, S>(&'a S);

impl<S: LineSink> Write for EventLine<'_, S> {
    /// Takes one event: `tracing_subscriber` writes each in one piece.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.put_line(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard error, for the log's own thread: it may wait.
#[derive(Default)]
struct ErrorStream {
    /// Lines that could not be written.
    failed: AtomicU64,
}

impl LineSink for ErrorStream {
    fn put_line(&self, line: &str) {
        let line = format!("{}\n", Escaped(line.strip_suffix('\n').unwrap_or(line)));
        if io::stderr().write_all(line.as_bytes()).is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl ErrorStream {
    /// Logs how many lines are missing. Returns how many of them nobody knows of: all, if that cannot be written either.
    fn log_dropped(&self, lines: u64) -> u64 {
        let failed_before = self.failed.load(Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(lines, "lines of the log were dropped, because it was not read in time");
        }
        if self.failed.load(Ordering::Relaxed) == failed_before { 0 } else { lines }
    }
}

/// The log's thread. What it logs itself it writes at once.
fn write_entries(queue: &PlacedLogQueue, stream: &ErrorStream) {
    let mut dropped = 0;
    loop {
        match queue.next(clock) {
            LogEntry::Line(line) => {
                dropped = stream.log_dropped(dropped);
                let failed_before = stream.failed.load(Ordering::Relaxed);
                stream.put_line(&line);
                dropped += stream.failed.load(Ordering::Relaxed) - failed_before;
            }
            LogEntry::Dropped(lines) => dropped = stream.log_dropped(dropped + lines),
            LogEntry::LeftOut(LeftOutEvents { count, level, message }) => match level {
                Level::ERROR => tracing::error!(count, "{count} more within a second: {message}"),
                Level::WARN => tracing::warn!(count, "{count} more within a second: {message}"),
                _ => tracing::info!(count, "{count} more within a second: {message}"),
            },
        }
    }
}
