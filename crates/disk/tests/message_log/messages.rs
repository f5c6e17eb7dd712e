//! Messages whose bytes follow from their numbers, and what a recovery finds of them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::LazyLock;
use store::limits::{PAGE_BYTES_MAX, PAGE_MESSAGES_MAX};
use store::{
    Damage, FoundMessage, FoundPage, LiveTotals, LoggedMessage, Position, QueueUid, RecoverySink, StoredMessage,
};

/// What bodies are cut out of.
static PATTERN: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..65_521u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect());

/// From this number on, as many messages as a run has at most have the head of the first of them. Their bodies begin with their
/// own numbers.
pub const FIRST_OF_RUNS: u64 = 1 << 40;
pub const RUN_MESSAGES_MAX: u64 = 16;

fn is_of_run(id: u64) -> bool {
    id >= FIRST_OF_RUNS
}

/// The number of the message whose head a message has: mostly its own.
fn head_of(id: u64) -> u64 {
    if is_of_run(id) { id - id % RUN_MESSAGES_MAX } else { id }
}

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
        let head = head_of(id);
        if is_of_run(id) {
            body.truncate(body_bytes.saturating_sub(8));
            body.splice(..0, id.to_le_bytes());
        }
        let properties = vec![head as u8; (head % 40) as usize];
        Message(Rc::new(Content { id, key: head.to_le_bytes(), properties, body }))
    }

    /// A message that was read.
    pub fn read(message: &StoredMessage<'_>) -> Message {
        Message::id_of(message);
        Message::expected(message)
    }

    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The number of a message that was read, every byte of which is right.
    fn id_of(message: &StoredMessage<'_>) -> u64 {
        let expected = Message::expected(message);
        assert!(expected.stored() == *message, "message {} is as it was written", expected.id());
        expected.id()
    }

    /// What must have been written.
    fn expected(message: &StoredMessage<'_>) -> Message {
        let number = |bytes: &[u8]| bytes.first_chunk().map(|&bytes| u64::from_le_bytes(bytes)).expect("eight bytes");
        let head = number(message.routing_key);
        Message::new(if is_of_run(head) { number(message.body) } else { head }, message.body.len())
    }
}

impl LoggedMessage for Message {
    fn stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            exchange: b"orders",
            routing_key: &self.0.key,
            properties: &self.0.properties,
            bcc: b"",
            arrived_us: 1_000_000 + head_of(self.0.id),
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
    /// Messages are restored as pages.
    pub is_paged: bool,
    pub pages: BTreeMap<QueueUid, Vec<FoundPage>>,
    pub totals: LiveTotals,
}

impl Found {
    /// These pages have the messages of the other recovery, which has read them.
    pub fn check_pages(&self, read: &Found) {
        assert!(self.messages.is_empty() && read.pages.is_empty());
        let mut rest = read.messages.iter().peekable();
        for (&queue, page) in self.pages.iter().flat_map(|(queue, pages)| pages.iter().map(move |page| (queue, page))) {
            let mut count = 0;
            while let Some(((_, position), (id, _))) =
                rest.next_if(|((uid, position), _)| *uid == queue && (page.first..page.end).contains(position))
            {
                assert_eq!(position.level(), page.first.level());
                let head = head_of(*id);
                let arrived_us = 1_000_000 + head;
                assert!((page.first_arrived_us..=page.last_arrived_us).contains(&arrived_us));
                let flags = if head % 40 > 1 { u16::from_be_bytes([head as u8; 2]) } else { 0 };
                assert_eq!(page.flags & flags, flags, "the flags of all messages are those of the page");
                count += 1;
            }
            assert_eq!(page.count, count, "a page has what is alive of its positions");
            assert!(count > 0 && count <= PAGE_MESSAGES_MAX);
            assert!(page.body_bytes <= PAGE_BYTES_MAX || count == 1, "{page:?}");
        }
        assert!(rest.next().is_none(), "every message is on a page");
        assert_eq!((self.totals, &self.next), (read.totals, &read.next));
        assert_eq!(self.totals.messages, read.messages.len() as u64);
    }
}

impl RecoverySink for Found {
    type Message = u64;

    fn is_there(&mut self, queue: QueueUid) -> bool {
        self.queues.contains(&queue)
    }

    fn is_loaded(&mut self, queue: QueueUid, own: LiveTotals, log: LiveTotals) -> bool {
        assert!(self.queues.contains(&queue) && own.messages <= log.messages && own.log_bytes <= log.log_bytes);
        self.totals = log;
        !self.is_paged
    }

    fn message(&mut self, message: &StoredMessage<'_>) -> u64 {
        Message::id_of(message)
    }

    fn restore(&mut self, queue: QueueUid, position: Position, message: u64, found: FoundMessage) {
        assert!(self.queues.contains(&queue) && !self.next.contains_key(&queue));
        let behind =
            self.messages.range((queue, position)..).next().map(|((queue, position), _)| (*queue, position.level()));
        assert_ne!(
            behind,
            Some((queue, position.level())),
            "the messages of a level come in the order of their positions"
        );
        self.messages.insert((queue, position), (message, found));
    }

    fn restore_page(&mut self, queue: QueueUid, page: FoundPage) {
        assert!(self.queues.contains(&queue) && !self.next.contains_key(&queue));
        let pages = self.pages.entry(queue).or_default();
        assert!(
            page.first < page.end && pages.last().is_none_or(|last| last.end <= page.first),
            "pages come in their order"
        );
        pages.push(page);
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
