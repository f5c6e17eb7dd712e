//! Conversion between `SocketAddr` and the C socket addresses that the connection manager takes.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};

/// An address as a C structure.
pub(crate) struct SockAddr(sockaddr_storage);

impl SockAddr {
    pub(crate) fn new(address: SocketAddr) -> Self {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut storage: sockaddr_storage = unsafe { mem::zeroed() };
        let place = &raw mut storage;
        match address {
            SocketAddr::V4(v4) => {
                // SAFETY: as above.
                let mut raw: sockaddr_in = unsafe { mem::zeroed() };
                raw.sin_family = AF_INET as sa_family_t;
                raw.sin_port = v4.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                // SAFETY: a storage is at least as large, and at least as strictly aligned, as every kind of address.
                unsafe { place.cast::<sockaddr_in>().write(raw) };
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let mut raw: sockaddr_in6 = unsafe { mem::zeroed() };
                raw.sin6_family = AF_INET6 as sa_family_t;
                raw.sin6_port = v6.port().to_be();
                raw.sin6_addr.s6_addr = v6.ip().octets();
                raw.sin6_scope_id = v6.scope_id();
                // SAFETY: a storage is at least as large, and at least as strictly aligned, as every kind of address.
                unsafe { place.cast::<sockaddr_in6>().write(raw) };
            }
        }
        Self(storage)
    }

    /// For calls that only read it, although they are declared with a mutable pointer.
    pub(crate) fn pointer(&mut self) -> *mut sockaddr {
        (&raw mut self.0).cast()
    }
}

/// Reads an address that C has written; `None` for another family, or none.
pub(crate) fn read(storage: &sockaddr_storage) -> Option<SocketAddr> {
    let place = &raw const *storage;
    match storage.ss_family.into() {
        AF_INET => {
            // SAFETY: the family says which kind it is, and a storage is large enough for each.
            let raw = unsafe { place.cast::<sockaddr_in>().read() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
        }
        AF_INET6 => {
            // SAFETY: the family says which kind it is, and a storage is large enough for each.
            let raw = unsafe { place.cast::<sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), 0, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{SockAddr, read};

    #[test]
    fn an_address_comes_back_as_it_went() {
        for text in ["10.9.8.1:5671", "0.0.0.0:0", "[fe80::1%3]:65535", "[::]:1"] {
            let address = text.parse().expect("an address");
            assert_eq!(read(&SockAddr::new(address).0), Some(address), "{text}");
        }
    }
}
