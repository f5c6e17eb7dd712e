//! Recovery of a shard's messages: what its log has goes back to the queues, before any client connects.

use crate::effects::ShardEffects;
use crate::logged_message::QueuedMessage;
use crate::sessions::Sessions;
use broker::{Broker, Message, QueuePosition};
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
}

/// Gives the broker core what is found.
struct MessageRestorer<'a> {
    broker: &'a mut Broker,
    effects: &'a mut ShardEffects,
}

fn queue_of(uid: store::QueueUid) -> Option<QueueUid> {
    QueueUid::new(uid.0)
}

impl RecoverySink for MessageRestorer<'_> {
    type Message = Message;

    fn is_there(&mut self, queue: store::QueueUid) -> bool {
        queue_of(queue).is_some_and(|uid| self.broker.is_there(uid))
    }

    fn message(&mut self, message: &StoredMessage<'_>) -> Message {
        QueuedMessage::read(message, broker::Effects::pool(self.effects)).0
    }

    fn restore(&mut self, queue: store::QueueUid, position: Position, message: Message, found: FoundMessage) {
        let uid = queue_of(queue).expect("only messages of queues that are there are restored");
        let FoundMessage { was_delivered, times_returned } = found;
        let position = QueuePosition(position.0);
        let is_taken = self.broker.restore_message(uid, position, message, was_delivered, times_returned, self.effects);
        assert!(is_taken, "a queue that is there takes its messages in their order");
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

impl Sessions {
    /// Restores what is alive in a log, and returns where it goes on.
    pub fn recover_messages<R: SegmentReader>(
        &mut self,
        source: LogSource<'_, R>,
        now: Instant,
    ) -> Result<RecoveredLog, ScanError> {
        let Sessions { options, broker, effects, .. } = self;
        // What has expired meanwhile is found when the shard begins to tick.
        broker.set_now(options.time_us(now));
        broker.use_store();
        let LogSource { reader, store, log, segments, on_damage } = source;
        store::recover(reader, store, log, segments, on_damage, &mut MessageRestorer { broker, effects })
    }
}
