//! The two roles of `recover`: one publishes with confirms, the other consumes from the broker as soon as it is back.

use std::time::Duration;

use client::{
    Client, ClientChannel, ClientError, ConnectOptions, ConsumeOptions, Properties, Publish, QueueOptions,
    RawProperties, Url,
};
use serde::{Deserialize, Serialize};

use crate::limits::{CONNECT_INTERVAL, RECOVERY_WAIT, SEGMENT_WAIT, SHARED_BODY_BYTES_MIN, SILENCE_WAIT};
use gauge::clock::{Deadline, now_ns, pause};
use gauge::{BodyStamp, DeliveryFaults, SequenceTally, write_sequence};
use harness::command_reader::CommandReader;
use harness::role_protocol::report;
use harness::role_protocol::{RoleReport, SelfMeters, SelfUsage};

/// The task of either role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecoverTask {
    pub url: String,
    pub queue: String,
    pub size_bytes: usize,
    pub count: u64,
    /// Messages without a confirm at most.
    pub window: u64,
    /// One acknowledgement for so many messages.
    pub ack_every: u64,
    pub prefetch: u16,
    /// Whether each body carries a checksum.
    pub checks: bool,
}

/// The only command of either role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecoverCommand {
    Begin,
}

/// What the publisher has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfirmedBacklog {
    pub began_ns: u64,
    /// When the last confirm came.
    pub ended_ns: u64,
    /// Messages that the broker refused.
    pub refused: u64,
    pub used: SelfUsage,
}

/// What the consumer has received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecoveredBacklog {
    /// When the first message came; `None` if none did.
    pub first_ns: Option<u64>,
    /// When the last one came.
    pub last_ns: u64,
    pub received: u64,
    pub redelivered: u64,
    pub faults: DeliveryFaults,
    pub used: SelfUsage,
}

/// The publishing role.
pub(super) fn publish(commands: &mut CommandReader) -> Result<(), String> {
    let task: RecoverTask = commands.task()?;
    let text = |error: ClientError| error.to_string();
    let mut client = harness::role_client::connect(&task.url, "publisher").map_err(text)?;
    let channel = client.open_channel().map_err(text)?;
    client.confirm_select(channel).map_err(text)?;
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.declare_queue(channel, &task.queue, &durable).map_err(text)?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(RecoverCommand::Begin) = commands.next_command()? {
        let meters = SelfMeters::start();
        let began_ns = now_ns();
        let refused = publish_all(&mut client, channel, &task).map_err(text)?;
        let ended_ns = now_ns();
        results(&ConfirmedBacklog { began_ns, ended_ns, refused, used: meters.stop() })?;
    }
    // The broker may have been killed since.
    let _gone = client.close();
    Ok(())
}

fn results<T: Serialize>(what: &T) -> Result<(), String> {
    report(&RoleReport::Results(serde_json::to_value(what).map_err(|error| error.to_string())?))
}

/// Publishes all messages; returns how many the broker refused.
fn publish_all(client: &mut Client, channel: ClientChannel, task: &RecoverTask) -> client::Result<u64> {
    let stamp = task.checks.then(|| BodyStamp::new(task.size_bytes));
    let mut body = vec![b'x'; task.size_bytes];
    if let Some(stamp) = &stamp {
        stamp.fill(&mut body);
    }
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", &task.queue) };
    for sequence in 0..task.count {
        match &stamp {
            Some(stamp) => stamp.write(&mut body, sequence),
            None => write_sequence(&mut body, sequence),
        }
        if task.size_bytes < SHARED_BODY_BYTES_MIN {
            client.publish(channel, &to, &body)?;
        } else {
            let mut block = client.block(task.size_bytes);
            block.copy_from_slice(&body);
            client.publish_shared(channel, &to, &block.freeze())?;
        }
        // The window is refilled in halves.
        if (sequence + 1).is_multiple_of(task.window.div_ceil(2)) {
            client.wait_confirms(channel, task.window / 2)?;
        }
    }
    client.wait_confirms(channel, 0)
}

