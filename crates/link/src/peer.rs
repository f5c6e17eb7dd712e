//! The addresses of both ends of a link, for logs, and whether the peer is on this machine. No name is looked up.

use std::net::SocketAddr;
use std::path::Path;

/// The addresses of both ends of a link as text, and whether the peer is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// The peer's address, such as `127.0.0.1:40312` or `unix:/run/harrier.sock`.
    pub address: Box<str>,
    /// This end's address, in the same form.
    pub local_address: Box<str>,
    /// Whether the peer can only be on this machine: a loopback address (also IPv4 in IPv6), or a Unix socket.
    pub is_loopback: bool,
}

impl PeerAddress {
    /// The ends of a TCP connection.
    pub fn tcp(peer: SocketAddr, local: SocketAddr) -> Self {
        PeerAddress {
            address: peer.to_string().into(),
            local_address: local.to_string().into(),
            is_loopback: peer.ip().to_canonical().is_loopback(),
        }
    }

    /// The ends of a connection over the Unix socket at `path`; most clients have no address of their own there.
    pub fn unix(path: &Path) -> Self {
        let text: Box<str> = format!("unix:{}", path.display()).into();
        PeerAddress { address: text.clone(), local_address: text, is_loopback: true }
    }

    /// The ends of a simulated connection.
    pub fn in_process(address: &str, local_address: &str) -> Self {
        PeerAddress { address: address.into(), local_address: local_address.into(), is_loopback: true }
    }
}

#[cfg(test)]
mod tests {
    use super::PeerAddress;

    #[test]
    fn only_loopback_addresses_count_as_this_machine() {
        let cases = [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("10.0.0.1:1", false),
            ("[::ffff:10.0.0.1]:1", false),
            ("[2001:db8::1]:1", false),
        ];
        for (text, loopback) in cases {
            let address = text.parse().expect("a test address");
            assert_eq!(PeerAddress::tcp(address, address).is_loopback, loopback, "{text}");
        }
    }
}
