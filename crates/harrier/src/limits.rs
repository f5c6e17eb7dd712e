//! Limits of the program.

use std::time::Duration;

/// How long the end of the program waits for a log that nobody reads.
pub const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
