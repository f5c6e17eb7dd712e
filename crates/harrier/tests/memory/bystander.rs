//! An honest client beside the attackers: it publishes with confirms and consumes, over connections of their own.

use super::PATIENCE;
use super::broker::LimitedBroker;
use client::{Client, ClientChannel, ConsumeOptions, Publish, QueueOptions};

pub const QUEUE: &str = "bystander";

pub struct Bystander {
    publisher: (Client, ClientChannel),
    consumer: (Client, ClientChannel),
}

fn connect(broker: &LimitedBroker) -> (Client, ClientChannel) {
    let mut client = Client::connect(&format!("amqp://{}/%2F", broker.address)).expect("connects");
    let channel = client.open_channel().expect("a channel");
    (client, channel)
}

impl Bystander {
    pub fn new(broker: &LimitedBroker) -> Self {
        let (mut publisher, mut consumer) = (connect(broker), connect(broker));
        publisher.0.confirm_select(publisher.1).expect("confirms");
        consumer.0.declare_queue(consumer.1, QUEUE, &QueueOptions::default()).expect("a queue");
        let options = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
        consumer.0.consume(consumer.1, QUEUE, &options).expect("consumes");
        Bystander { publisher, consumer }
    }

    /// Publishes a message and consumes it.
    pub fn exchange(&mut self, attack: &str) {
        let (publisher, channel) = (&mut self.publisher.0, self.publisher.1);
        publisher.publish(channel, &Publish::to("", QUEUE), &[7; 64]).expect("published");
        publisher.wait_confirms(channel, 0).unwrap_or_else(|error| panic!("{attack}: not confirmed: {error}"));
        let delivery = self.consumer.0.next_delivery(PATIENCE).expect("a connection");
        assert_eq!(delivery.expect("a delivery").body(), [7; 64], "{attack}");
    }

    /// Takes all messages of a queue of the attackers. Returns how many.
    pub fn purge(&mut self, queue: &str) -> usize {
        self.consumer.0.purge_queue(self.consumer.1, queue).expect("purged") as usize
    }

    /// Deletes a queue of the attackers.
    pub fn delete(&mut self, queue: &str) {
        self.consumer.0.delete_queue(self.consumer.1, queue, false, false).expect("deleted");
    }
}
