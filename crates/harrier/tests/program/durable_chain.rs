//! A chain of brokers with state folders, each of which is killed in turn while messages are on their way: what its first
//! broker confirmed is in the durable queue at its end.

use super::federation::{done, links, named, runs, until_links, until_wanted};
use super::{BrokerProcess, TempFolder, wait_until};
use client::{Client, ClientChannel, Publish, QueueOptions};
use rustix::process::Signal;
use std::collections::BTreeSet;
use wire::{Properties, RawProperties, Table};

const NAMES: [&str; 3] = ["root", "middle", "leaf"];
const QUEUE: &str = "kept";
const EXCHANGE: &str = "amq.topic";
const KEY: &str = "k.n";
/// Messages between two kills, of which so many may be without a confirm at the kill.
const MESSAGES: u64 = 400;
const OPEN: u64 = 100;

struct Chain {
    places: [String; 3],
    /// They end before their folder is removed.
    brokers: [Option<BrokerProcess>; 3],
    folder: TempFolder,
}

impl Chain {
    /// Starts and joins the brokers, and binds a durable queue at the last one.
    fn start() -> Chain {
        let places = std::array::from_fn(|_| "127.0.0.1:0".to_owned());
        let mut chain = Chain { places, brokers: [None, None, None], folder: TempFolder::new("durable-chain") };
        (0..NAMES.len()).for_each(|broker| chain.start_one(broker));
        for below in 1..NAMES.len() {
            done(&["-d", "dynamic", "add", &chain.places[below], &chain.places[below - 1], EXCHANGE]);
        }
        let (mut client, channel) = chain.connect(2);
        let durable = QueueOptions { durable: true, ..QueueOptions::default() };
        client.declare_queue(channel, QUEUE, &durable).expect("a queue");
        client.bind_queue(channel, QUEUE, EXCHANGE, "k.#", &Table::new()).expect("a binding");
        client.close().expect("closed");
        until_wanted(&format!("amqp://{}", chain.places[0]), EXCHANGE, KEY, || chain.told());
        chain
    }

    fn start_one(&mut self, broker: usize) {
        let more = ["--segment-bytes", "4MiB"];
        let process = named(&self.folder, NAMES[broker], &self.places[broker], &more);
        self.places[broker].clone_from(&process.address);
        self.brokers[broker] = Some(process);
    }

    fn connect(&self, broker: usize) -> (Client, ClientChannel) {
        let mut client = Client::connect(&format!("amqp://{}", self.places[broker])).expect("connects");
        let channel = client.open_channel().expect("a channel");
        (client, channel)
    }

    fn kill(&mut self, broker: usize) {
        let process = self.brokers[broker].take().expect("it runs");
        process.signal(Signal::KILL);
        assert_eq!(process.end().0, None, "it was killed");
    }

    fn until_joined(&self) {
        for below in &self.places[1..] {
            until_links(below, "the link runs", |links| links.len() == 1 && runs(&links[0]));
        }
    }

    fn told(&self) -> String {
        format!("{:#?}\n{:#?}", links(&self.places[1]), links(&self.places[2]))
    }
}

/// Publishes persistent numbers at the first broker, and kills one if it is told to. Returns those that were confirmed.
fn publish(chain: &mut Chain, first: u64, victim: Option<usize>) -> std::ops::Range<u64> {
    let (mut client, channel) = chain.connect(0);
    client.confirm_select(channel).expect("confirms");
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to(EXCHANGE, KEY) };
    for number in first..first + MESSAGES {
        client.publish(channel, &to, &number.to_le_bytes()).expect("published");
    }
    if let Some(victim) = victim {
        client.wait_confirms(channel, OPEN).expect("confirmed");
        chain.kill(victim);
    }
    if client.wait_confirms(channel, 0).is_err() {
        assert_eq!(victim, Some(0), "the first broker runs");
    }
    let refused = client.take_refused(channel).unwrap_or_default();
    assert!(refused.is_empty(), "nothing is refused: {refused:?}");
    first..first + client.confirmed_up_to(channel)
}

/// Takes the messages that the queue has: their numbers, in their order.
fn take(client: &mut Client, channel: ClientChannel, numbers: &mut Vec<u64>) {
    while let Some(message) = client.get(channel, QUEUE, false).expect("a queue") {
        client.ack(channel, message.delivery_tag, false).expect("acknowledged");
        // Others are those that looked for the way.
        numbers.extend(message.body().try_into().map(u64::from_le_bytes));
    }
}

/// Kills of each broker, unless `HARRIER_CHAIN_KILLS` says otherwise.
const KILLS: u64 = 1;

#[test]
fn a_durable_chain_loses_nothing_when_each_of_its_brokers_is_killed() {
    let kills = std::env::var("HARRIER_CHAIN_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let mut chain = Chain::start();
    let mut confirmed = BTreeSet::new();
    let mut next = 1;
    for victim in (0..kills).flat_map(|_| [1, 0, 2]) {
        confirmed.extend(publish(&mut chain, next, Some(victim)));
        next += MESSAGES;
        chain.start_one(victim);
        chain.until_joined();
    }
    let undisturbed = publish(&mut chain, next, None);
    confirmed.extend(undisturbed.clone());
    assert!(confirmed.len() as u64 >= 3 * kills * (MESSAGES - OPEN) + MESSAGES, "{} are confirmed", confirmed.len());
    let (mut client, channel) = chain.connect(2);
    let mut found = Vec::new();
    wait_until(
        "what was confirmed",
        || {
            take(&mut client, channel, &mut found);
            confirmed.iter().all(|number| found.contains(number))
        },
        || chain.told(),
    );
    let numbers: BTreeSet<u64> = found.iter().copied().collect();
    println!("{} confirmed, {} there, {} of them twice", confirmed.len(), numbers.len(), found.len() - numbers.len());
    assert!(numbers.last().is_some_and(|last| *last < undisturbed.end), "nobody has published others");
    // What is on its way when a broker dies is sent again; nothing else is.
    let undisturbed_found = found.iter().copied().filter(|number| undisturbed.contains(number));
    assert!(undisturbed_found.eq(undisturbed.clone()), "once and in order");
}
