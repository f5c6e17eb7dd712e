//! What the system is asked for about idle processors: how long one may take to wake.
//!
//! Enters: shards that have messages, and shards that no longer have any.  Leaves: a bound, as long as any shard has messages.
//! Owns:   the system's file for it, which holds a bound as long as it is open.
//! Never:  bounds anything while the broker is at rest: a processor that does not sleep takes power, and its host's time.

use crate::limits::{LATENCY_DOZE_US, LATENCY_UNBOUNDED_US};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The kernel's power management quality of service: a bound in microseconds, four bytes in the machine's order, of whoever has it
/// open; the least of all counts. Documented in the kernel's `Documentation/power/pm_qos_interface.rst`.
pub(crate) const CPU_LATENCY_FILE: &str = "/dev/cpu_dma_latency";

/// How soon the machine's idle processors are to wake while messages flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleProcessors {
    /// As the system thinks fit.
    #[default]
    Sleep,
    /// From the shallowest sleep at most.
    Doze,
    /// At once: they do not sleep.
    Poll,
}

impl IdleProcessors {
    /// The bound that the system is asked for, if any, and where.
    pub(crate) fn latency(self) -> io::Result<Option<CpuLatency>> {
        let bound_us = match self {
            IdleProcessors::Sleep => return Ok(None),
            IdleProcessors::Doze => LATENCY_DOZE_US,
            IdleProcessors::Poll => 0,
        };
        CpuLatency::open(Path::new(CPU_LATENCY_FILE), bound_us).map(Some)
    }
}

/// A bound for all processors of the machine that shards ask for together.
pub(crate) struct CpuLatency {
    file: File,
    path: PathBuf,
    bound_us: i32,
    held: Mutex<Held>,
}

/// By whom the bound is held, and whether it can be.
#[derive(Default)]
struct Held {
    shards: u32,
    refused: bool,
}

impl CpuLatency {
    /// Opens the system's file, and asks for nothing yet.
    pub fn open(path: &Path, bound_us: i32) -> io::Result<CpuLatency> {
        let file = OpenOptions::new().write(true).open(path)?;
        Ok(CpuLatency { file, path: path.to_owned(), bound_us, held: Mutex::default() })
    }

    /// One more shard has messages.
    pub fn hold(&self) {
        self.change(|shards| shards + 1);
    }

    /// One has none any more.
    pub fn release(&self) {
        self.change(|shards| shards - 1);
    }

    fn change(&self, to: impl FnOnce(u32) -> u32) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let were = held.shards;
        held.shards = to(were);
        if held.refused || (were > 0) == (held.shards > 0) {
            return;
        }
        let bound_us = if held.shards > 0 { self.bound_us } else { LATENCY_UNBOUNDED_US };
        if let Err(error) = self.file.write_all_at(&bound_us.to_ne_bytes(), 0) {
            // Messages flow all the same, only later. It is told once.
            held.refused = true;
            tracing::warn!(file = %self.path.display(), bound_us, %error, "cannot say how long processors may take to wake");
        }
    }
}
