//! The way home: blocks that other threads put back for the pool's thread to collect.
//!
//! Enters: blocks, from any thread.  Leaves: all of them at once, to the owner; or the news that nobody is left but you.
//! Owns:   one atomic list, and after the pool is gone the count of blocks still out.
//! Never:  waits. Putting back is one compare-and-swap; taking all is one swap, so no block can be met twice in between.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicIsize, AtomicPtr, Ordering, fence};

/// A block that is in no one's hands: its first word links it to the next.
#[repr(C)]
pub(crate) struct Vacant {
    pub(crate) next: *mut Vacant,
}

/// Held up this much until the owner has counted what is out, so that early returns cannot reach zero before.
const UNCOUNTED: isize = isize::MAX / 2;

/// Without padding on purpose: every byte is atomic, so a reference to it may outlive it by an instruction.
#[repr(C)]
pub(crate) struct Returns {
    head: AtomicPtr<Vacant>,
    out: AtomicIsize,
}

/// What became of a block that was put back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Putting {
    /// It waits for its owner, or for the last of its fellows.
    Done,
    /// The pool is gone and this was the last block out: the caller must now tear the depot down.
    Last,
}

impl Returns {
    pub(crate) const fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), out: AtomicIsize::new(UNCOUNTED) }
    }

    /// Marks the end: the owner will collect no more.
    fn closed() -> *mut Vacant {
        ptr::without_provenance_mut(1)
    }

    /// Puts a block back from a thread that does not own it.
    ///
    /// # Safety
    /// The block belongs to the depot of this list, and the caller is the only one that holds it and gives it up.
    pub(crate) unsafe fn put(&self, block: NonNull<Vacant>) -> Putting {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head == Self::closed() {
                return self.count_down(1);
            }
            // SAFETY: the caller holds the block alone until the exchange below succeeds.
            unsafe { block.write(Vacant { next: head }) };
            // Release: what this thread did with the block happens before the owner's next use of it.
            match self.head.compare_exchange_weak(head, block.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Putting::Done,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything that was put back, newest first, linked by `next`. Null if there is nothing. The owner's call.
    #[inline]
    pub(crate) fn take(&self) -> *mut Vacant {
        // A load first: an idle list costs no exclusive cache line.
        if self.head.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        self.head.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes everything for the last time; from now on `put` only counts. The owner's call, once.
    pub(crate) fn close(&self) -> *mut Vacant {
        self.head.swap(Self::closed(), Ordering::Acquire)
    }

    /// Says how many blocks were out when the list was closed. The owner's call, once, after [`close`](Self::close).
    pub(crate) fn counted(&self, out: usize) -> Putting {
        self.count_down(UNCOUNTED - out as isize)
    }

    fn count_down(&self, by: isize) -> Putting {
        // Release: what each thread did with its block happens before the last one tears everything down.
        if self.out.fetch_sub(by, Ordering::Release) != by {
            return Putting::Done;
        }
        fence(Ordering::Acquire);
        Putting::Last
    }
}
