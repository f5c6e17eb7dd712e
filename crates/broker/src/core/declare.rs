//! Exchanges, queues and bindings as clients declare, bind and delete them.
//!
//! Enters: the methods of the exchange and queue classes.  Leaves: definitions to be made, questions to queues.
//! Owns:   what each method means as a definition.
//! Never:  changes the catalog itself (`define` does), checks a permission (the catalog does).

use super::consume::short;
use super::{Broker, ReadControl, no_channel};
use crate::channel::ChannelKey;
use crate::direct_reply::{ReplyAddress, PSEUDO_QUEUE};
use crate::effects::{Effects, ConnectionSlot};
use crate::shard_message::QueueRequest;
use crate::session_state::{PlainReply, PendingReply};
use catalog::arguments::X_HARRIER_WINDOW;
use catalog::{
    Definition, ExchangeKind, Kind, Name, Operation, Refusal, Resource, SessionId, ShardId, UserId, VhostId,
};
use wire::Table;
use wire::method::{Method, exchange, queue};

impl Broker {
    pub(super) fn whose(&self, slot: ConnectionSlot) -> Result<(UserId, VhostId, SessionId), Refusal> {
        let peer = self.tables.peers.get(slot as usize).and_then(|peer| peer.as_ref()).ok_or_else(no_channel)?;
        Ok((peer.user, peer.vhost, peer.session))
    }

