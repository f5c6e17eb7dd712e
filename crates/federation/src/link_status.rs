//! The status of a link and its routes, for operators.
//!
//! Owns:   the states of a link, each of which explains why no messages flow, if none do.

use crate::{BrokerIdentity, LinkSpec, RouteSpec};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The connection, or what the routes need at the other end, is being set up.
    Connecting,
    /// Messages flow as they arrive.
    Running,
    /// The other broker accepts no publishes (`connection.blocked`), or does not read.
    BlockedThere { reason: Box<str> },
    /// This broker accepts no messages at the moment: its memory is short, or a queue is full.
    BlockedHere,
    /// The connection failed; the next try follows soon.
    BackingOff { next_in: Duration },
    /// The other broker refuses the login, or what the routes need: the next try follows much later.
    Refused { next_in: Duration },
}

impl LinkState {
    /// One or two words.
    pub const fn name(&self) -> &'static str {
        match self {
            LinkState::Connecting => "connecting",
            LinkState::Running => "running",
            LinkState::BlockedThere { .. } => "blocked there",
            LinkState::BlockedHere => "blocked here",
            LinkState::BackingOff { .. } => "backing off",
            LinkState::Refused { .. } => "refused",
        }
    }
}

#[derive(Clone, Debug)]
pub struct LinkStatus {
    pub spec: LinkSpec,
    pub state: LinkState,
    /// How long it has been in this state.
    pub state_for: Duration,
    /// The other broker, once it has identified itself.
    pub peer: Option<BrokerIdentity>,
    /// The transport of the connection ("tcp", "tls", "unix", "rdma", "rsocket"); empty while there is none.
    pub transport: &'static str,
    /// How many connections were made.
    pub connections: u64,
    pub last_error: Option<Box<str>>,
    pub routes: Vec<RouteStatus>,
}

#[derive(Clone, Debug)]
pub struct RouteStatus {
    pub spec: RouteSpec,
    /// Both ends are set up, and messages flow as they arrive.
    pub is_running: bool,
    /// Why not, if the reason concerns this route alone.
    pub error: Option<Box<str>>,
    /// Messages forwarded since this broker started.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    pub redelivered: u64,
    /// Messages dropped as duplicates.
    pub dropped: u64,
    /// Messages that the destination refuses for good.
    pub given_up: u64,
    pub unacknowledged: u64,
    /// It has an end, and has moved all that it should.
    pub is_complete: bool,
    /// Messages that wait at the source, as of its last answer.
    pub lag: Option<u64>,
    /// How many bindings a dynamic route has requested of the source.
    pub bindings: u64,
}
