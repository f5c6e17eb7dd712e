//! The logins of one shard whose passwords wait to be verified: one queue for each source, which take turns.
//!
//! A source that fails often has its turns at intervals, and its newest login first: those that wait long are guesses.

use crate::limits::{LOGINS_WAITING_MAX, LOGINS_WAITING_PER_SOURCE_MAX};
use crate::login_attempt::LoginAttempt;
use crate::login_failures::LoginFailures;
use crate::login_source::LoginSource;
use broker::ConnectionSlot;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

#[derive(Default)]
pub(crate) struct LoginQueue {
    sources: HashMap<LoginSource, VecDeque<LoginAttempt>>,
    /// Sources that may have a turn, in their order.
    turns: VecDeque<LoginSource>,
    /// Sources whose turn comes later.
    delayed: BTreeSet<(Instant, LoginSource)>,
    len: usize,
}

impl LoginQueue {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a login. Returns one that must be refused for it, if there are too many: of the source with the most.
    pub fn push(&mut self, attempt: LoginAttempt, failures: &LoginFailures, now: Instant) -> Option<LoginAttempt> {
        let source = attempt.source;
        let queue = self.sources.entry(source).or_default();
        if queue.is_empty() {
            self.turns.push_back(source);
        }
        queue.push_back(attempt);
        self.len += 1;
        let fullest = if queue.len() > LOGINS_WAITING_PER_SOURCE_MAX {
            source
        } else if self.len > LOGINS_WAITING_MAX {
            *self.sources.iter().max_by_key(|(_, queue)| queue.len())?.0
        } else {
            return None;
        };
        let oldest_first = failures.interval(fullest, now).is_zero();
        let refused = self.take(fullest, |queue| if oldest_first { queue.pop_back() } else { queue.pop_front() });
        self.end_turns(fullest);
        refused
    }

