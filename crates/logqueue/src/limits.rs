//! Limits of the log; small in models.

use std::time::Duration;

/// Bytes of log lines that wait to be written, with [`LOG_LINE_OVERHEAD_BYTES`] for each: some 4,000 lines. One more is
/// dropped and counted.
pub(crate) const LOG_BYTES_MAX: usize = if cfg!(loom) { 2 * LOG_LINE_OVERHEAD_BYTES + 4 } else { 1 << 20 };
/// What a waiting line costs beside its text.
pub(crate) const LOG_LINE_OVERHEAD_BYTES: usize = 64;
/// Lines that one place of the program logs in a [`LOG_REPEAT_WINDOW`], if peers can cause them. More are counted.
pub(crate) const LOG_REPEATS_MAX: u32 = if cfg!(loom) { 1 } else { 100 };
/// The time for which the lines of one place are counted together.
pub(crate) const LOG_REPEAT_WINDOW: Duration = Duration::from_secs(1);
