//! The consumers of one queue and the order in which they are served: by priority, and round robin within one.
//!
//! A queue may have a hundred thousand consumers, which all leave at once: none of this looks at more than one of them. Each has
//! its place in a list that is linked in both directions, so that one that leaves is taken out at once, and none that has left is
//! ever skipped.

use crate::ids::{ConsumerRef, PlaceKey};
use crate::paged_slot_map::PagedSlotMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A consumer of the rotation, and its neighbours.
struct Place {
    consumer: ConsumerRef,
    priority: i32,
    before: Option<PlaceKey>,
    behind: Option<PlaceKey>,
}

/// The consumers of one priority, in the order of their turns.
#[derive(Clone, Copy)]
struct TurnList {
    first: PlaceKey,
    /// The consumer of that place, which is looked at for each message.
    first_consumer: ConsumerRef,
    last: PlaceKey,
}

/// A consumer of the queue.
struct Subscriber {
    /// Its number, in the order of subscription.
    number: u64,
    /// Its last place in the rotation: none is there if it is idle.
    place: Option<PlaceKey>,
}

/// What a consumer says to the next message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsumerAnswer {
    Accepts,
    /// It accepts nothing now, and leaves the rotation.
    Idle,
    /// The same, and those behind it are not asked any more.
    LastIdle,
}

/// The consumers of one queue. Those that cannot accept a delivery are idle: they leave the rotation until they can.
#[derive(Default)]
pub struct ConsumerRotation {
    /// The only consumer that the queue may have.
    exclusive: Option<ConsumerRef>,
    /// In the order of their subscription, idle ones too.
    all: BTreeMap<u64, ConsumerRef>,
    subscribers: BTreeMap<ConsumerRef, Subscriber>,
    last_number: u64,
    /// Those that are not idle.
    places: PagedSlotMap<PlaceKey, Place>,
    /// Those of the highest priority that has any.
    top: Option<TurnList>,
    top_priority: i32,
    /// Those of lower priorities, the highest first.
    lower: BTreeMap<Reverse<i32>, TurnList>,
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
    #[inline]
    pub fn has_active(&self) -> bool {
        self.top.is_some()
    }

    /// The only one that is not idle of its priority, if none of a higher one is: every message is for it as long as it accepts
    /// them.
    #[inline]
    pub fn only_active(&self) -> Option<ConsumerRef> {
        let TurnList { first, first_consumer, last } = self.top?;
        (first == last).then_some(first_consumer)
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
        let (_, &consumer) = self.all.first_key_value()?;
        self.remove(consumer)?;
        Some(consumer)
    }

    /// Adds a consumer. A queue that serves one at a time serves the first that subscribed.
    pub fn add(&mut self, consumer: ConsumerRef, priority: i32, exclusive: bool, single_active: bool) {
        if exclusive {
            self.exclusive = Some(consumer);
        }
        self.last_number += 1;
        self.all.insert(self.last_number, consumer);
        self.subscribers.insert(consumer, Subscriber { number: self.last_number, place: None });
        if !single_active || self.all.len() == 1 {
            self.activate(consumer, priority);
        }
    }

    /// Removes a consumer. Returns whether it was the first in the order of subscription, or `None` if it was not here.
    pub fn remove(&mut self, consumer: ConsumerRef) -> Option<bool> {
        let Subscriber { number, place } = self.subscribers.remove(&consumer)?;
        let was_first = self.all.first_key_value().is_some_and(|(&first, _)| first == number);
        self.all.remove(&number);
        if self.exclusive == Some(consumer) {
            self.exclusive = None;
        }
        if let Some(place) = place {
            self.take_out(place);
        }
        Some(was_first)
    }

