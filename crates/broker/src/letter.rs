//! The mail between shards.
//!
//! Enters: commands for another shard, and small messages copied into one run of bytes.  Leaves: the same, in order.
//! Owns:   the vocabulary between shards, and the layout of a batch.
//! Never:  blocks, allocates for a small message once a batch has been used.

use crate::consumer::ConsumerKey;
use crate::limits::{BATCH_BYTES, BATCH_LETTERS, INLINE_BODY_BYTES_MAX};
use crate::message::{BodyRef, Content, Message};
use crate::ready::Place;
use catalog::{Definition, Outcome, QueueId, Refusal, SessionId};
use std::ops::Range;
use std::sync::Arc;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The connection.
    pub session: SessionId,
    /// The channel.
    pub channel: u16,
    /// Which of this shard's questions; zero if nobody waits.
    pub question: u32,
}

/// A question to the shard where a queue lives.
#[derive(Debug)]
pub enum Ask {
    /// How many messages and consumers?
    Counts,
    /// Drop the waiting messages.
    Purge,
    /// May it be deleted under these conditions?
    Deletable {
        /// Only without consumers.
        if_unused: bool,
        /// Only without messages.
        if_empty: bool,
    },
    /// One message (`basic.get`).
    Get {
        /// The client will not acknowledge.
        no_ack: bool,
    },
    /// A new consumer.
    Consume(Subscription),
    /// Is there a consumer of direct replies at this address?
    Mailbox(crate::direct_reply::Address),
    /// A consumer leaves.
    Cancel(ConsumerKey),
}

/// What a queue must know of a consumer on another shard.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// The consumer, in the tables of its own shard.
    pub consumer: ConsumerKey,
    /// The client will not acknowledge.
    pub no_ack: bool,
    /// Nobody else may consume.
    pub exclusive: bool,
    /// Higher ones are served first (RabbitMQ extension).
    pub priority: i32,
    /// Messages it may be sent at first.
    pub credit_messages: u32,
}

/// The answer to an [`Ask`].
#[derive(Debug)]
pub enum Answer {
    /// Waiting messages and consumers; also the answer to purge (messages dropped) and to deletable.
    Counts {
        /// Messages.
        messages: u32,
        /// Consumers.
        consumers: u32,
    },
    /// A message, where it stood, whether it was handed out before, and how many wait behind it.
    Got {
        /// The queue it comes from.
        queue: QueueId,
        /// Its place there.
        place: Place,
        /// The message.
        message: Message,
        /// Handed out before.
        redelivered: bool,
        /// It must be acknowledged.
        owed: bool,
        /// Waiting behind it.
        messages_left: u32,
    },
    /// The queue is empty.
    Empty,
    /// The consumer is in its place, or gone.
    Done,
    /// No.
    Refused(Refusal),
    /// The queue is gone.
    Gone,
    /// It follows, as the outcome of a change of definitions ([`Letter::Defined`]).
    Later,
}

/// A small message's place in a batch's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    at: u32,
    properties_bytes: u32,
    body_bytes: u32,
    exchange_bytes: u8,
    routing_key_bytes: u8,
}

/// A message in the mail.
#[derive(Debug)]
pub enum Parcel {
    /// Its bytes are in the batch.
    Packed(Packed),
    /// Shared memory.
    Shared(Message),
}

