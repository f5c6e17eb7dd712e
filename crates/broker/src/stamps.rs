//! Stamps: the number that a message gets before it goes where it may arrive twice.
//!
//! A stamp stays as long as brokers pass a message on. What a client publishes is another message, though the client may have
//! copied the headers of one that it got, and so is a dead letter: with the old stamp they would be taken for duplicates.

use catalog::{MessageStamp, ShardId};
use queues::carbon_copies::PublishRewrite;
use wire::RawProperties;

/// The stamps of this shard.
pub(crate) struct MessageStamps {
    shard: ShardId,
    /// Which start of which broker this is. Without it nothing is stamped: two messages with the same stamp would be one.
    origin: Option<u64>,
    last: u64,
}

impl MessageStamps {
    pub fn new(shard: ShardId) -> Self {
        MessageStamps { shard, origin: None, last: 0 }
    }

    pub fn set_origin(&mut self, origin: u64) {
        self.origin = Some(origin);
    }

    /// The properties of a message with a stamp; `None` if it has one already.
    #[cold]
    pub fn stamp(&mut self, properties: RawProperties<'_>) -> Option<Vec<u8>> {
        let origin = self.origin?;
        if MessageStamp::of(properties).is_some() {
            return None;
        }
        self.last += 1;
        Some(MessageStamp::new(origin, self.shard.0, self.last).put_on(properties))
    }

    /// Stamps a publish that has no stamp yet.
    #[cold]
    pub fn stamp_publish(&mut self, properties: RawProperties<'_>, rewrite: &mut Option<PublishRewrite>) {
        if let Some(changed) = self.stamp(PublishRewrite::current(properties, rewrite)) {
            rewrite.get_or_insert_default().properties = Some(changed);
        }
    }
}

/// Removes the stamp that a client has put on its publish.
#[cold]
pub(crate) fn remove_stamp(properties: RawProperties<'_>, rewrite: &mut Option<PublishRewrite>) {
    if MessageStamp::of(properties).is_some() {
        let changed = MessageStamp::take_off(PublishRewrite::current(properties, rewrite));
        rewrite.get_or_insert_default().properties = Some(changed);
    }
}

#[cfg(test)]
mod tests {
    use super::{MessageStamps, remove_stamp};
    use catalog::{MessageStamp, ShardId};
    use wire::RawProperties;

    #[test]
    fn a_message_is_stamped_once_and_only_by_a_broker_that_knows_its_origin() {
        let mut stamps = MessageStamps::new(ShardId(3));
        assert!(stamps.stamp(RawProperties::EMPTY).is_none());
        stamps.set_origin(77);
        let stamped = stamps.stamp(RawProperties::EMPTY).expect("it had none");
        assert!(stamps.stamp(RawProperties::new(&stamped)).is_none());
        let mut rewrite = None;
        remove_stamp(RawProperties::new(&stamped), &mut rewrite);
        let removed = rewrite.as_ref().and_then(|rewrite| rewrite.properties.clone()).expect("changed");
        assert!(MessageStamp::of(RawProperties::new(&removed)).is_none());
        stamps.stamp_publish(RawProperties::new(&stamped), &mut rewrite);
        let again = rewrite.and_then(|rewrite| rewrite.properties).expect("changed");
        assert!(MessageStamp::of(RawProperties::new(&again)).is_some() && again != stamped, "another number");
    }
}
