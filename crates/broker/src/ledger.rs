//! The settlement ledger of one channel: which delivery tags still await an acknowledgement.

use crate::chunked_queue::ChunkedQueue;
use crate::ids::{ConsumerKey, QueuePosition};
use crate::limits::{LEDGER_HOLES_MIN, LEDGER_MOVES_MAX};
use crate::message::Message;
use catalog::{QueueId, ShardId};
use std::collections::BTreeMap;
use wire::DeliveryTag;

/// What becomes of a settled delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettlementOutcome {
    /// It was processed.
    Acknowledged,
    /// It returns to its position in the queue.
    Requeued,
    /// It was refused and is not wanted again: a dead letter, if its queue has a target for them.
    Rejected,
}

/// A delivery that waits for its acknowledgement.
pub struct UnsettledDelivery {
    pub queue: QueueId,
    /// The shard where that queue lives.
    pub home: ShardId,
    pub position: QueuePosition,
    pub message: Message,
    /// The consumer it went to; `None` for `basic.get`.
    pub consumer: Option<ConsumerKey>,
}

/// The oldest unsettled delivery of a channel. Its queue and position recognise its message when that is delivered again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OldestDelivery {
    pub tag: DeliveryTag,
    pub queue: QueueId,
    pub position: QueuePosition,
}

/// The unsettled deliveries of a channel by delivery tag: settling is linear in what is released and never looks at the rest.
///
/// Recent ones are in a list indexed by tag. Where that has become mostly holes, because few old deliveries stay unsettled among
/// many that were settled, the old ones move to a map, so that the ledger is as large as what it holds.
#[derive(Default)]
pub struct Ledger {
    /// The deliveries before `front`.
    old: BTreeMap<DeliveryTag, UnsettledDelivery>,
    list: ChunkedQueue<Option<UnsettledDelivery>>,
    /// Tag of the list's front.
    front: u64,
    /// The tag assigned last.
    last: u64,
    unsettled: usize,
}

impl Ledger {
    /// The next tag for a delivery that needs no acknowledgement.
    #[inline]
    pub fn assign_settled(&mut self) -> DeliveryTag {
        self.last += 1;
        if !self.list.is_empty() {
            self.list.push_back(None);
            self.bound_holes();
        }
        DeliveryTag(self.last)
    }

    /// The next tags for so many deliveries that need no acknowledgement.
    #[inline]
    pub fn assign_all_settled(&mut self, deliveries: usize) {
        if self.list.is_empty() {
            self.last += deliveries as u64;
        } else {
            (0..deliveries).for_each(|_| _ = self.assign_settled());
        }
    }

    /// The tag that the next delivery will get.
    #[inline]
    pub fn next_tag(&self) -> DeliveryTag {
        DeliveryTag(self.last + 1)
    }

    /// The tag assigned last; 0 before the first.
    pub fn last_tag(&self) -> DeliveryTag {
        DeliveryTag(self.last)
    }

    /// Takes deliveries up to a tag, the oldest first and so many at most, to settle or restore them later. Returns also whether none
    /// of them is left.
    pub fn take_through(&mut self, through: DeliveryTag, max: usize) -> (Vec<(DeliveryTag, UnsettledDelivery)>, bool) {
        let mut taken = Vec::new();
        let is_done = self.settle_through(through, |tag, delivery| {
            taken.push((tag, delivery));
            taken.len() < max
        });
        (taken, is_done)
    }

    /// Restores deliveries that were taken: they are unsettled again, under their tags.
    pub fn restore(&mut self, taken: impl IntoIterator<Item = (DeliveryTag, UnsettledDelivery)>) {
        for (tag, delivery) in taken {
            self.unsettled += 1;
            let index = tag.0.checked_sub(self.front).and_then(|index| usize::try_from(index).ok());
            match index.and_then(|index| self.list.get_mut(index)) {
                Some(slot) => *slot = Some(delivery),
                None => drop(self.old.insert(tag, delivery)),
            }
        }
    }

    /// The next tag for a delivery that must be settled.
    #[inline]
    pub fn assign_unsettled(&mut self, delivery: UnsettledDelivery) -> DeliveryTag {
        self.last += 1;
        if self.list.is_empty() {
            self.front = self.last;
        }
        self.list.push_back(Some(delivery));
        self.unsettled += 1;
        self.bound_holes();
        DeliveryTag(self.last)
    }

