//! The address of a broker on the command line: qpid-route's `user/password@host:port`, or a client address.
//!
//! Errors and listings never show the password.

use crate::command_line::LinkTransport;
use client::{Url, peer};

#[derive(Clone, Debug)]
pub struct BrokerAddress {
    /// The client address, with its password.
    pub text: String,
    /// The parsed address.
    pub url: Url,
}

impl BrokerAddress {
    /// Parses an address of either notation.
    ///
    /// # Errors
    /// It is not an address.
    pub fn read(text: &str, transport: LinkTransport) -> Result<Self, String> {
        if text.contains("://") || text.starts_with("amqp+unix:") {
            return BrokerAddress::of(text.to_owned());
        }
        // A password may contain an @, a host may not; qpid-route's login is user/password.
        let (login, place) = match text.rsplit_once('@') {
            None => (String::new(), text),
            Some((login, place)) => {
                let (user, password) = login.split_once(['/', ':']).unwrap_or((login, ""));
                (format!("{}:{}@", peer::encoded(user), peer::encoded(password)), place)
            }
        };
        if place.is_empty() {
            return Err("an address names a host".to_owned());
        }
        // A leading slash is the path of a socket, whatever the transport.
        let transport = if place.starts_with('/') { LinkTransport::Unix } else { transport };
        BrokerAddress::of(match transport {
            LinkTransport::Tcp => format!("amqp://{login}{place}"),
            LinkTransport::Tls => format!("amqps://{login}{place}"),
            LinkTransport::Rdma => format!("amqp+rdma://{login}{place}"),
            LinkTransport::Unix => format!("amqp+unix://{login}{place}"),
        })
    }

    /// Parses a client address.
    ///
    /// # Errors
    /// It is not one.
    pub fn of(text: String) -> Result<Self, String> {
        // Hides the password.
        let url = Url::parse(&text).map_err(|why| why.to_string().replace(&format!("'{text}'"), "the address"))?;
        Ok(BrokerAddress { text, url })
    }

    /// The peer name: the address without its login.
    pub fn peer(&self) -> String {
        peer::peer(&self.url)
    }

    /// The peer name for a listing.
    pub fn short_name(&self) -> String {
        peer::short_name(&self.peer()).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokerAddress, LinkTransport};

    #[test]
    fn both_notations_are_understood() {
        for (text, transport, expect) in [
            ("host", LinkTransport::Tcp, "guest guest amqp://host:5672"),
            ("host:7", LinkTransport::Tls, "guest guest amqps://host:7"),
            ("user/p@ss@host:7", LinkTransport::Tcp, "user p@ss amqp://host:7"),
            ("user:pass@host", LinkTransport::Rdma, "user pass amqp+rdma://host:5672"),
            ("u/a%b/c@host", LinkTransport::Tcp, "u a%b/c amqp://host:5672"),
            ("u/p@/run/h.sock", LinkTransport::Unix, "u p amqp+unix:/run/h.sock"),
            ("/run/h.sock", LinkTransport::Tcp, "guest guest amqp+unix:/run/h.sock"),
            ("[::1]:7", LinkTransport::Tcp, "guest guest amqp://[::1]:7"),
            ("amqps://a:b@h/shop", LinkTransport::Rdma, "a b amqps://h:5671/shop"),
            ("amqp+unix:/s", LinkTransport::Tcp, "guest guest amqp+unix:/s"),
        ] {
            let place = BrokerAddress::read(text, transport).expect("an address");
            assert_eq!(format!("{} {} {}", place.url.user, place.url.password, place.peer()), expect);
        }
    }

    #[test]
    fn what_is_no_address_is_told_without_its_password() {
        for (text, expect) in [
            ("", "an address names a host"),
            ("a/secret@", "an address names a host"),
            ("a/secret@h:port", "the address: 'port' is no port"),
            ("http://a:secret@h", "the address: expected amqp://, amqps://, amqp+rdma:// or amqp+unix:"),
        ] {
            assert_eq!(BrokerAddress::read(text, LinkTransport::Tcp).map(|_| ()), Err(expect.to_owned()));
        }
    }
}
