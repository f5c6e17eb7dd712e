//! One end of a connection: a link, and what is known of its readiness.
//!
//! Enters: edges.  Leaves: whether a call is worth making.
//! Owns:   the link.
//! Never:  calls it by itself.

use link::Link;

/// A link with its edges: each flag stays up until the link says that there is nothing more to be had.
pub(crate) struct End {
    pub link: Box<dyn Link>,
    /// Something may be received.
    pub readable: bool,
    /// Something may be sent.
    pub writable: bool,
    /// The peer has closed: to be read until its end, for which no further edge comes.
    pub closed: bool,
}

impl End {
    /// One that may be ready for anything.
    pub fn new(link: Box<dyn Link>) -> Self {
        End { link, readable: true, writable: true, closed: false }
    }

    /// An edge came.
    pub fn edge(&mut self, readable: bool, writable: bool, closed: bool) {
        self.readable |= readable || closed;
        self.writable |= writable;
        self.closed |= closed;
    }
}
