//! Limits of the Python package.
//!
//! Leaves: how much is written before it is sent, and how long a body may be.
//! Owns:   the numbers.

/// Written bytes of `publish_many` that are sent before more is encoded: while they are sent, other threads of Python run.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// Longest body that is accepted, which is the longest that a session accepts.
pub(crate) const BODY_BYTES_MAX: usize = 512 << 20;

const _: () = assert!(BODY_BYTES_MAX <= slab::BLOCK_BYTES_MAX);
/// Bodies of `publish_many` that are taken from Python's iterator before they are written.
pub(crate) const BATCH_BODIES: usize = 256;
