//! The consumers of one queue and the order in which they are served: by priority, and round robin within one.
//!
//! A queue may have a hundred thousand consumers, which all leave at once: none of this looks at more than one of them.

use crate::ids::ConsumerRef;
use crate::limits::ROTATION_SCANNED_MAX;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// The consumers of one queue. Those that cannot accept a delivery are idle: they leave the rotation until they can.
#[derive(Default)]
pub struct ConsumerRotation {
    /// The only consumer that the queue may have.
    exclusive: Option<ConsumerRef>,
    /// In the order of their subscription, idle ones too.
    all: BTreeMap<u64, ConsumerRef>,
    /// Their numbers in that order.
    numbers: BTreeMap<ConsumerRef, u64>,
    last_number: u64,
    /// Those that are not idle, of the highest priority that has any.
    top: VecDeque<ConsumerRef>,
    top_priority: i32,
    /// Those of lower priorities, the highest first. No list is empty.
    lower: BTreeMap<Reverse<i32>, VecDeque<ConsumerRef>>,
    /// Entries of these lists.
    active_entries: usize,
    /// Consumers that have left while they may have had entries in long lists: those are skipped when it is their turn.
    left: usize,
}

impl ConsumerRotation {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether any may be served, but for those that have become idle since they were last looked at.
    pub fn has_active(&self) -> bool {
        !self.top.is_empty() || !self.lower.is_empty()
    }

