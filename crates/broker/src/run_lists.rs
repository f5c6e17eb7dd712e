//! Lists that the dispatch of a run needs.

use crate::effects::AppendResult;
use crate::ids::ConsumerRef;
use crate::message::Message;

/// Lists of a run at hand, whose memory serves the next.
#[derive(Default)]
pub(crate) struct RunLists {
    /// The consumer that gets the run from each of its queues.
    pub consumers: Vec<ConsumerRef>,
    /// The messages, if anybody must keep them.
    pub kept: Vec<Message>,
    /// What the store said of each, if it got them.
    pub appends: Vec<AppendResult>,
}
