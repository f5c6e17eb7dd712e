//! The pool: a thread's handle on its message memory.
//!
//! A handle does not leave its thread; the blocks it allocates may. After the last handle is dropped the pool's memory
//! lives on until its last block is freed.

use std::fmt;
use std::ptr::NonNull;

use crate::block::BlockMut;
use crate::header_with_tail::HeaderWithTail;
use crate::limits::CACHED_BYTES_MAX;
use crate::pool_inner::PoolInner;
use crate::slice::Slice;

#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Bytes of empty regions that the pool caches before it returns them to the operating system.
    pub cached_bytes_max: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { cached_bytes_max: CACHED_BYTES_MAX }
    }
}

/// Message memory of one thread. Clones are handles on the same memory.
///
/// Blocks can move to any thread and outlive the pool. A block freed on the pool's thread can be reused at once; one
/// freed elsewhere, after the next [`collect`](Pool::collect), which also runs when the pool has no free block.
///
/// The process ends if the operating system has no more memory, as with a [`Vec`]; check lengths that a peer announces.
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
    /// A pool of the running thread. It maps no memory before the first allocation.
    pub fn new(options: PoolOptions) -> Self {
        Self { inner: PoolInner::new(options.cached_bytes_max) }
    }

    #[inline]
    fn inner(&self) -> &PoolInner {
        // SAFETY: the pool exists while there is a handle, and handles stay on its owner's thread.
        unsafe { self.inner.as_ref() }
    }

    /// A block of exactly `len` bytes of arbitrary content. An empty one takes no memory.
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

    /// A value and `tail_bytes` bytes in one block; `fill` must fill the bytes, whose content is arbitrary.
    ///
    /// # Panics
    /// If head and tail exceed [`BLOCK_BYTES_MAX`](crate::BLOCK_BYTES_MAX).
    #[inline]
    pub fn header_with_tail<T: Send + Sync>(
        &self,
        head: T,
        tail_bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> HeaderWithTail<T> {
        HeaderWithTail::allocate(self.inner(), head, tail_bytes, fill)
    }

    /// Makes the blocks that other threads have freed available again. Returns their number.
    #[inline]
    pub fn collect(&self) -> usize {
        self.inner().collect()
    }

    /// Collects, then unmaps every empty region. Returns the number of bytes.
    pub fn trim(&self) -> usize {
        self.inner().trim()
    }

    /// Bytes mapped from the operating system. Pages that were never touched take no memory.
    pub fn mapped_bytes(&self) -> usize {
        self.inner().mapped_bytes()
    }

    /// Bytes of the regions that blocks are allocated in, with everything between these: of what is mapped, all but the empty
    /// regions that are cached.
    pub fn occupied_bytes(&self) -> usize {
        self.inner().occupied_bytes()
    }

    /// Bytes in allocated blocks, with headers and rounding. Blocks freed by other threads count until they are
    /// collected.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        self.inner().used_bytes()
    }

    /// A number that changes whenever a region is mapped or unmapped.
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
