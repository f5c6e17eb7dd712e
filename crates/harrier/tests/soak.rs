//! A broker that is used for long: its memory, its files and its latency stay as they are, and what is never acknowledged keeps
//! little more of the disk than its own bytes.
//!
//! `HARRIER_SOAK` is how many seconds the soak takes (a number of rounds, as fast as they go, without it), `HARRIER_SOAK_ROUNDS`
//! how many rounds a second it has then; `HARRIER_UNSETTLED=full` sends 100 GB past what is not acknowledged, and `HARRIER_BIN` names
//! another program.

#[path = "durability/broker.rs"]
#[expect(dead_code, reason = "shared with the tests of durability")]
mod broker;

use broker::{StoredBroker, TestStateFolder};
use client::{Client, ClientChannel, ConsumeOptions, Publish, QueueOptions};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};
use wire::{DeliveryTag, Properties, RawProperties, Table, Value};

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Messages of a round; one of them is not acknowledged with the others.
const ROUND: u64 = 1_000;
/// Rounds of a soak without `HARRIER_SOAK`, and in a second of one with it.
const ROUNDS: u64 = 240;
const ROUNDS_PER_SECOND: u64 = 20;
/// Lines that a soak prints.
const SAMPLES: u64 = 12;
/// Messages that wait for their acknowledgement over rounds.
const KEPT_MAX: usize = 50;
/// Bytes of the journal of definitions, which grows by 64 MiB before it is begun anew, with segments made ahead.
const JOURNAL_BYTES_MAX: u64 = 112 << 20;
const SOAKED: &str = "soaked";
const EXPIRING: &str = "expiring";
const DEAD: &str = "dead";

fn number_of(variable: &str, usual: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return usual };
    text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}"))
}

#[expect(clippy::disallowed_methods, reason = "rounds are paced, and what they took is printed")]
fn now() -> Instant {
    Instant::now()
}

/// Files below a folder, and their bytes.
fn files_below(folder: &Path) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        // The broker may remove it meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        let (below, bytes_below) = if metadata.is_dir() { files_below(&entry.path()) } else { (1, metadata.len()) };
        files += below;
        bytes += bytes_below;
    }
    (files, bytes)
}

/// Bytes of the files of the shard that has the most. Their names begin with its number.
fn largest_log_bytes(folder: &Path) -> u64 {
    let mut logs: BTreeMap<String, u64> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name of ours");
        let Some((log, _)) = name.split_once('-') else { continue };
        // The broker may remove it meanwhile.
        *logs.entry(log.to_owned()).or_default() += entry.metadata().map_or(0, |metadata| metadata.len());
    }
    logs.into_values().max().unwrap_or(0)
}

fn persistent() -> Vec<u8> {
    Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes()
}

fn durable(arguments: &[(&str, Value)]) -> QueueOptions {
    let with = |table: Table, (name, value): &(&str, Value)| table.with(name, value.clone()).expect("a short name");
    QueueOptions { durable: true, arguments: arguments.iter().fold(Table::default(), with), ..QueueOptions::default() }
}

/// A publisher with confirms beside a consumer of the same queue.
struct Pair {
    publisher: Client,
    publishing: ClientChannel,
    consumer: Client,
    consuming: ClientChannel,
    body_bytes: usize,
    published: u64,
    /// The number of the next message, if none is lost and none comes twice.
    received: u64,
    lost: u64,
    doubled: u64,
    /// What is not acknowledged: the delivery and the number of each message.
    unsettled: VecDeque<(DeliveryTag, u64)>,
}

impl Pair {
    fn new(broker: &StoredBroker, body_bytes: usize) -> Pair {
        let (mut publisher, publishing) = broker.connect();
        publisher.confirm_select(publishing).expect("confirms");
        publisher.declare_queue(publishing, SOAKED, &durable(&[])).expect("a queue");
        let (mut consumer, consuming) = broker.connect();
        consumer.consume(consuming, SOAKED, &ConsumeOptions::default()).expect("a consumer");
        let unsettled = VecDeque::new();
        let (published, received, lost, doubled) = (0, 0, 0, 0);
        Pair { publisher, publishing, consumer, consuming, body_bytes, published, received, lost, doubled, unsettled }
    }

    fn publish(&mut self, queue: &str, number: u64, properties: &[u8]) {
        let to = Publish { properties: RawProperties::new(properties), ..Publish::to("", queue) };
        let mut body = number.to_le_bytes().to_vec();
        body.resize(self.body_bytes, number as u8);
        self.publisher.publish(self.publishing, &to, &body).expect("published");
    }

