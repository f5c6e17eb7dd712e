//! Dead letters that nobody has routed yet, in their order, grouped by target and reason.
//!
//! What a dead letter causes in turn is routed before the letters behind it. So one message that dies again and again in many
//! queues takes as many entries here as these queues have, times the deaths of one copy, and not one for each of its copies. How many
//! it may become in all has a limit, and once they are many they have turns like the letters behind it.

use crate::dead_letter_list::{DeadLetterGroup, DeadLetterList};
use crate::dead_letter_reason::DeadLetterReason;
use crate::death_history::DeadLetterTarget;
use crate::held_dead_letters::{HeldDeadLetters, ReleasedLetters};
use crate::ids::StoredPosition;
use crate::limits::{
    DEAD_LETTERS_CAUSED_IN_PLACE_MAX, DEAD_LETTERS_CAUSED_MAX, DEAD_LETTERS_PENDING_MAX, DETACHED_LETTERS_MAX,
};
use crate::message::Message;
use crate::queue_stats::DeathStats;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// What one letter has caused, of which there was so much that others have turns beside it.
struct DetachedLetters {
    /// As those of `PendingDeadLetters`.
    nested: Vec<DeadLetterList>,
    messages: usize,
    origin: u64,
    caused: usize,
}

/// The dead letters of a shard.
pub struct PendingDeadLetters {
    /// Those that commands and timers have caused.
    first: DeadLetterList,
    /// How many were ever added to these: the number of the next one.
    arrived: u64,
    /// Those that dead letters have caused, each list by a letter of the one before it. The last is routed first.
    nested: Vec<DeadLetterList>,
    /// The number of the letter of `first` that has caused these.
    origin: u64,
    /// What others have caused, and that turns alternate between these and `first`.
    detached: VecDeque<DetachedLetters>,
    detached_is_next: bool,
    /// A list whose capacity serves again.
    spare: Option<DeadLetterList>,
    /// A letter is being routed: what is added is caused by it.
    routing: bool,
    /// It has caused others.
    has_caused: bool,
    /// How many the last of `first` that was taken has caused, directly and by those that it caused. What waited for memory counts
    /// anew.
    caused: usize,
    /// A letter is between two of its queues, and is to be finished before others: whether it has caused others.
    suspended: Option<bool>,
    /// The next letter is one that was [put back](Self::put_back): nothing may come before it.
    is_put_back: bool,
    messages: usize,
    /// At so many, more are dropped.
    messages_max: usize,
    /// Those that wait for memory. They are no pending work until it is there, and do not count in `messages`.
    held: Option<Box<HeldDeadLetters>>,
    /// Those that waited for memory and are routed now, a list of `nested`.
    released: Option<ReleasedLetters>,
    is_holding: bool,
    /// How many were ever added, by reason.
    pub by_reason: DeathStats,
    /// Letters dropped because there were too many.
    dropped: u64,
    /// The last group that was routed: the next is often of the same target and reason, and reuses its reference.
    routed: Option<DeadLetterGroup>,
}

impl Default for PendingDeadLetters {
    fn default() -> Self {
        PendingDeadLetters {
            first: DeadLetterList::default(),
            arrived: 0,
            nested: Vec::new(),
            origin: 0,
            detached: VecDeque::new(),
            detached_is_next: false,
            spare: None,
            routing: false,
            has_caused: false,
            caused: 0,
            suspended: None,
            is_put_back: false,
            messages: 0,
            messages_max: DEAD_LETTERS_PENDING_MAX,
            held: None,
            released: None,
            is_holding: false,
            by_reason: DeathStats::default(),
            dropped: 0,
            routed: None,
        }
    }
}

