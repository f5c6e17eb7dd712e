//! The ledger, against what a map of tags would say.

use super::*;
use crate::message::{BodyRef, Content};
use proptest::prelude::*;
use slab::{Pool, PoolOptions};

fn delivery(pool: &Pool, position: u64) -> UnsettledDelivery {
    let content = Content { routing_key: b"k", body: BodyRef::Small(b"x"), ..Content::EMPTY };
    UnsettledDelivery {
        queue: QueueId { index: 0, serial: 0 },
        home: ShardId(0),
        position: QueuePosition(position),
        message: content.keep(pool),
        consumer: None,
    }
}

/// Takes a delivery, or all up to it, a few at a time.
fn take(ledger: &mut Ledger, tag: DeliveryTag, multiple: bool) -> Option<Vec<(DeliveryTag, UnsettledDelivery)>> {
    if !multiple {
        return ledger.settle(tag).map(|delivery| vec![(tag, delivery)]);
    }
    let (through, mut all) = (ledger.range(tag)?, Vec::new());
    loop {
        let (taken, is_done) = ledger.take_through(through, 3);
        assert!(taken.len() <= 3);
        all.extend(taken);
        if is_done {
            return Some(all);
        }
    }
}

/// Settles all up to a tag; the positions of what was released.
fn settle_through(ledger: &mut Ledger, tag: DeliveryTag) -> Option<Vec<u64>> {
    let through = ledger.range(tag)?;
    let mut positions = Vec::new();
    // A few at a time: what is left when a turn ends is released in another.
    while let Some(run) = ledger.acknowledge_run(through, 2) {
        assert!((1..=2).contains(&run.count));
        positions.extend(run.first.0..run.first.0 + u64::from(run.count));
    }
    assert!(!ledger.has_through(through));
    Some(positions)
}

#[test]
fn tags_without_acknowledgement_leave_no_trace() {
    let pool = Pool::new(PoolOptions::default());
    let mut ledger = Ledger::default();
    assert_eq!((ledger.assign_settled(), ledger.assign_settled()), (DeliveryTag(1), DeliveryTag(2)));
    assert_eq!(ledger.assign_unsettled(delivery(&pool, 0)), DeliveryTag(3));
    assert_eq!(ledger.assign_settled(), DeliveryTag(4));
    assert_eq!(ledger.assign_unsettled(delivery(&pool, 1)), DeliveryTag(5));
    assert!(ledger.settle(DeliveryTag(4)).is_none(), "tag 4 needs no acknowledgement");
    assert!(ledger.settle(DeliveryTag(3)).is_some());
    assert!(ledger.settle(DeliveryTag(3)).is_none(), "a tag settles once");
    assert_eq!(ledger.unsettled(), 1);
    assert!(ledger.settle(DeliveryTag(5)).is_some());
    assert_eq!(ledger.unsettled(), 0);
    ledger.assign_all_settled(3);
    assert_eq!((ledger.assign_unsettled(delivery(&pool, 2)), ledger.entries()), (DeliveryTag(9), 1));
    ledger.assign_all_settled(2);
    assert_eq!((ledger.next_tag(), ledger.entries()), (DeliveryTag(12), 3));
    assert!(ledger.settle(DeliveryTag(9)).is_some() && ledger.entries() == 0);
}

#[test]
fn multiple_releases_up_to_an_unsettled_tag() {
    let pool = Pool::new(PoolOptions::default());
    let mut ledger = Ledger::default();
    for position in 0..10 {
        ledger.assign_unsettled(delivery(&pool, position));
    }
    ledger.settle(DeliveryTag(3));
    assert_eq!(settle_through(&mut ledger, DeliveryTag(3)), None, "tag 3 is settled already");
    let oldest = |ledger: &Ledger| ledger.oldest_delivery().map(|oldest| (oldest.tag.0, oldest.position.0));
    assert_eq!(oldest(&ledger), Some((1, 0)));
    assert_eq!(settle_through(&mut ledger, DeliveryTag(5)), Some(vec![0, 1, 3, 4]));
    assert_eq!(oldest(&ledger), Some((6, 5)));
    assert_eq!(settle_through(&mut ledger, DeliveryTag(11)), None, "tag 11 was never assigned");
    assert_eq!(settle_through(&mut ledger, DeliveryTag::ALL), Some(vec![5, 6, 7, 8, 9]));
    assert_eq!(settle_through(&mut ledger, DeliveryTag::ALL), Some(vec![]), "nothing is out");
    assert_eq!(oldest(&ledger), None);
}

