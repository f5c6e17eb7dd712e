//! The wire format: the private data of the connection set-up, and the messages of a connection.
//!
//! Its description is `docs/protocol/rdma.md`. Decoding never panics, whatever the bytes are, and has no state.

mod header;
mod payload;
mod private_data;

pub use header::{MessageHeader, MessageKind};
pub use payload::{CloseCode, RendezvousDescriptor, decode_close, decode_done, encode_close, encode_done};
pub use private_data::{Hello, PrivateDataError, RdmaToken, Reject, RejectReason, VERSION_MAX, VERSION_MIN};

/// Reads `N` bytes at `at`; `None` beyond the end.
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