impl PendingDeadLetters {
    /// Adds a letter: `source` is where the store has the message that it comes from. Returns whether there is room for it.
    #[inline]
    pub fn push(
        &mut self,
        target: &Arc<DeadLetterTarget>,
        reason: DeadLetterReason,
        message: Message,
        source: Option<StoredPosition>,
    ) -> bool {
        self.by_reason.add(reason, 1);
        if self.messages >= self.messages_max || self.routing && self.caused >= DEAD_LETTERS_CAUSED_MAX {
            self.dropped += 1;
            return false;
        }
        self.messages += 1;
        if self.routing {
            self.caused += 1;
            if !std::mem::replace(&mut self.has_caused, true) {
                self.nested.push(self.spare.take().unwrap_or_default());
            }
        } else {
            self.arrived += 1;
        }
        let list = match self.nested.last_mut() {
            Some(list) if self.routing => list,
            _ => &mut self.first,
        };
        let routed = &mut self.routed;
        list.push(reason, message, source, target, |target| {
            let known = routed.take_if(|group| group.is_of(target, reason));
            known.map_or_else(|| Arc::clone(target), |group| group.target)
        });
        true
    }

    /// How many more may be added.
    #[inline]
    pub fn room(&self) -> usize {
        self.messages_max.saturating_sub(self.messages)
    }

    /// The number of the next letter that a command or a timer causes: who compares it knows whether a command has caused any.
    #[inline]
    pub fn next_number(&self) -> u64 {
        self.arrived
    }

    /// Whether the letters with these numbers are routed, or wait for memory, with all that they have caused.
    pub fn are_routed(&self, numbers: &Range<u64>) -> bool {
        let detached = self.detached.iter().map(|detached| detached.messages).sum::<usize>();
        let is_at_hand = self.suspended.is_some() || self.messages > self.first.len() + detached;
        numbers.end <= self.arrived - self.first.len() as u64
            && !(is_at_hand && numbers.contains(&self.origin))
            && !self.detached.iter().any(|detached| numbers.contains(&detached.origin))
    }

    /// The budget of a turn is spent: others have their turns beside a letter that has caused very many.
    pub fn end_turn(&mut self) {
        self.detached_is_next = !self.detached_is_next;
        let must_go_on = self.suspended.is_some() || self.is_put_back || self.released.is_some();
        if must_go_on || self.caused < DEAD_LETTERS_CAUSED_IN_PLACE_MAX || self.detached.len() >= DETACHED_LETTERS_MAX {
            return;
        }
        let nested = std::mem::take(&mut self.nested);
        let messages = nested.iter().map(DeadLetterList::len).sum();
        if messages > 0 {
            let (origin, caused) = (self.origin, self.caused);
            self.detached.push_back(DetachedLetters { nested, messages, origin, caused });
        }
    }

    /// Goes on with what a letter has caused beside others.
    #[cold]
    fn attach(&mut self) {
        if let Some(DetachedLetters { nested, origin, caused, .. }) = self.detached.pop_front() {
            (self.nested, self.origin, self.caused) = (nested, origin, caused);
        }
    }

    /// How many were dropped because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes the first group: its messages are those that [`next`](Self::next) returns next, until
    /// [`finish_group`](Self::finish_group).
    #[inline]
    pub fn next_group(&mut self) -> Option<DeadLetterGroup> {
        if self.held.is_some() && !self.is_holding && !self.is_put_back {
            self.release_held();
        }
        loop {
            while let Some(list) = self.nested.last_mut() {
                if let Some(group) = list.groups.pop_front() {
                    return Some(group);
                }
                self.spare = self.nested.pop();
                self.released.take_if(|released| released.at == self.nested.len());
            }
            let is_first = self.is_put_back || !self.detached_is_next && !self.first.groups.is_empty();
            if is_first || self.detached.is_empty() {
                break;
            }
            self.attach();
        }
        let next = self.first.groups.pop_front();
        if next.is_none() {
            self.messages_max = DEAD_LETTERS_PENDING_MAX;
        }
        next
    }

    /// Memory is short, or is not any more: letters that several queues would get are [held](Self::hold) from now on, or routed.
    pub fn set_holding(&mut self, on: bool) {
        self.is_holding = on;
    }

    #[inline]
    pub fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// Whether letters of the group at hand are held: those behind them must not overtake them.
    #[inline]
    pub fn is_held(&self, group: &DeadLetterGroup) -> bool {
        self.held.as_ref().is_some_and(|held| held.has(&group.target))
    }

