//! Lists that the dispatch of a run needs.

use crate::effects::AppendResult;
use crate::ids::ConsumerRef;
use crate::message::Message;

/// Who gets a run from a queue.
#[derive(Clone, Copy)]
pub(crate) enum RunRecipient {
    /// The only consumer that is active.
    Consumer(ConsumerRef),
    /// Nobody: it waits.
    Queue,
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
