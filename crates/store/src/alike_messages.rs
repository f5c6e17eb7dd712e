//! Messages of a frame that differ in their bodies alone and follow one another.

/// Where they are among the records of their frame: what a footer says of them is known without reading them again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct AlikeMessages {
    /// Records of the frame before the first of them, heads and queues included.
    pub records_before: u32,
    pub records: u32,
    /// Bytes of their records.
    pub bytes: usize,
    pub body_bytes: u64,
    /// Bytes of the body of the last of them.
    pub last_body_bytes: u64,
}

impl AlikeMessages {
    /// Another one, with a body of so many bytes.
    #[inline]
    pub fn add(&mut self, body_bytes: usize) {
        self.records += 1;
        self.body_bytes += body_bytes as u64;
        self.last_body_bytes = body_bytes as u64;
    }
}
