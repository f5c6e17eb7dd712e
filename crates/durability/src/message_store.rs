//! The message store of a shard: its log, the disk below it, and what the broker core must be told of them.
//!
//! Enters: effects of the broker core, completions of the disk.  Leaves: requests to the disk; tickets that are durable.
//! Owns:   the log, the disk, whether the disk has space.

use crate::durability_gate::DurabilityGate;
use crate::limits::DISK_CHECK_INTERVAL_US;
use crate::logged_message::QueuedMessage;
use crate::page_reads::PageReads;
use crate::spill::Spill;
use crate::store_damage::StoreDamage;
use crate::store_metrics::StoreMetrics;
use crate::store_signals::StoreSignals;
use catalog::QueueUid;
use disk::Disk;
use queues::limits::PAGED_QUEUE_UID_FIRST;
use queues::{AppendResult, Message, QueuePosition};
use std::ops::Range;
use store::limits::MARK_DELAY_US;
use store::{
    DiskError, DiskErrorKind, LogId, MessageLog, MessageLogEvent, MessageLogOptions, Position, RecoveredLog, Request,
    ScrubOptions, StoreTag,
};

/// What a confirm waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreSync {
    /// The message is on the disk.
    Always,
    /// The message was written, and the disk is synced so many microseconds later.
    Later { interval_us: u64 },
    /// Nothing: it is written soon.
    Never,
}

/// How a shard uses its store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageStoreOptions {
    pub segment_bytes: u64,
    pub sync: StoreSync,
    /// How long a group that somebody waits for is held back, so that it has more.
    pub group_delay_us: u64,
    /// Free bytes of the disk below which publishers are held back.
    pub disk_free_limit: u64,
}

/// Makes the messages of a shard durable.
pub struct MessageStore {
    pub(crate) log: MessageLog<QueuedMessage>,
    disk: Box<dyn Disk>,
    options: MessageStoreOptions,
    gate: DurabilityGate,
    /// No segment could be made.
    is_full: bool,
    /// The disk had less than its limit when it was last asked.
    pub(crate) is_low: bool,
    space_checked_us: u64,
    /// Something was asked of the disk since then.
    has_written: bool,
    /// What the other shards know.
    has_space: bool,
    failure: Option<DiskError>,
    /// Messages that cannot be read, to be told.
    pub(crate) damage: Vec<StoreDamage>,
    is_closing: bool,
    /// Of which store and log it is.
    pub(crate) identity: (StoreTag, LogId),
    /// Without it no messages leave the memory.
    pub(crate) spill: Option<Spill>,
    pub(crate) page_reads: PageReads,
    /// Numbers that queues get in this life, while nothing durable says so.
    unclaimed_uids: Range<u64>,
    /// A message was appended for such a queue: nothing is written until the numbers are claimed.
    awaits_claim: bool,
}

#[inline]
pub(crate) fn uid_of(queue: QueueUid) -> store::QueueUid {
    store::QueueUid(queue.number())
}

pub(crate) fn queue_of(uid: store::QueueUid) -> Option<QueueUid> {
    QueueUid::new(uid.0)
}

#[inline]
pub(crate) fn position_of(position: QueuePosition) -> Position {
    Position(position.0)
}

impl MessageStore {
    /// A store that goes on behind what was recovered, or at the beginning ([`RecoveredLog::empty`]).
    pub fn new(recovered: RecoveredLog, disk: Box<dyn Disk>, options: MessageStoreOptions) -> Self {
        let log_options = MessageLogOptions { segment_bytes: options.segment_bytes, is_volatile: false };
        let identity = (recovered.end.chain.store, recovered.end.chain.log);
        let mut log = MessageLog::new(recovered, log_options);
        log.set_group_delay(options.group_delay_us);
        if let StoreSync::Later { interval_us } = options.sync {
            log.sync_later(interval_us);
        }
        MessageStore {
            log,
            disk,
            options,
            gate: DurabilityGate::default(),
            is_full: false,
            is_low: false,
            space_checked_us: 0,
            // Whether there is space is seen before the first message comes.
            has_written: true,
            has_space: true,
            failure: None,
            damage: Vec::new(),
            is_closing: false,
            identity,
            spill: None,
            page_reads: PageReads::default(),
            unclaimed_uids: 0..0,
            awaits_claim: false,
        }
    }

