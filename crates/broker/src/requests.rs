//! Requests to queues, here and on other shards, and to the definitions; and what follows their responses.
//!
//! A connection awaits one response at a time, and its later commands wait with it.

use crate::control_plane::ControlPlane;
use crate::data_plane::DataPlane;
use crate::deferred_work::{CancelNotices, DeferredWork};
use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::ids::ConnectionSlot;
use crate::limits::{DEFINITIONS_PER_BATCH_MAX, QUEUE_REQUEST_WORK};
use crate::session_state::{DefinitionBatch, PendingCommand, PendingReply, PlainReply, ReadControl};
use crate::shard_message::{QueueRequest, QueueResponse, RefusedDefinition, ShardMessage};
use catalog::{Definition, Name, QueueId, Refusal, ResourceKind, ShardId};
use queues::{ConsumerRef, GetResult, PendingPurge, Queue, QueueEntry, Requester, UnsettledDelivery, WaitingGet};
use wire::ChannelNumber;
use wire::ShortStr;
use wire::method::{Method, basic, exchange, queue};

/// The command of a client that makes a request.
#[derive(Clone, Copy)]
pub(crate) struct CommandOrigin {
    pub slot: ConnectionSlot,
    pub channel: ChannelNumber,
    pub method: (u16, u16),
}

/// Requests and responses.
pub(crate) struct Requests<'a> {
    pub control: ControlPlane<'a>,
}