    /// The oldest unsettled tag.
    pub fn oldest(&self) -> Option<DeliveryTag> {
        let first = self.old.first_key_value().map(|(&tag, _)| tag);
        first.or((!self.list.is_empty()).then_some(DeliveryTag(self.front)))
    }

    /// The oldest unsettled delivery.
    pub fn oldest_delivery(&self) -> Option<OldestDelivery> {
        let tag = self.oldest()?;
        let UnsettledDelivery { queue, position, .. } = *self.old.get(&tag).or_else(|| self.list.front()?.as_ref())?;
        Some(OldestDelivery { tag, queue, position })
    }

    /// Deliveries that wait for settlement.
    #[inline]
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Entries in memory: at most a few for each unsettled delivery.
    #[cfg(test)]
    fn entries(&self) -> usize {
        self.old.len() + self.list.len()
    }

    /// Releases one tag.
    #[inline]
    pub fn settle(&mut self, tag: DeliveryTag) -> Option<UnsettledDelivery> {
        let Some(index) = tag.0.checked_sub(self.front).filter(|_| !self.list.is_empty()) else {
            return self.settle_old(tag);
        };
        let released = self.list.get_mut(usize::try_from(index).ok()?)?.take()?;
        self.unsettled -= 1;
        self.trim();
        Some(released)
    }

    #[cold]
    fn settle_old(&mut self, tag: DeliveryTag) -> Option<UnsettledDelivery> {
        let released = self.old.remove(&tag)?;
        self.unsettled -= 1;
        Some(released)
    }

    /// The last tag that an acknowledgement of all up to `tag` covers; [`DeliveryTag::ALL`] means all.
    /// `None` if `tag` itself is not unsettled.
    #[inline]
    pub fn range(&self, tag: DeliveryTag) -> Option<DeliveryTag> {
        if tag == DeliveryTag::ALL {
            return Some(DeliveryTag(self.last));
        }
        let in_list = || {
            let index = usize::try_from(tag.0.checked_sub(self.front)?).ok()?;
            self.list.get(index)?.as_ref()
        };
        (in_list().is_some() || self.old.contains_key(&tag)).then_some(tag)
    }

    /// Releases the deliveries up to a tag, the oldest first, as long as `release` returns true. Returns whether none of them is
    /// left.
    #[inline]
    pub fn settle_through(
        &mut self,
        through: DeliveryTag,
        mut release: impl FnMut(DeliveryTag, UnsettledDelivery) -> bool,
    ) -> bool {
        while let Some(entry) = self.old.first_entry().filter(|entry| *entry.key() <= through) {
            let (tag, delivery) = entry.remove_entry();
            self.unsettled -= 1;
            if !release(tag, delivery) {
                return self.oldest().is_none_or(|oldest| oldest > through);
            }
        }
        let mut goes_on = true;
        while goes_on && self.front <= through.0 {
            let Some(slot) = self.list.pop_front() else { break };
            self.front += 1;
            if let Some(delivery) = slot {
                self.unsettled -= 1;
                goes_on = release(DeliveryTag(self.front - 1), delivery);
            }
        }
        self.trim();
        goes_on || self.oldest().is_none_or(|oldest| oldest > through)
    }

    fn trim(&mut self) {
        while let Some(None) = self.list.front() {
            self.list.pop_front();
            self.front += 1;
        }
    }

    /// Moves old deliveries from the list to the map while the list has more holes than deliveries, some with each new delivery.
    /// Each moves once.
    #[inline]
    fn bound_holes(&mut self) {
        if self.list.len() > LEDGER_HOLES_MIN + 2 * (self.unsettled - self.old.len()) {
            self.move_old();
        }
    }

    #[cold]
    fn move_old(&mut self) {
        for _ in 0..LEDGER_MOVES_MAX {
            if self.list.len() <= 2 * (self.unsettled - self.old.len()) {
                break;
            }
            let Some(slot) = self.list.pop_front() else { break };
            if let Some(delivery) = slot {
                self.old.insert(DeliveryTag(self.front), delivery);
            }
            self.front += 1;
        }
        self.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{BodyRef, Content};
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
        // One at a time: what is left when a turn ends is released in another.
        while !ledger.settle_through(through, |_, delivery| {
            positions.push(delivery.position.0);
            false
        }) {}
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
}
