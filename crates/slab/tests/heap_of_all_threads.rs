//! What the program has allocated, summed over its threads: alone in its process, where nobody else allocates or frees.

use slab::{HEAP_REPORT_BYTES, Heap, heap_bytes};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::AtomicPtr;

#[test]
fn what_one_thread_allocates_and_another_frees_is_counted_once() {
    let bytes = 64 * HEAP_REPORT_BYTES;
    let layout = Layout::from_size_align(bytes, 16).expect("a layout");
    let before = heap_bytes();
    // SAFETY: the size is not zero.
    let block = unsafe { Heap.alloc(layout) };
    assert!(!block.is_null());
    let with_block = heap_bytes();
    assert!(with_block.abs_diff(before + bytes) <= HEAP_REPORT_BYTES, "{before} {with_block}");
    let block = AtomicPtr::new(block);
    let freed = std::thread::spawn(move || {
        // SAFETY: it was allocated above with this layout, and nobody else uses it.
        unsafe { Heap.dealloc(block.into_inner(), layout) };
    });
    freed.join().expect("the thread ends");
    assert!(heap_bytes().abs_diff(before) <= HEAP_REPORT_BYTES, "{before} {}", heap_bytes());
}
