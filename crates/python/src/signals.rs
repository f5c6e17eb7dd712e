//! Signals that end a call: Python's handlers run while a client waits, and what they raise is kept until the call returns.
//!
//! Leaves: whether a call shall end, and the exception that it ends with.
//! Owns:   that exception, on the thread whose call it ends.

use std::cell::Cell;

use pyo3::prelude::*;

thread_local! {
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Whether a handler of a signal wants the running call to end: its exception is kept for `take`.
pub(crate) fn is_interrupted() -> bool {
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => false,
        Err(error) => {
            RAISED.set(Some(error));
            true
        }
    }
}

/// The exception of the signal that ended a call of this thread.
pub(crate) fn take() -> Option<PyErr> {
    RAISED.take()
}