    /// The next login that may be verified now.
    pub fn next(&mut self, failures: &LoginFailures, now: Instant) -> Option<LoginAttempt> {
        while let Some((at, source)) = self.delayed.first().copied()
            && at <= now
        {
            self.delayed.pop_first();
            self.turns.push_back(source);
        }
        while let Some(source) = self.turns.pop_front() {
            if let Err(at) = failures.take_turn(source, now) {
                self.delayed.insert((at, source));
                continue;
            }
            let oldest_first = failures.interval(source, now).is_zero();
            let taken = self.take(source, |queue| if oldest_first { queue.pop_front() } else { queue.pop_back() });
            if self.sources.contains_key(&source) {
                self.turns.push_back(source);
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// When [`next`](Self::next) has something, if it has nothing now.
    pub fn next_turn(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// Removes the login of a connection that is gone. Returns whether it waited.
    pub fn remove(&mut self, source: LoginSource, slot: ConnectionSlot, serial: u32) -> bool {
        let is_its = |attempt: &LoginAttempt| attempt.slot == slot && attempt.serial == serial;
        let removed = self.take(source, |queue| queue.remove(queue.iter().position(is_its)?));
        if removed.is_some() {
            self.end_turns(source);
        }
        removed.is_some()
    }

    /// A source without logins has no turn.
    fn end_turns(&mut self, source: LoginSource) {
        if !self.sources.contains_key(&source) {
            self.turns.retain(|other| *other != source);
            self.delayed.retain(|(_, other)| *other != source);
        }
    }

    /// Takes a login out of the queue of a source, and the queue away if it was the last.
    fn take(
        &mut self,
        source: LoginSource,
        take: impl FnOnce(&mut VecDeque<LoginAttempt>) -> Option<LoginAttempt>,
    ) -> Option<LoginAttempt> {
        let queue = self.sources.get_mut(&source)?;
        let taken = take(queue);
        if queue.is_empty() {
            self.sources.remove(&source);
        }
        self.len -= usize::from(taken.is_some());
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::LoginQueue;
    use crate::limits::{
        LOGIN_FAILURES_FREE, LOGIN_FAILURES_MAX, LOGIN_INTERVAL_STEP, LOGINS_WAITING_MAX, LOGINS_WAITING_PER_SOURCE_MAX,
    };
    use crate::login_attempt::LoginAttempt;
    use crate::login_failures::LoginFailures;
    use crate::login_source::LoginSource;
    use crate::test_clock::some_instant;
    use broker::ConnectionSlot;
    use catalog::{Catalog, CatalogLimits};
    use std::net::{IpAddr, Ipv4Addr};

    fn source(number: u32) -> LoginSource {
        LoginSource::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    fn attempt(from: u32, slot: u32) -> LoginAttempt {
        let claim = Catalog::new(CatalogLimits::default()).claim(b"nobody", true);
        LoginAttempt {
            slot: ConnectionSlot::new(slot),
            serial: 0,
            source: source(from),
            claim,
            user_name: "nobody".into(),
            mechanism: b"PLAIN".to_vec(),
            offered: b"wrong".to_vec(),
        }
    }

    #[test]
    fn sources_take_turns_however_many_logins_one_of_them_sends() {
        let (mut queue, failures, now) = (LoginQueue::default(), LoginFailures::default(), some_instant());
        let refused = (0..6_000).filter(|&slot| queue.push(attempt(1, slot), &failures, now).is_some()).count();
        assert_eq!(refused, 6_000 - LOGINS_WAITING_PER_SOURCE_MAX);
        for from in 2..5 {
            assert!(queue.push(attempt(from, 10_000 + from), &failures, now).is_none());
        }
        let served: Vec<_> = (0..6).filter_map(|_| queue.next(&failures, now)).map(|next| next.slot.number()).collect();
        assert_eq!(served, [0, 10_002, 10_003, 10_004, 1, 2]);
    }

    #[test]
    fn the_queue_is_bounded_at_the_cost_of_the_source_with_the_most() {
        let (mut queue, failures, now) = (LoginQueue::default(), LoginFailures::default(), some_instant());
        let greedy = LOGINS_WAITING_PER_SOURCE_MAX as u32;
        (0..greedy).for_each(|slot| assert!(queue.push(attempt(0, slot), &failures, now).is_none()));
        for other in 1..=(LOGINS_WAITING_MAX as u32 - greedy) {
            assert!(queue.push(attempt(other, greedy + other), &failures, now).is_none());
        }
        let refused = queue.push(attempt(u32::MAX, u32::MAX), &failures, now).expect("one too many");
        assert_eq!((refused.source, refused.slot.number()), (source(0), greedy - 1));
        assert_eq!(queue.len, LOGINS_WAITING_MAX);
    }

    #[test]
    fn a_source_that_fails_has_turns_at_intervals_and_its_newest_login_first() {
        let (mut queue, failures, now) = (LoginQueue::default(), LoginFailures::default(), some_instant());
        (0..LOGIN_FAILURES_MAX).for_each(|_| failures.count(source(1), now));
        (0..10).for_each(|slot| assert!(queue.push(attempt(1, slot), &failures, now).is_none()));
        let mut next = |now| queue.next(&failures, now).map(|next| next.slot.number());
        assert_eq!((next(now), next(now)), (Some(9), None));
        let turn = now + LOGIN_INTERVAL_STEP * (LOGIN_FAILURES_MAX - LOGIN_FAILURES_FREE);
        assert_eq!((next(turn), next(turn)), (Some(8), None));
        assert!(queue.push(attempt(2, 20), &failures, turn).is_none());
        assert_eq!(queue.next(&failures, turn).map(|next| next.slot.number()), Some(20), "others wait for nothing");
        assert!(queue.next_turn().is_some_and(|at| at > turn));
    }

    #[test]
    fn a_login_whose_connection_is_gone_is_dropped() {
        let (mut queue, failures, now) = (LoginQueue::default(), LoginFailures::default(), some_instant());
        (0..3).for_each(|slot| assert!(queue.push(attempt(1, slot), &failures, now).is_none()));
        assert!(
            queue.remove(source(1), ConnectionSlot::new(0), 0) && !queue.remove(source(1), ConnectionSlot::new(0), 0)
        );
        assert!(!queue.remove(source(1), ConnectionSlot::new(1), 7), "another connection");
        assert_eq!(queue.next(&failures, now).map(|next| next.slot.number()), Some(1));
        assert!(queue.remove(source(1), ConnectionSlot::new(2), 0));
        assert!(queue.is_empty() && queue.turns.is_empty() && queue.next(&failures, now).is_none());
    }
}
