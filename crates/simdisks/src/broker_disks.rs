//! The disks of a broker with a store: one for the log of each shard and one for its definitions. They outlive its crashes.
//!
//! A shard owns a handle, as it would own the disk; the simulation has another, for time, faults and crashes.

use disk::{Disk, DiskFaults, SimulatedDisk};
use slab::left_by;
use splitmix::SplitMix64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::limits::BLOCK_BYTES;
use store::{
    AlignedBuffer, Block, Completion, DiskError, LogId, Request, ScrubOptions, SegmentId, SegmentNumber, SegmentReader,
    StoreTag,
};

/// Tells the segments of one store from those of others.
const STORE_ID: u128 = 0x5EED;

/// The same as segments have it.
pub fn store_tag() -> StoreTag {
    StoreTag::of(STORE_ID)
}

/// How a broker ends without being asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashKind {
    /// The power fails: what the disk was doing has happened, has not, or in part.
    PowerCut,
    /// The process is killed: the disk may still do what it was asked.
    Kill,
    /// The process ends by itself: the disk does what it was asked.
    Exit,
}

/// What a disk cannot do from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailingRequest {
    Write,
    Read,
    Make,
    Remove,
}

impl FailingRequest {
    const ALL: [FailingRequest; 4] =
        [FailingRequest::Write, FailingRequest::Read, FailingRequest::Make, FailingRequest::Remove];

    /// One of them. Most requests are writes, and so are most of those that fail.
    pub fn draw(chance: &mut SplitMix64) -> FailingRequest {
        if chance.permille(600) { FailingRequest::Write } else { FailingRequest::ALL[chance.below(4) as usize] }
    }

    fn faults(self, before: DiskFaults) -> DiskFaults {
        match self {
            FailingRequest::Write => DiskFaults { write_error: 1, ..before },
            FailingRequest::Read => DiskFaults { read_error: 1, ..before },
            FailingRequest::Make => DiskFaults { make_error: 1, ..before },
            FailingRequest::Remove => DiskFaults { remove_error: 1, ..before },
        }
    }
}

/// How the disks of a broker are while nothing in particular happens to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskOptions {
    /// The faults of those that have messages.
    pub messages: DiskFaults,
    /// The faults of the one that has the definitions.
    pub definitions: DiskFaults,
    /// Free bytes of a disk below which publishers are held back.
    pub free_limit: u64,
    /// How what was written is read to find damage, if it is.
    pub scrub: Option<ScrubOptions>,
}

/// A disk, and what its own memory takes.
struct MeasuredDisk {
    disk: SimulatedDisk,
    heap_bytes: isize,
}

impl MeasuredDisk {
    fn measure<T>(&mut self, call: impl FnOnce(&mut SimulatedDisk) -> T) -> T {
        let (result, bytes) = left_by(|| call(&mut self.disk));
        self.heap_bytes += bytes;
        result
    }
}

/// A handle of a disk.
#[derive(Clone)]
pub struct SharedDisk(Arc<Mutex<MeasuredDisk>>);

impl SharedDisk {
    fn new(seed: u64, faults: DiskFaults) -> Self {
        SharedDisk(Arc::new(Mutex::new(MeasuredDisk { disk: SimulatedDisk::new(seed, faults), heap_bytes: 0 })))
    }

    /// Calls the disk, whose memory is not the broker's.
    pub fn with<T>(&self, call: impl FnOnce(&mut SimulatedDisk) -> T) -> T {
        self.lock().measure(call)
    }

    /// Looks at the disk, and leaves its memory as it is.
    pub fn peek<T>(&self, look: impl FnOnce(&mut SimulatedDisk) -> T) -> T {
        look(&mut self.lock().disk)
    }

    fn lock(&self) -> MutexGuard<'_, MeasuredDisk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The segments of a log.
    pub fn segments(&self, log: LogId) -> Vec<SegmentNumber> {
        self.lock().disk.segments(log)
    }

    /// It is so late. Returns whether a request is done.
    fn set_now(&self, now_us: u64) -> bool {
        let mut this = self.lock();
        this.disk.set_now(now_us);
        this.disk.due_us().is_some_and(|due_us| due_us <= now_us)
    }
}

impl Disk for SharedDisk {
    fn submit(&mut self, request: Request) {
        self.lock().measure(|disk| disk.submit(request));
    }

    fn poll(&mut self) -> Option<Completion> {
        self.lock().measure(Disk::poll)
    }

    fn under_way(&self) -> usize {
        self.lock().disk.under_way()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.lock().disk.free_bytes()
    }
}

impl SegmentReader for SharedDisk {
    /// Of what was never written one block is read, and the segment seems to end behind it: a recovery that reads megabytes of
    /// zeros takes most of the time of a run, and learns nothing from them that one block does not say.
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        let mut this = self.lock();
        let blocks = (this.disk.written_end(segment).0 + 1).saturating_sub(block.0).max(1);
        let bytes = buffer.len();
        buffer.set_len(bytes.min(blocks as usize * BLOCK_BYTES));
        let filled = this.disk.read(segment, block, buffer);
        buffer.set_len(bytes);
        filled
    }

    fn read_footer(&mut self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        self.lock().disk.read_footer(segment)
    }
}

/// Whether a disk is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskSpace {
    Ample,
    /// It has so many bytes beyond what its segments take.
    Left(u64),
}

