//! Questions to the shard where a queue lives, and what follows their answers.
//!
//! Enters: a question with what to do next.  Leaves: the answer's consequences; at once when the queue lives here.
//! Owns:   the one question a connection may wait on.
//! Never:  lets a connection's later commands overtake a question.

use super::consume::{count, short};
use super::{Broker, Flow, find};
use crate::direct_reply::Address;
use crate::effects::{Effects, Slot};
use crate::ledger::Unsettled;
use crate::letter::{Answer, Ask, Asker, Letter};
use crate::limits::REMOTE_WINDOW_BYTES;
use crate::peer::{Awaiting, PlainReply, Then};
use crate::queue::{Remote, Taker};
use crate::ready::Taken;
use catalog::{Definition, ResourceKind, Name, QueueId, Refusal, SessionId, ShardId};
use wire::ReplyCode;
use wire::method::{Method, basic, exchange, queue};

impl Broker {
    pub(super) fn session_of(&self, slot: Slot) -> SessionId {
        let peer = self.tables.peers.get(slot as usize).and_then(|peer| peer.as_ref());
        peer.map_or(SessionId { shard: self.options.shard, slot, serial: 0 }, |peer| peer.session)
    }

    /// Asks a queue. `then` follows its answer.
    #[expect(clippy::too_many_arguments, reason = "a question names its asker, its queue and its consequence")]
    pub(super) fn ask<E: Effects>(
        &mut self,
        slot: Slot,
        channel: u16,
        method: (u16, u16),
        queue: QueueId,
        home: ShardId,
        ask: Ask,
        then: Then,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let question = self.next_question();
        let asker = Asker { session: self.session_of(slot), channel, question };
        if !self.is_home(home) {
            self.wait_for(slot, Awaiting { channel, method, question, then });
            fx.batch(home).push(Letter::Ask { asker, queue, ask });
            return Ok(Flow::Wait);
        }
        // A new consumer hears consume-ok before its first delivery: the queue is looked at after the answer.
        let answer = self.answer(asker, queue, ask, fx);
        if matches!(answer, Answer::Later) {
            self.wait_for(slot, Awaiting { channel, method, question, then });
            return Ok(Flow::Wait);
        }
        let flow = self.follow(slot, Awaiting { channel, method, question, then }, answer, fx)?;
        self.dispatch_due(fx);
        Ok(flow)
    }

    /// A number for a question; zero is nobody's.
    pub(super) fn next_question(&mut self) -> u32 {
        self.questions = self.questions.wrapping_add(1).max(1);
        self.questions
    }

    pub(super) fn wait_for(&mut self, slot: Slot, awaiting: Awaiting) {
        if let Some(peer) = self.peer_mut(slot) {
            assert!(peer.awaiting.is_none(), "a connection waits for one answer at a time");
            peer.awaiting = Some(awaiting);
        }
    }