    /// Queues of this life have numbers from this one on. Nothing of them is written before it is durable that the next life numbers
    /// its queues behind them: if this life left messages and no trace of its numbers, the next one would give these to others.
    pub fn begin_uids(&mut self, first: QueueUid) {
        self.unclaimed_uids = first.number()..PAGED_QUEUE_UID_FIRST;
    }

    /// The next life will number its queues behind those of this one.
    pub fn claim_uids(&mut self) {
        (self.unclaimed_uids, self.awaits_claim) = (0..0, false);
        self.log.hold_writes(false);
    }

    #[inline]
    pub fn has_unclaimed_uids(&self) -> bool {
        !self.unclaimed_uids.is_empty()
    }

    /// Whether something waits for [`MessageStore::claim_uids`].
    #[inline]
    pub fn awaits_claim(&self) -> bool {
        self.awaits_claim
    }

    /// Has the log's sealed segments checked.
    pub fn set_scrub(&mut self, options: ScrubOptions) {
        self.log.set_scrub(Some(options));
    }

    #[inline]
    pub fn append(&mut self, queue: QueueUid, position: QueuePosition, message: Message) -> AppendResult {
        self.await_claim_of(queue);
        let ticket = self.log.append(uid_of(queue), position_of(position), QueuedMessage(message));
        self.result(ticket.0)
    }

    /// Appends messages that differ in their bodies alone, at positions that follow one another. Returns the result of the first.
    #[inline]
    pub fn append_run(&mut self, queue: QueueUid, first: QueuePosition, messages: &[Message]) -> AppendResult {
        self.await_claim_of(queue);
        let messages = messages.iter().map(|message| QueuedMessage(message.clone()));
        let ticket = self.log.append_run(uid_of(queue), position_of(first), messages);
        self.result(ticket.0)
    }

    #[inline]
    fn await_claim_of(&mut self, queue: QueueUid) {
        if self.unclaimed_uids.contains(&queue.number()) {
            self.awaits_claim = true;
            self.log.hold_writes(true);
        }
    }

    #[inline]
    fn result(&self, ticket: u64) -> AppendResult {
        match self.options.sync {
            StoreSync::Always | StoreSync::Later { .. } => AppendResult::Pending(ticket),
            StoreSync::Never => AppendResult::Durable,
        }
    }

    #[inline]
    pub fn forget(&mut self, queue: QueueUid, first: QueuePosition, count: u32) {
        self.log.settle(uid_of(queue), position_of(first), count.into());
        if let Some(spill) = &mut self.spill {
            spill.settle(uid_of(queue), position_of(first), count.into());
        }
    }

    #[inline]
    pub fn mark_delivered(&mut self, queue: QueueUid, first: QueuePosition, count: u32) {
        // The log takes those before it for delivered, too.
        let last = QueuePosition(first.0 + u64::from(count.saturating_sub(1)));
        self.log.mark_delivered(uid_of(queue), position_of(last));
    }

    #[inline]
    pub fn mark_returned(&mut self, queue: QueueUid, position: QueuePosition, times: u32) {
        self.log.mark_returned(uid_of(queue), position_of(position), times);
    }

    #[inline]
    pub fn begin_commit(&mut self) {
        self.log.begin_commit();
    }

    #[inline]
    pub fn end_commit(&mut self) -> AppendResult {
        let ticket = self.log.end_commit();
        self.result(ticket.0)
    }

    /// When everything that was appended and forgotten is durable.
    #[inline]
    pub fn settled(&mut self) -> AppendResult {
        self.log.last_undurable().map_or(AppendResult::Durable, |ticket| self.result(ticket.0))
    }

    #[inline]
    pub fn await_durable(&mut self, ticket: u64) {
        self.log.await_durable(store::Ticket(ticket));
    }

