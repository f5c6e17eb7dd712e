//! Messages between shards, and the batches in which they travel.
//!
//! Small AMQP messages are copied into the bytes of their batch; those that differ in their bodies alone share one head.

use crate::fence::FenceId;
use crate::limits::{BATCH_BYTES, BATCH_MESSAGES, INLINE_BODY_BYTES_MAX, PACKED_MESSAGES_MAX};
use catalog::{Definition, QueueId, Refusal};
use queues::{
    BodyRef, ConsumerKey, Content, Message, QueueEntry, QueuePosition, Requester, SettledMessages, Subscription,
};
use std::ops::Range;
use std::sync::Arc;
use wire::BodyRun;

/// A request to the shard where a queue lives.
#[derive(Debug)]
pub enum QueueRequest {
    /// How many messages and consumers it has.
    Counts,
    Purge,
    /// Whether it may be deleted under these conditions.
    Deletable {
        if_unused: bool,
        if_empty: bool,
    },
    /// One message (`basic.get`).
    Get {
        no_ack: bool,
    },
    Consume(Subscription),
    /// Whether a channel consumes direct replies at this address.
    ReplyConsumer(crate::direct_reply::ReplyAddress),
    Cancel(ConsumerKey),
}

/// The response to a [`QueueRequest`].
#[derive(Debug)]
pub enum QueueResponse {
    /// Also the response to `Purge`, with the messages dropped, and to `Deletable`.
    Counts {
        messages: u32,
        consumers: u32,
    },
    Message {
        queue: QueueId,
        position: QueuePosition,
        message: Message,
        redelivered: bool,
        ack_required: bool,
        messages_left: u32,
    },
    Empty,
    /// The consumer was added or removed.
    Done,
    Refused(Refusal),
    Gone,
    /// It comes later: as the outcome of a change of definitions ([`ShardMessage::DefinitionOutcome`]), or as another response.
    Deferred,
}

impl QueueResponse {
    /// That to a purge which has dropped so many messages.
    pub(crate) fn purged(messages: u32) -> Self {
        QueueResponse::Counts { messages, consumers: 0 }
    }
}

/// A change of definitions that was refused; those after it were not made.
#[derive(Debug)]
pub struct RefusedDefinition {
    /// How many of its batch were made before it.
    pub made: usize,
    pub refusal: Refusal,
}

/// A small message in the bytes of a batch. The bodies of more messages with the same head may follow it.
#[derive(Clone, Copy, Debug)]
pub struct PackedMessage {
    at: u32,
    properties_bytes: u32,
    body_bytes: u32,
    exchange_bytes: u8,
    routing_key_bytes: u8,
}

/// An AMQP message between shards.
#[derive(Debug)]
pub enum ShardPayload {
    /// Copied into the batch.
    Packed(PackedMessage),
    /// In shared memory.
    Shared(Message),
}

