//! A transaction: what a channel published and settled since `tx.select` or the last commit.

use crate::limits::TRANSACTION_ITEMS_MAX;
use catalog::Refusal;
use queues::{Message, SettlementOutcome, UnsettledDelivery};
use wire::{DeliveryTag, ReplyCode};

/// An operation of an open transaction.
pub enum TransactionOperation {
    Publish {
        /// The message with its exchange and routing key.
        message: Message,
        mandatory: bool,
        /// Further routing keys (`CC` and `BCC`).
        further_keys: Option<Box<[Box<[u8]>]>>,
    },
    Settle {
        /// Deliveries with their tags. The ledger lacks them until the transaction is rolled back.
        deliveries: Vec<(DeliveryTag, UnsettledDelivery)>,
        outcome: SettlementOutcome,
    },
}

/// The operations of a transaction, in their order.
#[derive(Default)]
pub struct Transaction {
    operations: Vec<TransactionOperation>,
    /// It publishes or settles a persistent message.
    has_persistent: bool,
    /// Its messages, and the deliveries that it settles.
    counts: (u64, u64),
}

impl Transaction {
    /// Refuses one more operation if the transaction is at its limit.
    pub fn check_capacity(&self, what: &str) -> Result<(), Refusal> {
        if self.operations.len() < TRANSACTION_ITEMS_MAX {
            return Ok(());
        }
        Err(Refusal::channel(ReplyCode::ResourceError, format!("RESOURCE_ERROR - transaction holds too many {what}")))
    }

    /// Adds an operation whose capacity was checked.
    pub fn push(&mut self, operation: TransactionOperation) {
        self.has_persistent = self.has_persistent
            || match &operation {
                TransactionOperation::Publish { message, .. } => message.is_persistent(),
                TransactionOperation::Settle { deliveries, .. } => {
                    deliveries.iter().any(|(_, delivery)| delivery.message.is_persistent())
                }
            };
        match &operation {
            TransactionOperation::Publish { .. } => self.counts.0 += 1,
            TransactionOperation::Settle { deliveries, .. } => self.counts.1 += deliveries.len() as u64,
        }
        self.operations.push(operation);
    }

    /// Whether it publishes or settles persistent messages.
    pub fn has_persistent(&self) -> bool {
        self.has_persistent
    }

    /// Its messages, and the deliveries that it settles.
    pub fn counts(&self) -> (u64, u64) {
        self.counts
    }

    /// The operations, to commit them or to roll them back; the next transaction begins.
    pub fn take(&mut self) -> Vec<TransactionOperation> {
        (self.has_persistent, self.counts) = (false, (0, 0));
        std::mem::take(&mut self.operations)
    }
}

#[cfg(test)]
mod tests {
    use super::{Transaction, TransactionOperation};
    use catalog::{QueueId, ShardId};
    use queues::{Content, QueuePosition, SettlementOutcome, UnsettledDelivery};
    use slab::{Pool, PoolOptions};
    use wire::DeliveryTag;

    #[test]
    fn operations_are_taken_in_their_order_and_counted() {
        let pool = Pool::new(PoolOptions::default());
        let message = || Content::EMPTY.keep(&pool);
        let mut transaction = Transaction::default();
        for tag in [DeliveryTag(4), DeliveryTag(7)] {
            let delivery = UnsettledDelivery {
                queue: QueueId { index: 0, serial: 0 },
                home: ShardId(0),
                position: QueuePosition(tag.0),
                message: message(),
                consumer: None,
            };
            transaction.check_capacity("acknowledgements").expect("two are few");
            let (deliveries, outcome) = (vec![(tag, delivery)], SettlementOutcome::Acknowledged);
            transaction.push(TransactionOperation::Settle { deliveries, outcome });
            let (mandatory, further_keys) = (false, None);
            transaction.push(TransactionOperation::Publish { message: message(), mandatory, further_keys });
        }
        assert_eq!(transaction.counts(), (2, 2));
        let tags = transaction.take().into_iter().map(|operation| match operation {
            TransactionOperation::Settle { deliveries, .. } => deliveries.first().map(|(tag, _)| *tag),
            TransactionOperation::Publish { .. } => None,
        });
        assert_eq!(tags.collect::<Vec<_>>(), [Some(DeliveryTag(4)), None, Some(DeliveryTag(7)), None]);
        assert!(transaction.take().is_empty() && transaction.counts() == (0, 0));
    }
}
