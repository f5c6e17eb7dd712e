//! Memory that a device may read or write: what it must guarantee, and the types that do.
//!
//! No reference is lent to bytes that a device may change meanwhile.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use slab::{BlockMut, Slice};

use crate::error::IbError;
use crate::limits::{ARENA_BLOCKS_MAX, SGE_BYTES_MAX};

/// Bytes that stay mapped, initialised and at the same address for as long as the value lives, even if the value moves.
///
/// # Safety
/// The implementor guarantees this for the bytes of [`span`](StableMemory::span) names, which are always the same.
pub unsafe trait StableMemory: Send + 'static {
    /// Their address and number.
    fn span(&self) -> (NonNull<u8>, usize);
}

/// [`StableMemory`] that nobody else reads or writes while the value lives, so that a device may write it.
///
/// # Safety
/// The implementor guarantees that there is one value for these bytes, and no reference to them that was not borrowed
/// from it.
pub unsafe trait ExclusiveMemory: StableMemory {}

// SAFETY: a slice counts itself among its block's holders, and a block is neither moved nor given back while it is
// held.
unsafe impl StableMemory for Slice {
    fn span(&self) -> (NonNull<u8>, usize) {
        (NonNull::from(&**self).cast(), self.len())
    }
}

// SAFETY: the only holder of its block, which is not moved.
unsafe impl StableMemory for BlockMut {
    fn span(&self) -> (NonNull<u8>, usize) {
        (NonNull::from(&**self).cast(), self.len())
    }
}

// SAFETY: it holds its bytes alone.
unsafe impl ExclusiveMemory for BlockMut {}

/// The first bytes of an arena block, to be sent, with a number of the sender's choice.
#[derive(Debug)]
pub struct FilledArenaBlock {
    part: ArenaBlock,
    bytes: usize,
    number: u32,
}

impl FilledArenaBlock {
    /// The first `bytes` of `part`, or all of it if it is shorter.
    pub fn new(part: ArenaBlock, bytes: usize, number: u32) -> Self {
        Self { bytes: bytes.min(part.bytes), part, number }
    }

    /// The block, to be filled again, and the number.
    pub fn into_block(self) -> (ArenaBlock, u32) {
        (self.part, self.number)
    }
}

// SAFETY: no more bytes than the part has, which keeps the promise.
unsafe impl StableMemory for FilledArenaBlock {
    fn span(&self) -> (NonNull<u8>, usize) {
        (self.part.start, self.bytes)
    }
}

/// A segment of a send: an arena block of the sender's, or message memory.
#[derive(Debug)]
pub enum SendSegment {
    /// Bytes of the sender's own, such as a message's header.
    Own(FilledArenaBlock),
    /// Message memory.
    Shared(Slice),
}

// SAFETY: each kind keeps the promise by itself.
unsafe impl StableMemory for SendSegment {
    fn span(&self) -> (NonNull<u8>, usize) {
        match self {
            SendSegment::Own(filled) => filled.span(),
            SendSegment::Shared(slice) => slice.span(),
        }
    }
}

/// Memory with a number of its owner's choice, which is returned with it.
#[derive(Debug)]
pub struct TaggedMemory<F> {
    pub memory: F,
    pub tag: u64,
}

// SAFETY: the memory keeps the promise.
unsafe impl<F: StableMemory> StableMemory for TaggedMemory<F> {
    fn span(&self) -> (NonNull<u8>, usize) {
        self.memory.span()
    }
}

// SAFETY: as above.
unsafe impl<F: ExclusiveMemory> ExclusiveMemory for TaggedMemory<F> {}

/// Zeroed pages from the operating system, unmapped with the last holder.
struct PageMapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: pages belong to the whole process; who may touch which of them is decided by the types that hold a mapping.
unsafe impl Send for PageMapping {}
// SAFETY: as above.
unsafe impl Sync for PageMapping {}

impl PageMapping {
    fn new(bytes: usize) -> Result<Self, IbError> {
        IbError::check_limit("bytes of one piece of memory", bytes, SGE_BYTES_MAX)?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new pages at a place of the system's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes.max(1), access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(IbError::last_os_error("mmap"));
        }
        let start = NonNull::new(start.cast()).expect("the system maps nothing at address zero");
        Ok(Self { start, bytes })
    }
}

impl Drop for PageMapping {
    fn drop(&mut self) {
        // SAFETY: mapped with these very values, and the last holder ends here.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes.max(1)) };
    }
}

/// Memory that this program and a device, or a peer through it, may write at any time.
///
/// It lends no references: bytes are copied in and out. Bytes copied out while the device writes may be partly old.
#[derive(Clone)]
pub struct SharedPages(Arc<PageMapping>);

