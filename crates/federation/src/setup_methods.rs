//! Methods and arguments of the definitions that a route needs at its source.

use crate::limits::QUEUE_EXPIRES;
use crate::{BrokerIdentity, FederatedQueue, RouteSpec};
use catalog::arguments::{DEAD_LETTER_EXCHANGE, X_HARRIER_WINDOW};
use std::time::Duration;
use wire::method::queue;
use wire::{ShortStr, Table, TableRef, Value};

const INTERNAL_PURPOSE: &str = "x-internal-purpose";
const PURPOSE: &str = "federation";
/// As RabbitMQ's links have it. Consumers of negative priorities make no queue want messages of its own upstreams.
const FEDERATED_PRIORITY: i32 = -1;

pub(crate) fn short(bytes: &[u8]) -> ShortStr<'_> {
    ShortStr::new(bytes).unwrap_or(ShortStr::EMPTY)
}

pub(crate) fn passive_declare(name: &[u8]) -> queue::Declare<'_> {
    queue::Declare {
        queue: short(name),
        passive: true,
        durable: false,
        exclusive: false,
        auto_delete: false,
        no_wait: false,
        arguments: TableRef::EMPTY,
    }
}

/// Declares a queue like the federated one here.
pub(crate) fn federated_declare<'a>(name: &'a [u8], like: &FederatedQueue, arguments: &'a [u8]) -> queue::Declare<'a> {
    let FederatedQueue { durable, auto_delete, .. } = *like;
    queue::Declare {
        passive: false,
        durable,
        auto_delete,
        arguments: TableRef::new(arguments),
        ..passive_declare(name)
    }
}

/// The consumer of a federated queue at its upstream: those who consume there come first.
pub(crate) fn federated_consumer_arguments() -> Table {
    table([("x-priority", Value::I32(FEDERATED_PRIORITY))])
}

/// Declares a queue that is to be there, and survives a restart.
pub(crate) fn durable_declare(name: &[u8]) -> queue::Declare<'_> {
    queue::Declare { passive: false, durable: true, ..passive_declare(name) }
}

/// Deletes a queue, whatever is in it; an empty name stands for the one that was declared last on the channel. Nobody awaits it.
pub(crate) fn delete(name: &[u8]) -> queue::Delete<'_> {
    queue::Delete { queue: short(name), if_unused: false, if_empty: false, no_wait: true }
}

pub(crate) fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries
        .into_iter()
        .fold(Table::new(), |table, (name, value)| table.with(name, value).expect("the names of arguments are short"))
}

/// The arguments of a static route's binding.
pub(crate) fn static_arguments(with_stamps: bool) -> Table {
    if with_stamps { stamp_arguments(true) } else { Table::new() }
}

pub(crate) fn stamp_arguments(needed: bool) -> Table {
    table([(X_HARRIER_WINDOW, Value::Bool(needed))])
}

/// The arguments of the own queue of a route; `expires`: its durability does not keep it.
pub(crate) fn queue_arguments(expires: bool, spec: &RouteSpec) -> Table {
    let milliseconds = |time: Duration| Value::I64(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let expires_after = spec.options.queue_expires.or(expires.then_some(QUEUE_EXPIRES));
    let further = [
        ("x-expires", expires_after.map(milliseconds)),
        ("x-message-ttl", spec.options.message_ttl.map(milliseconds)),
        (DEAD_LETTER_EXCHANGE, spec.dead_letter_exchange.as_deref().map(Value::text)),
    ];
    further.into_iter().fold(table([(INTERNAL_PURPOSE, Value::text(PURPOSE))]), |table, (name, value)| match value {
        Some(value) => table.with(name, value).expect("the names of arguments are short"),
        None => table,
    })
}

/// The arguments of a route's internal exchange.
pub(crate) fn internal_arguments(downstream: &BrokerIdentity, hops_max: u16) -> Table {
    table([
        (INTERNAL_PURPOSE, Value::text(PURPOSE)),
        ("x-max-hops", Value::I64(i64::from(hops_max))),
        ("x-downstream-name", Value::text(&downstream.cluster_name)),
        ("x-downstream-vhost", Value::text(&downstream.vhost)),
    ])
}
