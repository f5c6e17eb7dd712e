//! Memory pressure: what the process holds, and what must wait because that is much.

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
}

impl MemoryPressure {
    pub const NONE: MemoryPressure = MemoryPressure { is_low: false, holds_messages: false, holds_definitions: false };
}
