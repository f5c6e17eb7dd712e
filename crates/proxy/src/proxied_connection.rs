//! A proxied connection: a client's link, the link upstream, and a relay in each direction.
//!
//! When one of the two links breaks, the other is ended as well.

use crate::dialler::BootstrapGuard;
use crate::endpoint::Endpoint;
use crate::limits::HALF_CLOSE_TIMEOUT;
use crate::relay::{Relay, RelayError, RelayState};
use crate::totals::ProxyTotals;
use link::{AbortReason, Link, LinkError};
use slab::Pool;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use verbs::LinkId;

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum DisconnectReason {
    /// Both ends have closed in order.
    Closed,
    /// The client's link broke.
    ClientFailed(LinkError),
    /// The link upstream broke.
    UpstreamFailed(LinkError),
    /// No link upstream could be established.
    Unreachable(String),
    /// One end has closed, and the other did not close within [`HALF_CLOSE_TIMEOUT`].
    HalfCloseTimeout,
    /// The proxy stops, and the drain timeout has passed.
    ProxyStopped,
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DisconnectReason::Closed => f.write_str("closed"),
            DisconnectReason::ClientFailed(error) => write!(f, "the client broke off: {error}"),
            DisconnectReason::UpstreamFailed(error) => write!(f, "the broker broke off: {error}"),
            DisconnectReason::Unreachable(why) => write!(f, "the broker cannot be reached: {why}"),
            DisconnectReason::HalfCloseTimeout => f.write_str("one end had closed, and the other did not"),
            DisconnectReason::ProxyStopped => f.write_str("the proxy stops"),
        }
    }
}

/// The outcome of a connection's turn.
pub(crate) enum TurnOutcome {
    /// The next turn follows the next edge; at once if there is more to do.
    Continue {
        more: bool,
    },
    Disconnect(DisconnectReason),
}

/// The state of a connection's upstream side.
pub(crate) enum UpstreamState {
    /// The dialler is at work; setting the flag cancels it.
    Dialling(Arc<AtomicBool>),
    /// The link is being established. Its first edge reports the outcome.
    Connecting(Endpoint),
    Connected(Endpoint),
}

pub(crate) struct ProxiedConnection {
    client: Endpoint,
    upstream: UpstreamState,
    to_upstream: Relay,
    to_client: Relay,
    /// Tells the outcome of its dial from that of an earlier connection in the same slot.
    pub dial_id: u64,
    /// The link upstream, if it belongs to a port.
    pub link_id: Option<LinkId>,
    /// While the link upstream has not presented its token: keeps the token's bootstrap connection open.
    bootstrap: Option<BootstrapGuard>,
    pub began: Instant,
    /// When the connection ends unless it makes progress.
    pub deadline: Option<Instant>,
    /// Whether it is queued for a turn.
    pub is_queued: bool,
}

impl ProxiedConnection {
    pub fn new(client: Box<dyn Link>, upstream: UpstreamState, dial_id: u64, now: Instant, deadline: Instant) -> Self {
        ProxiedConnection {
            client: Endpoint::new(client),
            upstream,
            to_upstream: Relay::new(),
            to_client: Relay::new(),
            dial_id,
            link_id: None,
            bootstrap: None,
            began: now,
            deadline: Some(deadline),
            is_queued: false,
        }
    }

    /// The client's address.
    pub fn client(&self) -> &str {
        &self.client.link.peer().address
    }

    /// Bytes relayed to the broker, and to the client.
    pub fn bytes(&self) -> (u64, u64) {
        (self.to_upstream.bytes, self.to_client.bytes)
    }

    /// Bytes that were read and not yet sent, in both directions.
    pub fn waiting_bytes(&self) -> usize {
        self.to_upstream.waiting_bytes() + self.to_client.waiting_bytes()
    }

    /// The dialler has connected the link upstream.
    pub fn set_connected(&mut self, link: Box<dyn Link>) {
        self.upstream = UpstreamState::Connected(Endpoint::new(link));
        self.deadline = None;
    }

    /// A link upstream that presents a token was started.
    pub fn set_connecting(&mut self, endpoint: Endpoint, id: LinkId, bootstrap: BootstrapGuard) {
        self.upstream = UpstreamState::Connecting(endpoint);
        self.link_id = Some(id);
        self.bootstrap = Some(bootstrap);
    }

    pub fn on_client_ready(&mut self, readable: bool, writable: bool, closed: bool) {
        self.client.on_ready(readable, writable, closed);
    }

