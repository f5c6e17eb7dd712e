//! The header `x-delivery-count`: how often a message was returned to its queue, as quorum queues of RabbitMQ count.

use crate::death_events::{copy_entries, write_name};
use crate::limits::PROPERTIES_BYTES_PER_WORK;
use crate::message::{Content, Message};
use slab::Pool;
use wire::TableRef;

const DELIVERY_COUNT: &str = "x-delivery-count";

/// The count in a message's headers.
#[cold]
pub(crate) fn delivery_count(message: &Message) -> Option<u32> {
    let count = message.content().properties().headers()?.get(DELIVERY_COUNT)?.as_i64()?;
    u32::try_from(count).ok()
}

/// The message with this count, or without any: a dead letter has none.
#[cold]
pub fn with_delivery_count(message: &Message, count: Option<u32>, pool: &Pool) -> Message {
    let content = message.content();
    let mut properties = Vec::new();
    content.properties().rewrite(true, &mut properties, |headers, out| {
        copy_entries(TableRef::new(headers), out, |name| name != DELIVERY_COUNT.as_bytes());
        if let Some(count) = count {
            write_name(out, DELIVERY_COUNT);
            out.push(b'l');
            out.extend_from_slice(&i64::from(count).to_be_bytes());
        }
    });
    Content { properties: &properties, ..content }.keep(pool)
}

/// The units of work of writing a message with another count.
pub fn rewriting_work(message: &Message) -> usize {
    message.content().properties.len() / PROPERTIES_BYTES_PER_WORK
}

#[cfg(test)]
mod tests {
    use super::{delivery_count, with_delivery_count};
    use crate::message::{BodyRef, Content};
    use slab::{Pool, PoolOptions};
    use wire::{Properties, Table, Value};

    #[test]
    fn a_returned_message_carries_its_count_and_its_dead_letter_does_not() {
        let pool = Pool::new(PoolOptions::default());
        let headers = Some(Table::new().with("mine", Value::I32(1)).expect("short"));
        let properties = Properties { headers, priority: Some(3), ..Properties::default() }.to_bytes();
        let body = BodyRef::Small(b"m");
        let content = Content { routing_key: b"q", properties: &properties, body, ..Content::EMPTY };
        let once = with_delivery_count(&content.keep(&pool), Some(1), &pool);
        let twice = with_delivery_count(&once, Some(2), &pool);
        assert_eq!(delivery_count(&twice), Some(2));
        let dead_letter = with_delivery_count(&twice, None, &pool);
        assert_eq!(dead_letter.content().properties, properties);
        assert_eq!(delivery_count(&dead_letter), None);
    }
}
