//! A connection to another broker that was asked for over a port of the shard and does not stand yet.
//!
//! Enters: a link that nobody uses, edges of it.  Leaves: what a tie needs, or why there is no connection.
//! Owns:   what has to last until then: the login, the connection that gave a token, what else would do.
//! Never:  waits; how long it may take is the port's to know.

use crate::federation_links::{Asked, Dial, DialError, Dialled, Otherwise, Tell};
use link::{Link, ReceiveOutcome};
use std::io;
use verbs::device::AnyDevice;
use verbs::{LinkId, ReadinessEdges, VerbsLink};

pub(crate) struct Asking {
    pub dial: Dial,
    pub link: VerbsLink<AnyDevice>,
    login: federation::Login,
    first: Option<Box<dyn std::any::Any + Send>>,
    unwanted: Unwanted,
}

/// Whom it concerns that there is no connection, and what else would do.
pub(crate) struct Unwanted {
    tell: Tell,
    otherwise: Option<Otherwise>,
}

impl Unwanted {
    /// It could not be had.
    pub fn tell(self, why: &str) {
        match self.otherwise {
            Some(otherwise) => otherwise(why, self.tell),
            None => (self.tell)(Err(DialError { text: why.into(), is_refusal: false })),
        }
    }
}

impl Asking {
    /// `begin` asks for the connection.
    ///
    /// # Errors
    /// That failed at once, and who must hear of it.
    pub fn begin(
        dial: Dial,
        asked: Asked,
        tell: Tell,
        begin: impl FnOnce(verbs::device::ResolvedRoute, Option<verbs::RdmaToken>) -> io::Result<VerbsLink<AnyDevice>>,
    ) -> Result<Self, (io::Error, Unwanted)> {
        let Asked { way, token, login, first, otherwise } = asked;
        let unwanted = Unwanted { tell, otherwise };
        match begin(way, token) {
            Ok(link) => {
                // A broker that is short of memory reads nothing until it has some again; its link waits for that.
                link.disable_fetch_deadline();
                Ok(Asking { dial, link, login, first, unwanted })
            }
            Err(error) => Err((error, unwanted)),
        }
    }

    pub fn id(&self) -> LinkId {
        self.link.id()
    }

    /// What these edges say of it: that it stands, or why it does not; none: it is still being made.
    pub fn heard(&mut self, edges: ReadinessEdges) -> Option<io::Result<()>> {
        // A connection that could not be had says so here; one that stands has nothing yet.
        match self.link.receive(&mut [], &mut []) {
            Ok(ReceiveOutcome::Closed) => {
                Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, "RDMA: the other broker is gone")))
            }
            Ok(_) => edges.writable.then_some(Ok(())),
            Err(error) => Some(Err(io::Error::from(error))),
        }
    }

    /// It stands.
    pub fn stands(self) -> (Dial, Dialled) {
        (self.dial, Dialled { link: Box::new(self.link), login: self.login, first: self.first })
    }

    /// It does not, and will not.
    pub fn failed(self, why: &str) {
        self.unwanted.tell(why);
    }
}
