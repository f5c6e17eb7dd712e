//! Recovery of a shard's messages: what its log has goes back to the queues, before any client connects.

use crate::effects::ShardEffects;
use crate::logged_message::{QueuedMessage, content_of};
use crate::sessions::Sessions;
use broker::limits::{PAGE_BYTES_MAX, PAGE_MESSAGES_MAX, PAGED_QUEUE_UID_FIRST};
use broker::{Broker, Message, PageSummary, QueuePosition};
use catalog::QueueUid;
use std::time::Instant;
use store::{
    Damage, FoundMessage, LogId, OnDamage, Position, RecoveredLog, RecoverySink, ScanError, SegmentNumber,
    SegmentReader, StoreTag, StoredMessage,
};

/// A log that is to be recovered.
pub struct LogSource<'a, R> {
    pub reader: &'a mut R,
    pub store: StoreTag,
    pub log: LogId,
    pub segments: Vec<SegmentNumber>,
    pub on_damage: OnDamage,
    /// Messages for which there is no memory stay in the log: the store that follows reads them
    /// ([`MessageStore::set_spill`](crate::MessageStore::set_spill)).
    pub may_page: bool,
}

/// What a message that was found waits as until it is known to be alive.
#[derive(Clone)]
enum RestoredMessage {
    InMemory(Message),
    /// It stays where it is, and comes with its page.
    Paged {
        bytes: u64,
        body_bytes: u64,
        arrived_us: u64,
        has_expiration: bool,
    },
}

/// Gives the broker core what is found: messages, and pages of those for which there is no memory.
struct MessageRestorer<'a> {
    broker: &'a mut Broker,
    effects: &'a mut ShardEffects,
    /// Bytes of messages beyond which others stay in the log; zero for never.
    paging_threshold: u64,
    /// The page that is begun, of the queue that is being restored.
    page: Option<PageSummary>,
}

pub(crate) fn queue_of(uid: store::QueueUid) -> Option<QueueUid> {
    QueueUid::new(uid.0)
}

impl MessageRestorer<'_> {
    /// Whether a message of this queue stays in the log. Delayed ones, whose queues are numbered as pages of others are, do not.
    fn must_page(&self, queue: store::QueueUid) -> bool {
        let used_bytes = broker::Effects::pool(self.effects).used_bytes() as u64;
        self.paging_threshold > 0 && used_bytes > self.paging_threshold && queue.0 < PAGED_QUEUE_UID_FIRST
    }

    fn restore_page(&mut self, uid: QueueUid) {
        if let Some(page) = self.page.take() {
            self.broker.restore_page(uid, page);
        }
    }

    /// A message goes to the page that is begun, or to the next one.
    fn add_to_page(&mut self, uid: QueueUid, one: PageSummary) {
        let has_capacity = |page: &PageSummary| {
            let is_same_level = Position(page.first.0).level() == Position(one.first.0).level();
            is_same_level && (page.count as usize) < PAGE_MESSAGES_MAX && page.bytes + one.bytes <= PAGE_BYTES_MAX
        };
        if !self.page.as_ref().is_some_and(has_capacity) {
            self.restore_page(uid);
        }
        match &mut self.page {
            Some(page) => {
                page.end = one.end;
                page.count += 1;
                page.bytes += one.bytes;
                page.body_bytes += one.body_bytes;
                page.first_arrived_us = page.first_arrived_us.min(one.first_arrived_us);
                page.last_arrived_us = page.last_arrived_us.max(one.last_arrived_us);
                page.may_have_expiration |= one.may_have_expiration;
            }
            None => self.page = Some(one),
        }
    }
}

impl RecoverySink for MessageRestorer<'_> {
    type Message = RestoredMessage;

    fn is_there(&mut self, queue: store::QueueUid) -> bool {
        queue_of(queue).is_some_and(|uid| self.broker.is_there(uid))
    }

    fn message(&mut self, queue: store::QueueUid, message: &StoredMessage<'_>) -> RestoredMessage {
        if !self.must_page(queue) {
            let pool = broker::Effects::pool(self.effects);
            return RestoredMessage::InMemory(QueuedMessage::read(message, pool).0);
        }
        let content = content_of(message);
        RestoredMessage::Paged {
            bytes: content.bytes() as u64,
            body_bytes: message.body.len() as u64,
            arrived_us: message.arrived_us,
            has_expiration: content.properties().has_expiration(),
        }
    }

    fn restore(&mut self, queue: store::QueueUid, position: Position, message: RestoredMessage, found: FoundMessage) {
        let uid = queue_of(queue).expect("only messages of queues that are there are restored");
        let first = QueuePosition(position.0);
        match message {
            RestoredMessage::InMemory(message) => {
                self.restore_page(uid);
                let FoundMessage { was_delivered, times_returned } = found;
                let is_taken =
                    self.broker.restore_message(uid, first, message, was_delivered, times_returned, self.effects);
                assert!(is_taken, "a queue that is there takes its messages in their order");
            }
            RestoredMessage::Paged { bytes, body_bytes, arrived_us, has_expiration } => {
                let one = PageSummary {
                    first,
                    end: QueuePosition(position.0 + 1),
                    count: 1,
                    bytes,
                    body_bytes,
                    first_arrived_us: arrived_us,
                    last_arrived_us: arrived_us,
                    may_have_expiration: has_expiration,
                };
                self.add_to_page(uid, one);
            }
        }
    }

    fn finish(&mut self, queue: store::QueueUid, next: &[Position]) {
        let uid = queue_of(queue).expect("only queues that are there are restored");
        self.restore_page(uid);
        let next: Vec<_> = next.iter().map(|position| QueuePosition(position.0)).collect();
        self.broker.finish_restore(uid, &next, self.effects);
    }

    fn on_damage(&mut self, damage: &Damage) {
        tracing::error!(%damage, "messages are lost");
    }
}

impl Sessions {
    /// Restores what is alive in a log, and returns where it goes on.
    pub fn recover_messages<R: SegmentReader>(
        &mut self,
        source: LogSource<'_, R>,
        now: Instant,
    ) -> Result<RecoveredLog, ScanError> {
        let Sessions { options, broker, effects, shared, .. } = self;
        // What has expired meanwhile is found when the shard begins to tick.
        broker.set_now(options.time_us(now));
        broker.use_store();
        let LogSource { reader, store, log, segments, on_damage, may_page } = source;
        let paging_threshold = if may_page { shared.paging_threshold() } else { 0 };
        let mut restorer = MessageRestorer { broker, effects, paging_threshold, page: None };
        store::recover(reader, store, log, segments, on_damage, &mut restorer)
    }
}
