//! The program's allocator: everything that is not message memory, lists of messages above all.
//!
//! Leaves: memory that was freed and kept, back at the operating system.
//! Owns:   which allocator the program has.
//! Never:  touches what is in use.

pub use mimalloc::MiMalloc as Heap;

/// Gives back what the running thread freed and the allocator keeps. It keeps much for long: it looks at what has been kept
/// for a while only when it is asked for more or given something, and an idle broker does neither.
pub fn trim_heap() {
    // SAFETY: it may be called at any time from any thread; if the program has another allocator, there is nothing to give.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
