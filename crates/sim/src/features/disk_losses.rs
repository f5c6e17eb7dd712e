//! What a start in spite of damage has cost, as the model takes it: of what is missing nothing is owed, and what a queue had
//! stored of its deliveries may be forgotten.

use super::dead_letters::number_of;
use super::shadow_model::{DeliveryState, SettlementProgress, ShadowModel, ShadowQueue};
use crate::simulated_broker::SimulatedBroker;
use simdisks::LostRecords;
use std::collections::BTreeSet;
use store::QueueUid;

/// How many messages were owed that are lost.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OwedLoss {
    pub messages: u64,
    /// Of these, those that nothing names.
    pub unproven: u64,
}

impl DeliveryState {
    /// Nothing of it is stored: the message may come again, as if for the first time.
    fn forget(&mut self) {
        (self.holder, self.settled, self.times, self.returns) = (None, SettlementProgress::None, 0, 0);
        self.stored = Default::default();
    }
}

impl ShadowQueue {
    /// Settlements of it are lost: what it was done with may come again.
    fn forget_settlements(&mut self) {
        self.deliveries.values_mut().for_each(DeliveryState::forget);
        self.survival.forget_purges();
        self.disturbed = true;
        self.had_unseen_deliveries = true;
    }

    /// These messages are lost, and nothing names some of them. Returns how many of them it owed.
    fn lose(&mut self, numbers: &BTreeSet<u64>, unproven: &BTreeSet<u64>) -> OwedLoss {
        let owed =
            |numbers: &BTreeSet<u64>| self.owed.iter().filter(|&&copy| numbers.contains(&number_of(copy))).count();
        let loss = OwedLoss { messages: owed(numbers) as u64, unproven: owed(unproven) as u64 };
        self.owed.retain(|&copy| !numbers.contains(&number_of(copy)));
        self.survival.lose(numbers);
        loss
    }
}

impl ShadowModel {
    /// A broker has started without these records. Returns how many messages it owed.
    pub fn lose(&mut self, lost: &LostRecords, broker: &SimulatedBroker) -> OwedLoss {
        // A commit that damage divides may come in part.
        self.commits.clear();
        let mut owed = OwedLoss::default();
        let changed = &lost.changed;
        let queues = broker.shards.iter().flat_map(|node| node.shard.broker().queues());
        for found in queues {
            let Some(uid) = found.uid.map(|uid| QueueUid(uid.number())) else { continue };
            let Some(queue) = self.queues.iter_mut().rev().find(|known| *known.name == *found.name) else { continue };
            let of_queue = |messages: &BTreeSet<(QueueUid, u64)>| {
                messages.range((uid, 0)..=(uid, u64::MAX)).map(|&(_, number)| number).collect()
            };
            let lost = queue.lose(&of_queue(&lost.messages), &of_queue(&lost.unproven));
            owed.messages += lost.messages;
            owed.unproven += lost.unproven;
            if changed.contains(&uid) {
                queue.forget_settlements();
            }
        }
        owed
    }
}

#[cfg(test)]
mod tests {
    use super::OwedLoss;
    use crate::features::shadow_model::{SettlementProgress, ShadowModel};
    use crate::features::survival::StoredDelivery;

    #[test]
    fn what_is_lost_is_not_owed_and_what_was_settled_may_come_again() {
        let mut model = ShadowModel::new(true);
        let at = model.add_queue("q".into(), None, false);
        let queue = &mut model.queues[at];
        queue.owed.extend([1, 2, 3]);
        assert_eq!(queue.lose(&[2, 3, 9].into(), &[3].into()), OwedLoss { messages: 2, unproven: 1 });
        assert!(queue.owed.iter().eq(&[1]));
        let delivery = queue.deliveries.entry(4).or_default();
        (delivery.settled, delivery.times) = (SettlementProgress::Proven, 1);
        delivery.stored = StoredDelivery { is_marked: true, settled_us: Some(0), returns: 2 };
        queue.forget_settlements();
        let delivery = &queue.deliveries[&4];
        assert_eq!((delivery.settled, delivery.times), (SettlementProgress::None, 0));
        assert_eq!(delivery.stored, StoredDelivery::default());
    }
}
