//! The bounded queue of log lines: any thread adds some and never waits, one thread writes them.
//!
//! - [`LogQueue`] has the lines that wait to be written. One without space is dropped and counted.
//! - `RepeatLimit` counts what one place of the program logs within a second, so that a flood of
//!   the same line becomes one with a number.
//!
//! It is a crate of its own because its models run under loom, for which the libraries that format events are not made.
#![forbid(unsafe_code)]

pub mod limits;
mod log_queue;
mod repeat_limit;
mod sync;
#[cfg(all(test, loom))]
mod tests;

pub use log_queue::{LogEntry, LogQueue};
pub use repeat_limit::LeftOutEvents;
