//! The consumer role of closed-loop benchmarks: one or more connections on one thread, each with its own queue.
//!
//! Reports the deliveries of each segment, their rate, and messages lost, duplicated, reordered or damaged.

use std::time::Duration;

use client::{
    Client, ClientChannel, ClientOutput, ConsumeOptions, Delivery, ExchangeOptions, Publish, QueueOptions, Table,
};
use mio::{Events, Poll, Token};

use super::null_broker::{BEGIN_EXCHANGE, begin_key};
use crate::limits::{SEGMENT_PARTS, SEGMENT_WAIT, SILENCE_WAIT};
use gauge::clock::{Deadline, now_ns, pause};
use gauge::{DeliveryFaults, SequenceTally};
use harness::command_reader::CommandReader;
use harness::role_protocol::report;
use harness::role_protocol::{LoadSegment, RoleReport, SelfMeters, TrafficShape};
use harness::role_tasks::ConsumerTask;
use harness::tcp::queue_arguments;

/// How long a consumer lets messages accumulate after a small read (`may_wait`).
const REST: Duration = Duration::from_micros(400);
/// Reads of at least this many messages or bytes are not small.
const REST_BELOW_MESSAGES: u64 = 256;
const REST_BELOW_BYTES: u64 = 64 << 10;
/// Shorter segments and the end of each are too short for such waits, which would distort their time.
const REST_MESSAGES_MIN: u64 = 20_000;
const REST_LEFT_MIN: u64 = 4_096;

/// The consumer's tag on its channel.
pub(super) const TAG: &str = "c";

pub(super) struct BenchmarkConsumer {
    pub(super) client: Client,
    pub(super) channel: ClientChannel,
    unacknowledged: u64,
}

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let task: ConsumerTask = commands.task()?;
    let mut consumers = connect_all(&task).map_err(|error| error.to_string())?;
    let mut poll = poll_of(&mut consumers)?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(segment) = commands.next_while::<LoadSegment>(|| keep_alive(&mut consumers))? {
        report(&consume_segment(&mut consumers, &mut poll, &task, &segment)?)?;
    }
    consumers.into_iter().try_for_each(|consumer| consumer.client.close()).map_err(|error| error.to_string())
}

/// Several consumers share a poll; a single one blocks on its socket.
pub(super) fn poll_of(consumers: &mut [BenchmarkConsumer]) -> Result<Poll, String> {
    let poll = Poll::new().map_err(|error| error.to_string())?;
    if consumers.len() > 1 {
        for (index, consumer) in consumers.iter_mut().enumerate() {
            consumer.client.register(poll.registry(), Token(index)).map_err(|error| error.to_string())?;
        }
    }
    Ok(poll)
}

/// Consumes one segment: reports that it is armed, receives the messages and returns the results.
pub(super) fn consume_segment(
    consumers: &mut [BenchmarkConsumer],
    poll: &mut Poll,
    task: &ConsumerTask,
    segment: &LoadSegment,
) -> Result<RoleReport, String> {
    let mut arrivals: Vec<SegmentArrivals> = consumers.iter().map(|_| SegmentArrivals::new(task, segment)).collect();
    let meters = SelfMeters::start();
    report(&RoleReport::Armed)?;
    collect(consumers, &mut arrivals, poll, task, segment)?;
    let used = meters.stop();
    let mut faults = DeliveryFaults::default();
    let mut rates = vec![0.0; SEGMENT_PARTS];
    for one in &arrivals {
        faults.add(one.tally.faults());
        rates.iter_mut().zip(one.rates()).for_each(|(sum, rate)| *sum += rate);
    }
    if segment.count < SEGMENT_PARTS as u64 {
        rates.clear();
    }
    let received = arrivals.iter().map(|one| one.tally.received()).sum();
    let ended_ns = arrivals.iter().filter_map(|one| one.marks_ns.last()).copied().max().unwrap_or(0);
    Ok(RoleReport::Consumed { received, faults, rates, ended_ns, used })
}

