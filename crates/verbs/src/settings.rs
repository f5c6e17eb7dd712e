//! What an operator may change of the engine.
//!
//! Leaves: values, and whether they make sense together.
//! Owns:   the defaults.
//! Never:  reads a file.

use crate::limits::{
    CREDITS_MAX, CREDITS_MIN, FETCH_MAX, PAYLOAD_BYTES_MAX, RECEIVE_BUFFER_BYTES_MIN, RENDEZVOUS_BYTES_MAX,
    SEND_SLOTS_MIN,
};
use std::time::Duration;

/// How a port and its connections behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Bytes of a receive buffer. With `credits` it is what an idle connection pins.
    pub receive_buffer_bytes: u32,
    /// Receive buffers of the port. All promises to peers together are no more than this, less `spare_buffers`.
    pub receive_buffers: usize,
    /// Buffers that are promised to nobody: what a peer sends beyond its credit lands there before it is thrown out.
    pub spare_buffers: usize,
    /// Messages that a peer may send before it gets a credit back.
    pub credits: u16,
    /// Bodies from so many bytes on are offered for reading instead of sent, unless the peer's own threshold is higher.
    pub rendezvous_threshold_bytes: u32,
    /// Rendezvous that a peer may offer us at once.
    pub rendezvous_max: u16,
    /// Most bytes that one connection lets its peer read at once.
    pub granted_bytes_max: usize,
    /// Most bytes that all connections together do. Beyond it bodies are sent, not offered.
    pub granted_bytes_total_max: usize,
    /// Blocks for large bodies whose owner lends no memory, and their bytes.
    pub landing_blocks: usize,
    /// See `landing_blocks`.
    pub landing_bytes: usize,
    /// Slots of a connection's send queue.
    pub send_slots: usize,
    /// One send in so many gives a completion.
    pub signal_every: usize,
    /// How often the device tries again when a peer has no receive buffer.
    pub receiver_not_ready_retries: u8,
    /// Whether clients without a token are let in.
    pub accepts_direct: bool,
    /// How long a connection may take to stand.
    pub set_up_max: Duration,
    /// After so long without a word the peer is asked for one.
    pub ping_after: Duration,
    /// After so long without a word the peer is given up.
    pub silent_max: Duration,
    /// How long a peer may take to read what it is offered, however alive it is: it ends the connection of one that never
    /// will. A reader that pauses longer (a consumer that reads nothing, a broker that is short of memory) loses its
    /// connection, so it must be longer than any pause that is allowed; `Duration::MAX`: for ever.
    pub fetch_max: Duration,
    /// How long one READ may take.
    pub read_max: Duration,
    /// How long an ended connection may take to say what it has still to say.
    pub ending_max: Duration,
    /// How long a token waits for its client.
    pub token_max: Duration,
    /// Whether the owner calls [`Port::flush`](crate::Port::flush) at the end of each round of its own: then a link rings
    /// one doorbell a round. Otherwise each call that has something to post rings one.
    pub corked: bool,
}

impl Default for PortSettings {
    fn default() -> Self {
        PortSettings {
            receive_buffer_bytes: 4_096,
            receive_buffers: 8_192,
            spare_buffers: 64,
            credits: 16,
            rendezvous_threshold_bytes: 16 * 1_024,
            rendezvous_max: 8,
            granted_bytes_max: 32 << 20,
            granted_bytes_total_max: 1 << 30,
            landing_blocks: 16,
            landing_bytes: 64 * 1_024,
            send_slots: 64,
            signal_every: 16,
            receiver_not_ready_retries: 6,
            accepts_direct: false,
            set_up_max: Duration::from_secs(10),
            ping_after: Duration::from_secs(10),
            silent_max: Duration::from_secs(30),
            fetch_max: FETCH_MAX,
            read_max: Duration::from_secs(30),
            ending_max: Duration::from_secs(5),
            token_max: Duration::from_secs(30),
            corked: false,
        }
    }
}

impl PortSettings {
    /// What suits the end that asked for the connection: it waits for its broker as long as that lives, for a broker that is
    /// short of memory reads nothing until it has some again.
    pub fn for_client() -> Self {
        PortSettings { fetch_max: Duration::MAX, ..PortSettings::default() }
    }

    /// Whether they make sense together.
    ///
    /// # Errors
    /// Which do not.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (self.receive_buffer_bytes >= RECEIVE_BUFFER_BYTES_MIN, "receive buffers are too small"),
            (self.receive_buffer_bytes <= PAYLOAD_BYTES_MAX, "receive buffers are too large for a message"),
            ((CREDITS_MIN..=CREDITS_MAX).contains(&self.credits), "credits are too few or too many"),
            (
                self.receive_buffers >= self.spare_buffers + usize::from(self.credits),
                "receive buffers for one connection",
            ),
            (self.send_slots >= SEND_SLOTS_MIN, "too few send slots"),
            (
                (1..=self.send_slots / 4).contains(&self.signal_every),
                "a quarter of the send slots at least is signalled",
            ),
            (self.rendezvous_threshold_bytes > 0, "a rendezvous needs bytes"),
            (self.landing_blocks > 0 && self.landing_bytes > 0, "large bodies need a place to land"),
            (self.landing_bytes <= RENDEZVOUS_BYTES_MAX as usize, "landing blocks are larger than any rendezvous"),
            (self.receiver_not_ready_retries < 7, "7 retries are retries for ever"),
            (self.ping_after < self.silent_max, "a peer is asked before it is given up"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
    }

    /// Bytes that a port has from its opening on for peers: receive buffers and landing blocks.
    pub fn port_bytes(&self) -> u64 {
        let buffers = self.receive_buffers as u64 * u64::from(self.receive_buffer_bytes);
        buffers + (self.landing_blocks * self.landing_bytes) as u64
    }

    /// Connections that can be promised their credits at once.
    pub fn connections_max(&self) -> usize {
        (self.receive_buffers - self.spare_buffers) / usize::from(self.credits)
    }
}
