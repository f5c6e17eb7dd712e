//! Which thread runs: a number that is never given twice.
//!
//! Leaves: the running thread's mark.
//! Owns:   one word per thread.
//! Never:  gives a later thread the mark of an earlier one, as an address or the system's thread number could.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The mark of every thread that never had a pool. It owns no region.
const STRANGER: u64 = 0;

/// What a region says whose pool is gone. No thread has this mark.
pub(crate) const NOBODY: u64 = u64::MAX;

static LAST: AtomicU64 = AtomicU64::new(STRANGER);

thread_local! {
    // Constant and without a destructor: read with one load, and for as long as the thread lives.
    static MARK: Cell<u64> = const { Cell::new(STRANGER) };
}

/// The running thread's mark; all threads without a pool share one that owns nothing.
#[inline]
pub(crate) fn current() -> u64 {
    MARK.get()
}

/// The running thread's mark, given now if it had none.
pub(crate) fn own() -> u64 {
    if MARK.get() == STRANGER {
        MARK.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    MARK.get()
}
