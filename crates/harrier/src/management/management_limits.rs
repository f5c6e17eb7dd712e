//! Limits of the management threads.

use std::time::Duration;

/// Pieces of reports that wait for the management thread; the reader of reports waits then, and no shard does.
pub const REPORTS_WAITING_MAX: usize = 64;

/// How often each shard is asked, while somebody looks at the numbers.
pub const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// The time after which nobody looks any more, and the shards are asked no more.
pub const LOOKING_TIMEOUT: Duration = Duration::from_secs(60);

/// The time that the first request after such a pause waits for numbers of now; it is answered with older ones then.
pub const FIRST_ROUND_TIMEOUT: Duration = Duration::from_millis(250);
