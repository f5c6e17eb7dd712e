//! What a pushed route needs at its source, which is this broker: a queue, an internal exchange and their bindings.
//!
//! Owns:   their names, and the methods that declare them, none of which is answered.

use crate::remote_setup::{internal_type, queue_name};
use crate::setup_methods::{internal_arguments, queue_arguments, static_arguments};
use crate::{AckMode, BrokerIdentity, RouteDirection, RouteKind, RouteSpec};
use wire::method::{Method, exchange, queue};
use wire::{ShortStr, TableRef};

/// The definitions of a pushed route at this broker.
#[derive(Debug)]
pub struct LocalSetup {
    /// The queue that is consumed.
    pub queue: Box<[u8]>,
    /// A queue route declares nothing.
    definitions: Option<LocalDefinitions>,
}

#[derive(Debug)]
struct LocalDefinitions {
    internal: Box<[u8]>,
    exchange: Box<str>,
    key: Box<str>,
    binding_arguments: Vec<u8>,
    is_without_filter: bool,
    durable: bool,
    queue_arguments: Vec<u8>,
    internal_arguments: Vec<u8>,
}

fn short(bytes: &[u8]) -> ShortStr<'_> {
    ShortStr::new(bytes).unwrap_or(ShortStr::EMPTY)
}

impl LocalSetup {
    /// What a route needs that pushes to `peer`.
    pub fn new(spec: &RouteSpec, peer: &BrokerIdentity) -> Self {
        let key = match &spec.kind {
            RouteKind::Queue { queue } => return LocalSetup { queue: queue.as_bytes().into(), definitions: None },
            RouteKind::Static { key } => key.clone(),
            // `FederationPlan` allows none: the destination's bindings are not known here.
            RouteKind::Dynamic => "".into(),
        };
        let queue = queue_name(spec, peer);
        let durable = spec.durable && spec.ack == AckMode::Confirm;
        let definitions = LocalDefinitions {
            internal: [&*queue, b" A"].concat().into(),
            exchange: spec.source_exchange().into(),
            key,
            binding_arguments: static_arguments(spec.forced).to_bytes(),
            is_without_filter: !spec.is_traced(),
            durable,
            queue_arguments: queue_arguments(!durable, spec).to_bytes(),
            internal_arguments: internal_arguments(peer, spec.hops_max).to_bytes(),
        };
        LocalSetup { queue, definitions: Some(definitions) }
    }

    /// The queue that a route which pushes to `peer` has declared here. A queue route declares none.
    pub fn declared_queue(spec: &RouteSpec, peer: &BrokerIdentity) -> Option<Box<[u8]>> {
        let declares = spec.direction == RouteDirection::Push && !matches!(spec.kind, RouteKind::Queue { .. });
        declares.then(|| queue_name(spec, peer))
    }

    /// The method that declares the n-th definition, counted from 0; `None` after the last.
    pub fn method(&self, number: u8) -> Option<Method<'_>> {
        let definitions = self.definitions.as_ref()?;
        let internal = short(&definitions.internal);
        Some(match number {
            0 => queue::Declare {
                queue: short(&self.queue),
                passive: false,
                durable: definitions.durable,
                exclusive: false,
                auto_delete: false,
                no_wait: true,
                arguments: TableRef::new(&definitions.queue_arguments),
            }
            .into(),
            1 => exchange::Declare {
                exchange: internal,
                kind: internal_type(definitions.is_without_filter),
                passive: false,
                durable: true,
                auto_delete: true,
                internal: true,
                no_wait: true,
                arguments: TableRef::new(&definitions.internal_arguments),
            }
            .into(),
            2 => exchange::Bind {
                destination: internal,
                source: short(definitions.exchange.as_bytes()),
                routing_key: short(definitions.key.as_bytes()),
                no_wait: true,
                arguments: TableRef::new(&definitions.binding_arguments),
            }
            .into(),
            3 => queue::Bind {
                queue: short(&self.queue),
                exchange: internal,
                routing_key: ShortStr::EMPTY,
                no_wait: true,
                arguments: TableRef::EMPTY,
            }
            .into(),
            _ => return None,
        })
    }
}
