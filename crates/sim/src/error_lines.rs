//! What brokers log as errors, as an operator would read it: the lines of each thread by themselves.
//!
//! Enters: events of `tracing`.  Leaves: those of the level ERROR, when somebody takes them.

use std::cell::RefCell;
use std::fmt::{self, Debug};
use std::sync::Once;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Level, Metadata};

/// Most lines that wait to be taken: a run that has more has failed for another reason.
const LINES_MAX: usize = 4_096;

thread_local! {
    static LINES: RefCell<Vec<ErrorLine>> = const { RefCell::new(Vec::new()) };
}

/// A line, with the fields that say something about damage.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ErrorLine {
    pub message: String,
    /// What cannot be read, in words.
    pub damage: String,
    /// The queue that it concerns.
    pub queue: String,
}

impl Visit for ErrorLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "queue" {
            value.clone_into(&mut self.queue);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "damage" => self.damage = format!("{value:?}"),
            _ => {}
        }
    }
}

/// Keeps the lines of every thread.
struct LineCollector;

impl Subscriber for LineCollector {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::ERROR
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::ERROR)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = ErrorLine::default();
        event.record(&mut line);
        LINES.with_borrow_mut(|lines| {
            if lines.len() < LINES_MAX {
                lines.push(line);
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Lines are kept from now on, and none is there yet of this thread.
pub fn begin() {
    static COLLECTOR: Once = Once::new();
    // In a program that has a subscriber of its own nothing would be kept, and every damage would seem to be passed over.
    COLLECTOR.call_once(|| tracing::subscriber::set_global_default(LineCollector).expect("nobody else reads the log"));
    take();
}

/// The lines of this thread since they were last taken.
pub fn take() -> Vec<ErrorLine> {
    LINES.take()
}

impl fmt::Display for ErrorLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} damage={} queue={:?}", self.message, self.damage, self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorLine, begin, take};

    #[test]
    fn errors_are_kept_with_their_damage_and_others_are_not() {
        begin();
        tracing::warn!("the next start takes longer");
        tracing::error!(damage = %"block 7", queue = "orders", "a queue is closed");
        let line = ErrorLine { message: "a queue is closed".into(), damage: "block 7".into(), queue: "orders".into() };
        assert_eq!((take(), take()), (vec![line], Vec::new()));
    }
}
