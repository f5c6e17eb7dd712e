//! A disk in memory, with time, and with faults from a seed.
//!
//! Enters: requests; the time; power cuts, kills and damage.  Leaves: completions, when they are due; what survives.
//!
//! What is under way at a power cut has happened, has not, or has in part: each sector of a write by itself.

use crate::Disk;
use crate::disk_metrics::DiskMetrics;
use crate::folder::SyncMode;
use crate::limits::SIMULATED_MAKE_FACTOR_MAX;
use crate::request_order::RequestScope;
use crate::simulated_cache::UnsyncedWrites;
use crate::simulated_damage::DamagedBlocks;
use crate::simulated_segment::{SECTOR_BYTES, SimulatedSegment};
use crate::undamaged_segments::UndamagedSegments;
use std::collections::BTreeMap;
use store::limits::BLOCK_BYTES;
use store::{
    AlignedBuffer, Block, Completion, DiskError, DiskErrorKind, LogId, Request, SegmentId, SegmentNumber, SegmentReader,
};

/// How often what goes wrong: once in so many requests, never if zero.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DiskFaults {
    /// A write fails, having written some sectors.
    pub write_error: u32,
    pub read_error: u32,
    pub make_error: u32,
    /// A segment cannot be given the name of another one, as a full disk has no room for the name.
    pub rename_no_space: u32,
    pub remove_error: u32,
    /// A footer cannot be written, as others cannot when writes fail.
    pub footer_error: u32,
    /// A write is reported done and was not.
    pub lost_write: u32,
    /// A write is reported done and lies elsewhere in its segment.
    pub misdirected_write: u32,
    /// A request takes seconds.
    pub slow: u32,
    /// Most microseconds by which each request takes longer than on a good disk.
    pub lag_us_max: u32,
}

/// A request that is not done.
struct PendingRequest {
    since_us: u64,
    due_us: u64,
    /// How many writes were complete when it was submitted.
    writes: u64,
    request: Request,
}

/// A simulated disk of one log or of many.
pub struct SimulatedDisk {
    random: u64,
    faults: DiskFaults,
    now_us: u64,
    segments: BTreeMap<SegmentId, SimulatedSegment>,
    /// Nothing of a footer is durable.
    footers: BTreeMap<SegmentId, Vec<u8>>,
    pending: Vec<PendingRequest>,
    capacity_bytes: u64,
    has_refused: bool,
    damage: DamagedBlocks,
    is_unreadable: bool,
    sync: SyncMode,
    unsynced: UnsyncedWrites,
    /// A sync has failed: since when the writes were complete of which nobody knows what is left.
    lost_since_us: Option<u64>,
    metrics: DiskMetrics,
}

