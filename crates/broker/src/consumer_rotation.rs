//! The consumers of one queue and the order in which they are served: by priority, and round robin within one.

use crate::ids::ConsumerRef;
use std::collections::VecDeque;

struct PriorityGroup {
    priority: i32,
    active: VecDeque<ConsumerRef>,
}

/// The consumers of one queue. Those that cannot accept a delivery are idle: they leave the rotation until they can.
#[derive(Default)]
pub struct ConsumerRotation {
    /// The only consumer that the queue may have.
    exclusive: Option<ConsumerRef>,
    /// In the order of their subscription, idle ones too.
    all: Vec<ConsumerRef>,
    groups: Vec<PriorityGroup>,
}

impl ConsumerRotation {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one of them has the queue to itself.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive.is_some()
    }

    /// In the order of their subscription.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = ConsumerRef> {
        self.all.iter().copied()
    }

    /// Adds a consumer. A queue that serves one at a time serves the first that subscribed.
    pub fn add(&mut self, consumer: ConsumerRef, priority: i32, exclusive: bool, single_active: bool) {
        if exclusive {
            self.exclusive = Some(consumer);
        }
        self.all.push(consumer);
        if !single_active || self.all.len() == 1 {
            self.activate(consumer, priority);
        }
    }

    /// Removes a consumer. Returns its index in the order of subscription.
    pub fn remove(&mut self, consumer: ConsumerRef) -> Option<usize> {
        let at = self.all.iter().position(|&other| other == consumer)?;
        self.all.remove(at);
        if self.exclusive == Some(consumer) {
            self.exclusive = None;
        }
        for group in &mut self.groups {
            group.active.retain(|&other| other != consumer);
        }
        self.groups.retain(|group| !group.active.is_empty());
        if self.all.is_empty() {
            self.all = Vec::new();
            self.groups = Vec::new();
        }
        Some(at)
    }

    /// Puts a consumer (back) into the rotation, behind the others of its priority.
    pub fn activate(&mut self, consumer: ConsumerRef, priority: i32) {
        let at = self.groups.partition_point(|group| group.priority > priority);
        match self.groups.get_mut(at) {
            Some(group) if group.priority == priority => group.active.push_back(consumer),
            _ => self.groups.insert(at, PriorityGroup { priority, active: VecDeque::from([consumer]) }),
        }
    }

    /// The consumer whose turn it is: the first that `accepts`. Those that do not leave the rotation; `accepts` notes that they
    /// are idle.
    #[inline]
    pub fn next(&mut self, mut accepts: impl FnMut(ConsumerRef) -> bool) -> Option<ConsumerRef> {
        for group in &mut self.groups {
            while let Some(&consumer) = group.active.front() {
                if accepts(consumer) {
                    if group.active.len() > 1 {
                        group.active.rotate_left(1);
                    }
                    return Some(consumer);
                }
                group.active.pop_front();
            }
        }
        None
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
        assert_eq!((rotation.remove(c), rotation.remove(c), rotation.len()), (Some(2), None, 2));
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
}