    pub fn drop_queue(&mut self, queue: QueueUid) {
        self.log.drop_queue(uid_of(queue));
        if let Some(spill) = &mut self.spill {
            spill.drop_queue(uid_of(queue));
        }
    }

    /// Takes what the disk has done.
    pub fn complete(&mut self, now_us: u64) {
        while let Some(completion) = self.disk.poll() {
            let event = self.log.complete(completion, now_us);
            event.into_iter().for_each(|event| self.on_event(event));
        }
        if let Some(spill) = &mut self.spill {
            spill.complete(now_us);
        }
    }

    fn on_event(&mut self, event: MessageLogEvent) {
        match event {
            MessageLogEvent::Durable(ticket) => self.gate.on_durable(ticket.0),
            MessageLogEvent::NoSpace => self.is_full = true,
            MessageLogEvent::Space => self.is_full = false,
            MessageLogEvent::NoFooter(error) => tracing::warn!(%error, "the next start takes longer"),
            MessageLogEvent::Damaged(damage) => self.damage.push(StoreDamage::wanted(damage)),
            MessageLogEvent::Lost(damage) => self.damage.push(StoreDamage::unwanted(damage)),
            MessageLogEvent::Scrubbed(damage) => tracing::error!(%damage, "a part of the store is damaged"),
            MessageLogEvent::Unreadable(error) => tracing::error!(%error, "the disk cannot read a part of the store"),
            MessageLogEvent::Failed(error) => self.failure = Some(error),
        }
    }

    fn fail(&mut self, text: String) {
        self.failure.get_or_insert(DiskError { kind: DiskErrorKind::Failed, text });
    }

    /// Messages of which it is known since the last call that they cannot be read.
    pub fn take_damage(&mut self) -> Vec<StoreDamage> {
        while let Some(event) = self.log.take_event() {
            self.on_event(event);
        }
        if let Some(spill) = &mut self.spill {
            self.damage.append(&mut spill.take_damage());
        }
        std::mem::take(&mut self.damage)
    }

    /// Whether [`MessageStore::take_damage`] has something.
    #[inline]
    pub fn has_damage(&self) -> bool {
        !self.damage.is_empty() || self.spill.as_ref().is_some_and(|spill| spill.has_damage())
    }

    /// Asks the disk for what is due. What has been appended may depend on definitions up to this version.
    pub fn submit(&mut self, definitions_version: u64, now_us: u64) {
        // Before the end everything is due, and the mark that proves it.
        let now_us = if self.is_closing { now_us + self.closing_us() } else { now_us };
        while let Some(request) = self.log.poll(now_us) {
            if matches!(request, Request::Write { .. }) {
                self.gate.on_write(definitions_version);
            }
            self.has_written = true;
            self.disk.submit(request);
        }
        while let Some(event) = self.log.take_event() {
            self.on_event(event);
        }
        if let Some(spill) = &mut self.spill {
            spill.submit(now_us);
            if let Some(text) = spill.failure().map(str::to_owned) {
                self.fail(text);
            }
        }
    }

    /// How long nothing waits at the end.
    fn closing_us(&self) -> u64 {
        match self.options.sync {
            StoreSync::Later { interval_us } => MARK_DELAY_US.max(interval_us),
            StoreSync::Always | StoreSync::Never => MARK_DELAY_US,
        }
    }

    /// The ticket up to which messages are durable, with the definitions that they need; `None` if it is none more.
    pub fn take_durable(&mut self, first_undurable: u64) -> Option<u64> {
        self.gate.release(first_undurable)
    }

    /// Whether [`MessageStore::take_durable`] has one.
    #[inline]
    pub fn has_durable(&self, first_undurable: u64) -> bool {
        self.gate.is_open(first_undurable)
    }

