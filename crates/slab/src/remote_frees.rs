//! Blocks that other threads have freed, for the pool's own thread to collect.
//!
//! Pushing is one compare-and-swap and taking all is one swap, so there is no ABA problem and nobody waits. After the
//! pool is gone the blocks are only counted, so that the last one frees the pool.

use std::ptr::{self, NonNull};

use crate::sync::{AtomicIsize, AtomicPtr, Ordering, fence};

/// A block on a free list: its first word is the link to the next.
#[repr(C)]
pub(crate) struct FreeBlock {
    pub(crate) next: *mut FreeBlock,
}

/// Added until the owner has counted the allocated blocks, so that frees before that cannot bring the count to zero.
const UNCOUNTED: isize = isize::MAX / 2;

/// A list of freed blocks, and after the pool is gone the count of allocated ones. It has no padding on purpose: every
/// byte is atomic, so a reference to it may outlive it by an instruction.
#[repr(C)]
pub(crate) struct RemoteFrees {
    head: AtomicPtr<FreeBlock>,
    outstanding: AtomicIsize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PushResult {
    /// The block waits for its owner, or others are still allocated.
    Pushed,
    /// The pool is gone and this was its last block: the caller must destroy the pool.
    LastBlock,
}

impl RemoteFrees {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), outstanding: AtomicIsize::new(UNCOUNTED) }
    }

    /// The head of a list that the owner will not collect any more.
    fn closed_marker() -> *mut FreeBlock {
        ptr::without_provenance_mut(1)
    }

    /// Pushes a block that a thread other than the owner frees.
    ///
    /// # Safety
    /// The block belongs to the pool of this list, and the caller is its only holder.
    pub(crate) unsafe fn push(&self, block: NonNull<FreeBlock>) -> PushResult {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head == Self::closed_marker() {
                return self.count_down(1);
            }
            // SAFETY: the caller holds the block alone until the exchange below succeeds.
            unsafe { block.write(FreeBlock { next: head }) };
            // Release: what this thread did with the block happens before the owner's next use of it.
            match self.head.compare_exchange_weak(head, block.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return PushResult::Pushed,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all pushed blocks, newest first, linked by `next`; null if there are none. For the owner's thread.
    #[inline]
    pub(crate) fn take_all(&self) -> *mut FreeBlock {
        // A load first: polling an empty list does not take the cache line from other processors.
        if self.head.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        self.head.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes all pushed blocks for the last time; from now on `push` only counts. For the owner's thread, once.
    pub(crate) fn close(&self) -> *mut FreeBlock {
        self.head.swap(Self::closed_marker(), Ordering::Acquire)
    }

    /// Sets how many blocks were still allocated when the list was closed. For the owner's thread, once, after
    /// [`close`](Self::close).
    pub(crate) fn set_outstanding(&self, outstanding: usize) -> PushResult {
        self.count_down(UNCOUNTED - outstanding as isize)
    }

    fn count_down(&self, by: isize) -> PushResult {
        // Release: what each thread did with its block happens before the last one destroys the pool.
        if self.outstanding.fetch_sub(by, Ordering::Release) != by {
            return PushResult::Pushed;
        }
        fence(Ordering::Acquire);
        PushResult::LastBlock
    }
}
