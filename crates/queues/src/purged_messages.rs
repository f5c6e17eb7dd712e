//! Messages that were purged from a queue, to be dropped in turns. A durable queue is done with them.

use crate::features::FeatureState;
use crate::ids::QueuePosition;
use crate::message_storage::MessageStorage;
use crate::ready_messages::ReadyMessages;
use crate::work_budget::WorkBudget;
use catalog::QueueUid;

/// Purged messages, and the number of their queue if it is durable.
pub struct PurgedMessages {
    uid: Option<QueueUid>,
    /// The number by which the store knows its pages.
    paged_uid: Option<QueueUid>,
    messages: ReadyMessages,
}

/// Positions that follow one another.
struct PositionRun {
    first: QueuePosition,
    count: u32,
    /// One of them at least is in the store.
    is_stored: bool,
}

impl PurgedMessages {
    pub fn new(uid: Option<QueueUid>, paged_uid: Option<QueueUid>, messages: ReadyMessages) -> Self {
        PurgedMessages { uid, paged_uid, messages }
    }

    /// Whether some of them may be in the store.
    pub fn may_be_stored(&self) -> bool {
        self.uid.is_some()
    }

    /// Drops messages as far as the budget of the turn allows. Their queue, if it is still there, forgets how often they were
    /// returned; unsettled messages may return once more. Returns whether none is left.
    pub fn drop_some<S: MessageStorage>(
        &mut self,
        mut features: Option<&mut FeatureState>,
        work: &mut WorkBudget,
        storage: &mut S,
    ) -> bool {
        while !work.is_spent()
            && let Some(uid) = self.paged_uid
            && let Some(page) = self.messages.take_page()
        {
            work.draw(1);
            storage.forget_paged(uid, page.first, page.end);
        }
        if self.messages.pages_len() > 0 {
            return false;
        }
        let mut run: Option<PositionRun> = None;
        while !work.is_spent() {
            let Some(entry) = self.messages.pop() else { break };
            work.draw(1);
            if let Some(features) = &mut features {
                features.forget_returns(entry.position);
            }
            let is_persistent = entry.message.is_persistent();
            match &mut run {
                Some(run) if run.first.0 + u64::from(run.count) == entry.position.0 && run.count < u32::MAX => {
                    run.count += 1;
                    run.is_stored |= is_persistent;
                }
                _ => {
                    let next = PositionRun { first: entry.position, count: 1, is_stored: is_persistent };
                    self.forget(run.replace(next), storage);
                }
            }
        }
        self.forget(run, storage);
        self.messages.is_empty()
    }

    /// Tells the store that it is done with a run, if it has any of it.
    fn forget<S: MessageStorage>(&self, run: Option<PositionRun>, storage: &mut S) {
        if let (Some(uid), Some(run)) = (self.uid, run.filter(|run| run.is_stored)) {
            storage.forget(uid, run.first, run.count);
        }
    }
}
