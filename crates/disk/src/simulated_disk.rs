//! A disk in memory, with time, and with faults from a seed.
//!
//! Enters: requests; the time; power cuts, kills and flipped bits.  Leaves: completions, when they are due; what survives.
//!
//! What is under way at a power cut has happened, has not, or has in part: each sector of a write by itself.

use crate::Disk;
use std::collections::{BTreeMap, HashMap};
use store::limits::BLOCK_BYTES;
use store::{
    AlignedBuffer, Block, Completion, DiskError, DiskErrorKind, LogId, Request, SegmentId, SegmentNumber, SegmentReader,
};

/// What a disk does not tear.
const SECTOR_BYTES: usize = 512;

/// How often what goes wrong: once in so many requests, never if zero.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DiskFaults {
    /// A write fails, having written some sectors.
    pub write_error: u32,
    pub read_error: u32,
    pub make_error: u32,
    /// A write is reported done and was not.
    pub lost_write: u32,
    /// A write is reported done and lies elsewhere in its segment.
    pub misdirected_write: u32,
    /// A request takes seconds.
    pub slow: u32,
}

/// A segment: the blocks that were written, and how many it has.
#[derive(Clone, Default)]
struct SimulatedSegment {
    blocks: u32,
    written: HashMap<u32, Box<[u8; BLOCK_BYTES]>>,
}

impl SimulatedSegment {
    /// Writes the sectors that are chosen, as far as the segment goes.
    fn write(&mut self, block: Block, bytes: &[u8], mut is_chosen: impl FnMut() -> bool) {
        for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate().map(|(n, sector)| (n * SECTOR_BYTES, sector)) {
            let block = block.0 + (at / BLOCK_BYTES) as u32;
            if is_chosen() && block < self.blocks {
                let written = self.written.entry(block).or_insert_with(|| Box::new([0; BLOCK_BYTES]));
                written[at % BLOCK_BYTES..][..sector.len()].copy_from_slice(sector);
            }
        }
    }

    fn read(&self, block: Block, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        for (block, to) in (block.0..self.blocks).zip(buffer.chunks_mut(BLOCK_BYTES)) {
            match self.written.get(&block) {
                Some(bytes) => to.copy_from_slice(&bytes[..]),
                None => to.fill(0),
            }
            filled += to.len();
        }
        filled
    }
}

