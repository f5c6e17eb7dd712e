//! Messages in the store of one queue that follow one another: what an acknowledgement settles is forgotten at once.
//!
//! Enters: runs of positions, one after another.  Leaves: runs, to be forgotten.

use crate::ids::StoredPosition;
use crate::message_storage::MessageStorage;

/// A run of messages in the store that is not forgotten yet. [`SettledRun::forget`] ends it.
#[derive(Default)]
pub struct SettledRun {
    run: Option<(StoredPosition, u32)>,
}

impl SettledRun {
    /// A queue is done with so many messages: they join the run, or begin the next.
    #[inline]
    pub fn push<S: MessageStorage>(&mut self, stored: StoredPosition, settled: u32, storage: &mut S) {
        match &mut self.run {
            Some((first, count))
                if first.uid == stored.uid
                    && first.position.0 + u64::from(*count) == stored.position.0
                    && *count <= u32::MAX - settled =>
            {
                *count += settled;
            }
            _ => {
                self.forget(storage);
                self.run = Some((stored, settled));
            }
        }
    }

    /// Has the store forget the run.
    #[inline]
    pub fn forget<S: MessageStorage>(&mut self, storage: &mut S) {
        if let Some((StoredPosition { uid, position }, count)) = self.run.take() {
            storage.forget(uid, position, count);
        }
    }
}
