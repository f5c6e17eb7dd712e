//! The journal of definitions: makes what survives a restart durable, on shard 0.
//!
//! Enters: changes with their versions; completions of the disk.  Leaves: requests to the disk; up to which version definitions
//!         are durable.
//! Owns:   the journal's log, its snapshots and its segments.
//!
//! The changes of one tick are one write. Each life of a broker begins with a snapshot of all that is defined, written in steps
//! between the changes; when it is durable, so are the changes, and what is older is removed. When the journal has grown, there
//! is another one. Its complete segments are scrubbed like those of messages: damage is told, and ends nothing.

use crate::definition_recovery::RecoveredDefinitions;
use crate::limits::{
    JOURNAL_GROWTH_BYTES_MIN, JOURNAL_GROWTH_FACTOR, JOURNAL_RETRY_US, JOURNAL_SEGMENT_BYTES,
    SNAPSHOT_PENDING_BYTES_MAX,
};
use crate::store_metrics::StoreMetrics;
use catalog::Catalog;
use definitions::limits::SNAPSHOT_STEP_PLACES;
use definitions::{CatalogSnapshot, JournalEntryWriter, JournalRecord};
use disk::Disk;
use std::collections::VecDeque;
use store::limits::SCRUB_PATIENCE_US;
use store::{
    AlignedBuffer, Block, Completion, Damage, DiskError, GroupNumber, LogEvent, LogMetrics, LogWriter, Request, Scrub,
    ScrubOptions, SegmentId, SegmentNumber,
};

/// What the owner of a journal must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JournalEvent {
    /// Definitions are durable up to this version. Before the first of these events none are, not even those with which the
    /// broker started.
    Durable(u64),
    /// There is no space for another segment.
    NoSpace(DiskError),
    /// There is space again.
    Space,
    /// The scrub has found frames that a start would need and not find.
    Damaged(Damage),
    /// The scrub wants what the disk cannot read.
    Unreadable(DiskError),
    /// The journal cannot be written any more, and nothing becomes durable. Comes once.
    Failed(DiskError),
}

/// A snapshot that is being written.
#[derive(Default)]
struct PendingSnapshot {
    walk: CatalogSnapshot,
    /// The group that it begins in.
    begin: Option<GroupNumber>,
    /// The segment that it begins in, once that is durable.
    first_segment: Option<SegmentNumber>,
    /// The group that it ends in.
    end: Option<GroupNumber>,
    bytes: u64,
}

/// The journal of definitions.
pub struct DefinitionJournal {
    writer: LogWriter,
    disk: Box<dyn Disk>,
    entry: JournalEntryWriter,
    /// The last version that was executed.
    version: u64,
    /// Groups that are not durable and have changes, each with the first version in it.
    pending: VecDeque<(GroupNumber, u64)>,
    /// What has been reported durable.
    durable: Option<u64>,
    snapshot: Option<PendingSnapshot>,
    /// A snapshot of this life is durable.
    is_rooted: bool,
    /// Bytes of the last snapshot, and bytes written since it began.
    snapshot_bytes: u64,
    bytes_since_snapshot: u64,
    /// When segments are tried to be made again.
    retry_at_us: Option<u64>,
    scrub: Scrub,
    /// Places that the scrub found to be damaged.
    damage_found: u64,
    has_failed: bool,
}

impl DefinitionJournal {
    /// A journal that goes on where recovery has found its end. It begins with a snapshot of what the catalog holds when it is
    /// first polled; every change from then on must be appended.
    pub fn new(recovered: &RecoveredDefinitions, disk: Box<dyn Disk>) -> Self {
        DefinitionJournal {
            writer: LogWriter::new(recovered.end.clone(), JOURNAL_SEGMENT_BYTES),
            disk,
            entry: JournalEntryWriter::default(),
            version: 0,
            pending: VecDeque::new(),
            durable: None,
            snapshot: Some(PendingSnapshot::default()),
            is_rooted: false,
            snapshot_bytes: 0,
            bytes_since_snapshot: 0,
            retry_at_us: None,
            scrub: Scrub::default(),
            damage_found: 0,
            has_failed: false,
        }
    }

    /// Reads complete segments now and then, to find damage.
    pub fn set_scrub(&mut self, options: ScrubOptions) {
        self.scrub.set_options(Some(options));
    }

