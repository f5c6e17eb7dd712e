//! Where a broker is, in the words of an operator: qpid-route's `user/password@host:port`, or an address of clients.
//!
//! Enters: a text, a transport for one that names none.  Leaves: an address of clients.
//! Owns:   the notation of qpid-route.
//! Never:  shows a password.

use super::words::Transport;
use crate::peer;
use client::Url;

/// A broker's address.
#[derive(Clone, Debug)]
pub struct Place {
    /// As clients write it, with its password.
    pub text: String,
    /// The same, understood.
    pub url: Url,
}

impl Place {
    /// Reads what an operator has written.
    ///
    /// # Errors
    /// It is no address.
    pub fn read(text: &str, transport: Transport) -> Result<Self, String> {
        if text.contains("://") || text.starts_with("amqp+unix:") {
            return Place::of(text.to_owned());
        }
        // A password may have an @ in it, a host not; the login of qpid-route is user/password.
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
        // What begins with a slash is the path of a socket, whatever else is dialled.
        let transport = if place.starts_with('/') { Transport::Unix } else { transport };
        Place::of(match transport {
            Transport::Tcp => format!("amqp://{login}{place}"),
            Transport::Tls => format!("amqps://{login}{place}"),
            Transport::Rdma => format!("amqp+rdma://{login}{place}"),
            Transport::Unix => format!("amqp+unix://{login}{place}"),
        })
    }

    /// An address of clients.
    ///
    /// # Errors
    /// It is none.
    pub fn of(text: String) -> Result<Self, String> {
        // Lest a password be seen.
        let url = Url::parse(&text).map_err(|why| why.to_string().replace(&format!("'{text}'"), "the address"))?;
        Ok(Place { text, url })
    }

    /// What the broker is called without a login.
    pub fn peer(&self) -> String {
        peer::peer(&self.url)
    }

    /// The same for a listing.
    pub fn shown(&self) -> String {
        peer::shown(&self.peer()).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Transport};

    #[test]
    fn both_notations_are_understood() {
        for (text, transport, expect) in [
            ("host", Transport::Tcp, "guest guest amqp://host:5672"),
            ("host:7", Transport::Tls, "guest guest amqps://host:7"),
            ("user/p@ss@host:7", Transport::Tcp, "user p@ss amqp://host:7"),
            ("user:pass@host", Transport::Rdma, "user pass amqp+rdma://host:5672"),
            ("u/a%b/c@host", Transport::Tcp, "u a%b/c amqp://host:5672"),
            ("u/p@/run/h.sock", Transport::Unix, "u p amqp+unix:/run/h.sock"),
            ("/run/h.sock", Transport::Tcp, "guest guest amqp+unix:/run/h.sock"),
            ("[::1]:7", Transport::Tcp, "guest guest amqp://[::1]:7"),
            ("amqps://a:b@h/shop", Transport::Rdma, "a b amqps://h:5671/shop"),
            ("amqp+unix:/s", Transport::Tcp, "guest guest amqp+unix:/s"),
        ] {
            let place = Place::read(text, transport).expect("an address");
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
            assert_eq!(Place::read(text, Transport::Tcp).map(|_| ()), Err(expect.to_owned()));
        }
    }
}