    /// Publishes so many, waits until they are durable, and receives and acknowledges them but for one in [`ROUND`].
    fn exchange(&mut self, messages: u64, properties: &[u8]) {
        for _ in 0..messages {
            self.publish(SOAKED, self.published, properties);
            self.published += 1;
        }
        self.publisher.wait_confirms(self.publishing, 0).expect("confirmed");
        for _ in 0..messages {
            let delivery = self.consumer.next_delivery(PATIENCE).expect("connected").expect("the next message");
            let number = delivery.body()[..8].try_into().map(u64::from_le_bytes).expect("a number");
            let is_whole = delivery.body().last() == Some(&(number as u8));
            assert!(delivery.body().len() == self.body_bytes && is_whole, "message {number} is whole");
            let tag = delivery.delivery_tag;
            self.doubled += u64::from(number < self.received);
            self.lost += number.saturating_sub(self.received);
            self.received = self.received.max(number + 1);
            match number % ROUND {
                0 => self.unsettled.push_back((tag, number)),
                _ => self.consumer.ack(self.consuming, tag, false).expect("acknowledged"),
            }
        }
        self.consumer.flush().expect("sent");
    }

    /// Acknowledges what has waited for that for longest.
    fn acknowledge_one(&mut self) {
        let (tag, _) = self.unsettled.pop_front().expect("there are some");
        self.consumer.ack(self.consuming, tag, false).expect("acknowledged");
    }

    /// The connections end. What is not acknowledged comes again, and nothing else.
    fn end(self, broker: &StoredBroker) -> SoakedMessages {
        self.publisher.close().expect("closed");
        self.consumer.close().expect("closed");
        let (mut client, channel) = broker.connect();
        let mut left = Vec::new();
        // The shard of the queue learns of the end of the consumer a little later.
        let since = now();
        loop {
            match client.get(channel, SOAKED, true).expect("a queue") {
                Some(message) => {
                    left.push(message.body()[..8].try_into().map(u64::from_le_bytes).expect("a number"));
                }
                None if left.len() >= self.unsettled.len() || since.elapsed() > PATIENCE => break,
                None => {}
            }
        }
        client.close().expect("closed");
        let numbers: Vec<u64> = self.unsettled.iter().map(|(_, number)| *number).collect();
        let Pair { published, received, mut lost, mut doubled, .. } = self;
        lost += numbers.iter().filter(|number| !left.contains(number)).count() as u64;
        doubled += left.iter().filter(|number| !numbers.contains(number)).count() as u64;
        doubled += left.len() as u64 - left.iter().collect::<BTreeSet<_>>().len() as u64;
        lost += published - received;
        SoakedMessages { published, lost, doubled, again: left.len() as u64 }
    }
}

/// What has become of the messages of a soak.
struct SoakedMessages {
    published: u64,
    lost: u64,
    /// Came twice, or were acknowledged and came again.
    doubled: u64,
    /// Were not acknowledged, and came again.
    again: u64,
}

/// What a broker takes, and how long its confirms do.
struct Sample {
    resident_kib: u64,
    /// Of the logs of messages.
    files: u64,
    bytes: u64,
    journal_bytes: u64,
    p50: Duration,
    p99: Duration,
}

impl Sample {
    fn take(broker: &StoredBroker, folder: &TestStateFolder, round_times: &mut Vec<Duration>) -> Sample {
        round_times.sort_unstable();
        let at = |share: usize| round_times[(round_times.len() - 1) * share / 100];
        let (p50, p99) = (at(50), at(99));
        round_times.clear();
        let (files, bytes) = files_below(&folder.path("log"));
        let (_, journal_bytes) = files_below(&folder.path("definitions"));
        Sample { resident_kib: broker.resident_kib(), files, bytes, journal_bytes, p50, p99 }
    }
}

