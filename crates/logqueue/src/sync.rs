//! What threads share the log by: the standard library's lock and condition variable, or in models loom's, whose waits end
//! by a notification alone and never by time.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