pub(super) fn keep_alive(consumers: &mut [BenchmarkConsumer]) -> Result<(), String> {
    consumers.iter_mut().try_for_each(|consumer| consumer.client.keep_alive()).map_err(|error| error.to_string())
}

pub(super) fn connect_all(task: &ConsumerTask) -> client::Result<Vec<BenchmarkConsumer>> {
    let mut consumers = Vec::with_capacity(task.consumers);
    for index in 0..task.consumers {
        let mut client = harness::role_client::connect(&task.url, "consumer")?;
        let channel = client.open_channel()?;
        if !task.on_leaf {
            let auto_delete = ExchangeOptions { auto_delete: true, ..ExchangeOptions::default() };
            client.declare_exchange(channel, &task.reply_exchange, "direct", &auto_delete)?;
            client.declare_exchange(channel, &task.exchange, &task.exchange_type, &auto_delete)?;
        }
        let queue = declare_queue(&mut client, channel, task, index)?;
        if index == 0 && !task.decoys.is_empty() {
            bind_decoys(&mut client, channel, task)?;
        }
        client.qos(channel, task.prefetch, false)?;
        client.consume(
            channel,
            &queue,
            &ConsumeOptions {
                // A short tag, since it is part of every delivery.
                consumer_tag: TAG.to_owned(),
                no_ack: task.ack_every == 0,
                ..ConsumeOptions::default()
            },
        )?;
        consumers.push(BenchmarkConsumer { client, channel, unacknowledged: 0 });
    }
    Ok(consumers)
}

/// Declares and binds a consumer's queue; for dead letters, also the queue that they come from.
fn declare_queue(
    client: &mut Client,
    channel: ClientChannel,
    task: &ConsumerTask,
    index: usize,
) -> client::Result<String> {
    let name = format!("{}.{index}", task.queue_prefix);
    let dead_letters = format!("{}.d", task.exchange);
    let own = queue_arguments(task.queue_bytes);
    let (durable, exclusive) = (task.durable, !task.durable);
    let options =
        |arguments| QueueOptions { durable, exclusive, auto_delete: durable, arguments, ..QueueOptions::default() };
    let bind = |client: &mut Client, queue: &str, exchange: &str| {
        let mut keys = task.binding_keys.iter();
        keys.try_for_each(|key| client.bind_queue_unanswered(channel, queue, exchange, key, &Table::new()))
    };
    let arguments = task.feature.arguments(own.clone(), &dead_letters)?;
    if !task.feature.dead_letters() {
        let queue = client.declare_queue(channel, &name, &options(arguments))?.name;
        bind(client, &queue, &task.exchange)?;
        return Ok(queue);
    }
    let auto_delete = ExchangeOptions { auto_delete: true, ..ExchangeOptions::default() };
    client.declare_exchange(channel, &dead_letters, "direct", &auto_delete)?;
    let queue = client.declare_queue(channel, &name, &options(own))?.name;
    bind(client, &queue, &dead_letters)?;
    let first = client.declare_queue(channel, &format!("{name}.first"), &options(arguments))?.name;
    bind(client, &first, &task.exchange)?;
    Ok(queue)
}

/// Binds patterns to a queue that no message reaches.
fn bind_decoys(client: &mut Client, channel: ClientChannel, task: &ConsumerTask) -> client::Result<()> {
    let exclusive = QueueOptions { exclusive: true, ..QueueOptions::default() };
    let queue = client.declare_queue(channel, &format!("{}.decoys", task.queue_prefix), &exclusive)?.name;
    for pattern in &task.decoys {
        client.bind_queue_unanswered(channel, &queue, &task.exchange, pattern, &Table::new())?;
    }
    // The last call is synchronous: its reply proves that all bindings exist.
    client.declare_queue(channel, &queue, &QueueOptions { passive: true, ..QueueOptions::default() }).map(drop)
}