#[test]
fn a_broker_that_is_used_for_long_stays_as_it_is() {
    let seconds = number_of("HARRIER_SOAK", 0);
    let a_second = number_of("HARRIER_SOAK_ROUNDS", ROUNDS_PER_SECOND);
    let rounds = if seconds == 0 { ROUNDS } else { seconds * a_second };
    let folder = TestStateFolder::new("soak");
    let broker = StoredBroker::start(&folder, &["--memory-limit", "256MiB"]);
    let mut pair = Pair::new(&broker, 256);
    let letters = [
        ("x-message-ttl", Value::I32(100)),
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text(DEAD)),
    ];
    pair.publisher.declare_queue(pair.publishing, EXPIRING, &durable(&letters)).expect("a queue");
    let short = [("x-max-length", Value::I32(1_000))];
    pair.publisher.declare_queue(pair.publishing, DEAD, &durable(&short)).expect("a queue");
    let properties = persistent();
    let (began, mut times, mut samples) = (now(), Vec::new(), Vec::new());
    for round in 0..rounds {
        if seconds > 0 {
            let due = began + Duration::from_micros(round * 1_000_000 / a_second);
            gauge::clock::pause(due.saturating_duration_since(now()));
        }
        let since = now();
        (0..10).for_each(|number| pair.publish(EXPIRING, number, &properties));
        pair.exchange(ROUND, &properties);
        times.push(since.elapsed());
        if pair.unsettled.len() > KEPT_MAX {
            pair.acknowledge_one();
        }
        if round % 10 == 0 {
            let name = format!("passing.{round}");
            pair.publisher.declare_queue(pair.publishing, &name, &durable(&[])).expect("a queue");
            pair.publisher.delete_queue(pair.publishing, &name, false, false).expect("deleted");
        }
        if (round + 1) % (rounds / SAMPLES).max(1) == 0 {
            let sample = Sample::take(&broker, &folder, &mut times);
            let Sample { resident_kib, files, bytes, journal_bytes, p50, p99 } = &sample;
            println!(
                "{:6.0} s, {} messages: {resident_kib} KiB resident, {files} files of {} MiB, a journal of {} MiB, \
                 {ROUND} messages and their confirms {p50:.1?} (p50), {p99:.1?} (p99)",
                began.elapsed().as_secs_f64(),
                pair.published,
                bytes >> 20,
                journal_bytes >> 20,
            );
            assert!(*journal_bytes <= JOURNAL_BYTES_MAX, "{journal_bytes} bytes of definitions");
            samples.push(sample);
        }
    }
    // The first third warms up.
    let third = samples.len() / 3;
    let greatest = |samples: &[Sample], of: fn(&Sample) -> u64| samples.iter().map(of).max().expect("some");
    let (middle, last) = (&samples[third..2 * third], &samples[2 * third..]);
    for (what, of, slack) in [
        ("KiB of memory", (|sample| sample.resident_kib) as fn(&Sample) -> u64, 8 << 10),
        ("files", |sample| sample.files, 4),
        ("bytes of files", |sample| sample.bytes, 16 << 20),
    ] {
        let (before, after) = (greatest(middle, of), greatest(last, of));
        assert!(after <= before + before / 10 + slack, "{what}: {before}, and later {after}");
    }
    let SoakedMessages { published, lost, doubled, again } = pair.end(&broker);
    let (first, end) = (&samples[0], &samples[samples.len() - 1]);
    println!(
        "{published} messages in {:.0} s, {lost} lost, {doubled} doubled, {again} not acknowledged and there again; \
         resident {} KiB at the first of {} samples, {} KiB at the last, {} KiB at most; \
         files of the logs {}, later {}; bytes of them {} MiB, later {} MiB",
        began.elapsed().as_secs_f64(),
        first.resident_kib,
        samples.len(),
        end.resident_kib,
        greatest(&samples, |sample| sample.resident_kib),
        first.files,
        end.files,
        first.bytes >> 20,
        end.bytes >> 20,
    );
    assert_eq!((lost, doubled), (0, 0), "each message comes once");
    broker.terminate();
}

#[test]
fn what_is_never_acknowledged_keeps_little_more_of_the_disk_than_its_bytes() {
    const BODY_BYTES: usize = 64 << 10;
    /// Few enough that a consumer does not acknowledge them before they are written.
    const BATCH: u64 = 100;
    /// What a log may have beside twice what is alive, and one that is being made and one that is being removed.
    const SEGMENTS_MAX: u64 = 8;
    const SEGMENTS_IN_PASSING: u64 = 2;
    let (total, segment_mib) = match std::env::var("HARRIER_UNSETTLED").is_ok_and(|size| size == "full") {
        true => (100_000_000_000, 64),
        false => (256 << 20, 4),
    };
    let folder = TestStateFolder::new("unsettled");
    let broker = StoredBroker::start(&folder, &["--segment-bytes", &format!("{segment_mib}MiB")]);
    let mut pair = Pair::new(&broker, BODY_BYTES);
    let properties = persistent();
    let batches = total / BODY_BYTES as u64 / BATCH;
    let began = now();
    let (mut bytes, mut most) = (0, 0);
    for batch in 0..batches {
        pair.exchange(BATCH, &properties);
        bytes = largest_log_bytes(&folder.path("log"));
        let live = pair.unsettled.len() as u64 * BODY_BYTES as u64;
        let allowed = 2 * live + (SEGMENTS_MAX + SEGMENTS_IN_PASSING) * (segment_mib << 20);
        assert!(bytes <= allowed, "{bytes} bytes for {live} alive, after {batch} batches");
        most = most.max(bytes);
    }
    println!(
        "{} MB passed in {:.0} s, {} MB are alive: their log has {} MB, and had {} MB at most",
        (batches * BATCH * BODY_BYTES as u64) / 1_000_000,
        began.elapsed().as_secs_f64(),
        pair.unsettled.len() * BODY_BYTES / 1_000_000,
        bytes / 1_000_000,
        most / 1_000_000,
    );
    let SoakedMessages { lost, doubled, .. } = pair.end(&broker);
    assert_eq!((lost, doubled), (0, 0), "each message comes once");
    broker.terminate();
}
