//! The `scale` command: creates many connections, queues, bindings and messages, and checks the memory that each costs.
//!
//! Only the broker's own memory is counted, not the kernel's.

use client::{Client, ConsumeOptions, ExchangeOptions, Publish, QueueOptions, Table};
use wire::DeliveryTag;

use gauge::clock::{Deadline, pause};
use gauge::resident_bytes;
use harness::arguments::{OptionSpec, option};
use harness::command_spec::CommandSpec;
use harness::open_files;
use harness::placement::{CpuList, CpuPlacement};
use harness::role_client::connect;
use harness::role_protocol::{LoadSegment, TrafficShape};
use harness::target::{BenchmarkTarget, TargetAddress};
use load::scenario::{RunningScenario, Scenario};
use report::stdout::put;

const OPTIONS: &[OptionSpec] = &[
    option(
        "broker-command",
        None,
        "COMMAND",
        "start this broker instead of `harrier broker`; --listen ADDRESS is added",
    ),
    option("broker-options", None, "OPTIONS", "more options for the broker"),
    option("part", None, "N", "create only one N-th of everything (default 1: all)"),
    option("help", Some('h'), "", "this text"),
];

/// The kinds of objects that are created in large numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaledObject {
    Connections,
    Queues,
    Bindings,
    Messages,
}

impl ScaledObject {
    /// Its name, and the maximum memory per object in bytes.
    pub(crate) fn goal(self) -> (&'static str, f64) {
        match self {
            Self::Connections => ("idle connection", 8_192.0),
            Self::Queues => ("empty queue", 1_024.0),
            Self::Bindings => ("binding on one topic exchange", 200.0),
            Self::Messages => ("queued 64-byte message", 200.0),
        }
    }

    /// Creates `count` of them; they exist as long as the clients.
    fn create(self, url: &str, count: usize) -> client::Result<Vec<Client>> {
        if self == Self::Connections {
            return (0..count).map(|_| connect(url, "idle")).collect();
        }
        let mut client = connect(url, "scale")?;
        let channel = client.open_channel()?;
        match self {
            Self::Connections => {}
            Self::Queues => {
                for index in 0..count {
                    client.declare_queue(channel, &format!("queue{index}"), &QueueOptions::default())?;
                }
            }
            Self::Bindings => {
                client.declare_exchange(channel, "market", "topic", &ExchangeOptions::default())?;
                client.declare_queue(channel, "q", &QueueOptions::default())?;
                for index in 0..count {
                    client.bind_queue_unanswered(
                        channel,
                        "q",
                        "market",
                        &format!("stock.*.s{index}"),
                        &Table::new(),
                    )?;
                }
                client.declare_queue(channel, "q", &QueueOptions { passive: true, ..QueueOptions::default() })?;
            }
            Self::Messages => {
                client.declare_queue(channel, "q", &QueueOptions::default())?;
                client.confirm_select(channel)?;
                for _ in 0..count {
                    client.publish(channel, &Publish::to("", "q"), &[b'x'; 64])?;
                }
                client.wait_confirms(channel, 0)?;
            }
        }
        Ok(vec![client])
    }
}

pub(crate) struct MemoryCost {
    /// Resident bytes per object.
    pub bytes_each: f64,
    /// The clients that keep the objects alive.
    pub clients: Vec<Client>,
}

/// Creates `count` objects in an idle broker and divides the growth of its memory.
pub(crate) fn cost(broker: &BenchmarkTarget, object: ScaledObject, count: usize) -> Result<MemoryCost, String> {
    let url = amqp(broker)?;
    // The first connection allocates what all of them share.
    let first = connect(url, "first").map_err(|error| error.to_string())?;
    let before = settled_bytes(broker)?;
    let mut clients = object.create(url, count).map_err(|error| format!("{count} x {}: {error}", object.goal().0))?;
    let after = settled_bytes(broker)?;
    clients.push(first);
    Ok(MemoryCost { bytes_each: after.saturating_sub(before) as f64 / count as f64, clients })
}

/// Resident memory once it has settled.
pub(crate) fn settled_bytes(broker: &BenchmarkTarget) -> Result<u64, String> {
    let read = || broker.pid.and_then(resident_bytes).ok_or_else(|| "the broker's memory cannot be read".to_owned());
    let deadline = Deadline::after(std::time::Duration::from_secs(5));
    let mut last = read()?;
    loop {
        pause(std::time::Duration::from_millis(200));
        let now = read()?;
        if now == last || deadline.passed() {
            return Ok(now);
        }
        last = now;
    }
}

