//! Brokers that pull from and push to one another over a simulated fabric, by the RDMA ports of their shards.

#[expect(dead_code, reason = "others dial by sockets")]
mod brokers;

use brokers::{PATIENCE, TestBroker, bound, eventually, publish, pull};
use client::Client;
use federation::{AckMode, FederationCommand, LinkSpec, LinkState, RouteDirection, RouteKind, RouteSpec};
use std::time::{Duration, Instant};
use verbs::sim::{Fabric, FabricOptions};

const ROOT: &str = "127.0.0.1:7001";
const MIDDLE: &str = "127.0.0.1:7002";

fn fabric() -> Fabric {
    Fabric::real_time(&FabricOptions::faultless())
}

fn expect(client: &mut Client, key: &str, rounds: u32) {
    for round in 0..rounds {
        let delivery = client.next_delivery(PATIENCE).expect("a connection");
        let delivery = delivery.unwrap_or_else(|| panic!("{round} of {rounds} came"));
        assert_eq!(delivery.body(), format!("{key} {round}").as_bytes());
    }
}

/// A broker that does not listen over RDMA opens a port of its own for what it dials, one that listens uses that.
#[test]
fn three_brokers_in_a_row_forward_what_the_last_one_has_bound() {
    for (shards, ack) in [(1, AckMode::Confirm), (2, AckMode::Confirm), (2, AckMode::None)] {
        let fabric = fabric();
        let root = TestBroker::start_over(&fabric, "root", shards, Some(ROOT));
        let middle = TestBroker::start_over(&fabric, "middle", shards, Some(MIDDLE));
        let leaf = TestBroker::start_over(&fabric, "leaf", shards, None);
        let brokers = [&root, &middle, &leaf];
        brokers.iter().for_each(|broker| broker.declare("trades", "direct"));
        let (mut consumer, _) = bound(&leaf, "trades", "key");
        let before = fabric.devices();
        middle.route(&root, RouteSpec { ack, ..pull("trades", RouteKind::Dynamic) });
        assert_eq!(fabric.devices(), before, "a broker that listens has a port there already");
        leaf.route(&middle, RouteSpec { ack, ..pull("trades", RouteKind::Dynamic) });
        assert_eq!(fabric.devices(), before + 1, "one that does not opens one");
        for broker in [&middle, &leaf] {
            assert_eq!(broker.links()[0].transport, "rdma");
        }
        eventually("the root knows", || wanted(&root), String::new);
        publish(&root, "trades", &["key"], 1_000);
        expect(&mut consumer, "key", 1_000);
        leaf.until("all is acknowledged", |links| links[0].routes[0].unacknowledged == 0);
        // A second link over the same card is a second connection of the same port.
        leaf.route(&root, RouteSpec { ack, ..pull("trades", RouteKind::Static { key: "other".into() }) });
        assert!(fabric.devices() <= before + usize::from(shards), "a shard opens one port");
        drop(consumer);
        [leaf, middle, root].into_iter().for_each(TestBroker::stop);
    }
}

fn wanted(root: &TestBroker) -> bool {
    let look = |catalog: &catalog::Catalog| {
        let vhost = catalog.vhost_by_name("/").expect("it is there");
        let exchange = catalog.exchange(vhost, b"trades").expect("it is there");
        catalog.bindings_from(exchange).next().is_some()
    };
    root.server.admin().with_catalog(look).expect("it runs")
}

/// A source and a destination that both have the exchange.
fn two(fabric: &Fabric) -> (TestBroker, TestBroker) {
    let source = TestBroker::start_over(fabric, "source", 1, Some(ROOT));
    let destination = TestBroker::start_over(fabric, "destination", 1, Some(MIDDLE));
    [&source, &destination].into_iter().for_each(|broker| broker.declare("trades", "fanout"));
    (source, destination)
}

#[test]
fn large_bodies_are_pulled_and_pushed_whole() {
    for direction in [RouteDirection::Pull, RouteDirection::Push] {
        let fabric = fabric();
        let (source, destination) = two(&fabric);
        let (mut consumer, _) = bound(&destination, "trades", "");
        let (here, there) = match direction {
            RouteDirection::Pull => (&destination, &source),
            RouteDirection::Push => (&source, &destination),
        };
        here.route(there, RouteSpec { direction, ..pull("trades", RouteKind::Static { key: "".into() }) });
        let (mut client, channel) = source.client();
        for bytes in [0, 1, 4_096, 65_536, 1 << 20] {
            let body: Vec<u8> = (0..bytes).map(|at: usize| (at * 7 + (at >> 8)) as u8).collect();
            client.publish(channel, &client::Publish::to("trades", ""), &body).expect("published");
            client.flush().expect("sent");
            let message = consumer.next_delivery(PATIENCE).expect("a connection").expect("a message");
            assert!(message.body() == body, "{bytes} bytes came changed");
        }
        drop((client, consumer));
        [destination, source].into_iter().for_each(TestBroker::stop);
    }
}

