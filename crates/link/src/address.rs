//! Addresses: where a broker listens and where a client connects. Parsing looks no name up.

use crate::limits::ADDRESS_BYTES_MAX;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The default port of AMQP over TLS.
const TLS_PORT: u16 = 5671;
/// The default port of AMQP over RDMA.
const RDMA_PORT: u16 = 5672;

/// Why the listeners and connections of this crate refuse an RDMA address.
pub(crate) const NEEDS_RDMA_DEVICE: &str = "an RDMA address needs an RDMA device, and none was given";

/// An address to listen on or to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `127.0.0.1:5672`, `[::1]:5672`, `broker.example:5672`, each optionally with the prefix `tcp://`.
    Tcp {
        /// A host name or an IP address, without brackets.
        host: String,
        /// The port; 0 makes the system choose one to listen on.
        port: u16,
    },
    /// `tls://broker.example:5671`, also `amqps://`; the port may be left out.
    Tls {
        /// A host name or an IP address, without brackets.
        host: String,
        /// The port; 0 makes the system choose one to listen on.
        port: u16,
    },
    /// `amqp+rdma://10.0.0.1:5672`, also `rdma://`; the port may be left out. The crate `verbs` makes its connections,
    /// on RDMA devices.
    Rdma {
        /// A host name or an IP address, without brackets.
        host: String,
        /// The port, in the connection manager's port space for TCP (`RDMA_PS_TCP`).
        port: u16,
    },
    /// `amqp+rsocket://10.0.0.1:5672`: an address of an RDMA device, over librdmacm's streams (the crate `rsocket`).
    Rsocket {
        /// A host name or an IP address, without brackets.
        host: String,
        /// The port; 0 makes the system choose one to listen on.
        port: u16,
    },
    /// `unix:/run/harrier.sock`, `unix:///run/harrier.sock` or a path that begins with `/`.
    Unix(PathBuf),
}

/// Why a text is not an address.
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
        if let Some(rest) = text.strip_prefix("amqp+rsocket://") {
            let plain = format!("tcp://{rest}").parse();
            return match plain.map_err(|error: AddressError| fault(error.why))? {
                Address::Tcp { host, port } => Ok(Address::Rsocket { host, port }),
                _ => Err(fault("an rsocket has a host and a port")),
            };
        }
        let secret = text.strip_prefix("tls://").or_else(|| text.strip_prefix("amqps://"));
        let remote = text.strip_prefix("amqp+rdma://").or_else(|| text.strip_prefix("rdma://"));
        let rest = secret.or(remote).unwrap_or_else(|| text.strip_prefix("tcp://").unwrap_or(text));
        let usual_port = match (secret, remote) {
            (Some(_), _) => Some(TLS_PORT),
            (_, Some(_)) => Some(RDMA_PORT),
            _ => None,
        };
        let with_port;
        let has_port = rest.rsplit_once(':').is_some_and(|(host, _)| !rest.starts_with('[') || host.ends_with(']'));
        let rest = match usual_port {
            Some(port) if !has_port => {
                with_port = format!("{rest}:{port}");
                &*with_port
            }
            _ => rest,
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(|| fault("the bracket is not closed"))?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| fault("there is no IPv6 address in the brackets"))?;
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
        Ok(match (secret, remote) {
            (Some(_), _) => Address::Tls { host, port },
            (_, Some(_)) => Address::Rdma { host, port },
            _ => Address::Tcp { host, port },
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Tls { host, port } if host.contains(':') => write!(f, "tls://[{host}]:{port}"),
            Address::Tls { host, port } => write!(f, "tls://{host}:{port}"),
            Address::Rdma { host, port } if host.contains(':') => write!(f, "amqp+rdma://[{host}]:{port}"),
            Address::Rdma { host, port } => write!(f, "amqp+rdma://{host}:{port}"),
            Address::Rsocket { host, port } if host.contains(':') => write!(f, "amqp+rsocket://[{host}]:{port}"),
            Address::Rsocket { host, port } => write!(f, "amqp+rsocket://{host}:{port}"),
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
            ("amqp+rdma://10.0.0.1:1", "amqp+rdma://10.0.0.1:1"),
            ("rdma://broker", "amqp+rdma://broker:5672"),
            ("amqp+rdma://[fe80::1]", "amqp+rdma://[fe80::1]:5672"),
            ("amqp+rdma://", "! the host is missing"),
            ("amqp+rdma://host:x", "! a port is a number from 0 to 65535"),
            ("tls://", "! the host is missing"),
            ("tls://a b", "! a host name has neither spaces nor slashes"),
            ("unix:/run/h.sock", "unix:/run/h.sock"),
            ("unix:///run/h.sock", "unix:/run/h.sock"),
            ("/run/h.sock", "unix:/run/h.sock"),
            ("amqp+rsocket://10.0.0.1:5672", "amqp+rsocket://10.0.0.1:5672"),
            ("amqp+rsocket://[fe80::1]:1", "amqp+rsocket://[fe80::1]:1"),
            ("amqp+rsocket://host", "! the port is missing (host:port, or unix:/path)"),
            ("unix:", "! a Unix socket needs a path"),
            ("5672", "! the port is missing (host:port, or unix:/path)"),
            (":5672", "! the host is missing"),
            ("::1:5672", "! an IPv6 address needs brackets"),
            ("[::1", "! the bracket is not closed"),
            ("[::1]", "! the port is missing"),
            ("[host]:1", "! there is no IPv6 address in the brackets"),
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
