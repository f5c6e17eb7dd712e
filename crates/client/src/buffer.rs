//! Received bytes that are not taken yet.
//!
//! Enters: bytes of the link.  Leaves: the part to be taken next.
//! Owns:   one piece of memory, moved to its start when its end is near.

use crate::limits::{RECEIVE_BYTES, UNREAD_BYTES_MAX};

#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; RECEIVE_BYTES], start: 0, end: 0 }
    }

    /// What is to be taken next.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// `n` bytes of `unread` were taken.
    #[inline]
    pub(crate) fn take(&mut self, n: usize) {
        self.start += n;
        debug_assert!(self.start <= self.end, "more was taken than was there");
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// All memory, for views that were noted as places in it.
    #[inline]
    pub(crate) fn memory(&self) -> &[u8] {
        &self.bytes
    }

    /// Room for at least half of what is received at once; makes it by moving what is unread, or by growing when an
    /// unread piece is that long.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.bytes.len() - self.end < RECEIVE_BYTES / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.bytes.len() - self.end < RECEIVE_BYTES / 2 {
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// Whether so much is unread that reading must stop until some of it is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.end - self.start >= UNREAD_BYTES_MAX
    }

    /// `n` bytes were received into `room`.
    #[inline]
    pub(crate) fn filled(&mut self, n: usize) {
        self.end += n;
        debug_assert!(self.end <= self.bytes.len(), "more was received than there was room for");
    }

    /// Gives memory beyond the usual back once nothing is unread.
    pub(crate) fn shrink(&mut self) {
        if self.start == self.end && self.bytes.len() > RECEIVE_BYTES {
            self.bytes.truncate(RECEIVE_BYTES);
            self.bytes.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_the_pieces() {
        let mut buffer = ReceiveBuffer::new();
        let (mut written, mut read) = (0_u64, 0_u64);
        let mut step = 1_usize;
        while read < 4 << 20 {
            let room = buffer.room();
            let n = (step * 37_003 % 200_000).min(room.len());
            for byte in &mut room[..n] {
                *byte = (written % 251) as u8;
                written += 1;
            }
            buffer.filled(n);
            let take = (step * 29_009 % 190_000).min(buffer.unread().len());
            for &byte in &buffer.unread()[..take] {
                assert_eq!(byte, (read % 251) as u8, "byte {read}");
                read += 1;
            }
            buffer.take(take);
            step += 1;
        }
    }

    #[test]
    fn an_unusual_size_is_given_back() {
        let mut buffer = ReceiveBuffer::new();
        while !buffer.is_full() {
            let n = buffer.room().len();
            buffer.filled(n);
        }
        buffer.take(buffer.unread().len());
        buffer.shrink();
        assert_eq!(buffer.memory().len(), RECEIVE_BYTES);
    }
}
