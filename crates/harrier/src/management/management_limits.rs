//! Limits of the management threads.

use std::time::Duration;

/// Pieces of reports that wait for the management thread; the reader of reports waits then, and no shard does.
pub const REPORTS_WAITING_MAX: usize = 64;

/// How often each shard is asked, while somebody looks at the numbers.
pub const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// How often while nobody does: often enough for the plots of the last hours.
pub const QUIET_ROUND_INTERVAL: Duration = Duration::from_secs(600);

/// How often it is looked meanwhile how much of the disk is free.
pub const DISK_LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The time after which nobody looks any more, and the shards are asked rarely.
pub const LOOKING_TIMEOUT: Duration = Duration::from_secs(60);

/// The time that the first request after such a pause waits for numbers of now; it is answered with older ones then.
pub const FIRST_ROUND_TIMEOUT: Duration = Duration::from_millis(250);

/// The time between two copies of all definitions for answers, while more changes come than are followed: a copy of a million bindings
/// holds the shard that makes changes for a tenth of a second.
pub const RESUBSCRIPTION_PAUSE: Duration = Duration::from_secs(10);

/// The time in which the broker says whether a user who logs in is as the copy of the definitions has it, while more changes come
/// than are followed. Then the login is refused with 503.
pub const USER_CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Requests for messages that wait for their thread; the next one gets 503.
pub const SESSION_TASKS_WAITING_MAX: usize = 64;

/// The time in which the broker answers such a request.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of bodies after which one request gets no more messages.
pub const GOT_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(DISK_LOOK_INTERVAL.as_secs() < QUIET_ROUND_INTERVAL.as_secs());
const _: () = assert!(SESSION_TIMEOUT.as_secs() < management::limits::ACTION_TIMEOUT.as_secs());
