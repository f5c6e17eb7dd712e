//! A number for each thread that has a pool, which is never reused, unlike an address or the system's thread id.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of every thread that never had a pool. No region has this owner.
const UNASSIGNED: u64 = 0;

/// The owner of a region whose pool is gone. No thread has this id.
pub(crate) const NO_THREAD: u64 = u64::MAX;

static LAST: AtomicU64 = AtomicU64::new(UNASSIGNED);

thread_local! {
    // Constant and without a destructor: one load, and valid for as long as the thread lives.
    static THREAD_ID: Cell<u64> = const { Cell::new(UNASSIGNED) };
}

/// The running thread's id; threads without a pool share one that owns nothing.
#[inline]
pub(crate) fn current() -> u64 {
    THREAD_ID.get()
}

/// The running thread's id, which is assigned now if it has none.
pub(crate) fn assign() -> u64 {
    if THREAD_ID.get() == UNASSIGNED {
        THREAD_ID.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    THREAD_ID.get()
}
