//! Exchanges: their definitions, and the table that finds them.
//!
//! Enters: names of a vhost.  Leaves: exchanges and their ids.
//! Owns:   what an exchange is, and the heads of the lists of its bindings.

pub(crate) mod consistent_hash;
pub(crate) mod delayed;
pub(crate) mod direct;
pub(crate) mod fanout;
pub(crate) mod federation_upstream;
pub(crate) mod headers;
pub(crate) mod selection_cursor;
pub(crate) mod topic;

use crate::{
    binding::ListHead,
    heap::{boxed_table, shared},
    ids::{ExchangeId, VhostId},
    limits::CatalogLimits,
    name::Name,
    named::{NameTable, Named, hidden_serial},
    policy::EffectivePolicy,
    refusal::{Refusal, ResourceName},
    watch::UNWATCHED,
};
use consistent_hash::HashRing;
use federation_upstream::DownstreamFilter;
use std::fmt;
use std::sync::Arc;
use wire::{ReplyCode, Table};

/// How an exchange chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExchangeKind {
    /// By the whole routing key.
    Direct,
    /// Everything to everyone.
    Fanout,
    /// By patterns of words.
    Topic,
    Headers,
    /// To one binding, by a hash and by weights (`x-consistent-hash`).
    ConsistentHash,
    /// As another type, later (`x-delayed-message`).
    Delayed,
    /// Everything to another broker that pulls, but for what it has had (`x-federation-upstream`).
    FederationUpstream,
}

impl ExchangeKind {
    /// The type that a client names. An unknown one is COMMAND_INVALID, which ends the connection, as in
    /// RabbitMQ 3.10.
    pub fn parse(name: &[u8]) -> Result<Self, Refusal> {
        match name {
            b"direct" => Ok(Self::Direct),
            b"fanout" => Ok(Self::Fanout),
            b"topic" => Ok(Self::Topic),
            b"headers" => Ok(Self::Headers),
            b"x-consistent-hash" => Ok(Self::ConsistentHash),
            b"x-delayed-message" => Ok(Self::Delayed),
            b"x-federation-upstream" => Ok(Self::FederationUpstream),
            b"" => Err(Refusal::detail(ReplyCode::CommandInvalid, "invalid exchange type ''")),
            _ => Err(Refusal::detail(
                ReplyCode::CommandInvalid,
                format_args!("unknown exchange type '{}'", String::from_utf8_lossy(name)),
            )),
        }
    }

    /// The type as clients name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::ConsistentHash => "x-consistent-hash",
            Self::Delayed => "x-delayed-message",
            Self::FederationUpstream => "x-federation-upstream",
        }
    }
}

impl fmt::Display for ExchangeKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// How an exchange finds the bindings for a message.
#[derive(Clone)]
pub(crate) enum RoutingTable {
    Direct,
    Fanout,
    Topic,
    Headers {
        /// See [`headers::size_of_binding`].
        size: u64,
    },
    ConsistentHash(Box<HashRing>),
    FederationUpstream(Box<DownstreamFilter>),
}

impl RoutingTable {
    /// Of a new exchange, by its type and arguments; a delayed one finds them as the type that it names.
    pub fn of(what: ResourceName<'_>, kind: ExchangeKind, arguments: &Table, hash_seed: u64) -> Result<Self, Refusal> {
        Ok(match kind {
            ExchangeKind::Direct => Self::Direct,
            ExchangeKind::Fanout => Self::Fanout,
            ExchangeKind::Topic => Self::Topic,
            ExchangeKind::Headers => Self::Headers { size: 0 },
            ExchangeKind::ConsistentHash => Self::ConsistentHash(Box::new(HashRing::new(what, arguments, hash_seed)?)),
            ExchangeKind::FederationUpstream => {
                Self::FederationUpstream(Box::new(DownstreamFilter::new(what, arguments)?))
            }
            ExchangeKind::Delayed => return Self::of(what, delayed::routes_as(arguments)?, arguments, hash_seed),
        })
    }
}