/// What one consumer received of a segment.
struct SegmentArrivals {
    tally: SequenceTally,
    /// The message count of the next time mark, and the messages between marks.
    next_mark: u64,
    part: u64,
    count: u64,
    began_ns: u64,
    marks_ns: Vec<u64>,
}

impl SegmentArrivals {
    fn new(task: &ConsumerTask, segment: &LoadSegment) -> Self {
        let (size_bytes, count) = (segment.size_bytes, segment.count);
        let part = (count / SEGMENT_PARTS as u64).max(1);
        Self {
            tally: if task.checks {
                SequenceTally::with_checksums(size_bytes, count)
            } else {
                SequenceTally::new(size_bytes, count)
            },
            next_mark: part,
            part,
            count,
            began_ns: now_ns(),
            marks_ns: Vec::with_capacity(SEGMENT_PARTS + 2),
        }
    }

    #[inline]
    fn arrived(&mut self, body: &[u8]) {
        self.tally.arrived(body);
        if self.tally.received() >= self.next_mark {
            // The last message always gets a mark.
            let is_last = self.next_mark >= self.count;
            self.next_mark = if is_last { u64::MAX } else { (self.next_mark + self.part).min(self.count) };
            self.marks_ns.push(now_ns());
        }
    }

    /// Messages per second in each part.
    fn rates(&self) -> impl Iterator<Item = f64> {
        let begins = std::iter::once(&self.began_ns).chain(&self.marks_ns);
        let spans = begins.zip(&self.marks_ns).map(|(begin, end)| end.saturating_sub(*begin).max(1));
        spans.take(SEGMENT_PARTS).map(|span_ns| self.part as f64 * 1e9 / span_ns as f64)
    }
}

