//! The receive buffer that all connections of a shard share.

/// Bytes of the connection that has its turn: received, and not consumed yet.
pub(crate) struct ReceiveBuffer {
    bytes: Box<[u8]>,
    filled: usize,
}

impl ReceiveBuffer {
    pub fn new(capacity_bytes: usize) -> Self {
        ReceiveBuffer { bytes: vec![0; capacity_bytes].into(), filled: 0 }
    }

    /// Starts a turn with the bytes that the connection's last turn left.
    pub fn load(&mut self, unconsumed: &[u8]) {
        self.filled = unconsumed.len();
        self.bytes[..self.filled].copy_from_slice(unconsumed);
    }

    /// The bytes to parse.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Where more bytes may be received.
    #[inline]
    pub fn free(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// So many bytes were received.
    #[inline]
    pub fn add_filled(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// The first bytes were parsed; the rest moves to the beginning.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.bytes.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::ReceiveBuffer;

    #[test]
    fn what_is_not_consumed_comes_before_what_is_received_next() {
        let mut buffer = ReceiveBuffer::new(8);
        buffer.free()[..5].copy_from_slice(b"abcde");
        buffer.add_filled(5);
        buffer.consume(3);
        assert_eq!(buffer.filled(), b"de");
        assert_eq!(buffer.free().len(), 6);
        buffer.free()[0] = b'f';
        buffer.add_filled(1);
        let left = buffer.filled().to_vec();
        buffer.load(b"");
        assert!(buffer.filled().is_empty() && buffer.free().len() == 8, "another connection's turn");
        buffer.load(&left);
        assert_eq!(buffer.filled(), b"def");
    }
}
