//! What a recovery restores of a log, checked against what it promises.

use std::collections::HashMap;
use store::{
    Damage, FoundMessage, FoundPage, LiveTotals, LoggedMessage, MessageLog, MessageLogOptions, Position, QueueUid,
    RecoveredLog, RecoverySink, StoredMessage,
};

/// Messages that were found. One queue in four is not there.
#[derive(Default)]
pub struct RestoredLog {
    /// Which queues are loaded, a bit for each number modulo eight; others have pages.
    loaded: u8,
    last: HashMap<(QueueUid, u8), Position>,
    finished: Option<QueueUid>,
    /// Those in pages, and those that were read.
    pub messages: u64,
    pub messages_read: u64,
}

impl RestoredLog {
    pub fn new(loaded: u8) -> Self {
        RestoredLog { loaded, ..RestoredLog::default() }
    }

    /// Whether nothing was restored.
    pub fn is_empty(&self) -> bool {
        self.finished.is_none()
    }

    fn follow(&mut self, queue: QueueUid, first: Position, last: Position) {
        let before = self.last.insert((queue, first.level()), last);
        assert!(before < Some(first), "what is in a level comes in the order of its positions");
    }
}

impl RecoverySink for RestoredLog {
    type Message = usize;
    fn is_there(&mut self, queue: QueueUid) -> bool {
        queue.0 % 4 != 3
    }
    fn is_loaded(&mut self, queue: QueueUid, _: LiveTotals, _: LiveTotals) -> bool {
        self.loaded & 1 << (queue.0 % 8) > 0
    }
    fn message(&mut self, message: &StoredMessage<'_>) -> usize {
        message.body.len()
    }
    fn restore(&mut self, queue: QueueUid, position: Position, _: usize, _: FoundMessage) {
        self.follow(queue, position, position);
        self.messages += 1;
        self.messages_read += 1;
    }
    fn restore_page(&mut self, queue: QueueUid, page: FoundPage) {
        assert!(page.first < page.end && page.count > 0 && page.first_arrived_us <= page.last_arrived_us);
        self.follow(queue, page.first, Position(page.end.0 - 1));
        self.messages += page.count;
    }
    fn finish(&mut self, queue: QueueUid, next: &[Position]) {
        assert!(self.finished < Some(queue) && !next.is_empty());
        self.finished = Some(queue);
    }
    fn on_damage(&mut self, _: &Damage) {}
}

/// A log that was recovered is written to again.
pub fn check_goes_on(recovered: RecoveredLog) {
    let mut log: MessageLog<NoMessage> = MessageLog::new(recovered, MessageLogOptions::default());
    assert!(log.poll(0).is_some(), "it goes on: a segment is made");
}

/// A message that nobody writes.
#[derive(Clone)]
struct NoMessage;

impl LoggedMessage for NoMessage {
    fn stored(&self) -> StoredMessage<'_> {
        StoredMessage { exchange: b"", routing_key: b"", properties: b"", bcc: b"", arrived_us: 0, body: b"" }
    }
    fn bytes(&self) -> usize {
        0
    }
    fn is_same(&self, _: &Self) -> bool {
        false
    }
}
