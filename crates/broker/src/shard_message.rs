//! The mail between shards.
//!
//! Enters: commands for another shard, and small messages copied into one run of bytes.  Leaves: the same, in order.
//! Owns:   the vocabulary between shards, and the layout of a batch.
//! Never:  blocks, allocates for a small message once a batch has been used.

use crate::ids::{ConsumerKey, QueuePosition};
use crate::limits::{BATCH_BYTES, BATCH_MESSAGES, INLINE_BODY_BYTES_MAX, PACKED_MESSAGES_MAX};
use crate::message::{BodyRef, Content, Message};
use crate::ready_messages::QueueEntry;
use catalog::{Definition, QueueId, Refusal, SessionId};
use std::ops::Range;
use std::sync::Arc;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The connection.
    pub session: SessionId,
    /// The channel.
    pub channel: u16,
    /// Which of this shard's questions; zero if nobody waits.
    pub request: u32,
}

/// A question to the shard where a queue lives.
#[derive(Debug)]
pub enum QueueRequest {
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
    ReplyConsumer(crate::direct_reply::ReplyAddress),
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
pub enum QueueResponse {
    /// Waiting messages and consumers; also the answer to purge (messages dropped) and to deletable.
    Counts {
        /// Messages.
        messages: u32,
        /// Consumers.
        consumers: u32,
    },
    /// A message, where it stood, whether it was handed out before, and how many wait behind it.
    Message {
        /// The queue it comes from.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
        /// The message.
        message: Message,
        /// Handed out before.
        redelivered: bool,
        /// It must be acknowledged.
        ack_required: bool,
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
    Deferred,
}

/// A change of definitions that was refused; those behind it were not made.
#[derive(Debug)]
pub struct RefusedDefinition {
    /// How many of its letter were made before it.
    pub made: usize,
    /// Why.
    pub refusal: Refusal,
}

/// A small message's place in a batch's bytes. What follows it there may be the bodies of more messages with the same head.
#[derive(Clone, Copy, Debug)]
pub struct PackedMessage {
    at: u32,
    properties_bytes: u32,
    body_bytes: u32,
    exchange_bytes: u8,
    routing_key_bytes: u8,
}

/// A message in the mail.
#[derive(Debug)]
pub enum ShardPayload {
    /// Its bytes are in the batch.
    Packed(PackedMessage),
    /// Shared memory.
    Shared(Message),
}

/// One piece of mail.
#[derive(Debug)]
pub enum ShardMessage {
    /// To shard 0: changes of definitions, in their order up to the first that is refused.
    Define {
        /// Who waits for the outcome, if anybody.
        requester: Option<Requester>,
        /// The changes.
        definitions: Vec<Definition>,
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
    /// From shard 0: what became of changes, once every replica has made them.
    DefinitionOutcome {
        /// Who asked.
        requester: Requester,
        /// The outcome.
        result: Result<(), RefusedDefinition>,
    },
    /// A message for queues that live there, or several that follow one another and differ in their bodies alone.
    Publish {
        /// The message, or the first of them.
        payload: ShardPayload,
        /// How many; more than one only if they are packed.
        messages: u32,
        /// The queues, as a range of the batch's list.
        queues: Range<u32>,
        /// The sender waits for [`Letter::Accepted`].
        confirm: bool,
    },
    /// So many more of the publishes that asked for it are in their queues.
    PublishesAccepted {
        /// How many.
        publishes: u32,
    },
    /// The next of the publishes that asked for it is not: a queue had no room.
    PublishRefused,
    /// A message for a consumer there, or several that follow one another in the queue and differ in their bodies alone.
    Deliver {
        /// The consumer.
        consumer: ConsumerKey,
        /// The queue.
        queue: QueueId,
        /// Its place in the queue.
        position: QueuePosition,
        /// Handed out before.
        redelivered: bool,
        /// It must be acknowledged.
        ack_required: bool,
        /// The message, or the first of them.
        payload: ShardPayload,
        /// How many; more than one only if they are packed.
        messages: u32,
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
        position: QueuePosition,
        /// How many.
        count: u32,
    },
    /// To a queue that has dead letters: a consumer does not want this message.
    Rejected {
        /// The queue.
        queue: QueueId,
        /// The message's place.
        position: QueuePosition,
        /// The message.
        message: Message,
    },
    /// To a queue: this message comes back.
    Returned {
        /// The queue.
        queue: QueueId,
        /// The message's place.
        position: QueuePosition,
        /// The message.
        message: Message,
        /// A client has seen it.
        redelivered: bool,
        /// A client has seen it this time.
        was_delivered: bool,
        /// It was out under an acknowledgement.
        ack_required: bool,
    },
    /// To a queue's shard.
    Request {
        /// Who waits.
        requester: Requester,
        /// The queue.
        queue: QueueId,
        /// The question.
        request: QueueRequest,
    },
    /// The answer.
    Response {
        /// Who waits.
        requester: Requester,
        /// The answer.
        response: QueueResponse,
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
        address: crate::direct_reply::ReplyAddress,
        /// The reply.
        message: Message,
    },
}

impl ShardMessage {
    /// A message returns to its queue, and no client has seen it.
    pub(crate) fn returned(queue: QueueId, entry: QueueEntry, ack_required: bool) -> Self {
        let QueueEntry { position, message, redelivered } = entry;
        ShardMessage::Returned { queue, position, message, redelivered, was_delivered: false, ack_required }
    }
}

/// Letters of one tick for one shard, with the bytes of their small messages.
#[derive(Default)]
pub struct ShardBatch {
    /// The letters, in order.
    pub messages: Vec<ShardMessage>,
    bytes: Vec<u8>,
    queues: Vec<QueueId>,
}

impl ShardBatch {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether it should be handed over now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.messages.len() >= BATCH_MESSAGES
    }

