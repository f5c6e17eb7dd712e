//! One consumer of a workload: it receives, works on, answers, acknowledges and requeues messages one at a time, and crashes.

use std::time::Duration;
use wire::DeliveryTag;

use client::{Client, ClientChannel, ConnectOptions, ConsumeOptions, Delivery, Publish, QueueOptions, Table, Url};
use gauge::clock::now_ns;
use mio::{Registry, Token};

use super::ConsumerContext;
use crate::workload::delivery_ledger::{ArrivalKind, StreamPositions};
use crate::workload::message_stamp::{STAMP_BYTES, WorkloadStamp, holds, pattern, seal};
use crate::workload::process_messages::{SLICES, WorkloadContext};
use crate::workload::random::{self, RngPurpose, WorkloadRng, rng};
use crate::workload::spec::{AckMode, QueueSource, ThinkTime};
use crate::workload::topology::WorkloadTopology;
use harness::tcp::queue_arguments;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryOutcome {
    Done,
    Requeue,
    Crash,
}

/// The message that a consumer works on.
struct MessageInWork {
    tag: DeliveryTag,
    stamp: WorkloadStamp,
    outcome: DeliveryOutcome,
    /// The routing key of the answer, or empty.
    reply_to: Vec<u8>,
}

pub(super) struct WorkloadConsumer {
    client: Client,
    channel: ClientChannel,
    group: usize,
    queue: usize,
    queue_name: String,
    prefetch: u16,
    ack: AckMode,
    think: Option<ThinkTime>,
    rng: WorkloadRng,
    positions: StreamPositions,
    /// Unacknowledged deliveries: tag, stream, sequence.
    unacknowledged: Vec<(DeliveryTag, u32, u32)>,
    in_work: Option<MessageInWork>,
    /// Whether the socket may have more data.
    ready: bool,
    answer: Option<AnswerTemplate>,
}

/// The template of a consumer's answers.
struct AnswerTemplate {
    exchange: String,
    body: Vec<u8>,
    check: bool,
}

impl WorkloadConsumer {
    pub(super) fn connect(
        common: &WorkloadContext,
        topology: &WorkloadTopology,
        (group, number): (usize, usize),
        registry: &Registry,
        token: Token,
    ) -> client::Result<Self> {
        let spec = &common.spec;
        let consumers = &spec.consumers[group];
        let queue = topology.queue_of(spec, group, number);
        let queue_name = common.queue(&topology.queues[queue].name);
        let name = format!("harrier bench {}.{number}", consumers.name);
        let options = ConnectOptions { name: Some(name), flush_bytes: usize::MAX, ..ConnectOptions::default() };
        let mut client = Client::connect_with(&Url::parse(&common.url)?, options)?;
        let channel = client.open_channel()?;
        if matches!(consumers.from, QueueSource::Own { .. }) {
            let arguments = queue_arguments(common.queue_bytes);
            let durable = spec.durable;
            let own = QueueOptions { durable, exclusive: !durable, arguments, ..QueueOptions::default() };
            client.declare_queue(channel, &queue_name, &own)?;
            bind(&mut client, channel, common, topology, queue)?;
        }
        let mut consumer = Self {
            client,
            channel,
            group,
            queue,
            queue_name,
            prefetch: consumers.prefetch,
            ack: consumers.ack,
            think: consumers.think,
            rng: rng(spec.seed, RngPurpose::Thinking, group << 20 | number),
            positions: StreamPositions::new(spec.streams()),
            unacknowledged: Vec::new(),
            in_work: None,
            ready: true,
            answer: consumers.answer.map(|answer| AnswerTemplate {
                exchange: common.exchange(answer.exchange),
                body: pattern(answer.size_bytes.max(STAMP_BYTES)),
                check: common.check,
            }),
        };
        consumer.begin()?;
        consumer.client.register(registry, token)?;
        Ok(consumer)
    }

    fn begin(&mut self) -> client::Result<()> {
        if self.prefetch > 0 {
            self.client.qos(self.channel, self.prefetch, false)?;
        }
        let options = ConsumeOptions { no_ack: self.ack == AckMode::None, ..ConsumeOptions::default() };
        self.client.consume(self.channel, &self.queue_name, &options).map(drop)
    }

    pub(super) fn queue(&self) -> usize {
        self.queue
    }

    /// The socket is readable or a think time is over: consumes what is available. Returns when the consumer will be free if it
    /// has become busy.
    pub(super) fn process(&mut self, context: &mut ConsumerContext) -> client::Result<Option<u64>> {
        self.ready = true;
        match self.think {
            Some(think) if !context.sweeping => self.process_with_think_time(context, think),
            _ => {
                self.finish(context)?;
                self.process_at_once(context).map(|()| None)
            }
        }
    }

