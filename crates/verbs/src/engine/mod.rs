//! The engine: connections of one port over a device.
//!
//! Enters: calls of links, completions and events of the device, time.  Leaves: work for the device, bytes for links.
//! Owns:   the protocol's state.
//! Never:  trusts a peer, waits, takes memory of its own after the port was opened.

mod connection;
mod port_engine;
mod credit;
mod receive_half;
mod send_half;
mod port_shared;
mod link_calls;

pub(crate) use self::port_engine::PortEngine;
pub(crate) use port_shared::PortShared;

/// What a port has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Lists of work given to send queues.
    pub doorbells: u64,
    /// Lists of buffers given to the shared receive queue.
    pub receive_doorbells: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// READs asked for.
    pub reads: u64,
    /// Completions of sends and READs that were asked for.
    pub signalled: u64,
    /// Bytes of streams that were copied out of receive buffers and landing blocks.
    pub copied_bytes: u64,
    /// Bytes that were read from a peer straight into the memory of their owner.
    pub placed_bytes: u64,
    /// Bytes that were read from a peer into landing blocks, because their owner lent nothing, and copied from there.
    pub landed_bytes: u64,
    /// Bodies that peers were offered for reading, each by itself.
    pub offers: u64,
    /// Bytes that peers were offered for reading.
    pub offered_bytes: u64,
    /// Bytes above the threshold that were sent all the same, because too much was granted already.
    pub large_sent_bytes: u64,
    /// Connections that ended by a fault.
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

/// Where the memory and the promises of a port are at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortUsage {
    /// Receive buffers that the device has.
    pub posted_buffers: usize,
    /// Receive buffers that the device gets with the next list of them.
    pub free_buffers: usize,
    /// Receive buffers that hold bytes nobody has received.
    pub unread_buffers: usize,
    /// Credits promised to all peers together.
    pub promised_credits: usize,
    /// Landing blocks that are free.
    pub free_landings: usize,
    /// Bytes that peers may read.
    pub granted_bytes: usize,
    /// Connections, those that are ending included.
    pub connections: usize,
}

/// The credits of one connection at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUsage {
    /// Messages that may be sent.
    pub credits_left: u16,
    /// Credits that are to be returned.
    pub credits_owed: u16,
    /// Messages of the peer that hold a buffer.
    pub unread_messages: u16,
    /// Slots of the send queue in use.
    pub send_slots_used: usize,
    /// Rendezvous offered and not done.
    pub grants: usize,
}
