//! A writable block with one owner, and the header with the reference count that starts every block.
//!
//! The reference count of a block is not read before the block is frozen.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::limits::{BLOCK_ALIGN_BYTES, BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES};
use crate::pool_inner::{self, PoolInner};
use crate::region::{RegionInfo, RegionRef, WeakRegion};
use crate::slice::Slice;
use crate::sync::{AtomicU32, Ordering, fence};

/// The header of a shared block.
#[repr(C)]
pub(crate) struct BlockHeader {
    ref_count: AtomicU32,
    /// Used by [`HeaderWithTail`](crate::HeaderWithTail) alone, for the length of its tail.
    pub(crate) tail_bytes: u32,
}

// The atomics of a model are larger, and no pool takes part in one.
const _: () = assert!(cfg!(loom) || size_of::<BlockHeader>() == 8);
const _: () = assert!(align_of::<BlockHeader>() <= BLOCK_ALIGN_BYTES);
const _: () = assert!(cfg!(loom) || size_of::<BlockHeader>() <= BLOCK_HEADER_BYTES);

/// Beyond this the process aborts before the count can wrap, as [`std::sync::Arc`] does.
const REF_COUNT_MAX: u32 = u32::MAX / 2;

impl BlockHeader {
    pub(crate) fn with_one_ref(tail_bytes: u32) -> Self {
        Self { ref_count: AtomicU32::new(1), tail_bytes }
    }

    #[inline]
    pub(crate) fn retain(&self) {
        // Relaxed: the caller holds the block already, so nobody can free it meanwhile.
        if self.ref_count.fetch_add(1, Ordering::Relaxed) > REF_COUNT_MAX {
            // Possible only by leaking two thousand million clones; continuing would free memory that is in use.
            std::process::abort();
        }
    }

    /// Drops one reference; true if it was the last, and the caller must free the block.
    ///
    /// It takes a pointer: a reference to the whole header would promise that nobody writes to the rest of it before
    /// this returns, and another thread may reuse the block before that.
    ///
    /// # Safety
    /// The header was written, and the caller owns the reference that is dropped.
    #[inline]
    pub(crate) unsafe fn release(head: NonNull<Self>) -> bool {
        // SAFETY: the header exists while the caller's count is; its atomic alone may outlive that by an instruction.
        let ref_count = unsafe { &(*head.as_ptr()).ref_count };
        // A sole holder needs no atomic read-modify-write: nobody else can acquire a reference.
        // Acquire: what former holders read and wrote happens before the block's next use.
        if ref_count.load(Ordering::Acquire) == 1 {
            return true;
        }
        if ref_count.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }

    /// Whether the caller's reference is the only one.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        self.ref_count.load(Ordering::Acquire) == 1
    }
}

/// A writable block of `len` bytes with one owner. An empty one holds no block.
///
/// A new block is initialised, but with the bytes of an earlier use: fill all that you pass on.
pub struct BlockMut {
    /// The first byte after the header; dangling if `len` is zero.
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: it holds its bytes alone, as a `Box<[u8]>` does, and a block can be given back from any thread.
unsafe impl Send for BlockMut {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for BlockMut {}

impl BlockMut {
    /// An empty block, which holds no memory.
    pub const fn empty() -> Self {
        Self { bytes: NonNull::dangling(), len: 0 }
    }

    #[inline]
    pub(crate) fn allocate(inner: &PoolInner, len: usize) -> Self {
        if len == 0 {
            return Self::empty();
        }
        assert!(len <= BLOCK_BYTES_MAX, "a block beyond BLOCK_BYTES_MAX");
        let block = inner.allocate(BLOCK_HEADER_BYTES + len);
        // SAFETY: the block is ours and has room for a header and at least one byte.
        let bytes = unsafe { block.add(BLOCK_HEADER_BYTES) };
        Self { bytes, len }
    }

    /// # Safety
    /// Either `len` is zero, or `bytes` is the first byte after the header of a block that nobody else holds, and its
    /// first `len` bytes are initialised.
    #[inline]
    pub(crate) unsafe fn from_raw(bytes: NonNull<u8>, len: usize) -> Self {
        Self { bytes, len }
    }

    /// Makes the bytes readable by any number of holders on any thread.
    #[inline]
    pub fn freeze(self) -> Slice {
        let (bytes, len) = (self.bytes, self.len);
        mem::forget(self);
        if len > 0 {
            // SAFETY: the header lies right before the bytes, and nobody else holds the block.
            unsafe { header_of(bytes).write(BlockHeader::with_one_ref(0)) };
        }
        // SAFETY: a block with one holder, which `self` was and the slice now is; `len` bytes of it are initialised.
        unsafe { Slice::from_raw(bytes, len as u32) }
    }

    /// The region of the block, which a device can register; `None` for an empty one.
    pub fn region(&self) -> Option<RegionInfo> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: `len` is not zero, so there is a block, held by us.
        Some(unsafe { region_of(self.bytes) })
    }

    /// A weak reference to that region, valid after the block is freed; `None` for an empty one.
    pub fn weak_region(&self) -> Option<WeakRegion> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: `len` is not zero, so there is a block, held by us.
        Some(unsafe { weak_region_of(self.bytes) })
    }

    /// Keeps the first `len` bytes; no effect if there are not more. The memory is freed only if `len` is zero.
    pub fn truncate(&mut self, len: usize) {
        if len == 0 {
            *self = Self::empty();
        } else if len < self.len {
            self.len = len;
        }
    }
}

/// The header of the block whose bytes start at `bytes`.
///
/// # Safety
/// `bytes` is the first byte after the header of a block.
#[inline]
pub(crate) unsafe fn header_of(bytes: NonNull<u8>) -> NonNull<BlockHeader> {
    // SAFETY: the header lies before the bytes, in the same block.
    unsafe { bytes.sub(BLOCK_HEADER_BYTES) }.cast()
}

/// A weak reference to the region of the block whose bytes start at `bytes`.
///
/// # Safety
/// As [`region_of`].
pub(crate) unsafe fn weak_region_of(bytes: NonNull<u8>) -> WeakRegion {
    // SAFETY: as in `region_of`.
    unsafe { RegionRef::of(header_of(bytes).cast()).shared() }.weak()
}

/// The region of the block whose bytes start at `bytes`.
///
/// # Safety
/// `bytes` is the first byte after the header of a block that the caller holds.
pub(crate) unsafe fn region_of(bytes: NonNull<u8>) -> RegionInfo {
    // SAFETY: the block is held, so its header and its region exist, and every block begins in its region's first part.
    unsafe { RegionRef::of(header_of(bytes).cast()).shared() }.info()
}

impl Drop for BlockMut {
    #[inline]
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: `len` is not zero, so there is a block, held by us alone.
            unsafe { pool_inner::free(header_of(self.bytes).cast()) };
        }
    }
}

impl Deref for BlockMut {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes of a block we hold, or none at a dangling address.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl DerefMut for BlockMut {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialised bytes of a block we hold alone, or none at a dangling address.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl Default for BlockMut {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for BlockMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockMut({} bytes)", self.len)
    }
}
