//! Consumers of other shards that subscribe to queues of this one, and the credit that bounds what they are sent.

use crate::ids::{ConsumerKey, RemoteConsumerKey};
use crate::limits::REMOTE_WINDOW_BYTES;
use crate::paged_slot_map::PagedSlotMap;
use crate::subscription::Subscription;
use catalog::ShardId;
use std::collections::BTreeMap;

/// A consumer of another shard, as its queue sees it.
pub struct RemoteConsumer {
    pub shard: ShardId,
    /// Its key in that shard's table.
    pub consumer: ConsumerKey,
    pub no_ack: bool,
    /// Higher priorities are served first.
    pub priority: i32,
    /// Messages it may still be sent.
    pub credit_messages: u32,
    /// Bytes it may still be sent; the last message may exceed it.
    pub credit_bytes: i64,
    /// It is out of credit and out of its queue's rotation.
    pub idle: bool,
}

/// The table of them.
#[derive(Default)]
pub struct RemoteConsumers {
    table: PagedSlotMap<RemoteConsumerKey, RemoteConsumer>,
    /// A tree: of a hash table the consumers of all other shards would be hashed anew at once.
    keys: BTreeMap<(ShardId, ConsumerKey), RemoteConsumerKey>,
}

impl RemoteConsumers {
    #[inline]
    pub fn get(&self, key: RemoteConsumerKey) -> Option<&RemoteConsumer> {
        self.table.get(key)
    }

    pub fn add(&mut self, shard: ShardId, subscription: &Subscription) -> RemoteConsumerKey {
        let key = self.table.insert(RemoteConsumer {
            shard,
            consumer: subscription.consumer,
            no_ack: subscription.no_ack,
            priority: subscription.priority,
            credit_messages: subscription.credit_messages,
            credit_bytes: REMOTE_WINDOW_BYTES,
            idle: false,
        });
        self.keys.insert((shard, subscription.consumer), key);
        key
    }

    /// Removes a consumer by its shard and its key there.
    pub fn cancel(&mut self, shard: ShardId, consumer: ConsumerKey) -> Option<RemoteConsumerKey> {
        let key = *self.keys.get(&(shard, consumer))?;
        self.remove(key);
        Some(key)
    }

    /// Removes a consumer whose queue is gone.
    pub fn remove(&mut self, key: RemoteConsumerKey) -> Option<RemoteConsumer> {
        let remote = self.table.remove(key)?;
        self.keys.remove(&(remote.shard, remote.consumer));
        Some(remote)
    }

    /// Grants credit to a consumer. Returns it with its priority if it was idle and may be served again.
    pub fn grant_credit(
        &mut self,
        shard: ShardId,
        consumer: ConsumerKey,
        messages: u32,
        bytes: i64,
    ) -> Option<(RemoteConsumerKey, i32)> {
        let key = *self.keys.get(&(shard, consumer))?;
        let remote = self.table.get_mut(key)?;
        remote.credit_messages = remote.credit_messages.saturating_add(messages);
        remote.credit_bytes = remote.credit_bytes.saturating_add(bytes);
        if !(remote.idle && remote.credit_messages > 0 && remote.credit_bytes > 0) {
            return None;
        }
        remote.idle = false;
        Some((key, remote.priority))
    }

    /// Whether a consumer may be sent a message. One that may not is idle from now on.
    #[inline]
    pub fn accepts(&mut self, key: RemoteConsumerKey) -> bool {
        let Some(remote) = self.table.get_mut(key) else { return false };
        let accepts = remote.credit_messages > 0 && remote.credit_bytes > 0;
        if !accepts {
            remote.idle = true;
        }
        accepts
    }

    /// How many messages of so many bytes a consumer may be sent on end, up to a number of them.
    #[inline]
    pub fn accepted_of_run(&self, key: RemoteConsumerKey, bytes: usize, most: usize) -> usize {
        let Some(remote) = self.table.get(key) else { return 0 };
        let by_bytes = remote.credit_bytes.max(0) as usize;
        most.min(remote.credit_messages as usize).min(by_bytes.div_ceil(bytes.max(1)))
    }

    /// A consumer is sent so many messages, of so many bytes together. Returns the consumer.
    #[inline]
    pub fn draw_credit(&mut self, key: RemoteConsumerKey, messages: u32, bytes: i64) -> Option<&RemoteConsumer> {
        let remote = self.table.get_mut(key)?;
        remote.credit_messages -= messages;
        remote.credit_bytes -= bytes;
        Some(remote)
    }

    pub fn count(&self) -> usize {
        self.table.count()
    }

    /// Entries of the table from a consumer's own key to its key here.
    pub fn keys_len(&self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::RemoteConsumers;
    use crate::ids::ConsumerKey;
    use crate::limits::REMOTE_WINDOW_BYTES;
    use crate::subscription::Subscription;
    use catalog::ShardId;

    #[test]
    fn a_consumer_without_credit_is_idle_until_it_is_granted_both_messages_and_bytes() {
        let mut remotes = RemoteConsumers::default();
        let consumer = ConsumerKey::default();
        let subscription = Subscription { consumer, no_ack: true, exclusive: false, priority: 7, credit_messages: 1 };
        let key = remotes.add(ShardId(2), &subscription);
        assert!(remotes.accepts(key));
        assert_eq!((remotes.count(), remotes.keys_len()), (1, 1));
        // The last message may exceed the bytes that are left.
        assert!(remotes.draw_credit(key, 1, REMOTE_WINDOW_BYTES + 5).is_some());
        assert!(!remotes.accepts(key));
        assert_eq!(remotes.grant_credit(ShardId(2), consumer, 3, 0), None, "bytes are missing");
        assert_eq!(remotes.grant_credit(ShardId(1), consumer, 3, 9), None, "that shard has no such consumer");
        assert_eq!(remotes.grant_credit(ShardId(2), consumer, 0, REMOTE_WINDOW_BYTES), Some((key, 7)));
        assert_eq!(remotes.grant_credit(ShardId(2), consumer, 1, 0), None, "it is not idle any more");
        assert_eq!(remotes.cancel(ShardId(2), consumer), Some(key));
        assert_eq!((remotes.count(), remotes.keys_len()), (0, 0));
        assert!(!remotes.accepts(key) && remotes.remove(key).is_none());
    }
}
