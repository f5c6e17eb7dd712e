//! The consumers of a benchmark: one or more connections on one thread, each with a queue of its own.
//!
//! Enters: segments.  Leaves: how many messages came, and what was lost, doubled or out of order.
//! Owns:   the connections, and one tally for each in a segment.
//! Never:  copies a body it only counts.

use std::time::Duration;

use client::{Channel, Client, ConsumeOptions, Delivery, ExchangeOptions, Outlet, Publish, QueueOptions, Table};
use mio::{Events, Poll, Token};

use super::task::ConsumerTask;
use super::{Orders, report};
use crate::limits::SEGMENT_WAIT;
use crate::plan::{Report, Segment, Shape};
use gauge::clock::Deadline;
use gauge::{Faults, Tally};

struct Consumer {
    client: Client,
    channel: Channel,
    unacknowledged: u64,
}

pub(super) fn run(orders: &mut Orders) -> Result<(), String> {
    let task: ConsumerTask = orders.task()?;
    let mut consumers = connect_all(&task).map_err(|error| error.to_string())?;
    let mut poll = Poll::new().map_err(|error| error.to_string())?;
    if consumers.len() > 1 {
        for (index, consumer) in consumers.iter_mut().enumerate() {
            consumer.client.register(poll.registry(), Token(index)).map_err(|error| error.to_string())?;
        }
    }
    report(&Report::Ready { port: 0 })?;
    while let Some(segment) = orders.next::<Segment>()? {
        report(&Report::Armed)?;
        report(&collect(&mut consumers, &mut poll, &task, &segment)?)?;
    }
    consumers.into_iter().try_for_each(|consumer| consumer.client.close()).map_err(|error| error.to_string())
}

fn connect_all(task: &ConsumerTask) -> client::Result<Vec<Consumer>> {
    let mut consumers = Vec::with_capacity(task.consumers);
    for index in 0..task.consumers {
        let mut client = super::connect(&task.url, "consumer")?;
        let channel = client.open_channel()?;
        let auto_delete = ExchangeOptions { auto_delete: true, ..ExchangeOptions::default() };
        client.declare_exchange(channel, &task.reply_exchange, "direct", &auto_delete)?;
        client.declare_exchange(channel, &task.exchange, &task.exchange_type, &auto_delete)?;
        let exclusive = QueueOptions { exclusive: true, ..QueueOptions::default() };
        let queue = client.declare_queue(channel, &format!("{}.{index}", task.queue_prefix), &exclusive)?.name;
        client.bind_queue(channel, &queue, &task.exchange, &task.binding_key, &Table::new())?;
        if index == 0 && task.decoys > 0 {
            bind_decoys(&mut client, channel, task)?;
        }
        client.qos(channel, task.prefetch, false)?;
        client.consume(
            channel,
            &queue,
            &ConsumeOptions { no_ack: task.ack_every == 0, ..ConsumeOptions::default() },
        )?;
        consumers.push(Consumer { client, channel, unacknowledged: 0 });
    }
    Ok(consumers)
}

/// Patterns that share their beginning with the one that matches, and end otherwise.
fn bind_decoys(client: &mut Client, channel: Channel, task: &ConsumerTask) -> client::Result<()> {
    let exclusive = QueueOptions { exclusive: true, ..QueueOptions::default() };
    let queue = client.declare_queue(channel, &format!("{}.decoys", task.queue_prefix), &exclusive)?.name;
    for index in 0..task.decoys {
        client.bind_queue_unanswered(channel, &queue, &task.exchange, &format!("stock.*.d{index}"), &Table::new())?;
    }
    // The answer to this one tells that all are in place.
    client.declare_queue(channel, &queue, &QueueOptions { passive: true, ..QueueOptions::default() }).map(drop)
}

fn collect(
    consumers: &mut [Consumer],
    poll: &mut Poll,
    task: &ConsumerTask,
    segment: &Segment,
) -> Result<Report, String> {
    let deadline = Deadline::after(SEGMENT_WAIT);
    let mut tallies: Vec<Tally> = consumers.iter().map(|_| Tally::new(segment.size_bytes, segment.count)).collect();
    match (consumers, tallies.as_mut_slice()) {
        ([consumer], [tally]) => {
            while !tally.complete() && !deadline.passed() {
                consumer.take(task, segment, tally, deadline.left().min(Duration::from_secs(1)))?;
            }
        }
        (consumers, tallies) => collect_polled(consumers, tallies, poll, task, segment, deadline)?,
    }
    let mut faults = Faults::default();
    tallies.iter().for_each(|tally| faults.add(tally.faults()));
    Ok(Report::Consumed { received: tallies.iter().map(Tally::received).sum(), faults })
}

fn collect_polled(
    consumers: &mut [Consumer],
    tallies: &mut [Tally],
    poll: &mut Poll,
    task: &ConsumerTask,
    segment: &Segment,
    deadline: Deadline,
) -> Result<(), String> {
    let mut events = Events::with_capacity(1_024);
    while tallies.iter().any(|tally| !tally.complete()) && !deadline.passed() {
        match poll.poll(&mut events, Some(deadline.left().min(Duration::from_secs(1)))) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other.map_err(|error| error.to_string())?,
        }
        for event in &events {
            let index = event.token().0;
            while !consumers[index].take(task, segment, &mut tallies[index], Duration::ZERO)? {}
        }
    }
    Ok(())
}

impl Consumer {
    /// Takes what has come, answers and acknowledges it; says whether the link is drained.
    fn take(
        &mut self,
        task: &ConsumerTask,
        segment: &Segment,
        tally: &mut Tally,
        wait: Duration,
    ) -> Result<bool, String> {
        let (channel, unacknowledged) = (self.channel, &mut self.unacknowledged);
        let before = tally.complete();
        let dispatched = self.client.dispatch(wait, |delivery, outlet| {
            tally.arrived(delivery.body());
            if task.ack_every > 0 {
                *unacknowledged += 1;
                if *unacknowledged >= task.ack_every {
                    *unacknowledged = 0;
                    outlet.ack(channel, delivery.delivery_tag, true)?;
                }
            }
            match segment.shape {
                Shape::PingPong => answer(channel, task, delivery, outlet),
                Shape::Stream => Ok(()),
            }
        });
        let drained = dispatched.map_err(|error| error.to_string())?.drained;
        if segment.shape == Shape::Stream && tally.complete() && !before {
            let to = Publish::to(&task.reply_exchange, &task.reply_key);
            self.client
                .publish(channel, &to, &[])
                .and_then(|_| self.client.flush())
                .map_err(|error| error.to_string())?;
        }
        Ok(drained)
    }
}

/// Sends a message of the same size back: its own body, without a copy where it is large.
fn answer(
    channel: Channel,
    task: &ConsumerTask,
    delivery: &Delivery<'_>,
    outlet: &mut Outlet<'_>,
) -> client::Result<()> {
    let to = Publish::to(&task.reply_exchange, &task.reply_key);
    match delivery.shared_body() {
        Some(body) => outlet.publish_shared(channel, &to, body).map(drop),
        None => outlet.publish(channel, &to, delivery.body()).map(drop),
    }
}
