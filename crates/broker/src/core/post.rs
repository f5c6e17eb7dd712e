//! The mail of this shard: what other shards ask for and hand over.
//!
//! Enters: batches of letters, in the order they were written.  Leaves: their consequences.
//! Owns:   the counts of what was taken in, and mail that came before the declaration it needs.
//! Never:  answers out of order.

use super::dispatch::{Payload, EnqueueResult};
use super::{Broker, find};
use crate::effects::Effects;
use crate::shard_message::{QueueResponse, ShardBatch, ShardMessage, ShardPayload};
use crate::limits::EARLY_PUBLISHES_MAX;
use crate::message::{Content, Message};
use crate::queue::ConsumerRef;
use crate::ready_messages::{QueuePosition, QueueEntry};
use catalog::{QueueId, ShardId};

impl Broker {
    /// Takes in a batch from another shard, and empties it.
    pub fn receive<E: Effects>(&mut self, from: ShardId, batch: &mut ShardBatch, fx: &mut E) {
        let mut letters = std::mem::take(&mut batch.messages);
        for letter in letters.drain(..) {
            self.open_letter(from, letter, batch, fx);
        }
        batch.messages = letters;
        batch.clear();
        self.dispatch_due(fx);
    }

    fn open_letter<E: Effects>(&mut self, from: ShardId, letter: ShardMessage, batch: &ShardBatch, fx: &mut E) {
        match letter {
            ShardMessage::Publish { payload: parcel, messages, queues, confirm } => {
                let queues = batch.queues(&queues);
                // What comes behind an early publish waits with it, so that nothing overtakes.
                let early = !self.early.is_empty() || queues.iter().any(|&id| self.is_early(id));
                match parcel {
                    ShardPayload::Packed(packed) => {
                        for content in batch.unpack(&packed, messages) {
                            if early && self.early.len() < EARLY_PUBLISHES_MAX {
                                self.keep_early(from, content.keep(fx.pool()), queues, confirm);
                                continue;
                            }
                            let taken = self.take_in(queues, &content, None, fx);
                            if confirm {
                                self.note_taken(from, taken, fx);
                            }
                        }
                    }
                    ShardPayload::Shared(message) if early && self.early.len() < EARLY_PUBLISHES_MAX => {
                        self.keep_early(from, message, queues, confirm);
                    }
                    ShardPayload::Shared(message) => {
                        let taken = self.take_in(queues, &message.content(), Some(message.clone()), fx);
                        if confirm {
                            self.note_taken(from, taken, fx);
                        }
                    }
                }
            }
            ShardMessage::Deliver { consumer, queue, position: place, redelivered, owed, payload: parcel, messages } => match parcel {
                ShardPayload::Packed(packed) => {
                    for (at, content) in batch.unpack(&packed, messages).enumerate() {
                        let place = QueuePosition(place.0 + at as u64);
                        if self.tables.consumers.contains_key(consumer) {
                            self.arrive(consumer, place, redelivered, Payload::Passing(content, None), fx);
                        } else {
                            let message = content.keep(fx.pool());
                            send_back(from, queue, QueueEntry { position: place, message, redelivered }, owed, fx);
                        }
                    }
                }
                ShardPayload::Shared(message) if self.tables.consumers.contains_key(consumer) => {
                    self.arrive(consumer, place, redelivered, Payload::Kept(message), fx);
                }
                ShardPayload::Shared(message) => send_back(from, queue, QueueEntry { position: place, message, redelivered }, owed, fx),
            },
            ShardMessage::PublishesAccepted { publishes } => {
                for _ in 0..publishes {
                    let Some(publication) = self.accepting[from.0 as usize].pop_front() else {
                        break;
                    };
                    self.publication_answered(publication, fx);
                }
            }
            ShardMessage::PublishRefused => {
                let Some((key, number)) = self.accepting[from.0 as usize].pop_front() else { return };
                if let Some(channel) = self.tables.channels.get_mut(key) {
                    channel.confirms.refused.insert(number);
                }
                self.publication_answered((key, number), fx);
            }
            ShardMessage::Credit { queue, consumer, messages, bytes } => {
                let Some(&key) = self.remote_keys.get(&(from, consumer)) else {
                    return;
                };
                let Some(remote) = self.tables.remotes.get_mut(key) else {
                    return;
                };
                remote.credit_messages = remote.credit_messages.saturating_add(messages);
                remote.credit_bytes = remote.credit_bytes.saturating_add(bytes);
                if remote.idle && remote.credit_messages > 0 && remote.credit_bytes > 0 {
                    remote.idle = false;
                    let priority = remote.priority;
                    if let Some(found) = find(&mut self.queues, queue) {
                        found.activate(ConsumerRef::Remote(key), priority);
                        self.make_due(queue);
                    }
                }
            }
            ShardMessage::Settled { queue, position: place, count } => self.settled_at_home(queue, place, count, fx),
            ShardMessage::Rejected { queue, position: place, message } => self.rejected_at_home(queue, place, message, fx),
            ShardMessage::Returned { queue, position: place, message, redelivered, seen, owed } => {
                self.returned_home(queue, QueueEntry { position: place, message, redelivered }, seen, owed, fx);
            }
            ShardMessage::Request { requester: asker, queue, request: ask } => match self.answer(asker, queue, ask, fx) {
                QueueResponse::Deferred => {}
                answer => fx.batch(from).push(ShardMessage::Response { requester: asker, response: answer }),
            },
            ShardMessage::Response { requester: asker, response: answer } => self.answered(asker, answer, fx),
            ShardMessage::ConsumerCancelled { consumer } => self.consumer_cancelled(consumer, fx),
            ShardMessage::QueueFull { queue, full } => self.note_full(queue, full, fx),
            ShardMessage::DirectReply { address, message } => self.direct_reply(address, &message.content(), fx),
            ShardMessage::Define { requester: asker, definitions } => self.define_here(asker, definitions, fx),
            ShardMessage::Apply { version, definition } => {
                self.apply_definition(version, &definition, fx);
                fx.batch(from).push_applied(version);
                self.open_early(fx);
            }
            ShardMessage::Applied { version } => {
                self.applied[from.0 as usize] = version;
                self.answer_defined(fx);
            }
            ShardMessage::DefinitionOutcome { requester: asker, result } => self.defined(asker, result, fx),
        }
    }