/// One piece of mail.
#[derive(Debug)]
pub enum Letter {
    /// To shard 0: a change of definitions.
    Define {
        /// Who waits for the outcome, if anybody.
        asker: Option<Asker>,
        /// The change.
        definition: Box<Definition>,
    },
    /// From shard 0: a change that every replica makes, in this order.
    Apply {
        /// Number of the change.
        version: u64,
        /// The change.
        definition: Arc<Definition>,
    },
    /// To shard 0: this replica has made every change up to this one.
    Applied {
        /// Number of the change.
        version: u64,
    },
    /// From shard 0: what became of a change, once every replica has made it.
    Defined {
        /// Who asked.
        asker: Asker,
        /// The outcome.
        result: Result<Outcome, Refusal>,
    },
    /// A message for queues that live there.
    Publish {
        /// The message.
        parcel: Parcel,
        /// The queues, as a range of the batch's list.
        queues: Range<u32>,
        /// The sender waits for [`Letter::Accepted`].
        confirm: bool,
    },
    /// So many more of the publishes that asked for it are in their queues.
    Accepted {
        /// How many.
        publishes: u32,
    },
    /// The next of the publishes that asked for it is not: a queue had no room.
    Declined,
    /// A message for a consumer there.
    Deliver {
        /// The consumer.
        consumer: ConsumerKey,
        /// The queue.
        queue: QueueId,
        /// Its place in the queue.
        place: Place,
        /// Handed out before.
        redelivered: bool,
        /// It must be acknowledged.
        owed: bool,
        /// The message.
        parcel: Parcel,
    },
    /// To a queue: the consumer may be sent more.
    Credit {
        /// The queue.
        queue: QueueId,
        /// The consumer.
        consumer: ConsumerKey,
        /// So many messages more.
        messages: u32,
        /// So many bytes more.
        bytes: i64,
    },
    /// To a queue: messages that followed one another were acknowledged, or dropped.
    Settled {
        /// The queue.
        queue: QueueId,
        /// The place of the first.
        place: Place,
        /// How many.
        count: u32,
    },
    /// To a queue that has dead letters: a consumer does not want this message.
    Rejected {
        /// The queue.
        queue: QueueId,
        /// The message's place.
        place: Place,
        /// The message.
        message: Message,
    },
    /// To a queue: this message comes back.
    Returned {
        /// The queue.
        queue: QueueId,
        /// The message's place.
        place: Place,
        /// The message.
        message: Message,
        /// A client has seen it.
        redelivered: bool,
        /// A client has seen it this time.
        seen: bool,
        /// It was out under an acknowledgement.
        owed: bool,
    },
    /// To a queue's shard.
    Ask {
        /// Who waits.
        asker: Asker,
        /// The queue.
        queue: QueueId,
        /// The question.
        ask: Ask,
    },
    /// The answer.
    Answer {
        /// Who waits.
        asker: Asker,
        /// The answer.
        answer: Answer,
    },
    /// The queue of this consumer was deleted.
    ConsumerCancelled {
        /// The consumer.
        consumer: ConsumerKey,
    },
    /// A queue has reached its share of the memory, or is below it again.
    QueueFull {
        /// The queue.
        queue: QueueId,
        /// Whether it is full.
        full: bool,
    },
    /// A direct reply (`amq.rabbitmq.reply-to`) for a channel there.
    DirectReply {
        /// The address within that shard.
        address: crate::direct_reply::Address,
        /// The reply.
        message: Message,
    },
}

/// Letters of one tick for one shard, with the bytes of their small messages.
#[derive(Default)]
pub struct Batch {
    /// The letters, in order.
    pub letters: Vec<Letter>,
    bytes: Vec<u8>,
    queues: Vec<QueueId>,
    /// Something was put in for a letter that is still to be written.
    unfinished: bool,
}

impl Batch {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Whether it should be handed over now, and may be: what a letter speaks of lies in the same batch.
    #[inline]
    pub fn is_full(&self) -> bool {
        (self.bytes.len() >= BATCH_BYTES || self.letters.len() >= BATCH_LETTERS) && !self.unfinished
    }