fn amqp(broker: &BenchmarkTarget) -> Result<&str, String> {
    match &broker.address {
        TargetAddress::Amqp(url) => Ok(url),
        TargetAddress::RawRelay { .. }
        | TargetAddress::Sink(_)
        | TargetAddress::Source(_)
        | TargetAddress::SocketBaseline(_) => Err("the target is not a broker and has no queues".to_owned()),
    }
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench scale [OPTIONS]", "", &[OPTIONS], &[])
}

/// Runs all parts.
///
/// # Errors
/// A broker that fails, or a missed goal (after all have been measured).
pub fn run(words: &[String]) -> Result<(), String> {
    let given = declared().given(words).map_err(|failure| failure.to_string())?;
    let Some(given) = given else { return Ok(()) };
    let part = given.number("part", 1, 1, 1_000)? as usize;
    let mut extra: Vec<String> =
        given.text("broker-options").unwrap_or("").split_whitespace().map(str::to_owned).collect();
    if given.text("broker-command").is_none() {
        without_management(&mut extra);
    }
    let start = || BenchmarkTarget::embedded(given.text("broker-command"), &extra, &CpuList::default());
    let mut broken = 0;
    let mut result_sender = |kept: bool, text: String| {
        broken += usize::from(!kept);
        put(&format!("{} {text}\n", if kept { "ok" } else { "not ok" }))
    };
    let open_files = open_files::raise_to_hard_limit()?;
    for (object, count) in [
        (ScaledObject::Connections, 10_000),
        (ScaledObject::Queues, 100_000),
        (ScaledObject::Bindings, 1_000_000),
        (ScaledObject::Messages, 10_000_000),
    ] {
        let (name, most) = object.goal();
        let count = count / part;
        if object == ScaledObject::Connections && open_files < count as u64 + 100 {
            put(&format!("SKIPPED: {count} connections: only {open_files} files may be open\n"))?;
            continue;
        }
        let broker = start()?;
        let made = cost(&broker, object, count)?;
        let each = made.bytes_each;
        result_sender(each <= most, format!("{count} x {name}: {each:.0} bytes each (at most {most})"))?;
        match object {
            ScaledObject::Connections => {
                let busy = round_trips(&broker)?;
                result_sender(
                    busy > 0.0,
                    format!("one active pair beside {count} idle connections: {busy:.0} round trips/s"),
                )?;
            }
            ScaledObject::Messages => {
                let received = drain(amqp(&broker)?, count)?;
                result_sender(
                    received == count as u64,
                    format!("{received} of {count} queued messages were delivered in order"),
                )?;
            }
            ScaledObject::Queues | ScaledObject::Bindings => {}
        }
        drop(made.clients);
    }
    if broken == 0 { Ok(()) } else { Err(format!("{broken} goals are missed")) }
}

/// The goals are of what passes messages on: the management API's copy of the definitions would count as a part of each queue and
/// binding. Options that name its addresses are left as they are.
fn without_management(options: &mut Vec<String>) {
    for name in ["--management-listen", "--metrics-listen"] {
        if !options.iter().any(|word| word.starts_with(name)) {
            options.extend([name, "none"].map(str::to_owned));
        }
    }
}

/// Round trips per second of one pair.
fn round_trips(broker: &BenchmarkTarget) -> Result<f64, String> {
    let mut running = RunningScenario::start(&Scenario::default(), broker, &CpuPlacement::default())?;
    running.segment(&LoadSegment { shape: TrafficShape::PingPong, size_bytes: 64, count: 200 })?;
    Ok(running.segment(&LoadSegment { shape: TrafficShape::PingPong, size_bytes: 64, count: 5_000 })?.published_per_s())
}

/// Consumes the messages of `ScaledObject::Messages`; returns how many arrived in order.
fn drain(url: &str, count: usize) -> Result<u64, String> {
    let consume = || -> client::Result<u64> {
        let mut client = connect(url, "drain")?;
        let channel = client.open_channel()?;
        client.consume(channel, "q", &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
        let mut received = 0;
        while received < count as u64 {
            let came = client.dispatch(std::time::Duration::from_secs(10), |delivery, _| {
                received +=
                    u64::from(delivery.delivery_tag == DeliveryTag(received + 1) && delivery.body().len() == 64);
                Ok(())
            })?;
            if came.deliveries == 0 {
                break;
            }
        }
        client.close()?;
        Ok(received)
    };
    consume().map_err(|error| error.to_string())
}
