//! What a pushed route needs here, at its source: the same as a pulled one has at the other end.
//!
//! Enters: a route, and who the two brokers are.  Leaves: the methods that make it.
//! Owns:   their names.
//! Never:  a method that is answered.

use crate::remote_setup::{internal_arguments, queue_arguments, queue_name, static_arguments};
use crate::{AckMode, BrokerIdentity, RouteKind, RouteSpec};
use wire::method::{Method, exchange, queue};
use wire::{ShortStr, TableRef};

/// The queue and the internal exchange of a pushed route.
#[derive(Debug)]
pub struct LocalSetup {
    /// What is consumed.
    pub queue: Box<[u8]>,
    /// Of a queue route there is nothing to make.
    definitions: Option<LocalDefinitions>,
}

#[derive(Debug)]
struct LocalDefinitions {
    internal: Box<[u8]>,
    exchange: Box<str>,
    key: Box<str>,
    binding_arguments: Vec<u8>,
    durable: bool,
    queue_arguments: Vec<u8>,
    internal_arguments: Vec<u8>,
}

fn short(bytes: &[u8]) -> ShortStr<'_> {
    ShortStr::new(bytes).unwrap_or(ShortStr::EMPTY)
}

/// Of a route that pushes to `peer`.
pub fn push_definitions(spec: &RouteSpec, peer: &BrokerIdentity) -> LocalSetup {
    let key = match &spec.kind {
        RouteKind::Queue { queue } => return LocalSetup { queue: queue.as_bytes().into(), definitions: None },
        RouteKind::Static { key } => key.clone(),
        // Not to be had, see `Plan`: the destination's bindings are not known here.
        RouteKind::Dynamic => "".into(),
    };
    let queue = queue_name(spec, peer);
    let durable = spec.durable && spec.ack == AckMode::Confirm;
    let makes = LocalDefinitions {
        internal: [&*queue, b" A"].concat().into(),
        exchange: spec.exchange.clone(),
        key,
        binding_arguments: static_arguments(spec.forced).to_bytes(),
        durable,
        queue_arguments: queue_arguments(!durable).to_bytes(),
        internal_arguments: internal_arguments(peer, spec.hops_max).to_bytes(),
    };
    LocalSetup { queue, definitions: Some(makes) }
}

impl LocalSetup {
    /// The n-th method, from 0 on; `None` when all is made.
    pub fn method(&self, number: u8) -> Option<Method<'_>> {
        let makes = self.definitions.as_ref()?;
        let internal = short(&makes.internal);
        Some(match number {
            0 => queue::Declare {
                queue: short(&self.queue),
                passive: false,
                durable: makes.durable,
                exclusive: false,
                auto_delete: false,
                no_wait: true,
                arguments: TableRef::new(&makes.queue_arguments),
            }
            .into(),
            1 => exchange::Declare {
                exchange: internal,
                kind: ShortStr::literal("x-federation-upstream"),
                passive: false,
                durable: true,
                auto_delete: true,
                internal: true,
                no_wait: true,
                arguments: TableRef::new(&makes.internal_arguments),
            }
            .into(),
            2 => exchange::Bind {
                destination: internal,
                source: short(makes.exchange.as_bytes()),
                routing_key: short(makes.key.as_bytes()),
                no_wait: true,
                arguments: TableRef::new(&makes.binding_arguments),
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
