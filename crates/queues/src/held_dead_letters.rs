//! Dead letters that several queues would get, kept back while memory is short: each of these queues would take a reference, and
//! all together many times what the letters themselves take.

use crate::dead_letter_list::DeadLetterList;
use crate::dead_letter_reason::DeadLetterReason;
use crate::death_history::DeadLetterTarget;
use crate::detached_letters::LetterOrigin;
use crate::ids::StoredPosition;
use crate::message::Message;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Letters that were held, and whose they are, while they are routed.
pub(crate) struct ReleasedLetters {
    /// The index of their list among those that are routed.
    pub at: usize,
    /// That of the lists below, which are routed after them.
    pub interrupted: LetterOrigin,
    targets: BTreeSet<usize>,
}

/// The letters in their order. Once one of a target is among them, all others of that target follow it, so that no letter overtakes
/// another of the same queue.
#[derive(Default)]
pub(crate) struct HeldDeadLetters {
    list: DeadLetterList,
    /// The addresses of their targets. One whose letters have left may be another's by now: that one's wait as well.
    targets: BTreeSet<usize>,
}

impl HeldDeadLetters {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether letters of this target are among them.
    pub fn has(&self, target: &Arc<DeadLetterTarget>) -> bool {
        self.targets.contains(&address(target))
    }

    pub fn push(
        &mut self,
        target: &Arc<DeadLetterTarget>,
        reason: DeadLetterReason,
        message: Message,
        source: Option<StoredPosition>,
    ) {
        self.targets.insert(address(target));
        self.list.push(reason, message, source, target, Arc::clone);
    }

    /// All of them, which are routed from now on as the list `at` an index.
    pub fn release(self, at: usize, interrupted: LetterOrigin) -> (ReleasedLetters, DeadLetterList) {
        (ReleasedLetters { at, interrupted, targets: self.targets }, self.list)
    }

    /// What is left of them is held again.
    pub fn again(released: ReleasedLetters, list: DeadLetterList) -> (HeldDeadLetters, LetterOrigin) {
        (HeldDeadLetters { list, targets: released.targets }, released.interrupted)
    }
}

fn address(target: &Arc<DeadLetterTarget>) -> usize {
    Arc::as_ptr(target).addr()
}