    /// Puts a consumer (back) into the rotation, behind the others of its priority. One that is in it keeps its place.
    pub fn activate(&mut self, consumer: ConsumerRef, priority: i32) {
        let Some(subscriber) = self.subscribers.get_mut(&consumer) else { return };
        if subscriber.place.is_some_and(|place| self.places.get(place).is_some()) {
            return;
        }
        let place = self.places.insert(Place { consumer, priority, before: None, behind: None });
        subscriber.place = Some(place);
        if priority > self.top_priority
            && let Some(top) = self.top.take()
        {
            self.lower.insert(Reverse(self.top_priority), top);
        }
        if self.top.is_none() {
            self.top_priority = priority;
        }
        let before = match priority == self.top_priority {
            true => self.top,
            false => self.lower.get(&Reverse(priority)).copied(),
        };
        let list = self.put_behind(before, place);
        self.set_list(priority, list);
    }

    /// The consumer whose turn it is: the first that accepts. Those that do not leave the rotation; `ask` notes that they are idle.
    #[inline]
    pub fn next(&mut self, mut ask: impl FnMut(ConsumerRef) -> ConsumerAnswer) -> Option<ConsumerRef> {
        while let Some(TurnList { first, first_consumer, last }) = self.top {
            let answer = ask(first_consumer);
            if answer != ConsumerAnswer::Accepts {
                self.take_out(first);
                if answer == ConsumerAnswer::LastIdle {
                    return None;
                }
                continue;
            }
            if first != last {
                self.move_to_end(first);
            }
            return Some(first_consumer);
        }
        None
    }

    /// Whether a consumer of this priority or a higher one accepts messages. Those that do not leave the rotation, as in
    /// [`next`](Self::next); nobody has had a turn.
    pub fn has_accepting(&mut self, priority_min: i32, mut ask: impl FnMut(ConsumerRef) -> ConsumerAnswer) -> bool {
        while let Some(TurnList { first, first_consumer, .. }) = self.top
            && self.top_priority >= priority_min
        {
            match ask(first_consumer) {
                ConsumerAnswer::Accepts => return true,
                ConsumerAnswer::Idle => self.take_out(first),
                ConsumerAnswer::LastIdle => {
                    self.take_out(first);
                    return false;
                }
            }
        }
        false
    }

    /// The first of several consumers has had its turn.
    #[inline]
    fn move_to_end(&mut self, first: PlaceKey) {
        let Some(TurnList { last, .. }) = self.top else { return };
        let Some(next) = self.places.get(first).and_then(|place| place.behind) else { return };
        let Some(place) = self.places.get_mut(next) else { return };
        place.before = None;
        let list = TurnList { first: next, first_consumer: place.consumer, last };
        self.top = self.put_behind(Some(list), first);
    }

    /// Adds a place at the end of a list.
    #[inline]
    fn put_behind(&mut self, list: Option<TurnList>, at: PlaceKey) -> Option<TurnList> {
        let before = list.map(|list| list.last);
        let place = self.places.get_mut(at)?;
        (place.before, place.behind) = (before, None);
        let alone = TurnList { first: at, first_consumer: place.consumer, last: at };
        if let Some(before) = before.and_then(|before| self.places.get_mut(before)) {
            before.behind = Some(at);
        }
        Some(TurnList { last: at, ..list.unwrap_or(alone) })
    }

    /// Takes a consumer out of the rotation, if it is in it.
    fn take_out(&mut self, at: PlaceKey) {
        let Some(Place { priority, before, behind, .. }) = self.places.remove(at) else { return };
        if let Some(before) = before.and_then(|before| self.places.get_mut(before)) {
            before.behind = behind;
        }
        if let Some(behind) = behind.and_then(|behind| self.places.get_mut(behind)) {
            behind.before = before;
        }
        let list = match priority == self.top_priority {
            true => self.top,
            false => self.lower.get(&Reverse(priority)).copied(),
        };
        let Some(TurnList { first, last, .. }) = list else { return };
        let ends = if first == at { behind } else { Some(first) }.zip(if last == at { before } else { Some(last) });
        let list = ends.and_then(|(first, last)| {
            let first_consumer = self.places.get(first)?.consumer;
            Some(TurnList { first, first_consumer, last })
        });
        self.set_list(priority, list);
    }

