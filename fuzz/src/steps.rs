//! The steps that a target reads from its bytes.

/// The bytes that are left. Each answer is `None` at their end.
pub struct Steps<'a>(pub &'a [u8]);

impl<'a> Steps<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// As many bytes as the next one says, or all that are left.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.byte()?);
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        Some(bytes)
    }
}