/// A message from one shard to another.
#[derive(Debug)]
pub enum ShardMessage {
    /// To shard 0: make changes of definitions, in their order up to the first that is refused.
    Define {
        requester: Option<Requester>,
        definitions: Vec<Definition>,
        /// Their client awaits no reply.
        no_wait: bool,
    },
    /// From shard 0: make a change, in the order of versions.
    Apply {
        version: u64,
        definition: Arc<Definition>,
    },
    /// To shard 0: this replica has made every change up to this one.
    Applied {
        version: u64,
    },
    /// From shard 0: the outcome of changes, once every replica has made them.
    DefinitionOutcome {
        requester: Requester,
        result: Result<(), RefusedDefinition>,
    },
    /// A message for queues there, or several that follow one another and differ in their bodies alone.
    Publish {
        payload: ShardPayload,
        /// How many; more than one only if they are packed.
        messages: u32,
        /// The queues, as a range of the batch's list.
        queues: Range<u32>,
        /// The sender awaits [`ShardMessage::PublishesAccepted`].
        confirm: bool,
    },
    /// What follows, up to [`ShardMessage::EndCommit`], is one commit of the store there.
    BeginCommit,
    /// The sender awaits an answer, as to a publish, once the commit is durable.
    EndCommit,
    /// Further publishes that required an answer are in their queues.
    PublishesAccepted {
        publishes: u32,
    },
    /// The next publish that required an answer was refused: a queue had no capacity.
    PublishRefused,
    /// The same, as a queue is closed: what the store has of the message stays there.
    PublishKept,
    /// A message for a consumer there, or several that follow one another in the queue and differ in their bodies alone.
    Deliver {
        consumer: ConsumerKey,
        queue: QueueId,
        position: QueuePosition,
        redelivered: bool,
        ack_required: bool,
        payload: ShardPayload,
        /// How many; more than one only if they are packed.
        messages: u32,
    },
    /// To a queue: its consumer may be sent more.
    Credit {
        queue: QueueId,
        consumer: ConsumerKey,
        messages: u32,
        bytes: i64,
    },
    /// To a queue: messages at positions that follow one another were acknowledged or dropped.
    Settled {
        queue: QueueId,
        /// That of the first.
        position: QueuePosition,
        count: u32,
        /// Of their bodies.
        bytes: u64,
        /// They were not acknowledged, and are no dead letters.
        are_rejected: bool,
    },
    /// To a durable queue: messages at positions that follow one another were taken by clients that acknowledge nothing.
    Taken {
        queue: QueueId,
        /// That of the first.
        position: QueuePosition,
        count: u32,
    },
    /// To a queue with a target for dead letters: a consumer rejected this message.
    Rejected {
        queue: QueueId,
        position: QueuePosition,
        message: Message,
    },
    /// To a queue: this message returns.
    Returned {
        queue: QueueId,
        position: QueuePosition,
        message: Message,
        redelivered: bool,
        /// A consumer had it this time.
        was_delivered: bool,
        ack_required: bool,
    },
    Request {
        requester: Requester,
        queue: QueueId,
        request: QueueRequest,
    },
    Response {
        requester: Requester,
        response: QueueResponse,
    },
    /// The queue of this consumer was deleted.
    ConsumerCancelled {
        consumer: ConsumerKey,
    },
    /// A queue is full, or is not any more.
    QueueFull {
        queue: QueueId,
        full: bool,
    },
    /// A queue wants messages of its upstreams, or does not any more.
    QueueDemand {
        queue: QueueId,
        is_wanting: bool,
    },
    /// A direct reply (`amq.rabbitmq.reply-to`) for a channel there.
    DirectReply {
        address: crate::direct_reply::ReplyAddress,
        message: Message,
    },
    /// Asks for an answer once all that was sent before is carried out.
    Fence(FenceId),
    /// The answer, with the changes of definitions that the shard has made.
    FenceReached {
        fence: FenceId,
        version: u64,
    },
}

impl ShardMessage {
    /// A message returns to its queue, and no client has seen it.
    pub(crate) fn returned(queue: QueueId, entry: QueueEntry, ack_required: bool) -> Self {
        let QueueEntry { position, message, redelivered } = entry;
        ShardMessage::Returned { queue, position, message, redelivered, was_delivered: false, ack_required }
    }
}

/// The messages of one tick for one shard, with the bytes of their small AMQP messages.
#[derive(Default)]
pub struct ShardBatch {
    pub messages: Vec<ShardMessage>,
    bytes: Vec<u8>,
    queues: Vec<QueueId>,
}

impl ShardBatch {
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether it should be sent now.
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

    #[inline]
    pub fn push(&mut self, message: ShardMessage) {
        self.messages.push(message);
    }

    /// Messages of a queue that follow one another are settled. One shard message covers those that follow one another, so that a
    /// million acknowledged at once are not a million shard messages.
    #[inline]
    pub(crate) fn push_settled(&mut self, queue: QueueId, run: SettledMessages) {
        let SettledMessages { first, count, bytes, are_rejected } = run;
        let goes_on = |before: u64, sum: u32| before + u64::from(sum) == first.0 && sum <= u32::MAX - count;
        match self.messages.last_mut() {
            Some(ShardMessage::Settled { queue: last, position, count: sum, bytes: all, are_rejected: before })
                if (*last, *before) == (queue, are_rejected) && goes_on(position.0, *sum) =>
            {
                *sum += count;
                *all += bytes;
            }
            _ => self.push(ShardMessage::Settled { queue, position: first, count, bytes, are_rejected }),
        }
    }

    /// A message of a durable queue is taken without acknowledgement: one shard message covers those that follow one another, too.
    #[inline]
    pub(crate) fn push_taken(&mut self, queue: QueueId, position: QueuePosition) {
        match self.messages.last_mut() {
            Some(ShardMessage::Taken { queue: last, position: first, count })
                if *last == queue && first.0 + u64::from(*count) == position.0 && *count < u32::MAX =>
            {
                *count += 1;
            }
            _ => self.push(ShardMessage::Taken { queue, position, count: 1 }),
        }
    }