    /// Bytes of this batch itself.
    pub fn room_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.letters.capacity() * size_of::<Letter>()
            + self.queues.capacity() * size_of::<QueueId>()
    }

    /// Empties it and keeps its memory, within reason.
    pub fn clear(&mut self) {
        self.letters.clear();
        self.bytes.clear();
        self.queues.clear();
        self.unfinished = false;
        self.letters.shrink_to(BATCH_LETTERS * 2);
        self.bytes.shrink_to(BATCH_BYTES * 2);
        self.queues.shrink_to(BATCH_LETTERS * 2);
    }

    /// Adds a letter.
    #[inline]
    pub fn push(&mut self, letter: Letter) {
        self.letters.push(letter);
        self.unfinished = false;
    }

    /// A queue's message is settled: one letter for those that follow one another, so that a million acknowledged at once
    /// are no million letters.
    #[inline]
    pub fn push_settled(&mut self, queue: QueueId, place: Place) {
        match self.letters.last_mut() {
            Some(Letter::Settled { queue: last, place: first, count })
                if *last == queue && first.0 + u64::from(*count) == place.0 && *count < u32::MAX =>
            {
                *count += 1;
            }
            _ => self.push(Letter::Settled { queue, place, count: 1 }),
        }
    }

    /// Copies a small message into the batch for the letter that is written next; `None` if it should travel as shared memory.
    #[inline]
    pub fn pack(&mut self, content: &Content<'_>) -> Option<Parcel> {
        let BodyRef::Small(body) = content.body else {
            return None;
        };
        if body.len() > INLINE_BODY_BYTES_MAX {
            return None;
        }
        self.unfinished = true;
        let at = self.bytes.len() as u32;
        self.bytes.reserve(content.bytes());
        self.bytes.extend_from_slice(&content.arrived_us.to_le_bytes());
        self.bytes.extend_from_slice(content.exchange);
        self.bytes.extend_from_slice(content.routing_key);
        self.bytes.extend_from_slice(content.properties);
        self.bytes.extend_from_slice(body);
        Some(Parcel::Packed(Packed {
            at,
            properties_bytes: content.properties.len() as u32,
            body_bytes: body.len() as u32,
            exchange_bytes: content.exchange.len() as u8,
            routing_key_bytes: content.routing_key.len() as u8,
        }))
    }

    /// Adds a list of queues for the letter that is written next; answers its range.
    #[inline]
    pub fn list(&mut self, queues: impl Iterator<Item = QueueId>) -> Range<u32> {
        self.unfinished = true;
        let from = self.queues.len() as u32;
        self.queues.extend(queues);
        from..self.queues.len() as u32
    }

    /// The queues of a range.
    #[inline]
    pub fn queues(&self, range: &Range<u32>) -> &[QueueId] {
        &self.queues[range.start as usize..range.end as usize]
    }

    /// A packed message's parts.
    #[inline]
    pub fn unpack(&self, packed: &Packed) -> Content<'_> {
        let (arrived_us, rest) = self.bytes[packed.at as usize..].split_at(size_of::<u64>());
        let arrived_us = arrived_us.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (exchange, rest) = rest.split_at(packed.exchange_bytes as usize);
        let (routing_key, rest) = rest.split_at(packed.routing_key_bytes as usize);
        let (properties, rest) = rest.split_at(packed.properties_bytes as usize);
        let body = BodyRef::Small(&rest[..packed.body_bytes as usize]);
        Content { exchange, routing_key, properties, body, arrived_us }
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Letter, Parcel};
    use crate::limits::BATCH_LETTERS;
    use crate::message::{BodyRef, Content};
    use crate::ready::Place;
    use catalog::QueueId;

    #[test]
    fn messages_that_follow_one_another_are_settled_by_one_letter() {
        let mut batch = Batch::default();
        let [a, b] = [1, 2].map(|index| QueueId { index, serial: 0 });
        for (queue, place) in [(a, 5), (a, 6), (a, 7), (b, 8), (a, 8), (a, 10), (a, 11), (a, 11)] {
            batch.push_settled(queue, Place(place));
        }
        let settled = batch.letters.iter().map(|letter| match letter {
            Letter::Settled { queue, place, count } => (queue.index, place.0, *count),
            other => panic!("{other:?}"),
        });
        assert_eq!(settled.collect::<Vec<_>>(), [(1, 5, 3), (2, 8, 1), (1, 8, 1), (1, 10, 2), (1, 11, 1)]);
    }

    #[test]
    fn a_batch_is_not_handed_over_between_a_message_and_its_letter() {
        let mut batch = Batch::default();
        let content = Content {
            exchange: b"",
            routing_key: b"q",
            properties: &[0, 0],
            body: BodyRef::Small(b"x"),
            arrived_us: 0,
        };
        for letters in 1..=BATCH_LETTERS {
            let Some(parcel @ Parcel::Packed(_)) = batch.pack(&content) else { panic!("a small message is packed") };
            assert!(!batch.is_full());
            let queues = batch.list([QueueId { index: 1, serial: 0 }].into_iter());
            assert!(!batch.is_full());
            batch.push(Letter::Publish { parcel, queues, confirm: false });
            assert_eq!(batch.is_full(), letters == BATCH_LETTERS);
        }
        assert!(batch.pack(&content).is_some());
        assert!(!batch.is_full(), "the letter of the last message is still to come");
    }
}
