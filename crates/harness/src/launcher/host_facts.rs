//! Facts about a rank's host, with hashes that identify ranks on the same host or with the same clock.
//!
//! Only the hashes leave the host: its name is not sent.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;

use gauge::{HostEnvironment, listener_on};
use serde::{Deserialize, Serialize};

/// Facts about a rank's host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostFacts {
    /// Equal for ranks of one host: a hash of kernel, name and network namespace.
    pub host_mark: u64,
    /// Equal for ranks that read the same clock.
    pub clock_mark: u64,
    /// Whether the broker listens on this host.
    pub sees_broker: bool,
    pub environment: HostEnvironment,
}

impl HostFacts {
    /// Reads the facts of this host; `address` is the broker's.
    pub fn read(address: &str) -> Self {
        let text = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let boot = text("random/boot_id");
        let space = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
        Self {
            host_mark: mark(&(&boot, text("hostname"), space("net"))),
            clock_mark: mark(&(&boot, space("time"))),
            sees_broker: listens_here(address),
            environment: HostEnvironment::read(),
        }
    }
}

/// All ranks run the same program, so equal facts have equal hashes.
fn mark(facts: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    facts.hash(&mut hasher);
    hasher.finish()
}

/// Whether a process of this host listens at the address.
pub fn listens_here(address: &str) -> bool {
    match address.strip_prefix("unix:") {
        Some(path) => Path::new(path).exists(),
        None => {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            is_local_address(address) && port.is_some_and(|port| listener_on(port).is_some())
        }
    }
}

/// Strips the scheme from an address: `tls://`, `amqp+rdma://`.
fn host_and_port(address: &str) -> &str {
    address.split_once("://").map_or(address, |(_, place)| place)
}

/// Whether `host:port` is an address of this host, which is the case if it can be bound.
pub(crate) fn is_local_address(address: &str) -> bool {
    let bound = |ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok();
    // An unknown name is no local address; connecting to it reports the error.
    host_and_port(address).to_socket_addrs().is_ok_and(|mut addresses| addresses.any(|address| bound(address.ip())))
}

/// Resolves `host:port` to its first address.
pub fn resolve(address: &str) -> Result<SocketAddr, String> {
    let mut found = host_and_port(address).to_socket_addrs().map_err(|error| format!("{address}: {error}"))?;
    found.next().ok_or_else(|| format!("{address} has no IP address"))
}

/// The local address that a host at `other` can reach this one by. No packet is sent.
pub fn local_address_towards(other: SocketAddr) -> Result<IpAddr, String> {
    let any: IpAddr = if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let found = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(other)?;
        socket.local_addr()
    });
    found.map(|address| address.ip()).map_err(|error| format!("no route to {other}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_host() {
        for (address, here) in [
            ("127.0.0.1:1", true),
            ("amqp+rdma://127.0.0.1:1", true),
            ("[::1]:1", true),
            ("192.0.2.1:1", false),
            ("nonsense", false),
        ] {
            // A machine without IPv6 has no ::1.
            assert!(is_local_address(address) == here || address.starts_with('['), "{address}");
        }
    }

    #[test]
    fn local_address_is_one_of_this_host() {
        let other = resolve("127.0.0.1:9").expect("an address");
        assert_eq!(local_address_towards(other), Ok(IpAddr::from([127, 0, 0, 1])));
        assert!(resolve("nonsense").is_err());
    }

    #[test]
    fn ranks_of_one_host_have_the_same_marks() {
        let (one, other) = (HostFacts::read("127.0.0.1:1"), HostFacts::read("127.0.0.1:1"));
        assert_eq!((one.host_mark, one.clock_mark), (other.host_mark, other.clock_mark));
        assert_ne!(mark(&("a", "b")), mark(&("a", "c")));
    }

    #[test]
    fn a_broker_is_seen_where_it_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        assert!(listens_here(&address));
        drop(listener);
        assert!(!listens_here(&address));
        assert!(!listens_here("unix:/nowhere/harrier.sock"));
    }
}
