//! One end of a proxied connection: a link and its readiness.

use link::Link;

/// A link and its edges. Each flag stays set until a call on the link returns that there is nothing more to do.
pub(crate) struct Endpoint {
    pub link: Box<dyn Link>,
    /// Something may be received.
    pub readable: bool,
    /// Something may be sent.
    pub writable: bool,
    /// The peer has closed its sending half: the link is read to its end, for which no further edge comes.
    pub closed: bool,
}

impl Endpoint {
    /// A new link is tried for both directions.
    pub fn new(link: Box<dyn Link>) -> Self {
        Endpoint { link, readable: true, writable: true, closed: false }
    }

    pub fn on_ready(&mut self, readable: bool, writable: bool, closed: bool) {
        self.readable |= readable || closed;
        self.writable |= writable;
        self.closed |= closed;
    }
}