    /// Bytes of this batch itself.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.messages.capacity() * size_of::<ShardMessage>()
            + self.queues.capacity() * size_of::<QueueId>()
    }

    /// Empties it and keeps its memory, within reason.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.bytes.clear();
        self.queues.clear();
        self.messages.shrink_to(BATCH_MESSAGES * 2);
        self.bytes.shrink_to(BATCH_BYTES * 2);
        self.queues.shrink_to(BATCH_MESSAGES * 2);
    }

    /// Adds a letter.
    #[inline]
    pub fn push(&mut self, letter: ShardMessage) {
        self.messages.push(letter);
    }

    /// A queue's message is settled: one letter for those that follow one another, so that a million acknowledged at once
    /// are no million letters.
    #[inline]
    pub fn push_settled(&mut self, queue: QueueId, place: QueuePosition) {
        match self.messages.last_mut() {
            Some(ShardMessage::Settled { queue: last, position: first, count })
                if *last == queue && first.0 + u64::from(*count) == place.0 && *count < u32::MAX =>
            {
                *count += 1;
            }
            _ => self.push(ShardMessage::Settled { queue, position: place, count: 1 }),
        }
    }

    /// This replica has made every change up to one: of several in a row the last says it all.
    pub fn push_applied(&mut self, version: u64) {
        match self.messages.last_mut() {
            Some(ShardMessage::Applied { version: last }) => *last = version,
            _ => self.push(ShardMessage::Applied { version }),
        }
    }

    /// Adds a small message for queues there; answers false if it should travel as shared memory. If it differs from the one
    /// before in its body alone, it becomes part of that letter, and what it costs on its way is little more than its body.
    #[inline]
    pub fn push_publish(
        &mut self,
        content: &Content<'_>,
        queues: impl Iterator<Item = QueueId> + Clone,
        confirm: bool,
    ) -> bool {
        let Some(body) = small(content) else { return false };
        if let Some(ShardMessage::Publish { payload: ShardPayload::Packed(packed), messages, queues: range, confirm: before }) =
            self.messages.last_mut()
            && *before == confirm
            && *messages < PACKED_MESSAGES_MAX
            && packed.has_head_of(content, body, &self.bytes)
            && self.queues[range.start as usize..range.end as usize].iter().copied().eq(queues.clone())
        {
            self.bytes.extend_from_slice(body);
            *messages += 1;
            return true;
        }
        let parcel = ShardPayload::Packed(self.pack(content, body));
        let queues = self.push_queues(queues);
        self.push(ShardMessage::Publish { payload: parcel, messages: 1, queues, confirm });
        true
    }

    /// Adds a message for a consumer there, as [`Batch::push_publish`] does.
    #[inline]
    pub fn push_deliver(
        &mut self,
        content: &Content<'_>,
        to: (ConsumerKey, QueueId, QueuePosition),
        redelivered: bool,
        ack_required: bool,
    ) -> bool {
        let Some(body) = small(content) else { return false };
        let (consumer, queue, place) = to;
        if let Some(ShardMessage::Deliver {
            consumer: last_consumer,
            queue: last_queue,
            position: first,
            redelivered: last_redelivered,
            ack_required: last_ack_required,
            payload: ShardPayload::Packed(packed),
            messages,
        }) = self.messages.last_mut()
            && (*last_consumer, *last_queue) == (consumer, queue)
            && (*last_redelivered, *last_ack_required) == (redelivered, ack_required)
            && first.0 + u64::from(*messages) == place.0
            && *messages < PACKED_MESSAGES_MAX
            && packed.has_head_of(content, body, &self.bytes)
        {
            self.bytes.extend_from_slice(body);
            *messages += 1;
            return true;
        }
        let parcel = ShardPayload::Packed(self.pack(content, body));
        self.push(ShardMessage::Deliver { consumer, queue, position: place, redelivered, ack_required, payload: parcel, messages: 1 });
        true
    }

