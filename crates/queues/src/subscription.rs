//! A new consumer, as its queue is told of it.

use crate::ids::ConsumerKey;

/// What a queue must know of a new consumer.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// Its key in the table of its own shard.
    pub consumer: ConsumerKey,
    pub no_ack: bool,
    pub exclusive: bool,
    /// Higher ones are served first (RabbitMQ extension).
    pub priority: i32,
    /// Messages that it may be sent at first.
    pub credit_messages: u32,
}
