//! Messages whose bytes follow from their numbers, and what a recovery finds of them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::LazyLock;
use store::{Damage, FoundMessage, LoggedMessage, Position, QueueUid, RecoverySink, StoredMessage};

/// What bodies are cut out of.
static PATTERN: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..65_521u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect());

/// What a message is made of.
pub struct Content {
    pub id: u64,
    key: [u8; 8],
    properties: Vec<u8>,
    body: Vec<u8>,
}

/// A message that queues share.
#[derive(Clone)]
pub struct Message(Rc<Content>);

impl Message {
    pub fn new(id: u64, body_bytes: usize) -> Message {
        let mut body = Vec::with_capacity(body_bytes);
        while body.len() < body_bytes {
            let from = if body.is_empty() { id as usize * 7919 % PATTERN.len() } else { 0 };
            let bytes = (PATTERN.len() - from).min(body_bytes - body.len());
            body.extend_from_slice(&PATTERN[from..from + bytes]);
        }
        Message(Rc::new(Content { id, key: id.to_le_bytes(), properties: vec![id as u8; (id % 40) as usize], body }))
    }

    /// A message that was read.
    pub fn read(message: &StoredMessage<'_>) -> Message {
        Message::new(Message::id_of(message), message.body.len())
    }

    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The number of a message that was read, every byte of which is right.
    fn id_of(message: &StoredMessage<'_>) -> u64 {
        let id = u64::from_le_bytes(message.routing_key.try_into().expect("a key of eight bytes"));
        let expected = Message::new(id, message.body.len());
        assert!(expected.stored() == *message, "message {id} is as it was written");
        id
    }
}

impl LoggedMessage for Message {
    fn stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            exchange: b"orders",
            routing_key: &self.0.key,
            properties: &self.0.properties,
            bcc: b"",
            arrived_us: 1_000_000 + self.0.id,
            body: &self.0.body,
        }
    }

    fn bytes(&self) -> usize {
        self.0.body.len() + 100
    }

    fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

/// A message of a queue.
pub type Key = (QueueUid, Position);

/// What a recovery finds.
#[derive(Default)]
pub struct Found {
    pub queues: BTreeSet<QueueUid>,
    pub messages: BTreeMap<Key, (u64, FoundMessage)>,
    pub next: BTreeMap<QueueUid, Vec<Position>>,
    pub damage: Vec<Damage>,
}

impl RecoverySink for Found {
    type Message = u64;

    fn is_there(&mut self, queue: QueueUid) -> bool {
        self.queues.contains(&queue)
    }

    fn message(&mut self, _: QueueUid, message: &StoredMessage<'_>) -> u64 {
        Message::id_of(message)
    }

    fn restore(&mut self, queue: QueueUid, position: Position, message: u64, found: FoundMessage) {
        assert!(self.queues.contains(&queue) && !self.next.contains_key(&queue));
        let is_in_order = self.messages.range((queue, position)..=(queue, Position(u64::MAX))).next().is_none();
        assert!(is_in_order, "the messages of a queue come in the order of their positions");
        self.messages.insert((queue, position), (message, found));
    }

    fn finish(&mut self, queue: QueueUid, next: &[Position]) {
        let behind = |last: &Position| next.iter().any(|next| next.level() == last.level() && next > last);
        let mut positions = self.messages.range((queue, Position(0))..=(queue, Position(u64::MAX)));
        assert!(positions.all(|((_, position), _)| behind(position)), "positions go on behind those that were found");
        assert!(self.next.insert(queue, next.to_vec()).is_none());
    }

    fn on_damage(&mut self, damage: &Damage) {
        self.damage.push(*damage);
    }
}
