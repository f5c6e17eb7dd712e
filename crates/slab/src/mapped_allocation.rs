//! Allocations of the heap that are so large that each is a mapping of its own: tables. One that grows moves without a copy,
//! so that it is never there twice, what it does not use yet is not provided, and what is freed goes back at once.

use std::alloc::Layout;

use crate::limits::{HEAP_MAPPED_BYTES_MIN, PAGE_BYTES};

/// Whether an allocation is a mapping of its own.
#[inline]
pub(crate) const fn is_mapped(bytes: usize, align: usize) -> bool {
    cfg!(all(target_os = "linux", not(miri))) && bytes >= HEAP_MAPPED_BYTES_MIN && align <= PAGE_BYTES
}

/// Maps zeroed memory; null if there is none.
#[cold]
pub(crate) fn map(layout: Layout) -> *mut u8 {
    // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no memory that exists.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            layout.size(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED { std::ptr::null_mut() } else { mapped.cast() }
}

/// Unmaps an allocation.
///
/// # Safety
/// It came from [`map`] or [`remap`] with this layout, and nobody uses it any more.
#[cold]
pub(crate) unsafe fn unmap(start: *mut u8, layout: Layout) {
    // SAFETY: the caller hands over whole pages that were mapped for it alone.
    let failed = unsafe { libc::munmap(start.cast(), layout.size()) };
    // It fails only for wrong arguments.
    debug_assert_eq!(failed, 0, "munmap of {} bytes failed", layout.size());
}

/// Changes the size of an allocation, which may move; null if there is no memory, and then it is as it was.
///
/// # Safety
/// It came from [`map`] or [`remap`] with this layout, and nobody uses it during the call nor where it was after it.
#[cold]
pub(crate) unsafe fn remap(start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    #[cfg(target_os = "linux")]
    // SAFETY: the caller hands over whole pages that were mapped for it alone.
    let mapped = unsafe { libc::mremap(start.cast(), layout.size(), new_size, libc::MREMAP_MAYMOVE) };
    #[cfg(not(target_os = "linux"))]
    let mapped = {
        let _unused = (start, layout, new_size);
        libc::MAP_FAILED
    };
    if mapped == libc::MAP_FAILED { std::ptr::null_mut() } else { mapped.cast() }
}
