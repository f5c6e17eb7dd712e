//! Methods without content on an open channel: what each means for the channel, its queue, or the definitions.

use crate::channel::{ChannelMode, not_open, unknown_tag};
use crate::channels::Channels;
use crate::commits::Commits;
use crate::consumer::{Consumer, ConsumerState, window_of};
use crate::declarations;
use crate::deferred_work::DeferredWork;
use crate::direct_reply::{PSEUDO_QUEUE, ReplyAddress, ReplyConsumer};
use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::ids::{ChannelKey, ConnectionSlot, SessionIdentity};
use crate::limits::{CONSUMER_ADDITION_WORK, CONSUMERS_PER_CHANNEL_MAX, METHOD_WORK};
use crate::requests::{CommandOrigin, Requests, short};
use crate::rollback::Rollback;
use crate::session_state::{PendingReply, ReadControl};
use crate::shard_message::QueueRequest;
use catalog::{Name, PermissionKind, QueueId, Refusal, Resource, ResourceKind};
use queues::{SettlementOutcome, Subscription};
use std::collections::VecDeque;
use wire::method::{Method, access, basic, channel, confirm, exchange, queue, tx};
use wire::{ChannelNumber, DeliveryTag, ReplyCode};

/// The commands of clients.
pub(crate) struct Commands<'a> {
    pub requests: Requests<'a>,
}

