//! An RDMA connection to another broker that is being established, on a port of the shard. The port limits how long
//! that may take.

use crate::link_dial::{DialCallback, DialError, DialFallback, DialRequest, DialedLink, RdmaDial};
use link::{Link, ReceiveOutcome};
use std::io;
use verbs::device::AnyDevice;
use verbs::{LinkId, ReadinessEdges, VerbsLink};

/// A link that is being established, with what is needed once it is, and what happens if it fails.
pub(crate) struct PendingDial {
    pub dial: DialRequest,
    pub link: VerbsLink<AnyDevice>,
    login: federation::LinkLogin,
    bootstrap: Option<Box<dyn std::any::Any + Send>>,
    failure_handler: DialFailureHandler,
}

/// What happens if there is no connection: another transport is tried, or the dial fails.
pub(crate) struct DialFailureHandler {
    callback: DialCallback,
    fallback: Option<DialFallback>,
}

impl DialFailureHandler {
    pub fn on_failure(self, why: &str) {
        match self.fallback {
            Some(fallback) => fallback(why, self.callback),
            None => (self.callback)(Err(DialError { text: why.into(), is_refusal: false })),
        }
    }
}

impl PendingDial {
    /// Starts a dial: `connect` requests the connection.
    ///
    /// # Errors
    /// That failed at once; the handler must be called.
    pub fn start(
        dial: DialRequest,
        rdma: RdmaDial,
        callback: DialCallback,
        connect: impl FnOnce(verbs::device::ResolvedRoute, Option<verbs::RdmaToken>) -> io::Result<VerbsLink<AnyDevice>>,
    ) -> Result<Self, (io::Error, DialFailureHandler)> {
        let RdmaDial { way, token, login, bootstrap, fallback } = rdma;
        let failure_handler = DialFailureHandler { callback, fallback };
        match connect(way, token) {
            Ok(link) => {
                // A broker that is short of memory reads nothing until it has some again: the link waits for that.
                link.disable_fetch_deadline();
                Ok(PendingDial { dial, link, login, bootstrap, failure_handler })
            }
            Err(error) => Err((error, failure_handler)),
        }
    }

    pub fn id(&self) -> LinkId {
        self.link.id()
    }

    /// Whether the connection is established, or why it failed; `None` while neither is known.
    pub fn poll(&mut self, edges: ReadinessEdges) -> Option<io::Result<()>> {
        // A connection that failed returns its error here; an established one has nothing to receive yet.
        match self.link.receive(&mut [], &mut []) {
            Ok(ReceiveOutcome::Closed) => {
                Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, "RDMA: the other broker is gone")))
            }
            Ok(_) => edges.writable.then_some(Ok(())),
            Err(error) => Some(Err(io::Error::from(error))),
        }
    }

    /// The established link, with what belongs to it.
    pub fn complete(self) -> (DialRequest, DialedLink) {
        (self.dial, DialedLink { link: Box::new(self.link), login: self.login, bootstrap: self.bootstrap })
    }

    pub fn fail(self, why: &str) {
        self.failure_handler.on_failure(why);
    }
}
