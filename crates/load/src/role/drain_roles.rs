//! The two roles of `drain`: one process fills a queue, the other empties it over several connections on one thread.

use std::time::Duration;
use wire::DeliveryTag;

use client::{Client, ClientChannel, ConsumeOptions, Properties, Publish, QueueOptions, RawProperties};
use mio::{Events, Poll, Token};
use serde::{Deserialize, Serialize};

use crate::limits::{QUEUE_COUNT_INTERVAL, SEGMENT_PARTS, SEGMENT_WAIT, SHARED_BODY_BYTES_MIN, SILENCE_WAIT};
use gauge::clock::{Deadline, now_ns, pause};
use gauge::{BodyStamp, SequenceTally, write_sequence};
use harness::command_reader::CommandReader;
use harness::role_protocol::report;
use harness::role_protocol::{RoleReport, SelfMeters};
use harness::tcp::queue_arguments;

/// The task of either role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BacklogTask {
    pub url: String,
    pub queue: String,
    /// Whether each body carries a checksum.
    pub checks: bool,
    /// `x-max-length-bytes` of the queue.
    pub queue_bytes: Option<u64>,
    /// Connections that consume from the queue.
    pub consumers: usize,
    /// Acknowledge after this many messages; zero means automatic acknowledgement.
    pub ack_every: u64,
    /// Prefetch count; zero means no limit.
    pub prefetch: u16,
    /// Persistent messages in a durable queue.
    pub durable: bool,
}

/// Commands to the filling role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FillCommand {
    /// Declares and fills the queue.
    Fill { size_bytes: usize, count: u64 },
    /// Deletes the queue and reports its remaining messages.
    Delete,
}

/// Commands to the emptying role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyCommand {
    pub size_bytes: usize,
    /// Messages published.
    pub count: u64,
    /// Messages in the queue.
    pub held: u64,
}

/// The filling role.
pub(super) fn fill(commands: &mut CommandReader) -> Result<(), String> {
    let task: BacklogTask = commands.task()?;
    let text = |error: client::ClientError| error.to_string();
    let mut client = harness::role_client::connect(&task.url, "filler").map_err(text)?;
    let channel = client.open_channel().map_err(text)?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(command) = commands.next_command::<FillCommand>()? {
        match command {
            FillCommand::Fill { size_bytes, count } => {
                let arguments = queue_arguments(task.queue_bytes);
                let queue = QueueOptions { durable: task.durable, arguments, ..QueueOptions::default() };
                client.declare_queue(channel, &task.queue, &queue).map_err(text)?;
                let meters = SelfMeters::start();
                let began_ns = now_ns();
                publish_all(&mut client, channel, &task, size_bytes, count).map_err(text)?;
                let held = await_all(&mut client, channel, &task, count)?;
                let ended_ns = now_ns();
                report(&RoleReport::Filled { began_ns, ended_ns, held, used: meters.stop() })?;
            }
            FillCommand::Delete => {
                let left = client.delete_queue(channel, &task.queue, false, false).map_err(text)?;
                report(&RoleReport::Worked { operations: left.into() })?;
            }
        }
    }
    client.close().map_err(text)
}

