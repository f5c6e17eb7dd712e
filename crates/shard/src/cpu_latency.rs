//! The PM QoS request for CPU latency: bounds how long an idle processor may take to wake, while any shard has messages.
//!
//! A broker at rest bounds nothing: a processor that does not sleep takes power, and its host's time.

use crate::limits::{LATENCY_DOZE_US, LATENCY_UNBOUNDED_US};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The kernel's power management quality of service: every process that has the file open writes a bound in microseconds,
/// four bytes in native order, and the lowest one holds for the machine until its file is closed. See the kernel's
/// `Documentation/power/pm_qos_interface.rst`.
pub(crate) const CPU_LATENCY_FILE: &str = "/dev/cpu_dma_latency";

/// How deep the machine's idle processors may sleep while messages flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleProcessors {
    /// As deep as the system decides.
    #[default]
    Sleep,
    /// In the shallowest idle state only.
    Doze,
    /// Not at all: they poll.
    Poll,
}

impl IdleProcessors {
    /// The request to make of the system, if any.
    pub(crate) fn latency_request(self) -> io::Result<Option<CpuLatencyRequest>> {
        let bound_us = match self {
            IdleProcessors::Sleep => return Ok(None),
            IdleProcessors::Doze => LATENCY_DOZE_US,
            IdleProcessors::Poll => 0,
        };
        CpuLatencyRequest::open(Path::new(CPU_LATENCY_FILE), bound_us).map(Some)
    }
}

/// A latency bound for all processors of the machine, active while any shard has acquired it.
pub(crate) struct CpuLatencyRequest {
    file: File,
    path: PathBuf,
    bound_us: i32,
    activity: Mutex<RequestActivity>,
}

#[derive(Default)]
struct RequestActivity {
    /// Shards that have acquired the request.
    shards: u32,
    /// The system has refused the bound, and is not asked again.
    is_refused: bool,
}

impl CpuLatencyRequest {
    /// Opens the system's file. There is no bound yet.
    pub fn open(path: &Path, bound_us: i32) -> io::Result<CpuLatencyRequest> {
        let file = OpenOptions::new().write(true).open(path)?;
        Ok(CpuLatencyRequest { file, path: path.to_owned(), bound_us, activity: Mutex::default() })
    }

    /// One more shard has messages.
    pub fn acquire(&self) {
        self.change(|shards| shards + 1);
    }

    /// One shard has no messages any more.
    pub fn release(&self) {
        self.change(|shards| shards - 1);
    }

    fn change(&self, to: impl FnOnce(u32) -> u32) {
        let mut activity = self.activity.lock().unwrap_or_else(PoisonError::into_inner);
        let before = activity.shards;
        activity.shards = to(before);
        if activity.is_refused || (before > 0) == (activity.shards > 0) {
            return;
        }
        let bound_us = if activity.shards > 0 { self.bound_us } else { LATENCY_UNBOUNDED_US };
        if let Err(error) = self.file.write_all_at(&bound_us.to_ne_bytes(), 0) {
            // Messages flow all the same, only later. It is logged once.
            activity.is_refused = true;
            tracing::warn!(file = %self.path.display(), bound_us, %error, "cannot bound the wake-up latency of processors");
        }
    }
}
