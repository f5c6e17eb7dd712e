//! Questions to the shard where a queue lives, and what follows their answers.
//!
//! Enters: a question with what to do next.  Leaves: the answer's consequences; at once when the queue lives here.
//! Owns:   the one question a connection may wait on.
//! Never:  lets a connection's later commands overtake a question.

use super::consume::{count, short};
use super::{Broker, ReadControl, find};
use crate::direct_reply::ReplyAddress;
use crate::effects::{Effects, ConnectionSlot};
use crate::ledger::UnsettledDelivery;
use crate::shard_message::{QueueResponse, QueueRequest, Requester, ShardMessage};
use crate::limits::REMOTE_WINDOW_BYTES;
use crate::session_state::{PendingCommand, PlainReply, PendingReply};
use crate::queue::{RemoteConsumer, ConsumerRef};
use crate::ready_messages::QueueEntry;
use catalog::{Definition, Kind, Name, QueueId, Refusal, SessionId, ShardId};
use wire::ReplyCode;
use wire::method::{Method, basic, exchange, queue};

impl Broker {
    pub(super) fn session_of(&self, slot: ConnectionSlot) -> SessionId {
        let peer = self.tables.peers.get(slot as usize).and_then(|peer| peer.as_ref());
        peer.map_or(SessionId { shard: self.options.shard, slot, serial: 0 }, |peer| peer.session)
    }

