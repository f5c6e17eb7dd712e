//! Where a login comes from, as far as logins of one origin are counted together.

use std::net::{IpAddr, SocketAddr};

/// A host, or this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LoginSource {
    /// An address; of IPv6 the network of 64 bits, which is what one host is given at least.
    Address(IpAddr),
    /// A link without an address of the network: a Unix socket.
    Local,
}

impl LoginSource {
    /// The source of a peer, by its address as text.
    pub fn of(peer: &str) -> Self {
        let address = peer.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| peer.parse());
        match address.map(|address: IpAddr| address.to_canonical()) {
            Ok(IpAddr::V6(address)) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                LoginSource::Address(IpAddr::V6(network.into()))
            }
            Ok(address) => LoginSource::Address(address),
            Err(_) => LoginSource::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LoginSource;

    #[test]
    fn a_host_is_one_source_whatever_its_port() {
        let same = |one: &str, other: &str| LoginSource::of(one) == LoginSource::of(other);
        assert!(
            same("10.0.0.1:5", "10.0.0.1:6")
                && same("[::ffff:10.0.0.1]:5", "10.0.0.1")
                && !same("10.0.0.1:5", "10.0.0.2:5")
        );
        assert!(same("[2001:db8::1]:5", "[2001:db8::ffff:9]:6") && !same("[2001:db8:0:1::1]:5", "[2001:db8::1]:5"));
        assert!(same("unix:/run/a", "unix:/run/b") && !same("unix:/run/a", "127.0.0.1:1"));
    }
}
