//! Memory from the operating system: zeroed, aligned to a region, never cached. Running out ends the process.

use std::ptr::NonNull;

use crate::limits::REGION_BYTES;

/// Maps `len` zeroed bytes (a positive multiple of the page size) at a multiple of [`REGION_BYTES`].
#[cfg(all(unix, not(miri)))]
pub(crate) fn map(len: usize) -> NonNull<u8> {
    // One region more than needed contains an aligned start; the rest is unmapped at once.
    let whole = len + REGION_BYTES;
    // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no memory that exists.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            whole,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        exhausted(len);
    }
    let mapped = mapped.cast::<u8>();
    let before = mapped.addr().next_multiple_of(REGION_BYTES) - mapped.addr();
    let behind = whole - before - len;
    // SAFETY: `before` is less than a region, so at most `whole - len`: the result lies within the mapping.
    let base = unsafe { mapped.add(before) };
    if before > 0 {
        // SAFETY: the first `before` bytes of the mapping are ours and nobody has a pointer into them.
        unsafe { unmap(NonNull::new_unchecked(mapped), before) };
    }
    if behind > 0 {
        // SAFETY: likewise the last `behind` bytes, which start right after the part that is kept.
        unsafe { unmap(NonNull::new_unchecked(base.add(len)), behind) };
    }
    // SAFETY: a mapping that did not fail is not at address zero.
    unsafe { NonNull::new_unchecked(base) }
}

/// Unmaps `len` bytes at `base`.
///
/// # Safety
/// They came from [`map`], and nobody uses them any more.
#[cfg(all(unix, not(miri)))]
pub(crate) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller hands over whole pages that it took with `map` and no longer uses.
    let failed = unsafe { libc::munmap(base.as_ptr().cast(), len) };
    // It fails only for wrong arguments, or if the kernel has no memory to split a mapping: then the pages leak.
    debug_assert_eq!(failed, 0, "munmap of {len} bytes failed");
}

/// As above, without `mmap` and under Miri.
#[cfg(not(all(unix, not(miri))))]
pub(crate) fn map(len: usize) -> NonNull<u8> {
    // SAFETY: the layout's size is positive, as the function demands of its callers.
    let base = unsafe { std::alloc::alloc_zeroed(layout(len)) };
    NonNull::new(base).unwrap_or_else(|| exhausted(len))
}

/// As above, without `mmap` and under Miri.
///
/// # Safety
/// The bytes came from [`map`] with the same `len`, and nobody uses them any more.
#[cfg(not(all(unix, not(miri))))]
pub(crate) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller guarantees that these bytes came from `map`, which used the same layout.
    unsafe { std::alloc::dealloc(base.as_ptr(), layout(len)) };
}

fn layout(len: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(len, REGION_BYTES).expect("a region fits the address space")
}

#[cold]
fn exhausted(len: usize) -> ! {
    std::alloc::handle_alloc_error(layout(len))
}