    /// Appends what a version changed: possibly nothing. Returns whether somebody who waits for it has to wait.
    pub fn append(&mut self, version: u64, records: &[JournalRecord]) -> bool {
        debug_assert!(version > self.version, "versions are executed in their order");
        self.version = version;
        if records.is_empty() {
            return false;
        }
        if self.has_failed {
            // It never becomes durable.
            return true;
        }
        records.iter().for_each(|record| self.entry.push(record));
        let (_, group) = self.append_entry();
        if self.pending.back().is_none_or(|(last, _)| *last != group) {
            self.pending.push_back((group, version));
        }
        true
    }

    /// Appends the entry. Returns the groups of its first and last pieces.
    fn append_entry(&mut self) -> (GroupNumber, GroupNumber) {
        let Self { writer, entry, version, .. } = self;
        let mut groups = None;
        entry.finish(|piece| {
            let group = writer.append(|group| group.definition(*version, piece));
            groups = Some((groups.map_or(group, |(first, _)| first), group));
        });
        groups.unwrap_or_else(|| unreachable!("an entry has a piece"))
    }

    /// Up to which version definitions are durable; none are before the first snapshot is.
    pub fn durable_version(&self) -> Option<u64> {
        self.durable
    }

    /// Bytes that wait for the disk.
    pub fn pending_bytes(&self) -> usize {
        self.writer.pending_bytes()
    }

    /// What has been written, and what the journal holds.
    pub fn metrics(&self) -> StoreMetrics {
        let (scrubbed, damage_found) = (self.scrub.counts(), self.damage_found);
        let log = LogMetrics {
            bytes_scrubbed: scrubbed.bytes,
            scrubs_done: scrubbed.passes,
            scrub_pass_bytes: scrubbed.pass_bytes,
            damage_found,
            ..self.writer.metrics()
        };
        StoreMetrics { log, disk: self.disk.metrics() }
    }

    /// The journal ends: what there was no space for has one more try.
    pub fn close(&mut self) {
        self.retry_at_us = self.retry_at_us.map(|_| 0);
    }

    /// Whether the disk does something that polling will take.
    pub fn is_busy(&self) -> bool {
        self.disk.under_way() > 0 && !self.has_failed
    }

    /// Whether polling does something although nothing has happened.
    pub fn has_work(&self) -> bool {
        !self.has_failed && self.walks() && self.writer.pending_bytes() < SNAPSHOT_PENDING_BYTES_MAX
    }