impl Requests<'_> {
    /// Makes a request to a queue. `reply` follows its response.
    pub fn request<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        (queue, home): (QueueId, ShardId),
        queue_request: QueueRequest,
        reply: PendingReply,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let CommandOrigin { slot, channel, method } = origin;
        let request = self.control.sessions.next_request();
        let requester = Requester { session: self.control.sessions.session_id(slot), channel, request };
        let command = PendingCommand { channel, method, request, reply };
        if !self.control.identity.is_home(home) {
            self.control.sessions.await_response(slot, command);
            fx.batch(home).push(ShardMessage::Request { requester, queue, request: queue_request });
            return Ok(ReadControl::Pause);
        }
        // A new consumer is sent consume-ok before its first delivery: the queue is dispatched after the reply.
        let next_dead_letter = self.control.data.dispatcher.queues.housekeeping.dead_letters.next_number();
        let response = self.respond(requester, queue, queue_request, fx);
        if matches!(response, QueueResponse::Deferred) {
            self.control.sessions.await_response(slot, command);
            self.control.dispatch_due(fx);
            return Ok(ReadControl::Pause);
        }
        let control = self.follow(slot, command, response, fx)?;
        self.control.dispatch_due(fx);
        if let Some(numbers) = self.control.data.dead_letters_since(next_dead_letter) {
            // Its dead letters go before its next command, so that they are no more than a turn can cause.
            self.control.sessions.defer(slot, DeferredWork::AwaitDeadLetters(numbers));
            return Ok(ReadControl::Pause);
        }
        Ok(control)
    }

    /// Sends the response to a request to whoever made it, here or on another shard.
    pub fn send_response<E: Effects>(&mut self, requester: Requester, response: QueueResponse, fx: &mut E) {
        let to = requester.session.shard;
        match response {
            QueueResponse::Deferred => {}
            response if self.control.identity.is_home(to) => self.on_response(requester, response, fx),
            response => fx.batch(to).push(ShardMessage::Response { requester, response }),
        }
    }

    /// Responds to a request to a queue of this shard.
    pub fn respond<E: Effects>(
        &mut self,
        requester: Requester,
        id: QueueId,
        request: QueueRequest,
        fx: &mut E,
    ) -> QueueResponse {
        let dispatcher = &mut self.control.data.dispatcher;
        if let QueueRequest::ReplyConsumer(address) = request {
            return match dispatcher.channels.reply_address(address.channel) {
                Some(own) if own.nonce == address.nonce => QueueResponse::Counts { messages: 0, consumers: 1 },
                _ => QueueResponse::Gone,
            };
        }
        if let Some(refusal) = self.control.refuse_closed(id, &request) {
            return refusal;
        }
        let dispatcher = &mut self.control.data.dispatcher;
        dispatcher.work.draw(QUEUE_REQUEST_WORK);
        let is_use = match request {
            QueueRequest::Counts | QueueRequest::Get { .. } => true,
            // Nobody could use it.
            QueueRequest::Purge => dispatcher.queues.table.get(id).is_some_and(Queue::is_closed),
            _ => false,
        };
        if is_use {
            dispatcher.queues.note_use(id, dispatcher.now_us);
        }
        let Some(queue) = dispatcher.queues.table.get_mut(id) else { return QueueResponse::Gone };
        let (messages, consumers) = (count(queue.ready.len()), count(queue.consumers.len()));
        match request {
            QueueRequest::ReplyConsumer(_) => QueueResponse::Gone,
            QueueRequest::Counts => QueueResponse::Counts { messages, consumers },
            QueueRequest::Purge => match dispatcher.queues.purge(id) {
                Some(purged) => {
                    let response = self.begin_purge(id, PendingPurge::new(purged, messages, requester), fx);
                    self.control.data.dispatcher.pager().run_turns(fx);
                    response
                }
                None => QueueResponse::Counts { messages, consumers },
            },
            QueueRequest::Deletable { if_empty, .. } if if_empty && messages > 0 => {
                self.control.definitions.precondition_failed(id, "not empty")
            }
            QueueRequest::Deletable { if_unused, .. } if if_unused && consumers > 0 => {
                self.control.definitions.precondition_failed(id, "in use")
            }
            QueueRequest::Deletable { .. } => QueueResponse::Counts { messages, consumers },
            QueueRequest::Get { no_ack } => {
                let begin = dispatcher.queues.housekeeping.dead_letters.next_number();
                match dispatcher.queues.get(id, no_ack, dispatcher.now_us, &mut dispatcher.work, fx) {
                    GetResult::Empty => QueueResponse::Empty,
                    GetResult::OnPage => {
                        dispatcher.queues.housekeeping.paging.await_get(id, WaitingGet { requester, no_ack });
                        QueueResponse::Deferred
                    }
                    GetResult::Unfinished => {
                        let dead_letters = begin..dispatcher.queues.housekeeping.dead_letters.next_number();
                        let get = DeferredWork::Get { requester, queue: id, no_ack };
                        self.control.sessions.deferred.leave_behind(dead_letters, get);
                        QueueResponse::Deferred
                    }
                    GetResult::Message(QueueEntry { position, message, redelivered }, left) => QueueResponse::Message {
                        queue: id,
                        position,
                        message,
                        redelivered,
                        ack_required: !no_ack,
                        messages_left: count(left),
                    },
                }
            }
            QueueRequest::Consume(subscription) => {
                let alone = subscription.exclusive && (!queue.consumers.is_empty() || queue.is_single_active());
                if queue.consumers.is_exclusive() || alone {
                    return self.control.definitions.exclusive_use(id);
                }
                let consumer = if self.control.identity.is_home(requester.session.shard) {
                    ConsumerRef::Local(subscription.consumer)
                } else {
                    ConsumerRef::Remote(dispatcher.remotes.add(requester.session.shard, &subscription))
                };
                queue.add_consumer(consumer, subscription.priority, subscription.exclusive);
                queue.note_change(&mut dispatcher.queues.changes);
                dispatcher.queues.mark_due(id);
                QueueResponse::Done
            }
            QueueRequest::Cancel(consumer) => {
                let consumer = if self.control.identity.is_home(requester.session.shard) {
                    ConsumerRef::Local(consumer)
                } else {
                    match dispatcher.remotes.cancel(requester.session.shard, consumer) {
                        Some(key) => ConsumerRef::Remote(key),
                        None => return QueueResponse::Done,
                    }
                };
                self.remove_consumer(requester, id, consumer, fx)
            }
        }
    }

    /// Begins a purge. A response that waits for the store, or for messages that are dropped in other turns, comes later.
    fn begin_purge<E: Effects>(&mut self, id: QueueId, purge: PendingPurge, fx: &mut E) -> QueueResponse {
        let DataPlane { dispatcher, purges, .. } = &mut *self.control.data;
        let (messages, is_unfinished) = purges.begin(id, purge, &mut dispatcher.queues.table, &mut dispatcher.work, fx);
        if is_unfinished {
            self.control.sessions.deferred.leave(DeferredWork::Purge(id));
        }
        messages.map_or(QueueResponse::Deferred, QueueResponse::purged)
    }

    /// Goes on with the purges of a queue. Returns whether anything is left.
    pub fn run_purge<E: Effects>(&mut self, id: QueueId, fx: &mut E) -> bool {
        let DataPlane { dispatcher, purges, .. } = &mut *self.control.data;
        let (finished, is_unfinished) = purges.run(id, &mut dispatcher.queues.table, &mut dispatcher.work, fx);
        if let Some((requester, messages)) = finished {
            self.send_response(requester, QueueResponse::purged(messages), fx);
        }
        is_unfinished
    }

    /// The store has made everything up to this ticket durable.
    pub fn on_durable<E: Effects>(&mut self, ticket: u64, fx: &mut E) {
        while let Some((requester, messages)) = self.control.data.purges.next_durable(ticket) {
            self.send_response(requester, QueueResponse::purged(messages), fx);
        }
    }

    /// Messages of a queue have come: it answers those that waited for them, as far as the budget of the turn allows.
    pub fn answer_gets<E: Effects>(&mut self, id: QueueId, fx: &mut E) {
        let mut gets = self.control.data.dispatcher.queues.housekeeping.paging.take_gets(id);
        while !self.control.data.dispatcher.work.is_spent()
            && let Some(WaitingGet { requester, no_ack }) = gets.pop_front()
        {
            let response = self.respond(requester, id, QueueRequest::Get { no_ack }, fx);
            self.send_response(requester, response, fx);
        }
        self.control.sessions.deferred.leave_gets(id, gets);
    }

    /// Removes a consumer. If its queue is deleted with it, the response comes once that is visible on every shard.
    fn remove_consumer<E: Effects>(
        &mut self,
        requester: Requester,
        id: QueueId,
        consumer: ConsumerRef,
        fx: &mut E,
    ) -> QueueResponse {
        if !self.control.remove_consumer(id, consumer) {
            return QueueResponse::Done;
        }
        let definition = Definition::RemoveQueue { id };
        let is_made_at_once = self.control.identity.shards == 1 && !self.control.definitions.holds_changes();
        if requester.request == 0 || is_made_at_once {
            self.control.define(definition, fx);
            return QueueResponse::Done;
        }
        self.send_definitions(requester, vec![definition], false, fx);
        QueueResponse::Deferred
    }

    /// A response has come from elsewhere.
    pub fn on_response<E: Effects>(&mut self, requester: Requester, response: QueueResponse, fx: &mut E) {
        let slot = requester.session.slot;
        let Some(command) = self.control.sessions.take_pending(requester) else {
            // The requester is gone: a message that was on its way to it returns.
            if let QueueResponse::Message { queue, position, message, redelivered, ack_required, .. } = response {
                self.return_message(queue, QueueEntry { position, message, redelivered }, ack_required, fx);
            }
            return;
        };
        let (channel, method) = (command.channel, command.method);
        match self.follow(slot, command, response, fx) {
            Ok(ReadControl::Continue) => fx.resume(slot),
            // A response begins no batch: it belongs to a command that was made by itself.
            Ok(ReadControl::Pause | ReadControl::Batch) => {}
            Err(refusal) => {
                fx.refuse(slot, channel, refusal, method);
                fx.resume(slot);
            }
        }
    }

    /// Returns a message to its queue that nobody has seen.
    fn return_message<E: Effects>(&mut self, queue: QueueId, entry: QueueEntry, ack_required: bool, fx: &mut E) {
        let definition = self.control.definitions.catalog.queue_definition(queue);
        let Some(home) = definition.map(|definition| definition.home) else { return };
        if self.control.identity.is_home(home) {
            let dispatcher = &mut self.control.data.dispatcher;
            dispatcher.work.draw(dispatcher.queues.requeue(queue, entry, false, ack_required, fx));
            self.control.dispatch_due(fx);
        } else {
            fx.batch(home).push(ShardMessage::returned(queue, entry, ack_required));
        }
    }

    /// Replies to a command, or makes the request that follows.
    fn follow<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        command: PendingCommand,
        response: QueueResponse,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let PendingCommand { channel, method, reply, .. } = command;
        let origin = CommandOrigin { slot, channel, method };
        let counts = match &response {
            QueueResponse::Counts { messages, consumers } => (*messages, *consumers),
            _ => (0, 0),
        };
        let channels = &mut self.control.data.dispatcher.channels;
        if let QueueResponse::Refused(refusal) = response {
            if let PendingReply::Consuming { consumer, .. } = reply {
                self.control.data.dispatcher.drop_from_channel(consumer, fx);
            }
            return Err(refusal);
        }
        let mut send = |no_wait: bool, method: Method<'_>| {
            if !no_wait {
                fx.reply(slot, channel, method);
            }
        };
        match reply {
            PendingReply::Plain { no_wait, reply } => send(no_wait, plain_method(reply)),
            PendingReply::CountQueue { no_wait, name } => {
                // It may have been deleted again in the meantime.
                let identity = self.control.sessions.identity(slot)?;
                let (id, home, _) = self.control.definitions.queue(identity, name.as_bytes())?;
                let reply = PendingReply::QueueDeclared { no_wait, name };
                return self.request(origin, (id, home), QueueRequest::Counts, reply, fx);
            }
            PendingReply::QueueDeclared { name, .. } if matches!(response, QueueResponse::Gone) => {
                let vhost = self.control.sessions.identity(slot)?.vhost;
                return Err(self.control.definitions.catalog.no_queue(vhost, name.as_bytes()));
            }
            PendingReply::QueueDeclared { no_wait, name } => send(
                no_wait,
                Method::QueueDeclareOk(queue::DeclareOk {
                    queue: short(name.as_bytes()),
                    message_count: counts.0,
                    consumer_count: counts.1,
                }),
            ),
            PendingReply::DeleteQueue { no_wait, name } => {
                let Ok(identity) = self.control.sessions.identity(slot) else { return Ok(ReadControl::Continue) };
                let definition = Definition::DeleteQueue {
                    vhost: identity.vhost,
                    name: Name::new(ResourceKind::Queue, name.as_bytes())?,
                    session: Some(identity.session),
                };
                let reply = PendingReply::QueueDeleted { no_wait, messages: counts.0, cancelled: Vec::new() };
                return self.define(origin, definition, reply, fx);
            }
            PendingReply::QueueDeleted { no_wait, messages, cancelled } => {
                send(no_wait, Method::QueueDeleteOk(queue::DeleteOk { message_count: messages }));
                if let Some(channel) = self.control.sessions.channel_key(slot, channel) {
                    let mut notices = CancelNotices { channel, tags: cancelled.into_iter() };
                    if !self.control.send_cancels(&mut notices, fx) {
                        self.control.sessions.defer(slot, DeferredWork::NotifyCancelled(Box::new(notices)));
                        return Ok(ReadControl::Pause);
                    }
                }
            }
            PendingReply::QueuePurged { no_wait } => {
                send(no_wait, Method::QueuePurgeOk(queue::PurgeOk { message_count: counts.0 }))
            }
            PendingReply::Consuming { no_wait, consumer } => {
                let Some(found) = channels.consumer(consumer) else { return Ok(ReadControl::Continue) };
                if matches!(response, QueueResponse::Gone) {
                    let refusal = self.control.definitions.catalog.queue_is_gone(found.queue);
                    self.control.data.dispatcher.drop_from_channel(consumer, fx);
                    return Err(refusal);
                }
                send(no_wait, Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: short(&found.tag) }));
            }
            PendingReply::Cancelled { no_wait, consumer, tag } => {
                send(no_wait, Method::BasicCancelOk(basic::CancelOk { consumer_tag: short(&tag) }));
                self.control.data.dispatcher.drop_from_channel(consumer, fx);
            }
            PendingReply::Get { no_ack } => match response {
                QueueResponse::Message { queue, position, message, redelivered, messages_left, .. } => {
                    let Some(key) = self.control.sessions.channel_key(slot, channel) else {
                        return Ok(ReadControl::Continue);
                    };
                    let definition = self.control.definitions.catalog.queue_definition(queue);
                    let home = definition.map_or(self.control.identity.shard, |definition| definition.home);
                    let is_taken = no_ack && message.is_persistent() && self.control.is_stored(queue);
                    let Dispatcher { channels, work, .. } = &mut self.control.data.dispatcher;
                    work.draw(message.content().copying_work());
                    let delivery = UnsettledDelivery { queue, home, position, message, consumer: None };
                    channels.deliver_get(key, delivery, !no_ack, redelivered, messages_left, fx);
                    if is_taken {
                        self.control.data.dispatcher.take(queue, home, position, fx);
                    }
                }
                _ => {
                    send(false, Method::BasicGetEmpty(basic::GetEmpty {}));
                    if let Some(key) = self.control.sessions.channel_key(slot, channel) {
                        channels.count(key, |stats| stats.get_empty += 1);
                    }
                }
            },
            PendingReply::DefinitionBatch { refusal: Some(refusal), .. } => return Err(*refusal),
            PendingReply::DefinitionBatch { refusal: None, .. } => {}
            PendingReply::Commit => unreachable!("a commit waits for its messages, not for a response"),
        }
        Ok(ReadControl::Continue)
    }

    /// A change of definitions. `reply` follows once every shard has made it.
    pub fn define<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        definition: Definition,
        reply: PendingReply,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let CommandOrigin { slot, channel, method } = origin;
        let user = self.control.sessions.identity(slot)?.user;
        self.control.definitions.catalog.authorize(user, &definition)?;
        let outcomes_wait = self.control.definitions.outcomes_wait();
        if outcomes_wait && self.can_batch(&definition, &reply) {
            return Ok(self.batch(origin, definition, fx));
        }
        let request = self.control.sessions.next_request();
        let requester = Requester { session: self.control.sessions.session_id(slot), channel, request };
        self.control.sessions.await_response(slot, PendingCommand { channel, method, request, reply });
        if !outcomes_wait {
            let executed = self.control.execute(definition, fx);
            if let Ok(false) = executed {
                self.control.definitions.await_finish(requester, Ok(()));
                return Ok(ReadControl::Pause);
            }
            // It was the first one that is journaled.
            if executed.is_ok() && self.control.definitions.outcomes_wait() {
                self.control.definitions.await_durable(requester, Ok(()));
                return Ok(ReadControl::Pause);
            }
            let command = self.control.sessions.take_pending(requester);
            executed?;
            let Some(command) = command else { return Ok(ReadControl::Continue) };
            let control = self.follow(slot, command, QueueResponse::Done, fx)?;
            self.control.dispatch_due(fx);
            return Ok(control);
        }
        self.send_definitions(requester, vec![definition], false, fx);
        Ok(ReadControl::Pause)
    }

    /// Nothing is to be changed: `reply` follows once every shard has made the changes before, and those are durable. What a client
    /// finds done may be the work of another one, whose answer is still to come.
    pub fn await_definitions<E: Effects>(
        &mut self,
        origin: CommandOrigin,
        reply: PendingReply,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let CommandOrigin { slot, channel, method } = origin;
        let request = self.control.sessions.next_request();
        let command = PendingCommand { channel, method, request, reply };
        if !self.control.definitions.outcomes_wait() {
            return self.follow(slot, command, QueueResponse::Done, fx);
        }
        let requester = Requester { session: self.control.sessions.session_id(slot), channel, request };
        self.control.sessions.await_response(slot, command);
        self.send_definitions(requester, Vec::new(), false, fx);
        Ok(ReadControl::Pause)
    }

    /// Changes of definitions for a requester.
    fn send_definitions<E: Effects>(
        &mut self,
        requester: Requester,
        definitions: Vec<Definition>,
        no_wait: bool,
        fx: &mut E,
    ) {
        self.control.send_definitions(Some(requester), definitions, no_wait, fx);
        self.send_outcomes(fx);
    }

    /// Shard 0: sends the outcomes that are visible on every shard to their requesters.
    pub fn send_outcomes<E: Effects>(&mut self, fx: &mut E) {
        while let Some((requester, result)) = self.control.definitions.next_outcome() {
            let to = requester.session.shard;
            if self.control.identity.is_home(to) {
                self.on_definition_outcome(requester, result, fx);
            } else {
                fx.batch(to).push(ShardMessage::DefinitionOutcome { requester, result });
            }
        }
    }

    /// The outcome of changes that a connection of this shard requested.
    pub fn on_definition_outcome<E: Effects>(
        &mut self,
        requester: Requester,
        result: Result<(), RefusedDefinition>,
        fx: &mut E,
    ) {
        let response = match result {
            Ok(()) => QueueResponse::Done,
            Err(RefusedDefinition { made, refusal }) => {
                if let Some(command) = self.control.sessions.pending(requester)
                    && let PendingReply::DefinitionBatch { methods, .. } = &command.reply
                    && let Some(method) = methods.get(made)
                {
                    command.method = *method;
                }
                QueueResponse::Refused(refusal)
            }
        };
        self.on_response(requester, response, fx);
    }

    /// Whether a definition of a client waits for others. Where routing keys are restricted, the exchange that a binding is
    /// checked against must be known here, and may be part of the batch.
    fn can_batch(&self, definition: &Definition, reply: &PendingReply) -> bool {
        let catalog = &self.control.definitions.catalog;
        let adds = match (definition, reply) {
            (
                Definition::DeclareExchange { .. } | Definition::BindExchange { .. } | Definition::BindQueue { .. },
                PendingReply::Plain { no_wait, .. },
            ) => *no_wait,
            (Definition::DeclareQueue { vhost, name, .. }, PendingReply::CountQueue { no_wait, .. }) => {
                *no_wait && catalog.queue(*vhost, name.as_bytes()).is_none()
            }
            _ => false,
        };
        adds && !catalog.restricts_topics()
    }

    /// Adds a checked definition to its connection's batch.
    fn batch<E: Effects>(&mut self, origin: CommandOrigin, definition: Definition, fx: &mut E) -> ReadControl {
        let Some(session) = self.control.sessions.get_mut(origin.slot) else { return ReadControl::Continue };
        let definitions = session.batch_definition(origin.channel, origin.method, definition);
        if definitions < DEFINITIONS_PER_BATCH_MAX {
            return ReadControl::Batch;
        }
        self.send_batch(origin.slot, None, fx);
        ReadControl::Pause
    }

    /// Sends a connection's batch of definitions to shard 0; the connection awaits its outcome. `refused` is the method behind
    /// it, whose refusal follows.
    pub fn send_batch<E: Effects>(&mut self, slot: ConnectionSlot, refused: Option<(Refusal, (u16, u16))>, fx: &mut E) {
        let session = self.control.sessions.get_mut(slot);
        let Some(batch) = session.and_then(|session| session.definition_batch.take()) else { return };
        let DefinitionBatch { channel, definitions, methods } = *batch;
        let request = self.control.sessions.next_request();
        let requester = Requester { session: self.control.sessions.session_id(slot), channel, request };
        let (refusal, method) = refused.map_or((None, (0, 0)), |(refusal, method)| (Some(Box::new(refusal)), method));
        let reply = PendingReply::DefinitionBatch { methods, refusal };
        self.control.sessions.await_response(slot, PendingCommand { channel, method, request, reply });
        self.send_definitions(requester, definitions, true, fx);
    }

    /// Refuses a method. If it follows a batch, the outcome of that comes first.
    #[cold]
    pub fn refuse_behind_batch<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        refusal: Refusal,
        method: (u16, u16),
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let session = self.control.sessions.get(slot);
        if session.is_none_or(|session| session.definition_batch.is_none()) {
            return Err(refusal);
        }
        self.send_batch(slot, Some((refusal, method)), fx);
        Ok(ReadControl::Pause)
    }
}

fn plain_method(reply: PlainReply) -> Method<'static> {
    match reply {
        PlainReply::ExchangeDeclared => Method::ExchangeDeclareOk(exchange::DeclareOk {}),
        PlainReply::ExchangeDeleted => Method::ExchangeDeleteOk(exchange::DeleteOk {}),
        PlainReply::ExchangeBound => Method::ExchangeBindOk(exchange::BindOk {}),
        PlainReply::ExchangeUnbound => Method::ExchangeUnbindOk(exchange::UnbindOk {}),
        PlainReply::QueueBound => Method::QueueBindOk(queue::BindOk {}),
        PlainReply::QueueUnbound => Method::QueueUnbindOk(queue::UnbindOk {}),
    }
}

/// A tag or name that came as a short string, or was made as short as one.
pub(crate) fn short(bytes: &[u8]) -> ShortStr<'_> {
    ShortStr::new(bytes).unwrap_or(ShortStr::EMPTY)
}

/// A count as AMQP carries it.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