    fn process_at_once(&mut self, context: &mut ConsumerContext) -> client::Result<()> {
        loop {
            let (channel, group, queue, ack) = (self.channel, self.group, self.queue, self.ack);
            let (positions, unacknowledged, answer) = (&mut self.positions, &mut self.unacknowledged, &mut self.answer);
            let mut crash = false;
            let dispatched = self.client.dispatch_now(|delivery, output| {
                // After a crash nothing more is consumed: messages of the closed channel are delivered again.
                if crash || delivery.channel != channel {
                    return Ok(());
                }
                let Some(stamp) = arrived(context, (group, queue), positions, delivery) else { return Ok(()) };
                let outcome = outcome(context, group, delivery, &stamp);
                if outcome == DeliveryOutcome::Crash {
                    crash = true;
                    return Ok(());
                }
                if outcome == DeliveryOutcome::Requeue {
                    return output.reject(channel, delivery.delivery_tag, true);
                }
                if let Some(answer) = answer.as_mut() {
                    let key = delivery.properties.reply_to().unwrap_or_default().as_bytes();
                    answer.write(&stamp, key, |to, body| output.publish(channel, to, body).map(drop))?;
                }
                match ack {
                    AckMode::None => done(context, (group, queue), &stamp),
                    AckMode::Every(count) => {
                        unacknowledged.push((delivery.delivery_tag, stamp.stream, stamp.sequence));
                        if unacknowledged.len() as u64 >= count {
                            output.ack(channel, delivery.delivery_tag, true)?;
                            acknowledge(context, (group, queue), unacknowledged);
                        }
                    }
                }
                Ok(())
            })?;
            if crash {
                self.crash(context)?;
                continue;
            }
            if dispatched.drained {
                if context.closing {
                    self.acknowledge_pending(context)?;
                }
                return Ok(());
            }
        }
    }

    /// One message at a time: the next one is read when the last one is finished.
    fn process_with_think_time(
        &mut self,
        context: &mut ConsumerContext,
        think: ThinkTime,
    ) -> client::Result<Option<u64>> {
        // The socket may accept now what it did not before.
        self.client.flush_now()?;
        while self.in_work.is_none() && self.ready {
            let (channel, group, queue) = (self.channel, self.group, self.queue);
            let Some(delivery) = self.client.next_delivery(Duration::ZERO)? else {
                self.ready = false;
                break;
            };
            if delivery.channel != channel {
                continue;
            }
            if let Some(stamp) = arrived(context, (group, queue), &mut self.positions, &delivery) {
                let outcome = outcome(context, group, &delivery, &stamp);
                let reply_to = delivery.properties.reply_to().unwrap_or_default().as_bytes().to_vec();
                self.in_work = Some(MessageInWork { tag: delivery.delivery_tag, stamp, outcome, reply_to });
                return Ok(Some(now_ns() + random::think_ns(&think, &mut self.rng)));
            }
        }
        if context.closing && self.in_work.is_none() {
            self.acknowledge_pending(context)?;
        }
        Ok(None)
    }

    /// Finishes the current message.
    pub(super) fn finish(&mut self, context: &mut ConsumerContext) -> client::Result<()> {
        let Some(work) = self.in_work.take() else { return Ok(()) };
        let ids = (self.group, self.queue);
        match work.outcome {
            DeliveryOutcome::Crash => return self.crash(context),
            DeliveryOutcome::Requeue => self.client.reject(self.channel, work.tag, true)?,
            DeliveryOutcome::Done => {
                if let Some(answer) = &mut self.answer {
                    let (client, channel) = (&mut self.client, self.channel);
                    answer
                        .write(&work.stamp, &work.reply_to, |to, body| client.publish(channel, to, body).map(drop))?;
                }
                record_done(context, self.group, &work.stamp);
                match self.ack {
                    AckMode::None => done(context, ids, &work.stamp),
                    AckMode::Every(count) => {
                        self.unacknowledged.push((work.tag, work.stamp.stream, work.stamp.sequence));
                        if self.unacknowledged.len() as u64 >= count {
                            self.acknowledge_pending(context)?;
                        }
                    }
                }
            }
        }
        self.client.flush_now().map(drop)
    }

    fn acknowledge_pending(&mut self, context: &mut ConsumerContext) -> client::Result<()> {
        if let Some(&(tag, ..)) = self.unacknowledged.last() {
            self.client.ack(self.channel, tag, true)?;
            acknowledge(context, (self.group, self.queue), &mut self.unacknowledged);
            self.client.flush_now()?;
        }
        Ok(())
    }

    /// Closes the channel with everything unacknowledged, and starts again.
    fn crash(&mut self, context: &mut ConsumerContext) -> client::Result<()> {
        if let Some(results) = context.groups.get_mut(&self.group) {
            results.crashes += 1;
        }
        self.unacknowledged.clear();
        self.client.close_channel(self.channel)?;
        self.channel = self.client.open_channel()?;
        self.begin()
    }

    /// Sends heartbeats for idle consumers; a busy one does so when it reads next.
    pub(super) fn keep_alive(&mut self, context: &ConsumerContext) -> client::Result<()> {
        if self.think.is_some() && !context.sweeping { self.client.keep_alive() } else { Ok(()) }
    }

