//! Declarations: what a method of the exchange and queue classes means as a change of definitions.

use crate::definitions::Definitions;
use crate::effects::Effects;
use crate::ids::SessionIdentity;
use crate::session_state::{PendingReply, PlainReply};
use catalog::arguments::X_HARRIER_WINDOW;
use catalog::{Catalog, Definition, ExchangeKind, Name, QueueId, QueueType, Refusal, ResourceKind, ShardId};
use wire::method::{Method, exchange, queue};
use wire::{ReplyCode, Table, TableRef, ValueRef};

const PRIORITY: &str = "x-priority";
/// Checked, and without effect: there are no mirrors.
const CANCEL_ON_FAILOVER: &str = "x-cancel-on-ha-failover";
/// Only streams have it.
const STREAM_OFFSET: &str = "x-stream-offset";

/// `exchange.declare`, not passive.
pub(crate) fn declare_exchange(
    identity: SessionIdentity,
    declare: exchange::Declare<'_>,
) -> Result<(Definition, PendingReply), Refusal> {
    let name = Name::new(ResourceKind::Exchange, declare.exchange.as_bytes())?;
    let kind = ExchangeKind::parse(declare.kind.as_bytes())?;
    let definition = Definition::DeclareExchange {
        vhost: identity.vhost,
        name,
        kind,
        durable: declare.durable,
        auto_delete: declare.auto_delete,
        internal: declare.internal,
        arguments: owned(declare.arguments)?,
    };
    let reply = PlainReply::ExchangeDeclared;
    Ok((definition, PendingReply::Plain { no_wait: declare.no_wait, reply }))
}

/// `exchange.delete`.
pub(crate) fn delete_exchange(
    identity: SessionIdentity,
    delete: exchange::Delete<'_>,
) -> Result<(Definition, PendingReply), Refusal> {
    let name = Name::new(ResourceKind::Exchange, delete.exchange.as_bytes())?;
    let definition = Definition::DeleteExchange { vhost: identity.vhost, name, if_unused: delete.if_unused };
    let reply = PlainReply::ExchangeDeleted;
    Ok((definition, PendingReply::Plain { no_wait: delete.no_wait, reply }))
}

/// `exchange.bind` and `exchange.unbind`: write to the destination, read from the source.
pub(crate) fn bind_exchange(
    identity: SessionIdentity,
    bind: exchange::Bind<'_>,
    binds: bool,
) -> Result<(Definition, PendingReply), Refusal> {
    let vhost = identity.vhost;
    let source = Name::new(ResourceKind::Exchange, bind.source.as_bytes())?;
    let destination = Name::new(ResourceKind::Exchange, bind.destination.as_bytes())?;
    let routing_key = bind.routing_key.as_bytes().into();
    let arguments = owned(bind.arguments)?;
    let (definition, reply) = if binds {
        let definition = Definition::BindExchange { vhost, source, destination, routing_key, arguments };
        (definition, PlainReply::ExchangeBound)
    } else {
        let definition = Definition::UnbindExchange { vhost, source, destination, routing_key, arguments };
        (definition, PlainReply::ExchangeUnbound)
    };
    Ok((definition, PendingReply::Plain { no_wait: bind.no_wait, reply }))
}

/// `queue.declare`, not passive, with the name of the queue.
pub(crate) fn declare_queue<E: Effects>(
    identity: SessionIdentity,
    declare: queue::Declare<'_>,
    home: ShardId,
    fx: &mut E,
) -> Result<(Definition, Name), Refusal> {
    let server_named = declare.queue.as_bytes().is_empty();
    let name = if server_named {
        Name::from(&*format!("amq.gen-{}", random_name(fx)))
    } else {
        Name::new(ResourceKind::Queue, declare.queue.as_bytes())?
    };
    let definition = Definition::DeclareQueue {
        vhost: identity.vhost,
        name: name.clone(),
        server_named,
        durable: declare.durable,
        exclusive: declare.exclusive.then_some(identity.session),
        auto_delete: declare.auto_delete,
        arguments: owned(declare.arguments)?,
        home,
    };
    Ok((definition, name))
}

/// `queue.bind` and `queue.unbind`: write to the queue `name`, read from the exchange.
pub(crate) fn bind_queue(
    identity: SessionIdentity,
    name: &[u8],
    bind: queue::Bind<'_>,
    binds: bool,
) -> Result<(Definition, PendingReply), Refusal> {
    let vhost = identity.vhost;
    let is_named = !bind.queue.as_bytes().is_empty();
    let queue = Name::new(ResourceKind::Queue, name)?;
    let exchange = Name::new(ResourceKind::Exchange, bind.exchange.as_bytes())?;
    // With neither queue nor key named, the key is the queue's name (AMQP 0-9-1, queue.bind, routing-key).
    let routing_key = match bind.routing_key.as_bytes() {
        [] if !is_named => queue.as_bytes().into(),
        routing_key => routing_key.into(),
    };
    let arguments = owned(bind.arguments)?;
    let session = Some(identity.session);
    let (definition, reply) = if binds {
        let definition = Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session };
        (definition, PlainReply::QueueBound)
    } else {
        let definition = Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session };
        (definition, PlainReply::QueueUnbound)
    };
    Ok((definition, PendingReply::Plain { no_wait: bind.no_wait, reply }))
}