#[test]
fn the_ledger_is_as_large_as_what_is_unsettled() {
    let pool = Pool::new(PoolOptions::default());
    let mut ledger = Ledger::default();
    let first = ledger.assign_unsettled(delivery(&pool, 0));
    for number in 1..20_000 {
        let tag = ledger.assign_unsettled(delivery(&pool, number));
        let is_forgotten = number % 5_000 == 0;
        if number % 2 == 0 && !is_forgotten {
            assert!(ledger.settle(tag).is_some());
            ledger.assign_settled();
        } else if !is_forgotten {
            assert!(ledger.settle(tag).is_some());
        }
        assert!(ledger.entries() <= LEDGER_HOLES_MIN + 3 * ledger.unsettled(), "{} at {number}", ledger.entries());
    }
    assert_eq!((ledger.oldest(), ledger.unsettled()), (Some(first), 4));
    assert_eq!(ledger.range(DeliveryTag(2)), None, "it was settled");
    assert!(ledger.settle(first).is_some() && ledger.settle(first).is_none());
    let last = ledger.assign_unsettled(delivery(&pool, 20_000));
    let taken = take(&mut ledger, last, true).expect("it is out");
    assert_eq!(
        taken.iter().map(|(_, delivery)| delivery.position.0).collect::<Vec<_>>(),
        [5_000, 10_000, 15_000, 20_000]
    );
    ledger.restore(taken);
    assert_eq!(settle_through(&mut ledger, DeliveryTag::ALL), Some(vec![5_000, 10_000, 15_000, 20_000]));
    assert_eq!((ledger.unsettled(), ledger.oldest(), ledger.entries()), (0, None, 0));
}

fn messages(pool: &Pool, persistent: &[bool]) -> Vec<Message> {
    let of = |&is_persistent: &bool| {
        let properties: &[u8] = if is_persistent { &[0x10, 0, 2] } else { Content::EMPTY.properties };
        Content { properties, body: BodyRef::Small(b"body"), ..Content::EMPTY }.keep(pool)
    };
    persistent.iter().map(of).collect()
}

#[test]
fn what_is_acknowledged_together_followed_one_another_in_one_queue_and_is_of_one_kind() {
    let pool = Pool::new(PoolOptions::default());
    let [q, r] = [1, 2].map(|index| QueueId { index, serial: 0 });
    let mut consumers = slotmap::SlotMap::with_key();
    let [a, b]: [ConsumerKey; 2] = [consumers.insert(()), consumers.insert(())];
    let mut ledger = Ledger::default();
    let mut deliver = |queue, shard, first, consumer, kinds: &[bool]| {
        let kept = messages(&pool, kinds);
        ledger.assign_all_unsettled((queue, ShardId(shard)), QueuePosition(first), consumer, kept.into_iter());
    };
    deliver(q, 0, 10, a, &[true; 3]);
    // The next ones of the same queue and consumer.
    deliver(q, 0, 13, a, &[true, true]);
    // Another kind within a run, another consumer, a position that was skipped, another shard, another queue; one that returns.
    deliver(q, 0, 15, a, &[false, false, true]);
    deliver(q, 0, 18, b, &[true]);
    deliver(q, 0, 20, b, &[true]);
    deliver(q, 1, 21, b, &[true]);
    deliver(r, 1, 22, b, &[true]);
    deliver(r, 1, 4, b, &[true]);
    deliver(r, 1, 5, b, &[]);
    assert_eq!((ledger.unsettled(), ledger.runs.len()), (13, 6));
    let through = ledger.range(DeliveryTag::ALL).expect("all");
    let mut runs = Vec::new();
    while let Some(run) = ledger.acknowledge_run(through, 64) {
        assert_eq!(run.bytes, 4 * u64::from(run.count));
        let consumer = if run.consumer == Some(a) { 'a' } else { 'b' };
        let kind = if run.are_persistent { 'p' } else { 't' };
        let (queue, home) = (run.queue.index, run.home.0);
        runs.push(format!("{queue}.{home}@{}+{} {consumer}{kind}", run.first.0, run.count));
    }
    let expected = [
        "1.0@10+5 ap",
        "1.0@15+2 at",
        "1.0@17+1 ap",
        "1.0@18+1 bp",
        "1.0@20+1 bp",
        "1.1@21+1 bp",
        "2.1@22+1 bp",
        "2.1@4+1 bp",
    ];
    assert_eq!(runs, expected);
    assert_eq!((ledger.unsettled(), ledger.entries(), ledger.runs.len()), (0, 0, 0));
}

