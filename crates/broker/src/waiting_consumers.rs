//! A list of consumers that wait for the same: their channel's prefetch count, or capacity in their connection's output.
//!
//! The longest waiting is first, so that each gets its turn. A consumer that has left stays as an entry that is skipped.

use crate::limits::WAITING_CONSUMERS_CHECKED_MIN;
use queues::ConsumerKey;
use std::collections::VecDeque;

/// Waiting consumers, each once.
#[derive(Default)]
pub(crate) struct WaitingConsumers {
    list: VecDeque<ConsumerKey>,
    /// Length at which entries of consumers that have left are looked for.
    check_at: usize,
}

impl WaitingConsumers {
    /// Adds a consumer behind the others. `waits` tells whether an entry still counts.
    pub fn push(&mut self, consumer: ConsumerKey, waits: impl Fn(ConsumerKey) -> bool) {
        if self.list.len() >= self.check_at.max(WAITING_CONSUMERS_CHECKED_MIN) {
            self.list.retain(|&other| waits(other));
            self.check_at = 2 * self.list.len();
        }
        self.list.push_back(consumer);
    }

    /// Takes the one that has waited longest.
    #[inline]
    pub fn pop(&mut self) -> Option<ConsumerKey> {
        self.list.pop_front()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::WaitingConsumers;
    use crate::limits::WAITING_CONSUMERS_CHECKED_MIN;
    use queues::ConsumerKey;
    use slotmap::SlotMap;

    #[test]
    fn the_list_stays_in_proportion_to_those_that_wait() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let mut waiting = WaitingConsumers::default();
        let stays = keys.insert(());
        waiting.push(stays, |_| true);
        for _ in 0..100 * WAITING_CONSUMERS_CHECKED_MIN {
            let leaves = keys.insert(());
            waiting.push(leaves, |other| keys.contains_key(other));
            keys.remove(leaves);
            assert!(waiting.list.len() <= WAITING_CONSUMERS_CHECKED_MIN);
        }
        assert_eq!(waiting.pop(), Some(stays), "the one that has waited longest");
        assert!(waiting.list.iter().all(|other| !keys.contains_key(*other)), "the others have left");
    }

    #[test]
    fn while_all_wait_the_list_is_checked_in_proportion_to_what_is_added() {
        const COUNT: usize = 64 * WAITING_CONSUMERS_CHECKED_MIN;
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let (mut waiting, checks) = (WaitingConsumers::default(), std::cell::Cell::new(0));
        for _ in 0..COUNT {
            waiting.push(keys.insert(()), |_| {
                checks.set(checks.get() + 1);
                true
            });
        }
        assert!(waiting.list.len() == COUNT && checks.get() <= COUNT, "{} checks", checks.get());
    }
}