    /// This replica has made every change up to a version. The last of several replaces those before it.
    pub(crate) fn push_applied(&mut self, version: u64) {
        match self.messages.last_mut() {
            Some(ShardMessage::Applied { version: last }) => *last = version,
            _ => self.push(ShardMessage::Applied { version }),
        }
    }

    /// Adds a small message for queues there; returns false if it should travel in shared memory. If it differs from the one before
    /// in its body alone, only its body is added.
    #[inline]
    pub(crate) fn push_publish(
        &mut self,
        content: &Content<'_>,
        queues: impl Iterator<Item = QueueId> + Clone,
        confirm: bool,
    ) -> bool {
        let Some(body) = small(content) else { return false };
        if let Some(ShardMessage::Publish {
            payload: ShardPayload::Packed(packed),
            messages,
            queues: range,
            confirm: before,
        }) = self.messages.last_mut()
            && *before == confirm
            // The copies are made in one piece.
            && (*messages + 1).saturating_mul(range.end - range.start) <= PACKED_MESSAGES_MAX
            && packed.has_head_of(content, body, &self.bytes)
            && self.queues[range.start as usize..range.end as usize].iter().copied().eq(queues.clone())
        {
            self.bytes.extend_from_slice(body);
            *messages += 1;
            return true;
        }
        let payload = ShardPayload::Packed(self.pack(content, body));
        let queues = self.push_queues(queues);
        self.push(ShardMessage::Publish { payload, messages: 1, queues, confirm });
        true
    }

    /// Adds a message for a consumer there, as [`ShardBatch::push_publish`] does.
    #[inline]
    pub(crate) fn push_deliver(
        &mut self,
        content: &Content<'_>,
        to: (ConsumerKey, QueueId, QueuePosition),
        redelivered: bool,
        ack_required: bool,
    ) -> bool {
        let Some(body) = small(content) else { return false };
        let (consumer, queue, position) = to;
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
            && first.0 + u64::from(*messages) == position.0
            && *messages < PACKED_MESSAGES_MAX
            && packed.has_head_of(content, body, &self.bytes)
        {
            self.bytes.extend_from_slice(body);
            *messages += 1;
            return true;
        }
        let payload = ShardPayload::Packed(self.pack(content, body));
        self.push(ShardMessage::Deliver { consumer, queue, position, redelivered, ack_required, payload, messages: 1 });
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

    /// Adds a list of queues for the shard message that is written next; returns its range.
    #[inline]
    pub(crate) fn push_queues(&mut self, queues: impl Iterator<Item = QueueId>) -> Range<u32> {
        let from = self.queues.len() as u32;
        self.queues.extend(queues);
        from..self.queues.len() as u32
    }

    /// The queues of a range.
    #[inline]
    pub fn queues(&self, range: &Range<u32>) -> &[QueueId] {
        &self.queues[range.start as usize..range.end as usize]
    }

    /// The bodies of packed messages with one head; `None` if they are empty.
    #[inline]
    pub fn bodies(&self, packed: &PackedMessage, messages: u32) -> Option<BodyRun<'_>> {
        let (from, body_bytes) = (packed.at as usize + packed.head_bytes(), packed.body_bytes as usize);
        let all = &self.bytes[from..from + messages as usize * body_bytes];
        (!all.is_empty()).then(|| BodyRun::new(all, body_bytes, 0, body_bytes))
    }

    /// Packed messages with one head.
    #[inline]
    pub(crate) fn unpack(&self, packed: &PackedMessage, messages: u32) -> impl Iterator<Item = Content<'_>> {
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
    /// Bytes before the body of the first.
    #[inline]
    fn head_bytes(&self) -> usize {
        let (exchange, routing_key) = (self.exchange_bytes as usize, self.routing_key_bytes as usize);
        size_of::<u64>() + exchange + routing_key + self.properties_bytes as usize
    }

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

/// The body of a message that travels as bytes. Messages with keys of `BCC` are rare enough to travel in shared memory.
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
    use crate::limits::{BATCH_BYTES, BATCH_MESSAGES, INLINE_BODY_BYTES_MAX};
    use catalog::QueueId;
    use queues::{BodyRef, ConsumerKey, Content, QueuePosition, SettledMessages};

