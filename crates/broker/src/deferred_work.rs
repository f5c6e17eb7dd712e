//! Deferred work: what the turns of connections have left undone because their budgets were spent.
//!
//! The work of one connection is done in its order, and the connection is not read until it is done, so that nothing overtakes.
//! Connections take turns.

use crate::ids::{ChannelKey, ConnectionSlot, PublishKey, SessionIdentity};
use crate::publish_origin::PublishOrigin;
use crate::rollback::Rollback;
use crate::transaction::TransactionOperation;
use catalog::{KeyedRoute, QueueId, QueueRoute, SessionId};
use queues::{ConsumerRotation, Message, Queue, Requester, SettlementOutcome, WaitingGet};
use slotmap::SlotMap;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use wire::DeliveryTag;

slotmap::new_key_type! {
    /// The deferred work of one connection.
    pub struct DeferredKey;
}

/// Something that is left to do.
pub(crate) enum DeferredWork {
    /// The queues of this shard, from the one at this index, that have not got a publish yet.
    Forward { message: Message, route: Arc<QueueRoute>, next: usize, publish: Option<PublishKey> },
    /// A publish with many routing keys whose queues are not all found.
    Publish(Box<DeferredPublish>),
    /// Deliveries of a channel, up to a tag, that are not settled yet.
    Settle { channel: ChannelKey, through: DeliveryTag, outcome: SettlementOutcome },
    /// The same of a settlement that waits for the commit of a transaction.
    SettleInTransaction { channel: ChannelKey, through: DeliveryTag, outcome: SettlementOutcome },
    /// Consumers of a channel that may get deliveries again.
    Wake { channel: ChannelKey },
    /// The rest of a transaction.
    Commit(Box<DeferredCommit>),
    /// The rest of a transaction that is rolled back.
    RollBack(Box<Rollback>),
    /// Dead letters that the connection has caused: those with these numbers.
    AwaitDeadLetters(Range<u64>),
    /// A channel that is closed: its consumers leave, its deliveries are settled.
    CloseChannel { channel: ChannelKey, outcome: SettlementOutcome },
    /// A `basic.get` behind messages that have expired.
    Get { requester: Requester, queue: QueueId, no_ack: bool },
    /// A queue that is deleted: its consumers are cancelled, its messages dropped.
    DropQueue(Box<Queue>),
    /// Consumers of a queue that is closed: they are cancelled.
    CancelConsumers(Box<ConsumerRotation>),
    /// Consumers of a client that were cancelled: it is told.
    NotifyCancelled(Box<CancelNotices>),
    /// Definitions that are not finished: not everything that they remove is gone, or put under other policies.
    FinishDefinitions,
    /// Messages that were purged from a queue.
    Purge(QueueId),
    /// A connection that is gone, and whose channels are closed: its exclusive queues are deleted.
    EndSession { session: SessionId },
}

/// A publish under way to queues that are still searched for.
pub(crate) struct DeferredPublish {
    pub origin: PublishOrigin,
    pub message: Message,
    pub mandatory: bool,
    pub search: Box<KeyedRoute>,
    pub awaited: Option<PublishKey>,
}

/// The cancelled consumers of a channel whose client is yet to be told.
pub(crate) struct CancelNotices {
    pub channel: ChannelKey,
    pub tags: std::vec::IntoIter<Box<[u8]>>,
}

/// A `tx.commit` under way.
pub(crate) struct DeferredCommit {
    pub origin: PublishOrigin,
    /// Whose commit it is: the connection may be gone before it is done.
    pub identity: SessionIdentity,
    pub operations: std::vec::IntoIter<TransactionOperation>,
    /// It settles deliveries, so that consumers may get more.
    pub settles: bool,
    /// It publishes or settles persistent messages, and there is a store.
    pub is_stored: bool,
}

/// What a connection was that is gone, on which depends what becomes of publishes that are not in all their queues.
pub(crate) enum ConnectionEnd {
    /// They go on.
    Client,
    /// One that this broker has made to pull messages for the link with this number: the next one waits for them.
    Pull(u32),
    /// One that another broker has made to push messages. They are lost with it, like the messages in flight behind them: the next
    /// one does not wait for them, and would overtake them.
    Push,
}

/// The work of one connection.
#[derive(Default)]
struct DeferredList {
    /// The connection, unless it is gone.
    slot: Option<ConnectionSlot>,
    /// The link whose connection it was that is gone.
    link: Option<u32>,
    work: VecDeque<DeferredWork>,
    /// It is among those that wait for a turn.
    queued: bool,
}

/// The deferred work of all connections.
#[derive(Default)]
pub(crate) struct DeferredLists {
    table: SlotMap<DeferredKey, DeferredList>,
    turns: VecDeque<DeferredKey>,
    /// The list whose work is being done.
    running: Option<DeferredKey>,
}