    /// Asks a queue. `then` follows its answer.
    #[expect(clippy::too_many_arguments, reason = "a question names its asker, its queue and its consequence")]
    pub(super) fn ask<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        channel: u16,
        method: (u16, u16),
        queue: QueueId,
        home: ShardId,
        ask: QueueRequest,
        then: PendingReply,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let question = self.next_question();
        let asker = Requester { session: self.session_of(slot), channel, request: question };
        if !self.is_home(home) {
            self.wait_for(slot, PendingCommand { channel, method, request: question, reply: then });
            fx.batch(home).push(ShardMessage::Request { requester: asker, queue, request: ask });
            return Ok(ReadControl::Pause);
        }
        // A new consumer hears consume-ok before its first delivery: the queue is looked at after the answer.
        let answer = self.answer(asker, queue, ask, fx);
        if matches!(answer, QueueResponse::Deferred) {
            self.wait_for(slot, PendingCommand { channel, method, request: question, reply: then });
            return Ok(ReadControl::Pause);
        }
        let flow = self.follow(slot, PendingCommand { channel, method, request: question, reply: then }, answer, fx)?;
        self.dispatch_due(fx);
        Ok(flow)
    }

    /// A number for a question; zero is nobody's.
    pub(super) fn next_question(&mut self) -> u32 {
        self.questions = self.questions.wrapping_add(1).max(1);
        self.questions
    }

    pub(super) fn wait_for(&mut self, slot: ConnectionSlot, awaiting: PendingCommand) {
        if let Some(peer) = self.peer_mut(slot) {
            assert!(peer.pending.is_none(), "a connection waits for one answer at a time");
            peer.pending = Some(awaiting);
        }
    }

    /// Answers a question about a queue of this shard.
    pub(super) fn answer<E: Effects>(&mut self, asker: Requester, id: QueueId, ask: QueueRequest, fx: &mut E) -> QueueResponse {
        if let QueueRequest::ReplyConsumer(address) = ask {
            return self.answer_mailbox(address);
        }
        if matches!(ask, QueueRequest::Counts | QueueRequest::Get { .. }) {
            self.note_use(id);
        }
        let Some(found) = find(&mut self.queues, id) else {
            return QueueResponse::Gone;
        };
        let (messages, consumers) = (count(found.ready.len()), count(found.consumers.len()));
        match ask {
            QueueRequest::ReplyConsumer(_) => QueueResponse::Gone,
            QueueRequest::Counts => QueueResponse::Counts { messages, consumers },
            QueueRequest::Purge => {
                if let Some(features) = &mut found.features {
                    // Those that are out may come back once more.
                    let ready = &found.ready;
                    features.returns.retain(|&place, _| !ready.has_requeued(place));
                }
                self.waiting -= found.ready.clear();
                self.make_due(id);
                QueueResponse::Counts { messages, consumers }
            }
            QueueRequest::Deletable { if_empty, .. } if if_empty && messages > 0 => self.in_the_way(id, "not empty"),
            QueueRequest::Deletable { if_unused, .. } if if_unused && consumers > 0 => self.in_the_way(id, "in use"),
            QueueRequest::Deletable { .. } => QueueResponse::Counts { messages, consumers },
            QueueRequest::Get { no_ack } => match self.take_one(id, no_ack, fx) {
                None => QueueResponse::Empty,
                Some((QueueEntry { position: place, message, redelivered }, messages_left)) => {
                    QueueResponse::Message { queue: id, position: place, message, redelivered, owed: !no_ack, messages_left }
                }
            },
            QueueRequest::Consume(subscription) => {
                let alone = subscription.exclusive && (!found.consumers.is_empty() || found.is_single_active());
                if found.exclusive_consumer.is_some() || alone {
                    return self.exclusive_use(id);
                }
                let taker = if asker.session.shard == self.options.shard {
                    ConsumerRef::Local(subscription.consumer)
                } else {
                    let key = self.tables.remotes.insert(RemoteConsumer {
                        shard: asker.session.shard,
                        consumer: subscription.consumer,
                        no_ack: subscription.no_ack,
                        priority: subscription.priority,
                        credit_messages: subscription.credit_messages,
                        credit_bytes: REMOTE_WINDOW_BYTES,
                        idle: false,
                    });
                    self.remote_keys.insert((asker.session.shard, subscription.consumer), key);
                    ConsumerRef::Remote(key)
                };
                found.add_consumer(taker, subscription.priority, subscription.exclusive);
                self.make_due(id);
                QueueResponse::Done
            }
            QueueRequest::Cancel(consumer) => {
                if asker.session.shard == self.options.shard {
                    return self.remove_taker(id, ConsumerRef::Local(consumer), asker, fx);
                }
                let Some(key) = self.remote_keys.remove(&(asker.session.shard, consumer)) else {
                    return QueueResponse::Done;
                };
                self.tables.remotes.remove(key);
                self.remove_taker(id, ConsumerRef::Remote(key), asker, fx)
            }
        }
    }

    /// Whether direct replies to an address would be heard.
    fn answer_mailbox(&self, address: ReplyAddress) -> QueueResponse {
        let channel = self.tables.channels.get(address.channel);
        match channel.and_then(|channel| channel.reply_consumer.as_ref()) {
            Some(mailbox) if mailbox.nonce == address.nonce => QueueResponse::Counts { messages: 0, consumers: 1 },
            _ => QueueResponse::Gone,
        }
    }

    fn in_the_way(&self, id: QueueId, what: &str) -> QueueResponse {
        QueueResponse::Refused(Refusal::channel(
            ReplyCode::PreconditionFailed,
            format!("PRECONDITION_FAILED - {} {what}", self.name_of(id)),
        ))
    }

    fn exclusive_use(&self, id: QueueId) -> QueueResponse {
        QueueResponse::Refused(Refusal::channel(
            ReplyCode::AccessRefused,
            format!("ACCESS_REFUSED - {} in exclusive use", self.name_of(id)),
        ))
    }

    pub(super) fn name_of(&self, id: QueueId) -> String {
        let Some(definition) = self.catalog.queue_definition(id) else {
            return "queue".into();
        };
        format!("queue '{}' in vhost '{}'", definition.name, self.catalog.vhost_name(definition.vhost))
    }

    /// An answer has come from elsewhere.
    pub(super) fn answered<E: Effects>(&mut self, asker: Requester, answer: QueueResponse, fx: &mut E) {
        let slot = asker.session.slot;
        let current = self.peer_mut(slot).filter(|peer| peer.session == asker.session);
        let awaiting = match current {
            Some(peer) if peer.pending.as_ref().is_some_and(|awaiting| awaiting.request == asker.request) => {
                peer.pending.take()
            }
            _ => None,
        };
        let Some(awaiting) = awaiting else {
            // The asker is gone: a message that was on its way to it goes back.
            if let QueueResponse::Message { queue, position: place, message, redelivered, owed, .. } = answer {
                self.send_back(queue, QueueEntry { position: place, message, redelivered }, owed, fx);
            }
            return;
        };
        let (channel, method) = (awaiting.channel, awaiting.method);
        match self.follow(slot, awaiting, answer, fx) {
            Ok(ReadControl::Continue) => fx.resume(slot),
            // What follows an answer gathers nothing: it is a change that somebody asked for by itself.
            Ok(ReadControl::Pause | ReadControl::Batch) => {}
            Err(refusal) => {
                fx.refuse(slot, channel, refusal, method);
                fx.resume(slot);
            }
        }
    }

    fn send_back<E: Effects>(&mut self, queue: QueueId, taken: QueueEntry, owed: bool, fx: &mut E) {
        let Some(home) = self.catalog.queue_definition(queue).map(|definition| definition.home) else {
            return;
        };
        if self.is_home(home) {
            self.returned_home(queue, taken, false, owed, fx);
            self.dispatch_due(fx);
        } else {
            let QueueEntry { position: place, message, redelivered } = taken;
            fx.batch(home).push(ShardMessage::Returned { queue, position: place, message, redelivered, seen: false, owed });
        }
    }

    /// What follows an answer.
    pub(super) fn follow<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        awaiting: PendingCommand,
        answer: QueueResponse,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let channel = awaiting.channel;
        let counts = match &answer {
            QueueResponse::Counts { messages, consumers } => (*messages, *consumers),
            _ => (0, 0),
        };
        if let QueueResponse::Refused(refusal) = answer {
            if let PendingReply::Consuming { consumer, .. } = awaiting.reply {
                self.forget_consumer(consumer, fx);
            }
            return Err(refusal);
        }
        let mut say = |no_wait: bool, method: Method<'_>| {
            if !no_wait {
                fx.reply(slot, channel, method);
            }
        };
        match awaiting.reply {
            PendingReply::Reply { no_wait, reply } => say(
                no_wait,
                match reply {
                    PlainReply::ExchangeDeclared => Method::ExchangeDeclareOk(exchange::DeclareOk {}),
                    PlainReply::ExchangeDeleted => Method::ExchangeDeleteOk(exchange::DeleteOk {}),
                    PlainReply::ExchangeBound => Method::ExchangeBindOk(exchange::BindOk {}),
                    PlainReply::ExchangeUnbound => Method::ExchangeUnbindOk(exchange::UnbindOk {}),
                    PlainReply::QueueBound => Method::QueueBindOk(queue::BindOk {}),
                    PlainReply::QueueUnbound => Method::QueueUnbindOk(queue::UnbindOk {}),
                },
            ),
            PendingReply::CountQueue { no_wait, name } => {
                let (id, home) = self.declared(slot, &name)?;
                return self.ask(
                    slot,
                    channel,
                    awaiting.method,
                    id,
                    home,
                    QueueRequest::Counts,
                    PendingReply::QueueDeclared { no_wait, name },
                    fx,
                );
            }
            PendingReply::QueueDeclared { name, .. } if matches!(answer, QueueResponse::Gone) => {
                let (_, vhost, _) = self.whose(slot)?;
                return Err(self.catalog.no_queue(vhost, name.as_bytes()));
            }
            PendingReply::QueueDeclared { no_wait, name } => say(
                no_wait,
                Method::QueueDeclareOk(queue::DeclareOk {
                    queue: short(name.as_bytes()),
                    message_count: counts.0,
                    consumer_count: counts.1,
                }),
            ),
            PendingReply::DeleteQueue { no_wait, name } => {
                let Some((vhost, session)) = self.peer_mut(slot).map(|peer| (peer.vhost, peer.session)) else {
                    return Ok(ReadControl::Continue);
                };
                let definition = Definition::DeleteQueue {
                    vhost,
                    name: Name::new(Kind::Queue, name.as_bytes())?,
                    session: Some(session),
                };
                let then = PendingReply::QueueDeleted { no_wait, messages: counts.0 };
                return self.define(slot, channel, awaiting.method, definition, then, fx);
            }
            PendingReply::QueueDeleted { no_wait, messages } => {
                say(no_wait, Method::QueueDeleteOk(queue::DeleteOk { message_count: messages }))
            }
            PendingReply::QueuePurged { no_wait } => {
                say(no_wait, Method::QueuePurgeOk(queue::PurgeOk { message_count: counts.0 }))
            }
            PendingReply::Consuming { no_wait, consumer } => {
                let Some(found) = self.tables.consumers.get(consumer) else {
                    return Ok(ReadControl::Continue);
                };
                if matches!(answer, QueueResponse::Gone) {
                    let refusal = self.catalog.queue_is_gone(found.queue);
                    self.forget_consumer(consumer, fx);
                    return Err(refusal);
                }
                say(no_wait, Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: short(&found.tag) }));
            }
            PendingReply::Cancelled { no_wait, consumer, tag } => {
                say(no_wait, Method::BasicCancelOk(basic::CancelOk { consumer_tag: short(&tag) }));
                self.forget_consumer(consumer, fx);
            }
            PendingReply::Get { no_ack } => match answer {
                QueueResponse::Message { queue, position: place, message, redelivered, messages_left, .. } => {
                    let Some(key) = self.channel_key(slot, channel) else {
                        return Ok(ReadControl::Continue);
                    };
                    let home =
                        self.catalog.queue_definition(queue).map_or(self.options.shard, |definition| definition.home);
                    let Some(open) = self.tables.channels.get_mut(key) else {
                        return Ok(ReadControl::Continue);
                    };
                    let tag = if no_ack { open.ledger.assign_settled() } else { open.ledger.next_tag() };
                    fx.get_ok(slot, channel, tag, redelivered, messages_left, message.content());
                    self.counters.delivered += 1;
                    if !no_ack {
                        open.ledger.assign_unsettled(UnsettledDelivery { queue, home, position: place, message, consumer: None });
                        self.tables.unsettled += 1;
                    }
                }
                _ => say(false, Method::BasicGetEmpty(basic::GetEmpty {})),
            },
            PendingReply::DefinitionBatch { refusal: Some(refusal), .. } => return Err(*refusal),
            PendingReply::DefinitionBatch { refusal: None, .. } => {}
            PendingReply::Commit => unreachable!("a commit waits for its messages, not for an answer"),
        }
        Ok(ReadControl::Continue)
    }
}