/// The consuming role.
pub(super) fn consume(commands: &mut CommandReader) -> Result<(), String> {
    let task: RecoverTask = commands.task()?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(RecoverCommand::Begin) = commands.next_command()? {
        let meters = SelfMeters::start();
        let mut found = match connect_when_back(&task)? {
            Some(mut client) => consume_all(&mut client, &task).map_err(|error| error.to_string())?,
            None => RecoveredBacklog::nothing(task.count),
        };
        found.used = meters.stop();
        results(&found)?;
    }
    Ok(())
}

impl RecoveredBacklog {
    /// The queue is gone with all of its messages.
    fn nothing(count: u64) -> Self {
        let faults = DeliveryFaults { lost: count, ..DeliveryFaults::default() };
        let used = SelfUsage::default();
        Self { first_ns: None, last_ns: now_ns(), received: 0, redelivered: 0, faults, used }
    }
}

/// Connects as soon as the broker lets a client consume; `None` if it has forgotten the queue.
fn connect_when_back(task: &RecoverTask) -> Result<Option<Client>, String> {
    let deadline = Deadline::after(RECOVERY_WAIT);
    // A broker may serve clients before it has found all of its queues.
    let mut missing: Option<Deadline> = None;
    loop {
        match try_consume(task) {
            Ok(client) => return Ok(Some(client)),
            Err(ClientError::ChannelClosed { code: 404, .. }) => {
                if missing.get_or_insert_with(|| Deadline::after(SILENCE_WAIT)).passed() {
                    return Ok(None);
                }
            }
            Err(error) if deadline.passed() => return Err(format!("the broker did not come back: {error}")),
            Err(_) => missing = None,
        }
        pause(CONNECT_INTERVAL);
    }
}

fn try_consume(task: &RecoverTask) -> client::Result<Client> {
    let name = Some("harrier bench recover".to_owned());
    let options = ConnectOptions { name, answer_wait: RECOVERY_WAIT, ..ConnectOptions::default() };
    let mut client = Client::connect_with(&Url::parse(&task.url)?, options)?;
    let channel = client.open_channel()?;
    client.qos(channel, task.prefetch, false)?;
    client.consume(channel, &task.queue, &ConsumeOptions::default())?;
    Ok(client)
}

fn consume_all(client: &mut Client, task: &RecoverTask) -> client::Result<RecoveredBacklog> {
    let mut tally = match task.checks {
        true => SequenceTally::with_checksums(task.size_bytes, task.count),
        false => SequenceTally::new(task.size_bytes, task.count),
    };
    let (mut first_ns, mut last_ns, mut redelivered, mut unacknowledged) = (None, now_ns(), 0, 0);
    let (deadline, mut silent) = (Deadline::after(SEGMENT_WAIT), Deadline::after(SILENCE_WAIT));
    while !tally.complete() && !deadline.passed() && !silent.passed() {
        let mut last_tag = None;
        let came = client.dispatch(silent.left().min(Duration::from_secs(1)), |delivery, output| {
            first_ns.get_or_insert_with(now_ns);
            tally.arrived(delivery.body());
            redelivered += u64::from(delivery.redelivered);
            unacknowledged += 1;
            last_tag = Some((delivery.channel, delivery.delivery_tag));
            if unacknowledged == task.ack_every {
                unacknowledged = 0;
                output.ack(delivery.channel, delivery.delivery_tag, true)?;
            }
            Ok(())
        })?;
        if came.deliveries > 0 {
            last_ns = now_ns();
            silent = Deadline::after(SILENCE_WAIT);
        }
        if let Some((channel, tag)) = last_tag.filter(|_| tally.complete() && unacknowledged > 0) {
            client.ack(channel, tag, true)?;
        }
    }
    Ok(RecoveredBacklog {
        first_ns,
        last_ns,
        received: tally.received(),
        redelivered,
        faults: tally.faults(),
        used: SelfUsage::default(),
    })
}
