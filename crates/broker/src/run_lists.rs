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
    /// When the store has the first of them; the others follow. `None` if it does not get them.
    pub append: Option<AppendResult>,
}
