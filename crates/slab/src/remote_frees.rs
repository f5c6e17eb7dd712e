//! The way home: blocks that other threads put back for the pool's thread to collect.
//!
//! Enters: blocks, from any thread.  Leaves: all of them at once, to the owner; or the news that nobody is left but you.
//! Owns:   one atomic list, and after the pool is gone the count of blocks still out.
//! Never:  waits. PushResult back is one compare-and-swap; taking all is one swap, so no block can be met twice in between.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicIsize, AtomicPtr, Ordering, fence};

/// A block that is in no one's hands: its first word links it to the next.
#[repr(C)]
pub(crate) struct FreeBlock {
    pub(crate) next: *mut FreeBlock,
}

/// Held up this much until the owner has counted what is out, so that early returns cannot reach zero before.
const UNCOUNTED: isize = isize::MAX / 2;

/// Without padding on purpose: every byte is atomic, so a reference to it may outlive it by an instruction.
#[repr(C)]
pub(crate) struct RemoteFrees {
    head: AtomicPtr<FreeBlock>,
    outstanding: AtomicIsize,
}

/// What became of a block that was put back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PushResult {
    /// It waits for its owner, or for the last of its fellows.
    Pushed,
    /// The pool is gone and this was the last block out: the caller must now tear the pool down.
    LastBlock,
}

impl RemoteFrees {
    pub(crate) const fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), outstanding: AtomicIsize::new(UNCOUNTED) }
    }

    /// Marks the end: the owner will collect no more.
    fn closed_marker() -> *mut FreeBlock {
        ptr::without_provenance_mut(1)
    }

    /// Puts a block back from a thread that does not own it.
    ///
    /// # Safety
    /// The block belongs to the pool of this list, and the caller is the only one that holds it and gives it up.
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

    /// Takes everything that was put back, newest first, linked by `next`. Null if there is nothing. The owner's call.
    #[inline]
    pub(crate) fn take_all(&self) -> *mut FreeBlock {
        // A load first: an idle list costs no exclusive cache line.
        if self.head.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        self.head.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes everything for the last time; from now on `push` only counts. The owner's call, once.
    pub(crate) fn close(&self) -> *mut FreeBlock {
        self.head.swap(Self::closed_marker(), Ordering::Acquire)
    }

    /// Says how many blocks were out when the list was closed. The owner's call, once, after [`close`](Self::close).
    pub(crate) fn set_outstanding(&self, outstanding: usize) -> PushResult {
        self.count_down(UNCOUNTED - outstanding as isize)
    }

    fn count_down(&self, by: isize) -> PushResult {
        // Release: what each thread did with its block happens before the last one tears everything down.
        if self.outstanding.fetch_sub(by, Ordering::Release) != by {
            return PushResult::Pushed;
        }
        fence(Ordering::Acquire);
        PushResult::LastBlock
    }
}
