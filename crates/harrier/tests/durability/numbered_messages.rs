//! Persistent messages of some size that tell their numbers, published to a queue and consumed again.

use super::waiting::wait_until;
use client::{Client, ClientChannel, ClientError, ConsumeOptions, Publish};
use std::time::Duration;
use wire::{Properties, RawProperties};

pub const BODY_BYTES: usize = 16 << 10;
const PREFETCH: u16 = 100;
const NOT_FOUND: u16 = 404;

fn body(number: u32) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(BODY_BYTES, number as u8);
    body
}

pub fn number_of(body: &[u8]) -> u32 {
    let number = u32::from_le_bytes(body[..4].try_into().expect("four bytes"));
    assert!(body == self::body(number), "all of message {number}");
    number
}

/// Publishes messages to a queue with confirms. Returns how many were refused.
pub fn publish(client: &mut Client, channel: ClientChannel, queue: &str, messages: u32) -> usize {
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    for number in 0..messages {
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", queue) };
        client.publish(channel, &to, &body(number)).expect("published");
        client.wait_confirms(channel, 100).expect("answered");
    }
    client.wait_confirms(channel, 0).expect("answered");
    client.take_refused(channel).expect("a channel").len()
}

/// Consumes until the consumer is cancelled, or so many messages have come. Returns the last message.
pub fn consume(client: &mut Client, queue: &str, messages: u32) -> (u32, bool) {
    let channel = client.open_channel().expect("a channel");
    client.qos(channel, PREFETCH, false).expect("a prefetch");
    client.consume(channel, queue, &ConsumeOptions::default()).expect("a consumer");
    let (mut next, mut is_cancelled) = (0, false);
    wait_until("the last message", || {
        while let Some(delivery) = client.next_delivery(Duration::from_millis(1)).expect("connected") {
            assert_eq!(number_of(delivery.body()), next, "in their order");
            next += 1;
            let tag = delivery.delivery_tag;
            client.ack(channel, tag, false).expect("acknowledged");
        }
        client.flush().expect("connected");
        is_cancelled |= client.take_cancelled().is_some();
        is_cancelled || next == messages
    });
    client.close_channel(channel).expect("closed");
    (next, is_cancelled)
}

/// Whether a call is refused because the queue is not there, or closed.
pub fn is_not_found<T>(result: Result<T, ClientError>) -> bool {
    match result {
        Err(ClientError::ChannelClosed { code, .. }) => code == NOT_FOUND,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}
