//! Memory that begins at a multiple of a block, as direct I/O requires.

use crate::limits::BLOCK_BYTES;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A buffer of whole blocks, zeroed when it is made.
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `bytes`, rounded up to whole blocks.
    pub fn new(bytes: usize) -> Self {
        let len = bytes.next_multiple_of(BLOCK_BYTES);
        let memory = vec![0; len + BLOCK_BYTES];
        // The vector never grows, so its bytes stay where they are.
        let start = memory.as_ptr().addr().next_multiple_of(BLOCK_BYTES) - memory.as_ptr().addr();
        Self { memory, start, len }
    }
}

impl AlignedBuffer {
    /// How long it can be.
    pub fn capacity(&self) -> usize {
        self.memory.len() - BLOCK_BYTES
    }

    /// Makes it this long, rounded up to whole blocks.
    ///
    /// # Panics
    /// If that is more than its capacity.
    pub fn set_len(&mut self, bytes: usize) {
        let len = bytes.next_multiple_of(BLOCK_BYTES);
        assert!(len <= self.capacity(), "a buffer does not grow");
        self.len = len;
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_block_and_has_whole_blocks() {
        for bytes in [1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 1 << 20] {
            let mut buffer = AlignedBuffer::new(bytes);
            assert!(buffer.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
            assert!(
                buffer.len() >= bytes && buffer.len() < bytes + BLOCK_BYTES && buffer.len().is_multiple_of(BLOCK_BYTES)
            );
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            buffer.set_len(BLOCK_BYTES);
            assert_eq!(buffer.len(), BLOCK_BYTES);
            buffer.set_len(buffer.capacity());
            let moved = buffer;
            assert!(moved.as_ptr().addr().is_multiple_of(BLOCK_BYTES) && moved.iter().all(|&byte| byte == 7));
        }
    }
}
