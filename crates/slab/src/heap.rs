//! The program's allocator, for everything that is not message memory.

pub use mimalloc::MiMalloc as Heap;

/// Returns memory to the operating system that the running thread has freed and the allocator caches. By itself the
/// allocator purges its cache only while it allocates and frees, which an idle broker does not.
pub fn trim_heap() {
    // SAFETY: it may be called at any time from any thread; if the program has another allocator, there is nothing to
    // give.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
