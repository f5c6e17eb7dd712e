//! Messages from other shards, carried out in the order they were written.

use crate::control_plane::ControlPlane;
use crate::early_publishes::{EarlyPublish, EarlyPublishes};
use crate::effects::Effects;
use crate::ids::{ConsumerRef, QueuePosition};
use crate::message::{Content, Message};
use crate::payload::Payload;
use crate::ready_messages::QueueEntry;
use crate::requests::Requests;
use crate::shard_message::{QueueResponse, ShardBatch, ShardMessage, ShardPayload};
use catalog::{QueueId, ShardId};

/// What a message from another shard may touch.
pub(crate) struct Inbox<'a> {
    pub requests: Requests<'a>,
    pub early: &'a mut EarlyPublishes,
}

impl<'a> Inbox<'a> {
    fn control(&mut self) -> &mut ControlPlane<'a> {
        &mut self.requests.control
    }

    /// Carries out a batch from another shard, and empties it.
    pub fn receive<E: Effects>(&mut self, from: ShardId, batch: &mut ShardBatch, fx: &mut E) {
        let mut messages = std::mem::take(&mut batch.messages);
        for message in messages.drain(..) {
            self.on_message(from, message, batch, fx);
        }
        batch.messages = messages;
        batch.clear();
        self.control().dispatch_due(fx);
    }

    fn on_message<E: Effects>(&mut self, from: ShardId, message: ShardMessage, batch: &ShardBatch, fx: &mut E) {
        match message {
            ShardMessage::Publish { payload, messages, queues, confirm } => {
                let queues = batch.queues(&queues);
                // Publishes behind an early one wait with it, so that none overtakes.
                let definitions = &self.requests.control.definitions;
                let early = !self.early.is_empty() || queues.iter().any(|&id| definitions.is_to_come(id));
                match payload {
                    ShardPayload::Packed(packed) => {
                        for content in batch.unpack(&packed, messages) {
                            if early && self.early.has_capacity() {
                                let message = content.keep(fx.pool());
                                self.early.push(EarlyPublish { from, message, queues: queues.into(), confirm });
                                continue;
                            }
                            self.accept(from, queues, &content, None, confirm, fx);
                        }
                    }
                    ShardPayload::Shared(message) if early && self.early.has_capacity() => {
                        self.early.push(EarlyPublish { from, message, queues: queues.into(), confirm });
                    }
                    ShardPayload::Shared(message) => {
                        self.accept(from, queues, &message.content(), Some(message.clone()), confirm, fx);
                    }
                }
            }
            ShardMessage::Deliver { consumer, queue, position, redelivered, ack_required, payload, messages } => {
                let channels = &mut self.requests.control.data.dispatcher.channels;
                match payload {
                    ShardPayload::Packed(packed) => {
                        for (at, content) in batch.unpack(&packed, messages).enumerate() {
                            let position = QueuePosition(position.0 + at as u64);
                            if channels.consumer(consumer).is_some() {
                                let payload = Payload::Passing(content, None);
                                channels.deliver_remote(consumer, position, redelivered, payload, fx);
                            } else {
                                let message = content.keep(fx.pool());
                                send_back(from, queue, QueueEntry { position, message, redelivered }, ack_required, fx);
                            }
                        }
                    }
                    ShardPayload::Shared(message) if channels.consumer(consumer).is_some() => {
                        channels.deliver_remote(consumer, position, redelivered, Payload::Kept(message), fx);
                    }
                    ShardPayload::Shared(message) => {
                        send_back(from, queue, QueueEntry { position, message, redelivered }, ack_required, fx);
                    }
                }
            }
            ShardMessage::PublishesAccepted { publishes } => {
                for _ in 0..publishes {
                    let Some(publish) = self.control().data.confirms.next_answered(from) else { break };
                    self.control().publishing().on_answer(publish, fx);
                }
            }
            ShardMessage::PublishRefused => {
                let data = &mut *self.control().data;
                let Some(publish) = data.confirms.next_answered(from) else { return };
                if let Some(channel) = data.dispatcher.channels.get_mut(publish.channel) {
                    channel.confirms.refused.insert(publish.number);
                }
                self.control().publishing().on_answer(publish, fx);
            }
            ShardMessage::Credit { queue, consumer, messages, bytes } => {
                let dispatcher = &mut self.control().data.dispatcher;
                if let Some((key, priority)) = dispatcher.remotes.grant_credit(from, consumer, messages, bytes) {
                    dispatcher.queues.activate(queue, ConsumerRef::Remote(key), priority);
                }
            }
            ShardMessage::Settled { queue, position, count } => {
                self.control().data.dispatcher.queues.settle(queue, position, count, fx);
            }
            ShardMessage::Rejected { queue, position, message } => {
                self.control().data.dispatcher.queues.reject(queue, position, message, fx);
            }
            ShardMessage::Returned { queue, position, message, redelivered, was_delivered, ack_required } => {
                let entry = QueueEntry { position, message, redelivered };
                self.control().data.dispatcher.queues.requeue(queue, entry, was_delivered, ack_required, fx);
            }
            ShardMessage::Request { requester, queue, request } => {
                match self.requests.respond(requester, queue, request, fx) {
                    QueueResponse::Deferred => {}
                    response => fx.batch(from).push(ShardMessage::Response { requester, response }),
                }
            }
            ShardMessage::Response { requester, response } => self.requests.on_response(requester, response, fx),
            ShardMessage::ConsumerCancelled { consumer } => self.control().cancel_consumer(consumer, fx),
            ShardMessage::QueueFull { queue, full } => {
                let control = self.control();
                control.data.dispatcher.flow.set_full(queue, full, control.sessions, fx);
            }
            ShardMessage::DirectReply { address, message } => {
                self.control().data.dispatcher.channels.deliver_reply(address, &message.content(), fx);
            }
            ShardMessage::Define { requester, definitions } => {
                self.control().send_definitions(requester, definitions, fx);
                if requester.is_some() {
                    self.requests.send_outcomes(fx);
                }
            }
            ShardMessage::Apply { version, definition } => {
                self.control().apply(version, &definition, fx);
                fx.batch(from).push_applied(version);
                self.accept_early(fx);
            }
            ShardMessage::Applied { version } => {
                self.control().definitions.note_applied(from, version);
                self.requests.send_outcomes(fx);
            }
            ShardMessage::DefinitionOutcome { requester, result } => {
                self.requests.on_definition_outcome(requester, result, fx);
            }
        }
    }

    /// A publish for queues of this shard.
    fn accept<E: Effects>(
        &mut self,
        from: ShardId,
        queues: &[QueueId],
        content: &Content<'_>,
        kept: Option<Message>,
        confirm: bool,
        fx: &mut E,
    ) {
        let data = &mut *self.control().data;
        let accepted = data.accept_remote(queues, content, kept, fx);
        if confirm {
            data.confirms.answer_shard(from, accepted, fx);
        }
    }

    /// Accepts the publishes that waited for a declaration.
    fn accept_early<E: Effects>(&mut self, fx: &mut E) {
        loop {
            let definitions = &self.requests.control.definitions;
            let Some(early) = self.early.next(|id| definitions.is_to_come(id)) else { return };
            let EarlyPublish { from, message, queues, confirm } = early;
            self.accept(from, &queues, &message.content(), Some(message.clone()), confirm, fx);
        }
    }
}

/// A message came for a consumer that has left: it returns to its position.
#[cold]
fn send_back<E: Effects>(from: ShardId, queue: QueueId, entry: QueueEntry, ack_required: bool, fx: &mut E) {
    fx.batch(from).push(ShardMessage::returned(queue, entry, ack_required));
}