    #[inline]
    fn pack(&mut self, content: &Content<'_>, body: &[u8]) -> PackedMessage {
        let at = self.bytes.len() as u32;
        self.bytes.reserve(content.bytes());
        self.bytes.extend_from_slice(&content.arrived_us.to_le_bytes());
        self.bytes.extend_from_slice(content.exchange);
        self.bytes.extend_from_slice(content.routing_key);
        self.bytes.extend_from_slice(content.properties);
        self.bytes.extend_from_slice(body);
        PackedMessage {
            at,
            properties_bytes: content.properties.len() as u32,
            body_bytes: body.len() as u32,
            exchange_bytes: content.exchange.len() as u8,
            routing_key_bytes: content.routing_key.len() as u8,
        }
    }

    /// Adds a list of queues for the letter that is written next; answers its range.
    #[inline]
    pub fn push_queues(&mut self, queues: impl Iterator<Item = QueueId>) -> Range<u32> {
        let from = self.queues.len() as u32;
        self.queues.extend(queues);
        from..self.queues.len() as u32
    }

    /// The queues of a range.
    #[inline]
    pub fn queues(&self, range: &Range<u32>) -> &[QueueId] {
        &self.queues[range.start as usize..range.end as usize]
    }

    /// The parts of so many packed messages with one head.
    #[inline]
    pub fn unpack(&self, packed: &PackedMessage, messages: u32) -> impl Iterator<Item = Content<'_>> {
        let PackedMessage { properties_bytes, body_bytes, exchange_bytes, routing_key_bytes, .. } = *packed;
        let (arrived_us, rest) = self.bytes[packed.at as usize..].split_at(size_of::<u64>());
        let arrived_us = arrived_us.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (exchange, rest) = rest.split_at(exchange_bytes as usize);
        let (routing_key, rest) = rest.split_at(routing_key_bytes as usize);
        let (properties, mut rest) = rest.split_at(properties_bytes as usize);
        (0..messages).map(move |_| {
            let (body, behind) = rest.split_at(body_bytes as usize);
            rest = behind;
            Content { exchange, routing_key, properties, body: BodyRef::Small(body), bcc: &[], arrived_us }
        })
    }
}

impl PackedMessage {
    /// Whether this message and that one differ in their bodies alone, which have one length.
    #[inline]
    fn has_head_of(&self, content: &Content<'_>, body: &[u8], bytes: &[u8]) -> bool {
        let &PackedMessage { at, properties_bytes, body_bytes, exchange_bytes, routing_key_bytes } = self;
        if (properties_bytes as usize, body_bytes as usize) != (content.properties.len(), body.len())
            || (exchange_bytes as usize, routing_key_bytes as usize)
                != (content.exchange.len(), content.routing_key.len())
        {
            return false;
        }
        let (arrived_us, rest) = bytes[at as usize..].split_at(size_of::<u64>());
        let (exchange, rest) = rest.split_at(exchange_bytes as usize);
        let (routing_key, rest) = rest.split_at(routing_key_bytes as usize);
        routing_key == content.routing_key
            && rest[..properties_bytes as usize] == *content.properties
            && exchange == content.exchange
            && arrived_us == content.arrived_us.to_le_bytes()
    }
}

