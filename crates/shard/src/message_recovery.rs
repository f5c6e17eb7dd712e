//! Recovery of a shard's messages: what its log has goes back to the queues, before any client connects.

use crate::sessions::Sessions;
use durability::LogSource;
use std::time::Instant;
use store::{RecoveredLog, ScanError, SegmentReader};

impl Sessions {
    /// Restores what is alive in a log, and returns where it goes on.
    pub fn recover_messages<R: SegmentReader>(
        &mut self,
        source: LogSource<'_, R>,
        now: Instant,
    ) -> Result<RecoveredLog, ScanError> {
        let Sessions { options, broker, effects, .. } = self;
        // What has expired meanwhile is found when the shard begins to tick.
        broker.set_now(options.time_us(now));
        broker.use_store();
        durability::recover_messages(broker, effects, source)
    }
}
