//! Definitions: exchanges, queues and bindings come and go, on every shard alike.
//!
//! Enters: declare, delete, bind, unbind.  Leaves: changes of the catalog, made by every replica in one order.
//! Owns:   shard 0's list of changes that not every replica has made yet.
//! Never:  answers before the change is visible on every shard.

use super::consume::short;
use super::{Broker, Defining, Flow, find, no_channel};
use crate::channel::ChannelKey;
use crate::direct_reply::PSEUDO_QUEUE;
use crate::effects::{Effects, Slot};
use crate::letter::{Answer, Ask, Asker, Letter};
use crate::peer::{Awaiting, PlainReply, Then};
use crate::queue::Queue;
use catalog::{
    Definition, ExchangeKind, Executed, Kind, Name, Operation, Outcome, Refusal, Resource, SessionId, ShardId, UserId,
    VhostId,
};
use std::sync::Arc;
use wire::Table;
use wire::method::{Method, exchange, queue};

impl Broker {
    fn whose(&self, slot: Slot) -> Result<(UserId, VhostId, SessionId), Refusal> {
        let peer = self.tables.peers.get(slot as usize).and_then(|peer| peer.as_ref()).ok_or_else(no_channel)?;
        Ok((peer.user, peer.vhost, peer.session))
    }

    /// `exchange.declare`.
    pub(super) fn exchange_declare<E: Effects>(
        &mut self,
        slot: Slot,
        number: u16,
        declare: exchange::Declare<'_>,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let (user, vhost, _) = self.whose(slot)?;
        let name = Name::new(Kind::Exchange, declare.exchange.as_bytes())?;
        if declare.passive {
            if self.catalog.exchange(vhost, name.as_bytes()).is_none() {
                return Err(self.catalog.no_exchange(vhost, name.as_bytes()));
            }
            if !declare.no_wait {
                fx.reply(slot, number, Method::ExchangeDeclareOk(exchange::DeclareOk {}));
            }
            return Ok(Flow::Go);
        }
        let kind = ExchangeKind::parse(declare.kind.as_bytes())?;
        self.catalog.check(user, vhost, Operation::Configure, Resource::Exchange, name.as_bytes())?;
        let arguments = owned(declare.arguments)?;
        if let Some(alternate) = arguments.get("alternate-exchange").and_then(|value| value.as_bytes()) {
            self.catalog.check(user, vhost, Operation::Read, Resource::Exchange, name.as_bytes())?;
            self.catalog.check(user, vhost, Operation::Write, Resource::Exchange, alternate)?;
        }
        let definition = Definition::DeclareExchange {
            vhost,
            name,
            kind,
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments,
        };
        let then = Then::Reply { no_wait: declare.no_wait, reply: PlainReply::ExchangeDeclared };
        self.define(slot, number, exchange::Declare::ID, definition, then, fx)
    }

    /// `exchange.delete`.
    pub(super) fn exchange_delete<E: Effects>(
        &mut self,
        slot: Slot,
        number: u16,
        delete: exchange::Delete<'_>,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let (user, vhost, _) = self.whose(slot)?;
        let name = Name::new(Kind::Exchange, delete.exchange.as_bytes())?;
        self.catalog.check(user, vhost, Operation::Configure, Resource::Exchange, name.as_bytes())?;
        let definition = Definition::DeleteExchange { vhost, name, if_unused: delete.if_unused };
        let then = Then::Reply { no_wait: delete.no_wait, reply: PlainReply::ExchangeDeleted };
        self.define(slot, number, exchange::Delete::ID, definition, then, fx)
    }

    /// `exchange.bind` and `exchange.unbind`: write to the destination, read from the source.
    pub(super) fn exchange_bind<E: Effects>(
        &mut self,
        slot: Slot,
        number: u16,
        bind: exchange::Bind<'_>,
        binds: bool,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let (user, vhost, _) = self.whose(slot)?;
        let source = Name::new(Kind::Exchange, bind.source.as_bytes())?;
        let destination = Name::new(Kind::Exchange, bind.destination.as_bytes())?;
        self.catalog.check(user, vhost, Operation::Write, Resource::Exchange, destination.as_bytes())?;
        self.catalog.check(user, vhost, Operation::Read, Resource::Exchange, source.as_bytes())?;
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
        self.define(slot, number, method, definition, Then::Reply { no_wait: bind.no_wait, reply }, fx)
    }