/// The body of a message that travels as bytes. Blind copies are rare enough to travel as shared memory.
#[inline]
fn small<'a>(content: &Content<'a>) -> Option<&'a [u8]> {
    match content.body {
        BodyRef::Small(body) if body.len() <= INLINE_BODY_BYTES_MAX && content.bcc.is_empty() => Some(body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ShardBatch, ShardMessage, ShardPayload};
    use crate::ids::{ConsumerKey, QueuePosition};
        use crate::limits::INLINE_BODY_BYTES_MAX;
    use crate::message::{BodyRef, Content};
    use catalog::QueueId;

    #[test]
    fn messages_that_follow_one_another_are_settled_by_one_letter() {
        let mut batch = ShardBatch::default();
        let [a, b] = [1, 2].map(|index| QueueId { index, serial: 0 });
        for (queue, place) in [(a, 5), (a, 6), (a, 7), (b, 8), (a, 8), (a, 10), (a, 11), (a, 11)] {
            batch.push_settled(queue, QueuePosition(place));
        }
        let settled = batch.messages.iter().map(|letter| match letter {
            ShardMessage::Settled { queue, position: place, count } => (queue.index, place.0, *count),
            other => panic!("{other:?}"),
        });
        assert_eq!(settled.collect::<Vec<_>>(), [(1, 5, 3), (2, 8, 1), (1, 8, 1), (1, 10, 2), (1, 11, 1)]);
    }

    fn parts(content: &Content<'_>, queues: &[QueueId], confirm: bool) -> String {
        let Content { exchange, routing_key, properties, body: BodyRef::Small(body), bcc: [], arrived_us } = content
        else {
            panic!("a small message")
        };
        format!("{exchange:?} {routing_key:?} {properties:?} {body:?} {arrived_us} {queues:?} {confirm}")
    }

    #[test]
    fn small_messages_that_differ_in_their_bodies_alone_are_one_letter() {
        let [a, b] = [1, 2].map(|index| QueueId { index, serial: 0 });
        let plain = Content {
            exchange: b"e",
            routing_key: b"key",
            properties: &[0x10, 0, 1],
            body: BodyRef::Small(b"body"),
            bcc: &[],
            arrived_us: 7,
        };
        let with = |body| Content { body: BodyRef::Small(body), ..plain };
        let published: &[(Content<'_>, &[QueueId], bool)] = &[
            (plain, &[a], false),
            (with(b"BODY"), &[a], false),
            (with(b"next"), &[a], false),
            (with(b"next"), &[a], true),
            (with(b"next"), &[a, b], true),
            (with(b"long body"), &[a, b], true),
            (Content { routing_key: b"yek", ..plain }, &[a, b], true),
            (Content { exchange: b"f", ..plain }, &[a, b], true),
            (Content { properties: &[0x10, 0, 2], ..plain }, &[a, b], true),
            (Content { arrived_us: 8, ..plain }, &[a, b], true),
            (Content { arrived_us: 8, ..plain }, &[a, b], true),
            (Content { body: BodyRef::Small(b""), ..plain }, &[b], true),
            (Content { body: BodyRef::Small(b""), ..plain }, &[b], true),
        ];
        let mut batch = ShardBatch::default();
        for (content, queues, confirm) in published {
            assert!(batch.push_publish(content, queues.iter().copied(), *confirm));
        }
        assert!(!batch.push_publish(&with(&[0; INLINE_BODY_BYTES_MAX + 1]), [a].into_iter(), true));
        let blind = crate::bcc::pack(std::iter::once(b"k".as_slice()));
        assert!(!batch.push_publish(&Content { bcc: &blind, ..plain }, [a].into_iter(), true));
        let mut lengths = Vec::new();
        let mut back = Vec::new();
        for letter in &batch.messages {
            let ShardMessage::Publish { payload: ShardPayload::Packed(packed), messages, queues, confirm } = letter else {
                panic!("{letter:?}")
            };
            lengths.push(*messages);
            back.extend(batch.unpack(packed, *messages).map(|content| parts(&content, batch.queues(queues), *confirm)));
        }
        assert_eq!(lengths, [3, 1, 1, 1, 1, 1, 1, 2, 2]);
        let published = published.iter().map(|(content, queues, confirm)| parts(content, queues, *confirm));
        assert_eq!(back, published.collect::<Vec<_>>());
    }

    #[test]
    fn deliveries_are_one_letter_while_their_places_follow_one_another() {
        let queue = QueueId { index: 1, serial: 0 };
        let content = Content { routing_key: b"q", body: BodyRef::Small(b"x"), ..Content::EMPTY };
        let consumer = ConsumerKey::default();
        let mut batch = ShardBatch::default();
        for (place, redelivered) in [(1, false), (2, false), (4, false), (5, true), (6, true)] {
            assert!(batch.push_deliver(&content, (consumer, queue, QueuePosition(place)), redelivered, true));
        }
        let runs = batch.messages.iter().map(|letter| match letter {
            ShardMessage::Deliver { position: place, messages, .. } => (place.0, *messages),
            other => panic!("{other:?}"),
        });
        assert_eq!(runs.collect::<Vec<_>>(), [(1, 2), (4, 1), (5, 2)]);
    }
}
