//! The disk below a log: makes, writes, reads and removes segments.
//!
//! Enters: the store's requests.  Leaves: their completions, in any order.
//! Owns:   the files of one log, or a simulated disk.
//! Never:  knows what the bytes mean; waits in the caller's thread.
//!
//! Two disks keep one contract (`tests/contract.rs`): `FileDisk` has files and threads, `SimulatedDisk` has faults from a
//! seed. Read `Disk`, then `SegmentFolder`.
#![forbid(unsafe_code)]

mod disk_metrics;
mod disk_thread;
mod error;
mod file_disk;
mod folder;
pub mod limits;
mod request_order;
mod segment_backup;
mod simulated_cache;
mod simulated_damage;
mod simulated_disk;
mod simulated_segment;
mod undamaged_segments;
mod write_gate;

pub use disk_metrics::{DiskMetrics, WriteTimes};
pub use disk_thread::Wake;
pub use file_disk::FileDisk;
pub use folder::SegmentFolder;
pub use segment_backup::SegmentBackup;
pub use simulated_damage::DamagedBlocks;
pub use simulated_disk::{DiskFaults, SimulatedDisk};
pub use write_gate::{ClosedGate, WriteGate};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Completion, DiskError, Request};

/// What a log is written to.
pub trait Disk: Send {
    /// Takes a request, whose completion [`Disk::poll`] returns later. Requests are carried out in any order, but for those
    /// that make a segment, make it into another one or remove it: they come behind all that was submitted before about that
    /// segment, and before all that is submitted later.
    fn submit(&mut self, request: Request);

    /// A completion, if there is one.
    fn poll(&mut self) -> Option<Completion>;

    /// Requests without a completion.
    fn under_way(&self) -> usize;

    /// Bytes that can still be written.
    fn free_bytes(&self) -> Result<u64, DiskError>;

    /// What has been completed. Disks that only tests have need not count.
    fn metrics(&self) -> DiskMetrics {
        DiskMetrics::default()
    }
}

/// A disk that others look at, as tests do that start a broker again on it.
impl<D: Disk> Disk for Arc<Mutex<D>> {
    fn submit(&mut self, request: Request) {
        locked(self).submit(request);
    }

    fn poll(&mut self) -> Option<Completion> {
        locked(self).poll()
    }

    fn under_way(&self) -> usize {
        locked(self).under_way()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        locked(self).free_bytes()
    }

    fn metrics(&self) -> DiskMetrics {
        locked(self).metrics()
    }
}

fn locked<D>(disk: &Mutex<D>) -> MutexGuard<'_, D> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}