    /// `queue.declare`.
    pub(super) fn queue_declare<E: Effects>(
        &mut self,
        slot: Slot,
        number: u16,
        key: ChannelKey,
        declare: queue::Declare<'_>,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let (user, vhost, session) = self.whose(slot)?;
        let no_wait = declare.no_wait;
        if declare.queue.as_bytes() == PSEUDO_QUEUE.as_bytes() {
            if !no_wait {
                let ok =
                    queue::DeclareOk { queue: short(PSEUDO_QUEUE.as_bytes()), message_count: 0, consumer_count: 1 };
                fx.reply(slot, number, Method::QueueDeclareOk(ok));
            }
            return Ok(Flow::Go);
        }
        if declare.passive {
            let name = self.queue_name(key, declare.queue.as_bytes())?;
            let id = self.catalog.queue_for(vhost, &name, session)?;
            let definition = self.catalog.queue_definition(id).ok_or_else(|| self.catalog.no_queue(vhost, &name))?;
            let (home, name) = (definition.home, definition.name.shared());
            self.note_declared(key, &name);
            return self.ask(
                slot,
                number,
                queue::Declare::ID,
                id,
                home,
                Ask::Counts,
                Then::QueueDeclared { no_wait, name },
                fx,
            );
        }
        let server_named = declare.queue.as_bytes().is_empty();
        let name = if server_named {
            Name::from(&*format!("amq.gen-{}", self.random_name(fx)))
        } else {
            Name::new(Kind::Queue, declare.queue.as_bytes())?
        };
        self.catalog.check(user, vhost, Operation::Configure, Resource::Queue, name.as_bytes())?;
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
        self.define(slot, number, queue::Declare::ID, definition, Then::CountQueue { no_wait, name: name.shared() }, fx)
    }

    /// Methods that name no queue mean this one from now on; should the declaration fail, the channel closes anyway.
    fn note_declared(&mut self, key: ChannelKey, name: &str) {
        if let Some(channel) = self.tables.channels.get_mut(key) {
            channel.last_queue = name.into();
        }
    }

    /// A queue just declared. It may have been deleted again in the meantime.
    pub(super) fn declared(&mut self, slot: Slot, name: &str) -> Result<(catalog::QueueId, ShardId), Refusal> {
        let (_, vhost, session) = self.whose(slot)?;
        let id = self.catalog.queue_for(vhost, name.as_bytes(), session)?;
        let definition =
            self.catalog.queue_definition(id).ok_or_else(|| self.catalog.no_queue(vhost, name.as_bytes()))?;
        Ok((id, definition.home))
    }

    /// `queue.bind` and `queue.unbind`: write to the queue, read from the exchange.
    pub(super) fn queue_bind<E: Effects>(
        &mut self,
        slot: Slot,
        number: u16,
        key: ChannelKey,
        bind: queue::Bind<'_>,
        binds: bool,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let (user, vhost, session) = self.whose(slot)?;
        let name = self.queue_name(key, bind.queue.as_bytes())?;
        let named = !bind.queue.as_bytes().is_empty();
        let queue = Name::new(Kind::Queue, &name)?;
        let exchange = Name::new(Kind::Exchange, bind.exchange.as_bytes())?;
        self.catalog.check(user, vhost, Operation::Write, Resource::Queue, queue.as_bytes())?;
        self.catalog.check(user, vhost, Operation::Read, Resource::Exchange, exchange.as_bytes())?;
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
        self.define(slot, number, method, definition, Then::Reply { no_wait: bind.no_wait, reply }, fx)
    }

    /// `queue.purge`.
    pub(super) fn queue_purge<E: Effects>(
        &mut self,
        slot: Slot,
        number: u16,
        key: ChannelKey,
        purge: queue::Purge<'_>,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let name = self.queue_name(key, purge.queue.as_bytes())?;
        let (id, home) = self.queue_for(slot, &name, Operation::Read)?;
        self.ask(slot, number, queue::Purge::ID, id, home, Ask::Purge, Then::QueuePurged { no_wait: purge.no_wait }, fx)
    }

    /// `queue.delete`; one that does not exist is deleted without complaint, as in RabbitMQ.
    pub(super) fn queue_delete<E: Effects>(
        &mut self,
        slot: Slot,
        number: u16,
        key: ChannelKey,
        delete: queue::Delete<'_>,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let (user, vhost, session) = self.whose(slot)?;
        let name = self.queue_name(key, delete.queue.as_bytes())?;
        self.catalog.check(user, vhost, Operation::Configure, Resource::Queue, &name)?;
        if self.catalog.queue(vhost, &name).is_none() {
            if !delete.no_wait {
                fx.reply(slot, number, Method::QueueDeleteOk(queue::DeleteOk { message_count: 0 }));
            }
            return Ok(Flow::Go);
        }
        let id = self.catalog.queue_for(vhost, &name, session)?;
        let definition = self.catalog.queue_definition(id).ok_or_else(|| self.catalog.no_queue(vhost, &name))?;
        let (home, name) = (definition.home, definition.name.shared());
        let ask = Ask::Deletable { if_unused: delete.if_unused, if_empty: delete.if_empty };
        self.ask(
            slot,
            number,
            queue::Delete::ID,
            id,
            home,
            ask,
            Then::DeleteQueue { no_wait: delete.no_wait, name },
            fx,
        )
    }