#[test]
fn a_run_is_divided_by_holes_by_its_tag_and_by_what_a_turn_may_do() {
    let pool = Pool::new(PoolOptions::default());
    let mut ledger = Ledger::default();
    for position in 0..12 {
        ledger.assign_unsettled(delivery(&pool, position));
    }
    assert_eq!(ledger.runs.len(), 1);
    assert_eq!(ledger.settle(DeliveryTag(4)).map(|taken| taken.position.0), Some(3));
    let returned = ledger.settle(DeliveryTag(9)).expect("tag 9 is out");
    let mut next = |through: u64, most| {
        let run = ledger.acknowledge_run(DeliveryTag(through), most);
        (run.map_or((0, 0), |run| (run.first.0, run.count)), ledger.has_through(DeliveryTag(through)))
    };
    assert_eq!(next(6, 2), ((0, 2), true), "as many as a turn may");
    assert_eq!(next(6, 64), ((2, 1), true), "up to the hole");
    assert_eq!(next(6, 64), ((4, 2), false), "up to the tag");
    assert_eq!(next(6, 64), ((0, 0), false));
    ledger.restore([(DeliveryTag(9), returned)]);
    assert_eq!(ledger.oldest_delivery().map(|oldest| (oldest.tag.0, oldest.position.0)), Some((7, 6)));
    let run = ledger.acknowledge_run(DeliveryTag(12), 64).expect("all of the rest");
    assert_eq!((run.first.0, run.count, ledger.unsettled()), (6, 6, 0));
}

