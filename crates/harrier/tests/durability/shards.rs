//! Another number of shards at each start: nothing is lost, nothing is there twice, and the order stays.

use super::broker::{StoredBroker, TestStateFolder};
use super::ledger::Ledger;
use super::traffic::Traffic;
use super::verification::verify;
use super::{PATIENCE, check_store, number_of};
use client::{Client, ClientChannel, ConsumeOptions, ExchangeOptions, Publish, QueueOptions};
use splitmix::SplitMix64;
use wire::{Properties, RawProperties, Table, Value};

/// Enough for every shard to have several.
const QUEUES: u32 = 24;
/// Messages of each queue and life.
const MESSAGES: u32 = 20;
/// The exchange that delays, and the queue behind it.
const LATER: &str = "later";
/// Longer than a life takes on an idle machine, so that messages are delayed over several.
const DELAY_MS: i64 = 5_000;
/// Connections that have messages delayed, each on a shard of its own where there are enough.
const DELAYING_CONNECTIONS: u32 = 5;

fn queue(number: u32) -> String {
    format!("orders.{number}")
}

fn declare(client: &mut Client, channel: ClientChannel) {
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    let arguments = Table::new().with("x-delayed-type", Value::text("fanout")).expect("short");
    let delayed = ExchangeOptions { durable: true, arguments, ..ExchangeOptions::default() };
    client.declare_exchange(channel, LATER, "x-delayed-message", &delayed).expect("an exchange");
    for number in 0..QUEUES {
        client.declare_queue(channel, &queue(number), &durable).expect("a queue");
    }
    client.declare_queue(channel, LATER, &durable).expect("a queue");
    client.bind_queue(channel, LATER, LATER, "", &Table::new()).expect("bound");
}

/// Publishes what a life has to say, and waits for the confirms.
fn publish(broker: &StoredBroker, life: u32) {
    let (mut client, channel) = broker.connect();
    client.confirm_select(channel).expect("confirms");
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    for (number, message) in (0..QUEUES).flat_map(|number| (0..MESSAGES).map(move |message| (number, message))) {
        let name = queue(number);
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", &name) };
        let body = [number, life * MESSAGES + message].map(u32::to_le_bytes).concat();
        client.publish(channel, &to, &body).expect("published");
    }
    assert_eq!(client.wait_confirms(channel, 0).expect("confirms"), 0);
    let headers = Table::new().with("x-delay", Value::I64(DELAY_MS)).expect("short");
    let properties = Properties { delivery_mode: Some(2), headers: Some(headers), ..Properties::default() }.to_bytes();
    for connection in 0..DELAYING_CONNECTIONS {
        let (mut client, channel) = broker.connect();
        client.confirm_select(channel).expect("confirms");
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to(LATER, "") };
        let body = (life * DELAYING_CONNECTIONS + connection).to_le_bytes();
        client.publish(channel, &to, &body).expect("published");
        assert_eq!(client.wait_confirms(channel, 0).expect("confirms"), 0);
    }
}

/// Takes the first message of each queue, and gives none back.
fn take_first(broker: &StoredBroker) {
    let (mut client, channel) = broker.connect();
    for number in 0..QUEUES {
        client.get(channel, &queue(number), false).expect("an answer").expect("a message");
    }
}

fn number_of_body(body: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"))
}

