//! Counts of copied bytes.

/// Bytes of bodies that the broker has copied in user space, for diagnosis of slow large messages.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CopiedBytes {
    /// On receipt, into message memory: only large bodies count (see `session::limits::LARGE_BODY_BYTES`, or
    /// `link::LinkCapabilities::lend_threshold_bytes` if that is less), each once. Copies by the kernel and of small bodies do not
    /// count.
    pub bytes_in: u64,
    /// On delivery, between the heads: small bodies, for each consumer.
    pub bytes_out: u64,
}