    /// Whether one of them has the queue to itself.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive.is_some()
    }

    /// In the order of their subscription.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = ConsumerRef> {
        self.all.values().copied()
    }

    /// Takes the consumer that subscribed first: its queue is gone.
    pub fn pop(&mut self) -> Option<ConsumerRef> {
        let (_, consumer) = self.all.pop_first()?;
        self.numbers.remove(&consumer);
        Some(consumer)
    }

    /// Adds a consumer. A queue that serves one at a time serves the first that subscribed.
    pub fn add(&mut self, consumer: ConsumerRef, priority: i32, exclusive: bool, single_active: bool) {
        if exclusive {
            self.exclusive = Some(consumer);
        }
        self.last_number += 1;
        self.all.insert(self.last_number, consumer);
        self.numbers.insert(consumer, self.last_number);
        if !single_active || self.all.len() == 1 {
            self.activate(consumer, priority);
        }
    }

    /// Removes a consumer. Returns whether it was the first in the order of subscription, or `None` if it was not here.
    pub fn remove(&mut self, consumer: ConsumerRef) -> Option<bool> {
        let number = self.numbers.remove(&consumer)?;
        let was_first = self.all.first_key_value().is_some_and(|(&first, _)| first == number);
        self.all.remove(&number);
        if self.exclusive == Some(consumer) {
            self.exclusive = None;
        }
        self.left += 1;
        if self.all.is_empty() {
            self.clear_active();
        } else if self.active_entries <= ROTATION_SCANNED_MAX || self.left > self.active_entries / 2 {
            self.forget_left();
        }
        Some(was_first)
    }

    /// Puts a consumer (back) into the rotation, behind the others of its priority.
    pub fn activate(&mut self, consumer: ConsumerRef, priority: i32) {
        self.active_entries += 1;
        if self.top.is_empty() && self.lower.is_empty() {
            self.top_priority = priority;
        } else if priority > self.top_priority {
            let list = std::mem::take(&mut self.top);
            self.lower.insert(Reverse(std::mem::replace(&mut self.top_priority, priority)), list);
        }
        if priority == self.top_priority {
            return self.top.push_back(consumer);
        }
        self.lower.entry(Reverse(priority)).or_default().push_back(consumer);
    }

    /// The consumer whose turn it is: the first that `accepts`. Those that do not leave the rotation; `accepts` notes that they
    /// are idle.
    #[inline]
    pub fn next(&mut self, mut accepts: impl FnMut(ConsumerRef) -> bool) -> Option<ConsumerRef> {
        loop {
            while let Some(&consumer) = self.top.front() {
                let is_here = self.left == 0 || self.numbers.contains_key(&consumer);
                if is_here && accepts(consumer) {
                    if self.top.len() > 1 {
                        self.top.rotate_left(1);
                    }
                    return Some(consumer);
                }
                self.top.pop_front();
                self.active_entries -= 1;
            }
            if !self.promote_lower() {
                return None;
            }
        }
    }

    /// The list of the highest priority is empty: the next takes its place. Returns whether there is one.
    #[cold]
    fn promote_lower(&mut self) -> bool {
        if self.lower.is_empty() {
            self.left = 0;
            return false;
        }
        if let Some((Reverse(priority), list)) = self.lower.pop_first() {
            (self.top_priority, self.top) = (priority, list);
        }
        true
    }

    /// Removes the entries of consumers that have left.
    fn forget_left(&mut self) {
        let numbers = &self.numbers;
        self.top.retain(|consumer| numbers.contains_key(consumer));
        self.lower.retain(|_, list| {
            list.retain(|consumer| numbers.contains_key(consumer));
            !list.is_empty()
        });
        if self.top.is_empty() {
            self.promote_lower();
        }
        if self.top.len() < self.top.capacity() / 4 {
            self.top.shrink_to(2 * self.top.len());
        }
        self.active_entries = self.top.len() + self.lower.values().map(VecDeque::len).sum::<usize>();
        self.left = 0;
    }

    fn clear_active(&mut self) {
        (self.top, self.lower) = (VecDeque::new(), BTreeMap::new());
        (self.active_entries, self.left) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::ConsumerRotation;
    use crate::ids::{ConsumerKey, ConsumerRef};
    use slotmap::SlotMap;

    #[test]
    fn consumers_take_turns_within_a_priority_and_idle_ones_leave_the_rotation() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let [a, b, c] = [(); 3].map(|()| ConsumerRef::Local(keys.insert(())));
        let mut rotation = ConsumerRotation::default();
        rotation.add(a, 0, false, false);
        rotation.add(b, 0, false, false);
        rotation.add(c, 5, false, false);
        assert_eq!(rotation.next(|_| true), Some(c), "the highest priority comes first");
        assert_eq!(rotation.next(|consumer| consumer != c), Some(a));
        assert_eq!(rotation.next(|_| true), Some(b), "c is idle until it is activated");
        rotation.activate(c, 5);
        assert_eq!(rotation.next(|_| true), Some(c));
        assert_eq!((rotation.remove(c), rotation.remove(c), rotation.len()), (Some(false), None, 2));
        assert_eq!(rotation.next(|_| false), None);
        assert_eq!(rotation.next(|_| true), None, "all are idle");
    }

    #[test]
    fn a_queue_that_serves_one_at_a_time_serves_the_first() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let [a, b] = [(); 2].map(|()| ConsumerRef::Local(keys.insert(())));
        let mut rotation = ConsumerRotation::default();
        rotation.add(a, 0, true, true);
        rotation.add(b, 9, false, true);
        assert_eq!((rotation.next(|_| true), rotation.next(|_| true)), (Some(a), Some(a)));
        assert!(rotation.is_exclusive());
        rotation.remove(a);
        assert!(!rotation.is_exclusive() && !rotation.is_empty());
        assert_eq!(rotation.next(|_| true), None, "the successor is not active yet");
    }

    #[test]
    fn consumers_that_leave_a_long_rotation_are_skipped_and_forgotten() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let all: Vec<_> = (0..1_000).map(|_| ConsumerRef::Local(keys.insert(()))).collect();
        let mut rotation = ConsumerRotation::default();
        all.iter().for_each(|&consumer| rotation.add(consumer, 0, false, false));
        for (at, &consumer) in all.iter().enumerate().filter(|(at, _)| at % 2 == 0) {
            assert_eq!(rotation.remove(consumer), Some(at == 0));
        }
        assert!(rotation.left > 0, "they have entries in a long list");
        let served: Vec<_> = (0..500).filter_map(|_| rotation.next(|_| true)).collect();
        assert_eq!(served, all.iter().copied().skip(1).step_by(2).collect::<Vec<_>>());
        all.iter().skip(1).step_by(2).take(498).for_each(|&consumer| _ = rotation.remove(consumer));
        assert!(rotation.active_entries <= super::ROTATION_SCANNED_MAX && rotation.len() == 2);
        assert_eq!((rotation.next(|_| true), rotation.pop()), (Some(all[997]), Some(all[997])));
    }
}
