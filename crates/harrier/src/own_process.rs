//! Addresses within this process: a link from one virtual host of the broker to another, or from one of its queues to another.
//!
//! Enters: a user who has proved itself, and a virtual host.  Leaves: the address that a link dials, and its connection.
//! Owns:   the notation, which no operator sees.

use client::Url;
use client::peer::encoded;
use federation::LinkLogin;
use shard::{AdminHandle, DialError, DialProgress, DialedLink};
use std::sync::{Arc, OnceLock};

/// A prefix that no address of a client has.
const SCHEME: &str = "in-process:";
/// What the connection is called.
const LABEL: &str = "link within the broker";

/// The address of this broker itself for a user, and a virtual host of it.
pub fn address(user: &str, vhost: &str) -> String {
    format!("{SCHEME}{}/{}", encoded(user), encoded(vhost))
}

/// The broker of this process, once it runs. Clones are handles on the same.
#[derive(Clone, Default)]
pub struct OwnProcess(Arc<OnceLock<AdminHandle>>);

impl OwnProcess {
    /// The broker runs.
    pub fn begin(&self, broker: AdminHandle) {
        if self.0.set(broker).is_err() {
            tracing::error!("a process has one broker");
        }
    }

    /// Connects to an address within this process. `None`: it is another one.
    pub fn dial(&self, address: &str) -> Option<Result<DialProgress, DialError>> {
        let rest = address.strip_prefix(SCHEME)?;
        Some(self.connect(rest))
    }

    fn connect(&self, rest: &str) -> Result<DialProgress, DialError> {
        let failed = |text: String| DialError { text: text.into(), is_refusal: false };
        // The notation is that of clients behind its prefix.
        let url =
            rest.split_once('/').and_then(|(user, vhost)| Url::parse(&format!("amqp://{user}@here/{vhost}")).ok());
        let Some(Url { user, vhost, .. }) = url else { return Err(failed("the address is malformed".to_owned())) };
        let connected = self.0.get().and_then(|broker| broker.connect_as(&user, LABEL));
        let link = connected.ok_or_else(|| failed("the broker does not run".to_owned()))?;
        let link = link.map_err(|error| failed(format!("no connection within the process: {error}")))?;
        let (user, vhost) = (user.into_boxed_str(), vhost.into_boxed_str());
        let login = LinkLogin { user, password: "".into(), vhost, address: "here".into(), external: true };
        Ok(DialProgress::Connected(DialedLink { link, login, bootstrap: None }))
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnProcess, address};

    #[test]
    fn an_address_within_the_process_is_told_from_others_and_needs_a_broker() {
        let own = OwnProcess::default();
        assert!(own.dial("amqp://host").is_none());
        assert_eq!(address("a/b@", "v 1"), "in-process:a%2Fb%40/v%201");
        let why = own.dial(&address("a/b@", "v 1")).expect("it is one").err().expect("there is no broker");
        assert_eq!(&*why.text, "the broker does not run");
    }
}
