//! A queue for which publishers have waited lets them continue.

use crate::ids::ConnectionSlot;
use catalog::QueueId;
use std::collections::BTreeSet;

/// Why publishers continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReleaseCause {
    /// Their queue was full, and has drained or is gone.
    Drained,
    /// They were throttled, and the consumers have caught up.
    CaughtUp,
}

/// Publishers that a queue lets continue. Some of them may not wait for it any more.
pub(crate) struct PublisherRelease {
    pub queue: QueueId,
    pub cause: ReleaseCause,
    pub slots: BTreeSet<ConnectionSlot>,
}
