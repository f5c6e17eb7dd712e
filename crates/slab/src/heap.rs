//! The program's allocator, for everything that is not message memory, and how much of it is in use.
//!
//! Small allocations are mimalloc's, large ones mappings of their own.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

// Miri looks into no C: there the system has all allocations.
#[cfg(not(miri))]
use mimalloc::MiMalloc as SmallAllocator;
#[cfg(miri)]
use std::alloc::System as SmallAllocator;

use crate::limits::{HEAP_BIN_STEPS_LOG2, HEAP_REPORT_BYTES, HEAP_WORD_BYTES};
use crate::mapped_allocation::{self, is_mapped};

/// The allocator, with a count of the bytes in use.
///
/// Each thread adds up what it allocates and frees, and passes the sum on when it has become large, so that counting
/// costs no access to memory that threads share. What one thread allocates another may free: only the sum of all threads
/// means something.
pub struct Heap;

/// Bytes in use on all threads, as far as they have passed them on.
static IN_USE_BYTES: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// What the thread has allocated since it last passed it on, less what it has freed.
    static UNREPORTED_BYTES: Cell<isize> = const { Cell::new(0) };
    /// What the thread has passed on.
    static REPORTED_BYTES: Cell<isize> = const { Cell::new(0) };
}

/// Bytes of the heap that the program uses, as the allocator rounds them; zero if the program has another allocator.
/// Each running thread may be holding back [`HEAP_REPORT_BYTES`](crate::HEAP_REPORT_BYTES) of them.
pub fn heap_bytes() -> usize {
    // Threads may have freed what others have not reported yet.
    usize::try_from(IN_USE_BYTES.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Bytes of the heap that the running thread has allocated, less those that it has freed, as the allocator rounds them; zero if
/// the program has another allocator. Memory that passes between threads makes it grow on one and shrink on the other, so it
/// means something where a thread shares none.
pub fn thread_heap_bytes() -> isize {
    UNREPORTED_BYTES.get() + REPORTED_BYTES.get()
}

/// Calls something, and counts the bytes of the heap that it leaves behind, in its result or for good.
pub fn left_by<T>(call: impl FnOnce() -> T) -> (T, isize) {
    let before = thread_heap_bytes();
    let result = call();
    (result, thread_heap_bytes() - before)
}

/// Returns memory to the operating system that the running thread has freed and the allocator caches. By itself the
/// allocator purges its cache only while it allocates and frees, which an idle broker does not.
pub fn trim_heap() {
    // SAFETY: it may be called at any time from any thread; if the program has another allocator, there is nothing to
    // give.
    #[cfg(not(miri))]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}

/// Bytes that mimalloc takes for a request: one word of eight bytes or an even number of them, and from eight words on four
/// sizes for each power of two.
#[inline]
const fn rounded_bytes(bytes: usize) -> usize {
    let last_word = bytes.saturating_sub(1) / HEAP_WORD_BYTES;
    if last_word < 8 {
        return if last_word == 0 { HEAP_WORD_BYTES } else { (last_word + 1).next_multiple_of(2) * HEAP_WORD_BYTES };
    }
    let step_words = 1 << (last_word.ilog2() - HEAP_BIN_STEPS_LOG2);
    (last_word / step_words + 1) * step_words * HEAP_WORD_BYTES
}

#[inline]
fn count(bytes: isize) {
    // A thread that ends frees its last memory when its counter may be gone: that is passed on at once.
    let counted = UNREPORTED_BYTES.try_with(|unreported| {
        let sum = unreported.get() + bytes;
        if sum.unsigned_abs() < HEAP_REPORT_BYTES {
            unreported.set(sum);
        } else {
            unreported.set(0);
            report(sum);
        }
    });
    if counted.is_err() {
        report(bytes);
    }
}

#[cold]
fn report(bytes: isize) {
    // Nobody asks about a thread that ends.
    let _gone = REPORTED_BYTES.try_with(|reported| reported.set(reported.get() + bytes));
    IN_USE_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on, to the system or to mimalloc, which keep the promises of an allocator; size and alignment
// alone decide to which, so that what one of them allocated it also frees. Counting allocates nothing.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(rounded_bytes(layout.size()) as isize);
        if is_mapped(layout.size(), layout.align()) {
            return mapped_allocation::map(layout);
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { SmallAllocator.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(rounded_bytes(layout.size()) as isize);
        if is_mapped(layout.size(), layout.align()) {
            return mapped_allocation::map(layout);
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { SmallAllocator.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(rounded_bytes(layout.size()) as isize));
        if is_mapped(layout.size(), layout.align()) {
            // SAFETY: the caller's promise, passed on: `alloc` mapped it.
            return unsafe { mapped_allocation::unmap(ptr, layout) };
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { SmallAllocator.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let was_mapped = is_mapped(layout.size(), layout.align());
        if was_mapped != is_mapped(new_size, layout.align()) {
            // SAFETY: the caller's promise, passed on.
            return unsafe { self.move_allocation(ptr, layout, new_size) };
        }
        count(rounded_bytes(new_size) as isize - rounded_bytes(layout.size()) as isize);
        if was_mapped {
            // SAFETY: the caller's promise, passed on: `alloc` mapped it.
            return unsafe { mapped_allocation::remap(ptr, layout, new_size) };
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { SmallAllocator.realloc(ptr, layout, new_size) }
    }
}

impl Heap {
    /// Reallocates between the system and mimalloc.
    ///
    /// # Safety
    /// As [`GlobalAlloc::realloc`].
    #[cold]
    unsafe fn move_allocation(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size, rounded up to the alignment, is a valid one.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: the new size is not zero.
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            // SAFETY: both are allocations of at least that many bytes, and one is new.
            unsafe { std::ptr::copy_nonoverlapping(ptr, moved, layout.size().min(new_size)) };
            // SAFETY: the caller's promise, passed on.
            unsafe { self.dealloc(ptr, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::{Heap, rounded_bytes, thread_heap_bytes};
    use crate::limits::{HEAP_MAPPED_BYTES_MIN, HEAP_REPORT_BYTES};
    use std::alloc::{GlobalAlloc, Layout};

    /// Miri is some thousand times slower, and has no mappings.
    const LARGE_BYTES: usize = if cfg!(miri) { 4096 } else { HEAP_MAPPED_BYTES_MIN };

    #[test]
    #[cfg(not(miri))] // It asks mimalloc, which is C.
    fn sizes_are_rounded_as_the_allocator_rounds_them() {
        for bytes in (1..=4096).chain([5000, 20_000, 58_000, 65_537, 100_000]) {
            // SAFETY: it may be called with any size.
            let good = unsafe { libmimalloc_sys::mi_good_size(bytes) };
            assert_eq!(super::rounded_bytes(bytes), good, "{bytes}");
        }
    }

    #[test]
    fn an_allocation_that_grows_and_shrinks_keeps_its_bytes() {
        let align = 16;
        let layout = |bytes| Layout::from_size_align(bytes, align).expect("a layout");
        let sizes = [LARGE_BYTES - 1, LARGE_BYTES, 3 * LARGE_BYTES, 5000, 64];
        let mut bytes = LARGE_BYTES / 10;
        // SAFETY: the size is not zero.
        let mut block = unsafe { Heap.alloc_zeroed(layout(bytes)) };
        for size in sizes {
            let kept = bytes.min(size);
            // SAFETY: so many bytes were allocated, and nobody else has them.
            let filled = unsafe { std::slice::from_raw_parts_mut(block, bytes) };
            filled.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
            // SAFETY: it was allocated with this layout, and the new size is not zero.
            block = unsafe { Heap.realloc(block, layout(bytes), size) };
            assert!(!block.is_null() && block.addr().is_multiple_of(align));
            // SAFETY: so many bytes are allocated and initialised.
            let moved = unsafe { std::slice::from_raw_parts(block, kept) };
            assert!(moved.iter().enumerate().all(|(at, byte)| *byte == at as u8), "{bytes} to {size}");
            bytes = size;
            // SAFETY: so many bytes are allocated; what was not kept has any content.
            unsafe { block.add(kept).write_bytes(0, bytes - kept) };
        }
        // SAFETY: it was allocated with this layout, and nobody uses it any more.
        unsafe { Heap.dealloc(block, layout(bytes)) };
    }

    #[test]
    fn a_thread_counts_every_byte_of_its_own() {
        let layout = |bytes| Layout::from_size_align(bytes, 16).expect("a layout");
        let others = thread_heap_bytes();
        let sizes = [64, HEAP_REPORT_BYTES, 5 * HEAP_REPORT_BYTES, HEAP_MAPPED_BYTES_MIN];
        // SAFETY: the sizes are not zero.
        let blocks = sizes.map(|bytes| unsafe { Heap.alloc(layout(bytes)) });
        let bytes: usize = sizes.into_iter().map(rounded_bytes).sum();
        assert_eq!(thread_heap_bytes() - others, bytes as isize);
        for (block, bytes) in blocks.into_iter().zip(sizes) {
            assert!(!block.is_null());
            // SAFETY: it was allocated above with this layout, and nobody uses it.
            unsafe { Heap.dealloc(block, layout(bytes)) };
        }
        assert_eq!(thread_heap_bytes(), others);
    }
}
