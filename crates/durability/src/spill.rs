//! The spill log of a shard: messages that left the memory and that the log of durable ones does not have, or has only among
//! many others. Nothing of it is synced or recovered.
//!
//! Enters: messages of pages, completions of its disk.  Leaves: requests to its disk; messages that are wanted back.
//! Owns:   the log and its disk, once the first page has gone out.

use crate::logged_message::QueuedMessage;
use crate::store_damage::StoreDamage;
use crate::store_metrics::StoreMetrics;
use disk::Disk;
use std::ops::Range;
use store::limits::SEGMENT_BYTES_DEFAULT;
use store::{
    DiskError, FetchId, Fetched, LogId, MessageLog, MessageLogEvent, MessageLogOptions, Position, QueueUid,
    RecoveredLog, StoreTag, StoredMessage,
};

/// Opens the disk of a spill log, which is empty. It is called once, when the first page goes out.
pub type SpillOpener = Box<dyn FnMut() -> Result<Box<dyn Disk>, DiskError> + Send>;

/// The log and its disk.
struct OpenSpill {
    log: MessageLog<QueuedMessage>,
    disk: Box<dyn Disk>,
    /// No segment could be made.
    is_full: bool,
}

pub(crate) struct Spill {
    opener: SpillOpener,
    store: StoreTag,
    log: LogId,
    open: Option<OpenSpill>,
    failure: Option<String>,
    /// Messages that cannot be read, to be told.
    damage: Vec<StoreDamage>,
}

impl Spill {
    pub fn new(opener: SpillOpener, store: StoreTag, log: LogId) -> Self {
        Spill { opener, store, log, open: None, failure: None, damage: Vec::new() }
    }

    /// Whether messages can be appended. It opens the log.
    pub fn can_append(&mut self) -> bool {
        if self.failure.is_some() {
            return false;
        }
        if self.open.is_none() {
            match (self.opener)() {
                Ok(disk) => {
                    let options = MessageLogOptions { segment_bytes: SEGMENT_BYTES_DEFAULT, is_volatile: true };
                    let log = MessageLog::new(RecoveredLog::empty(self.store, self.log), options);
                    self.open = Some(OpenSpill { log, disk, is_full: false });
                }
                Err(error) => self.failure = Some(error.text),
            }
        }
        self.open.as_ref().is_some_and(|open| !open.is_full)
    }

    pub fn append(&mut self, queue: QueueUid, position: Position, message: QueuedMessage) {
        if let Some(open) = &mut self.open {
            open.log.append(queue, position, message);
        }
    }

    #[inline]
    pub fn settle(&mut self, queue: QueueUid, first: Position, count: u64) {
        if let Some(open) = &mut self.open {
            open.log.settle(queue, first, count);
        }
    }

    pub fn drop_queue(&mut self, queue: QueueUid) {
        if let Some(open) = &mut self.open {
            open.log.drop_queue(queue);
        }
    }

    /// What it has of a range.
    pub fn alive_within(&mut self, queue: QueueUid, wanted: Range<Position>) -> Vec<Range<u64>> {
        self.open.as_mut().map_or(Vec::new(), |open| open.log.alive_within(queue, wanted))
    }

    /// Messages are wanted back. Returns whether an answer will come.
    pub fn fetch(&mut self, id: FetchId, queue: QueueUid, wanted: Range<Position>) -> bool {
        match &mut self.open {
            Some(open) => {
                open.log.fetch(id, queue, wanted, Vec::new());
                true
            }
            None => false,
        }
    }

    pub fn take_fetched(
        &mut self,
        build: impl FnMut(&StoredMessage<'_>) -> QueuedMessage,
    ) -> Option<Fetched<QueuedMessage>> {
        self.open.as_mut()?.log.take_fetched(build)
    }

    #[inline]
    pub fn has_fetched(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.log.has_fetched())
    }

    /// Takes what the disk has done.
    pub fn complete(&mut self, now_us: u64) {
        let Some(open) = &mut self.open else { return };
        while let Some(completion) = open.disk.poll() {
            if let Some(event) = open.log.complete(completion, now_us) {
                open.on_event(event, &mut self.failure, &mut self.damage);
            }
        }
    }

    /// Asks the disk for what is due.
    pub fn submit(&mut self, now_us: u64) {
        let Some(open) = &mut self.open else { return };
        while let Some(request) = open.log.poll(now_us) {
            open.disk.submit(request);
        }
        while let Some(event) = open.log.take_event() {
            open.on_event(event, &mut self.failure, &mut self.damage);
        }
    }

    /// What has been written to it, and what it holds.
    pub fn metrics(&self) -> StoreMetrics {
        let metrics = |open: &OpenSpill| StoreMetrics { log: open.log.metrics(), disk: open.disk.metrics() };
        self.open.as_ref().map_or_else(StoreMetrics::default, metrics)
    }

    /// Messages of which it is known since the last call that they cannot be read.
    pub fn take_damage(&mut self) -> Vec<StoreDamage> {
        if let Some(open) = &mut self.open {
            while let Some(event) = open.log.take_event() {
                open.on_event(event, &mut self.failure, &mut self.damage);
            }
        }
        std::mem::take(&mut self.damage)
    }

    /// Whether [`Spill::take_damage`] has something.
    #[inline]
    pub fn has_damage(&self) -> bool {
        !self.damage.is_empty()
    }

    /// Why it cannot be used any more.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether so much waits for its disk that no more should be read of those who publish much.
    #[inline]
    pub fn is_congested(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.log.is_congested() && !open.is_full) && self.failure.is_none()
    }

    /// Whether so much waits for its disk that nobody should be read.
    #[inline]
    pub fn is_overfull(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.log.is_overfull() && !open.is_full) && self.failure.is_none()
    }

    pub fn heap_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.log.heap_bytes())
    }

    /// When [`Spill::submit`] has something to do.
    pub fn timer_us(&self) -> Option<u64> {
        self.open.as_ref()?.log.timer_us()
    }

    /// Nothing of it is needed any more.
    pub fn close(&mut self) {
        self.open = None;
    }
}

impl OpenSpill {
    fn on_event(&mut self, event: MessageLogEvent, failure: &mut Option<String>, found: &mut Vec<StoreDamage>) {
        match event {
            // Nobody waits for that, and it has no footers.
            MessageLogEvent::Durable(_) | MessageLogEvent::NoFooter(_) => {}
            MessageLogEvent::NoSpace => self.is_full = true,
            MessageLogEvent::Space => self.is_full = false,
            MessageLogEvent::Damaged(damage) => found.push(StoreDamage::wanted(damage).spilled()),
            MessageLogEvent::Lost(damage) => found.push(StoreDamage::unwanted(damage).spilled()),
            // Nobody scrubs it.
            MessageLogEvent::Scrubbed(_) => {}
            MessageLogEvent::Unreadable(error) => {
                tracing::error!(%error, "the disk cannot read a part of the spill log")
            }
            MessageLogEvent::Failed(error) => *failure = Some(error.text),
        }
    }
}