    /// Keeps the message at hand, which has caused nothing, until memory is there again. It takes here what it took before, so that
    /// there is no limit of their own for these.
    #[cold]
    pub fn hold(&mut self, group: &mut DeadLetterGroup, message: Message, source: Option<StoredPosition>) {
        let is_last = |released: &mut ReleasedLetters| released.at + 1 == self.nested.len();
        if self.held.is_none()
            && let Some(released) = self.released.take_if(is_last)
            && let Some(mut list) = self.nested.pop()
        {
            // It was held before, and so were those behind it: they are held together, however many they are.
            self.messages -= list.len();
            list.return_front(group, message, source);
            self.held = Some(Box::new(HeldDeadLetters::again(released, list)));
        } else {
            self.held.get_or_insert_default().push(&group.target, group.reason, message, source);
        }
    }

    /// Those that were held come before those that have followed them, and leave these as much room as there was.
    #[cold]
    fn release_held(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.messages += held.len();
        self.messages_max = DEAD_LETTERS_PENDING_MAX + held.len();
        let (released, list) = held.release(self.nested.len());
        self.released = Some(released);
        self.nested.push(list);
    }

    /// Takes the next message of the group at hand, and if that `is_stored`, where the store has what it comes from. What is added
    /// from now on is caused by it.
    #[inline]
    pub fn next(&mut self, is_stored: bool) -> Option<(Message, Option<StoredPosition>)> {
        (self.routing, self.is_put_back) = (true, false);
        let depth = self.nested.len();
        if depth == 0 {
            (self.origin, self.caused) = (self.arrived - self.first.len() as u64, 0);
        } else if self.released.as_ref().is_some_and(|released| released.at + 1 == depth) {
            self.caused = 0;
        }
        let next = self.nested.last_mut().unwrap_or(&mut self.first).pop(is_stored);
        self.messages -= usize::from(next.is_some());
        next
    }

    /// The messages behind the one at hand, if that has caused no others.
    #[inline]
    pub fn following(&self) -> impl Iterator<Item = &Message> {
        self.nested.last().unwrap_or(&self.first).messages()
    }

    /// Drops so many of the messages behind the one at hand, which are routed. Passes on where the store has what they come from, if
    /// the group at hand `is_stored`.
    pub fn drop_following(&mut self, count: usize, is_stored: bool, routed: impl FnMut(StoredPosition)) {
        self.messages -= count;
        self.nested.last_mut().unwrap_or(&mut self.first).drop_next(count, is_stored, routed);
    }

    /// Returns the message at hand: it is the next again. It has caused nothing.
    pub fn put_back(&mut self, message: Message, source: Option<StoredPosition>) {
        self.messages += 1;
        self.is_put_back = true;
        self.nested.last_mut().unwrap_or(&mut self.first).put_back(message, source);
    }

    /// Whether the message at hand has caused dead letters, which go before the rest of its group.
    #[inline]
    pub fn has_caused(&self) -> bool {
        self.has_caused
    }

    /// The group at hand is routed, but for the messages that it has left.
    #[inline]
    pub fn finish_group(&mut self, group: DeadLetterGroup) {
        self.routing = false;
        let has_caused = std::mem::take(&mut self.has_caused);
        if group.messages == 0 {
            self.routed = Some(group);
            return;
        }
        let depth = self.nested.len() - usize::from(has_caused);
        let list = match depth.checked_sub(1).and_then(|at| self.nested.get_mut(at)) {
            Some(list) => list,
            None => &mut self.first,
        };
        list.groups.push_front(group);
    }

    /// The letter at hand has not reached all its queues, and is left for another turn.
    #[cold]
    pub fn suspend(&mut self) {
        self.suspended = Some(self.has_caused);
    }

    /// Goes on with the letter that was suspended: what is added until [`end_letter`](Self::end_letter) is caused by it.
    pub fn resume(&mut self) {
        self.routing = true;
        self.has_caused = self.suspended.take().unwrap_or_default();
    }