fn publish_all(
    client: &mut Client,
    channel: ClientChannel,
    task: &BacklogTask,
    size_bytes: usize,
    count: u64,
) -> client::Result<()> {
    let stamp = task.checks.then(|| BodyStamp::new(size_bytes));
    let write = |body: &mut [u8], sequence: u64| match &stamp {
        Some(stamp) => stamp.write(body, sequence),
        None => write_sequence(body, sequence),
    };
    let mut template = vec![b'x'; size_bytes];
    if let Some(stamp) = &stamp {
        stamp.fill(&mut template);
    }
    let properties = Properties { delivery_mode: task.durable.then_some(2), ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", &task.queue) };
    for sequence in 0..count {
        if size_bytes < SHARED_BODY_BYTES_MIN {
            write(&mut template, sequence);
            client.publish(channel, &to, &template)?;
        } else {
            let mut block = client.block(size_bytes);
            block.copy_from_slice(&template);
            write(&mut block, sequence);
            client.publish_shared(channel, &to, &block.freeze())?;
        }
    }
    client.flush()
}

/// Polls the queue's message count until all messages are in it: AMQP has no other way. A queue with a limit may hold fewer, and
/// is done when its count stops changing.
fn await_all(client: &mut Client, channel: ClientChannel, task: &BacklogTask, count: u64) -> Result<u64, String> {
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    let mut deadline = Deadline::after(SILENCE_WAIT);
    let mut last = 0;
    loop {
        let declared = client.declare_queue(channel, &task.queue, &passive).map_err(|error| error.to_string())?;
        let held = u64::from(declared.messages);
        if held >= count {
            return Ok(held);
        }
        if held != last {
            last = held;
            let patience = if task.queue_bytes.is_some() { QUEUE_COUNT_INTERVAL * 1_000 } else { SILENCE_WAIT };
            deadline = Deadline::after(patience);
        } else if deadline.passed() {
            return match task.queue_bytes {
                Some(_) => Ok(held),
                None => Err(format!("the queue holds {held} of {count} messages and its count no longer grows")),
            };
        }
        pause(QUEUE_COUNT_INTERVAL);
    }
}

struct DrainConsumer {
    client: Client,
    channel: ClientChannel,
    unacknowledged: u64,
    last_tag: DeliveryTag,
    /// The largest number received plus one: on one connection numbers only grow.
    next: u64,
}

/// Progress of emptying the queue.
struct DrainProgress {
    tally: SequenceTally,
    /// Messages out of order on their own connection.
    reordered: u64,
    marks_ns: Vec<u64>,
    /// Messages published, and messages in the queue.
    sent: u64,
    expected: u64,
}

impl DrainProgress {
    /// Marks the time at each twentieth of the messages.
    #[inline]
    fn mark(&mut self) {
        let part = self.marks_ns.len() as u64 + 1;
        if self.tally.received() * SEGMENT_PARTS as u64 >= part * self.expected {
            self.marks_ns.push(now_ns());
        }
    }

    fn rates(&self, began_ns: u64) -> Vec<f64> {
        let part = self.expected as f64 / SEGMENT_PARTS as f64;
        if self.expected < SEGMENT_PARTS as u64 || self.marks_ns.len() < SEGMENT_PARTS {
            return Vec::new();
        }
        let before = std::iter::once(&began_ns).chain(&self.marks_ns);
        before.zip(&self.marks_ns).map(|(from, to)| part * 1e9 / to.saturating_sub(*from).max(1) as f64).collect()
    }
}

/// The emptying role.
pub(super) fn empty(commands: &mut CommandReader) -> Result<(), String> {
    let task: BacklogTask = commands.task()?;
    let text = |error: client::ClientError| error.to_string();
    let mut poll = Poll::new().map_err(|error| error.to_string())?;
    let mut consumers =
        (0..task.consumers).map(|_| DrainConsumer::connect(&task)).collect::<Result<Vec<_>, _>>().map_err(text)?;
    for (index, consumer) in consumers.iter_mut().enumerate() {
        consumer.client.register(poll.registry(), Token(index)).map_err(|error| error.to_string())?;
    }
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(command) = commands.next_command::<EmptyCommand>()? {
        report(&consume_all(&mut consumers, &mut poll, &task, &command)?)?;
    }
    consumers.into_iter().try_for_each(|consumer| consumer.client.close()).map_err(text)
}

fn consume_all(
    consumers: &mut [DrainConsumer],
    poll: &mut Poll,
    task: &BacklogTask,
    command: &EmptyCommand,
) -> Result<RoleReport, String> {
    let text = |error: client::ClientError| error.to_string();
    let tally = if task.checks {
        SequenceTally::with_checksums(command.size_bytes, command.count)
    } else {
        SequenceTally::new(command.size_bytes, command.count)
    };
    let mut drained =
        DrainProgress { tally, reordered: 0, marks_ns: Vec::new(), sent: command.count, expected: command.held };
    let options = ConsumeOptions { no_ack: task.ack_every == 0, ..ConsumeOptions::default() };
    let meters = SelfMeters::start();
    let began_ns = now_ns();
    let mut tags = Vec::with_capacity(consumers.len());
    for consumer in consumers.iter_mut() {
        consumer.next = 0;
        tags.push(consumer.client.consume(consumer.channel, &task.queue, &options).map_err(text)?);
    }
    let mut ended_ns = began_ns;
    let (deadline, mut silent) = (Deadline::after(SEGMENT_WAIT), Deadline::after(SILENCE_WAIT));
    let mut events = Events::with_capacity(1_024);
    // There is no edge for messages that arrived while the consumers were started.
    let mut ready: Vec<usize> = (0..consumers.len()).collect();
    while drained.tally.received() < command.held && !deadline.passed() && !silent.passed() {
        for index in ready.drain(..) {
            let before = drained.tally.received();
            while !consumers[index].receive(task, command.size_bytes, &mut drained).map_err(text)? {}
            if drained.tally.received() > before {
                ended_ns = now_ns();
                silent = Deadline::after(SILENCE_WAIT);
            }
        }
        if drained.tally.received() < command.held {
            match poll.poll(&mut events, Some(silent.left().min(Duration::from_secs(1)))) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other.map_err(|error| error.to_string())?,
            }
            ready.extend(events.iter().map(|event| event.token().0));
        }
    }
    let used = meters.stop();
    for (consumer, tag) in consumers.iter_mut().zip(&tags) {
        consumer.finish(task, tag).map_err(text)?;
    }
    let received = drained.tally.received();
    let mut faults = drained.tally.faults();
    if task.consumers > 1 {
        // Consumers of a shared queue take turns: order is defined per connection only.
        faults.reordered = drained.reordered;
    }
    Ok(RoleReport::Emptied { began_ns, ended_ns, received, faults, rates: drained.rates(began_ns), used })
}

