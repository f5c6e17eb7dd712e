//! One publisher of a workload: its connection, schedule, random numbers and outstanding replies.

use std::collections::VecDeque;

use client::{
    Client, ClientChannel, ConnectOptions, ConsumeOptions, Properties, Publish, QueueOptions, RawProperties, Table, Url,
};
use gauge::limits::LATE_SEND_NS;
use mio::{Registry, Token};

use super::PublisherContext;
use crate::limits::{SHARED_BODY_BYTES_MIN, UNSENT_BYTES_MAX};
use crate::workload::arrivals::ArrivalSchedule;
use crate::workload::message_stamp::{STAMP_BYTES, WorkloadStamp, seal};
use crate::workload::process_messages::{WorkloadPublisherReport, WorkloadPublisherTask};
use crate::workload::random::{self, RngPurpose, WorkloadRng, mix, rng};

/// Whether another message may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendReadiness {
    Some,
    None,
}

pub(super) struct WorkloadPublisher {
    client: Client,
    channel: ClientChannel,
    number: usize,
    stream: u32,
    rng: WorkloadRng,
    schedule: ArrivalSchedule,
    sequence: u32,
    /// When the next message is due; `None` after the last.
    due_ns: Option<u64>,
    confirms: u64,
    /// When the messages without a confirm were due, the oldest first: no more than the window has.
    unconfirmed_due_ns: VecDeque<u64>,
    stalled_since_ns: Option<u64>,
    properties: Vec<u8>,
    body: Vec<u8>,
    /// Whether there are unflushed messages.
    dirty: bool,
    answers: Option<AnswerTracker>,
}

/// The answers received by a publisher.
struct AnswerTracker {
    key: Vec<u8>,
    seen: Vec<u64>,
    received: u64,
}

