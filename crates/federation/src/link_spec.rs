//! Links and routes as an operator specifies them, in the vocabulary of qpid-route with some additions.

use crate::RouteOptions;
use std::time::Duration;

/// What has made a link. Links of different origins may lead to the same broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkOrigin {
    /// An operator, by `harrier route`: it is in the `FederationPlan`.
    #[default]
    Operator,
    /// The parameter `federation-upstream` of this name, in the link's virtual host.
    Upstream(Box<str>),
    /// The parameter `shovel` of this virtual host and name.
    Shovel { vhost: Box<str>, name: Box<str> },
}

/// Identifies a link of one broker, whatever its direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkKey {
    /// The virtual host of this broker.
    pub vhost: Box<str>,
    /// The other broker's address as clients write it, without a password.
    pub peer: Box<str>,
    pub origin: LinkOrigin,
}

impl LinkKey {
    /// Of a link that an operator makes.
    pub fn of_operator(vhost: Box<str>, peer: Box<str>) -> Self {
        LinkKey { vhost, peer, origin: LinkOrigin::Operator }
    }
}

/// What parameters may say of a link, beyond what `harrier route` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// Further addresses of the same broker or cluster, which are tried in turn.
    pub other_urls: Vec<Box<str>>,
    /// The wait between two tries, instead of one that grows.
    pub reconnect_delay: Option<Duration>,
}

/// A link: a connection to another broker that is made again whenever it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    pub key: LinkKey,
    /// The other broker's address as clients write it (`amqp://user:password@host:port/vhost`), with its password.
    pub url: Box<str>,
    /// The user in whose name messages are published and consumed here.
    pub user: Box<str>,
    /// It survives a restart of this broker.
    pub durable: bool,
    pub options: LinkOptions,
}

/// The direction of messages, seen from the broker that dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteDirection {
    /// From the other broker to this one, which has dialed.
    Pull,
    /// From this broker to the other one (`--src-local`).
    Push,
}

/// When the source may forget a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// As soon as it has sent it: at most once.
    None,
    /// When the destination has routed it, and stored it where it must: at least once, and once as long as nothing breaks.
    Confirm,
}

/// What a route carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteKind {
    /// Messages that match the destination's bindings to the exchange.
    Dynamic,
    /// Messages published to the exchange with this key, which is a pattern for a topic exchange.
    Static { key: Box<str> },
    /// Messages of this queue at the source; their keys are kept.
    Queue { queue: Box<str> },
}

/// A route: messages from the source to an exchange of the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// The exchange, which has the same name at both ends unless the options say otherwise. That of a queue route is the
    /// destination's.
    pub exchange: Box<str>,
    pub kind: RouteKind,
    pub direction: RouteDirection,
    pub ack: AckMode,
    /// At most so many messages are unacknowledged; 0 means no limit. It has no effect with `AckMode::None`, where the limit is how
    /// fast the destination reads.
    pub credit: u16,
    /// How many brokers a message may have passed.
    pub hops_max: u16,
    /// It survives a restart of this broker.
    pub durable: bool,
    /// The operator allowed a second path: duplicates are dropped.
    pub forced: bool,
    /// The exchange at the source that gets what the route gives up because the destination refuses it for good. A queue route has
    /// none: its queue has a dead letter exchange of its own.
    pub dead_letter_exchange: Option<Box<str>>,
    pub options: RouteOptions,
}

impl RouteSpec {
    /// Whether two routes of a link would carry the same messages, of which there may be only one.
    pub fn carries_same(&self, other: &Self) -> bool {
        self.exchange == other.exchange
            && self.kind == other.kind
            && self.direction == other.direction
            && self.options.source_exchange == other.options.source_exchange
            && self.federated_queue() == other.federated_queue()
    }

    /// The queue here that is supplied whenever it wants messages, if the route is for one.
    pub fn federated_queue(&self) -> Option<&str> {
        self.options.federated_queue.as_ref().map(|queue| &*queue.name)
    }

    /// The exchange at the source. A queue route has none, and this is the destination's.
    pub fn source_exchange(&self) -> &str {
        self.options.source_exchange.as_deref().unwrap_or(&self.exchange)
    }

    /// The exchange at the broker that dials.
    pub fn local_exchange(&self) -> &str {
        match self.direction {
            RouteDirection::Pull => &self.exchange,
            RouteDirection::Push => self.source_exchange(),
        }
    }

    /// The exchange at the other broker.
    pub(crate) fn remote_exchange(&self) -> &str {
        match self.direction {
            RouteDirection::Pull => self.source_exchange(),
            RouteDirection::Push => &self.exchange,
        }
    }

    /// The queue at the other broker that the route consumes, or that it leads to by the default exchange and a key of its own.
    pub fn remote_queue(&self) -> Option<&str> {
        match (self.direction, &self.kind) {
            (RouteDirection::Pull, RouteKind::Queue { queue }) => Some(queue),
            (RouteDirection::Pull, _) => None,
            (RouteDirection::Push, _) if self.exchange.is_empty() => self.options.destination_key.as_deref(),
            (RouteDirection::Push, _) => None,
        }
    }

    /// Whether messages carry a trace of the brokers that they pass, and are dropped where they have been before. Those of shovels do
    /// not: they go wherever the operator sends them. Nor do those of federated queues, which go back and forth to where consumers
    /// are.
    pub fn is_traced(&self) -> bool {
        self.options.shovel.is_none() && self.options.federated_queue.is_none()
    }
}
