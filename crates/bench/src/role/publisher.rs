//! The publisher of a benchmark: sends each segment's messages and waits for the consumers' replies.
//!
//! Enters: segments.  Leaves: when each began and ended, and every round trip.
//! Owns:   one connection, one queue for replies.
//! Never:  measures before it is told to, or sends a message without its sequence number.

use std::time::Duration;

use client::{Channel, Client, ConsumeOptions, ExchangeOptions, Publish, QueueOptions, Table};

use super::task::PublisherTask;
use super::{Orders, report};
use crate::limits::{SEGMENT_WAIT, SHARED_BODY_BYTES_MIN};
use crate::plan::{Report, Segment, Shape};
use gauge::Latencies;
use gauge::clock::{Deadline, now_ns};
use gauge::write_sequence;

struct Publisher {
    client: Client,
    channel: Channel,
    task: PublisherTask,
    body: Vec<u8>,
    next_key: usize,
}

pub(super) fn run(orders: &mut Orders) -> Result<(), String> {
    let mut publisher = Publisher::connect(orders.task()?).map_err(|error| error.to_string())?;
    report(&Report::Ready { port: 0 })?;
    while let Some(segment) = orders.next::<Segment>()? {
        let figures = match segment.shape {
            Shape::Stream => publisher.stream(&segment),
            Shape::PingPong => publisher.ping_pong(&segment),
        };
        report(&figures?)?;
    }
    publisher.client.close().map_err(|error| error.to_string())
}

impl Publisher {
    fn connect(task: PublisherTask) -> client::Result<Self> {
        let mut client = super::connect(&task.url, "publisher")?;
        let channel = client.open_channel()?;
        client.declare_exchange(
            channel,
            &task.reply_exchange,
            "direct",
            &ExchangeOptions { auto_delete: true, ..ExchangeOptions::default() },
        )?;
        client.declare_queue(channel, &task.reply_key, &QueueOptions { exclusive: true, ..QueueOptions::default() })?;
        client.bind_queue(channel, &task.reply_key, &task.reply_exchange, &task.reply_key, &Table::new())?;
        client.consume(channel, &task.reply_key, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
        if task.confirm_window > 0 {
            client.confirm_select(channel)?;
        }
        Ok(Self { client, channel, task, body: Vec::new(), next_key: 0 })
    }

    /// Writes one message; it leaves with the next flush.
    #[inline]
    fn publish(&mut self, size_bytes: usize, sequence: u64) -> client::Result<()> {
        let key = &self.task.keys[self.next_key];
        self.next_key = if self.next_key + 1 == self.task.keys.len() { 0 } else { self.next_key + 1 };
        let to = Publish::to(&self.task.exchange, key);
        if size_bytes < SHARED_BODY_BYTES_MIN {
            write_sequence(&mut self.body, sequence);
            self.client.publish(self.channel, &to, &self.body)?;
        } else {
            let mut block = self.client.block(size_bytes);
            write_sequence(&mut block, sequence);
            self.client.publish_shared(self.channel, &to, &block.freeze())?;
        }
        Ok(())
    }

    fn prepare(&mut self, size_bytes: usize) {
        self.body.clear();
        self.body.resize(if size_bytes < SHARED_BODY_BYTES_MIN { size_bytes } else { 0 }, b'x');
        self.next_key = 0;
    }

    fn stream(&mut self, segment: &Segment) -> Result<Report, String> {
        self.prepare(segment.size_bytes);
        let deadline = Deadline::after(SEGMENT_WAIT);
        let returned_before = self.client.returned_count();
        let began_ns = now_ns();
        let refused = self.send_all(segment).map_err(|error| error.to_string())?;
        for _ in 0..self.task.consumers {
            self.reply(0, deadline)?;
        }
        let ended_ns = now_ns();
        let refused = refused + self.client.returned_count() - returned_before;
        Ok(Report::Published { began_ns, ended_ns, latencies: Latencies::default().buckets(), refused })
    }

    /// All messages of a stream; with confirms, never more than the window without one.
    fn send_all(&mut self, segment: &Segment) -> client::Result<u64> {
        let window = self.task.confirm_window;
        if window == 0 {
            for sequence in 0..segment.count {
                self.publish(segment.size_bytes, sequence)?;
            }
            self.client.flush()?;
            return Ok(0);
        }
        let refused_before = self.client.wait_confirms(self.channel, 0)?;
        for sequence in 0..segment.count {
            if self.client.outstanding(self.channel) >= window {
                // Half a window at a time: the broker's confirms come in batches too.
                self.client.wait_confirms(self.channel, window / 2)?;
            }
            self.publish(segment.size_bytes, sequence)?;
        }
        Ok(self.client.wait_confirms(self.channel, 0)? - refused_before)
    }

    fn ping_pong(&mut self, segment: &Segment) -> Result<Report, String> {
        self.prepare(segment.size_bytes);
        let deadline = Deadline::after(SEGMENT_WAIT);
        let mut latencies = Latencies::default();
        let began_ns = now_ns();
        for sequence in 0..segment.count {
            let sent_ns = now_ns();
            self.publish(segment.size_bytes, sequence)
                .and_then(|()| self.client.flush())
                .map_err(|error| error.to_string())?;
            self.reply(segment.size_bytes, deadline)?;
            latencies.record(now_ns() - sent_ns);
        }
        Ok(Report::Published { began_ns, ended_ns: now_ns(), latencies: latencies.buckets(), refused: 0 })
    }

    /// Waits for one reply of the given size.
    #[inline]
    fn reply(&mut self, size_bytes: usize, deadline: Deadline) -> Result<(), String> {
        let wait = deadline.left().max(Duration::from_millis(1));
        match self.client.next_delivery(wait) {
            Ok(Some(delivery)) if delivery.body().len() == size_bytes => Ok(()),
            Ok(Some(delivery)) => Err(format!("a reply of {} bytes instead of {size_bytes}", delivery.body().len())),
            Ok(None) => Err(format!("no reply of a consumer within {} s", SEGMENT_WAIT.as_secs())),
            Err(error) => Err(error.to_string()),
        }
    }
}
