//! The client role of `churn`: opens and closes connections, channels or queues, one at a time.

use std::time::Duration;

use client::{Client, ClientChannel, QueueOptions};
use serde::{Deserialize, Serialize};

use gauge::LatencyHistogram;
use gauge::clock::{Deadline, now_ns};
use harness::command_reader::CommandReader;
use harness::role_protocol::report;
use harness::role_protocol::{RoleReport, SelfMeters};
use harness::tcp::queue_arguments;

/// The kind of object that is opened and closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChurnKind {
    /// A connection: transport handshake, login and tuning; then a clean close.
    Connection,
    /// A channel of one connection.
    Channel,
    /// A queue: declared, then deleted.
    Queue,
}

impl ChurnKind {
    pub const ALL: [Self; 3] = [Self::Connection, Self::Channel, Self::Queue];

    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Channel => "channel",
            Self::Queue => "queue",
        }
    }
}

/// The task of a `churn` client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChurnTask {
    pub url: String,
    pub kind: ChurnKind,
    /// Prefix of its queue names.
    pub queue_prefix: String,
    /// `x-max-length-bytes` of its queues.
    pub queue_bytes: Option<u64>,
    /// Queues are durable, and otherwise exclusive.
    pub durable: bool,
}

/// The amount of work in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChurnCommand {
    /// Maximum number of operations.
    pub count_max: u64,
    /// Maximum duration; an operation in progress is finished.
    pub duration_ms_max: u64,
}

struct ChurnClient {
    task: ChurnTask,
    /// The connection for channels and queues; `None` if connections are churned.
    connection: Option<(Client, ClientChannel)>,
    queues: QueueOptions,
    created: u64,
}

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let mut churner = ChurnClient::new(commands.task()?).map_err(|error| error.to_string())?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(command) = commands.next_command::<ChurnCommand>()? {
        let (mut opened, mut closed) = (LatencyHistogram::default(), LatencyHistogram::default());
        let meters = SelfMeters::start();
        let began_ns = now_ns();
        let operations = churner.work(&command, &mut opened, &mut closed).map_err(|error| error.to_string())?;
        let ended_ns = now_ns();
        let mut used = meters.stop();
        if churner.connection.is_none() {
            // Closed sockets have no counters any more.
            used.network = None;
        }
        let (opened, closed) = (opened.buckets(), closed.buckets());
        report(&RoleReport::Churned { began_ns, ended_ns, operations, opened, closed, used })?;
    }
    match churner.connection {
        Some((client, _)) => client.close().map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

impl ChurnClient {
    fn new(task: ChurnTask) -> client::Result<Self> {
        let connection = match task.kind {
            ChurnKind::Connection => None,
            ChurnKind::Channel | ChurnKind::Queue => {
                let mut client = harness::role_client::connect(&task.url, "churn")?;
                let channel = client.open_channel()?;
                Some((client, channel))
            }
        };
        let arguments = queue_arguments(task.queue_bytes);
        let queues =
            QueueOptions { durable: task.durable, exclusive: !task.durable, arguments, ..QueueOptions::default() };
        Ok(Self { task, connection, queues, created: 0 })
    }

    fn work(
        &mut self,
        command: &ChurnCommand,
        opened: &mut LatencyHistogram,
        closed: &mut LatencyHistogram,
    ) -> client::Result<u64> {
        let deadline = Deadline::after(Duration::from_millis(command.duration_ms_max));
        let mut operations = 0;
        while operations < command.count_max && !deadline.passed() {
            let (began_ns, between_ns) = self.open_and_close()?;
            opened.record(between_ns - began_ns);
            closed.record(now_ns() - between_ns);
            operations += 1;
        }
        Ok(operations)
    }

    /// Opens and closes one object; returns when it started and when the object was open.
    fn open_and_close(&mut self) -> client::Result<(u64, u64)> {
        self.created += 1;
        let began_ns = now_ns();
        let Some((client, channel)) = &mut self.connection else {
            let client = harness::role_client::connect(&self.task.url, "churn")?;
            let between_ns = now_ns();
            client.close()?;
            return Ok((began_ns, between_ns));
        };
        let between_ns;
        if self.task.kind == ChurnKind::Queue {
            let name = format!("{}{}", self.task.queue_prefix, self.created);
            client.declare_queue(*channel, &name, &self.queues)?;
            between_ns = now_ns();
            client.delete_queue(*channel, &name, false, false)?;
        } else {
            let opened = client.open_channel()?;
            between_ns = now_ns();
            client.close_channel(opened)?;
        }
        Ok((began_ns, between_ns))
    }
}