/// So many at once that acknowledgements have to wait for room on the link, and for being told of it.
#[test]
fn many_large_bodies_at_once_are_pulled_whole() {
    for ack in [AckMode::Confirm, AckMode::None] {
        let fabric = fabric();
        let (source, destination) = two(&fabric);
        let (mut consumer, _) = bound(&destination, "trades", "");
        destination.route(&source, RouteSpec { ack, credit: 1_000, ..pull("trades", RouteKind::Dynamic) });
        let (mut client, channel) = source.client();
        const MANY: usize = 1_500;
        let body = vec![7; 65_536];
        for _ in 0..MANY {
            client.publish(channel, &client::Publish::to("trades", ""), &body).expect("published");
        }
        client.flush().expect("sent");
        for number in 0..MANY {
            let message = consumer.next_delivery(PATIENCE).expect("a connection");
            let message = message.unwrap_or_else(|| panic!("{number} of {MANY} came: {:#?}", destination.links()));
            assert!(message.body() == body, "{number} came changed");
        }
        drop((client, consumer));
        [destination, source].into_iter().for_each(TestBroker::stop);
    }
}

#[test]
fn a_source_that_stops_is_reported_and_dialled_again() {
    let fabric = fabric();
    let leaf = TestBroker::start_over(&fabric, "leaf", 2, None);
    leaf.declare("trades", "direct");
    let root = TestBroker::start_over(&fabric, "root", 1, Some(ROOT));
    root.declare("trades", "direct");
    let (mut consumer, _) = bound(&leaf, "trades", "key");
    let key = leaf.key(&root);
    leaf.route(&root, pull("trades", RouteKind::Dynamic));
    publish(&root, "trades", &["key"], 100);
    expect(&mut consumer, "key", 100);
    root.stop();
    leaf.until("it is told why", |links| {
        let error = links[0].last_error.as_deref().unwrap_or_default();
        matches!(links[0].state, LinkState::BackingOff { .. }) && error.contains("nobody listens there")
    });
    let devices = fabric.devices();
    let root = TestBroker::start_over(&fabric, "root", 1, Some(ROOT));
    leaf.until("the link is up", |links| links[0].routes[0].is_running);
    assert_eq!(fabric.devices(), devices + 1, "the root's new one; the leaf has its port still");
    publish(&root, "trades", &["key"], 100);
    expect(&mut consumer, "key", 100);
    assert_eq!(leaf.links()[0].connections, 2, "tries are no connections");
    leaf.server.admin().change_links(FederationCommand::RemoveLink(key)).expect("taken");
    assert!(leaf.links().is_empty());
    drop(consumer);
    [leaf, root].into_iter().for_each(TestBroker::stop);
}

/// A broker that is to end asks nobody any more, and waits for no answer.
#[test]
fn a_broker_that_stops_does_not_wait_for_pending_dials() {
    let fabric = fabric();
    let leaf = TestBroker::start_over(&fabric, "leaf", 1, None);
    leaf.declare("trades", "direct");
    // Somebody who listens there and answers nothing.
    let mut silent = fabric.device();
    verbs::device::Device::listen(&mut silent, ROOT).expect("a free place");
    let url = format!("amqp+rdma://guest:guest@{ROOT}/%2F");
    let key = federation::LinkKey::of_operator("/".into(), ROOT.into());
    let link = LinkSpec {
        key: key.clone(),
        url: url.into(),
        user: "guest".into(),
        durable: false,
        options: Default::default(),
    };
    let admin = leaf.server.admin();
    admin.change_links(FederationCommand::AddLink(link)).expect("taken");
    admin.change_links(FederationCommand::AddRoute(key, pull("trades", RouteKind::Dynamic))).expect("taken");
    let mut events = Vec::new();
    let mut asked = || {
        let time = verbs::device::Device::now(&silent);
        verbs::device::Device::events(&mut silent, time, &mut events).expect("whole");
        !events.is_empty()
    };
    eventually("it asks", &mut asked, String::new);
    let began = now();
    leaf.stop();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}: as long as a connection may take", began.elapsed());
}

#[expect(clippy::disallowed_methods, reason = "a test that waits must know how long it has")]
fn now() -> Instant {
    Instant::now()
}