/// What an exchange was declared to be.
#[derive(Clone, Debug)]
pub struct ExchangeDefinition {
    /// Its name; empty for the default exchange.
    pub name: Name,
    /// Where.
    pub vhost: VhostId,
    /// How it chooses.
    pub kind: ExchangeKind,
    /// Survives a restart, once there is a store.
    pub durable: bool,
    /// Goes with its last binding.
    pub auto_delete: bool,
    /// Takes messages from other exchanges only.
    pub internal: bool,
    /// As declared.
    pub arguments: Option<Box<Table>>,
    /// What policies say of it for now. It is no argument: an exchange declared again is not asked about it.
    pub policy: Option<Arc<EffectivePolicy>>,
}

impl ExchangeDefinition {
    /// Whether this is the nameless exchange that routes by queue name.
    #[inline]
    pub fn is_default(&self) -> bool {
        self.name.is_empty()
    }
}

/// The exchanges of every vhost, by name. `amq.rabbitmq.trace` is internal, all are durable.
pub(crate) const PREDECLARED: [(&str, ExchangeKind, bool); 7] = [
    ("", ExchangeKind::Direct, false),
    ("amq.direct", ExchangeKind::Direct, false),
    ("amq.fanout", ExchangeKind::Fanout, false),
    ("amq.headers", ExchangeKind::Headers, false),
    ("amq.match", ExchangeKind::Headers, false),
    ("amq.rabbitmq.trace", ExchangeKind::Topic, true),
    ("amq.topic", ExchangeKind::Topic, false),
];

#[derive(Clone)]
pub(crate) struct ExchangeEntry {
    pub definition: ExchangeDefinition,
    pub serial: u32,
    pub matching: RoutingTable,
    /// Where messages go that it finds no place for.
    pub alternate: Option<Name>,
    /// Bindings from it, and how many lead to exchanges.
    pub from: ListHead,
    pub to_exchanges: u32,
    /// Bindings to it, and how many of them ask for stamps.
    pub into: ListHead,
    pub stamped: u32,
    /// How many of the bindings from it to exchanges ask for stamps.
    pub asks: u32,
    /// Its root in the forest of topics.
    pub root: u32,
    /// When its bindings last changed.
    pub version: u64,
    /// The last walk that came by.
    pub walk: u32,
    /// Who watches its bindings.
    pub watch: u32,
    /// It is being removed.
    pub leaving: bool,
}

impl ExchangeEntry {
    /// A copy that knows nothing of walks and watches, and without the seats of a consistent hash.
    pub fn begin_copy(&self) -> Self {
        let matching = match &self.matching {
            RoutingTable::ConsistentHash(ring) => RoutingTable::ConsistentHash(Box::new(ring.begin_copy())),
            other => other.clone(),
        };
        let (definition, alternate) = (self.definition.clone(), self.alternate.clone());
        let ExchangeEntry { serial, from, to_exchanges, into, stamped, asks, root, version, leaving, .. } = *self;
        Self {
            definition,
            serial,
            matching,
            alternate,
            from,
            to_exchanges,
            into,
            stamped,
            asks,
            root,
            version,
            walk: 0,
            watch: UNWATCHED,
            leaving,
        }
    }
}

impl Named for ExchangeEntry {
    fn vhost(&self) -> VhostId {
        self.definition.vhost
    }
    fn name(&self) -> &str {
        &self.definition.name
    }
    fn heap_bytes(&self) -> usize {
        let alternate = self.alternate.as_ref().map_or(0, |name| shared(name.len()));
        shared(self.definition.name.len()) + boxed_table(self.definition.arguments.as_deref()) + alternate
    }
    fn is_leaving(&self) -> bool {
        self.leaving
    }
}

#[derive(Clone)]
pub(crate) struct ExchangeTable(pub NameTable<ExchangeEntry>);

impl ExchangeTable {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self(NameTable::new(limits.hash_seed))
    }

    /// Begins to remove an exchange: neither its name nor its id finds it any more.
    pub fn hide(&mut self, index: u32) {
        self.0.hide(index);
        let exchange = self.0.at_mut(index);
        (exchange.serial, exchange.leaving) = (hidden_serial(exchange.serial), true);
    }

    #[inline]
    pub fn get(&self, id: ExchangeId) -> Option<&ExchangeEntry> {
        self.0.get(id.index).filter(|exchange| exchange.serial == id.serial)
    }

    pub fn id(&self, index: u32) -> ExchangeId {
        ExchangeId { index, serial: self.0.at(index).serial }
    }
}
