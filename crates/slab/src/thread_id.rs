//! Which thread runs: a number that is never given twice.
//!
//! Leaves: the running thread's mark.
//! Owns:   one word per thread.
//! Never:  gives a later thread the mark of an earlier one, as an address or the system's thread number could.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The mark of every thread that never had a pool. It owns no region.
const UNASSIGNED: u64 = 0;

/// What a region says whose pool is gone. No thread has this mark.
pub(crate) const NO_THREAD: u64 = u64::MAX;

static LAST: AtomicU64 = AtomicU64::new(UNASSIGNED);

thread_local! {
    // Constant and without a destructor: read with one load, and for as long as the thread lives.
    static THREAD_ID: Cell<u64> = const { Cell::new(UNASSIGNED) };
}

/// The running thread's mark; all threads without a pool share one that owns nothing.
#[inline]
pub(crate) fn current() -> u64 {
    THREAD_ID.get()
}

/// The running thread's mark, given now if it had none.
pub(crate) fn assign() -> u64 {
    if THREAD_ID.get() == UNASSIGNED {
        THREAD_ID.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    THREAD_ID.get()
}
