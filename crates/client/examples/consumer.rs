//! A consumer with acknowledgements, a hundred at a time, and no more than 300 ahead: `consumer URL QUEUE`.
//! It ends when no message has come for five seconds.

use std::time::Duration;
use wire::DeliveryTag;

use client::{Client, ClientError, ConsumeOptions, QueueOptions};

const ACK_EVERY: u64 = 100;

fn main() -> Result<(), ClientError> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2F".to_owned());
    let queue = arguments.next().unwrap_or_else(|| "work".to_owned());
    let mut client = Client::connect(&url)?;
    let channel = client.open_channel()?;
    client.declare_queue(channel, &queue, &QueueOptions::default())?;
    client.qos(channel, 300, false)?;
    client.consume(channel, &queue, &ConsumeOptions::default())?;

    let (mut count, mut last_tag) = (0_u64, 0_u64);
    while let Some(delivery) = client.next_delivery(Duration::from_secs(5))? {
        let tag = delivery.delivery_tag;
        // Work on `delivery.body()` here; it is a view of the receive buffer until the next call.
        count += 1;
        last_tag = tag.0;
        if count % ACK_EVERY == 0 {
            client.ack(channel, tag, true)?;
        }
    }
    if count % ACK_EVERY != 0 {
        client.ack(channel, DeliveryTag(last_tag), true)?;
    }
    if let Some(cancelled) = client.take_cancelled() {
        println!("the server ended consumer {}", cancelled.consumer_tag);
    }
    println!("{count} messages");
    client.close()
}