    /// The letter that was resumed has reached its queues, or is suspended again.
    #[inline]
    pub fn end_letter(&mut self) {
        (self.routing, self.has_caused) = (false, false);
    }

    /// How many wait, for whatever.
    pub fn len(&self) -> usize {
        self.messages + usize::from(self.suspended.is_some()) + self.held_len()
    }

    /// How many wait for memory.
    pub fn held_len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.len())
    }

    /// Whether none can be routed now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages == 0 && self.suspended.is_none() && (self.is_holding || self.held.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{BodyRef, Content};
    use catalog::VhostId;
    use slab::{Pool, PoolOptions};

    #[test]
    fn a_group_ends_where_target_or_reason_change() {
        let pool = Pool::new(PoolOptions::default());
        let target = |name: &str| {
            let exchange = b"d".as_slice().into();
            Arc::new(DeadLetterTarget { vhost: VhostId(0), queue: name.into(), exchange, routing_key: None })
        };
        let (a, b) = (target("a"), target("b"));
        let mut pending = PendingDeadLetters::default();
        use DeadLetterReason::{Expired, Rejected};
        for (at, (target, reason)) in
            [(&a, Expired), (&a, Expired), (&a, Rejected), (&b, Rejected), (&a, Expired)].into_iter().enumerate()
        {
            let body = BodyRef::Small(&[at as u8]);
            let content = Content { exchange: b"", routing_key: b"k", properties: &[0, 0], body, ..Content::EMPTY };
            assert!(pending.push(target, reason, content.keep(&pool), None));
        }
        assert_eq!(pending.len(), 5);
        let mut groups = Vec::new();
        while let Some(mut group) = pending.next_group() {
            let bodies: Vec<u8> = (0..std::mem::take(&mut group.messages))
                .map(|_| match pending.next(false).expect("as many as the group has").0.content().body {
                    BodyRef::Small(body) => body[0],
                    BodyRef::Large(_) => unreachable!("bodies here are small"),
                })
                .collect();
            groups.push((group.target.queue.to_string(), group.reason, bodies));
            pending.finish_group(group);
        }
        let expect =
            [("a", Expired, vec![0, 1]), ("a", Rejected, vec![2]), ("b", Rejected, vec![3]), ("a", Expired, vec![4])];
        assert_eq!(groups, expect.map(|(queue, reason, bodies)| (queue.to_owned(), reason, bodies)));
        assert!(pending.is_empty() && pending.next(false).is_none());
    }

    #[test]
    fn what_a_letter_causes_goes_before_the_letters_behind_it() {
        let pool = Pool::new(PoolOptions::default());
        let exchange = b"d".as_slice().into();
        let target = Arc::new(DeadLetterTarget { vhost: VhostId(0), queue: "q".into(), exchange, routing_key: None });
        let letter = |body: &[u8]| Content { body: BodyRef::Small(body), ..Content::EMPTY }.keep(&pool);
        let mut pending = PendingDeadLetters::default();
        let (mut order, mut most) = (Vec::new(), 0);
        [b"1", b"2"].iter().for_each(|body| {
            pending.push(&target, DeadLetterReason::Expired, letter(*body), None);
        });
        // Each letter of one or two digits causes three with one more.
        while let Some(mut group) = pending.next_group() {
            while group.messages > 0
                && let Some((message, None)) = pending.next(false)
            {
                group.messages -= 1;
                let BodyRef::Small(body) = message.content().body else { unreachable!("bodies here are small") };
                order.push(String::from_utf8_lossy(body).into_owned());
                for digit in b"abc".iter().filter(|_| body.len() < 3) {
                    pending.push(&target, DeadLetterReason::Expired, letter(&[body, &[*digit]].concat()), None);
                }
                if pending.has_caused() {
                    break;
                }
            }
            most = most.max(pending.len());
            pending.finish_group(group);
        }
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!((order.len(), &order), (2 * (1 + 3 + 9), &sorted), "as if each were routed as it was caused");
        assert!(most <= 1 + 3 * 2 && pending.is_empty(), "{most} letters at once");
    }

    #[test]
    fn letters_that_are_held_are_no_work_and_come_before_those_that_follow_them() {
        let pool = Pool::new(PoolOptions::default());
        let target = |name: &str| {
            let exchange = b"d".as_slice().into();
            Arc::new(DeadLetterTarget { vhost: VhostId(0), queue: name.into(), exchange, routing_key: None })
        };
        let (held, other) = (target("held"), target("other"));
        let mut pending = PendingDeadLetters::default();
        let push = |pending: &mut PendingDeadLetters, target: &Arc<DeadLetterTarget>, body: u8| {
            let letter = Content { body: BodyRef::Small(&[body]), ..Content::EMPTY }.keep(&pool);
            pending.push(target, DeadLetterReason::Rejected, letter, None);
        };
        // Routes all that are pending but the letters of the target `held`, as far as they must wait. Returns their bodies.
        let route = |pending: &mut PendingDeadLetters| {
            let mut routed = Vec::new();
            while let Some(mut group) = pending.next_group() {
                while group.messages > 0
                    && let Some((message, source)) = pending.next(group.is_stored)
                {
                    group.messages -= 1;
                    let BodyRef::Small(body) = message.content().body else { unreachable!("bodies here are small") };
                    let body = body[0];
                    if pending.is_held(&group) || pending.is_holding() && Arc::ptr_eq(&group.target, &held) {
                        pending.hold(&mut group, message, source);
                    } else {
                        routed.push(body);
                    }
                }
                pending.finish_group(group);
            }
            routed
        };
        pending.set_holding(true);
        [(&held, 1), (&other, 2), (&held, 3), (&held, 4)].iter().for_each(|(target, body)| {
            push(&mut pending, target, *body);
        });
        assert_eq!(route(&mut pending), [2]);
        assert_eq!((pending.is_empty(), pending.len(), pending.held_len()), (true, 3, 3));
        push(&mut pending, &held, 5);
        assert!(!pending.is_empty(), "one that nobody has looked at");
        assert_eq!((route(&mut pending), pending.held_len()), (vec![], 4));
        push(&mut pending, &other, 6);
        push(&mut pending, &held, 7);
        pending.set_holding(false);
        assert!(!pending.is_empty());
        assert_eq!(pending.room(), DEAD_LETTERS_PENDING_MAX - 2);
        // Memory is short again when one of them has gone on.
        let mut group = pending.next_group().expect("those that were held");
        group.messages -= usize::from(pending.next(group.is_stored).is_some());
        pending.finish_group(group);
        pending.set_holding(true);
        assert_eq!(route(&mut pending), [6]);
        assert_eq!((pending.is_empty(), pending.held_len()), (true, 4), "three that were held, and one behind them");
        pending.set_holding(false);
        let first = pending.next_group().expect("those that were held");
        assert_eq!((first.messages, pending.room()), (4, DEAD_LETTERS_PENDING_MAX), "no less room than before");
        pending.finish_group(first);
        assert_eq!(route(&mut pending), [3, 4, 5, 7]);
        // One whose queues are still searched for goes first, whatever is released meanwhile.
        pending.set_holding(true);
        [(&held, 1), (&other, 2), (&other, 3)].iter().for_each(|(target, body)| push(&mut pending, target, *body));
        let mut group = pending.next_group().expect("the first");
        let (message, source) = pending.next(group.is_stored).expect("a letter");
        group.messages -= 1;
        pending.hold(&mut group, message, source);
        pending.finish_group(group);
        let group = pending.next_group().expect("the others");
        let (message, source) = pending.next(group.is_stored).expect("a letter");
        pending.put_back(message, source);
        pending.finish_group(group);
        pending.set_holding(false);
        assert_eq!(route(&mut pending), [2, 3, 1]);
        assert_eq!((pending.len(), pending.room()), (0, DEAD_LETTERS_PENDING_MAX));
    }

    fn target() -> Arc<DeadLetterTarget> {
        let exchange = b"d".as_slice().into();
        Arc::new(DeadLetterTarget { vhost: VhostId(0), queue: "q".into(), exchange, routing_key: None })
    }

    /// A letter with a number, and whether it causes others.
    fn letter(pool: &Pool, number: u64) -> Message {
        Content { body: BodyRef::Small(&number.to_be_bytes()), ..Content::EMPTY }.keep(pool)
    }

    fn number(message: &Message) -> u64 {
        match message.content().body {
            BodyRef::Small(body) => u64::from_be_bytes(body.try_into().expect("eight bytes")),
            BodyRef::Large(_) => unreachable!("bodies here are small"),
        }
    }

    /// Routes so many letters, each of which causes as many others with its number as `causes` says. Returns their numbers.
    fn route(pending: &mut PendingDeadLetters, pool: &Pool, most: usize, causes: impl Fn(u64) -> usize) -> Vec<u64> {
        let (target, mut routed) = (target(), Vec::new());
        while routed.len() < most
            && let Some(mut group) = pending.next_group()
        {
            while group.messages > 0 && routed.len() < most && !pending.has_caused() {
                let (message, _) = pending.next(false).expect("as many as the group has");
                group.messages -= 1;
                let number = number(&message);
                routed.push(number);
                (0..causes(number)).for_each(|_| {
                    pending.push(&target, DeadLetterReason::Expired, letter(pool, number), None);
                });
            }
            pending.finish_group(group);
        }
        routed
    }

    #[test]
    fn what_a_letter_causes_comes_to_an_end() {
        let (pool, target) = (Pool::new(PoolOptions::default()), target());
        let mut pending = PendingDeadLetters::default();
        for number in [1, 2] {
            assert!(pending.push(&target, DeadLetterReason::Expired, letter(&pool, number), None));
        }
        // Each letter with the number 1 causes two.
        let routed = route(&mut pending, &pool, usize::MAX, |number| if number == 1 { 2 } else { 0 });
        assert_eq!((routed.len(), routed.last()), (DEAD_LETTERS_CAUSED_MAX + 2, Some(&2)));
        assert_eq!(pending.dropped(), DEAD_LETTERS_CAUSED_MAX as u64 + 2, "two of each, but those that were routed");
        assert!(pending.is_empty() && pending.are_routed(&(0..2)));
    }

    #[test]
    fn who_waits_behind_a_letter_that_causes_very_many_has_turns_beside_them() {
        let (pool, target) = (Pool::new(PoolOptions::default()), target());
        let mut pending = PendingDeadLetters::default();
        for number in [1, 2, 3] {
            pending.push(&target, DeadLetterReason::Expired, letter(&pool, number), None);
        }
        let causes = |number| if number == 1 { 2 } else { 0 };
        // Turns that end before it has caused many leave the others behind it.
        for _ in 0..10 {
            assert_eq!(route(&mut pending, &pool, 20, causes), [1; 20]);
            pending.end_turn();
        }
        assert!(!pending.are_routed(&(0..1)) && !pending.are_routed(&(1..2)));
        assert_eq!(route(&mut pending, &pool, DEAD_LETTERS_CAUSED_IN_PLACE_MAX, causes).last(), Some(&1));
        pending.end_turn();
        // Every second turn is theirs.
        let mut turns: Vec<_> = (0..6)
            .map(|_| {
                let first = route(&mut pending, &pool, 1, causes);
                pending.end_turn();
                first[0]
            })
            .collect();
        assert_eq!(turns.iter().filter(|&&number| number == 2).count(), 1, "{turns:?}");
        assert!(pending.are_routed(&(1..3)) && !pending.are_routed(&(0..1)) && !pending.are_routed(&(0..3)));
        turns.retain(|&number| number != 1);
        assert_eq!(turns, [2, 3]);
        route(&mut pending, &pool, usize::MAX, causes);
        assert!(pending.is_empty() && pending.are_routed(&(0..3)));
    }
}
