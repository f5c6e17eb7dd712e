//! The phase of a connection, and the limits that its peer has announced.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// This end has requested it, and the peer has not answered.
    Connecting,
    /// This end has accepted it, and the peer has not confirmed.
    Accepting,
    /// It is established.
    Open,
    /// Nothing more is received; pending control messages are still sent.
    Closing,
    /// The queue pair is destroyed.
    Closed,
}

/// The limits that follow from the peer's [`Hello`](crate::wire::Hello).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerLimits {
    /// Payload bytes of a message to it.
    pub payload_max: usize,
    /// Bodies of this many bytes and more are offered.
    pub threshold: usize,
    /// Rendezvous that may be offered to it at once.
    pub rendezvous_max: usize,
}