#[test]
fn each_start_may_have_another_number_of_shards() {
    let folder = TestStateFolder::new("shards");
    let lives = ["4", "1", "3", "5"];
    for (life, shards) in (0..).zip(lives) {
        let broker = StoredBroker::start(&folder, &["--shards", shards]);
        assert_eq!(broker.start_log.contains("the store is written anew"), life > 0, "{}", broker.start_log);
        if life == 0 {
            let (mut client, channel) = broker.connect();
            declare(&mut client, channel);
        }
        publish(&broker, life);
        if life == 0 {
            take_first(&broker);
            // That they were handed out is durable a tenth of a second later; a clean end waits for it.
            broker.terminate();
        } else {
            broker.kill();
        }
        check_store(&folder);
    }
    // Without a number the broker has as many as before.
    let broker = StoredBroker::start(&folder, &["--shards", "0"]);
    assert!(broker.start_log.contains("\"shards\":5"), "{}", broker.start_log);
    let (mut client, channel) = broker.connect();
    let lives = lives.len() as u32;
    for number in 0..QUEUES {
        for expected in 0..lives * MESSAGES {
            let message = client.get(channel, &queue(number), true).expect("an answer").expect("a message");
            let found = (number_of_body(message.body(), 0), number_of_body(message.body(), 4));
            assert_eq!((found, message.redelivered), ((number, expected), expected == 0), "{}", queue(number));
        }
        assert!(client.get(channel, &queue(number), true).expect("an answer").is_none(), "{}", queue(number));
    }
    let options = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
    client.consume(channel, LATER, &options).expect("a consumer");
    let mut found: Vec<u32> = Vec::new();
    while found.len() < (lives * DELAYING_CONNECTIONS) as usize {
        let delivery = client.next_delivery(PATIENCE).expect("a broker that runs").expect("a delayed message");
        found.push(number_of_body(delivery.body(), 0));
    }
    found.sort_unstable();
    assert_eq!(found, (0..lives * DELAYING_CONNECTIONS).collect::<Vec<_>>());
    client.close().expect("closed");
    broker.terminate();
}

/// How far a store is on its way to be written anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Begun,
    LogsBegun,
    DefinitionsBegun,
    Replaced,
    Done,
}

pub const STAGES: [Stage; 5] = [Stage::Begun, Stage::LogsBegun, Stage::DefinitionsBegun, Stage::Replaced, Stage::Done];

/// Whether a store that had these folders has come so far.
pub fn has_reached(folder: &TestStateFolder, stage: Stage, before: &str) -> bool {
    let text = folder.text("store.toml");
    let is_replaced = line(&text, "log_folder") != line(before, "log_folder");
    let number = line(before, "log_folder").rsplit_once('-').map_or(1, |(_, number)| number.parse().expect("a number"));
    let has_segment = |name: &str| {
        let files = std::fs::read_dir(folder.path(&format!("{name}-{}", number + 1)));
        files.is_ok_and(|mut files| files.next().is_some())
    };
    match stage {
        Stage::Begun => text.contains("unused_folders = [\""),
        Stage::LogsBegun => has_segment("log"),
        Stage::DefinitionsBegun => has_segment("definitions"),
        Stage::Replaced => is_replaced,
        Stage::Done => is_replaced && text.contains("unused_folders = []"),
    }
}

/// The value of a key in a file of lines.
pub fn line<'a>(text: &'a str, key: &str) -> &'a str {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    value.unwrap_or_default().trim_matches('"')
}

#[test]
fn a_kill_while_the_number_of_shards_changes_loses_nothing() {
    let first = number_of("HARRIER_SEED", 1);
    let folder = TestStateFolder::new("shards-killed");
    let mut ledger = Ledger::default();
    ledger.letters.moves_shards = true;
    let mut interrupted = 0;
    let kills = number_of("HARRIER_KILLS", 2 * STAGES.len() as u64);
    for (seed, stage) in (first..first + kills).zip(STAGES.into_iter().cycle()) {
        let mut random = SplitMix64::new(seed);
        let before = folder.text("store.toml");
        let logs: u64 = line(&before, "logs").parse().unwrap_or(2);
        let shards = ((logs + random.below(4)) % 5 + 1).to_string();
        if !before.is_empty() {
            ledger.letters.start();
            let is_reached = || has_reached(&folder, stage, &before);
            interrupted += u64::from(StoredBroker::kill_when(&folder, &["--shards", &shards], is_reached));
            check_store(&folder);
        }
        // With the old number, with the new one, or yet another.
        let next = [logs.to_string(), shards, (1 + random.below(5)).to_string()];
        let broker = StoredBroker::start(&folder, &["--shards", &next[random.below(3) as usize]]);
        verify(&broker, &mut ledger, &mut random).unwrap_or_else(|why| panic!("kill {seed} when {stage:?}: {why}"));
        let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, seed).expect("a broker that runs");
        traffic.run_until(60).expect("a broker that runs");
        traffic.kill_at_a_commit(broker);
        println!("seed {seed}, {stage:?}: {}", traffic.end());
        check_store(&folder);
    }
    assert!(interrupted * 2 >= kills - 1, "{interrupted} of {kills} were interrupted");
}
