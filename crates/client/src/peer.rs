//! The canonical name of a peer: a client address without a login.
//!
//! The same broker and virtual host have the same name. Host names are not resolved: `localhost` and 127.0.0.1 differ,
//! except for this broker itself.

use crate::url::Url;
use std::fmt::Write;

/// Prefixes of link addresses, and the schemes of client addresses.
const SCHEMES: [(&str, &str); 4] = [
    ("tls://", "amqps://"),
    ("amqp+rdma://", "amqp+rdma://"),
    ("amqp+rsocket://", "amqp+rsocket://"),
    ("unix:", "amqp+unix:"),
];
/// Hosts that a listener on loopback or on all interfaces answers to.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The peer name of an address, with its virtual host.
pub fn peer(url: &Url) -> String {
    of(&url.address, &url.vhost)
}

/// The peer names of this broker on its own host, by its listeners, in a virtual host.
pub fn own_names(listeners: &[String], vhost: &str) -> Vec<Box<str>> {
    let mut own = Vec::new();
    for address in listeners {
        own.push(of(address, vhost).into());
        let (scheme, place) = match SCHEMES.iter().find(|(scheme, _)| address.starts_with(scheme)) {
            Some(("unix:", _)) => continue,
            Some((scheme, _)) => (*scheme, &address[scheme.len()..]),
            None => ("", &**address),
        };
        let Some((host, port)) = place.rsplit_once(':') else { continue };
        if LOOPBACK.contains(&host) || ["0.0.0.0", "[::]"].contains(&host) {
            own.extend(LOOPBACK.iter().map(|host| of(&format!("{scheme}{host}:{port}"), vhost).into()));
        }
    }
    own
}

/// A peer's name for a listing: `host:port` if that is unambiguous.
pub fn short_name(peer: &str) -> &str {
    peer.strip_prefix("amqp://").filter(|place| !place.contains('/')).unwrap_or(peer)
}

/// The address of a peer with the login and TLS trust of another address.
pub fn with_login(peer: &str, whose: &Url) -> String {
    let trusted = whose.tls.ca.as_ref().filter(|_| peer.starts_with("amqps://"));
    let trusted = trusted.map_or_else(String::new, |file| format!("?cacertfile={}", encoded(&file.to_string_lossy())));
    let login = format!("{}:{}@", encoded(&whose.user), encoded(&whose.password));
    match (peer.split_once("://"), peer.strip_prefix("amqp+unix:")) {
        (Some((scheme, place)), _) => format!("{scheme}://{login}{place}{trusted}"),
        (None, Some(path)) => format!("amqp+unix://{login}{path}"),
        (None, None) => peer.to_owned(),
    }
}

/// Percent-encodes (RFC 3986 §2.1) everything but unreserved characters.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _infallible = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn of(address: &str, vhost: &str) -> String {
    let (scheme, place) = SCHEMES
        .iter()
        .find_map(|(link, scheme)| Some((*scheme, address.strip_prefix(link)?)))
        .unwrap_or(("amqp://", address));
    let is_unix = scheme == "amqp+unix:";
    let place =
        if is_unix { place.split('/').map(encoded).collect::<Vec<_>>().join("/") } else { place.to_ascii_lowercase() };
    match (vhost, is_unix) {
        ("/", _) => format!("{scheme}{place}"),
        (_, true) => format!("{scheme}{place}?vhost={}", encoded(vhost)),
        (_, false) => format!("{scheme}{place}/{}", encoded(vhost)),
    }
}

#[cfg(test)]
mod tests {
    use super::{own_names, peer, short_name, with_login};
    use crate::url::Url;

    #[test]
    fn the_same_broker_has_the_same_name() {
        for (address, expect, listed) in [
            ("amqp://Host:7", "amqp://host:7", "host:7"),
            ("amqp://user:secret@host", "amqp://host:5672", "host:5672"),
            ("amqp://host/%2F", "amqp://host:5672", "host:5672"),
            ("amqp://host/shop%2Fa", "amqp://host:5672/shop%2Fa", "amqp://host:5672/shop%2Fa"),
            ("amqps://host?cacertfile=x", "amqps://host:5671", "amqps://host:5671"),
            ("amqp+rdma://host?via=tcp", "amqp+rdma://host:5672", "amqp+rdma://host:5672"),
            ("amqp+rsocket://host", "amqp+rsocket://host:5672", "amqp+rsocket://host:5672"),
            ("amqp+unix:/run/A%20b.sock", "amqp+unix:/run/A%20b.sock", "amqp+unix:/run/A%20b.sock"),
            ("amqp+unix://a:b@/s?vhost=v", "amqp+unix:/s?vhost=v", "amqp+unix:/s?vhost=v"),
        ] {
            let url = Url::parse(address).expect("an address");
            let name = peer(&url);
            assert_eq!((&*name, short_name(&name)), (expect, listed));
            let login = Url::parse("amqp://me%40:p%3Aw@x").expect("an address");
            let again = Url::parse(&with_login(&name, &login)).expect("still an address");
            assert_eq!((peer(&again), &*again.user, &*again.password), (name, "me@", "p:w"));
        }
    }

    #[test]
    fn whom_an_address_trusts_vouches_for_peers() {
        let whose = Url::parse("amqps://a:b@h?cacertfile=/c a.pem").expect("an address");
        let again = with_login("amqps://peer:5671/shop", &whose);
        assert_eq!(again, "amqps://a:b@peer:5671/shop?cacertfile=%2Fc%20a.pem");
        assert_eq!(Url::parse(&again).expect("an address").tls.ca, whose.tls.ca);
        assert_eq!(with_login("amqp://peer:5672", &whose), "amqp://a:b@peer:5672");
    }

    #[test]
    fn a_broker_knows_its_own_addresses() {
        let listeners = ["0.0.0.0:1", "tls://10.0.0.1:2", "unix:/s"].map(str::to_owned);
        let names = own_names(&listeners, "v");
        for name in ["amqp://127.0.0.1:1/v", "amqp://localhost:1/v", "amqps://10.0.0.1:2/v", "amqp+unix:/s?vhost=v"] {
            assert!(names.iter().any(|own| **own == *name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|own| **own == *"amqps://localhost:2/v"));
    }
}
