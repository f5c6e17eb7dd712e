//! Shovels whose brokers are killed while messages are on their way: what the source had confirmed arrives, twice at worst.

use super::management::ApiBroker;
use super::upstreams::ApiHost;
use super::{TempFolder, wait_until};
use client::{Client, ClientChannel, Publish, QueueOptions};
use rustix::process::Signal;
use serde_json::json;
use std::collections::BTreeSet;
use wire::{Properties, RawProperties};

const SOURCE: &str = "from";
const DESTINATION: &str = "to";
const MESSAGES: u64 = 6_000;
/// So many more have arrived at the destination when a broker is killed.
const BETWEEN_KILLS: u64 = 300;

fn connect(broker: &ApiBroker) -> (Client, ClientChannel) {
    let mut client = broker.client();
    let channel = client.open_channel().expect("a channel");
    (client, channel)
}

/// Fills the source's queue with persistent numbers that are all confirmed.
fn fill(broker: &ApiBroker) {
    let (mut client, channel) = connect(broker);
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.declare_queue(channel, SOURCE, &durable).expect("declared");
    client.confirm_select(channel).expect("confirms");
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", SOURCE) };
    for number in 0..MESSAGES {
        client.publish(channel, &to, &number.to_le_bytes()).expect("published");
    }
    client.wait_confirms(channel, 0).expect("confirmed");
    let refused = client.take_refused(channel).expect("a channel");
    assert!(refused.is_empty(), "nothing is refused: {refused:?}");
}

/// Messages that wait in a queue, if it is there yet.
fn waiting(broker: &ApiBroker, queue: &str) -> Option<u64> {
    let (mut client, channel) = connect(broker);
    let passive = QueueOptions { passive: true, durable: true, ..QueueOptions::default() };
    client.declare_queue(channel, queue, &passive).ok().map(|found| found.messages.into())
}

fn kill(broker: ApiBroker) {
    broker.process.signal(Signal::KILL);
    assert_eq!(broker.process.end().0, None, "it was killed");
}

/// Takes all messages that a queue has, once what it had confirmed at the source is among them. Returns how many came twice.
fn check_all_arrive(broker: &ApiBroker) -> usize {
    let (mut client, channel) = connect(broker);
    let (mut found, mut count) = (BTreeSet::new(), 0);
    let mut take = || {
        while let Some(message) = client.get(channel, DESTINATION, false).expect("a queue") {
            client.ack(channel, message.delivery_tag, false).expect("acknowledged");
            found.insert(u64::from_le_bytes(message.body().try_into().expect("a number")));
            count += 1;
        }
        found.len() as u64 == MESSAGES
    };
    wait_until("all messages", &mut take, || "some are lost".to_owned());
    assert_eq!((found.first(), found.last()), (Some(&0), Some(&(MESSAGES - 1))), "and no others");
    count - found.len()
}

/// Has a shovel of `owner` move messages, and kills each broker in turn while it does.
fn survives(name: &str, is_pushed: bool) {
    let folder = TempFolder::new(name);
    let (mut near, mut far) = (ApiHost::new(&folder, "near"), ApiHost::new(&folder, "far"));
    let mut owner = Some(near.start());
    let mut other = Some(far.start());
    fn of(broker: &Option<ApiBroker>) -> &ApiBroker {
        broker.as_ref().expect("it runs")
    }
    let (src, dest) = if is_pushed { ("amqp://".to_owned(), far.url()) } else { (far.url(), "amqp://".to_owned()) };
    fill(of(if is_pushed { &owner } else { &other }));
    let shovel = json!({"value": {"src-uri": src, "src-queue": SOURCE, "dest-uri": dest, "dest-queue": DESTINATION,
                                  "ack-mode": "on-confirm", "src-prefetch-count": 10, "reconnect-delay": 0.2}});
    of(&owner).done("PUT", "/api/parameters/shovel/%2F/s", &shovel);
    let mut wanted = 0;
    for is_owner in [true, false, true] {
        wanted += BETWEEN_KILLS;
        let destination = of(if is_pushed { &other } else { &owner });
        let mut there = 0;
        let arrived = || {
            there = waiting(destination, DESTINATION).unwrap_or_default();
            there >= wanted
        };
        wait_until("some messages have arrived", arrived, || destination.get("/api/shovels").body);
        assert!(there < MESSAGES, "the shovel is at work");
        if is_owner {
            kill(owner.take().expect("it runs"));
            owner = Some(near.start());
        } else {
            kill(other.take().expect("it runs"));
            other = Some(far.start());
        }
    }
    let (source, destination) = if is_pushed { (of(&owner), of(&other)) } else { (of(&other), of(&owner)) };
    let doubled = check_all_arrive(destination);
    println!("{name}: {doubled} of {MESSAGES} came twice");
    // What was acknowledged to the source is gone there.
    wait_until("the source is empty", || waiting(source, SOURCE) == Some(0), || source.get("/api/shovels").body);
}

#[test]
fn a_pulling_shovel_loses_nothing_when_either_broker_is_killed() {
    survives("killed-pulling-shovel", false);
}

#[test]
fn a_pushing_shovel_loses_nothing_when_either_broker_is_killed() {
    survives("killed-pushing-shovel", true);
}
