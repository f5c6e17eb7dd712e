//! A value and the bytes that belong to it, in one reference-counted block. Neither changes after construction.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;

use crate::block::BlockHeader;
use crate::limits::{BLOCK_ALIGN_BYTES, BLOCK_BYTES_MAX};
use crate::pool_inner::{self, PoolInner};

/// A shared `T` followed by bytes, in one block: a pointer of 8 bytes.
///
/// The overhead in the block is 8 bytes (16 if `T` is aligned to 16).
pub struct HeaderWithTail<T: Send + Sync> {
    block: NonNull<BlockHeader>,
    holds: PhantomData<T>,
}

const _: () = assert!(size_of::<Option<HeaderWithTail<u64>>>() == 8);

// SAFETY: `T` may be sent and shared, the tail is only read, the count is atomic, and a block can be given back from
// any thread.
unsafe impl<T: Send + Sync> Send for HeaderWithTail<T> {}
// SAFETY: likewise.
unsafe impl<T: Send + Sync> Sync for HeaderWithTail<T> {}

/// A block that is being filled; freed if the filling panics.
struct UnfilledBlock(NonNull<u8>);

impl Drop for UnfilledBlock {
    fn drop(&mut self) {
        // SAFETY: the block was taken for us alone.
        unsafe { pool_inner::free(self.0) };
    }
}

impl<T: Send + Sync> HeaderWithTail<T> {
    const HEAD_AT: usize = {
        assert!(align_of::<T>() <= BLOCK_ALIGN_BYTES, "blocks are aligned to 16 bytes only");
        assert!(size_of::<T>() <= BLOCK_BYTES_MAX / 2, "a head that leaves no room for a tail");
        size_of::<BlockHeader>().next_multiple_of(align_of::<T>())
    };
    const TAIL_AT: usize = Self::HEAD_AT + size_of::<T>();

    #[inline]
    pub(crate) fn allocate(inner: &PoolInner, head: T, tail_bytes: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        assert!(tail_bytes <= BLOCK_BYTES_MAX - Self::TAIL_AT, "a tail beyond BLOCK_BYTES_MAX");
        let unfilled = UnfilledBlock(inner.allocate(Self::TAIL_AT + tail_bytes));
        // SAFETY: the block is ours, has `tail_bytes` bytes behind `TAIL_AT`, and all of it is initialised.
        fill(unsafe { std::slice::from_raw_parts_mut(unfilled.0.add(Self::TAIL_AT).as_ptr(), tail_bytes) });
        let block = unfilled.0.cast::<BlockHeader>();
        mem::forget(unfilled);
        // SAFETY: the block is ours, aligned to 16, and has room for both before the tail.
        unsafe {
            block.byte_add(Self::HEAD_AT).cast::<T>().write(head);
            block.write(BlockHeader::with_one_ref(tail_bytes as u32));
        }
        Self { block, holds: PhantomData }
    }

    #[inline]
    fn block_header(&self) -> &BlockHeader {
        // SAFETY: it was written when the message was made, and lives while we hold the block.
        unsafe { self.block.as_ref() }
    }

    #[inline]
    pub fn header(&self) -> &T {
        // SAFETY: a `T` was written here when the message was made; it lives, unchanged, while we hold the block.
        unsafe { self.block.byte_add(Self::HEAD_AT).cast::<T>().as_ref() }
    }

    #[inline]
    pub fn tail(&self) -> &[u8] {
        let bytes = self.block_header().tail_bytes as usize;
        // SAFETY: that many initialised bytes lie after the value, and nobody writes to them while we hold the block.
        unsafe {
            let first = self.block.byte_add(Self::TAIL_AT).cast::<u8>();
            std::slice::from_raw_parts(first.as_ptr(), bytes)
        }
    }

    /// Whether there is no other reference to this block.
    pub fn is_unique(&self) -> bool {
        self.block_header().is_unique()
    }

    /// Whether both refer to the same block.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.block == other.block
    }
}

impl<T: Send + Sync> Clone for HeaderWithTail<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.block_header().retain();
        Self { block: self.block, holds: PhantomData }
    }
}

impl<T: Send + Sync> Drop for HeaderWithTail<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the header was written when the message was made, and we give up our count.
        if !unsafe { BlockHeader::release(self.block) } {
            return;
        }
        // SAFETY: that was the last holder, so the value and the block are ours alone. Zeroes go where the value was:
        // it may have had padding, and every byte of a block stays initialised.
        unsafe {
            let value = self.block.byte_add(Self::HEAD_AT).cast::<T>();
            value.drop_in_place();
            value.write_bytes(0, 1);
            pool_inner::free(self.block.cast());
        }
    }
}

impl<T: Send + Sync + fmt::Debug> fmt::Debug for HeaderWithTail<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderWithTail").field("head", self.header()).field("tail_bytes", &self.tail().len()).finish()
    }
}