    /// A change of definitions; `then` follows once every shard has made it.
    pub(super) fn define<E: Effects>(
        &mut self,
        slot: Slot,
        number: u16,
        method: (u16, u16),
        definition: Definition,
        then: Then,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        if self.options.shards == 1 {
            let executed = self.catalog.execute(&definition)?;
            self.carry_out(&executed, fx);
            let flow = self.follow(slot, Awaiting { channel: number, method, question: 0, then }, Answer::Done, fx)?;
            self.dispatch_due(fx);
            return Ok(flow);
        }
        let question = self.next_question();
        let asker = Some(Asker { session: self.session_of(slot), channel: number, question });
        self.wait_for(slot, Awaiting { channel: number, method, question, then });
        self.send_definition(asker, definition, fx);
        Ok(Flow::Wait)
    }

    /// A change of definitions that nobody waits for.
    pub(super) fn define_unasked<E: Effects>(&mut self, definition: Definition, fx: &mut E) {
        self.send_definition(None, definition, fx);
    }

    fn send_definition<E: Effects>(&mut self, asker: Option<Asker>, definition: Definition, fx: &mut E) {
        if self.options.shard == ShardId(0) {
            self.define_here(ShardId(0), asker, definition, fx);
        } else {
            fx.batch(ShardId(0)).push(Letter::Define { asker, definition: Box::new(definition) });
        }
    }

    /// Shard 0 makes a change, and every replica after it.
    pub(super) fn define_here<E: Effects>(
        &mut self,
        to: ShardId,
        asker: Option<Asker>,
        definition: Definition,
        fx: &mut E,
    ) {
        let result = self.catalog.execute(&definition);
        if let Ok(executed) = &result {
            if executed.changed {
                self.version += 1;
                let definition = Arc::new(definition);
                for shard in (1..self.options.shards).map(ShardId) {
                    fx.batch(shard).push(Letter::Apply { version: self.version, definition: Arc::clone(&definition) });
                }
            }
            self.carry_out(executed, fx);
        }
        if let Some(asker) = asker {
            // Even a change that changed nothing waits for those before it: what it found may not be visible everywhere yet.
            let result = result.map(|executed| executed.outcome);
            self.defining.push_back(Defining { version: self.version, to, asker, result });
            self.answer_defined(fx);
        }
    }

    /// Answers the changes that every replica has made.
    pub(super) fn answer_defined<E: Effects>(&mut self, fx: &mut E) {
        let everywhere = self.applied.iter().skip(1).copied().min().unwrap_or(self.version);
        while self.defining.front().is_some_and(|defining| defining.version <= everywhere) {
            let Some(Defining { to, asker, result, .. }) = self.defining.pop_front() else {
                return;
            };
            if self.is_home(to) {
                self.defined(asker, result, fx);
            } else {
                fx.batch(to).push(Letter::Defined { asker, result });
            }
        }
    }

    /// This replica makes a change of shard 0.
    pub(super) fn apply_definition<E: Effects>(&mut self, version: u64, definition: &Definition, fx: &mut E) {
        assert_eq!(version, self.version + 1, "changes arrive in their order");
        self.version = version;
        match self.catalog.execute(definition) {
            Ok(executed) => self.carry_out(&executed, fx),
            Err(refusal) => {
                unreachable!("replicas are alike, and shard 0 made this change: {refusal}")
            }
        }
    }

    /// What came of a change that a connection of this shard asked for.
    pub(super) fn defined<E: Effects>(&mut self, asker: Asker, result: Result<Outcome, Refusal>, fx: &mut E) {
        let answer = match result {
            Ok(_) => Answer::Done,
            Err(refusal) => Answer::Refused(refusal),
        };
        self.answered(asker, answer, fx);
    }

    /// Queues that a change made or removed and that live here.
    fn carry_out<E: Effects>(&mut self, executed: &Executed, fx: &mut E) {
        for removed in &executed.queues_removed {
            if self.is_home(removed.home) {
                self.drop_queue(removed.id, fx);
            } else {
                self.full.remove(&removed.id);
            }
        }
        if let Outcome::Queue { id, home, created: true } = executed.outcome
            && self.is_home(home)
            && let Some(definition) = self.catalog.queue_definition(id)
        {
            let queue =
                Queue::new(id, definition.name.shared(), definition.vhost, definition.durable, definition.auto_delete);
            let index = id.index as usize;
            if self.queues.len() <= index {
                self.queues.resize_with(index + 1, || None);
            }
            assert!(find(&mut self.queues, id).is_none(), "a queue is created once");
            self.queues[index] = Some(Box::new(queue));
        }
    }
}

/// Arguments as they are kept.
fn owned(arguments: wire::TableRef<'_>) -> Result<Table, Refusal> {
    arguments.to_table().map_err(|fault| Refusal::detail(fault.reply_code(), fault))
}