/// Receives messages until all have arrived or none arrives any more; replies to the publisher in both cases.
fn collect(
    consumers: &mut [BenchmarkConsumer],
    arrivals: &mut [SegmentArrivals],
    poll: &mut Poll,
    task: &ConsumerTask,
    segment: &LoadSegment,
) -> Result<(), String> {
    if task.from_source {
        for consumer in consumers.iter_mut() {
            consumer.request_messages(segment).map_err(|error| error.to_string())?;
        }
    }
    match (&mut *consumers, &mut *arrivals) {
        ([consumer], [arrivals]) => {
            let (deadline, mut silence) = (Deadline::after(SEGMENT_WAIT), Deadline::after(SILENCE_WAIT));
            while !arrivals.tally.complete() && !deadline.passed() && !silence.passed() {
                let before = arrivals.tally.received();
                let drained = consumer.receive(task, segment, arrivals, Duration::from_secs(1))?;
                let received = arrivals.tally.received() - before;
                if received > 0 {
                    silence = Deadline::after(SILENCE_WAIT);
                }
                if drained && may_wait(task, segment, arrivals, received) {
                    pause(REST);
                }
            }
        }
        (consumers, arrivals) => collect_polled(consumers, arrivals, poll, task, segment)?,
    }
    for (consumer, arrivals) in consumers.iter_mut().zip(arrivals) {
        if segment.shape == TrafficShape::Stream && !task.on_leaf && !arrivals.tally.complete() {
            consumer.reply(task).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Whether a consumer that has drained its socket with only a few messages may let more accumulate. A broker that sends a few
/// at a time would otherwise wake it for each handful, at a hundred times the cost of reading them, on processors that the
/// broker may need. It waits only if no acknowledgement is due and the end is not near.
fn may_wait(task: &ConsumerTask, segment: &LoadSegment, arrivals: &SegmentArrivals, received: u64) -> bool {
    let left = segment.count.saturating_sub(arrivals.tally.received());
    segment.shape == TrafficShape::Stream
        && task.ack_every == 0
        && !task.window.is_limited()
        && segment.count >= REST_MESSAGES_MIN
        && left >= REST_LEFT_MIN
        && received * (segment.size_bytes as u64) < REST_BELOW_BYTES
        && received < REST_BELOW_MESSAGES
}

fn collect_polled(
    consumers: &mut [BenchmarkConsumer],
    arrivals: &mut [SegmentArrivals],
    poll: &mut Poll,
    task: &ConsumerTask,
    segment: &LoadSegment,
) -> Result<(), String> {
    let mut events = Events::with_capacity(1_024);
    let (deadline, mut silence) = (Deadline::after(SEGMENT_WAIT), Deadline::after(SILENCE_WAIT));
    let mut incomplete = consumers.len();
    while incomplete > 0 && !deadline.passed() && !silence.passed() {
        match poll.poll(&mut events, Some(Duration::from_secs(1))) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other.map_err(|error| error.to_string())?,
        }
        let mut received = false;
        for event in &events {
            let index = event.token().0;
            let (before, was_complete) = (arrivals[index].tally.received(), arrivals[index].tally.complete());
            while !consumers[index].receive(task, segment, &mut arrivals[index], Duration::ZERO)? {}
            received |= arrivals[index].tally.received() > before;
            incomplete -= usize::from(arrivals[index].tally.complete() && !was_complete);
        }
        if received {
            silence = Deadline::after(SILENCE_WAIT);
        }
    }
    Ok(())
}

impl BenchmarkConsumer {
    /// Receives, answers and acknowledges what has arrived; returns whether the socket is drained.
    fn receive(
        &mut self,
        task: &ConsumerTask,
        segment: &LoadSegment,
        arrivals: &mut SegmentArrivals,
        wait: Duration,
    ) -> Result<bool, String> {
        let (channel, unacknowledged) = (self.channel, &mut self.unacknowledged);
        let before = arrivals.tally.complete();
        let dispatched = self.client.dispatch(wait, |delivery, output| {
            arrivals.arrived(delivery.body());
            if task.ack_every > 0 {
                *unacknowledged += 1;
                if *unacknowledged >= task.ack_every {
                    *unacknowledged = 0;
                    output.ack(channel, delivery.delivery_tag, true)?;
                }
            }
            match segment.shape {
                TrafficShape::PingPong => answer(channel, task, delivery, output),
                TrafficShape::Stream if task.window.grants_at(arrivals.tally.received(), segment.count) => {
                    let to = Publish::to(&task.reply_exchange, &task.reply_key);
                    output.publish(channel, &to, &[]).map(drop)
                }
                TrafficShape::Stream => Ok(()),
            }
        });
        let drained = dispatched.map_err(|error| error.to_string())?.drained;
        if segment.shape == TrafficShape::Stream && !task.on_leaf && arrivals.tally.complete() && !before {
            self.reply(task).map_err(|error| error.to_string())?;
        }
        Ok(drained)
    }

    /// Tells the publisher that this consumer is done.
    fn reply(&mut self, task: &ConsumerTask) -> client::Result<()> {
        self.client.publish(self.channel, &Publish::to(&task.reply_exchange, &task.reply_key), &[])?;
        self.client.flush()
    }

    /// Requests the messages of a segment from a source.
    fn request_messages(&mut self, segment: &LoadSegment) -> client::Result<()> {
        self.client.publish(self.channel, &Publish::to(BEGIN_EXCHANGE, &begin_key(segment)), &[])?;
        self.client.flush()
    }
}

/// Answers with a message of the same size: the received body, without a copy if it is large.
fn answer(
    channel: ClientChannel,
    task: &ConsumerTask,
    delivery: &Delivery<'_>,
    output: &mut ClientOutput<'_>,
) -> client::Result<()> {
    let to = Publish::to(&task.reply_exchange, &task.reply_key);
    match delivery.shared_body() {
        Some(body) => output.publish_shared(channel, &to, body).map(drop),
        None => output.publish(channel, &to, delivery.body()).map(drop),
    }
}