    /// `exchange.declare`.
    pub(super) fn exchange_declare<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        declare: exchange::Declare<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let (_, vhost, _) = self.whose(slot)?;
        let name = Name::new(Kind::Exchange, declare.exchange.as_bytes())?;
        if declare.passive {
            self.catalog.exchange_for(vhost, name.as_bytes())?;
            if let Some(needed) = claimed_link(declare.arguments) {
                self.claim_link(slot, needed)?;
            }
            if !declare.no_wait {
                fx.reply(slot, number, Method::ExchangeDeclareOk(exchange::DeclareOk {}));
            }
            return Ok(ReadControl::Continue);
        }
        let kind = ExchangeKind::parse(declare.kind.as_bytes())?;
        let arguments = owned(declare.arguments)?;
        let definition = Definition::DeclareExchange {
            vhost,
            name,
            kind,
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments,
        };
        let then = PendingReply::Reply { no_wait: declare.no_wait, reply: PlainReply::ExchangeDeclared };
        self.define(slot, number, exchange::Declare::ID, definition, then, fx)
    }

    /// `exchange.delete`.
    pub(super) fn exchange_delete<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        delete: exchange::Delete<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let (_, vhost, _) = self.whose(slot)?;
        let name = Name::new(Kind::Exchange, delete.exchange.as_bytes())?;
        let definition = Definition::DeleteExchange { vhost, name, if_unused: delete.if_unused };
        let then = PendingReply::Reply { no_wait: delete.no_wait, reply: PlainReply::ExchangeDeleted };
        self.define(slot, number, exchange::Delete::ID, definition, then, fx)
    }

    /// `exchange.bind` and `exchange.unbind`: write to the destination, read from the source.
    pub(super) fn exchange_bind<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        bind: exchange::Bind<'_>,
        binds: bool,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let (_, vhost, _) = self.whose(slot)?;
        let source = Name::new(Kind::Exchange, bind.source.as_bytes())?;
        let destination = Name::new(Kind::Exchange, bind.destination.as_bytes())?;
        let routing_key = bind.routing_key.as_bytes().into();
        let arguments = owned(bind.arguments)?;
        let (definition, reply, method) = if binds {
            (
                Definition::BindExchange { vhost, source, destination, routing_key, arguments },
                PlainReply::ExchangeBound,
                exchange::Bind::ID,
            )
        } else {
            (
                Definition::UnbindExchange { vhost, source, destination, routing_key, arguments },
                PlainReply::ExchangeUnbound,
                exchange::Unbind::ID,
            )
        };
        self.define(slot, number, method, definition, PendingReply::Reply { no_wait: bind.no_wait, reply }, fx)
    }

    /// `queue.declare`.
    pub(super) fn queue_declare<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        declare: queue::Declare<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let (_, vhost, session) = self.whose(slot)?;
        let no_wait = declare.no_wait;
        if declare.queue.as_bytes() == PSEUDO_QUEUE.as_bytes() {
            if !no_wait {
                let ok =
                    queue::DeclareOk { queue: short(PSEUDO_QUEUE.as_bytes()), message_count: 0, consumer_count: 1 };
                fx.reply(slot, number, Method::QueueDeclareOk(ok));
            }
            return Ok(ReadControl::Continue);
        }
        if declare.passive {
            let name = declare.queue.as_bytes();
            if let Some(address) = ReplyAddress::parse(name).filter(|address| address.shard.0 < self.options.shards) {
                let then = PendingReply::QueueDeclared { no_wait, name: String::from_utf8_lossy(name).into() };
                let nobody = catalog::QueueId { index: u32::MAX, serial: 0 };
                let ask = QueueRequest::ReplyConsumer(address);
                return self.ask(slot, number, queue::Declare::ID, nobody, address.shard, ask, then, fx);
            }
            let id = self.catalog.queue_for(vhost, name, session)?;
            let definition = self.catalog.queue_definition(id).ok_or_else(|| self.catalog.no_queue(vhost, name))?;
            let (home, name) = (definition.home, definition.name.shared());
            self.note_declared(key, &name);
            return self.ask(
                slot,
                number,
                queue::Declare::ID,
                id,
                home,
                QueueRequest::Counts,
                PendingReply::QueueDeclared { no_wait, name },
                fx,
            );
        }
        let server_named = declare.queue.as_bytes().is_empty();
        let name = if server_named {
            Name::from(&*format!("amq.gen-{}", self.random_name(fx)))
        } else {
            Name::new(Kind::Queue, declare.queue.as_bytes())?
        };
        let definition = Definition::DeclareQueue {
            vhost,
            name: name.clone(),
            server_named,
            durable: declare.durable,
            exclusive: declare.exclusive.then_some(session),
            auto_delete: declare.auto_delete,
            arguments: owned(declare.arguments)?,
            home: self.options.shard,
        };
        if declare.exclusive
            && let Some(peer) = self.peer_mut(slot)
        {
            peer.owns_queues = true;
        }
        self.note_declared(key, &name);
        self.define(slot, number, queue::Declare::ID, definition, PendingReply::CountQueue { no_wait, name: name.shared() }, fx)
    }

    /// Methods that name no queue mean this one from now on; should the declaration fail, the channel closes anyway.
    fn note_declared(&mut self, key: ChannelKey, name: &str) {
        if let Some(channel) = self.tables.channels.get_mut(key) {
            channel.last_queue = name.into();
        }
    }

    /// A queue just declared. It may have been deleted again in the meantime.
    pub(super) fn declared(&mut self, slot: ConnectionSlot, name: &str) -> Result<(catalog::QueueId, ShardId), Refusal> {
        let (_, vhost, session) = self.whose(slot)?;
        let id = self.catalog.queue_for(vhost, name.as_bytes(), session)?;
        let definition =
            self.catalog.queue_definition(id).ok_or_else(|| self.catalog.no_queue(vhost, name.as_bytes()))?;
        Ok((id, definition.home))
    }

    /// `queue.bind` and `queue.unbind`: write to the queue, read from the exchange.
    pub(super) fn queue_bind<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        bind: queue::Bind<'_>,
        binds: bool,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let (_, vhost, session) = self.whose(slot)?;
        let name = self.queue_name(key, bind.queue.as_bytes())?;
        let named = !bind.queue.as_bytes().is_empty();
        let queue = Name::new(Kind::Queue, &name)?;
        let exchange = Name::new(Kind::Exchange, bind.exchange.as_bytes())?;
        // With neither queue nor key named, the key is the queue's name (AMQP 0-9-1, queue.bind, routing-key).
        let routing_key = match bind.routing_key.as_bytes() {
            [] if !named => queue.as_bytes().into(),
            routing_key => routing_key.into(),
        };
        let arguments = owned(bind.arguments)?;
        let session = Some(session);
        let (definition, reply, method) = if binds {
            (
                Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session },
                PlainReply::QueueBound,
                queue::Bind::ID,
            )
        } else {
            (
                Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session },
                PlainReply::QueueUnbound,
                queue::Unbind::ID,
            )
        };
        self.define(slot, number, method, definition, PendingReply::Reply { no_wait: bind.no_wait, reply }, fx)
    }

    /// `queue.purge`.
    pub(super) fn queue_purge<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        purge: queue::Purge<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let name = self.queue_name(key, purge.queue.as_bytes())?;
        let (id, home) = self.queue_for(slot, &name, Operation::Read)?;
        self.ask(slot, number, queue::Purge::ID, id, home, QueueRequest::Purge, PendingReply::QueuePurged { no_wait: purge.no_wait }, fx)
    }

    /// `queue.delete`; one that does not exist is deleted without complaint, as in RabbitMQ.
    pub(super) fn queue_delete<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        delete: queue::Delete<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let (user, vhost, session) = self.whose(slot)?;
        let name = self.queue_name(key, delete.queue.as_bytes())?;
        self.catalog.check(user, vhost, Operation::Configure, Resource::Queue, &name)?;
        if self.catalog.queue(vhost, &name).is_none() {
            if !delete.no_wait {
                fx.reply(slot, number, Method::QueueDeleteOk(queue::DeleteOk { message_count: 0 }));
            }
            return Ok(ReadControl::Continue);
        }
        let id = self.catalog.queue_for(vhost, &name, session)?;
        let definition = self.catalog.queue_definition(id).ok_or_else(|| self.catalog.no_queue(vhost, &name))?;
        let (home, name) = (definition.home, definition.name.shared());
        let ask = QueueRequest::Deletable { if_unused: delete.if_unused, if_empty: delete.if_empty };
        self.ask(
            slot,
            number,
            queue::Delete::ID,
            id,
            home,
            ask,
            PendingReply::DeleteQueue { no_wait: delete.no_wait, name },
            fx,
        )
    }
}

/// Whether who looks for an exchange says that it is a link to another broker (`x-harrier-window`), and if so, whether it must be
/// believed.
fn claimed_link(arguments: wire::TableRef<'_>) -> Option<bool> {
    arguments.get(X_HARRIER_WINDOW).and_then(wire::ValueRef::as_bool)
}

/// Arguments as they are kept.
fn owned(arguments: wire::TableRef<'_>) -> Result<Table, Refusal> {
    arguments.to_table().map_err(|fault| Refusal::detail(fault.reply_code(), fault))
}
