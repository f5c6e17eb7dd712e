//! How a link and its routes stand.
//!
//! Enters: what has happened.  Leaves: what an operator is shown.
//! Owns:   the states that a link can be in, each of which says why nothing flows, if nothing does.
//! Never:  changes anything.

use crate::{BrokerIdentity, LinkSpec, RouteSpec};
use std::time::Duration;

/// What a link is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// A connection is being made, and what the routes need at the other end.
    Connecting,
    /// Messages flow as they come.
    Running,
    /// The other broker has said that it takes no publishes (`connection.blocked`), or does not read.
    BlockedThere {
        /// In its words.
        reason: Box<str>,
    },
    /// This broker takes nothing at the moment: its memory is short, or a queue is full.
    BlockedHere,
    /// The connection failed; another is tried soon.
    BackingOff {
        /// In so long.
        next_in: Duration,
    },
    /// The other broker refuses the login, or the routes make no sense there: another try is made, but not soon.
    Refused {
        /// In so long.
        next_in: Duration,
    },
}

impl LinkState {
    /// In one or two words.
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

/// A link as it stands.
#[derive(Clone, Debug)]
pub struct LinkStatus {
    /// What it is to be.
    pub spec: LinkSpec,
    /// What it is doing.
    pub state: LinkState,
    /// For how long.
    pub state_for: Duration,
    /// Who the other broker says it is, once it has.
    pub peer: Option<BrokerIdentity>,
    /// What the connection goes over ("tcp", "tls", "unix", "rdma", "rsocket"); while there is none, empty.
    pub transport: &'static str,
    /// Connections made so far.
    pub connections: u64,
    /// The last thing that went wrong, in words.
    pub last_error: Option<Box<str>>,
    /// Its routes.
    pub routes: Vec<RouteStatus>,
}

/// A route as it stands.
#[derive(Clone, Debug)]
pub struct RouteStatus {
    /// What it is to be.
    pub spec: RouteSpec,
    /// Everything that it needs at both ends is there, and messages flow as they come.
    pub is_running: bool,
    /// Why it does not, if the fault is its own.
    pub error: Option<Box<str>>,
    /// Messages handed over since this broker began.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Of them, those that came again.
    pub redelivered: u64,
    /// Messages dropped because they had been here already.
    pub dropped: u64,
    /// Messages that are not acknowledged yet.
    pub unacknowledged: u64,
    /// Messages that wait at the source, as it said last.
    pub lag: Option<u64>,
    /// Of a dynamic route: bindings that the other broker has been asked for.
    pub bindings: u64,
}