impl SimulatedDisk {
    pub fn new(seed: u64, faults: DiskFaults) -> Self {
        SimulatedDisk {
            random: (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            faults,
            now_us: 0,
            segments: BTreeMap::new(),
            footers: BTreeMap::new(),
            pending: Vec::new(),
            capacity_bytes: u64::MAX,
            has_refused: false,
            damage: DamagedBlocks::default(),
            is_unreadable: false,
            sync: SyncMode::EachWrite,
            unsynced: UnsyncedWrites::default(),
            lost_since_us: None,
            metrics: DiskMetrics::default(),
        }
    }

    /// Whether writes are synced when that is asked for, and when another segment begins; otherwise each is durable when it is
    /// complete. All that was written until now is.
    pub fn sync_later(&mut self, is_later: bool) {
        self.sync = if is_later { SyncMode::OnRequest } else { SyncMode::EachWrite };
        (self.unsynced, self.lost_since_us) = (UnsyncedWrites::default(), None);
    }

    /// When the oldest write was complete that a power cut may take back.
    pub fn unsynced_since_us(&self) -> Option<u64> {
        self.unsynced.since_us()
    }

    /// When the oldest write was complete that a sync that failed may have lost.
    pub fn lost_since_us(&self) -> Option<u64> {
        self.lost_since_us
    }

    /// Whether a sync is under way.
    pub fn is_syncing(&self) -> bool {
        self.pending.iter().any(|pending| matches!(pending.request, Request::Sync { .. }))
    }

    /// Whether a write is under way.
    pub fn is_writing(&self) -> bool {
        self.pending.iter().any(|pending| matches!(pending.request, Request::Write { .. }))
    }

    pub fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    pub fn set_faults(&mut self, faults: DiskFaults) {
        self.faults = faults;
    }

    /// How much all segments may have.
    pub fn set_capacity(&mut self, capacity_bytes: u64) {
        (self.capacity_bytes, self.has_refused) = (capacity_bytes, false);
    }

    /// Whether the last segment that this life wanted had no room.
    pub fn has_refused(&self) -> bool {
        self.has_refused
    }

    /// When the next completion is due.
    pub fn due_us(&self) -> Option<u64> {
        self.pending.iter().map(|pending| pending.due_us).min()
    }

    /// When the next completion is due that is not due yet.
    pub fn due_after(&self, now_us: u64) -> Option<u64> {
        self.pending.iter().map(|pending| pending.due_us).filter(|&due_us| due_us > now_us).min()
    }

    /// Requests under way that somebody waits for: all but the reads of a scrub.
    pub fn awaited(&self) -> usize {
        let is_awaited = |request: &Request| !matches!(request, Request::Read { is_direct: true, .. });
        self.pending.iter().filter(|pending| is_awaited(&pending.request)).count()
    }

    /// The segments of a log that have footers, in their order.
    pub fn footers(&self, log: LogId) -> Vec<SegmentNumber> {
        self.footers.keys().filter(|segment| segment.log == log).map(|segment| segment.number).collect()
    }

    /// The segments of a log, in their order.
    pub fn segments(&self, log: LogId) -> Vec<SegmentNumber> {
        self.segments.keys().filter(|segment| segment.log == log).map(|segment| segment.number).collect()
    }

    /// How many segments it has.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The blocks of a log that were written.
    pub fn written_blocks(&self, log: LogId) -> Vec<(SegmentId, Block)> {
        let segments = self.segments.iter().filter(|(segment, _)| segment.log == log);
        let blocks = segments.flat_map(|(&id, segment)| segment.written.keys().map(move |&block| (id, Block(block))));
        let mut blocks: Vec<_> = blocks.collect();
        blocks.sort_unstable();
        blocks
    }

    /// The first block of a segment behind those that were ever written, whatever its number was then. All that follows is zeros.
    pub fn written_end(&self, segment: SegmentId) -> Block {
        Block(self.segments.get(&segment).map_or(0, SimulatedSegment::written_end))
    }

    /// Whether a scan of a log finds that nothing can be read.
    pub fn set_unreadable(&mut self, is_unreadable: bool) {
        self.is_unreadable = is_unreadable;
    }

    /// The power fails: what is under way has happened, has not, or in part. Nothing is completed. What is not synced may be
    /// lost, and footers and parts of them.
    pub fn cut_power(&mut self) {
        self.break_off();
        self.take_back_unsynced();
    }

    /// What is under way has happened, has not, or in part; so have footers.
    fn break_off(&mut self) {
        self.has_refused = false;
        for PendingRequest { request, writes, .. } in std::mem::take(&mut self.pending) {
            match request {
                // The segment before is not even synced.
                Request::Write { segment, .. } if self.unsynced.is_behind(segment) && self.below(2) == 0 => {}
                Request::Write { segment, block, group } => self.tear(segment, block, group.bytes()),
                Request::Sync { .. } if self.sync == SyncMode::OnRequest && self.below(2) == 0 => {
                    self.unsynced.sync(writes);
                }
                Request::Make { .. } | Request::Remove { .. } | Request::WriteFooter { .. } if self.below(2) == 0 => {
                    // What it would have said is lost with whoever asked.
                    let _unheard = self.carry_out(request, writes);
                }
                Request::Make { .. }
                | Request::Remove { .. }
                | Request::Read { .. }
                | Request::Sync { .. }
                | Request::WriteFooter { .. } => {}
            }
        }
        self.tear_footers();
    }

    /// Of what is not synced all may be there, or nothing, or some blocks, or some sectors.
    fn take_back_unsynced(&mut self) {
        let lost: Vec<_> = self.unsynced.take().collect();
        let kind = if lost.is_empty() { 0 } else { self.below(4) };
        if kind == 0 {
            return;
        }
        for (segment, block, before) in lost {
            if kind == 2 && self.below(2) == 0 {
                continue;
            }
            self.damage.forget(segment, block, BLOCK_BYTES);
            self.write(segment, block, &before[..], if kind == 3 { 2 } else { 0 });
        }
    }

    /// Footers are not synced: any of them may be gone, or cut off, or have zeros in place of some sectors.
    fn tear_footers(&mut self) {
        for (segment, mut bytes) in std::mem::take(&mut self.footers) {
            match self.below(8) {
                0 => continue,
                1 => bytes.truncate(self.below(bytes.len() as u64 + 1) as usize),
                2 => {
                    for sector in bytes.chunks_mut(SECTOR_BYTES) {
                        if self.below(2) == 0 {
                            sector.fill(0);
                        }
                    }
                }
                _ => {}
            }
            self.footers.insert(segment, bytes);
        }
    }

    /// Writes the first sectors, or all but some in a row, as where a write is divided and a part of it is not done, or all but
    /// one in some; perhaps all or none.
    fn tear(&mut self, segment: SegmentId, block: Block, bytes: &[u8]) {
        self.record_unsynced(segment, block, bytes.len());
        self.damage.forget(segment, block, bytes.len());
        let sectors = (bytes.len() / SECTOR_BYTES) as u64;
        let kind = self.below(3);
        if kind == 0 {
            let share = self.below(5);
            return self.write(segment, block, bytes, share);
        }
        let first = self.below(sectors + 1);
        let end = if kind == 1 { sectors } else { first + self.below(sectors + 1 - first) };
        let Some(to) = self.segments.get_mut(&segment) else { return };
        let mut sector = 0..sectors;
        to.write(block, bytes, || sector.next().is_some_and(|sector| !(first..end).contains(&sector)));
    }

    /// The process is killed: what it asked for is done by the system, the last write perhaps in part.
    pub fn kill(&mut self) {
        self.pending.sort_by_key(|pending| pending.due_us);
        if self.below(2) > 0 {
            return self.finish();
        }
        self.break_off();
        self.sync_all();
    }

    /// The process has ended: what it asked for is done, and nobody hears of it.
    pub fn finish(&mut self) {
        (self.faults, self.has_refused) = (DiskFaults::default(), false);
        for PendingRequest { request, .. } in std::mem::take(&mut self.pending) {
            let _unheard = self.carry_out(request, self.unsynced.writes());
        }
        self.sync_all();
    }

    /// The next start syncs what the system has.
    fn sync_all(&mut self) {
        (self.unsynced, self.lost_since_us) = (UnsyncedWrites::default(), None);
    }

    /// Flips a bit of a segment; no effect on a block that was never written.
    pub fn flip_bit(&mut self, segment: SegmentId, block: Block, bit: usize) {
        let Some(to) = self.segments.get_mut(&segment) else { return };
        if let Some(bytes) = to.written.get_mut(&block.0) {
            self.damage.record(segment, block, bytes);
            bytes[bit / 8 % BLOCK_BYTES] ^= 1 << (bit % 8);
        }
    }

    /// Cuts a segment off before a block.
    pub fn truncate(&mut self, segment: SegmentId, end: Block) {
        let Some(to) = self.segments.get_mut(&segment).filter(|to| end.0 < to.blocks) else { return };
        self.damage.record_length(segment, to.blocks);
        for (block, bytes) in to.truncate(end) {
            self.damage.record(segment, block, &bytes);
        }
    }

    /// Blocks that do not hold what was last reported written there, and segments that are too short.
    pub fn damage(&self) -> &DamagedBlocks {
        &self.damage
    }

    /// So many bytes are what they should be from now on: what was lost there is wanted no more.
    pub fn accept_damage(&mut self, segment: SegmentId, first: Block, bytes: usize) {
        self.damage.forget(segment, first, bytes);
    }

    /// Whether a scrub has read a damaged block since this was last asked.
    pub fn take_scrubbed(&mut self, segment: SegmentId, block: Block) -> bool {
        self.damage.take_scrubbed(segment, block)
    }

    /// No segment has a footer any more, as if none had been written.
    pub fn lose_footers(&mut self) {
        self.footers.clear();
    }

    /// All blocks hold again what was reported written: as after a restore of a backup.
    pub fn repair(&mut self) {
        std::mem::take(&mut self.damage).repair(&mut self.segments);
    }

    /// Reads what the segments would hold without damage.
    pub fn undamaged(&self) -> impl SegmentReader {
        let mut segments = self.segments.clone();
        self.damage.clone().repair(&mut segments);
        UndamagedSegments::new(segments)
    }

    /// Flips a bit of a segment's footer, if it has one with any. Returns whether it has.
    pub fn flip_footer_bit(&mut self, segment: SegmentId, bit: usize) -> bool {
        let Some(bytes) = self.footers.get_mut(&segment).filter(|bytes| !bytes.is_empty()) else { return false };
        let len = bytes.len();
        bytes[bit / 8 % len] ^= 1 << (bit % 8);
        true
    }

    /// The segment has this footer, whatever it is.
    pub fn replace_footer(&mut self, segment: SegmentId, bytes: Vec<u8>) {
        self.footers.insert(segment, bytes);
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next_random() % n
    }

    fn happens(&mut self, once_in: u32) -> bool {
        once_in > 0 && self.below(once_in.into()) == 0
    }

    /// Bytes of all segments.
    pub fn used_bytes(&self) -> u64 {
        self.segments.values().map(|segment| u64::from(segment.blocks) * BLOCK_BYTES as u64).sum()
    }

    /// Writes all sectors but one in `share`; all if that is zero.
    fn write(&mut self, segment: SegmentId, block: Block, bytes: &[u8], share: u64) {
        let Some(mut to) = self.segments.remove(&segment) else { return };
        to.write(block, bytes, || share == 0 || self.below(share) > 0);
        self.segments.insert(segment, to);
    }

    /// A block is about to be written.
    fn record_unsynced(&mut self, segment: SegmentId, block: Block, bytes: usize) {
        if self.sync == SyncMode::OnRequest
            && let Some(to) = self.segments.get(&segment)
        {
            self.unsynced.record(segment, to, block, bytes, self.now_us);
        }
    }

    /// `writes` were complete when it was submitted.
    fn carry_out(&mut self, request: Request, writes: u64) -> Completion {
        match request {
            Request::Make { segment, blocks, from } => {
                Completion::Made { segment, result: self.make(segment, blocks, from) }
            }
            Request::Write { segment, block, group } => {
                let result = self.write_group(segment, block, group.bytes());
                Completion::Written { segment, group, result }
            }
            Request::Read { segment, block, mut buffer, is_direct } => {
                if is_direct {
                    self.damage.note_scrub(segment, block, buffer.len());
                }
                let result = match self.happens(self.faults.read_error) {
                    true => Err(failed(format!("cannot read block {} of {segment}: injected", block.0))),
                    false => self.read(segment, block, &mut buffer),
                };
                Completion::Read { segment, block, buffer, result }
            }
            Request::Sync { segment } => Completion::Synced { segment, result: self.carry_out_sync(segment, writes) },
            Request::Remove { segment } => {
                let result = match self.happens(self.faults.remove_error) {
                    true => Err(failed(format!("cannot remove {segment}: injected"))),
                    false => Ok(()),
                };
                if result.is_ok() {
                    self.segments.remove(&segment);
                    self.footers.remove(&segment);
                    self.damage.forget_segment(segment);
                    self.unsynced.forget_segment(segment);
                }
                Completion::Removed { segment, result }
            }
            Request::WriteFooter { segment, bytes } => {
                Completion::FooterWritten { segment, result: self.write_footer(segment, bytes) }
            }
        }
    }

    /// Where each write is durable when it is complete there is nothing to do.
    fn carry_out_sync(&mut self, segment: SegmentId, writes: u64) -> Result<(), DiskError> {
        if self.sync == SyncMode::OnRequest && self.happens(self.faults.write_error) {
            self.lost_since_us = self.lost_since_us.or(self.unsynced.since_us());
            self.take_back_unsynced();
            return Err(failed(format!("cannot sync {segment}: injected")));
        }
        self.unsynced.sync(writes);
        Ok(())
    }

    fn make(&mut self, segment: SegmentId, blocks: u32, from: Option<SegmentNumber>) -> Result<(), DiskError> {
        if self.happens(self.faults.make_error) {
            return Err(failed(format!("cannot make {segment}: injected")));
        }
        let from = from.map(|number| SegmentId { log: segment.log, number });
        if from.is_some_and(|from| self.segments.contains_key(&from)) && self.happens(self.faults.rename_no_space) {
            self.has_refused = true;
            return Err(no_space(segment));
        }
        if let Some(from) = from {
            self.damage.forget_segment(from);
            self.unsynced.forget_segment(from);
            self.footers.remove(&from);
        }
        let old = from.and_then(|from| self.segments.remove(&from));
        let made = match old.filter(|old| old.blocks == blocks) {
            Some(old) => old,
            None if self.used_bytes() + u64::from(blocks) * BLOCK_BYTES as u64 > self.capacity_bytes => {
                self.has_refused = true;
                return Err(no_space(segment));
            }
            None => SimulatedSegment::new(blocks),
        };
        self.segments.insert(segment, made);
        self.has_refused = false;
        Ok(())
    }

    fn write_footer(&mut self, segment: SegmentId, bytes: Vec<u8>) -> Result<(), DiskError> {
        if !self.segments.contains_key(&segment) {
            return Err(not_found(segment));
        }
        if self.happens(self.faults.write_error) || self.happens(self.faults.footer_error) {
            return Err(failed(format!("cannot write the footer of {segment}: injected")));
        }
        self.footers.insert(segment, bytes);
        Ok(())
    }

    fn write_group(&mut self, segment: SegmentId, block: Block, bytes: &[u8]) -> Result<(), DiskError> {
        if !self.segments.contains_key(&segment) {
            return Err(not_found(segment));
        }
        self.record_unsynced(segment, block, bytes.len());
        self.damage.forget(segment, block, bytes.len());
        if self.happens(self.faults.write_error) {
            let share = 1 + self.below(4);
            self.write(segment, block, bytes, share);
            return Err(failed(format!("cannot write block {} of {segment}: injected", block.0)));
        }
        if self.happens(self.faults.lost_write) {
            self.damage.record_all(segment, block, bytes);
            return Ok(());
        }
        if block.0 > 0 && self.happens(self.faults.misdirected_write) {
            let wrong = Block(self.below(u64::from(block.0)) as u32);
            // Where both overlap, the block should hold what was written.
            self.damage.record_all(segment, block, bytes);
            self.misdirect(segment, wrong, bytes);
            return Ok(());
        }
        self.write(segment, block, bytes, 0);
        Ok(())
    }

    /// Writes elsewhere what belongs to a later block.
    fn misdirect(&mut self, segment: SegmentId, wrong: Block, bytes: &[u8]) {
        let mut before = AlignedBuffer::new(bytes.len());
        let Some(to) = self.segments.get(&segment) else { return };
        to.read(wrong, &mut before);
        self.damage.record_all(segment, wrong, &before);
        self.record_unsynced(segment, wrong, bytes.len());
        self.write(segment, wrong, bytes, 0);
    }
}

fn failed(text: String) -> DiskError {
    DiskError { kind: DiskErrorKind::Failed, text }
}

fn no_space(segment: SegmentId) -> DiskError {
    DiskError { kind: DiskErrorKind::NoSpace, text: format!("cannot make {segment}: disk full") }
}

fn not_found(segment: SegmentId) -> DiskError {
    DiskError { kind: DiskErrorKind::NotFound, text: format!("{segment} does not exist") }
}

impl Disk for SimulatedDisk {
    fn submit(&mut self, request: Request) {
        let is_slow = self.happens(self.faults.slow);
        let mut took_us = match (is_slow, &request) {
            (true, _) => 1_000_000 + self.below(5_000_000),
            // It is written through, and much goes on meanwhile.
            (false, Request::Make { from: None, .. }) => {
                (50 + self.below(2_000)) * (1 + self.below(SIMULATED_MAKE_FACTOR_MAX))
            }
            (false, _) => 50 + self.below(2_000),
        };
        if self.faults.lag_us_max > 0 {
            took_us += self.below(self.faults.lag_us_max.into());
        }
        // Those that are due at one time are carried out in their order.
        let scope = RequestScope::of(&request);
        let earlier = self.pending.iter().filter(|earlier| scope.waits_for(&RequestScope::of(&earlier.request)));
        let due_us = earlier.map(|earlier| earlier.due_us).fold(self.now_us + took_us, u64::max);
        let (since_us, writes) = (self.now_us, self.unsynced.writes());
        self.pending.push(PendingRequest { since_us, due_us, writes, request });
    }

    fn poll(&mut self) -> Option<Completion> {
        let next = self.pending.iter().enumerate().min_by_key(|(_, pending)| pending.due_us)?;
        let (at, due_us) = (next.0, next.1.due_us);
        if due_us > self.now_us {
            return None;
        }
        let PendingRequest { request, since_us, writes, .. } = self.pending.remove(at);
        let completion = self.carry_out(request, writes);
        self.metrics.count(&completion, due_us - since_us, self.sync);
        Some(completion)
    }

    fn under_way(&self) -> usize {
        self.pending.len()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(self.capacity_bytes.saturating_sub(self.used_bytes()))
    }

    fn metrics(&self) -> DiskMetrics {
        self.metrics
    }
}

impl SegmentReader for SimulatedDisk {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        if self.is_unreadable {
            return Err(failed(format!("cannot read block {} of {segment}: injected", block.0)));
        }
        self.segments.get(&segment).map(|segment| segment.read(block, buffer)).ok_or_else(|| not_found(segment))
    }

    fn read_footer(&mut self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        if self.is_unreadable {
            return Err(failed(format!("cannot read the footer of {segment}: injected")));
        }
        Ok(self.footers.get(&segment).cloned())
    }
}