impl Commands<'_> {
    /// A method without content on an open channel.
    pub fn execute<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        method: Method<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let origin = CommandOrigin { slot, channel: number, method: method.id() };
        let result = self.execute_method(origin, method, fx);
        result.or_else(|refusal| self.requests.refuse_behind_batch(slot, refusal, origin.method, fx))
    }

    #[inline]
    fn execute_method<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        method: Method<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let CommandOrigin { slot, channel: number, .. } = origin;
        let key = self.requests.control.sessions.channel_key(slot, number).ok_or_else(not_open)?;
        let mut reply = |no_wait: bool, reply: Method<'_>| {
            if !no_wait {
                fx.reply(slot, number, reply);
            }
        };
        if !matches!(method, Method::BasicAck(_) | Method::BasicNack(_) | Method::BasicReject(_)) {
            self.requests.control.data.dispatcher.work.draw(METHOD_WORK);
        }
        match method {
            Method::BasicAck(ack) => {
                self.settle(key, ack.delivery_tag, ack.multiple, SettlementOutcome::Acknowledged, fx)?;
            }
            Method::BasicNack(nack) => {
                self.settle(key, nack.delivery_tag, nack.multiple, negative(nack.requeue), fx)?;
            }
            Method::BasicReject(reject) => {
                self.settle(key, reject.delivery_tag, false, negative(reject.requeue), fx)?;
            }
            Method::BasicConsume(consume) => return self.consume(origin, key, consume, fx),
            Method::BasicCancel(cancel) => return self.cancel(origin, key, cancel, fx),
            Method::BasicGet(get) => {
                let queue = self.queue_for(slot, key, get.queue.as_bytes())?;
                let no_ack = get.no_ack;
                let reply = PendingReply::Get { no_ack };
                return self.requests.request(origin, queue, QueueRequest::Get { no_ack }, reply, fx);
            }
            // The replies to these three come before the deliveries they cause, as in RabbitMQ.
            Method::BasicQos(qos) => {
                self.set_prefetch(key, qos)?;
                fx.reply(slot, number, Method::BasicQosOk(basic::QosOk {}));
                self.requests.control.wake_channel(key, fx);
            }
            Method::BasicRecover(recover) => {
                check_recover(recover.requeue)?;
                fx.reply(slot, number, Method::BasicRecoverOk(basic::RecoverOk {}));
                self.recover(key, fx)?;
            }
            Method::BasicRecoverAsync(recover) => {
                check_recover(recover.requeue)?;
                self.recover(key, fx)?;
            }
            // A client's answer to the broker's own `basic.cancel`; RabbitMQ's clients send it only when asked to.
            Method::BasicCancelOk(_) => {}
            Method::ChannelFlow(flow) => {
                self.channels().open_channel(key)?.flow = flow.active;
                self.channels().note_change(key);
                fx.reply(slot, number, Method::ChannelFlowOk(channel::FlowOk { active: flow.active }));
                self.requests.control.wake_channel(key, fx);
            }
            Method::ConfirmSelect(select) => {
                // What it has published so far was without confirms.
                self.channels().fold_counts(key);
                self.channels().open_channel(key)?.select_confirms()?;
                self.channels().note_change(key);
                reply(select.no_wait, Method::ConfirmSelectOk(confirm::SelectOk {}));
            }
            Method::TxSelect(_) => {
                self.channels().open_channel(key)?.select_transactions()?;
                self.channels().note_change(key);
                reply(false, Method::TxSelectOk(tx::SelectOk {}));
            }
            Method::TxCommit(_) => {
                self.channels().note_change(key);
                return Commits { publishing: self.requests.control.publishing() }.begin(slot, number, key, fx);
            }
            Method::TxRollback(_) => {
                let operations = self.channels().open_channel(key)?.transaction()?.take().into_iter();
                self.channels().note_change(key);
                let mut rollback = Box::new(Rollback { channel: key, operations, is_asked: true });
                if !self.requests.control.roll_back(&mut rollback, fx) {
                    self.requests.control.sessions.defer(slot, DeferredWork::RollBack(rollback));
                }
            }
            Method::ExchangeDeclare(declare) => return self.declare_exchange(origin, declare, fx),
            Method::ExchangeDelete(delete) => {
                let (definition, reply) = declarations::delete_exchange(self.identity(slot)?, delete)?;
                return self.requests.define(origin, definition, reply, fx);
            }
            Method::ExchangeBind(bind) => {
                let (definition, reply) = declarations::bind_exchange(self.identity(slot)?, bind, true)?;
                return self.requests.define(origin, definition, reply, fx);
            }
            Method::ExchangeUnbind(unbind) => {
                let exchange::Unbind { destination, source, routing_key, no_wait, arguments } = unbind;
                let bind = exchange::Bind { destination, source, routing_key, no_wait, arguments };
                let (definition, reply) = declarations::bind_exchange(self.identity(slot)?, bind, false)?;
                return self.requests.define(origin, definition, reply, fx);
            }
            Method::QueueDeclare(declare) => return self.declare_queue(origin, key, declare, fx),
            Method::QueueBind(bind) => return self.bind_queue(origin, key, bind, true, fx),
            Method::QueueUnbind(unbind) => {
                let queue::Unbind { queue, exchange, routing_key, arguments } = unbind;
                let bind = queue::Bind { queue, exchange, routing_key, no_wait: false, arguments };
                return self.bind_queue(origin, key, bind, false, fx);
            }
            Method::QueuePurge(purge) => {
                let queue = self.queue_for(slot, key, purge.queue.as_bytes())?;
                let reply = PendingReply::QueuePurged { no_wait: purge.no_wait };
                return self.requests.request(origin, queue, QueueRequest::Purge, reply, fx);
            }
            Method::QueueDelete(delete) => return self.delete_queue(origin, key, delete, fx),
            // Tickets belong to AMQP 0-8; old clients request one and nobody checks it.
            Method::AccessRequest(_) => reply(false, Method::AccessRequestOk(access::RequestOk { ticket: 1 })),
            other => {
                let text = format!("NOT_IMPLEMENTED - method {} is not for a client to send", other.name());
                return Err(Refusal::connection(ReplyCode::NotImplemented, text));
            }
        }
        Ok(self.requests.control.sessions.read_control(slot))
    }

    fn channels(&mut self) -> &mut Channels {
        &mut self.requests.control.data.dispatcher.channels
    }

    fn identity(&self, slot: ConnectionSlot) -> Result<SessionIdentity, Refusal> {
        self.requests.control.sessions.identity(slot)
    }

    /// The queue that a method means, and its home, if the user may read from it.
    fn queue_for(
        &mut self,
        slot: ConnectionSlot,
        key: ChannelKey,
        name: &[u8],
    ) -> Result<(QueueId, catalog::ShardId), Refusal> {
        let name = self.channels().open_channel(key)?.queue_name(name)?;
        let identity = self.identity(slot)?;
        self.requests.control.definitions.queue_for(identity, &name, PermissionKind::Read)
    }

    /// `basic.ack`, `basic.nack`, `basic.reject`: in a transaction they wait for the commit.
    #[inline]
    fn settle<E: Effects>(
        &mut self,
        key: ChannelKey,
        tag: DeliveryTag,
        multiple: bool,
        outcome: SettlementOutcome,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let channel = self.channels().open_channel(key)?;
        if let ChannelMode::Transaction(_) = channel.mode {
            return self.settle_in_transaction(key, tag, multiple, outcome);
        }
        self.settle_now(key, tag, multiple, outcome, fx)
    }

    #[cold]
    fn settle_in_transaction(
        &mut self,
        key: ChannelKey,
        tag: DeliveryTag,
        multiple: bool,
        outcome: SettlementOutcome,
    ) -> Result<(), Refusal> {
        let Dispatcher { channels, work, .. } = &mut self.requests.control.data.dispatcher;
        let channel = channels.open_channel(key)?;
        let slot = channel.slot;
        let rest = channel.settle_in_transaction(tag, multiple, outcome, work)?;
        channels.note_change(key);
        if let Some(through) = rest {
            let work = DeferredWork::SettleInTransaction { channel: key, through, outcome };
            self.requests.control.sessions.defer(slot, work);
        }
        Ok(())
    }

    /// Settles tags, and wakes the consumers that may have more deliveries now.
    #[inline]
    fn settle_now<E: Effects>(
        &mut self,
        key: ChannelKey,
        tag: DeliveryTag,
        multiple: bool,
        outcome: SettlementOutcome,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let control = &mut self.requests.control;
        let catalog = &control.definitions.catalog;
        let dispatcher = &mut control.data.dispatcher;
        let next_dead_letter = dispatcher.queues.housekeeping.dead_letters.next_number();
        if multiple {
            let channel = dispatcher.channels.open_channel(key)?;
            let through = channel.ledger.range(tag).ok_or_else(|| unknown_tag(tag))?;
            let slot = channel.slot;
            if !dispatcher.settle_through(key, through, outcome, catalog, fx) {
                control.sessions.defer(slot, DeferredWork::Settle { channel: key, through, outcome });
                return Ok(());
            }
        } else {
            dispatcher.settle(key, tag, outcome, catalog, fx)?;
        }
        control.wake_channel(key, fx);
        if let Some(numbers) = control.data.dead_letters_since(next_dead_letter)
            && let Some(channel) = control.data.dispatcher.channels.get(key)
        {
            control.sessions.defer(channel.slot, DeferredWork::AwaitDeadLetters(numbers));
        }
        Ok(())
    }

    /// `basic.recover`: everything unsettled returns to its position, whether a transaction is open or not.
    fn recover<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) -> Result<(), Refusal> {
        self.settle_now(key, DeliveryTag::ALL, true, SettlementOutcome::Requeued, fx)
    }

    /// `basic.qos`.
    fn set_prefetch(&mut self, key: ChannelKey, qos: basic::Qos) -> Result<(), Refusal> {
        if qos.prefetch_size != 0 {
            let text = format!("NOT_IMPLEMENTED - prefetch_size!=0 ({})", qos.prefetch_size);
            return Err(Refusal::connection(ReplyCode::NotImplemented, text));
        }
        let channel = self.channels().open_channel(key)?;
        if qos.global {
            channel.prefetch_shared = qos.prefetch_count.into();
            let Dispatcher { channels, work, .. } = &mut self.requests.control.data.dispatcher;
            work.draw(channels.widen_windows(key));
        } else {
            channel.prefetch = qos.prefetch_count.into();
        }
        self.channels().note_change(key);
        Ok(())
    }

    /// `basic.consume`.
    fn consume<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        key: ChannelKey,
        consume: basic::Consume<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let tag: Box<[u8]> = match consume.consumer_tag.as_bytes() {
            [] => format!("amq.ctag-{}", declarations::random_name(fx)).into_bytes().into(),
            tag => tag.into(),
        };
        self.channels().check_tag_is_new(key, &tag)?;
        if consume.queue.as_bytes() == PSEUDO_QUEUE.as_bytes() {
            return self.consume_replies(origin, key, consume, tag, fx);
        }
        let (id, home) = self.queue_for(origin.slot, key, consume.queue.as_bytes())?;
        let priority = declarations::check_consumer(self.requests.control.definitions, id, consume.arguments)?;
        let control = &self.requests.control;
        let reports_taken = consume.no_ack && control.is_stored(id) && !control.identity.is_home(home);
        let channel = self.channels().open_channel(key)?;
        if channel.consumers.len() >= CONSUMERS_PER_CHANNEL_MAX {
            return Err(Refusal::channel(
                ReplyCode::ResourceError,
                "RESOURCE_ERROR - too many consumers on this channel",
            ));
        }
        let consumer = Consumer {
            channel: key,
            tag: tag.into(),
            queue: id,
            home,
            no_ack: consume.no_ack,
            exclusive: consume.exclusive,
            arguments: consume.arguments.as_bytes().into(),
            prefetch: channel.prefetch,
            unsettled: 0,
            priority,
            state: ConsumerState::Active,
            parked: VecDeque::new(),
            credit_due_messages: 0,
            credit_due_bytes: 0,
            credit_listed: false,
            window: window_of(channel.prefetch, channel.prefetch_shared, consume.no_ack),
            reports_taken,
        };
        let (no_ack, exclusive, credit_messages) = (consumer.no_ack, consume.exclusive, consumer.window);
        let consumer = self.channels().add_consumer(consumer);
        self.requests.control.data.dispatcher.work.draw(CONSUMER_ADDITION_WORK);
        let subscription = Subscription { consumer, no_ack, exclusive, priority, credit_messages };
        let reply = PendingReply::Consuming { no_wait: consume.no_wait, consumer };
        self.requests.request(origin, (id, home), QueueRequest::Consume(subscription), reply, fx)
    }

    /// `basic.consume` of direct replies.
    fn consume_replies<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        key: ChannelKey,
        consume: basic::Consume<'_>,
        tag: Box<[u8]>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        if !consume.no_ack {
            return Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - reply consumer cannot acknowledge",
            ));
        }
        let nonce = fx.random();
        let channel = self.channels().open_channel(key)?;
        if channel.reply_consumer.is_some() {
            return Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - reply consumer already set",
            ));
        }
        if !consume.no_wait {
            let ok = basic::ConsumeOk { consumer_tag: short(&tag) };
            fx.reply(origin.slot, origin.channel, Method::BasicConsumeOk(ok));
        }
        channel.reply_consumer = Some(ReplyConsumer { tag, nonce });
        Ok(ReadControl::Continue)
    }

    /// `basic.cancel`; an unknown tag is answered as a known one, as RabbitMQ does.
    fn cancel<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        key: ChannelKey,
        cancel: basic::Cancel<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let tag = cancel.consumer_tag.as_bytes();
        let channels = self.channels();
        if let Some(consumer) = channels.consumer_by_tag(key, tag) {
            let Some(found) = channels.consumer(consumer) else { return Ok(ReadControl::Continue) };
            let queue = (found.queue, found.home);
            let reply = PendingReply::Cancelled { no_wait: cancel.no_wait, consumer, tag: tag.into() };
            return self.requests.request(origin, queue, QueueRequest::Cancel(consumer), reply, fx);
        }
        if let Some(channel) = channels.get_mut(key)
            && channel.reply_consumer.as_ref().is_some_and(|consumer| *consumer.tag == *tag)
        {
            channel.reply_consumer = None;
        }
        if !cancel.no_wait {
            let ok = basic::CancelOk { consumer_tag: cancel.consumer_tag };
            fx.reply(origin.slot, origin.channel, Method::BasicCancelOk(ok));
        }
        Ok(ReadControl::Continue)
    }

    /// `exchange.declare`.
    fn declare_exchange<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        declare: exchange::Declare<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let identity = self.identity(origin.slot)?;
        if declare.passive {
            let name = Name::new(ResourceKind::Exchange, declare.exchange.as_bytes())?;
            let control = &mut self.requests.control;
            control.definitions.catalog.exchange_for(identity.vhost, name.as_bytes())?;
            if let Some(required) = declarations::claims_link(declare.arguments) {
                let is_link = declarations::accept_link(&control.definitions.catalog, identity, required)?;
                if let Some(session) = control.sessions.get_mut(origin.slot) {
                    session.is_link |= is_link;
                    session.pushes = true;
                }
            }
            if !declare.no_wait {
                fx.reply(origin.slot, origin.channel, Method::ExchangeDeclareOk(exchange::DeclareOk {}));
            }
            return Ok(ReadControl::Continue);
        }
        let (definition, reply) = declarations::declare_exchange(identity, declare)?;
        self.requests.define(origin, definition, reply, fx)
    }

    /// `queue.declare`.
    fn declare_queue<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        key: ChannelKey,
        declare: queue::Declare<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let session = self.identity(origin.slot)?;
        let no_wait = declare.no_wait;
        let name = declare.queue.as_bytes();
        if name == PSEUDO_QUEUE.as_bytes() {
            if !no_wait {
                let queue = short(PSEUDO_QUEUE.as_bytes());
                let ok = queue::DeclareOk { queue, message_count: 0, consumer_count: 1 };
                fx.reply(origin.slot, origin.channel, Method::QueueDeclareOk(ok));
            }
            return Ok(ReadControl::Continue);
        }
        let identity = self.requests.control.identity;
        if declare.passive {
            if let Some(address) = ReplyAddress::parse(name).filter(|address| address.shard.0 < identity.shards) {
                let reply = PendingReply::QueueDeclared { no_wait, name: String::from_utf8_lossy(name).into() };
                let no_queue = QueueId { index: u32::MAX, serial: 0 };
                let request = QueueRequest::ReplyConsumer(address);
                return self.requests.request(origin, (no_queue, address.shard), request, reply, fx);
            }
            let (id, home, name) = self.requests.control.definitions.queue(session, name)?;
            self.set_last_queue(key, &name);
            let reply = PendingReply::QueueDeclared { no_wait, name };
            return self.requests.request(origin, (id, home), QueueRequest::Counts, reply, fx);
        }
        let (definition, name) = declarations::declare_queue(session, declare, identity.shard, fx)?;
        if declare.exclusive
            && let Some(session) = self.requests.control.sessions.get_mut(origin.slot)
        {
            session.owns_queues = true;
        }
        self.set_last_queue(key, &name);
        self.requests.control.data.dispatcher.queues.declared += 1;
        self.requests.define(origin, definition, PendingReply::CountQueue { no_wait, name: name.shared() }, fx)
    }

    /// Methods that name no queue mean this one from now on; should its declaration fail, the channel is closed anyway.
    fn set_last_queue(&mut self, key: ChannelKey, name: &str) {
        if let Some(channel) = self.channels().get_mut(key) {
            channel.last_queue = name.into();
        }
    }

    /// `queue.bind` and `queue.unbind`.
    fn bind_queue<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        key: ChannelKey,
        bind: queue::Bind<'_>,
        binds: bool,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let identity = self.identity(origin.slot)?;
        let name = self.channels().open_channel(key)?.queue_name(bind.queue.as_bytes())?;
        let (definition, reply) = declarations::bind_queue(identity, &name, bind, binds)?;
        self.requests.define(origin, definition, reply, fx)
    }

    /// `queue.delete`; one that does not exist is deleted without complaint, as in RabbitMQ.
    fn delete_queue<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        key: ChannelKey,
        delete: queue::Delete<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let identity = self.identity(origin.slot)?;
        let name = self.channels().open_channel(key)?.queue_name(delete.queue.as_bytes())?;
        let definitions = &mut self.requests.control.definitions;
        definitions.catalog.check(identity.user, identity.vhost, PermissionKind::Configure, Resource::Queue, &name)?;
        if definitions.catalog.queue(identity.vhost, &name).is_none() {
            if delete.no_wait {
                return Ok(ReadControl::Continue);
            }
            let reply = PendingReply::QueueDeleted { no_wait: false, messages: 0, cancelled: Vec::new() };
            return self.requests.await_definitions(origin, reply, fx);
        }
        let (id, home, name) = definitions.queue(identity, &name)?;
        let request = QueueRequest::Deletable { if_unused: delete.if_unused, if_empty: delete.if_empty };
        let reply = PendingReply::DeleteQueue { no_wait: delete.no_wait, name };
        self.requests.request(origin, (id, home), request, reply, fx)
    }
}

fn check_recover(requeue: bool) -> Result<(), Refusal> {
    if requeue {
        return Ok(());
    }
    Err(Refusal::connection(ReplyCode::NotImplemented, "NOT_IMPLEMENTED - requeue=false"))
}

/// The outcome of a negative acknowledgement.
fn negative(requeue: bool) -> SettlementOutcome {
    if requeue { SettlementOutcome::Requeued } else { SettlementOutcome::Rejected }
}
