//! The protocol engine: all connections of one port.
//!
//! After the port is opened it allocates no memory for peers.

mod connection;
mod connection_state;
mod credit;
mod link_calls;
mod port_counters;
mod port_engine;
mod port_shared;
mod receive_half;
mod send_half;

pub(crate) use self::port_engine::PortEngine;
pub use port_counters::{NamedCounter, PortCounters};
pub(crate) use port_shared::PortShared;

/// The memory and credits in use at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortUsage {
    /// Receive buffers that are posted.
    pub posted_buffers: usize,
    /// Receive buffers that wait to be posted.
    pub free_buffers: usize,
    /// Receive buffers that hold unread bytes.
    pub unread_buffers: usize,
    /// The sum of all peers' initial credits.
    pub promised_credits: usize,
    /// Landing blocks that are free.
    pub free_landings: usize,
    /// Bytes that peers may read.
    pub granted_bytes: usize,
    /// Connections, including those that are closing.
    pub connections: usize,
}