impl DeferredLists {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn len(&self) -> usize {
        self.table.values().map(|list| list.work.len()).sum()
    }

    /// A connection has work to defer, and none yet.
    pub fn open(&mut self, slot: Option<ConnectionSlot>) -> DeferredKey {
        if self.table.is_empty() {
            // Lists that were done at once have left their turns, which nobody takes while there is nothing to do.
            self.turns.clear();
        }
        let key = self.table.insert(DeferredList { slot, link: None, work: VecDeque::new(), queued: true });
        self.turns.push_back(key);
        key
    }

    /// Adds work behind the rest of its connection.
    pub fn push(&mut self, key: DeferredKey, work: DeferredWork) {
        if let Some(list) = self.table.get_mut(key) {
            list.work.push_back(work);
        }
    }

    /// Leaves work that is no connection's.
    pub fn leave(&mut self, work: DeferredWork) {
        let key = self.open(None);
        self.push(key, work);
    }

    /// Leaves work that is no connection's, or the rest of what is being done, behind dead letters that it has caused.
    pub fn leave_behind(&mut self, dead_letters: Range<u64>, work: DeferredWork) {
        let key = self.running.unwrap_or_else(|| self.open(None));
        self.push(key, DeferredWork::AwaitDeadLetters(dead_letters));
        self.push(key, work);
    }

    /// Leaves what waited for the first message of a queue.
    pub fn leave_gets(&mut self, queue: QueueId, gets: VecDeque<WaitingGet>) {
        for WaitingGet { requester, no_ack } in gets {
            self.leave(DeferredWork::Get { requester, queue, no_ack });
        }
    }

    /// The list whose work is being done. What a publish of it leaves goes there, also when the connection is gone: its slot may be
    /// another's.
    pub fn running(&self) -> Option<DeferredKey> {
        self.running
    }

    /// The connection of a list is gone.
    pub fn detach(&mut self, key: DeferredKey, end: ConnectionEnd) {
        let Some(list) = self.table.get_mut(key) else { return };
        list.slot = None;
        match end {
            ConnectionEnd::Client => {}
            ConnectionEnd::Pull(link) => list.link = Some(link),
            ConnectionEnd::Push => {
                let is_publish = |work: &_| matches!(work, DeferredWork::Publish(_) | DeferredWork::Forward { .. });
                list.work.retain(|work| !is_publish(work));
            }
        }
    }

    /// A link has connected again: it goes on with what its last connection has left.
    pub fn attach(&mut self, link: u32, slot: ConnectionSlot) -> Option<DeferredKey> {
        let (key, list) = self.table.iter_mut().find(|(_, list)| list.link == Some(link))?;
        (list.slot, list.link) = (Some(slot), None);
        Some(key)
    }

    /// How many turns there are at most until each connection has had one.
    pub fn turns(&self) -> usize {
        self.turns.len()
    }

    /// The connection whose turn it is.
    pub fn next_turn(&mut self) -> Option<DeferredKey> {
        loop {
            let key = self.turns.pop_front()?;
            if let Some(list) = self.table.get_mut(key) {
                list.queued = false;
                return Some(key);
            }
        }
    }

    /// Takes the work of a connection. What is deferred in the meantime goes before the rest, see [`restore`](Self::restore).
    pub fn take(&mut self, key: DeferredKey) -> VecDeque<DeferredWork> {
        self.running = Some(key);
        self.table.get_mut(key).map(|list| std::mem::take(&mut list.work)).unwrap_or_default()
    }

    /// Returns the rest of a connection's work, for its next turn.
    pub fn restore(&mut self, key: DeferredKey, rest: VecDeque<DeferredWork>) {
        self.running = None;
        if let Some(list) = self.table.get_mut(key) {
            list.work.extend(rest);
        }
    }

    /// Ends the turn of a connection. Returns its slot if all its work is done: it may be read again.
    pub fn end_turn(&mut self, key: DeferredKey) -> Option<ConnectionSlot> {
        let list = self.table.get_mut(key)?;
        if list.work.is_empty() {
            return self.table.remove(key)?.slot;
        }
        if !std::mem::replace(&mut list.queued, true) {
            self.turns.push_back(key);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{DeferredLists, DeferredWork};

    #[test]
    fn work_that_is_done_at_once_leaves_no_turns_behind() {
        let mut lists = DeferredLists::default();
        for _ in 0..1_000 {
            let key = lists.open(None);
            assert_eq!(lists.end_turn(key), None);
            assert!(lists.is_empty() && lists.turns.len() <= 1, "{} turns", lists.turns.len());
        }
        let [first, second] = [lists.open(None), lists.open(None)];
        lists.push(first, DeferredWork::AwaitDeadLetters(0..0));
        lists.push(second, DeferredWork::AwaitDeadLetters(0..0));
        assert_eq!([lists.next_turn(), lists.next_turn(), lists.next_turn()], [Some(first), Some(second), None]);
    }
}
