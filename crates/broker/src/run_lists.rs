//! Lists that the dispatch of a run needs.

use queues::{AppendResult, ConsumerRef, Message};

/// Who gets a run from a queue.
#[derive(Clone, Copy)]
pub(crate) enum RunRecipient {
    /// The only consumer that is active.
    Consumer(ConsumerRef),
    /// Nobody: it waits.
    Queue,
    /// Nobody: it waits, and for each of it another is dropped.
    FullQueue,
}

/// What a plan of a run takes into account beside its queues.
#[derive(Clone, Copy)]
pub(crate) struct RunTerms {
    /// The work of a message beside what its queues have of it.
    pub more_work: usize,
    /// Messages may be added to a queue that is at its limit, for which as many others are dropped from it.
    pub may_drop: bool,
}

/// Lists of a run at hand, whose memory serves the next.
#[derive(Default)]
pub(crate) struct RunLists {
    /// For each queue of the run.
    pub recipients: Vec<RunRecipient>,
    /// The messages, if anybody must keep them.
    pub kept: Vec<Message>,
    /// When the store has the first of them; the others follow. `None` if it does not get them.
    pub append: Option<AppendResult>,
}
