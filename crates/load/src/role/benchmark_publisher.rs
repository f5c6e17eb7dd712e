//! The publisher role of closed-loop benchmarks: sends the messages of each segment and waits for the consumers' replies.
//!
//! Measures round trips, confirm latencies and the process's own resource usage.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use client::{
    Client, ClientChannel, ConsumeOptions, ExchangeOptions, PreparedBatch, Properties, Publish, QueueOptions,
    RawProperties, Table,
};
use wire::frame::FRAME_OVERHEAD_BYTES;

use crate::limits::{
    CANNED_BATCH_BYTES, CONFIRM_SAMPLES_PER_WINDOW, KEYS_CANNED_MAX, PROBE_BYTES, SEGMENT_WAIT, SHARED_BODY_BYTES_MIN,
    SILENCE_WAIT,
};
use gauge::clock::{Deadline, now_ns};
use gauge::{BodyStamp, LatencyHistogram, write_sequence};
use harness::command_reader::CommandReader;
use harness::role_protocol::report;
use harness::role_protocol::{LoadSegment, RoleReport, SelfMeters, TrafficShape};
use harness::role_tasks::PublisherTask;

pub(super) struct BenchmarkPublisher {
    client: Client,
    channel: ClientChannel,
    task: PublisherTask,
    properties: Vec<u8>,
    body: Vec<u8>,
    /// The stamp of each body, if it is checked.
    stamp: Option<BodyStamp>,
    next_key: usize,
    /// A batch of encoded messages, encoded once per size if possible.
    canned: Option<PreparedBatch>,
}

/// Times and latencies of a segment, before the meters are read.
struct SegmentTimes {
    began_ns: u64,
    ended_ns: u64,
    published: u64,
    latencies: LatencyHistogram,
    confirms: LatencyHistogram,
    refused: u64,
}

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let mut publisher = BenchmarkPublisher::connect(commands.task()?).map_err(|error| error.to_string())?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(segment) = commands.next_while::<LoadSegment>(|| publisher.keep_alive())? {
        report(&publisher.segment(&segment)?)?;
    }
    publisher.close()
}

impl BenchmarkPublisher {
    /// Publishes a segment and returns its results.
    pub(super) fn segment(&mut self, segment: &LoadSegment) -> Result<RoleReport, String> {
        self.prepare(segment).map_err(|error| error.to_string())?;
        let meters = SelfMeters::start();
        let sent = match segment.shape {
            TrafficShape::Stream => self.stream(segment),
            TrafficShape::PingPong => self.ping_pong(segment),
        }?;
        let used = meters.stop();
        let SegmentTimes { began_ns, ended_ns, published, latencies, confirms, refused } = sent;
        let (latencies, confirms) = (latencies.buckets(), confirms.buckets());
        Ok(RoleReport::Published { began_ns, ended_ns, published, latencies, confirms, refused, used })
    }

    /// Publishes one probe, which contains only its number, and waits until the broker has read it.
    pub(super) fn probe(&mut self, number: u64) -> client::Result<()> {
        self.body.clear();
        self.body.resize(PROBE_BYTES, 0);
        self.stamp = None;
        self.publish(PROBE_BYTES, number)?;
        self.await_swallowed()
    }

    /// Sends a heartbeat if one is due.
    pub(super) fn keep_alive(&mut self) -> Result<(), String> {
        self.client.keep_alive().map_err(|error| error.to_string())
    }

    pub(super) fn close(self) -> Result<(), String> {
        self.client.close().map_err(|error| error.to_string())
    }

    pub(super) fn connect(task: PublisherTask) -> client::Result<Self> {
        let mut client = harness::role_client::connect(&task.url, "publisher")?;
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
        let delivery_mode = task.persistent.then_some(2);
        let properties = Properties { priority: task.priority, delivery_mode, ..Properties::default() }.to_bytes();
        Ok(Self { client, channel, task, properties, body: Vec::new(), stamp: None, next_key: 0, canned: None })
    }

    /// Writes one message without flushing it.
    #[inline]
    fn publish(&mut self, size_bytes: usize, sequence: u64) -> client::Result<()> {
        let key = &self.task.keys[self.next_key];
        self.next_key = if self.next_key + 1 == self.task.keys.len() { 0 } else { self.next_key + 1 };
        let properties = RawProperties::new(&self.properties);
        let to = Publish { properties, ..Publish::to(&self.task.exchange, key) };
        if size_bytes < SHARED_BODY_BYTES_MIN {
            match &self.stamp {
                None => write_sequence(&mut self.body, sequence),
                Some(stamp) => stamp.write(&mut self.body, sequence),
            }
            self.client.publish(self.channel, &to, &self.body)?;
        } else {
            let mut block = self.client.block(size_bytes);
            match &self.stamp {
                None => write_sequence(&mut block, sequence),
                Some(stamp) => {
                    stamp.fill(&mut block);
                    stamp.write(&mut block, sequence);
                }
            }
            self.client.publish_shared(self.channel, &to, &block.freeze())?;
        }
        Ok(())
    }