    pub(super) fn close(self) -> client::Result<()> {
        self.client.close()
    }
}

/// Binds an exclusive queue. The last call is synchronous: its reply proves that all bindings exist.
fn bind(
    client: &mut Client,
    channel: ClientChannel,
    common: &WorkloadContext,
    topology: &WorkloadTopology,
    queue: usize,
) -> client::Result<()> {
    let name = common.queue(&topology.queues[queue].name);
    for (exchange, key) in &topology.queues[queue].bindings {
        client.bind_queue_unanswered(channel, &name, &common.exchange(*exchange), key, &Table::new())?;
    }
    client.declare_queue(channel, &name, &QueueOptions { passive: true, ..QueueOptions::default() }).map(drop)
}

/// Records a delivery; `None` if the message is not of this run.
#[inline]
fn arrived(
    context: &mut ConsumerContext,
    (group, queue): (usize, usize),
    positions: &mut StreamPositions,
    delivery: &Delivery<'_>,
) -> Option<WorkloadStamp> {
    let time_ns = now_ns();
    let body = delivery.body();
    let ledger = &mut context.ledgers[queue];
    let Some(stamp) = WorkloadStamp::read(body).filter(|stamp| stamp.run == context.task.common.run) else {
        ledger.stray();
        return None;
    };
    if context.task.common.check && !holds(body) {
        ledger.damaged();
    }
    let arrival = ledger.arrived(positions, stamp.stream, stamp.sequence, delivery.redelivered);
    if arrival == ArrivalKind::Stray {
        return None;
    }
    context.last_ns = time_ns;
    let results = context.groups.get_mut(&group)?;
    results.behind += u64::from(context.sweeping);
    if stamp.due_ns >= context.measured_from_ns {
        results.delivered += 1;
        results.delivered_bytes += body.len() as u64;
        if arrival == ArrivalKind::First {
            results.delivery.record(time_ns.saturating_sub(stamp.due_ns));
            results.service.record(time_ns.saturating_sub(stamp.sent_ns));
        }
    }
    if (context.measured_from_ns..context.end_ns).contains(&time_ns) {
        let slice =
            (time_ns - context.measured_from_ns) * SLICES as u64 / (context.end_ns - context.measured_from_ns).max(1);
        results.slices[slice as usize] += 1;
    }
    Some(stamp)
}

/// Draws the outcome of a message's first delivery from the seed, so that the same messages fail in each run.
#[inline]
fn outcome(
    context: &mut ConsumerContext,
    group: usize,
    delivery: &Delivery<'_>,
    stamp: &WorkloadStamp,
) -> DeliveryOutcome {
    let spec = &context.task.common.spec;
    let consumers = &spec.consumers[group];
    if (consumers.reject <= 0.0 && consumers.crash <= 0.0) || delivery.redelivered || context.sweeping {
        return DeliveryOutcome::Done;
    }
    let chosen =
        |purpose, share| random::is_in_share(spec.seed, purpose, stamp.stream, u64::from(stamp.sequence), share);
    if chosen(1, consumers.crash) {
        DeliveryOutcome::Crash
    } else if chosen(2, consumers.reject) {
        if let Some(results) = context.groups.get_mut(&group) {
            results.rejected += 1;
        }
        DeliveryOutcome::Requeue
    } else {
        DeliveryOutcome::Done
    }
}

fn done(context: &mut ConsumerContext, (_, queue): (usize, usize), stamp: &WorkloadStamp) {
    context.ledgers[queue].done(stamp.stream, stamp.sequence);
}

fn acknowledge(
    context: &mut ConsumerContext,
    (_, queue): (usize, usize),
    unacknowledged: &mut Vec<(DeliveryTag, u32, u32)>,
) {
    unacknowledged.drain(..).for_each(|(_, stream, sequence)| context.ledgers[queue].done(stream, sequence));
}

fn record_done(context: &mut ConsumerContext, group: usize, stamp: &WorkloadStamp) {
    if stamp.due_ns >= context.measured_from_ns
        && let Some(results) = context.groups.get_mut(&group)
    {
        results.done.record(now_ns().saturating_sub(stamp.due_ns));
    }
}

impl AnswerTemplate {
    /// Writes the answer to a request: its stamp in a body of the answer size.
    fn write(
        &mut self,
        stamp: &WorkloadStamp,
        key: &[u8],
        publish: impl FnOnce(&Publish<'_>, &[u8]) -> client::Result<()>,
    ) -> client::Result<()> {
        // A request without `reply-to` is not ours; its sender counts the answer as lost.
        let Ok(key) = std::str::from_utf8(key) else { return Ok(()) };
        stamp.write(&mut self.body);
        if self.check {
            seal(&mut self.body);
        }
        publish(&Publish::to(&self.exchange, key), &self.body)
    }
}