    /// Answers a question about a queue of this shard.
    pub(super) fn answer<E: Effects>(&mut self, asker: Asker, id: QueueId, ask: Ask, fx: &mut E) -> Answer {
        if let Ask::Mailbox(address) = ask {
            return self.answer_mailbox(address);
        }
        if matches!(ask, Ask::Counts | Ask::Get { .. }) {
            self.note_use(id);
        }
        let Some(found) = find(&mut self.queues, id) else {
            return Answer::Gone;
        };
        let (messages, consumers) = (count(found.ready.len()), count(found.takers.len()));
        match ask {
            Ask::Mailbox(_) => Answer::Gone,
            Ask::Counts => Answer::Counts { messages, consumers },
            Ask::Purge => {
                if let Some(features) = &mut found.features {
                    // Those that are out may come back once more.
                    let ready = &found.ready;
                    features.returns.retain(|&place, _| !ready.has_back(place));
                }
                self.waiting -= found.ready.clear();
                self.make_due(id);
                Answer::Counts { messages, consumers }
            }
            Ask::Deletable { if_empty, .. } if if_empty && messages > 0 => self.in_the_way(id, "not empty"),
            Ask::Deletable { if_unused, .. } if if_unused && consumers > 0 => self.in_the_way(id, "in use"),
            Ask::Deletable { .. } => Answer::Counts { messages, consumers },
            Ask::Get { no_ack } => match self.take_one(id, no_ack, fx) {
                None => Answer::Empty,
                Some((Taken { place, message, redelivered }, messages_left)) => {
                    Answer::Got { queue: id, place, message, redelivered, owed: !no_ack, messages_left }
                }
            },
            Ask::Consume(subscription) => {
                let alone = subscription.exclusive && (!found.takers.is_empty() || found.is_single_active());
                if found.exclusive_taker.is_some() || alone {
                    return self.exclusive_use(id);
                }
                let taker = if asker.session.shard == self.options.shard {
                    Taker::Local(subscription.consumer)
                } else {
                    let key = self.tables.remotes.insert(Remote {
                        shard: asker.session.shard,
                        consumer: subscription.consumer,
                        no_ack: subscription.no_ack,
                        priority: subscription.priority,
                        credit_messages: subscription.credit_messages,
                        credit_bytes: REMOTE_WINDOW_BYTES,
                        idle: false,
                    });
                    self.remote_keys.insert((asker.session.shard, subscription.consumer), key);
                    Taker::Remote(key)
                };
                found.add(taker, subscription.priority, subscription.exclusive);
                self.make_due(id);
                Answer::Done
            }
            Ask::Cancel(consumer) => {
                if asker.session.shard == self.options.shard {
                    return self.remove_taker(id, Taker::Local(consumer), asker, fx);
                }
                let Some(key) = self.remote_keys.remove(&(asker.session.shard, consumer)) else {
                    return Answer::Done;
                };
                self.tables.remotes.remove(key);
                self.remove_taker(id, Taker::Remote(key), asker, fx)
            }
        }
    }

    /// Whether direct replies to an address would be heard.
    fn answer_mailbox(&self, address: Address) -> Answer {
        let channel = self.tables.channels.get(address.channel);
        match channel.and_then(|channel| channel.direct_reply.as_ref()) {
            Some(mailbox) if mailbox.nonce == address.nonce => Answer::Counts { messages: 0, consumers: 1 },
            _ => Answer::Gone,
        }
    }

    fn in_the_way(&self, id: QueueId, what: &str) -> Answer {
        Answer::Refused(Refusal::channel(
            ReplyCode::PreconditionFailed,
            format!("PRECONDITION_FAILED - {} {what}", self.name_of(id)),
        ))
    }

