//! A delayed message as the store has it: a message of a queue that is none, one of each shard.
//!
//! It is published, so to speak, by the exchange that delays it, at the end of its delay. The virtual host of that exchange, and
//! the exchange that it was published to, precede its keys of `BCC`.

use crate::bcc;
use crate::delayed_messages::DelayedMessage;
use crate::message::{Content, Message};
use catalog::{Catalog, Name, QueueUid, ResourceKind, ShardId, VhostId};
use slab::Pool;

/// The virtual host of a message whose own is gone.
const NO_VHOST: VhostId = VhostId(u32::MAX);

/// The number of a shard's delayed messages. No queue has it: numbers of queues are given out from 1 on.
pub fn delayed_uid(shard: ShardId) -> QueueUid {
    match QueueUid::new(u64::MAX - u64::from(shard.0)) {
        Some(uid) => uid,
        None => unreachable!("it is as great as a number can be"),
    }
}

/// The shard whose delayed messages have this number in a store; `None` if it is a queue's number.
pub fn delaying_shard(uid: QueueUid) -> Option<ShardId> {
    u16::try_from(u64::MAX - uid.number()).ok().map(ShardId)
}

/// What the store gets of a delayed message.
pub fn record(delayed: &DelayedMessage, catalog: &Catalog, pool: &Pool) -> Message {
    let content = delayed.message.content();
    let vhost = catalog.vhost_name(delayed.vhost).as_bytes();
    let bcc = bcc::pack([vhost, content.exchange].into_iter().chain(bcc::unpack(content.bcc)));
    Content { exchange: delayed.exchange.as_bytes(), bcc: &bcc, ..content }.keep(pool)
}

/// The delayed message of a record. If its virtual host is gone, no exchange will have it.
pub fn delayed(record: &Message, catalog: &Catalog, pool: &Pool) -> DelayedMessage {
    let content = record.content();
    let mut parts = bcc::unpack(content.bcc);
    let vhost = parts.next().and_then(|name| catalog.vhost_by_name(std::str::from_utf8(name).ok()?));
    let exchange = parts.next().unwrap_or_default();
    let bcc = bcc::pack(parts);
    let message = Content { exchange, bcc: &bcc, ..content }.keep(pool);
    match (vhost, Name::new(ResourceKind::Exchange, content.exchange)) {
        (Some(vhost), Ok(exchange)) => DelayedMessage { vhost, exchange, message },
        _ => DelayedMessage { vhost: NO_VHOST, exchange: Name::from(""), message },
    }
}

#[cfg(test)]
mod tests {
    use super::{NO_VHOST, delayed, delayed_uid, delaying_shard, record};
    use crate::delayed_messages::DelayedMessage;
    use crate::message::{BodyRef, Content};
    use catalog::{Catalog, CatalogLimits, Definition, QueueUid, ShardId};
    use slab::{Pool, PoolOptions};

    #[test]
    fn a_delayed_message_comes_back_as_it_was() {
        let pool = Pool::new(PoolOptions::default());
        let mut catalog = Catalog::new(CatalogLimits::default());
        catalog.execute(&Definition::CreateVhost { name: "v".into() }).expect("a new virtual host");
        let vhost = catalog.vhost_by_name("v").expect("it was created");
        let slice = {
            let mut block = pool.block(5_000);
            block.copy_from_slice(&[7; 5_000]);
            block.freeze()
        };
        for (bcc, body) in [(vec![], BodyRef::Small(b"body")), (vec![b"k".as_slice(), b""], BodyRef::Large(&slice))] {
            let bcc = crate::bcc::pack(bcc.into_iter());
            let properties = &[0x10, 0, 2];
            let content =
                Content { exchange: b"published to", routing_key: b"key", properties, body, bcc: &bcc, arrived_us: 77 };
            let before = DelayedMessage { vhost, exchange: "delays".into(), message: content.keep(&pool) };
            let record = record(&before, &catalog, &pool);
            assert!(record.is_persistent());
            let after = delayed(&record, &catalog, &pool);
            assert_eq!((after.vhost, &*after.exchange), (vhost, "delays"));
            let [before, after] = [&before, &after].map(|delayed| delayed.message.content());
            assert_eq!((before.exchange, before.routing_key), (after.exchange, after.routing_key));
            assert_eq!((before.properties, before.bcc), (after.properties, after.bcc));
            assert_eq!((before.arrived_us, before.body.len()), (after.arrived_us, after.body.len()));
        }
        let message = Content::EMPTY.keep(&pool);
        let gone = DelayedMessage { vhost: NO_VHOST, exchange: "delays".into(), message };
        let gone = delayed(&record(&gone, &catalog, &pool), &catalog, &pool);
        assert!(gone.vhost == NO_VHOST && catalog.exchange(gone.vhost, gone.exchange.as_bytes()).is_none());
    }

    #[test]
    fn each_shard_has_a_number_that_no_queue_has() {
        for shard in [0, 1, u16::MAX].map(ShardId) {
            assert_eq!(delaying_shard(delayed_uid(shard)), Some(shard));
        }
        assert_eq!(delaying_shard(QueueUid::FIRST), None);
        assert_eq!(QueueUid::new(u64::MAX - u64::from(u16::MAX) - 1).and_then(delaying_shard), None);
    }
}