    /// The list of a priority is this one; if it was the highest and is empty, the next takes its place.
    fn set_list(&mut self, priority: i32, list: Option<TurnList>) {
        match list {
            _ if priority == self.top_priority => self.top = list,
            Some(list) => _ = self.lower.insert(Reverse(priority), list),
            None => _ = self.lower.remove(&Reverse(priority)),
        }
        if self.top.is_none()
            && let Some((Reverse(priority), list)) = self.lower.pop_first()
        {
            (self.top_priority, self.top) = (priority, Some(list));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConsumerAnswer, ConsumerRotation};
    use crate::ids::{ConsumerKey, ConsumerRef};
    use crate::test_visits;
    use slotmap::SlotMap;

    fn next(rotation: &mut ConsumerRotation, accepts: impl Fn(ConsumerRef) -> bool) -> Option<ConsumerRef> {
        rotation.next(|consumer| if accepts(consumer) { ConsumerAnswer::Accepts } else { ConsumerAnswer::Idle })
    }

    #[test]
    fn consumers_that_were_not_asked_stay_in_the_rotation() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let [a, b, c] = [(); 3].map(|()| ConsumerRef::Local(keys.insert(())));
        let mut rotation = ConsumerRotation::default();
        [a, b, c].into_iter().for_each(|consumer| rotation.add(consumer, 0, false, false));
        let mut asked = Vec::new();
        let answer = rotation.next(|consumer| {
            asked.push(consumer);
            if asked.len() == 2 { ConsumerAnswer::LastIdle } else { ConsumerAnswer::Idle }
        });
        assert_eq!((answer, asked, rotation.has_active()), (None, vec![a, b], true));
        assert_eq!(next(&mut rotation, |_| true), Some(c));
    }

