//! The data plane: the objects through which messages pass, from a publish to a consumer and back with a settlement.

use crate::body_sizes::BodySizeStats;
use crate::confirms::PublisherConfirms;
use crate::dead_letter_router::{DeadLetterPaths, DeadLetterRouter};
use crate::dispatcher::{Dispatcher, EnqueueResult};
use crate::effects::Effects;
use crate::forwarder::Forwarder;
use crate::ids::{ChannelKey, ShardIdentity};
use crate::sessions::Sessions;
use crate::shard_answers::RemoteResult;
use catalog::{Catalog, QueueId, ShardId};
use queues::{AppendResult, Content, Ledger, Message, PageSummary, Purges, SettlementOutcome, UnsettledDelivery};
use std::ops::Range;
use wire::BodyRun;

/// Messages, and what waits for them.
pub(crate) struct DataPlane {
    pub dispatcher: Dispatcher,
    pub forwarder: Forwarder,
    pub dead_letters: DeadLetterRouter,
    pub confirms: PublisherConfirms,
    pub purges: Purges,
    /// Queues to dispatch or dead letters are left for other turns.
    pub has_backlog: bool,
    /// The last turn with a backlog began with it: the next one begins with what connections have deferred.
    pub backlog_had_turn: bool,
    /// Messages published since the start.
    pub published: u64,
    pub body_sizes: BodySizeStats,
}

impl DataPlane {
    pub fn new(identity: ShardIdentity, queue_bytes_max: u64, epoch_unix_s: u64, work_per_turn: u32) -> Self {
        DataPlane {
            dispatcher: Dispatcher::new(identity, queue_bytes_max, work_per_turn),
            forwarder: Forwarder::new(identity),
            dead_letters: DeadLetterRouter::new(epoch_unix_s),
            confirms: PublisherConfirms::new(identity.shards),
            purges: Purges::default(),
            has_backlog: false,
            backlog_had_turn: false,
            published: 0,
            body_sizes: BodySizeStats::default(),
        }
    }

    /// Dispatches every queue that a command has touched, and routes the dead letters of that, as far as the budget of the turn
    /// allows. What is left for other turns is done in its order: nobody's command overtakes it, or pays for it.
    #[inline]
    pub fn dispatch_due<E: Effects>(&mut self, sessions: &mut Sessions, catalog: &mut Catalog, fx: &mut E) {
        if self.has_backlog {
            return;
        }
        loop {
            while let Some(id) = self.dispatcher.queues.next_due() {
                self.dispatcher.dispatch(id, sessions, fx);
                if self.dispatcher.work.is_spent() {
                    return self.note_backlog();
                }
            }
            let DataPlane { dispatcher, forwarder, confirms, .. } = self;
            let mut paths = DeadLetterPaths { dispatcher, forwarder, confirms };
            if self.dead_letters.has_unfinished() {
                self.dead_letters.finish_letter(&mut paths, catalog, fx);
            } else {
                let next = paths.dispatcher.queues.housekeeping.dead_letters.next_group();
                let Some(mut group) = next else { return };
                self.dead_letters.route_group(&mut group, &mut paths, catalog, fx);
                self.dispatcher.queues.housekeeping.dead_letters.finish_group(group);
            }
            if self.dispatcher.work.is_spent() {
                return self.note_backlog();
            }
        }
    }

    /// The budget of the turn is spent: what is left waits for other turns.
    #[cold]
    fn note_backlog(&mut self) {
        self.has_backlog = self.dispatcher.queues.has_due_work();
        self.dispatcher.queues.housekeeping.dead_letters.end_turn();
    }

    /// The numbers of the dead letters that were caused since this one was next, unless they are routed: whoever has caused them
    /// waits for these.
    #[inline]
    pub fn dead_letters_since(&self, begin: u64) -> Option<Range<u64>> {
        let dead_letters = &self.dispatcher.queues.housekeeping.dead_letters;
        let numbers = begin..dead_letters.next_number();
        let is_left = self.has_backlog && !numbers.is_empty() && !dead_letters.are_routed(&numbers);
        is_left.then_some(numbers)
    }

