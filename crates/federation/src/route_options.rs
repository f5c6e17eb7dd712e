//! What parameters may say of a route, beyond what `harrier route` does.

use std::time::Duration;
use wire::Table;

/// The options of a route; by default it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteOptions {
    /// The exchange at the source, if it has another name there than at the destination.
    pub source_exchange: Option<Box<str>>,
    /// The routing key at the destination, instead of that of the message.
    pub destination_key: Option<Box<str>>,
    /// How long the route's own queue at the source exists without a consumer, instead of what the route's durability says.
    pub queue_expires: Option<Duration>,
    /// How long messages wait in that queue.
    pub message_ttl: Option<Duration>,
    pub shovel: Option<Box<ShovelOptions>>,
    pub federated_queue: Option<Box<FederatedQueue>>,
}

/// A queue of this broker that is supplied from one at an upstream, whenever it has consumers who would take more than it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederatedQueue {
    pub name: Box<str>,
    /// As it is declared here; so it is declared at the upstream, where there is none.
    pub durable: bool,
    pub auto_delete: bool,
    pub arguments: Table,
    /// Of the consumer at the upstream.
    pub consumer_tag: Box<str>,
}

/// What makes a route a shovel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShovelOptions {
    /// Its virtual host and name, which tell its queue at the source from those of others.
    pub vhost: Box<str>,
    pub name: Box<str>,
    /// The queue at the other broker is declared, durable, where there is none.
    pub declares_queue: bool,
    /// What is put in front of the header `x-shovelled`.
    pub forward_header: Option<Table>,
    /// The route ends after so many messages.
    pub end: Option<RouteEnd>,
}

/// When a route has moved all that it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteEnd {
    /// So many messages have been taken from the source, counted from each connection on.
    Messages(u64),
    /// As many as its queue had when the connection was made.
    QueueLength,
}
