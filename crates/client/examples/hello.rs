//! Sends itself one message: `hello [URL]`.

use std::time::Duration;

use client::{Client, ClientError, ConsumeOptions, Publish, QueueOptions};

fn main() -> Result<(), ClientError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2F".to_owned());
    let mut client = Client::connect(&url)?;
    let channel = client.open_channel()?;
    let queue = client.declare_queue(channel, "", &QueueOptions { exclusive: true, ..QueueOptions::default() })?;
    client.consume(channel, &queue.name, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
    client.publish(channel, &Publish::to("", &queue.name), b"hello")?;
    match client.next_delivery(Duration::from_secs(5))? {
        Some(delivery) => println!("{}", String::from_utf8_lossy(delivery.body())),
        None => println!("nothing came"),
    }
    client.close()
}