    #[test]
    fn messages_that_follow_one_another_are_settled_together() {
        let mut batch = ShardBatch::default();
        let [a, b] = [1, 2].map(|index| QueueId { index, serial: 0 });
        for (queue, at, count) in [(a, 5, 1), (a, 6, 2), (b, 8, 1), (a, 8, 1), (a, 10, 2), (a, 11, 1), (a, 12, 1)] {
            let (first, bytes) = (QueuePosition(at), (at..at + u64::from(count)).sum());
            batch.push_settled(queue, SettledMessages { first, count, bytes, are_rejected: at == 12 });
        }
        let settled = batch.messages.iter().map(|message| match message {
            ShardMessage::Settled { queue, position, count, bytes, .. } => (queue.index, position.0, *count, *bytes),
            other => panic!("{other:?}"),
        });
        let expected = [(1, 5, 3, 18), (2, 8, 1, 8), (1, 8, 1, 8), (1, 10, 2, 21), (1, 11, 1, 11), (1, 12, 1, 12)];
        assert_eq!(settled.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_empty_batch_keeps_the_memory_of_two_batches_and_no_more() {
        let mut batch = ShardBatch::default();
        let queue = QueueId { index: 1, serial: 0 };
        for (rounds, most) in [(1, 2), (2, 2), (5, 2)] {
            for position in 0..rounds * BATCH_MESSAGES as u64 {
                let first = QueuePosition(2 * position);
                batch.push_settled(queue, SettledMessages { first, count: 1, bytes: 0, are_rejected: false });
            }
            batch.bytes.resize(rounds as usize * BATCH_BYTES, 0);
            batch.queues.resize(rounds as usize * BATCH_MESSAGES, queue);
            batch.clear();
            let kept = [batch.messages.capacity(), batch.queues.capacity()];
            let expected = (rounds as usize).min(most);
            assert!(kept.iter().all(|kept| (expected * BATCH_MESSAGES..=2 * most * BATCH_MESSAGES).contains(kept)));
            assert!((expected * BATCH_BYTES..=2 * most * BATCH_BYTES).contains(&batch.bytes.capacity()));
        }
        assert_eq!(batch.messages.capacity(), 2 * BATCH_MESSAGES);
    }

    fn parts(content: &Content<'_>, queues: &[QueueId], confirm: bool) -> String {
        let Content { exchange, routing_key, properties, body: BodyRef::Small(body), bcc: [], arrived_us } = content
        else {
            panic!("a small message")
        };
        format!("{exchange:?} {routing_key:?} {properties:?} {body:?} {arrived_us} {queues:?} {confirm}")
    }

    #[test]
    fn small_messages_that_differ_in_their_bodies_alone_share_a_head() {
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
        // One key with its length, and the length of the whole.
        let bcc = b"\x01k\x06\0\0\0";
        assert!(!batch.push_publish(&Content { bcc, ..plain }, [a].into_iter(), true));
        let mut lengths = Vec::new();
        let mut back = Vec::new();
        for message in &batch.messages {
            let ShardMessage::Publish { payload: ShardPayload::Packed(packed), messages, queues, confirm } = message
            else {
                panic!("{message:?}")
            };
            lengths.push(*messages);
            back.extend(batch.unpack(packed, *messages).map(|content| parts(&content, batch.queues(queues), *confirm)));
        }
        assert_eq!(lengths, [3, 1, 1, 1, 1, 1, 1, 2, 2]);
        let published = published.iter().map(|(content, queues, confirm)| parts(content, queues, *confirm));
        assert_eq!(back, published.collect::<Vec<_>>());
    }

    #[test]
    fn deliveries_share_a_head_while_their_positions_follow_one_another() {
        let queue = QueueId { index: 1, serial: 0 };
        let content = Content { routing_key: b"q", body: BodyRef::Small(b"x"), ..Content::EMPTY };
        let consumer = ConsumerKey::default();
        let mut batch = ShardBatch::default();
        for (position, redelivered) in [(1, false), (2, false), (4, false), (5, true), (6, true)] {
            assert!(batch.push_deliver(&content, (consumer, queue, QueuePosition(position)), redelivered, true));
        }
        let counts = batch.messages.iter().map(|message| match message {
            ShardMessage::Deliver { position, messages, .. } => (position.0, *messages),
            other => panic!("{other:?}"),
        });
        assert_eq!(counts.collect::<Vec<_>>(), [(1, 2), (4, 1), (5, 2)]);
    }
}