/// Checks the arguments of a consumer; returns its `x-priority`, RabbitMQ's consumer priority.
pub(crate) fn check_consumer(
    definitions: &Definitions,
    queue: QueueId,
    arguments: TableRef<'_>,
) -> Result<i32, Refusal> {
    let invalid = |argument: &str, why: String| {
        let detail = format!("invalid arg '{argument}' for {}{why}", definitions.describe_queue(queue));
        Refusal::detail(ReplyCode::PreconditionFailed, detail)
    };
    let priority = match arguments.get(PRIORITY) {
        None => 0,
        // Priorities beyond 32 bits serve the same order as the nearest that fits.
        Some(value) => match value.as_i64() {
            Some(priority) => priority.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            None => {
                return Err(invalid(PRIORITY, format!(": \"expected integer, got {}\"", value.type_name())));
            }
        },
    };
    if let Some(value) = arguments.get(CANCEL_ON_FAILOVER)
        && value.as_bool().is_none()
    {
        return Err(invalid(CANCEL_ON_FAILOVER, format!(": {{unacceptable_type,{}}}", value.type_name())));
    }
    if arguments.get(STREAM_OFFSET).is_some() && !definitions.catalog.takes_types_as_classic() {
        let definition = definitions.catalog.queue_definition(queue);
        let queue_type = QueueType::of(definition.and_then(|definition| definition.arguments.as_deref()));
        return Err(invalid(STREAM_OFFSET, format!(" of queue type {}", queue_type.module())));
    }
    Ok(priority)
}

/// Whether a method may follow others in a batch of definitions: it adds something, its client awaits no reply, and what it
/// needs to know is known before the batch is carried out.
pub(crate) fn may_batch(identity: Option<SessionIdentity>, catalog: &Catalog, method: &Method<'_>) -> bool {
    match method {
        Method::ExchangeDeclare(declare) => declare.no_wait && !declare.passive,
        Method::ExchangeBind(bind) => bind.no_wait,
        Method::QueueBind(bind) => bind.no_wait,
        Method::QueueDeclare(declare) => {
            let name = declare.queue.as_bytes();
            // Declaring a queue again is a use of it, which its home must note.
            let is_new = || identity.is_some_and(|identity| catalog.queue(identity.vhost, name).is_none());
            declare.no_wait && !declare.passive && !name.starts_with(b"amq.") && is_new()
        }
        _ => false,
    }
}

/// Whether a passive declaration claims to come from a link to another broker (`x-harrier-window`), and if so, whether that
/// must be accepted.
pub(crate) fn claims_link(arguments: TableRef<'_>) -> Option<bool> {
    arguments.get(X_HARRIER_WINDOW).and_then(ValueRef::as_bool)
}

/// Whether a session that claims to be a link is one: its user may be a broker. Where that is required it is refused otherwise,
/// as its messages could arrive twice.
#[cold]
pub(crate) fn accept_link(catalog: &Catalog, identity: SessionIdentity, required: bool) -> Result<bool, Refusal> {
    if catalog.is_federation(identity.user) {
        return Ok(true);
    }
    if !required {
        return Ok(false);
    }
    let name = catalog.user_name(identity.user);
    let why =
        format!("of a forced route user '{name}' needs the tag 'federation': it may not say which messages are one");
    Err(Refusal::detail(ReplyCode::AccessRefused, why))
}

/// A name that nobody can guess.
pub(crate) fn random_name<E: Effects>(fx: &mut E) -> String {
    name_of(fx.random(), fx.random())
}

/// Eleven letters for each number, the lowest bits first.
fn name_of(a: u64, b: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..22)
        .map(|at| if at < 11 { a >> (6 * at % 64) } else { b >> (6 * (at - 11) % 64) })
        .map(|bits| LETTERS[(bits & 63) as usize] as char)
        .collect()
}

/// Arguments as they are kept.
fn owned(arguments: TableRef<'_>) -> Result<Table, Refusal> {
    arguments.to_table().map_err(|fault| Refusal::detail(fault.reply_code(), fault))
}

#[cfg(test)]
mod tests {
    use super::name_of;
    use std::collections::BTreeSet;

    #[test]
    fn every_random_bit_is_in_the_name() {
        assert_eq!(name_of(0, 0), "A".repeat(22));
        let bits = (0..64).map(|bit| 1_u64 << bit);
        let names: BTreeSet<_> = bits.flat_map(|bit| [name_of(bit, 0), name_of(0, bit)]).collect();
        assert_eq!(names.len(), 128, "each bit has a name of its own");
        assert!(names.iter().all(|name| name.len() == 22));
    }
}
