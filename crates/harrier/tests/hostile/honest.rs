//! Honest clients beside the hostile peers: a publisher and a consumer that stay connected over RDMA, and check that
//! every message arrives whole and in order.

use super::PATIENCE;
use client::{Client, ClientChannel, ConsumeOptions, Publish, QueueOptions};
use std::net::SocketAddr;

/// Sizes of a round: inline, in one buffer, in several, and offered for reading.
const SIZES: [usize; 4] = [20, 3_000, 12_000, 70_000];

pub struct HonestClients {
    publisher: (Client, ClientChannel),
    consumer: (Client, ClientChannel),
    round: usize,
}

fn body(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ (at >> 8) ^ (number * 29)) as u8).collect()
}

/// A client with a channel.
pub fn connect(address: SocketAddr) -> client::Result<(Client, ClientChannel)> {
    let mut client = Client::connect(&format!("amqp+rdma://guest:guest@{address}/%2F"))?;
    assert_eq!(client.transport(), "rdma");
    let channel = client.open_channel()?;
    Ok((client, channel))
}

impl HonestClients {
    pub fn new(address: SocketAddr) -> HonestClients {
        let (mut publisher, mut consumer) = (connect(address).expect("room"), connect(address).expect("room"));
        for queue in ["honest", "bait", "sink"] {
            consumer.0.declare_queue(consumer.1, queue, &QueueOptions::default()).expect("a queue");
        }
        let options = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
        consumer.0.consume(consumer.1, "honest", &options).expect("a consumer");
        publisher.0.confirm_select(publisher.1).expect("confirms");
        let mut honest = HonestClients { publisher, consumer, round: 0 };
        // Message memory grows to what a round needs, and a little beyond.
        honest.enqueue("bait", 1 << 20);
        honest.enqueue("bait", 1 << 20);
        (0..3).for_each(|_| honest.exchange("the beginning"));
        honest.clear();
        honest
    }

    /// Sends a message of each size from one to the other, with confirms.
    pub fn exchange(&mut self, when: &str) {
        self.round += 1;
        let (publisher, to) = &mut self.publisher;
        for (at, bytes) in SIZES.into_iter().enumerate() {
            let sent = publisher.publish(*to, &Publish::to("", "honest"), &body(self.round * 4 + at, bytes));
            sent.unwrap_or_else(|error| panic!("{when}: an honest publisher: {error}"));
        }
        publisher.flush().unwrap_or_else(|error| panic!("{when}: an honest publisher: {error}"));
        for (at, bytes) in SIZES.into_iter().enumerate() {
            let got = self.consumer.0.next_delivery(PATIENCE);
            let got = got.unwrap_or_else(|error| panic!("{when}: an honest consumer: {error}"));
            let delivery = got.unwrap_or_else(|| panic!("{when}: message {at} of round {} is lost", self.round));
            assert!(delivery.body() == body(self.round * 4 + at, bytes), "{when}: a message was changed");
        }
        let refused = publisher.wait_confirms(*to, 0);
        assert_eq!(refused.unwrap_or_else(|error| panic!("{when}: confirms: {error}")), 0, "{when}");
    }

    /// Enqueues a message of this size.
    pub fn enqueue(&mut self, queue: &str, bytes: usize) {
        let (publisher, to) = &mut self.publisher;
        publisher.publish(*to, &Publish::to("", queue), &body(0, bytes)).expect("published");
        publisher.wait_confirms(*to, 0).expect("confirmed");
    }

    /// Removes what was not consumed.
    pub fn clear(&mut self) {
        for queue in ["bait", "sink"] {
            self.consumer.0.purge_queue(self.consumer.1, queue).expect("purged");
        }
    }
}
