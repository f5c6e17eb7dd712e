//! Dead letters that wait, and their order.

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
fn who_waits_behind_a_letter_that_takes_turns_has_turns_beside_it() {
    let (pool, target) = (Pool::new(PoolOptions::default()), target());
    let mut pending = PendingDeadLetters::default();
    for number in [1, 2, 3] {
        pending.push(&target, DeadLetterReason::Expired, letter(&pool, number), None);
    }
    let causes = |number| if number == 1 { 2 } else { 0 };
    for turn in 0..DEAD_LETTER_TURNS_IN_PLACE_MAX {
        assert_eq!(route(&mut pending, &pool, 20, causes), [1; 20], "turn {turn}");
        assert!(!pending.are_routed(&(0..1)) && !pending.are_routed(&(1..2)) && pending.are_routed(&(1..1)));
        pending.end_turn();
    }
    // Every second turn is theirs.
    let turn = |pending: &mut PendingDeadLetters| {
        let routed = route(pending, &pool, 1, causes);
        pending.end_turn();
        routed[0]
    };
    assert_eq!([(); 4].map(|()| turn(&mut pending)), [2, 1, 3, 1]);
    assert!(pending.are_routed(&(1..3)) && !pending.are_routed(&(0..1)) && !pending.are_routed(&(0..3)));
    // Turns that end before any letter is taken change nothing.
    pending.push(&target, DeadLetterReason::Expired, letter(&pool, 4), None);
    (0..3).for_each(|_| pending.end_turn());
    assert_eq!([(); 2].map(|()| turn(&mut pending)), [4, 1]);
    route(&mut pending, &pool, usize::MAX, causes);
    assert!(pending.is_empty() && pending.are_routed(&(0..4)));
}

#[test]
fn letters_that_each_cause_very_many_leave_room_for_those_that_do_not() {
    let (pool, target) = (Pool::new(PoolOptions::default()), target());
    let mut pending = PendingDeadLetters::default();
    for _ in 0..200 {
        pending.push(&target, DeadLetterReason::Expired, letter(&pool, 1), None);
    }
    let mut routed = 0;
    while routed < 3_000 {
        routed += route(&mut pending, &pool, 300, |number| if number == 1 { 1_000 } else { 0 }).len();
        pending.end_turn();
        assert!(pending.room() > DEAD_LETTERS_PENDING_MAX / 4, "{} are left", pending.room());
    }
    assert!(pending.dropped() > 0);
}

#[test]
fn what_a_letter_may_cause_is_not_used_up_by_letters_that_waited_for_memory() {
    let (pool, target) = (Pool::new(PoolOptions::default()), target());
    let mut pending = PendingDeadLetters::default();
    let push = |pending: &mut PendingDeadLetters, number| {
        assert!(pending.push(&target, DeadLetterReason::Expired, letter(&pool, number), None));
    };
    push(&mut pending, 1);
    pending.set_holding(true);
    let mut group = pending.next_group().expect("a letter");
    let (message, source) = pending.next(false).expect("a letter");
    group.messages -= 1;
    pending.hold(&mut group, message, source);
    pending.finish_group(group);
    push(&mut pending, 2);
    // The second has caused one, of which two come, when the first goes on and causes very many.
    let causes = |number| usize::from(number == 2);
    assert_eq!(route(&mut pending, &pool, 1, causes), [2]);
    pending.set_holding(false);
    assert_eq!(route(&mut pending, &pool, 1, |number| if number == 1 { DEAD_LETTERS_CAUSED_MAX } else { 0 }), [1]);
    assert!(!pending.are_routed(&(1..2)), "the second goes on behind it");
    let routed = route(&mut pending, &pool, DEAD_LETTERS_CAUSED_MAX, |_| 0);
    assert_eq!((routed.len(), routed[0]), (DEAD_LETTERS_CAUSED_MAX, 1));
    assert_eq!(route(&mut pending, &pool, 3, causes), [2; 3], "it goes on causing one each");
    assert_eq!(pending.dropped(), 0);
}