    /// A publish for queues of this shard. Answers whether all of them took it.
    fn take_in<E: Effects>(
        &mut self,
        queues: &[QueueId],
        content: &Content<'_>,
        mut kept: Option<Message>,
        fx: &mut E,
    ) -> bool {
        let count = queues.len();
        let mut taken = true;
        for (at, &queue) in queues.iter().enumerate() {
            // Durable appends of another shard's publish join when there is a store: the sender then hears of it through `Accepted`.
            taken &= self.offer(queue, content, &mut kept, at + 1 == count, fx) != EnqueueResult::Declined;
        }
        // Its publisher is on another shard, where the mail paces it.
        self.outrun = None;
        taken
    }

    /// A publish whose sender waits for an answer is in its queues, or one of them refused it. Answers are in order.
    fn note_taken<E: Effects>(&mut self, from: ShardId, taken: bool, fx: &mut E) {
        let accepted = &mut self.accepted[from.0 as usize];
        if taken {
            *accepted += 1;
            return;
        }
        let publishes = std::mem::take(accepted);
        let batch = fx.batch(from);
        if publishes > 0 {
            batch.push(ShardMessage::PublishesAccepted { publishes });
        }
        batch.push(ShardMessage::PublishRefused);
    }

    /// The sender knows a queue that this replica has not declared yet.
    fn is_early(&self, id: QueueId) -> bool {
        self.catalog.is_queue_to_come(id)
    }

    #[cold]
    fn keep_early(&mut self, from: ShardId, message: Message, queues: &[QueueId], confirm: bool) {
        self.early.push_back(super::EarlyPublish { from, message, queues: queues.into(), confirm });
    }

    fn open_early<E: Effects>(&mut self, fx: &mut E) {
        while self.early.front().is_some_and(|early| !early.queues.iter().any(|&id| self.is_early(id))) {
            let Some(early) = self.early.pop_front() else {
                return;
            };
            let taken = self.take_in(&early.queues, &early.message.content(), Some(early.message.clone()), fx);
            if early.confirm {
                self.note_taken(early.from, taken, fx);
            }
        }
    }

    /// Tells the other shards how many of their publishes are in their queues.
    pub(super) fn flush_accepted<E: Effects>(&mut self, fx: &mut E) {
        for shard in 0..self.accepted.len() {
            let publishes = std::mem::take(&mut self.accepted[shard]);
            if publishes > 0 {
                fx.batch(ShardId(shard as u16)).push(ShardMessage::PublishesAccepted { publishes });
            }
        }
    }
}

/// A message came for a consumer that had left while it was on its way: it goes back where it stood.
#[cold]
fn send_back<E: Effects>(from: ShardId, queue: QueueId, taken: QueueEntry, owed: bool, fx: &mut E) {
    let QueueEntry { position: place, message, redelivered } = taken;
    fx.batch(from).push(ShardMessage::Returned { queue, position: place, message, redelivered, seen: false, owed });
}