    fn exclusive_use(&self, id: QueueId) -> Answer {
        Answer::Refused(Refusal::channel(
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
    pub(super) fn answered<E: Effects>(&mut self, asker: Asker, answer: Answer, fx: &mut E) {
        let slot = asker.session.slot;
        let current = self.peer_mut(slot).filter(|peer| peer.session == asker.session);
        let awaiting = match current {
            Some(peer) if peer.awaiting.as_ref().is_some_and(|awaiting| awaiting.question == asker.question) => {
                peer.awaiting.take()
            }
            _ => None,
        };
        let Some(awaiting) = awaiting else {
            // The asker is gone: a message that was on its way to it goes back.
            if let Answer::Got { queue, place, message, redelivered, owed, .. } = answer {
                self.send_back(queue, Taken { place, message, redelivered }, owed, fx);
            }
            return;
        };
        let (channel, method) = (awaiting.channel, awaiting.method);
        match self.follow(slot, awaiting, answer, fx) {
            Ok(Flow::Go) => fx.resume(slot),
            // What follows an answer gathers nothing: it is a change that somebody asked for by itself.
            Ok(Flow::Wait | Flow::Gather) => {}
            Err(refusal) => {
                fx.refuse(slot, channel, refusal, method);
                fx.resume(slot);
            }
        }
    }

    fn send_back<E: Effects>(&mut self, queue: QueueId, taken: Taken, owed: bool, fx: &mut E) {
        let Some(home) = self.catalog.queue_definition(queue).map(|definition| definition.home) else {
            return;
        };
        if self.is_home(home) {
            self.returned_home(queue, taken, false, owed, fx);
            self.dispatch_due(fx);
        } else {
            let Taken { place, message, redelivered } = taken;
            fx.batch(home).push(Letter::Returned { queue, place, message, redelivered, seen: false, owed });
        }
    }

    /// What follows an answer.
    pub(super) fn follow<E: Effects>(
        &mut self,
        slot: Slot,
        awaiting: Awaiting,
        answer: Answer,
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        let channel = awaiting.channel;
        let counts = match &answer {
            Answer::Counts { messages, consumers } => (*messages, *consumers),
            _ => (0, 0),
        };
        if let Answer::Refused(refusal) = answer {
            if let Then::Consuming { consumer, .. } = awaiting.then {
                self.forget_consumer(consumer, fx);
            }
            return Err(refusal);
        }
        let mut say = |no_wait: bool, method: Method<'_>| {
            if !no_wait {
                fx.reply(slot, channel, method);
            }
        };
        match awaiting.then {
            Then::Reply { no_wait, reply } => say(
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
            Then::CountQueue { no_wait, name } => {
                let (id, home) = self.declared(slot, &name)?;
                return self.ask(
                    slot,
                    channel,
                    awaiting.method,
                    id,
                    home,
                    Ask::Counts,
                    Then::QueueDeclared { no_wait, name },
                    fx,
                );
            }
            Then::QueueDeclared { name, .. } if matches!(answer, Answer::Gone) => {
                let (_, vhost, _) = self.whose(slot)?;
                return Err(self.catalog.no_queue(vhost, name.as_bytes()));
            }
            Then::QueueDeclared { no_wait, name } => say(
                no_wait,
                Method::QueueDeclareOk(queue::DeclareOk {
                    queue: short(name.as_bytes()),
                    message_count: counts.0,
                    consumer_count: counts.1,
                }),
            ),
            Then::DeleteQueue { no_wait, name } => {
                let Some((vhost, session)) = self.peer_mut(slot).map(|peer| (peer.vhost, peer.session)) else {
                    return Ok(Flow::Go);
                };
                let definition = Definition::DeleteQueue {
                    vhost,
                    name: Name::new(ResourceKind::Queue, name.as_bytes())?,
                    session: Some(session),
                };
                let then = Then::QueueDeleted { no_wait, messages: counts.0 };
                return self.define(slot, channel, awaiting.method, definition, then, fx);
            }
            Then::QueueDeleted { no_wait, messages } => {
                say(no_wait, Method::QueueDeleteOk(queue::DeleteOk { message_count: messages }))
            }
            Then::QueuePurged { no_wait } => {
                say(no_wait, Method::QueuePurgeOk(queue::PurgeOk { message_count: counts.0 }))
            }
            Then::Consuming { no_wait, consumer } => {
                let Some(found) = self.tables.consumers.get(consumer) else {
                    return Ok(Flow::Go);
                };
                if matches!(answer, Answer::Gone) {
                    let refusal = self.catalog.queue_is_gone(found.queue);
                    self.forget_consumer(consumer, fx);
                    return Err(refusal);
                }
                say(no_wait, Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: short(&found.tag) }));
            }
            Then::Cancelled { no_wait, consumer, tag } => {
                say(no_wait, Method::BasicCancelOk(basic::CancelOk { consumer_tag: short(&tag) }));
                self.forget_consumer(consumer, fx);
            }
            Then::Get { no_ack } => match answer {
                Answer::Got { queue, place, message, redelivered, messages_left, .. } => {
                    let Some(key) = self.channel_key(slot, channel) else {
                        return Ok(Flow::Go);
                    };
                    let home =
                        self.catalog.queue_definition(queue).map_or(self.options.shard, |definition| definition.home);
                    let Some(open) = self.tables.channels.get_mut(key) else {
                        return Ok(Flow::Go);
                    };
                    let tag = if no_ack { open.ledger.pass() } else { open.ledger.next_tag() };
                    fx.got(slot, channel, tag, redelivered, messages_left, message.content());
                    self.counters.delivered += 1;
                    if !no_ack {
                        open.ledger.owe(Unsettled { queue, home, place, message, consumer: None });
                        self.tables.unsettled += 1;
                    }
                }
                _ => say(false, Method::BasicGetEmpty(basic::GetEmpty {})),
            },
            Then::Ran { refusal: Some(refusal), .. } => return Err(*refusal),
            Then::Ran { refusal: None, .. } => {}
            Then::Commit => unreachable!("a commit waits for its messages, not for an answer"),
        }
        Ok(Flow::Go)
    }
}
