//! Where a shard keeps the messages of its queues: its memory, and the store.
//!
//! It is the part of the effects of a broker (docs/decisions/0002) that concerns neither connections nor other shards.

use crate::ids::QueuePosition;
use crate::message::Message;
use catalog::QueueUid;
use slab::Pool;

/// When an appended message is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendResult {
    /// It is durable now, or need not be.
    Durable,
    /// Once the store has reported this ticket.
    Pending(u64),
}

impl AppendResult {
    /// That of a message of a run, so many behind the first, whose result this is.
    #[inline]
    pub fn of_next(self, at: u64) -> AppendResult {
        match self {
            AppendResult::Durable => AppendResult::Durable,
            AppendResult::Pending(ticket) => AppendResult::Pending(ticket + at),
        }
    }
}

/// What queues need of their shard. Without a store everything is durable at once and stays in memory.
pub trait MessageStorage {
    /// Message memory of this shard.
    fn pool(&self) -> &Pool;
    /// A durable queue accepted a persistent message.
    fn append(&mut self, queue: QueueUid, position: QueuePosition, message: Message) -> AppendResult;
    /// A durable queue accepted persistent messages that differ in their bodies alone, at positions that follow one another. Their
    /// tickets follow one another as well: returns when the first is safe.
    fn append_run(&mut self, queue: QueueUid, first: QueuePosition, messages: &[Message]) -> AppendResult;
    /// A durable queue is done with messages whose positions follow one another. Not all of them need have been appended.
    fn forget(&mut self, queue: QueueUid, first: QueuePosition, count: u32);
    /// Messages of a durable queue whose positions follow one another were handed out and must be acknowledged: after a restart
    /// they are redelivered.
    fn mark_delivered(&mut self, queue: QueueUid, first: QueuePosition, count: u32);
    /// Consumers have returned a message of a durable queue so many times.
    fn mark_returned(&mut self, queue: QueueUid, position: QueuePosition, times: u32);
    /// What is appended and forgotten from now on counts as a whole or not at all.
    fn begin_commit(&mut self);
    /// The end of what [`begin_commit`](Self::begin_commit) began, and when all of it is safe.
    fn end_commit(&mut self) -> AppendResult;
    /// When everything that was appended and forgotten up to now is safe.
    fn settled(&mut self) -> AppendResult;
    /// Somebody waits for this ticket: it is to become durable soon.
    fn await_durable(&mut self, ticket: u64);
    /// A queue is gone, with all its messages, on pages or not: a durable one, or one of which messages were paged out.
    fn drop_queue(&mut self, queue: QueueUid);
    /// Takes over waiting messages of one level of a queue, in the order of their positions, until they are asked for again: they
    /// leave the memory. Returns false if that is impossible now: they stay. Messages in the store are not written again; a
    /// queue that is not durable has a number of the shard's own for its pages, from
    /// [`PAGED_QUEUE_UID_FIRST`](crate::limits::PAGED_QUEUE_UID_FIRST) on.
    fn page_out(&mut self, queue: QueueUid, messages: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool;
    /// The messages of a page that are still there are wanted, from one position up to another:
    /// [`Pager::page_in`](crate::Pager::page_in) follows once, for the requests of a queue in their order.
    fn page_in(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition);
    /// A queue is done with what it has on pages, from one position up to another. It may have asked for some of it, and be gone
    /// itself.
    fn forget_paged(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition);
}