    /// Tells all shards when the disk has too little space, and when it has enough again: returns whether it has. It is asked now
    /// and then while something is written, or it has too little.
    pub fn check_space(&mut self, now_us: u64, signals: &StoreSignals) -> bool {
        let is_due = now_us >= self.space_checked_us + DISK_CHECK_INTERVAL_US;
        if is_due && (self.has_written || self.is_low || self.is_full) {
            (self.space_checked_us, self.has_written) = (now_us, false);
            match self.disk.free_bytes() {
                Ok(bytes) => self.is_low = bytes < self.options.disk_free_limit,
                Err(error) => self.failure = Some(error),
            }
        }
        let has_space = !self.is_full && !self.is_low;
        let has_changed = has_space != self.has_space;
        if has_changed {
            self.has_space = has_space;
            signals.set_space(has_space);
        }
        has_changed
    }

    /// Why the disk cannot be written any more.
    pub fn failure(&self) -> Option<&DiskError> {
        self.failure.as_ref()
    }

    /// Whether so much waits for the disk that no more should be read of those who have added much to it. While there is no
    /// space, publishers are held back, and what others do makes space.
    #[inline]
    pub fn is_congested(&self) -> bool {
        let is_spill_congested = self.spill.as_ref().is_some_and(|spill| spill.is_congested());
        ((self.log.is_congested() && !self.is_full) || is_spill_congested) && self.failure.is_none()
    }

    /// Whether so much waits for the disk that nobody should be read.
    #[inline]
    pub fn is_overfull(&self) -> bool {
        let is_spill_overfull = self.spill.as_ref().is_some_and(|spill| spill.is_overfull());
        ((self.log.is_overfull() && !self.is_full) || is_spill_overfull) && self.failure.is_none()
    }

    /// Bytes of messages that wait for the disk.
    #[inline]
    pub fn pending_bytes(&self) -> usize {
        self.log.pending_bytes()
    }

    /// The tickets of what is not written.
    #[inline]
    pub fn unwritten(&self) -> Range<u64> {
        self.log.unwritten()
    }

    /// Bytes on the heap that wait for the disks, that know what they have, or that were read and not handed over.
    pub fn heap_bytes(&self) -> usize {
        let spill_bytes = self.spill.as_ref().map_or(0, |spill| spill.heap_bytes());
        self.log.heap_bytes() + spill_bytes + self.page_reads.heap_bytes()
    }

    /// What it holds of messages that are not settled.
    pub fn census(&self) -> [(&'static str, usize); 3] {
        [
            ("bytes of messages to be written", self.log.pending_bytes()),
            ("bytes of live messages in the log", self.log.live_bytes() as usize),
            ("groups that wait for definitions", self.gate.len()),
        ]
    }

    /// What has been written, and what the log holds.
    pub fn metrics(&self) -> StoreMetrics {
        StoreMetrics { log: self.log.metrics(), disk: self.disk.metrics() }
    }

    /// The same of the spill log.
    pub fn spill_metrics(&self) -> StoreMetrics {
        self.spill.as_ref().map_or_else(StoreMetrics::default, |spill| spill.metrics())
    }

    /// When [`MessageStore::submit`] has something to do, or the disk must be asked for its space.
    pub fn timer_us(&self) -> Option<u64> {
        let space_us = (self.is_low || self.is_full).then_some(self.space_checked_us + DISK_CHECK_INTERVAL_US);
        let spill_us = self.spill.as_ref().and_then(|spill| spill.timer_us());
        self.log.timer_us().into_iter().chain(space_us).chain(spill_us).min()
    }

    /// Writes everything, and the mark that proves it; `wait` waits until the disk has done something. Returns whether all of it is
    /// durable.
    pub fn close(&mut self, definitions_version: u64, now_us: u64, mut wait: impl FnMut()) -> bool {
        self.is_closing = true;
        self.log.close();
        if let Some(spill) = &mut self.spill {
            spill.close();
        }
        loop {
            // Before each wait, as it ends once for everything that was done before.
            self.complete(now_us);
            self.submit(definitions_version, now_us);
            if self.disk.under_way() == 0 || self.failure.is_some() {
                break;
            }
            wait();
        }
        self.failure.is_none() && self.log.pending_bytes() == 0
    }
}