    /// Whether a snapshot has more to write.
    fn walks(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| snapshot.end.is_none())
    }

    /// When polling has something to do although nothing has happened.
    pub fn timer_us(&self) -> Option<u64> {
        let others = [self.retry_at_us, self.scrub_us()].into_iter().flatten().filter(|_| !self.has_failed);
        self.writer.timer_us().into_iter().chain(others).min()
    }

    /// When the scrub goes on: at once if nothing is to be written, and a moment later in any case.
    fn scrub_us(&self) -> Option<u64> {
        let patience_us = if self.writer.is_idle() { 0 } else { SCRUB_PATIENCE_US };
        Some(self.scrub.timer_us()? + patience_us)
    }

    /// Handles what the disk has done, goes on with a snapshot of `catalog`, and writes what was appended. Call it at the end of
    /// each tick, until it returns nothing. `salt` is drawn for plain passwords.
    pub fn poll(
        &mut self,
        catalog: &mut Catalog,
        now_us: u64,
        salt: &mut dyn FnMut() -> [u8; 4],
    ) -> Option<JournalEvent> {
        while let Some(completion) = self.disk.poll() {
            let event = self.complete(completion, now_us);
            if event.is_some() {
                return event;
            }
        }
        if self.has_failed {
            return None;
        }
        if self.has_work() {
            self.go_on_with_snapshot(catalog, salt);
        }
        if self.retry_at_us.is_some_and(|retry_at_us| retry_at_us <= now_us) {
            self.retry_at_us = None;
            self.writer.retry_making();
        }
        while let Some(request) = self.writer.poll(now_us, true) {
            self.submit(request);
        }
        if self.scrub_us().is_none_or(|scrub_us| scrub_us <= now_us)
            && let Some(request) = self.scrub.poll(&self.writer, now_us)
        {
            self.submit(request);
        }
        if let Some(found) = self.scrub.take_damage() {
            self.damage_found += 1;
            return Some(JournalEvent::Damaged(found.damage));
        }
        self.begin_snapshot_if_long();
        self.report_durable()
    }

    fn submit(&mut self, request: Request) {
        if let Request::Write { group, .. } = &request {
            self.bytes_since_snapshot += group.bytes().len() as u64;
        }
        self.disk.submit(request);
    }

    /// Nothing but the scrub reads.
    fn on_read(
        &mut self,
        segment: SegmentId,
        block: Block,
        buffer: AlignedBuffer,
        result: Result<usize, DiskError>,
    ) -> Option<JournalEvent> {
        let is_wanted = self.scrub.is_reading(segment, block, &buffer);
        let error = if is_wanted { self.scrub.on_read(&self.writer, buffer, result) } else { None };
        error.map(JournalEvent::Unreadable)
    }

    fn complete(&mut self, completion: Completion, now_us: u64) -> Option<JournalEvent> {
        let written = match completion {
            Completion::Read { segment, block, buffer, result } => return self.on_read(segment, block, buffer, result),
            Completion::Written { segment, .. } => Some(segment.number),
            Completion::Made { .. }
            | Completion::Synced { .. }
            | Completion::Removed { .. }
            | Completion::FooterWritten { .. } => None,
        };
        match self.writer.complete(completion, now_us)? {
            LogEvent::Durable(group) => {
                self.on_durable(group, written);
                None
            }
            LogEvent::NoSpace(error) => {
                self.retry_at_us = Some(now_us + JOURNAL_RETRY_US);
                Some(JournalEvent::NoSpace(error))
            }
            LogEvent::Space => Some(JournalEvent::Space),
            // Its bodies are what a recovery needs: no footer would help.
            LogEvent::NoFooter(_) => None,
            LogEvent::Failed(error) => Some(self.fail(error)),
        }
    }

    fn fail(&mut self, error: DiskError) -> JournalEvent {
        self.has_failed = true;
        JournalEvent::Failed(error)
    }

    /// A group is durable, in this segment.
    fn on_durable(&mut self, group: GroupNumber, segment: Option<SegmentNumber>) {
        while self.pending.front().is_some_and(|(pending, _)| *pending <= group) {
            self.pending.pop_front();
        }
        let Some(snapshot) = &mut self.snapshot else { return };
        if snapshot.first_segment.is_none() && snapshot.begin.is_some_and(|begin| begin <= group) {
            snapshot.first_segment = segment;
        }
        if snapshot.end.is_none_or(|end| end > group) {
            return;
        }
        (self.snapshot_bytes, self.is_rooted) = (snapshot.bytes, true);
        // What is older than the snapshot is given back.
        if let Some(first) = snapshot.first_segment {
            self.writer.retire_before(first);
        }
        self.snapshot = None;
    }

    /// Writes one step of a snapshot.
    fn go_on_with_snapshot(&mut self, catalog: &mut Catalog, salt: &mut dyn FnMut() -> [u8; 4]) {
        let Some(mut snapshot) = self.snapshot.take() else { return };
        let is_complete = snapshot.walk.step(catalog, &mut self.entry, SNAPSHOT_STEP_PLACES, salt);
        snapshot.bytes += self.entry.bytes() as u64;
        let (first, last) = self.append_entry();
        snapshot.begin.get_or_insert(first);
        snapshot.end = is_complete.then_some(last);
        self.snapshot = Some(snapshot);
    }

    fn begin_snapshot_if_long(&mut self) {
        let growth_bytes_max = JOURNAL_GROWTH_BYTES_MIN.max(self.snapshot_bytes * JOURNAL_GROWTH_FACTOR);
        if self.snapshot.is_none() && self.bytes_since_snapshot > growth_bytes_max {
            (self.snapshot, self.bytes_since_snapshot) = (Some(PendingSnapshot::default()), 0);
        }
    }

    /// Says up to which version definitions are durable, if that has changed.
    fn report_durable(&mut self) -> Option<JournalEvent> {
        let durable = self.pending.front().map_or(self.version, |(_, version)| version - 1);
        if !self.is_rooted || self.durable == Some(durable) {
            return None;
        }
        self.durable = Some(durable);
        Some(JournalEvent::Durable(durable))
    }
}
