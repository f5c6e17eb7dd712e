//! When a log whose writes are not synced one by one is synced, and what is durable then.
//!
//! Enters: writes that are complete; syncs that are.  Leaves: when the next sync is due; what it has made durable.

use crate::ids::{FrameSequence, SegmentNumber};

/// What was written since a sync was last asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnsyncedWrites {
    /// Their last frame.
    pub last: FrameSequence,
    /// There is more than marks among them.
    pub is_data: bool,
    /// Where the log begins, as the last segment's header among them says.
    pub log_start: Option<SegmentNumber>,
}

/// The syncs of a log. One is under way at a time.
pub(crate) struct SyncSchedule {
    interval_us: u64,
    /// Since when there is something that no sync was asked for.
    unsynced: Option<(u64, UnsyncedWrites)>,
    syncing: Option<UnsyncedWrites>,
}

impl SyncSchedule {
    pub fn new(interval_us: u64) -> Self {
        SyncSchedule { interval_us, unsynced: None, syncing: None }
    }

    /// These writes are complete.
    pub fn on_written(&mut self, written: UnsyncedWrites, now_us: u64) {
        let (since_us, before) = self.unsynced.unwrap_or((now_us, written));
        let is_data = before.is_data || written.is_data;
        let log_start = written.log_start.or(before.log_start);
        self.unsynced = Some((since_us, UnsyncedWrites { last: written.last, is_data, log_start }));
    }

    /// When a sync is to be asked for.
    pub fn due_us(&self) -> Option<u64> {
        self.unsynced.filter(|_| self.syncing.is_none()).map(|(since_us, _)| since_us + self.interval_us)
    }

    /// Whether a sync is due: it is under way from now on.
    pub fn begin(&mut self, now_us: u64) -> bool {
        if self.due_us().is_none_or(|due_us| due_us > now_us) {
            return false;
        }
        self.syncing = self.unsynced.take().map(|(_, writes)| writes);
        true
    }

    /// The sync is complete: these are durable, and those before them.
    pub fn complete(&mut self) -> Option<UnsyncedWrites> {
        self.syncing.take()
    }
}

#[cfg(test)]
mod tests {
    use super::{SyncSchedule, UnsyncedWrites};
    use crate::ids::{FrameSequence, SegmentNumber};

    fn writes(last: u64, is_data: bool, log_start: Option<u64>) -> UnsyncedWrites {
        UnsyncedWrites { last: FrameSequence(last), is_data, log_start: log_start.map(SegmentNumber) }
    }

    #[test]
    fn a_sync_makes_durable_what_was_written_before_it_was_asked_for() {
        let mut syncs = SyncSchedule::new(10);
        assert!(syncs.due_us().is_none() && !syncs.begin(100));
        syncs.on_written(writes(3, true, Some(7)), 100);
        syncs.on_written(writes(4, false, None), 105);
        assert_eq!(syncs.due_us(), Some(110));
        assert!(!syncs.begin(109) && syncs.begin(110));
        syncs.on_written(writes(5, false, None), 111);
        assert!(syncs.due_us().is_none() && !syncs.begin(500), "one sync at a time");
        assert_eq!(syncs.complete(), Some(writes(4, true, Some(7))));
        assert!(syncs.begin(121));
        assert_eq!((syncs.complete(), syncs.due_us()), (Some(writes(5, false, None)), None));
    }
}
