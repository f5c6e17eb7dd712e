//! Memory pressure: what the process holds, and what must wait because that is much.

use crate::limits::{SCARCE_RECEIVE_BYTES, SPENT_RECEIVE_BYTES};

/// Tells what the process holds.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    /// Bytes that are allocated on the heap, of which some may never have been touched.
    pub heap_bytes: fn() -> usize,
    /// Bytes that the system has provided, of which allocators keep some for later.
    pub resident_bytes: fn() -> Option<usize>,
}

/// What connections may not take from the broker's memory now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryPressure {
    /// The limit is reached: connections that have published are not read, and long frames wait.
    pub is_low: bool,
    /// The reserve beyond the limit is spent: a connection waits before its first publish, too.
    pub holds_messages: bool,
    /// Definitions, channels and consumers have taken such a reserve since memory became low: new ones wait.
    pub holds_definitions: bool,
    /// Dead letters have taken such a reserve, too, beyond the least that was in use since then: those for several queues wait
    /// until consumers have taken some.
    pub holds_letters: bool,
}

impl MemoryPressure {
    pub const NONE: MemoryPressure =
        MemoryPressure { is_low: false, holds_messages: false, holds_definitions: false, holds_letters: false };

    /// How many bytes a connection receives at a time, for its own frames: bodies that come in parts have memory of their own.
    pub fn receive_bytes_max(self) -> usize {
        match self {
            MemoryPressure { holds_messages: true, .. } => SPENT_RECEIVE_BYTES,
            MemoryPressure { is_low: true, .. } => SCARCE_RECEIVE_BYTES,
            _ => usize::MAX,
        }
    }
}
