//! A range of a block, read by any number of holders on any thread.
//!
//! A slice is immutable; its last holder can turn it back into a writable block.

use std::fmt;
use std::ops::{Bound, Deref, RangeBounds};
use std::ptr::NonNull;

use crate::block::{BlockHeader, BlockMut, header_of, region_of, weak_region_of};
use crate::pool_inner;
use crate::region::{RegionInfo, WeakRegion};

/// Immutable bytes in a reference-counted block: a value of 16 bytes. An empty one holds no block.
pub struct Slice {
    /// The first byte after the block's header; dangling if `len` is zero.
    bytes: NonNull<u8>,
    start: u32,
    len: u32,
}

const _: () = assert!(size_of::<Slice>() == 16 && size_of::<Option<Slice>>() == 16);

// SAFETY: the bytes are only read, the count is atomic, and a block can be given back from any thread.
unsafe impl Send for Slice {}
// SAFETY: likewise; a shared slice can be read and cloned, no more.
unsafe impl Sync for Slice {}

impl Slice {
    /// An empty slice, which holds no memory.
    pub const fn empty() -> Self {
        Self { bytes: NonNull::dangling(), start: 0, len: 0 }
    }

    /// # Safety
    /// Either `len` is zero, or `bytes` is the first byte after the header of a block, its first `len` bytes are
    /// initialised and nobody writes to them, and the caller passes on one reference.
    #[inline]
    pub(crate) unsafe fn from_raw(bytes: NonNull<u8>, len: u32) -> Self {
        Self { bytes, start: 0, len }
    }

    #[inline]
    fn block_header(&self) -> Option<&BlockHeader> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: `len` is not zero, so there is a block, whose header was written when it was frozen and lives while we
        // hold it.
        Some(unsafe { header_of(self.bytes).as_ref() })
    }

    /// A part of the slice, with a reference of its own.
    ///
    /// # Panics
    /// If the range does not lie within the slice, as for `[u8]`.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len(),
        };
        assert!(start <= end && end <= self.len(), "range {start}..{end} of a slice of {} bytes", self.len());
        if start == end {
            return Self::empty();
        }
        let mut part = self.clone();
        part.start += start as u32;
        part.len = (end - start) as u32;
        part
    }

    /// Shortens the slice by its first `n` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len(), "advance by {n} in {} bytes", self.len());
        if n == self.len() {
            *self = Self::empty();
        } else {
            self.start += n as u32;
            self.len -= n as u32;
        }
    }

    /// Shortens the slice to its first `len` bytes; no effect if there are not more.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len == 0 {
            *self = Self::empty();
        } else if len < self.len() {
            self.len = len as u32;
        }
    }

    /// The region of the block, which a device can register; `None` for an empty slice.
    pub fn region(&self) -> Option<RegionInfo> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: `len` is not zero, so there is a block, and we hold it.
        Some(unsafe { region_of(self.bytes) })
    }

    /// A weak reference to that region, valid after the slice is dropped; `None` for an empty slice.
    pub fn weak_region(&self) -> Option<WeakRegion> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: `len` is not zero, so there is a block, and we hold it.
        Some(unsafe { weak_region_of(self.bytes) })
    }

    /// Whether no other slice refers to the same block. True of an empty one.
    pub fn is_unique(&self) -> bool {
        self.block_header().is_none_or(BlockHeader::is_unique)
    }

    /// The block, to be written again, if nobody else refers to it and the slice starts at its first byte.
    ///
    /// # Errors
    /// The slice, unchanged.
    pub fn into_block(self) -> Result<BlockMut, Self> {
        if self.start > 0 || !self.is_unique() {
            return Err(self);
        }
        let (bytes, len) = (self.bytes, self.len());
        std::mem::forget(self);
        // SAFETY: this was the only holder, by value, so that nobody else can come to hold the block; its first `len`
        // bytes are initialised, and its one count is handed over.
        Ok(unsafe { BlockMut::from_raw(bytes, len) })
    }
}

impl Clone for Slice {
    #[inline]
    fn clone(&self) -> Self {
        if let Some(head) = self.block_header() {
            head.retain();
        }
        Self { ..*self }
    }
}

impl Drop for Slice {
    #[inline]
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: `len` is not zero, so there is a block, whose header was written when it was frozen, and whose count we
        // give up; the last holder alone can reach it, and gives the block back.
        unsafe {
            let head = header_of(self.bytes);
            if BlockHeader::release(head) {
                pool_inner::free(head.cast());
            }
        }
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start + len` bytes of the block are initialised and only read while we hold it; or there are none,
        // at a dangling address with `start` zero.
        unsafe {
            let first = self.bytes.add(self.start as usize);
            std::slice::from_raw_parts(first.as_ptr(), self.len as usize)
        }
    }
}

impl AsRef<[u8]> for Slice {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<BlockMut> for Slice {
    #[inline]
    fn from(block: BlockMut) -> Self {
        block.freeze()
    }
}

impl Default for Slice {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} bytes)", self.len)
    }
}
