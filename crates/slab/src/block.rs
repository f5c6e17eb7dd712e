//! A block with one writer, and the count that every block starts with.
//!
//! Enters: a length.  Leaves: that many bytes to fill, then a `Slice` to share.
//! Owns:   one block of a pool.
//! Never:  is shared; the count of its head is not looked at before it is frozen.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::pool_inner::{self, PoolInner};
use crate::limits::{BLOCK_ALIGN_BYTES, BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES};
use crate::region::{RegionInfo, WeakRegion, RegionRef};
use crate::slice::Slice;

/// What a shared block starts with.
#[repr(C)]
pub(crate) struct BlockHeader {
    ref_count: AtomicU32,
    /// Free for the kind of block: a tailed one keeps the length of its tail here.
    pub(crate) tail_bytes: u32,
}

const _: () = assert!(size_of::<BlockHeader>() == 8);
const _: () = assert!(align_of::<BlockHeader>() <= BLOCK_ALIGN_BYTES);
const _: () = assert!(size_of::<BlockHeader>() <= BLOCK_HEADER_BYTES);

/// Beyond this, holders are forgotten faster than they are dropped, and the count would wrap.
const REF_COUNT_MAX: u32 = u32::MAX / 2;

impl BlockHeader {
    pub(crate) fn with_one_ref(tail_bytes: u32) -> Self {
        Self { ref_count: AtomicU32::new(1), tail_bytes }
    }

    /// One holder more.
    #[inline]
    pub(crate) fn retain(&self) {
        // Relaxed: whoever clones holds the block already, so it cannot go meanwhile.
        if self.ref_count.fetch_add(1, Ordering::Relaxed) > REF_COUNT_MAX {
            // Only by forgetting two thousand million clones; going on would free memory in use.
            std::process::abort();
        }
    }

    /// One holder less; true if that was the last, which must then free the block.
    ///
    /// By pointer: a reference to the whole head would promise that nobody writes to the rest of it before this
    /// returns, and another thread may use the block anew before that.
    ///
    /// # Safety
    /// The head was written, and the caller gives up one count of the block.
    #[inline]
    pub(crate) unsafe fn release(head: NonNull<Self>) -> bool {
        // SAFETY: the head is there while the caller's count is; its atomic alone may outlive that by an instruction.
        let ref_count = unsafe { &(*head.as_ptr()).ref_count };
        // A sole holder needs no atomic exchange: nobody else can come to hold the block.
        // Acquire: what former holders read and wrote happens before the block's next use.
        if ref_count.load(Ordering::Acquire) == 1 {
            return true;
        }
        if ref_count.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        std::sync::atomic::fence(Ordering::Acquire);
        true
    }

    /// Whether the caller, who holds the block, is the only one that does.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        self.ref_count.load(Ordering::Acquire) == 1
    }
}

/// Memory to write: `len` bytes with one holder. An empty one holds no block.
///
/// What was in the bytes before is still there (they are never uninitialised): fill all of what you pass on.
pub struct BlockMut {
    /// The first byte behind the head; dangling if `len` is zero.
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: it holds its bytes alone, as a `Box<[u8]>` does, and a block can be given back from any thread.
unsafe impl Send for BlockMut {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for BlockMut {}

impl BlockMut {
    /// No bytes, and no block.
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
        // SAFETY: the block is ours and has room for a head and at least one byte.
        let bytes = unsafe { block.add(BLOCK_HEADER_BYTES) };
        Self { bytes, len }
    }

    /// # Safety
    /// Either `len` is zero, or `bytes` is the first byte behind the head of a block that nobody else holds, and its first
    /// `len` bytes are initialised.
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
            // SAFETY: the head lies right before the bytes, and nobody else holds the block.
            unsafe { header_of(bytes).write(BlockHeader::with_one_ref(0)) };
        }
        // SAFETY: a block with one holder, which `self` was and the slice now is; `len` bytes of it are initialised.
        unsafe { Slice::from_raw(bytes, len as u32) }
    }

    /// The region it lies in, so that a device can register that; `None` for an empty one.
    pub fn region(&self) -> Option<RegionInfo> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: `len` is not zero, so there is a block, held by us.
        Some(unsafe { region_of(self.bytes) })
    }

    /// Tells whether that region is still there, when this block is not any more; `None` for an empty one.
    pub fn weak_region(&self) -> Option<WeakRegion> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: `len` is not zero, so there is a block, held by us.
        Some(unsafe { weak_region_of(self.bytes) })
    }

    /// Keeps the first `len` bytes; no effect if there are not more. The memory stays taken, unless none are kept.
    pub fn truncate(&mut self, len: usize) {
        if len == 0 {
            *self = Self::empty();
        } else if len < self.len {
            self.len = len;
        }
    }
}

/// Where the head of the block is whose bytes start at `bytes`.
///
/// # Safety
/// `bytes` is the first byte behind the head of a block.
#[inline]
pub(crate) unsafe fn header_of(bytes: NonNull<u8>) -> NonNull<BlockHeader> {
    // SAFETY: the head's room lies before the bytes, in the same block.
    unsafe { bytes.sub(BLOCK_HEADER_BYTES) }.cast()
}

/// The life of the region of the block whose bytes start at `bytes`.
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
/// `bytes` is the first byte behind the head of a block that the caller holds.
pub(crate) unsafe fn region_of(bytes: NonNull<u8>) -> RegionInfo {
    // SAFETY: the block is held, so its head and its region exist, and every block begins in its region's first part.
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
