//! The atomics of what threads share: the standard library's, or in models those of loom.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, fence};
pub(crate) use std::sync::atomic::Ordering;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, fence};