proptest! {
    /// Whatever is delivered, settled, taken and restored: a plain map of tags gives the same results.
    #[test]
    fn it_gives_the_same_results_as_a_map(
        steps in prop::collection::vec((0_u8..8, 0_u64..40, 1_usize..9), 1..150),
    ) {
        let pool = Pool::new(PoolOptions::default());
        let consumer = ConsumerKey::default();
        let (mut ledger, mut plain) = (Ledger::default(), BTreeMap::new());
        let mut taken = Vec::new();
        let mut last = 0;
        for (step, number, count) in steps {
            let queue = QueueId { index: (number % 2) as u32, serial: 0 };
            match step {
                // Positions that follow one another, or not.
                0 | 1 => {
                    let first = if number < 20 { last } else { number };
                    let kept = messages(&pool, &vec![number % 5 == 0; count]);
                    let home = (queue, ShardId(0));
                    ledger.assign_all_unsettled(home, QueuePosition(first), consumer, kept.into_iter());
                    plain.extend((0..count as u64).map(|at| (last + 1 + at, (queue.index, first + at))));
                    last += count as u64;
                }
                2 => {
                    let delivery = UnsettledDelivery { queue, ..delivery(&pool, last) };
                    plain.insert(last + 1, (queue.index, last));
                    last += 1;
                    prop_assert_eq!(ledger.assign_unsettled(delivery), DeliveryTag(last));
                }
                3 => {
                    ledger.assign_all_settled(count);
                    last += count as u64;
                }
                4 => {
                    let tag = last.saturating_sub(number);
                    let settled = ledger.settle(DeliveryTag(tag));
                    let settled = settled.map(|delivery| (delivery.queue.index, delivery.position.0));
                    prop_assert_eq!(settled, plain.remove(&tag));
                }
                5 => {
                    let through = last.saturating_sub(number);
                    let (more, is_done) = ledger.take_through(DeliveryTag(through), count);
                    for (tag, delivery) in &more {
                        let first = plain.pop_first();
                        prop_assert_eq!(first, Some((tag.0, (delivery.queue.index, delivery.position.0))));
                    }
                    prop_assert_eq!(is_done, plain.first_key_value().is_none_or(|(&tag, _)| tag > through));
                    prop_assert!(more.len() == count || is_done);
                    taken.extend(more);
                }
                6 => {
                    plain.extend(taken.iter().map(|(tag, delivery): &(DeliveryTag, UnsettledDelivery)| {
                        (tag.0, (delivery.queue.index, delivery.position.0))
                    }));
                    ledger.restore(taken.drain(..));
                }
                _ => {
                    let through = last.saturating_sub(number);
                    let mut left = count;
                    while let Some(run) = ledger.acknowledge_run(DeliveryTag(through), left) {
                        prop_assert!(run.count as usize <= left);
                        for position in run.first.0..run.first.0 + u64::from(run.count) {
                            let first = plain.pop_first().filter(|(tag, _)| *tag <= through);
                            prop_assert_eq!(first.map(|(_, at)| at), Some((run.queue.index, position)));
                        }
                        left -= run.count as usize;
                        if left == 0 {
                            break;
                        }
                    }
                    let has_through = plain.first_key_value().is_some_and(|(&tag, _)| tag <= through);
                    prop_assert_eq!(ledger.has_through(DeliveryTag(through)), has_through);
                    prop_assert!(left == 0 || !has_through);
                }
            }
            let oldest = ledger.oldest_delivery().map(|at| (at.tag.0, (at.queue.index, at.position.0)));
            prop_assert_eq!(oldest, plain.first_key_value().map(|(&tag, &at)| (tag, at)));
            prop_assert_eq!((ledger.unsettled(), ledger.last_tag().0), (plain.len(), last));
            prop_assert!(ledger.entries() <= LEDGER_HOLES_MIN + 3 * ledger.unsettled());
            prop_assert!(ledger.list.is_empty() == ledger.runs.is_empty());
        }
    }
}

#[test]
fn deliveries_that_were_taken_are_restored_under_their_tags() {
    let pool = Pool::new(PoolOptions::default());
    let mut ledger = Ledger::default();
    for position in 0..6 {
        ledger.assign_unsettled(delivery(&pool, position));
    }
    let tags = |taken: &[(DeliveryTag, UnsettledDelivery)]| taken.iter().map(|(tag, _)| tag.0).collect::<Vec<_>>();
    let first = take(&mut ledger, DeliveryTag(2), false).expect("tag 2 is out");
    assert!(
        take(&mut ledger, DeliveryTag(2), false).is_none() && take(&mut ledger, DeliveryTag(2), true).is_none(),
        "a tag is taken once"
    );
    let others = take(&mut ledger, DeliveryTag(4), true).expect("tag 4 is out");
    assert_eq!((tags(&first), tags(&others)), (vec![2], vec![1, 3, 4]));
    assert!(ledger.settle(DeliveryTag(5)).is_some());
    assert_eq!((ledger.assign_settled(), ledger.unsettled()), (DeliveryTag(7), 1));
    ledger.restore(others.into_iter().chain(first));
    assert_eq!((ledger.unsettled(), ledger.oldest(), ledger.next_tag()), (5, Some(DeliveryTag(1)), DeliveryTag(8)));
    assert!(ledger.settle(DeliveryTag(5)).is_none() && ledger.settle(DeliveryTag(7)).is_none());
    let rest = take(&mut ledger, DeliveryTag::ALL, true).expect("all");
    assert_eq!(tags(&rest), [1, 2, 3, 4, 6]);
    assert_eq!(rest.iter().map(|(_, delivery)| delivery.position.0).collect::<Vec<_>>(), [0, 1, 2, 3, 5]);
    ledger.restore(rest);
    ledger.restore([]);
    assert_eq!((ledger.unsettled(), ledger.assign_unsettled(delivery(&pool, 9))), (5, DeliveryTag(8)));
}