impl SharedPages {
    ///
    /// # Errors
    /// [`IbError::Limit`] beyond `SGE_BYTES_MAX`, or the operating system's error.
    pub fn new(bytes: usize) -> Result<Self, IbError> {
        PageMapping::new(bytes).map(|mapping| Self(Arc::new(mapping)))
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Copies out the current bytes from `at`.
    ///
    /// # Panics
    /// If the range exceeds the pages.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        assert!(
            at.checked_add(into.len()).is_some_and(|end| end <= self.bytes()),
            "a read beyond the end of the pages"
        );
        // SAFETY: within the mapping, which lives; `into` is no part of it, since nobody gets a reference to that. A
        // device that writes meanwhile makes bytes old or new, and every byte is a value.
        unsafe { ptr::copy_nonoverlapping(self.0.start.as_ptr().add(at), into.as_mut_ptr(), into.len()) };
    }

    /// The current byte at `at`, for a caller that polls until a device writes there.
    ///
    /// # Panics
    /// If `at` is beyond the end.
    pub fn read_volatile(&self, at: usize) -> u8 {
        assert!(at < self.bytes(), "a look beyond the end of the pages");
        // SAFETY: within the mapping, which lives. The read is not left out however often it is repeated.
        unsafe { self.0.start.as_ptr().add(at).read_volatile() }
    }

    /// Copies in, from `at`.
    ///
    /// # Panics
    /// If the range exceeds the pages.
    pub fn write(&self, at: usize, from: &[u8]) {
        assert!(
            at.checked_add(from.len()).is_some_and(|end| end <= self.bytes()),
            "a write beyond the end of the pages"
        );
        // SAFETY: as in `read`, the other way round.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.0.start.as_ptr().add(at), from.len()) };
    }
}

// SAFETY: the mapping stays while one of its holders lives.
unsafe impl StableMemory for SharedPages {
    fn span(&self) -> (NonNull<u8>, usize) {
        (self.0.start, self.0.bytes)
    }
}

impl fmt::Debug for SharedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedPages({} bytes)", self.bytes())
    }
}

/// Memory to register at once, cut into blocks of one size with an owner each.
#[derive(Clone)]
pub struct Arena(Arc<PageMapping>);

impl Arena {
    /// `parts` blocks of `part_bytes` zeroes each.
    ///
    /// # Errors
    /// [`IbError::Limit`] beyond `SGE_BYTES_MAX`, or the operating system's error.
    pub fn new(parts: usize, part_bytes: usize) -> Result<(Self, Vec<ArenaBlock>), IbError> {
        IbError::check_limit("parts of an arena", parts, ARENA_BLOCKS_MAX)?;
        IbError::check_limit("bytes of a part", part_bytes, SGE_BYTES_MAX)?;
        let arena = Arc::new(PageMapping::new(parts * part_bytes)?);
        let parts = (0..parts).map(|at| {
            // SAFETY: within the mapping.
            let start = unsafe { arena.start.add(at * part_bytes) };
            ArenaBlock { start, bytes: part_bytes, _arena: arena.clone() }
        });
        let parts = parts.collect();
        Ok((Self(arena), parts))
    }
}

// SAFETY: the mapping stays while one of its holders lives.
unsafe impl StableMemory for Arena {
    fn span(&self) -> (NonNull<u8>, usize) {
        (self.0.start, self.0.bytes)
    }
}

/// A block of an [`Arena`], with one owner.
pub struct ArenaBlock {
    start: NonNull<u8>,
    bytes: usize,
    _arena: Arc<PageMapping>,
}

// SAFETY: it holds its bytes alone, as a `Box<[u8]>` does.
unsafe impl Send for ArenaBlock {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for ArenaBlock {}

// SAFETY: the mapping stays while one of its holders lives.
unsafe impl StableMemory for ArenaBlock {
    fn span(&self) -> (NonNull<u8>, usize) {
        (self.start, self.bytes)
    }
}

// SAFETY: parts do not overlap, and an arena lends no reference to their bytes.
unsafe impl ExclusiveMemory for ArenaBlock {}

impl Deref for ArenaBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: bytes of the mapping, initialised, and written by nobody while they are borrowed from their one
        // owner.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for ArenaBlock {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for ArenaBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArenaBlock({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, FilledArenaBlock, SendSegment, SharedPages, StableMemory};

    #[test]
    fn parts_of_an_arena_are_apart_and_outlive_it() {
        let (arena, mut parts) = Arena::new(3, 100).expect("memory");
        for (at, part) in parts.iter_mut().enumerate() {
            part.fill(at as u8 + 1);
        }
        drop(arena);
        let last = parts.pop().expect("three parts");
        drop(parts);
        assert_eq!(*last, [3; 100]);
    }

    #[test]
    fn of_a_filled_part_the_filled_bytes_are_sent() {
        let (_arena, mut parts) = Arena::new(2, 100).expect("memory");
        let filled = FilledArenaBlock::new(parts.pop().expect("a part"), 7, 5);
        assert_eq!(filled.span().1, 7);
        assert_eq!(SendSegment::Own(filled).span().1, 7);
        let more = FilledArenaBlock::new(parts.pop().expect("a part"), 700, 6);
        assert_eq!((more.span().1, more.into_block().1), (100, 6));
    }

    #[test]
    fn pages_are_copied_in_and_out() {
        let pages = SharedPages::new(10).expect("memory");
        pages.write(7, b"abc");
        let mut seen = [0; 4];
        pages.clone().read(6, &mut seen);
        assert_eq!(&seen, b"\0abc");
        assert_eq!((pages.read_volatile(0), pages.read_volatile(9)), (0, b'c'));
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn pages_have_an_end() {
        SharedPages::new(10).expect("memory").write(8, b"abc");
    }
}
