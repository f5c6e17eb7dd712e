//! Recovery of a shard's messages: what its log has goes back to the queues, before any client connects.

use crate::limits::{PAGED_MESSAGE_OVERHEAD_BYTES, RECOVERY_LOADED_BYTES_MAX, SPILL_SHARE_DIVISOR};
use crate::logged_message::QueuedMessage;
use crate::message_store::queue_of;
use broker::{Broker, Effects};
use queues::{Message, PageSummary, QueuePosition};
use store::{
    Damage, FoundMessage, FoundPage, LiveTotals, LogId, OnDamage, Position, RecoveredLog, RecoverySink, ScanError,
    SegmentNumber, SegmentReader, StoreTag, StoredMessage,
};

/// A log that is to be recovered.
pub struct LogSource<'a, R> {
    pub reader: &'a mut R,
    pub store: StoreTag,
    pub log: LogId,
    pub segments: Vec<SegmentNumber>,
    pub on_damage: OnDamage,
    /// Bytes of waiting messages that stay in memory, if others may stay on the disk as pages; otherwise zero.
    pub paging_threshold: u64,
}

/// The flag of the expiration in the properties of a message, AMQP 0-9-1 §4.2.6.1.
const EXPIRATION_FLAG: u16 = 1 << 8;

/// Gives the broker core what is found.
struct MessageRestorer<'a, E> {
    broker: &'a mut Broker,
    effects: &'a mut E,
    paging_threshold: u64,
}

/// About what messages take in memory.
fn memory_bytes(messages: u64, body_bytes: u64) -> u64 {
    body_bytes.saturating_add(messages.saturating_mul(PAGED_MESSAGE_OVERHEAD_BYTES))
}

impl<E: Effects> RecoverySink for MessageRestorer<'_, E> {
    type Message = Message;

    fn is_there(&mut self, queue: store::QueueUid) -> bool {
        queue_of(queue).is_some_and(|uid| self.broker.is_there(uid))
    }

    /// Delayed messages are needed at once: when their delay is over is in their content. Pages of a queue that has a small share
    /// of the log take much reading for little: it has its messages as long as there is memory.
    fn is_loaded(&mut self, queue: store::QueueUid, own: LiveTotals, log: LiveTotals) -> bool {
        let is_delayed = queue_of(queue).is_none_or(|uid| self.broker.queue_of(uid).is_none());
        let wanted = memory_bytes(log.messages, log.body_bytes);
        let is_sparse = memory_bytes(own.messages, own.body_bytes) < own.log_bytes / SPILL_SHARE_DIVISOR;
        let most = if is_sparse { self.paging_threshold } else { self.paging_threshold.min(RECOVERY_LOADED_BYTES_MAX) };
        is_delayed || self.paging_threshold == 0 || wanted <= most
    }

    fn message(&mut self, message: &StoredMessage<'_>) -> Message {
        QueuedMessage::read(message, self.effects.pool()).0
    }

    fn restore(&mut self, queue: store::QueueUid, position: Position, message: Message, found: FoundMessage) {
        let uid = queue_of(queue).expect("only messages of queues that are there are restored");
        let (position, redelivered) = (QueuePosition(position.0), found.is_redelivered());
        let times_returned = found.times_returned;
        let is_taken = self.broker.restore_message(uid, position, message, redelivered, times_returned, self.effects);
        assert!(is_taken, "a queue that is there takes its messages in their order");
    }

    fn restore_page(&mut self, queue: store::QueueUid, page: FoundPage) {
        let uid = queue_of(queue).expect("only pages of queues that are there are restored");
        let FoundPage { first, end, count, body_bytes, first_arrived_us, last_arrived_us, flags } = page;
        let summary = PageSummary {
            first: QueuePosition(first.0),
            end: QueuePosition(end.0),
            count: u32::try_from(count).expect("a page has a few thousand messages"),
            bytes: memory_bytes(count, body_bytes),
            body_bytes,
            first_arrived_us,
            last_arrived_us,
            may_have_expiration: flags & EXPIRATION_FLAG > 0,
        };
        self.broker.restore_page(uid, summary);
    }

    fn finish(&mut self, queue: store::QueueUid, next: &[Position]) {
        let uid = queue_of(queue).expect("only queues that are there are restored");
        let next: Vec<_> = next.iter().map(|position| QueuePosition(position.0)).collect();
        self.broker.finish_restore(uid, &next, self.effects);
    }

    fn on_damage(&mut self, damage: &Damage) {
        tracing::error!(%damage, "messages are lost");
    }
}

/// Gives the queues of a broker what is alive in a log, and returns where it goes on.
///
/// # Errors
/// The log cannot be read, or is damaged and damage is not to be skipped.
pub fn recover_messages<R: SegmentReader>(
    broker: &mut Broker,
    effects: &mut impl Effects,
    source: LogSource<'_, R>,
) -> Result<RecoveredLog, ScanError> {
    let LogSource { reader, store, log, segments, on_damage, paging_threshold } = source;
    let mut restorer = MessageRestorer { broker, effects, paging_threshold };
    store::recover(reader, store, log, segments, on_damage, &mut restorer)
}
