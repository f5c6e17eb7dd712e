//! The protocol engine: all connections of one port.
//!
//! After the port is opened it allocates no memory for peers.

mod connection;
mod connection_state;
mod credit;
mod link_calls;
mod port_engine;
mod port_shared;
mod receive_half;
mod send_half;

pub(crate) use self::port_engine::PortEngine;
pub(crate) use port_shared::PortShared;

/// Counters of a port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Doorbells of send queues: lists of work requests posted.
    pub doorbells: u64,
    /// Doorbells of the shared receive queue: lists of buffers posted.
    pub receive_doorbells: u64,
    pub messages_sent: u64,
    pub messages_received: u64,
    /// READs issued.
    pub reads: u64,
    /// Completions of signalled sends and of READs.
    pub signalled: u64,
    /// Bytes that were copied out of receive buffers and landing blocks.
    pub copied_bytes: u64,
    /// Bytes that were read from peers straight into lent memory.
    pub placed_bytes: u64,
    /// Bytes that were read from peers into landing blocks, because no memory was lent.
    pub landed_bytes: u64,
    /// Rendezvous offered to peers.
    pub offers: u64,
    /// Bytes offered to peers.
    pub offered_bytes: u64,
    /// Bytes of bodies above the threshold that were sent in messages, because a limit of grants was reached.
    pub large_sent_bytes: u64,
    /// Connections that failed.
    pub faults: u64,
    /// Requests that were refused.
    pub refusals: u64,
}

impl std::ops::AddAssign for PortCounters {
    fn add_assign(&mut self, other: Self) {
        self.doorbells += other.doorbells;
        self.receive_doorbells += other.receive_doorbells;
        self.messages_sent += other.messages_sent;
        self.messages_received += other.messages_received;
        self.reads += other.reads;
        self.signalled += other.signalled;
        self.copied_bytes += other.copied_bytes;
        self.placed_bytes += other.placed_bytes;
        self.landed_bytes += other.landed_bytes;
        self.offers += other.offers;
        self.offered_bytes += other.offered_bytes;
        self.large_sent_bytes += other.large_sent_bytes;
        self.faults += other.faults;
        self.refusals += other.refusals;
    }
}

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

/// The credits and slots in use at one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUsage {
    /// Messages that may be sent.
    pub credits_left: u16,
    /// Credits still to be returned.
    pub credits_owed: u16,
    /// Messages of the peer that occupy a buffer.
    pub unread_messages: u16,
    /// Slots of the send queue in use.
    pub send_slots_used: usize,
    /// Rendezvous offered and not done.
    pub grants: usize,
}
