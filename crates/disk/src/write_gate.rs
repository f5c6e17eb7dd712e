//! Lets a backup keep all disks of a broker from writing for a moment.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What every change to a segment, a footer or a name of one passes. A file that is to become a segment is none while it is
/// written: a closed gate does not wait for that, and what waits for the gate does not either. Clones are one gate.
#[derive(Clone, Default)]
pub struct WriteGate(Arc<RwLock<()>>);

/// While it is held no segment is written to, made or removed, and none is being.
pub struct ClosedGate<'a> {
    _all: RwLockWriteGuard<'a, ()>,
}

impl WriteGate {
    /// Waits until what is being written is durable, and lets nothing else begin.
    pub fn close(&self) -> ClosedGate<'_> {
        // There is nothing behind the lock that a panic could have left half changed.
        ClosedGate { _all: self.0.write().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Lets a change begin; it ends when the result is dropped.
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