impl DrainConsumer {
    fn connect(task: &BacklogTask) -> client::Result<Self> {
        let mut client = harness::role_client::connect(&task.url, "drain")?;
        let channel = client.open_channel()?;
        client.qos(channel, task.prefetch, false)?;
        Ok(Self { client, channel, unacknowledged: 0, last_tag: DeliveryTag(0), next: 0 })
    }

    /// Receives what has arrived; returns whether the socket is drained.
    fn receive(&mut self, task: &BacklogTask, size_bytes: usize, drained: &mut DrainProgress) -> client::Result<bool> {
        let Self { client, channel, unacknowledged, last_tag, next } = self;
        let dispatched = client.dispatch(Duration::ZERO, |delivery, output| {
            drained.tally.arrived(delivery.body());
            drained.mark();
            if let Some(sequence) = sequence_of(delivery.body(), size_bytes).filter(|&number| number < drained.sent) {
                drained.reordered += u64::from(sequence < *next);
                *next = (*next).max(sequence + 1);
            }
            if task.ack_every > 0 {
                *last_tag = delivery.delivery_tag;
                *unacknowledged += 1;
                if *unacknowledged >= task.ack_every {
                    *unacknowledged = 0;
                    output.ack(*channel, delivery.delivery_tag, true)?;
                }
            }
            Ok(())
        })?;
        Ok(dispatched.drained)
    }

    /// Acknowledges the rest and stops consuming.
    fn finish(&mut self, task: &BacklogTask, tag: &str) -> client::Result<()> {
        if task.ack_every > 0 && self.unacknowledged > 0 {
            self.unacknowledged = 0;
            self.client.ack(self.channel, self.last_tag, true)?;
        }
        self.client.cancel(self.channel, tag)
    }
}

/// The sequence number of a body, if the body is complete.
fn sequence_of(body: &[u8], size_bytes: usize) -> Option<u64> {
    let bytes = body.first_chunk::<8>().filter(|_| body.len() == size_bytes)?;
    Some(u64::from_le_bytes(*bytes))
}