    fn prepare(&mut self, segment: &LoadSegment) -> client::Result<()> {
        let size_bytes = segment.size_bytes;
        self.stamp = self.task.checks.then(|| BodyStamp::new(size_bytes));
        self.body.clear();
        if size_bytes < SHARED_BODY_BYTES_MIN {
            self.body.resize(size_bytes, b'x');
            if let Some(stamp) = &self.stamp {
                stamp.fill(&mut self.body);
            }
        }
        self.next_key = 0;
        let is_canned = self.canned.as_ref().is_some_and(|canned| canned.body_bytes() == size_bytes);
        if segment.shape == TrafficShape::Stream && self.task.confirm_window == 0 && !is_canned {
            self.canned = self.can(size_bytes)?;
        }
        Ok(())
    }

    /// Encodes a batch of messages. Not possible for checked bodies of several frames, because the batch stores one frame
    /// each, nor for many keys, because the batch contains each of them.
    fn can(&mut self, size_bytes: usize) -> client::Result<Option<PreparedBatch>> {
        let frame_bytes = self.client.tuning().frame_bytes_max as usize;
        if self.task.keys.len() > KEYS_CANNED_MAX
            || (self.task.checks && size_bytes + FRAME_OVERHEAD_BYTES > frame_bytes)
        {
            return Ok(None);
        }
        let mut body = vec![b'x'; size_bytes];
        if let Some(stamp) = &self.stamp {
            stamp.fill(&mut body);
        }
        let PublisherTask { exchange, keys, .. } = &self.task;
        let properties = RawProperties::new(&self.properties);
        let to: Vec<_> = keys.iter().map(|key| Publish { properties, ..Publish::to(exchange, key) }).collect();
        self.client.prepare_batch(self.channel, &to, &body, CANNED_BATCH_BYTES)
    }

    /// Sends messages in batches; each gets its number.
    fn send_canned(&mut self, canned: &mut PreparedBatch, numbers: Range<u64>) -> client::Result<()> {
        let mut sequence = numbers.start;
        while sequence < numbers.end {
            let batch = (numbers.end - sequence).min(canned.len() as u64);
            let write = |index: usize| sequence + index as u64;
            match &self.stamp {
                None => self.client.publish_prepared(canned, batch as usize, |index, body| {
                    write_sequence(body, write(index));
                })?,
                Some(stamp) => self.client.publish_prepared(canned, batch as usize, |index, body| {
                    stamp.write(body, write(index));
                })?,
            };
            sequence += batch;
        }
        Ok(())
    }

    fn stream(&mut self, segment: &LoadSegment) -> Result<SegmentTimes, String> {
        let deadline = Deadline::after(SEGMENT_WAIT + SILENCE_WAIT);
        let returned_before = self.client.returned_count();
        let mut confirms = LatencyHistogram::default();
        let began_ns = now_ns();
        let refused = if self.task.confirm_window > 0 {
            self.send_confirmed(segment, &mut confirms).map_err(|error| error.to_string())?
        } else {
            self.send_all(segment, &deadline)?;
            0
        };
        (0..self.task.consumers).try_for_each(|_| self.await_reply(&deadline))?;
        if self.task.consumers == 0 {
            self.await_swallowed().map_err(|error| error.to_string())?;
        }
        let ended_ns = now_ns();
        let refused = refused + self.client.returned_count() - returned_before;
        let latencies = LatencyHistogram::default();
        Ok(SegmentTimes { began_ns, ended_ns, published: segment.count, latencies, confirms, refused })
    }

    /// The reply to a synchronous call proves that everything before it was read.
    fn await_swallowed(&mut self) -> client::Result<()> {
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        self.client.declare_queue(self.channel, &self.task.reply_key, &passive).map(drop)
    }

    /// Waits for a consumer's reply to what it has received.
    fn await_reply(&mut self, deadline: &Deadline) -> Result<(), String> {
        if self.reply(0, deadline.left())? {
            return Ok(());
        }
        Err(format!("no reply of a consumer within {} s", SEGMENT_WAIT.as_secs()))
    }

