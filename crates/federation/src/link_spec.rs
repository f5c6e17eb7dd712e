//! Links and routes as an operator specifies them, in the vocabulary of qpid-route with some additions.

/// Identifies a link of one broker, whatever its direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkKey {
    /// The virtual host of this broker.
    pub vhost: Box<str>,
    /// The other broker's address as clients write it, without a password.
    pub peer: Box<str>,
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
    /// The exchange, which has the same name at both ends. That of a queue route is the destination's.
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
}

impl RouteSpec {
    /// Whether two routes of a link would carry the same messages, of which there may be only one.
    pub fn carries_same(&self, other: &Self) -> bool {
        self.exchange == other.exchange && self.kind == other.kind && self.direction == other.direction
    }
}
