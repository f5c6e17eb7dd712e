//! Dials: connections to other brokers that links ask for, and what becomes of them.

use crate::link_id::FederationLinkId;
use std::any::Any;
use std::collections::VecDeque;

/// A connection that a link asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DialRequest {
    /// The link, which gets the outcome: see [`Shard::on_dial_outcome`](crate::Shard::on_dial_outcome).
    pub link: FederationLinkId,
    /// Tells the requests of one link apart.
    pub serial: u64,
    /// The address, as clients write it.
    pub url: Box<str>,
}

/// A link to another broker that is connected.
pub struct DialedLink {
    pub link: Box<dyn link::Link>,
    pub login: federation::LinkLogin,
    /// Must outlive the handshake: the TCP bootstrap connection that gave the token.
    pub bootstrap: Option<Box<dyn Any + Send>>,
}

/// How far a dial came on the dialer's thread.
pub enum DialProgress {
    /// A connected link, whose descriptor reports readiness in both directions.
    Connected(DialedLink),
    /// An RDMA address: the shard opens the connection itself, over a port of its own.
    Rdma(Box<RdmaDial>),
}

/// An RDMA connection that a shard is to open.
pub struct RdmaDial {
    /// The card that leads to the other broker, and its address.
    pub way: verbs::device::ResolvedRoute,
    /// The token to present.
    pub token: Option<verbs::RdmaToken>,
    pub login: federation::LinkLogin,
    /// See [`DialedLink::bootstrap`].
    pub bootstrap: Option<Box<dyn Any + Send>>,
    /// What to try if the connection fails.
    pub fallback: Option<DialFallback>,
}

/// Opens another connection, on another thread, instead of one that failed: takes the reason and the callback.
pub type DialFallback = Box<dyn FnOnce(&str, DialCallback) + Send>;

/// Receives the outcome of a dial.
pub type DialCallback = Box<dyn FnOnce(Result<DialProgress, DialError>) + Send>;

/// Why a dial failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DialError {
    pub text: Box<str>,
    /// Another try soon would fail as well.
    pub is_refusal: bool,
}

/// The dials that nobody has picked up yet.
#[derive(Default)]
pub(crate) struct DialQueue {
    serial: u64,
    requests: VecDeque<DialRequest>,
}

impl DialQueue {
    /// Queues a dial. Returns its serial, by which the link recognizes the outcome.
    pub fn request(&mut self, link: FederationLinkId, url: &str) -> u64 {
        self.serial += 1;
        self.requests.push_back(DialRequest { link, serial: self.serial, url: url.into() });
        self.serial
    }

    pub fn next(&mut self) -> Option<DialRequest> {
        self.requests.pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}