/// A request that is not done.
struct PendingRequest {
    due_us: u64,
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
        }
    }

    pub fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    pub fn set_faults(&mut self, faults: DiskFaults) {
        self.faults = faults;
    }

    /// How much all segments may have.
    pub fn set_capacity(&mut self, capacity_bytes: u64) {
        self.capacity_bytes = capacity_bytes;
    }

    /// When the next completion is due.
    pub fn due_us(&self) -> Option<u64> {
        self.pending.iter().map(|pending| pending.due_us).min()
    }

    /// The segments of a log that have footers, in their order.
    pub fn footers(&self, log: LogId) -> Vec<SegmentNumber> {
        self.footers.keys().filter(|segment| segment.log == log).map(|segment| segment.number).collect()
    }

    /// The segments of a log, in their order.
    pub fn segments(&self, log: LogId) -> Vec<SegmentNumber> {
        self.segments.keys().filter(|segment| segment.log == log).map(|segment| segment.number).collect()
    }

    /// The power fails: what is under way has happened, has not, or in part. Nothing is completed. Footers may be lost, and
    /// parts of them.
    pub fn cut_power(&mut self) {
        for PendingRequest { request, .. } in std::mem::take(&mut self.pending) {
            match request {
                Request::Write { segment, block, group } => {
                    // From all to almost none of its sectors.
                    let share = self.below(5);
                    self.write(segment, block, group.bytes(), share);
                }
                Request::Make { .. } | Request::Remove { .. } | Request::WriteFooter { .. } if self.below(2) == 0 => {
                    // What it would have said is lost with whoever asked.
                    let _unheard = self.carry_out(request);
                }
                Request::Make { .. } | Request::Remove { .. } | Request::Read { .. } | Request::WriteFooter { .. } => {}
            }
        }
        self.tear_footers();
    }

    /// Footers are not synced: any of them may be gone, or cut off, or have zeros in place of some sectors.
    fn tear_footers(&mut self) {
        for (segment, mut bytes) in std::mem::take(&mut self.footers) {
            match self.below(8) {
                0 => continue,
                1 => bytes.truncate(self.below(bytes.len() as u64) as usize),
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

    /// The process is killed: what it asked for is done by the system, the last write perhaps in part.
    pub fn kill(&mut self) {
        self.pending.sort_by_key(|pending| pending.due_us);
        if self.below(2) == 0 {
            return self.cut_power();
        }
        self.faults = DiskFaults::default();
        for PendingRequest { request, .. } in std::mem::take(&mut self.pending) {
            let _unheard = self.carry_out(request);
        }
    }

    /// Flips a bit of a segment; no effect on a block that was never written.
    pub fn flip_bit(&mut self, segment: SegmentId, block: Block, bit: usize) {
        let segment = self.segments.get_mut(&segment);
        if let Some(bytes) = segment.and_then(|segment| segment.written.get_mut(&block.0)) {
            bytes[bit / 8 % BLOCK_BYTES] ^= 1 << (bit % 8);
        }
    }

    /// Flips a bit of a segment's footer, if it has one. Returns whether it has.
    pub fn flip_footer_bit(&mut self, segment: SegmentId, bit: usize) -> bool {
        let Some(bytes) = self.footers.get_mut(&segment) else { return false };
        let len = bytes.len();
        bytes[bit / 8 % len] ^= 1 << (bit % 8);
        true
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

    fn used_bytes(&self) -> u64 {
        self.segments.values().map(|segment| u64::from(segment.blocks) * BLOCK_BYTES as u64).sum()
    }

    /// Writes all sectors but one in `share`; all if that is zero.
    fn write(&mut self, segment: SegmentId, block: Block, bytes: &[u8], share: u64) {
        let Some(mut to) = self.segments.remove(&segment) else { return };
        to.write(block, bytes, || share == 0 || self.below(share) > 0);
        self.segments.insert(segment, to);
    }

    fn carry_out(&mut self, request: Request) -> Completion {
        match request {
            Request::Make { segment, blocks, from } => {
                Completion::Made { segment, result: self.make(segment, blocks, from) }
            }
            Request::Write { segment, block, group } => {
                let result = self.write_group(segment, block, group.bytes());
                Completion::Written { segment, group, result }
            }
            Request::Read { segment, block, mut buffer } => {
                let result = match self.happens(self.faults.read_error) {
                    true => Err(failed(format!("cannot read block {} of {segment}: injected", block.0))),
                    false => self.read(segment, block, &mut buffer),
                };
                Completion::Read { segment, block, buffer, result }
            }
            Request::Remove { segment } => {
                self.segments.remove(&segment);
                self.footers.remove(&segment);
                Completion::Removed { segment, result: Ok(()) }
            }
            Request::WriteFooter { segment, bytes } => {
                Completion::FooterWritten { segment, result: self.write_footer(segment, bytes) }
            }
        }
    }

    fn make(&mut self, segment: SegmentId, blocks: u32, from: Option<SegmentNumber>) -> Result<(), DiskError> {
        if self.happens(self.faults.make_error) {
            return Err(failed(format!("cannot make {segment}: injected")));
        }
        let old = from.and_then(|number| {
            let old = SegmentId { log: segment.log, number };
            self.footers.remove(&old);
            self.segments.remove(&old)
        });
        let made = match old.filter(|old| old.blocks == blocks) {
            Some(old) => old,
            None if self.used_bytes() + u64::from(blocks) * BLOCK_BYTES as u64 > self.capacity_bytes => {
                return Err(DiskError {
                    kind: DiskErrorKind::NoSpace,
                    text: format!("cannot make {segment}: disk full"),
                });
            }
            None => SimulatedSegment { blocks, written: HashMap::new() },
        };
        self.segments.insert(segment, made);
        Ok(())
    }

    fn write_footer(&mut self, segment: SegmentId, bytes: Vec<u8>) -> Result<(), DiskError> {
        if !self.segments.contains_key(&segment) {
            return Err(not_found(segment));
        }
        if self.happens(self.faults.write_error) {
            return Err(failed(format!("cannot write the footer of {segment}: injected")));
        }
        self.footers.insert(segment, bytes);
        Ok(())
    }

    fn write_group(&mut self, segment: SegmentId, block: Block, bytes: &[u8]) -> Result<(), DiskError> {
        if !self.segments.contains_key(&segment) {
            return Err(not_found(segment));
        }
        if self.happens(self.faults.write_error) {
            let share = 1 + self.below(4);
            self.write(segment, block, bytes, share);
            return Err(failed(format!("cannot write block {} of {segment}: injected", block.0)));
        }
        if self.happens(self.faults.lost_write) {
            return Ok(());
        }
        let block = match self.happens(self.faults.misdirected_write) {
            true => Block(self.below(u64::from(block.0) + 1) as u32),
            false => block,
        };
        self.write(segment, block, bytes, 0);
        Ok(())
    }
}

fn failed(text: String) -> DiskError {
    DiskError { kind: DiskErrorKind::Failed, text }
}

fn not_found(segment: SegmentId) -> DiskError {
    DiskError { kind: DiskErrorKind::NotFound, text: format!("{segment} does not exist") }
}

impl Disk for SimulatedDisk {
    fn submit(&mut self, request: Request) {
        let took_us = match self.happens(self.faults.slow) {
            true => 1_000_000 + self.below(5_000_000),
            false => 50 + self.below(2_000),
        };
        self.pending.push(PendingRequest { due_us: self.now_us + took_us, request });
    }

    fn poll(&mut self) -> Option<Completion> {
        let next = self.pending.iter().enumerate().min_by_key(|(_, pending)| pending.due_us)?;
        let (at, due_us) = (next.0, next.1.due_us);
        if due_us > self.now_us {
            return None;
        }
        let PendingRequest { request, .. } = self.pending.remove(at);
        Some(self.carry_out(request))
    }

    fn under_way(&self) -> usize {
        self.pending.len()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(self.capacity_bytes.saturating_sub(self.used_bytes()))
    }
}

impl SegmentReader for SimulatedDisk {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        self.segments.get(&segment).map(|segment| segment.read(block, buffer)).ok_or_else(|| not_found(segment))
    }

    fn read_footer(&mut self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        Ok(self.footers.get(&segment).cloned())
    }
}
