//! The disks of a broker with a store: one for the log of each shard and one for its definitions. They outlive its crashes.
//!
//! A shard owns a handle, as it would own the disk; the simulation has another, for time, faults and crashes.

use crate::broker_heap::left_by;
use disk::{Disk, DiskFaults, SimulatedDisk};
use link::sim::SplitMix64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{AlignedBuffer, Block, Completion, DiskError, LogId, Request, SegmentId, SegmentNumber, SegmentReader};

/// How a broker ends without being asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashKind {
    /// The power fails: what the disk was doing has happened, has not, or in part.
    PowerCut,
    /// The process is killed: the disk may still do what it was asked.
    Kill,
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
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        self.lock().disk.read(segment, block, buffer)
    }

    fn read_footer(&mut self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        self.lock().disk.read_footer(segment)
    }
}

/// The disks of one broker.
pub struct BrokerDisks {
    /// For the messages of each shard.
    pub messages: Vec<SharedDisk>,
    /// For shard 0.
    pub definitions: SharedDisk,
    faults: DiskFaults,
}

impl BrokerDisks {
    /// Empty disks.
    pub fn new(seed: u64, shards: u16, faults: DiskFaults) -> Self {
        let mut chance = SplitMix64::new(seed ^ 0xD15C_5EED);
        let mut disk = || SharedDisk::new(chance.next_u64() >> 1, faults);
        BrokerDisks { messages: (0..shards).map(|_| disk()).collect(), definitions: disk(), faults }
    }

    fn all(&self) -> impl Iterator<Item = &SharedDisk> {
        self.messages.iter().chain([&self.definitions])
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.all().count()
    }

    /// It is so late. Returns whether a request of a shard is done.
    pub fn set_now(&self, shard: usize, now_us: u64) -> bool {
        let is_done = self.messages[shard].set_now(now_us);
        is_done | (shard == 0 && self.definitions.set_now(now_us))
    }

    /// Whether a request is under way.
    pub fn has_requests(&self) -> bool {
        self.all().any(|disk| disk.under_way() > 0)
    }

    /// The broker that used them has crashed.
    pub fn crash(&self, kind: CrashKind) {
        for one in self.all() {
            one.lock().measure(|disk| {
                match kind {
                    CrashKind::PowerCut => disk.cut_power(),
                    CrashKind::Kill => disk.kill(),
                }
                disk.set_faults(self.faults);
            });
        }
    }

    /// Bytes of the heap that their contents take, since they were created, not those of requests under way.
    pub fn heap_bytes(&self) -> isize {
        self.all().map(|disk| disk.lock().heap_bytes).sum()
    }
}
