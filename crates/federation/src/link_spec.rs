//! Links and routes as an operator wants them.
//!
//! Enters: the words of an operator.  Leaves: what a link is told to be.
//! Owns:   the vocabulary of links and routes (qpid-route's, with what it lacked).
//! Never:  says how things stand; see `status`.

/// What tells the links of one broker apart: the virtual host here, and the other broker's address without its password.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkKey {
    /// The virtual host of this broker.
    pub vhost: Box<str>,
    /// The other broker: an address as clients write it, without a password.
    pub peer: Box<str>,
}

/// A link: a connection to another broker, made again whenever it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Which one.
    pub key: LinkKey,
    /// The other broker's address as clients write it (`amqp://user:password@host:port/vhost`), with its password.
    pub url: Box<str>,
    /// In whose name messages are published and consumed here.
    pub user: Box<str>,
    /// Kept when this broker ends.
    pub durable: bool,
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteDirection {
    /// From the other broker to this one, which has dialled.
    Pull,
    /// From this broker to the other one (`--src-local`).
    Push,
}

/// When the source may forget a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// When it has sent it: at most once.
    None,
    /// When the destination has routed it, and stored it where it must: at least once, and once as long as nothing breaks.
    Confirm,
}

/// What a route carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteKind {
    /// What the destination's bindings to the exchange want.
    Dynamic,
    /// What is published to the exchange with this key (pattern, of a topic exchange).
    Static {
        /// The key.
        key: Box<str>,
    },
    /// What is in this queue of the source; the key stays what it was.
    Queue {
        /// Its name.
        queue: Box<str>,
    },
}

/// A route: messages from the source to an exchange of the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// The exchange: of the same name at both ends, but for queue routes, where it is the destination's.
    pub exchange: Box<str>,
    /// What is carried.
    pub kind: RouteKind,
    /// Which way.
    pub direction: RouteDirection,
    /// Reliability.
    pub ack: AckMode,
    /// Messages under way that nobody has acknowledged, at most; 0: no limit. Means nothing with `Ack::None`, where the
    /// destination's reading is the limit.
    pub credit: u16,
    /// Brokers that a message may have come through.
    pub hops_max: u16,
    /// Kept when this broker ends.
    pub durable: bool,
    /// A second path was asked for: what comes twice is dropped.
    pub forced: bool,
}

impl RouteSpec {
    /// Whether two routes of one link would carry the same: there may be one of them.
    pub fn carries_same(&self, other: &Self) -> bool {
        self.exchange == other.exchange && self.kind == other.kind && self.direction == other.direction
    }
}
