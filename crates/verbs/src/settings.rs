//! Settings of a port, with their defaults and whether they fit together.

use crate::limits::{
    CREDITS_MAX, CREDITS_MIN, FETCH_MAX, PAYLOAD_BYTES_MAX, RECEIVE_BUFFER_BYTES_MIN, RENDEZVOUS_BYTES_MAX,
    SEND_SLOTS_MIN,
};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Bytes of a receive buffer. Times `credits`, an idle connection pins this much memory.
    pub receive_buffer_bytes: u32,
    /// Receive buffers of the port. The initial credits of all peers together are at most this, less `spare_buffers`.
    pub receive_buffers: usize,
    /// Buffers without credits, for messages that a peer sends beyond its credit before it is disconnected.
    pub spare_buffers: usize,
    /// The initial credits of a peer: messages that it may send before a credit is returned.
    pub credits: u16,
    /// Bodies of at least this many bytes are offered for reading instead of sent, unless the peer's threshold is
    /// higher.
    pub rendezvous_threshold_bytes: u32,
    /// Rendezvous that a peer may offer us at once.
    pub rendezvous_max: u16,
    /// Most bytes that one connection lets its peer read at once.
    pub granted_bytes_max: usize,
    /// Most bytes that all connections together let their peers read. Beyond it bodies are sent, not offered.
    pub granted_bytes_total_max: usize,
    /// Landing blocks, for large bodies whose owner lends no memory.
    pub landing_blocks: usize,
    /// Bytes of a landing block.
    pub landing_bytes: usize,
    /// Slots of a connection's send queue.
    pub send_slots: usize,
    /// One send in so many is signalled.
    pub signal_every: usize,
    /// How often the device retries when a peer has no receive posted.
    pub receiver_not_ready_retries: u8,
    /// Whether clients without a token are accepted.
    pub accepts_direct: bool,
    /// How long the set-up of a connection may take.
    pub set_up_max: Duration,
    /// A PING is sent to a peer that was silent this long.
    pub ping_after: Duration,
    /// A peer that was silent this long is disconnected.
    pub silent_max: Duration,
    /// How long a peer may take to read an offer, even if it answers PINGs. A reader that pauses longer (a consumer
    /// that reads nothing, a broker that is short of memory) is disconnected, so this must be longer than any allowed
    /// pause; `Duration::MAX`: without limit.
    pub fetch_max: Duration,
    /// How long one READ may take.
    pub read_max: Duration,
    /// How long a closing connection may take to send its last messages.
    pub ending_max: Duration,
    /// How long a token is valid.
    pub token_max: Duration,
    /// Whether the owner calls [`Port::flush`](crate::Port::flush) at the end of each of its rounds: then there is one
    /// doorbell per link and round. Otherwise each call that has something to post rings one.
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
    /// Settings for the connecting end: it waits for its broker without limit, because a broker that is short of memory
    /// reads nothing.
    pub fn for_client() -> Self {
        PortSettings { fetch_max: Duration::MAX, ..PortSettings::default() }
    }

    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// The rule that is violated.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (self.receive_buffer_bytes >= RECEIVE_BUFFER_BYTES_MIN, "receive buffers are too small"),
            (self.receive_buffer_bytes <= PAYLOAD_BYTES_MAX, "receive buffers are too large for a message"),
            ((CREDITS_MIN..=CREDITS_MAX).contains(&self.credits), "credits are too few or too many"),
            (
                self.receive_buffers >= self.spare_buffers + usize::from(self.credits),
                "too few receive buffers for one connection",
            ),
            (self.send_slots >= SEND_SLOTS_MIN, "too few send slots"),
            (
                (1..=self.send_slots / 4).contains(&self.signal_every),
                "at least one message in a quarter of the send slots must be signalled",
            ),
            (self.rendezvous_threshold_bytes > 0, "the rendezvous threshold is zero"),
            (self.landing_blocks > 0 && self.landing_bytes > 0, "there are no landing blocks"),
            (self.landing_bytes <= RENDEZVOUS_BYTES_MAX as usize, "landing blocks are larger than any rendezvous"),
            (self.receiver_not_ready_retries < 7, "7 retries mean retries without end"),
            (self.ping_after < self.silent_max, "the PING interval exceeds the silence limit"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
    }

    /// Bytes that a port allocates for peers: receive buffers and landing blocks.
    pub fn port_bytes(&self) -> u64 {
        let buffers = self.receive_buffers as u64 * u64::from(self.receive_buffer_bytes);
        buffers + (self.landing_blocks * self.landing_bytes) as u64
    }

    /// Connections for which there are credits.
    pub fn connections_max(&self) -> usize {
        (self.receive_buffers - self.spare_buffers) / usize::from(self.credits)
    }
}
