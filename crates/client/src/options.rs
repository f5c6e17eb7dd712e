//! What a program may choose about a connection.
//!
//! Leaves: options with their defaults.
//! Owns:   the choice of options, all of them optional.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use link::SocketOptions;

use crate::limits;
use crate::rdma::RdmaOptions;

/// Options of a connection. `Options { name: Some("reporter".into()), ..Options::default() }`.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name shown by the broker's tools (`connection_name` in the client properties).
    pub name: Option<String>,
    /// Most channels this program opens at once; the server may allow fewer.
    pub channel_max: u16,
    /// Largest frame in bytes, overhead included; the server may want smaller ones.
    pub frame_bytes_max: u32,
    /// Seconds between heartbeats; the server's wish holds if it is lower, or if this is 0.
    pub heartbeat_s: u16,
    /// Longest wait for a connection, for an answer, and for room to send.
    pub answer_wait: Duration,
    /// Written bytes that are sent without a call of `flush`.
    pub flush_bytes: usize,
    /// Options of the socket, such as the congestion control; what the address says of it holds over them.
    pub socket: SocketOptions,
    /// Whether a token for RDMA shall be for others, whom this program carries and who log in by themselves: for
    /// [`CarrierPass::get`](crate::CarrierPass::get) alone.
    pub carries_others: bool,
    /// How addresses of RDMA are reached.
    pub rdma: RdmaOptions,
    /// Asked while a call waits, whether it shall end with `ClientError::Interrupted`.
    pub interrupt: Option<InterruptCheck>,
}

/// Whether a call that waits shall end: asked after each signal, and at least every `limits::INTERRUPT_CHECK_WAIT`.
#[derive(Clone)]
pub struct InterruptCheck(Arc<dyn Fn() -> bool + Send + Sync>);

impl InterruptCheck {
    pub fn new(is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_wanted))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for InterruptCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterruptCheck")
    }
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            name: None,
            channel_max: session::limits::CHANNEL_MAX,
            frame_bytes_max: session::limits::FRAME_BYTES_MAX,
            heartbeat_s: session::limits::HEARTBEAT_S,
            answer_wait: limits::ANSWER_WAIT,
            flush_bytes: limits::FLUSH_BYTES,
            socket: SocketOptions::default(),
            carries_others: false,
            rdma: RdmaOptions::default(),
            interrupt: None,
        }
    }
}
