//! What a caller may ask of a socket.
//!
//! Leaves: options with their defaults.
//! Owns:   the choice of options, all of them optional.
//! Never:  reads a configuration; the caller fills them in.

use std::time::Duration;

use crate::limits;

/// Options of one socket. The default leaves everything to the system, but that TCP always sends without delay
/// (`TCP_NODELAY`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Whether TCP sends small segments at once (`TCP_NODELAY`), and does not hold them back until what was sent before is
    /// acknowledged (Nagle); `None`: it does.
    pub tcp_nodelay: Option<bool>,
    /// Name of the TCP congestion control, such as `cubic` (`TCP_CONGESTION`); `None`: the system's choice.
    pub tcp_congestion: Option<String>,
    /// Bytes the kernel may hold for sending (`SO_SNDBUF`); `None`: the system sizes it itself.
    pub send_buffer_bytes: Option<usize>,
    /// Bytes the kernel may hold of what was received (`SO_RCVBUF`); `None`: the system sizes it itself.
    pub receive_buffer_bytes: Option<usize>,
}

/// Options of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections the kernel holds until they are accepted.
    pub backlog: u32,
    /// Whether other listeners of this user may share the TCP port, the kernel spreading connections over them
    /// (`SO_REUSEPORT`). Means nothing for Unix sockets.
    pub share_port: bool,
    /// Options of the listener, which the accepted sockets take over.
    pub socket: SocketOptions,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions { backlog: limits::BACKLOG_DEFAULT, share_port: false, socket: SocketOptions::default() }
    }
}

/// Options of a call to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialOptions {
    /// Longest wait for each address a name stands for.
    pub timeout: Duration,
    /// Options of the socket.
    pub socket: SocketOptions,
}

impl Default for DialOptions {
    fn default() -> Self {
        DialOptions { timeout: Duration::from_secs(10), socket: SocketOptions::default() }
    }
}