    /// Sends all messages of a stream, no more of them ahead of the consumer than the window, and reads the consumer's grants.
    fn send_all(&mut self, segment: &LoadSegment, deadline: &Deadline) -> Result<(), String> {
        let (window, mut published, mut grants) = (self.task.window, 0, 0);
        while published < segment.count {
            let room = window.room(published, grants).min(segment.count - published);
            self.send_numbers(published..published + room, segment).map_err(|error| error.to_string())?;
            published += room;
            if published < segment.count {
                self.await_reply(deadline)?;
                grants += 1;
            }
        }
        (grants..window.grants(segment.count)).try_for_each(|_| self.await_reply(deadline))
    }

    fn send_numbers(&mut self, numbers: Range<u64>, segment: &LoadSegment) -> client::Result<()> {
        match self.canned.take() {
            Some(mut canned) => {
                self.send_canned(&mut canned, numbers)?;
                self.canned = Some(canned);
            }
            None => {
                for sequence in numbers {
                    self.publish(segment.size_bytes, sequence)?;
                }
            }
        }
        self.client.flush()
    }

    /// Sends all messages of a stream, never more of them unconfirmed than the window.
    fn send_confirmed(&mut self, segment: &LoadSegment, confirms: &mut LatencyHistogram) -> client::Result<u64> {
        let window = self.task.confirm_window;
        let refused_before = self.client.wait_confirms(self.channel, 0)?;
        // Reading the clock for each message would cost more than the message, so only some of each window are timed.
        let stride = (window / CONFIRM_SAMPLES_PER_WINDOW).max(1);
        let mut timed: VecDeque<(u64, u64)> = VecDeque::new();
        for sequence in 0..segment.count {
            if self.client.outstanding(self.channel) >= window {
                // Half a window at a time, since the broker confirms in batches too.
                self.confirmed(sequence, window / 2, &mut timed, confirms)?;
            }
            if sequence % stride == 0 {
                timed.push_back((sequence, now_ns()));
            }
            self.publish(segment.size_bytes, sequence)?;
        }
        self.confirmed(segment.count, 0, &mut timed, confirms)?;
        Ok(self.client.wait_confirms(self.channel, 0)? - refused_before)
    }

    /// Waits until at most `left` of the `published` messages are unconfirmed, and times the confirms read meanwhile. Brokers
    /// usually confirm in order; out-of-order confirms are attributed to messages in order all the same.
    fn confirmed(
        &mut self,
        published: u64,
        left: u64,
        timed: &mut VecDeque<(u64, u64)>,
        confirms: &mut LatencyHistogram,
    ) -> client::Result<()> {
        loop {
            let outstanding = self.client.outstanding(self.channel);
            if outstanding <= left {
                return Ok(());
            }
            self.client.wait_confirms(self.channel, outstanding - 1)?;
            let (now_ns, confirmed) = (now_ns(), published - self.client.outstanding(self.channel));
            while let Some(&(sequence, sent_ns)) = timed.front()
                && sequence < confirmed
            {
                confirms.record(now_ns - sent_ns);
                timed.pop_front();
            }
        }
    }

    fn ping_pong(&mut self, segment: &LoadSegment) -> Result<SegmentTimes, String> {
        let deadline = Deadline::after(SEGMENT_WAIT);
        let mut latencies = LatencyHistogram::default();
        let mut published = 0;
        let began_ns = now_ns();
        for sequence in 0..segment.count {
            let sent_ns = now_ns();
            self.publish(segment.size_bytes, sequence)
                .and_then(|()| self.client.flush())
                .map_err(|error| error.to_string())?;
            published += 1;
            if !self.reply(segment.size_bytes, deadline.left().min(SILENCE_WAIT))? {
                // The message or its reply was lost; the consumer's count tells which.
                break;
            }
            latencies.record(now_ns() - sent_ns);
        }
        let (ended_ns, confirms) = (now_ns(), LatencyHistogram::default());
        Ok(SegmentTimes { began_ns, ended_ns, published, latencies, confirms, refused: 0 })
    }

    /// Waits for one reply of the given size; returns whether it arrived.
    #[inline]
    fn reply(&mut self, size_bytes: usize, wait: Duration) -> Result<bool, String> {
        match self.client.next_delivery(wait.max(Duration::from_millis(1))) {
            Ok(Some(delivery)) if delivery.body().len() == size_bytes => Ok(true),
            Ok(Some(delivery)) => Err(format!("a reply of {} bytes instead of {size_bytes}", delivery.body().len())),
            Ok(None) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}