fn set_space(disk: &SharedDisk, space: DiskSpace) {
    disk.with(|disk| match space {
        DiskSpace::Ample => disk.set_capacity(u64::MAX),
        DiskSpace::Left(bytes) => disk.set_capacity(disk.used_bytes() + bytes),
    });
}

/// The disks of one broker.
#[derive(Clone)]
pub struct BrokerDisks {
    /// For the messages of each shard.
    pub messages: Vec<SharedDisk>,
    /// For the messages of each shard that leave the memory: nothing of them outlives the broker.
    pub spills: Vec<SharedDisk>,
    /// For shard 0.
    pub definitions: SharedDisk,
    options: DiskOptions,
}

impl BrokerDisks {
    /// Empty disks.
    pub fn new(seed: u64, shards: u16, options: DiskOptions) -> Self {
        let mut chance = SplitMix64::new(seed ^ 0xD15C_5EED);
        let mut disk = |faults| SharedDisk::new(chance.next_u64() >> 1, faults);
        BrokerDisks {
            messages: (0..shards).map(|_| disk(options.messages)).collect(),
            definitions: disk(options.definitions),
            spills: (0..shards).map(|shard| SharedDisk::new(u64::from(shard), DiskFaults::default())).collect(),
            options,
        }
    }

    /// Those of messages, then that of definitions; not those that nothing outlives on.
    pub fn all(&self) -> impl Iterator<Item = &SharedDisk> {
        self.messages.iter().chain([&self.definitions])
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.all().count()
    }

    /// How they are while nothing happens to them.
    pub fn options(&self) -> DiskOptions {
        self.options
    }

    /// It is so late. Returns whether a request of a shard is done.
    pub fn set_now(&self, shard: usize, now_us: u64) -> bool {
        let is_done = self.messages[shard].set_now(now_us) | self.spills[shard].set_now(now_us);
        is_done | (shard == 0 && self.definitions.set_now(now_us))
    }

    /// When the next request of a shard is done that is not done yet.
    pub fn due_after(&self, shard: usize, now_us: u64) -> Option<u64> {
        let definitions = (shard == 0).then_some(&self.definitions);
        let disks = [&self.messages[shard]].into_iter().chain(definitions);
        disks.filter_map(|disk| disk.lock().disk.due_after(now_us)).min()
    }

    /// Whether a request is under way that somebody waits for: a scrub never ends.
    pub fn has_requests(&self) -> bool {
        self.all().chain(&self.spills).any(|disk| disk.peek(|disk| disk.awaited() > 0))
    }

    fn disk(&self, at: usize) -> &SharedDisk {
        self.messages.get(at).unwrap_or(&self.definitions)
    }

    fn faults(&self, at: usize) -> DiskFaults {
        if at < self.messages.len() { self.options.messages } else { self.options.definitions }
    }

    /// A disk fails from now on.
    pub fn fail(&self, at: usize, request: FailingRequest) {
        let faults = request.faults(self.faults(at));
        self.disk(at).with(|disk| disk.set_faults(faults));
    }

    /// The disk of a shard's messages that leave the memory fails from now on.
    pub fn fail_spill(&self, shard: usize, request: FailingRequest) {
        self.spills[shard].with(|disk| disk.set_faults(request.faults(DiskFaults::default())));
    }

    /// The disk of a shard's messages that leave the memory has this much space.
    pub fn set_spill_space(&self, shard: usize, space: DiskSpace) {
        set_space(&self.spills[shard], space);
    }

    /// No disk fails any more.
    pub fn heal(&self) {
        self.spills.iter().for_each(|spill| spill.with(|disk| disk.set_faults(DiskFaults::default())));
        for at in 0..self.count() {
            self.disk(at).with(|disk| disk.set_faults(self.faults(at)));
        }
    }

    /// A disk has this much space.
    pub fn set_space(&self, at: usize, space: DiskSpace) {
        set_space(self.disk(at), space);
    }

    /// Whether a start can read them.
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.all().for_each(|disk| disk.with(|disk| disk.set_unreadable(is_unreadable)));
    }

    /// Whether a disk does not hold what it was reported to.
    pub fn is_damaged(&self) -> bool {
        self.all().any(|disk| !disk.lock().disk.damage().is_empty())
    }

    /// They keep what they are given from now on, and have kept what they were given.
    pub fn mend(&self) {
        let slow = self.options.messages.slow;
        self.all().for_each(|disk| {
            disk.with(|disk| {
                disk.repair();
                disk.set_faults(DiskFaults { slow, ..DiskFaults::default() });
            })
        });
    }

    /// The broker that used them has crashed, or ended.
    pub fn crash(&self, kind: CrashKind) {
        for (seed, spill) in self.spills.iter().enumerate() {
            spill.with(|disk| *disk = SimulatedDisk::new(seed as u64, DiskFaults::default()));
        }
        for disk in self.all() {
            disk.with(|disk| match kind {
                CrashKind::PowerCut => disk.cut_power(),
                CrashKind::Kill => disk.kill(),
                CrashKind::Exit => disk.finish(),
            });
        }
        self.heal();
    }

    /// Bytes of the heap that their contents take, since they were created, not those of requests under way.
    pub fn heap_bytes(&self) -> isize {
        self.all().map(|disk| disk.lock().heap_bytes).sum()
    }
}
