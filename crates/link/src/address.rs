//! Addresses: where a broker listens and where a client dials.
//!
//! Enters: text of an operator.  Leaves: a TCP host and port, with or without TLS, or the path of a Unix socket.
//! Owns:   the forms an address may take.
//! Never:  looks a name up.

use crate::limits::ADDRESS_BYTES_MAX;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port of AMQP over TLS, where none is written.
const TLS_PORT: u16 = 5671;

/// An address of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `127.0.0.1:5672`, `[::1]:5672`, `broker.example:5672`, each also behind `tcp://`.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port; 0 lets the system choose one to listen on.
        port: u16,
    },
    /// `tls://broker.example:5671`, also `amqps://`; the port may be left out.
    Tls {
        /// A name or an address, without brackets.
        host: String,
        /// The port; 0 lets the system choose one to listen on.
        port: u16,
    },
    /// `unix:/run/harrier.sock`, `unix:///run/harrier.sock` or a path that begins with `/`.
    Unix(PathBuf),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    why: &'static str,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no address: {}", self.text, self.why)
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let fault = |why| AddressError { text: text.chars().take(80).collect(), why };
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(fault("it is too long"));
        }
        let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:"));
        if let Some(path) = path.or(text.starts_with('/').then_some(text)) {
            if path.is_empty() || path.contains('\0') {
                return Err(fault("a Unix socket needs a path"));
            }
            return Ok(Address::Unix(path.into()));
        }
        let secret = text.strip_prefix("tls://").or_else(|| text.strip_prefix("amqps://"));
        let rest = secret.unwrap_or_else(|| text.strip_prefix("tcp://").unwrap_or(text));
        let with_port;
        let has_port = rest.rsplit_once(':').is_some_and(|(host, _)| !rest.starts_with('[') || host.ends_with(']'));
        let rest = if secret.is_some() && !has_port {
            with_port = format!("{rest}:{TLS_PORT}");
            &*with_port
        } else {
            rest
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(|| fault("the bracket is not closed"))?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| fault("no IPv6 address stands in the brackets"))?;
                (host, port.strip_prefix(':').ok_or_else(|| fault("the port is missing"))?)
            }
            None => rest.rsplit_once(':').ok_or_else(|| fault("the port is missing (host:port, or unix:/path)"))?,
        };
        if host.is_empty() {
            return Err(fault("the host is missing"));
        }
        if host.contains(':') && !rest.starts_with('[') {
            return Err(fault("an IPv6 address needs brackets"));
        }
        if host.chars().any(|letter| letter.is_whitespace() || letter == '/' || letter == '\0') {
            return Err(fault("a host name has neither spaces nor slashes"));
        }
        let port = port.parse().map_err(|_| fault("a port is a number from 0 to 65535"))?;
        let host = host.to_owned();
        Ok(if secret.is_some() { Address::Tls { host, port } } else { Address::Tcp { host, port } })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Tls { host, port } if host.contains(':') => write!(f, "tls://[{host}]:{port}"),
            Address::Tls { host, port } => write!(f, "tls://{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn what_is_an_address() {
        let cases = [
            ("127.0.0.1:5672", "127.0.0.1:5672"),
            ("tcp://localhost:0", "localhost:0"),
            ("[::1]:5672", "[::1]:5672"),
            ("tls://broker:1", "tls://broker:1"),
            ("amqps://broker", "tls://broker:5671"),
            ("tls://0.0.0.0", "tls://0.0.0.0:5671"),
            ("tls://[::1]", "tls://[::1]:5671"),
            ("amqps://[::1]:7", "tls://[::1]:7"),
            ("tls://", "! the host is missing"),
            ("tls://a b", "! a host name has neither spaces nor slashes"),
            ("unix:/run/h.sock", "unix:/run/h.sock"),
            ("unix:///run/h.sock", "unix:/run/h.sock"),
            ("/run/h.sock", "unix:/run/h.sock"),
            ("unix:", "! a Unix socket needs a path"),
            ("5672", "! the port is missing (host:port, or unix:/path)"),
            (":5672", "! the host is missing"),
            ("::1:5672", "! an IPv6 address needs brackets"),
            ("[::1", "! the bracket is not closed"),
            ("[::1]", "! the port is missing"),
            ("[host]:1", "! no IPv6 address stands in the brackets"),
            ("host:65536", "! a port is a number from 0 to 65535"),
            ("a b:1", "! a host name has neither spaces nor slashes"),
        ];
        for (text, expect) in cases {
            let got = match text.parse::<Address>() {
                Ok(address) => address.to_string(),
                Err(error) => format!("! {}", error.why),
            };
            assert_eq!(got, expect, "{text}");
        }
        assert!("x".repeat(2000).parse::<Address>().is_err());
    }
}
