//! The AMQP methods that clients of every run send, with the arguments that they usually have.

use wire::method::{basic, exchange, queue};
use wire::{ShortStr, TableRef};

/// `queue.declare` of a transient queue that is shared and stays.
pub fn declare_queue(name: &str) -> queue::Declare<'_> {
    queue::Declare {
        queue: ShortStr::truncated(name),
        passive: false,
        durable: false,
        exclusive: false,
        auto_delete: false,
        no_wait: false,
        arguments: TableRef::EMPTY,
    }
}

/// `queue.delete`, whatever the queue has.
pub fn delete_queue(name: &str) -> queue::Delete<'_> {
    queue::Delete { queue: ShortStr::truncated(name), if_unused: false, if_empty: false, no_wait: false }
}

/// `queue.bind`.
pub fn bind_queue<'a>(queue: &'a str, exchange: &'a str, routing_key: &'a str) -> queue::Bind<'a> {
    let [queue, exchange, routing_key] = [queue, exchange, routing_key].map(ShortStr::truncated);
    queue::Bind { queue, exchange, routing_key, no_wait: false, arguments: TableRef::EMPTY }
}

/// `queue.unbind`.
pub fn unbind_queue<'a>(queue: &'a str, exchange: &'a str, routing_key: &'a str) -> queue::Unbind<'a> {
    let [queue, exchange, routing_key] = [queue, exchange, routing_key].map(ShortStr::truncated);
    queue::Unbind { queue, exchange, routing_key, arguments: TableRef::EMPTY }
}

/// `exchange.declare` of a transient exchange that stays.
pub fn declare_exchange<'a>(name: &'a str, exchange_type: &'a str) -> exchange::Declare<'a> {
    exchange::Declare {
        exchange: ShortStr::truncated(name),
        kind: ShortStr::truncated(exchange_type),
        passive: false,
        durable: false,
        auto_delete: false,
        internal: false,
        no_wait: false,
        arguments: TableRef::EMPTY,
    }
}

/// `exchange.delete`, whatever the exchange has.
pub fn delete_exchange(name: &str) -> exchange::Delete<'_> {
    exchange::Delete { exchange: ShortStr::truncated(name), if_unused: false, no_wait: false }
}

/// `basic.consume` of a consumer that shares its queue.
pub fn consume<'a>(queue: &'a str, tag: &'a str, no_ack: bool) -> basic::Consume<'a> {
    basic::Consume {
        queue: ShortStr::truncated(queue),
        consumer_tag: ShortStr::truncated(tag),
        no_local: false,
        no_ack,
        exclusive: false,
        no_wait: false,
        arguments: TableRef::EMPTY,
    }
}
