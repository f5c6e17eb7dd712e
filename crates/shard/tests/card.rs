//! A broker and clients over RDMA on this machine's device (in the lab, a software device).

mod fabric;

use client::{ClientError, ConsumeOptions, Publish};
use fabric::{FabricServer, PATIENCE, ServerPlan, body, consume, exchange, queue};
use shard::RdmaPoll;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use verbs::PortSettings;

/// Ports that no other test of this program has.
static NEXT_PORT: AtomicU16 = AtomicU16::new(20_100);

/// A place of the card, and none where there is no card: then the test is skipped, or fails if that must not be.
fn place(test: &str) -> Option<String> {
    match std::env::var("LAB_ADDRESS") {
        Ok(address) => Some(format!("{address}:{}", NEXT_PORT.fetch_add(1, Ordering::Relaxed))),
        Err(_) if std::env::var_os("LAB_MUST").is_some() => panic!("LAB_ADDRESS does not say where the card is"),
        Err(_) => {
            println!("SKIPPED: {test}: no LAB_ADDRESS says where a card is");
            None
        }
    }
}

/// Memory is short in the lab.
fn plan(shards: u16) -> ServerPlan {
    let settings = PortSettings { receive_buffers: 1_024, ..ServerPlan::default().settings };
    ServerPlan { shards, settings, ..ServerPlan::default() }
}

#[test]
fn messages_of_every_size_arrive_whole_and_in_order() {
    for (shards, poll) in [(1, RdmaPoll::Adaptive), (2, RdmaPoll::Event)] {
        let Some(place) = place("messages of every size") else { return };
        let world = FabricServer::on_card(&place, ServerPlan { poll, ..plan(shards) });
        let (mut publisher, mut consumer) = (world.connect(), world.connect());
        exchange(&mut publisher, &mut consumer, "q");
        exchange(&mut publisher, &mut world.connect_tcp(), "there");
        exchange(&mut world.connect_tcp(), &mut consumer, "back");
        publisher.close().expect("an orderly end");
        consumer.close().expect("an orderly end");
    }
}

#[test]
fn a_polled_client_is_woken_by_the_descriptors_of_its_device() {
    let Some(place) = place("a polled client") else { return };
    let world = FabricServer::on_card(&place, plan(1));
    let (mut client, mut other) = (world.connect(), world.connect_tcp());
    let channel = queue(&mut client, "q");
    client.consume(channel, "q", &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() }).expect("a consumer");
    let to = queue(&mut other, "q");
    let mut poll = mio::Poll::new().expect("a poll");
    client.register(poll.registry(), mio::Token(7)).expect("there are descriptors");
    let mut events = mio::Events::with_capacity(8);
    for round in 0..20 {
        let bytes = [10, 5_000, 70_000][round % 3];
        other.publish(to, &Publish::to("", "q"), &body(round, bytes)).expect("published");
        other.flush().expect("sent");
        let mut got = 0;
        while got == 0 {
            poll.poll(&mut events, Some(PATIENCE)).expect("polled");
            assert!(!events.is_empty(), "round {round}: the descriptors said nothing");
            let mut drained = false;
            while !drained {
                let dispatched = client.dispatch_now(|delivery, _| {
                    assert!(delivery.body() == body(round, bytes));
                    got += 1;
                    Ok(())
                });
                drained = dispatched.expect("whole").drained;
            }
        }
        assert_eq!(got, 1);
    }
}

#[test]
fn a_token_of_a_login_by_tcp_admits_a_client_and_nothing_else_does() {
    let Some(place) = place("tokens") else { return };
    let mut plan = plan(2);
    plan.settings.accepts_direct = false;
    let world = FabricServer::on_card(&place, plan);
    let port = world.tcp.rsplit_once(':').expect("a port").1;
    let refused = world.try_connect(&format!("amqp+rdma://{place}")).expect_err("no token").to_string();
    assert!(refused.contains("a token is needed"), "{refused}");
    // Where it logs in is another address of the same machine.
    let via = client::Url {
        via: Some(format!("127.0.0.1:{port}")),
        ..client::Url::parse(&format!("amqp+rdma://{place}")).expect("an address")
    };
    let connect = || client::Client::connect_with(&via, world.options()).expect("it logs in");
    let (mut publisher, mut consumer) = (connect(), connect());
    assert_eq!((publisher.transport(), consumer.transport()), ("rdma", "rdma"));
    exchange(&mut publisher, &mut consumer, "q");
}

#[test]
fn many_connections_work_at_once_and_are_closed_when_the_broker_stops() {
    let Some(place) = place("many connections") else { return };
    let world = FabricServer::on_card(&place, plan(2));
    let mut clients: Vec<_> = (0..30).map(|_| world.connect()).collect();
    let name = |at: usize| format!("q{}", at % 30);
    let mut channels = Vec::new();
    for (at, client) in clients.iter_mut().enumerate() {
        let channel = queue(client, &name(at));
        consume(client, channel, &name(at));
        channels.push(channel);
    }
    for (at, (client, channel)) in clients.iter_mut().zip(&channels).enumerate() {
        client.publish(*channel, &Publish::to("", &name(at + 1)), &body(at, 30_000)).expect("published");
        client.flush().expect("sent");
    }
    for (at, client) in clients.iter_mut().enumerate() {
        let delivery = client.next_delivery(PATIENCE).expect("whole").expect("a delivery");
        assert!(delivery.body() == body((at + 29) % 30, 30_000));
    }
    world.server().stop();
    for client in &mut clients {
        let told = loop {
            if let Err(error) = client.next_delivery(PATIENCE) {
                break error;
            }
        };
        assert!(matches!(told, ClientError::ConnectionClosed { code: 320, .. }), "{told}");
    }
    drop(clients);
    world.join();
}

#[test]
fn a_silent_client_is_disconnected_and_one_that_answers_pings_is_not() {
    let Some(place) = place("silence") else { return };
    let mut plan = plan(1);
    plan.poll = RdmaPoll::Event;
    plan.settings.ping_after = Duration::from_millis(300);
    plan.settings.silent_max = Duration::from_secs(20);
    let world = FabricServer::on_card(&place, plan);
    let mut client = world.connect();
    let channel = queue(&mut client, "q");
    // Asleep in a call the client answers what the broker asks it.
    assert!(client.next_delivery(Duration::from_secs(2)).expect("it lives").is_none());
    client.publish(channel, &Publish::to("", "q"), b"still here").expect("published");
    client.close().expect("an orderly end");
}