    /// A channel may accept more deliveries.
    #[inline]
    pub fn wake_channel<E: Effects>(
        &mut self,
        key: ChannelKey,
        sessions: &mut Sessions,
        catalog: &mut Catalog,
        fx: &mut E,
    ) {
        self.dispatcher.wake_channel(key, sessions, fx);
        self.dispatch_due(sessions, catalog, fx);
    }

    /// Settles deliveries that a rolled back or closed channel leaves, or that a commit settles.
    pub fn settle_all<E: Effects>(
        &mut self,
        key: ChannelKey,
        deliveries: impl Iterator<Item = UnsettledDelivery>,
        outcome: SettlementOutcome,
        catalog: &Catalog,
        fx: &mut E,
    ) {
        self.dispatcher.settle_all(key, deliveries, outcome, catalog, fx);
    }

    /// A publish of another shard for queues of this one.
    pub fn accept_remote<E: Effects>(
        &mut self,
        queues: &[QueueId],
        content: &Content<'_>,
        mut kept: Option<Message>,
        fx: &mut E,
    ) -> RemoteResult {
        let count = queues.len();
        let (mut refused, mut last) = (None, None);
        for (at, &queue) in queues.iter().enumerate() {
            match self.dispatcher.enqueue_or_deliver(queue, content, &mut kept, at + 1 == count, fx) {
                EnqueueResult::Refused => refused = refused.or(Some(RemoteResult::Refused)),
                EnqueueResult::Closed => refused = Some(RemoteResult::Closed),
                EnqueueResult::Accepted(AppendResult::Pending(ticket)) => last = last.max(Some(ticket)),
                EnqueueResult::Accepted(AppendResult::Durable) => {}
            }
        }
        // Its publisher is on another shard, where the batches throttle it.
        self.dispatcher.flow.slow_queue = None;
        match (refused, last) {
            (Some(refused), _) => refused,
            (None, Some(ticket)) => RemoteResult::Pending(ticket),
            (None, None) => RemoteResult::Accepted,
        }
    }

    /// Publishes of another shard that differ in their bodies alone from one that was just accepted for the same queues: as many of
    /// them as consumers take at once. `answered` is that shard, if it awaits answers. Returns how many.
    pub fn accept_repeats<E: Effects>(
        &mut self,
        answered: Option<ShardId>,
        queues: &[QueueId],
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        let taken = self.dispatcher.deliver_run(queues.iter().copied(), content, bodies, fx);
        if let Some(shard) = answered {
            let append = self.dispatcher.run_lists.append;
            for at in 0..taken {
                let result = match append.map(|first| first.of_next(at as u64)) {
                    Some(AppendResult::Pending(ticket)) => RemoteResult::Pending(ticket),
                    Some(AppendResult::Durable) | None => RemoteResult::Accepted,
                };
                self.confirms.answer_shard(shard, result, fx);
            }
        }
        taken
    }

    /// Bytes that waiting messages will take in the ledgers of channels, beside what they take, once they are delivered.
    pub fn settlement_bytes(&self) -> usize {
        self.dispatcher.queues.housekeeping.waiting * Ledger::ENTRY_BYTES
    }

    /// Bytes of the lists of messages in memory, waiting, unsettled and delayed, beside the messages themselves, and of the pages'
    /// entries. Waiting messages and
    /// unsettled deliveries count alike, so that neither a delivery nor a requeue takes the broker over its limit.
    pub fn list_overhead_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = Ledger::ENTRY_BYTES + size_of::<Message>();
        let waiting = self.dispatcher.queues.housekeeping.waiting;
        let unsettled = self.dispatcher.channels.unsettled();
        let pages = self.dispatcher.queues.housekeeping.paging.pages * size_of::<PageSummary>();
        (waiting + unsettled) * ENTRY_BYTES + self.forwarder.delayed.list_overhead_bytes() + pages
    }
}
