//! The settlement ledger of one channel: which delivery tags still await an acknowledgement.

use crate::chunked_queue::ChunkedQueue;
use crate::ids::{ConsumerKey, QueuePosition};
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

/// A list indexed by delivery tag: settling is linear in what is released and never looks at the rest.
#[derive(Default)]
pub struct Ledger {
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
        }
        DeliveryTag(self.last)
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

    /// Takes the deliveries of an acknowledgement, to settle or restore them later; `None` if its tag is not unsettled.
    pub fn take(&mut self, tag: DeliveryTag, multiple: bool) -> Option<Vec<(DeliveryTag, UnsettledDelivery)>> {
        if !multiple {
            return self.settle(tag).map(|delivery| vec![(tag, delivery)]);
        }
        let mut taken = Vec::new();
        self.release_through(tag, |tag, delivery| taken.push((tag, delivery))).then_some(taken)
    }

    /// Restores deliveries that were taken: they are unsettled again, under their tags.
    pub fn restore(&mut self, taken: impl IntoIterator<Item = (DeliveryTag, UnsettledDelivery)>) {
        let mut all: BTreeMap<DeliveryTag, UnsettledDelivery> = taken.into_iter().collect();
        if all.is_empty() {
            return;
        }
        self.release_through(DeliveryTag::ALL, |tag, delivery| drop(all.insert(tag, delivery)));
        self.unsettled = all.len();
        self.front = all.first_key_value().map_or(self.last, |(&tag, _)| tag.0);
        (self.front..=self.last).for_each(|tag| self.list.push_back(all.remove(&DeliveryTag(tag))));
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
        DeliveryTag(self.last)
    }

    /// The oldest unsettled tag.
    pub fn oldest(&self) -> Option<DeliveryTag> {
        (!self.list.is_empty()).then_some(DeliveryTag(self.front))
    }

    /// Deliveries that wait for settlement.
    #[inline]
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Releases one tag.
    pub fn settle(&mut self, tag: DeliveryTag) -> Option<UnsettledDelivery> {
        let index = tag.0.checked_sub(self.front)?;
        let released = self.list.get_mut(usize::try_from(index).ok()?)?.take()?;
        self.unsettled -= 1;
        self.trim();
        Some(released)
    }

    /// Releases every tag up to `tag`, oldest first; [`DeliveryTag::ALL`] means all.
    /// Returns false if `tag` itself is not unsettled: then nothing is released.
    pub fn settle_through(&mut self, tag: DeliveryTag, mut release: impl FnMut(UnsettledDelivery)) -> bool {
        self.release_through(tag, |_, delivery| release(delivery))
    }

    #[inline]
    fn release_through(&mut self, tag: DeliveryTag, mut release: impl FnMut(DeliveryTag, UnsettledDelivery)) -> bool {
        let through = if tag == DeliveryTag::ALL { self.last } else { tag.0 };
        if tag != DeliveryTag::ALL {
            let Some(index) = tag.0.checked_sub(self.front) else {
                return false;
            };
            if !matches!(self.list.get(index as usize), Some(Some(_))) {
                return false;
            }
        }
        while self.front <= through {
            let Some(slot) = self.list.pop_front() else {
                break;
            };
            self.front += 1;
            if let Some(delivery) = slot {
                self.unsettled -= 1;
                release(DeliveryTag(self.front - 1), delivery);
            }
        }
        self.trim();
        true
    }

    fn trim(&mut self) {
        while let Some(None) = self.list.front() {
            self.list.pop_front();
            self.front += 1;
        }
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
    }

    #[test]
    fn multiple_releases_up_to_an_unsettled_tag() {
        let pool = Pool::new(PoolOptions::default());
        let mut ledger = Ledger::default();
        for position in 0..10 {
            ledger.assign_unsettled(delivery(&pool, position));
        }
        ledger.settle(DeliveryTag(3));
        let mut released = Vec::new();
        assert!(!ledger.settle_through(DeliveryTag(3), |_| panic!("tag 3 is settled already")));
        assert!(ledger.settle_through(DeliveryTag(5), |d| released.push(d.position.0)));
        assert_eq!(released, [0, 1, 3, 4]);
        assert!(!ledger.settle_through(DeliveryTag(11), |_| panic!("tag 11 was never assigned")));
        released.clear();
        assert!(ledger.settle_through(DeliveryTag::ALL, |d| released.push(d.position.0)));
        assert_eq!(released, [5, 6, 7, 8, 9]);
        assert!(ledger.settle_through(DeliveryTag::ALL, |_| panic!("nothing is out")));
    }
    #[test]
    fn deliveries_that_were_taken_are_restored_under_their_tags() {
        let pool = Pool::new(PoolOptions::default());
        let mut ledger = Ledger::default();
        for position in 0..6 {
            ledger.assign_unsettled(delivery(&pool, position));
        }
        let tags = |taken: &[(DeliveryTag, UnsettledDelivery)]| taken.iter().map(|(tag, _)| tag.0).collect::<Vec<_>>();
        let first = ledger.take(DeliveryTag(2), false).expect("tag 2 is out");
        assert!(
            ledger.take(DeliveryTag(2), false).is_none() && ledger.take(DeliveryTag(2), true).is_none(),
            "a tag is taken once"
        );
        let others = ledger.take(DeliveryTag(4), true).expect("tag 4 is out");
        assert_eq!((tags(&first), tags(&others)), (vec![2], vec![1, 3, 4]));
        assert!(ledger.settle(DeliveryTag(5)).is_some());
        assert_eq!((ledger.assign_settled(), ledger.unsettled()), (DeliveryTag(7), 1));
        ledger.restore(others.into_iter().chain(first));
        assert_eq!((ledger.unsettled(), ledger.oldest(), ledger.next_tag()), (5, Some(DeliveryTag(1)), DeliveryTag(8)));
        assert!(ledger.settle(DeliveryTag(5)).is_none() && ledger.settle(DeliveryTag(7)).is_none());
        let rest = ledger.take(DeliveryTag::ALL, true).expect("all");
        assert_eq!(tags(&rest), [1, 2, 3, 4, 6]);
        assert_eq!(rest.iter().map(|(_, delivery)| delivery.position.0).collect::<Vec<_>>(), [0, 1, 2, 3, 5]);
        ledger.restore(rest);
        ledger.restore([]);
        assert_eq!((ledger.unsettled(), ledger.assign_unsettled(delivery(&pool, 9))), (5, DeliveryTag(8)));
    }
}