    #[test]
    fn consumers_take_turns_within_a_priority_and_idle_ones_leave_the_rotation() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let [a, b, c] = [(); 3].map(|()| ConsumerRef::Local(keys.insert(())));
        let mut rotation = ConsumerRotation::default();
        rotation.add(a, 0, false, false);
        rotation.add(b, 0, false, false);
        rotation.add(c, 5, false, false);
        assert_eq!(next(&mut rotation, |_| true), Some(c), "the highest priority comes first");
        assert_eq!(rotation.only_active(), Some(c));
        assert_eq!(next(&mut rotation, |consumer| consumer != c), Some(a));
        assert_eq!(rotation.only_active(), None, "two take turns");
        assert_eq!(next(&mut rotation, |_| true), Some(b), "c is idle until it is activated");
        rotation.activate(c, 5);
        assert_eq!(next(&mut rotation, |_| true), Some(c));
        assert_eq!((rotation.remove(c), rotation.remove(c), rotation.len()), (Some(false), None, 2));
        assert_eq!(next(&mut rotation, |_| false), None);
        assert_eq!(next(&mut rotation, |_| true), None, "all are idle");
    }

    #[test]
    fn who_would_accept_a_message_is_found_without_a_turn() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let [a, b, low] = [(); 3].map(|()| ConsumerRef::Local(keys.insert(())));
        let mut rotation = ConsumerRotation::default();
        rotation.add(low, -1, false, false);
        let accepts = |rotation: &mut ConsumerRotation, priority, all: &[ConsumerRef]| {
            let all = all.to_vec();
            rotation.has_accepting(priority, move |consumer| match all.contains(&consumer) {
                true => ConsumerAnswer::Accepts,
                false => ConsumerAnswer::Idle,
            })
        };
        assert!(!accepts(&mut rotation, 0, &[low]), "of too low a priority");
        assert!(accepts(&mut rotation, -1, &[low]));
        rotation.add(a, 0, false, false);
        rotation.add(b, 0, false, false);
        assert!(accepts(&mut rotation, 0, &[a, b]) && accepts(&mut rotation, 0, &[a, b]));
        assert_eq!([(); 2].map(|()| next(&mut rotation, |_| true)), [Some(a), Some(b)], "nobody has had a turn");
        assert!(accepts(&mut rotation, 0, &[b]), "another one of the same priority");
        assert!(!accepts(&mut rotation, 0, &[]));
        assert_eq!(next(&mut rotation, |_| true), Some(low), "the others are idle");
        rotation.activate(a, 0);
        let spent = |_| ConsumerAnswer::LastIdle;
        assert!(!rotation.has_accepting(0, spent));
        assert_eq!(next(&mut rotation, |_| true), Some(low));
    }

    #[test]
    fn a_queue_that_serves_one_at_a_time_serves_the_first() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let [a, b] = [(); 2].map(|()| ConsumerRef::Local(keys.insert(())));
        let mut rotation = ConsumerRotation::default();
        rotation.add(a, 0, true, true);
        rotation.add(b, 9, false, true);
        assert_eq!((next(&mut rotation, |_| true), next(&mut rotation, |_| true)), (Some(a), Some(a)));
        assert!(rotation.is_exclusive());
        rotation.remove(a);
        assert!(!rotation.is_exclusive() && !rotation.is_empty());
        assert_eq!(next(&mut rotation, |_| true), None, "the successor is not active yet");
    }

    /// What the rotation has to look at for a turn: the consumers that are in it, and no traces of others.
    fn places(rotation: &ConsumerRotation) -> usize {
        rotation.places.count()
    }

    #[test]
    fn of_consumers_that_have_left_nothing_is_left_to_look_at() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let all: Vec<_> = (0..10_000).map(|_| ConsumerRef::Local(keys.insert(()))).collect();
        let mut rotation = ConsumerRotation::default();
        all.iter().for_each(|&consumer| rotation.add(consumer, 0, false, false));
        for (left, (at, &consumer)) in all.iter().enumerate().filter(|(at, _)| at % 2 == 0).enumerate() {
            assert_eq!(rotation.remove(consumer), Some(at == 0));
            assert_eq!(places(&rotation), all.len() - left - 1);
        }
        let served: Vec<_> = (0..5_000).filter_map(|_| next(&mut rotation, |_| true)).collect();
        assert_eq!(served, all.iter().copied().skip(1).step_by(2).collect::<Vec<_>>());
        all.iter().skip(1).step_by(2).take(4_998).for_each(|&consumer| _ = rotation.remove(consumer));
        assert_eq!((places(&rotation), rotation.len()), (2, 2));
        assert_eq!((next(&mut rotation, |_| true), rotation.pop()), (Some(all[9_997]), Some(all[9_997])));
        assert_eq!((next(&mut rotation, |_| true), places(&rotation)), (Some(all[9_999]), 1));
    }

    #[test]
    fn whoever_leaves_comes_or_has_a_turn_looks_at_few_others() {
        /// Its own place, its neighbours, those at the ends of the list; more than once.
        const FEW: usize = 12;
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let all: Vec<_> = (0..10_000).map(|_| ConsumerRef::Local(keys.insert(()))).collect();
        let mut rotation = ConsumerRotation::default();
        let few = |what: &str, work: &mut dyn FnMut()| {
            let visits = test_visits::count(work);
            assert!(visits <= FEW, "{what}: {visits} visits");
        };
        assert_eq!(test_visits::count(|| assert!(all.contains(&all[9_999]))), all.len(), "a search is counted");
        for (number, &consumer) in all.iter().enumerate() {
            few("comes", &mut || rotation.add(consumer, number as i32 % 2, false, false));
        }
        // Some of the higher priority become idle, and not all of these are active again.
        for _ in 0..2_500 {
            few("is asked", &mut || assert!(rotation.next(|_| ConsumerAnswer::LastIdle).is_none()));
        }
        for &consumer in all.iter().skip(1).step_by(2).take(1_000) {
            few("is active again", &mut || rotation.activate(consumer, 1));
        }
        assert_eq!(places(&rotation), 8_500);
        for (left, at) in (0..all.len()).map(|left| (left, left * 7_919 % all.len())) {
            few("leaves", &mut || assert!(rotation.remove(all[at]).is_some()));
            if left + 1 < all.len() {
                few("has a turn", &mut || _ = next(&mut rotation, |_| true));
            }
        }
        assert_eq!((rotation.len(), places(&rotation)), (0, 0));
    }

    #[test]
    fn a_consumer_that_is_activated_again_keeps_its_place_and_one_that_has_left_gets_none() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let [a, b] = [(); 2].map(|()| ConsumerRef::Local(keys.insert(())));
        let mut rotation = ConsumerRotation::default();
        [a, b].into_iter().for_each(|consumer| rotation.add(consumer, 0, false, false));
        rotation.activate(a, 0);
        assert_eq!([(); 3].map(|()| next(&mut rotation, |_| true)), [Some(a), Some(b), Some(a)]);
        rotation.remove(b);
        rotation.activate(b, 7);
        assert_eq!((next(&mut rotation, |_| true), places(&rotation)), (Some(a), 1));
    }

    /// The same with plain lists that are searched.
    #[derive(Default)]
    struct Model {
        all: Vec<(ConsumerRef, i32)>,
        active: Vec<(ConsumerRef, i32)>,
    }

    impl Model {
        fn next(&mut self, accepts: impl Fn(ConsumerRef) -> bool) -> Option<ConsumerRef> {
            loop {
                let top = self.active.iter().map(|(_, priority)| *priority).max()?;
                let at = self.active.iter().position(|(_, priority)| *priority == top)?;
                let (consumer, priority) = self.active.remove(at);
                if accepts(consumer) {
                    self.active.push((consumer, priority));
                    return Some(consumer);
                }
            }
        }
    }

    #[test]
    fn whatever_comes_and_goes_the_turns_are_those_of_lists_that_are_searched() {
        let mut keys: SlotMap<ConsumerKey, ()> = SlotMap::with_key();
        let (mut rotation, mut model) = (ConsumerRotation::default(), Model::default());
        let mut state = 7_u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        for step in 0..50_000 {
            let some = (!model.all.is_empty()).then(|| below(model.all.len()));
            match (below(8), some) {
                (0 | 1, _) if model.all.len() < 40 => {
                    let (consumer, priority) = (ConsumerRef::Local(keys.insert(())), below(4) as i32 - 2);
                    rotation.add(consumer, priority, false, false);
                    model.all.push((consumer, priority));
                    model.active.push((consumer, priority));
                }
                (2, Some(at)) => {
                    let (consumer, _) = model.all.remove(at);
                    model.active.retain(|(active, _)| *active != consumer);
                    assert_eq!(rotation.remove(consumer), Some(at == 0), "step {step}");
                }
                (3 | 4, Some(at)) => {
                    let (consumer, priority) = model.all[at];
                    rotation.activate(consumer, priority);
                    if !model.active.iter().any(|(active, _)| *active == consumer) {
                        model.active.push((consumer, priority));
                    }
                }
                (5, Some(at)) => {
                    // One of them is idle from now on, if its turn comes.
                    let idle = model.all[at].0;
                    let expected = model.next(|consumer| consumer != idle);
                    assert_eq!(next(&mut rotation, |consumer| consumer != idle), expected, "step {step}");
                }
                _ => assert_eq!(next(&mut rotation, |_| true), model.next(|_| true), "step {step}"),
            }
            assert_eq!(
                (rotation.len(), places(&rotation), rotation.has_active()),
                (model.all.len(), model.active.len(), !model.active.is_empty()),
                "step {step}"
            );
        }
        let rest: Vec<_> = std::iter::from_fn(|| rotation.pop()).collect();
        assert_eq!(rest, model.all.iter().map(|(consumer, _)| *consumer).collect::<Vec<_>>());
        assert_eq!((places(&rotation), rotation.has_active()), (0, false));
    }
}
