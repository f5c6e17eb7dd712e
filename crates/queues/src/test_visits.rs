//! How much tests have looked at: consumers that were compared, and places of slot maps. No search through many of them draws on
//! the budget of a turn, so that none may come back unnoticed.

use std::cell::Cell;

thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
}

/// One more was looked at.
pub fn note() {
    VISITS.set(VISITS.get() + 1);
}

/// How many `work` has looked at.
pub fn count(work: impl FnOnce()) -> usize {
    VISITS.set(0);
    work();
    VISITS.get()
}
