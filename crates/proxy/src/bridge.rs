//! One connection: a client's link, the link upstream, and a flow in each direction.
//!
//! Enters: edges, a link upstream, time.  Leaves: bytes at both ends; in the end, the reason for it.
//! Owns:   both links.
//! Never:  lets one end stay when the other has broken.

use crate::counts::Totals;
use crate::dialler::Shown;
use crate::end::End;
use crate::flow::{Cut, Flow, State};
use crate::limits::PARTING;
use link::{AbortReason, Link, LinkError};
use slab::Pool;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use verbs::LinkId;

/// Why a connection is over.
#[derive(Debug)]
pub(crate) enum Reason {
    /// Both ends have said all that they had to say.
    Closed,
    /// The client's link broke.
    Client(LinkError),
    /// The link upstream broke.
    Upstream(LinkError),
    /// There never was a link upstream.
    Unreachable(String),
    /// One end had closed, and the other did not hear of it.
    Parted,
    /// The proxy stops, and its time is over.
    Stopped,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Closed => f.write_str("closed"),
            Reason::Client(error) => write!(f, "the client broke off: {error}"),
            Reason::Upstream(error) => write!(f, "the broker broke off: {error}"),
            Reason::Unreachable(why) => write!(f, "the broker cannot be reached: {why}"),
            Reason::Parted => f.write_str("one end had closed, and the other went on"),
            Reason::Stopped => f.write_str("the proxy stops"),
        }
    }
}

/// What a turn of a connection came to.
pub(crate) enum Turn {
    /// It goes on, when there is an edge; or, if there is more, at once.
    Going { more: bool },
    /// It is over.
    Over(Reason),
}

/// The far side of a connection.
pub(crate) enum Far {
    /// A dialler is on its way. The flag tells it that nobody waits any more.
    Dialling(Arc<AtomicBool>),
    /// A link that does not stand yet; it says so by its first edge.
    Asking(End),
    /// It stands.
    Joined(End),
}

pub(crate) struct Bridge {
    client: End,
    far: Far,
    to_upstream: Flow,
    to_client: Flow,
    /// The number by which a dialler's answer finds it, and not a later one in its place.
    pub ticket: u64,
    /// The link upstream, where that is one of a port.
    pub link_id: Option<LinkId>,
    /// The link upstream has a token to show, and what that was given over lasts until it has.
    shown: Option<Shown>,
    pub began: Instant,
    /// When it is over, come what may.
    pub deadline: Option<Instant>,
    /// It waits for its turn already.
    pub is_ready: bool,
}

impl Bridge {
    pub fn new(client: Box<dyn Link>, far: Far, ticket: u64, now: Instant, deadline: Instant) -> Self {
        Bridge {
            client: End::new(client),
            far,
            to_upstream: Flow::new(),
            to_client: Flow::new(),
            ticket,
            link_id: None,
            shown: None,
            began: now,
            deadline: Some(deadline),
            is_ready: false,
        }
    }

    /// The client's address.
    pub fn client(&self) -> &str {
        &self.client.link.peer().address
    }

    /// Bytes to the broker, and from it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.to_upstream.bytes, self.to_client.bytes)
    }

    /// Bytes that were read and not sent, in both directions.
    pub fn waiting_bytes(&self) -> usize {
        self.to_upstream.waiting_bytes() + self.to_client.waiting_bytes()
    }

    /// The way upstream stands.
    pub fn join(&mut self, link: Box<dyn Link>) {
        self.far = Far::Joined(End::new(link));
        self.deadline = None;
    }

    /// A link upstream was begun, which shows a token.
    pub fn ask(&mut self, end: End, id: LinkId, shown: Shown) {
        self.far = Far::Asking(end);
        self.link_id = Some(id);
        self.shown = Some(shown);
    }

    /// An edge of the client's link.
    pub fn client_edge(&mut self, readable: bool, writable: bool, closed: bool) {
        self.client.edge(readable, writable, closed);
    }

    /// An edge of the link upstream.
    pub fn upstream_edge(&mut self, readable: bool, writable: bool, closed: bool) {
        match &mut self.far {
            Far::Dialling(_) => {}
            Far::Asking(end) | Far::Joined(end) => end.edge(readable, writable, closed),
        }
    }

    /// What has become of a link that did not stand, now that there was an edge.
    fn asked(&mut self) -> Result<(), LinkError> {
        match std::mem::replace(&mut self.far, Far::Dialling(Arc::default())) {
            Far::Asking(mut end) => {
                // With no room for bytes it says whether it has failed, and nothing else.
                let outcome = end.link.receive(&mut [], &mut []);
                self.far = Far::Joined(end);
                self.deadline = None;
                self.shown = None;
                outcome.map(drop)
            }
            far => {
                self.far = far;
                Ok(())
            }
        }
    }

    /// Moves what can be moved.
    pub fn run(&mut self, now: Instant, pool: &Pool, totals: &mut Totals) -> Turn {
        if let Far::Asking(end) = &self.far
            && (end.readable || end.writable)
            && let Err(error) = self.asked()
        {
            return Turn::Over(Reason::Unreachable(error.to_string()));
        }
        let Far::Joined(upstream) = &mut self.far else { return Turn::Going { more: false } };
        // The broker's word first: it may be the last, and say why the client's next bytes find nobody.
        let back = self.to_client.run(upstream, &mut self.client, pool, totals);
        let there = self.to_upstream.run(&mut self.client, upstream, pool, totals);
        let mut more = match (back, there) {
            (Ok(back), Ok(there)) => back || there,
            (Err(Cut::Source(error)), _) | (_, Err(Cut::Sink(error))) => return Turn::Over(Reason::Upstream(error)),
            (Err(Cut::Sink(error)), _) | (_, Err(Cut::Source(error))) => return Turn::Over(Reason::Client(error)),
        };
        // What one flow has read may have made room for the other, without an edge: a handshake that is over.
        more |= self.to_client.waiting_bytes() > 0 && self.client.writable;
        more |= self.to_upstream.waiting_bytes() > 0 && upstream.writable;
        match (self.to_upstream.state(), self.to_client.state()) {
            (State::Done, State::Done) if !self.client.link.has_pending_output() && !upstream.link.has_pending_output() => {
                return Turn::Over(Reason::Closed);
            }
            (State::Done, State::Done | State::Dropping) | (State::Dropping, State::Done) => {
                self.deadline.get_or_insert(now + PARTING);
            }
            _ => {}
        }
        Turn::Going { more }
    }

    /// What it comes to that the deadline has passed.
    pub fn overdue(&self) -> Reason {
        match &self.far {
            Far::Dialling(_) | Far::Asking(_) => Reason::Unreachable("no answer in time".to_owned()),
            Far::Joined(_) => Reason::Parted,
        }
    }

    /// Ends both links: in order if all was said, and else at once, so that each peer learns what became of the other.
    pub fn end(mut self, reason: &Reason, registry: &mio::Registry) {
        let why = match reason {
            Reason::Closed => None,
            Reason::Stopped => Some(AbortReason::Shutdown),
            _ => Some(AbortReason::Broken),
        };
        let far = match &mut self.far {
            Far::Dialling(cancelled) => {
                cancelled.store(true, Ordering::Relaxed);
                None
            }
            Far::Asking(end) | Far::Joined(end) => Some(end),
        };
        for end in [Some(&mut self.client), far].into_iter().flatten() {
            // The descriptor goes with the link, and the registration with the descriptor.
            let _gone = end.link.deregister(registry);
            if let Some(why) = why {
                end.link.abort(why);
            }
        }
    }
}