impl WorkloadPublisher {
    pub(super) fn connect(
        task: &WorkloadPublisherTask,
        number: usize,
        registry: &Registry,
        token: Token,
    ) -> client::Result<Self> {
        let common = &task.common;
        let group = &common.spec.publishers[task.group];
        let stream = common.spec.first_stream(task.group) + number;
        let name = format!("harrier bench {}.{number}", group.name);
        // The pacer decides when messages are flushed.
        let options = ConnectOptions { name: Some(name), flush_bytes: usize::MAX, ..ConnectOptions::default() };
        let mut client = Client::connect_with(&Url::parse(&common.url)?, options)?;
        let channel = client.open_channel()?;
        let mut properties = Properties::default();
        if group.persistent {
            properties.delivery_mode = Some(2);
        }
        let mut answers = None;
        if let Some(exchange) = group.reply_exchange {
            let key = format!("{}.{number}", group.name);
            let queue = common.queue(&format!("answers.{key}"));
            client.declare_queue(channel, &queue, &QueueOptions { exclusive: true, ..QueueOptions::default() })?;
            client.bind_queue(channel, &queue, &common.exchange(exchange), &key, &Table::new())?;
            client.consume(channel, &queue, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
            properties.reply_to = Some(key.as_str().try_into()?);
            answers = Some(AnswerTracker { key: key.into_bytes(), seen: Vec::new(), received: 0 });
        }
        if group.confirms > 0 {
            client.confirm_select(channel)?;
        }
        client.register(registry, token)?;
        Ok(Self {
            client,
            channel,
            number,
            stream: stream as u32,
            rng: rng(common.spec.seed, RngPurpose::Messages, stream),
            schedule: ArrivalSchedule::new(group.rate, group.arrivals, group.count),
            sequence: 0,
            due_ns: None,
            confirms: group.confirms,
            unconfirmed_due_ns: VecDeque::new(),
            stalled_since_ns: None,
            properties: properties.to_bytes(),
            body: Vec::new(),
            dirty: false,
            answers,
        })
    }

    /// Plans the next message and returns its send time.
    #[inline]
    pub(super) fn plan(&mut self, context: &PublisherContext) -> Option<u64> {
        let from_begin_ns = self.schedule.next_ns(&mut self.rng);
        self.due_ns = context.begin_ns.checked_add(from_begin_ns).filter(|&due_ns| due_ns < context.end_ns);
        self.due_ns
    }

    /// Whether another message may be written now.
    #[inline]
    pub(super) fn readiness(&self, _shop: &PublisherContext) -> SendReadiness {
        let open = self.confirms == 0 || self.client.outstanding(self.channel) < self.confirms;
        if open && self.client.unsent_bytes() < UNSENT_BYTES_MAX { SendReadiness::Some } else { SendReadiness::None }
    }

    /// The message is due, but cannot be written yet.
    pub(super) fn stall(&mut self, time_ns: u64) {
        self.stalled_since_ns = Some(time_ns);
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled_since_ns.is_some()
    }

    /// The message can be written again; returns when it was due.
    pub(super) fn resume(&mut self, time_ns: u64, results: &mut WorkloadPublisherReport) -> u64 {
        if let Some(since_ns) = self.stalled_since_ns.take() {
            results.stalled_ns += time_ns.saturating_sub(since_ns);
        }
        self.due_ns.unwrap_or(u64::MAX)
    }

    /// Whether everything written is flushed, as far as possible.
    #[inline]
    pub(super) fn is_clean(&mut self) -> bool {
        !std::mem::replace(&mut self.dirty, true)
    }

    /// Writes the due message.
    #[inline]
    pub(super) fn send(
        &mut self,
        context: &PublisherContext,
        time_ns: u64,
        results: &mut WorkloadPublisherReport,
    ) -> client::Result<()> {
        let group = &context.task.common.spec.publishers[context.task.group];
        let Some(due_ns) = self.due_ns else { return Ok(()) };
        let symbol = context.symbols.draw(&mut self.rng);
        let size_bytes = random::size(&group.size, &mut self.rng).max(STAMP_BYTES);
        let key = context.keys.number(self.number, symbol);
        let stamp = WorkloadStamp {
            run: context.task.common.run,
            stream: self.stream,
            sequence: self.sequence,
            due_ns,
            sent_ns: time_ns,
        };
        self.write(context, key, size_bytes, &stamp, group.mandatory)?;
        let route = context.keys.route(key);
        route.iter().for_each(|&queue| results.expected[queue as usize].add(self.stream, self.sequence));
        results.unroutable += u64::from(route.is_empty());
        results.digest = results.digest.wrapping_add(mix(
            mix(u64::from(self.stream), u64::from(self.sequence)),
            mix(due_ns - context.begin_ns, (key as u64) << 32 | size_bytes as u64),
        ));
        results.sent += 1;
        results.last_ns = time_ns;
        if due_ns >= context.measured_from_ns {
            let late_ns = time_ns - due_ns;
            results.measured += 1;
            results.measured_bytes += size_bytes as u64;
            results.late += u64::from(late_ns > LATE_SEND_NS);
            results.lateness.record(late_ns);
        }
        self.sequence += 1;
        if self.confirms > 0 {
            self.unconfirmed_due_ns.push_back(due_ns);
        }
        Ok(())
    }

    #[inline]
    fn write(
        &mut self,
        context: &PublisherContext,
        key: usize,
        size_bytes: usize,
        stamp: &WorkloadStamp,
        mandatory: bool,
    ) -> client::Result<()> {
        let to = Publish {
            exchange: &context.exchange,
            routing_key: context.keys.key(key),
            mandatory,
            properties: RawProperties::new(&self.properties),
        };
        let check = context.task.common.check;
        if size_bytes < SHARED_BODY_BYTES_MIN {
            if self.body.len() < size_bytes {
                self.body.extend_from_slice(&context.pattern[self.body.len()..size_bytes]);
            }
            let body = &mut self.body[..size_bytes];
            stamp.write(body);
            if check {
                seal(body);
            }
            self.client.publish(self.channel, &to, body)?;
        } else {
            let mut block = self.client.block(size_bytes);
            if check {
                block.copy_from_slice(&context.pattern[..size_bytes]);
            }
            stamp.write(&mut block);
            if check {
                seal(&mut block);
            }
            self.client.publish_shared(self.channel, &to, &block.freeze())?;
        }
        Ok(())
    }

    /// Flushes as much as the socket accepts.
    pub(super) fn flush(&mut self) -> client::Result<()> {
        self.dirty = false;
        self.client.flush_now().map(drop)
    }

    /// The socket is ready or a heartbeat may be due: sends and receives.
    pub(super) fn process(
        &mut self,
        context: &PublisherContext,
        results: &mut WorkloadPublisherReport,
    ) -> client::Result<()> {
        loop {
            let (stream, sent, answers) = (self.stream, self.sequence, &mut self.answers);
            let dispatched = self.client.dispatch_now(|delivery, _| {
                let time_ns = gauge::clock::now_ns();
                match (answers.as_mut(), WorkloadStamp::read(delivery.body())) {
                    (Some(answers), Some(stamp))
                        if stamp.run == context.task.common.run
                            && stamp.stream == stream
                            && stamp.sequence < sent
                            && delivery.routing_key == answers.key.as_slice() =>
                    {
                        answers.received += u64::from(answers.record(stamp.sequence, results));
                        results.answers += 1;
                        results.last_ns = time_ns;
                        if stamp.due_ns >= context.measured_from_ns {
                            results.round_trips.record(time_ns.saturating_sub(stamp.due_ns));
                        }
                    }
                    _ => results.answer_faults.strays += 1,
                }
                Ok(())
            })?;
            self.note_confirms(context, results);
            if dispatched.drained {
                return Ok(());
            }
        }
    }

    /// Notes how long the confirms took that have come.
    fn note_confirms(&mut self, context: &PublisherContext, results: &mut WorkloadPublisherReport) {
        let waiting =
            u64::from(self.sequence) - self.client.confirmed_up_to(self.channel).min(u64::from(self.sequence));
        if self.unconfirmed_due_ns.len() as u64 <= waiting {
            return;
        }
        let time_ns = gauge::clock::now_ns();
        while self.unconfirmed_due_ns.len() as u64 > waiting
            && let Some(due_ns) = self.unconfirmed_due_ns.pop_front()
        {
            if due_ns >= context.measured_from_ns {
                results.confirm_times.record(time_ns.saturating_sub(due_ns));
            }
        }
    }

    /// Whether everything is sent, confirmed and answered.
    pub(super) fn is_finished(&self) -> bool {
        self.due_ns.is_none()
            && self.client.unsent_bytes() == 0
            && self.client.outstanding(self.channel) == 0
            && self.answers.as_ref().is_none_or(|answers| answers.received >= u64::from(self.sequence))
    }

    /// At the end, counts messages that were not sent, not answered, rejected or returned.
    pub(super) fn end(
        &mut self,
        context: &PublisherContext,
        time_ns: u64,
        results: &mut WorkloadPublisherReport,
    ) -> client::Result<()> {
        if let Some(since_ns) = self.stalled_since_ns.take() {
            results.stalled_ns += time_ns.saturating_sub(since_ns);
        }
        while self.due_ns.is_some() {
            results.unsent += 1;
            // Unsent messages draw no random numbers: only their times matter.
            self.plan(context);
        }
        if let Some(answers) = &self.answers {
            results.answer_faults.lost += u64::from(self.sequence).saturating_sub(answers.received);
        }
        results.unconfirmed += self.client.outstanding(self.channel);
        results.refused += self.client.take_refused(self.channel)?.len() as u64;
        results.returned += self.client.returned_count();
        Ok(())
    }

    pub(super) fn close(self) -> client::Result<()> {
        self.client.close()
    }
}

impl AnswerTracker {
    /// Records an answer and returns whether it is the first to its request.
    fn record(&mut self, sequence: u32, results: &mut WorkloadPublisherReport) -> bool {
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let again = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        results.answer_faults.duplicates += u64::from(again);
        !again
    }
}
