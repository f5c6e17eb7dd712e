//! Options of sockets, listeners and outgoing connections, with their defaults.

use std::time::Duration;

use crate::limits;

/// Options of one socket. The defaults are the system's, except that TCP sends without delay (`TCP_NODELAY`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Whether TCP sends small segments at once (`TCP_NODELAY`) instead of holding them back until earlier ones are
    /// acknowledged (Nagle); `None`: it does.
    pub tcp_nodelay: Option<bool>,
    /// Name of the TCP congestion control, such as `cubic` (`TCP_CONGESTION`); `None`: the system's choice.
    pub tcp_congestion: Option<String>,
    /// Bytes of the kernel's send buffer (`SO_SNDBUF`); `None`: the system sizes it itself.
    pub send_buffer_bytes: Option<usize>,
    /// Bytes of the kernel's receive buffer (`SO_RCVBUF`); `None`: the system sizes it itself.
    pub receive_buffer_bytes: Option<usize>,
}

/// Options of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that the kernel queues until they are accepted.
    pub backlog: u32,
    /// Whether other listeners of this user may share the TCP port; the kernel then distributes connections over them
    /// (`SO_REUSEPORT`). Ignored for Unix sockets.
    pub share_port: bool,
    /// Options of the listener, which accepted sockets inherit.
    pub socket: SocketOptions,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions { backlog: limits::BACKLOG_DEFAULT, share_port: false, socket: SocketOptions::default() }
    }
}

/// Options of an outgoing connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialOptions {
    /// Longest wait for each address of a name.
    pub timeout: Duration,
    pub socket: SocketOptions,
}

impl Default for DialOptions {
    fn default() -> Self {
        DialOptions { timeout: Duration::from_secs(10), socket: SocketOptions::default() }
    }
}
