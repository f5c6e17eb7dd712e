//! Publishes with confirms, at most 1,000 unconfirmed at any time, and counts what was refused or returned:
//! `confirms [URL]`.

use client::{Client, ClientError, Properties, Publish, QueueOptions, RawProperties};

const MESSAGES: u64 = 100_000;
const WINDOW: u64 = 1_000;

fn main() -> Result<(), ClientError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2F".to_owned());
    let mut client = Client::connect(&url)?;
    let channel = client.open_channel()?;
    let queue = client.declare_queue(channel, "", &QueueOptions { exclusive: true, ..QueueOptions::default() })?;
    client.confirm_select(channel)?;

    // Made once: properties travel in wire form.
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let to = Publish { mandatory: true, properties: RawProperties::new(&properties), ..Publish::to("", &queue.name) };
    for number in 0..MESSAGES {
        if client.outstanding(channel) >= WINDOW {
            client.wait_confirms(channel, WINDOW / 2)?;
        }
        client.publish(channel, &to, &number.to_le_bytes())?;
    }
    let refused = client.wait_confirms(channel, 0)?;
    println!("{MESSAGES} published, {refused} refused, {} returned", client.returned_count());
    println!("{} waited in the queue", client.delete_queue(channel, &queue.name, false, false)?);
    client.close()
}