    pub fn on_upstream_ready(&mut self, readable: bool, writable: bool, closed: bool) {
        match &mut self.upstream {
            UpstreamState::Dialling(_) => {}
            UpstreamState::Connecting(endpoint) | UpstreamState::Connected(endpoint) => {
                endpoint.on_ready(readable, writable, closed)
            }
        }
    }

    /// Checks whether the link upstream was established, after its first edge.
    fn finish_connecting(&mut self) -> Result<(), LinkError> {
        match std::mem::replace(&mut self.upstream, UpstreamState::Dialling(Arc::default())) {
            UpstreamState::Connecting(mut endpoint) => {
                // A read into no buffer reports a failure and nothing else.
                let outcome = endpoint.link.receive(&mut [], &mut []);
                self.upstream = UpstreamState::Connected(endpoint);
                self.deadline = None;
                self.bootstrap = None;
                outcome.map(drop)
            }
            other => {
                self.upstream = other;
                Ok(())
            }
        }
    }

    /// Relays what can be relayed now.
    pub fn run(&mut self, now: Instant, pool: &Pool, totals: &mut ProxyTotals) -> TurnOutcome {
        if let UpstreamState::Connecting(endpoint) = &self.upstream
            && (endpoint.readable || endpoint.writable)
            && let Err(error) = self.finish_connecting()
        {
            return TurnOutcome::Disconnect(DisconnectReason::Unreachable(error.to_string()));
        }
        let UpstreamState::Connected(upstream) = &mut self.upstream else {
            return TurnOutcome::Continue { more: false };
        };
        // The broker's bytes first: its last ones may explain why the client's next bytes cannot be sent.
        let back = self.to_client.run(upstream, &mut self.client, pool, totals);
        let there = self.to_upstream.run(&mut self.client, upstream, pool, totals);
        let mut more = match (back, there) {
            (Ok(back), Ok(there)) => back || there,
            (Err(RelayError::Source(error)), _) | (_, Err(RelayError::Sink(error))) => {
                return TurnOutcome::Disconnect(DisconnectReason::UpstreamFailed(error));
            }
            (Err(RelayError::Sink(error)), _) | (_, Err(RelayError::Source(error))) => {
                return TurnOutcome::Disconnect(DisconnectReason::ClientFailed(error));
            }
        };
        // A read may have completed a TLS handshake, after which the other direction can be sent without an edge.
        more |= self.to_client.waiting_bytes() > 0 && self.client.writable;
        more |= self.to_upstream.waiting_bytes() > 0 && upstream.writable;
        match (self.to_upstream.state(), self.to_client.state()) {
            (RelayState::Done, RelayState::Done)
                if !self.client.link.has_pending_output() && !upstream.link.has_pending_output() =>
            {
                return TurnOutcome::Disconnect(DisconnectReason::Closed);
            }
            (RelayState::Done, RelayState::Done | RelayState::Dropping) | (RelayState::Dropping, RelayState::Done) => {
                self.deadline.get_or_insert(now + HALF_CLOSE_TIMEOUT);
            }
            _ => {}
        }
        TurnOutcome::Continue { more }
    }

    /// Why the connection ends when its deadline has passed.
    pub fn timeout_reason(&self) -> DisconnectReason {
        match &self.upstream {
            UpstreamState::Dialling(_) | UpstreamState::Connecting(_) => {
                DisconnectReason::Unreachable("no answer in time".to_owned())
            }
            UpstreamState::Connected(_) => DisconnectReason::HalfCloseTimeout,
        }
    }

    /// Ends both links: in order if all was sent, else by aborting them, so that each peer learns of the other's failure.
    pub fn end(mut self, reason: &DisconnectReason, registry: &mio::Registry) {
        let why = match reason {
            DisconnectReason::Closed => None,
            DisconnectReason::ProxyStopped => Some(AbortReason::Shutdown),
            _ => Some(AbortReason::Broken),
        };
        let upstream = match &mut self.upstream {
            UpstreamState::Dialling(cancelled) => {
                cancelled.store(true, Ordering::Relaxed);
                None
            }
            UpstreamState::Connecting(endpoint) | UpstreamState::Connected(endpoint) => Some(endpoint),
        };
        for endpoint in [Some(&mut self.client), upstream].into_iter().flatten() {
            // If this fails, dropping the link closes its descriptor, and with it the registration.
            let _gone = endpoint.link.deregister(registry);
            if let Some(why) = why {
                endpoint.link.abort(why);
            }
        }
    }
}
