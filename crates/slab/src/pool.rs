//! The pool: a thread's handle on its message memory.
//!
//! Enters: sizes and bytes to keep.  Leaves: blocks, slices, tailed messages.
//! Owns:   a share of the pool; the last handle gone, the pool follows when its blocks are back.
//! Never:  leaves its thread. What it hands out may.

use std::fmt;
use std::ptr::NonNull;

use crate::block::BlockMut;
use crate::pool_inner::PoolInner;
use crate::limits::CACHED_BYTES_MAX;
use crate::slice::Slice;
use crate::header_with_tail::HeaderWithTail;

/// How a [`Pool`] behaves.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// How many bytes of empty regions it keeps for later before it gives them back to the operating system.
    pub cached_bytes_max: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { cached_bytes_max: CACHED_BYTES_MAX }
    }
}

/// Message memory of one thread. Clones are handles on the same memory.
///
/// What it hands out can go to any thread and outlive the pool. Freed on the pool's thread, a block is ready at once;
/// freed elsewhere, it is ready after the next [`collect`](Pool::collect), which also happens when the pool runs dry.
///
/// If the operating system has no more memory the process ends, as with a [`Vec`]; bound what you ask for.
///
/// ```compile_fail
/// let pool = slab::Pool::new(slab::PoolOptions::default());
/// std::thread::spawn(move || pool.used_bytes()); // a pool does not leave its thread
/// ```
pub struct Pool {
    // A `NonNull` is neither `Send` nor `Sync`, and so neither is a pool.
    inner: NonNull<PoolInner>,
}

impl Pool {
    /// A pool of the running thread. It takes no memory before it is asked for some.
    pub fn new(options: PoolOptions) -> Self {
        Self { inner: PoolInner::new(options.cached_bytes_max) }
    }

    #[inline]
    fn inner(&self) -> &PoolInner {
        // SAFETY: the pool exists while there is a handle, and handles stay on its owner's thread.
        unsafe { self.inner.as_ref() }
    }

    /// A block of exactly `len` bytes, with whatever was in them before. An empty one takes no memory.
    ///
    /// # Panics
    /// If `len` exceeds [`BLOCK_BYTES_MAX`](crate::BLOCK_BYTES_MAX); check what a peer announced.
    #[inline]
    pub fn block(&self, len: usize) -> BlockMut {
        BlockMut::allocate(self.inner(), len)
    }

    /// A copy of `bytes`.
    ///
    /// # Panics
    /// As [`block`](Self::block).
    #[inline]
    pub fn copy(&self, bytes: &[u8]) -> Slice {
        let mut block = self.block(bytes.len());
        block.copy_from_slice(bytes);
        block.freeze()
    }

    /// A value and `tail_bytes` bytes in one block. `fill` gets those bytes with whatever was in them before.
    ///
    /// # Panics
    /// If head and tail exceed [`BLOCK_BYTES_MAX`](crate::BLOCK_BYTES_MAX).
    #[inline]
    pub fn header_with_tail<T: Send + Sync>(&self, head: T, tail_bytes: usize, fill: impl FnOnce(&mut [u8])) -> HeaderWithTail<T> {
        HeaderWithTail::allocate(self.inner(), head, tail_bytes, fill)
    }

    /// Takes back the blocks that other threads freed since the last time; how many.
    #[inline]
    pub fn collect(&self) -> usize {
        self.inner().collect()
    }

    /// Collects, then gives every empty region back to the operating system; how many bytes.
    pub fn trim(&self) -> usize {
        self.inner().trim()
    }

    /// Bytes taken from the operating system. Pages of them that were never used cost nothing.
    pub fn mapped_bytes(&self) -> usize {
        self.inner().mapped_bytes()
    }

    /// Bytes in blocks given out, heads and rounding included. What other threads freed counts until it is collected.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        self.inner().used_bytes()
    }

    /// A number that changes whenever a region comes or goes.
    pub fn generation(&self) -> u64 {
        self.inner().generation()
    }

    /// Calls `each` with the start and length in bytes of every region, so that a device can register them.
    pub fn regions(&self, mut each: impl FnMut(*const u8, usize)) {
        let mut index = 0;
        // One at a time: `each` may use the pool.
        while let Some((base, len)) = self.inner().region_at(index) {
            each(base.as_ptr(), len);
            index += 1;
        }
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        self.inner().add_handle();
        Self { inner: self.inner }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: this handle is counted and goes now, on the owner's thread, which handles do not leave.
        unsafe { PoolInner::drop_handle(self.inner) };
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(PoolOptions::default())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("used_bytes", &self.used_bytes())
            .field("mapped_bytes", &self.mapped_bytes())
            .finish_non_exhaustive()
    }
}
