//! A broker and clients over RDMA, from the first byte to the last, on simulated devices.

mod fabric;

use catalog::{SessionId, ShardId};
use client::{CarrierPass, Client, ClientError, ConsumeOptions, Publish, Url, Value};
use fabric::{ADDRESSES, FabricServer, PATIENCE, PLACE, ServerPlan, body, consume, exchange, queue};
use link::RdmaUsage;
use session::limits::{BODY_FRAME_BYTES_MAX, FRAME_BYTES_MAX};
use shard::{BrokerStartError, RdmaListen, RdmaPoll};
use std::collections::HashMap;
use std::time::Duration;
use verbs::sim::{Fabric, FabricOptions};
use verbs::{PortSettings, RdmaToken, StandaloneLink};

#[test]
fn messages_of_every_size_arrive_whole_and_in_order() {
    for (shards, poll) in [(1, RdmaPoll::Adaptive), (2, RdmaPoll::Event), (2, RdmaPoll::Busy)] {
        let world = FabricServer::new(ServerPlan { shards, poll, ..ServerPlan::default() });
        let (mut publisher, mut consumer) = (world.connect(), world.connect());
        exchange(&mut publisher, &mut consumer, "q");
        publisher.close().expect("an orderly end");
        consumer.close().expect("an orderly end");
    }
}

#[test]
fn messages_arrive_whole_with_other_rendezvous_thresholds() {
    for threshold in [1_000, 1 << 24] {
        let settings = PortSettings { rendezvous_threshold_bytes: threshold, ..ServerPlan::default().settings };
        let world = FabricServer::new(ServerPlan { settings, ..ServerPlan::default() });
        exchange(&mut world.connect(), &mut world.connect(), "q");
    }
}

#[test]
fn clients_by_tcp_and_over_rdma_share_a_queue() {
    for shards in [1, 2] {
        let world = FabricServer::new(ServerPlan { shards, ..ServerPlan::default() });
        exchange(&mut world.connect(), &mut world.connect_tcp(), "there");
        exchange(&mut world.connect_tcp(), &mut world.connect(), "back");
    }
}

#[test]
fn frames_of_bodies_are_larger_over_rdma_than_over_tcp() {
    let world = FabricServer::new(ServerPlan::default());
    let port = world.tcp.rsplit_once(':').expect("a port").1;
    let upgraded = world.try_connect(&format!("{}?via=tcp:{port}", ADDRESSES[0])).expect("a connection");
    assert_eq!(upgraded.transport(), "rdma");
    let clients = [world.connect(), upgraded, world.connect_tcp()];
    let settled = clients.each_ref().map(|client| client.tuning().frame_bytes_max);
    assert_eq!(settled, [BODY_FRAME_BYTES_MAX, BODY_FRAME_BYTES_MAX, FRAME_BYTES_MAX]);
    // One that wants less gets it, and longer bodies come in several.
    let mut options = world.options();
    options.rdma.frame_bytes_max = 200_000;
    let url = Url::parse(ADDRESSES[0]).expect("an address");
    let mut modest = Client::connect_with(&url, options).expect("a connection");
    assert_eq!(modest.tuning().frame_bytes_max, 200_000);
    let [mut publisher, ..] = clients;
    exchange(&mut publisher, &mut modest, "to");
    exchange(&mut modest, &mut publisher, "from");
}

/// Asks for reports until what is known of the connections is as wanted.
fn until_told(world: &FabricServer, known: &mut Known, what: &str, is_so: impl Fn(&Known) -> bool) {
    for _ in 0..ROUNDS_MAX {
        loop {
            let report = world.server().admin().report(ShardId(0)).expect("it runs");
            for connection in report.connections.changed {
                known.insert(connection.id, connection.rdma.expect("it is over RDMA"));
            }
            if !report.more {
                break;
            }
        }
        if is_so(known) {
            return;
        }
    }
    panic!("{what}: {known:?}");
}

type Known = HashMap<SessionId, RdmaUsage>;
/// Each takes a tick of the shard at least: far more than anything takes.
const ROUNDS_MAX: usize = 1_000_000;

#[test]
fn credits_and_rendezvous_are_told_as_they_come_and_go() {
    const LARGE: usize = 300_001;
    let world = FabricServer::new(ServerPlan::default());
    let (mut publisher, mut consumer) = (world.connect(), world.connect());
    let to = queue(&mut publisher, "q");
    let from = queue(&mut consumer, "q");
    consume(&mut consumer, from, "q");
    let mut known = Known::default();
    until_told(&world, &mut known, "two connections", |known| known.len() == 2);
    assert!(known.values().all(|usage| usage.credits_granted > 0 && usage.credits_left <= usage.credits_granted));
    assert!(known.values().all(|usage| !usage.is_pending() && usage.offered_bytes == 0), "{known:?}");
    publisher.publish(to, &Publish::to("", "q"), &body(1, LARGE)).expect("published");
    publisher.flush().expect("sent");
    // The consumer's program does something else: its card is not told to read what it is offered.
    let offered = |usage: &RdmaUsage| usage.grants == 1 && usage.granted_bytes >= LARGE;
    until_told(&world, &mut known, "an offer", |known| known.values().any(offered));
    let delivery = consumer.next_delivery(PATIENCE).expect("whole").expect("a delivery");
    assert!(delivery.body() == body(1, LARGE));
    // That it has read the body moves no byte of the stream.
    until_told(&world, &mut known, "the end of the offer", |known| known.values().all(|usage| !usage.is_pending()));
    let most = |of: fn(&RdmaUsage) -> u64| known.values().map(of).max();
    assert!(most(|usage| usage.offered_bytes) >= Some(LARGE as u64), "{known:?}");
    assert!(most(|usage| usage.read_bytes) >= Some(LARGE as u64), "{known:?}");
}

#[test]
fn fifty_connections_work_at_once() {
    let world = FabricServer::new(ServerPlan { shards: 2, ..ServerPlan::default() });
    let mut clients: Vec<_> = (0..50).map(|_| world.connect()).collect();
    let channels: Vec<_> =
        clients.iter_mut().enumerate().map(|(at, client)| queue(client, &format!("q{at}"))).collect();
    for (at, (client, channel)) in clients.iter_mut().zip(&channels).enumerate() {
        consume(client, *channel, &format!("q{at}"));
    }
    for round in 0..4 {
        for (at, (client, channel)) in clients.iter_mut().zip(&channels).enumerate() {
            let to = format!("q{}", (at + 1) % 50);
            client.publish(*channel, &Publish::to("", &to), &body(at, 100 << round)).expect("published");
            client.flush().expect("sent");
        }
    }
    for (at, client) in clients.iter_mut().enumerate() {
        for round in 0..4 {
            let delivery = client.next_delivery(PATIENCE).expect("whole").expect("a delivery");
            assert!(delivery.body() == body((at + 49) % 50, 100 << round));
        }
    }
    clients.into_iter().for_each(|client| client.close().expect("an orderly end"));
}

#[test]
fn a_polled_client_is_woken_by_the_descriptors_of_its_device() {
    let world = FabricServer::new(ServerPlan::default());
    let (mut client, mut other) = (world.connect(), world.connect());
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
        loop {
            loop {
                let dispatched = client.dispatch_now(|delivery, _| {
                    assert!(delivery.body() == body(round, bytes));
                    got += 1;
                    Ok(())
                });
                // The other one is served by its calls: what it has sent may wait for them.
                other.keep_alive().expect("whole");
                if dispatched.expect("whole").drained {
                    break;
                }
            }
            if got > 0 {
                break;
            }
            poll.poll(&mut events, Some(Duration::from_millis(100))).expect("polled");
        }
        assert_eq!(got, 1);
    }
}

#[test]
fn a_polled_publisher_that_was_blocked_is_woken_when_it_may_send() {
    for threshold in [16 * 1_024, 1 << 24] {
        let settings = PortSettings { rendezvous_threshold_bytes: threshold, ..ServerPlan::default().settings };
        let world = FabricServer::new(ServerPlan { settings, poll: RdmaPoll::Event, ..ServerPlan::default() });
        let (mut publisher, mut consumer) = (world.connect(), world.connect_tcp());
        let to = queue(&mut publisher, "q");
        publisher.confirm_select(to).expect("confirms");
        let mut poll = mio::Poll::new().expect("a poll");
        publisher.register(poll.registry(), mio::Token(0)).expect("there are descriptors");
        let mut events = mio::Events::with_capacity(8);
        let (count, bytes) = (400, 40_000);
        let mut sent = 0;
        while sent < count || publisher.outstanding(to) > 0 {
            while sent < count && publisher.unsent_bytes() < 100_000 {
                publisher.publish(to, &Publish::to("", "q"), &body(sent, bytes)).expect("published");
                sent += 1;
                publisher.flush_now().expect("whole");
            }
            poll.poll(&mut events, Some(PATIENCE)).expect("polled");
            assert!(!events.is_empty(), "{sent} sent, {} not confirmed: nobody woke it", publisher.outstanding(to));
            while !publisher.dispatch_now(|_, _| Ok(())).expect("whole").drained {}
        }
        let from = queue(&mut consumer, "q");
        consumer.consume(from, "q", &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() }).expect("a consumer");
        for number in 0..count {
            let delivery = consumer.next_delivery(PATIENCE).expect("whole").expect("a delivery");
            assert!(delivery.body() == body(number, bytes), "message {number}");
        }
    }
}

#[test]
fn one_connection_too_many_is_refused() {
    let world = FabricServer::new(ServerPlan { connections_max: 2, ..ServerPlan::default() });
    let (first, tcp) = (world.connect(), world.connect_tcp());
    let refused = world.try_connect(ADDRESSES[0]).expect_err("there are two");
    assert!(matches!(refused, ClientError::Link(_) | ClientError::Closed), "{refused}");
    drop(tcp);
    first.close().expect("an orderly end");
    // Both places become free, as soon as the broker has heard of it.
    for _ in 0..2 {
        until("a place is free", || world.try_connect(ADDRESSES[0]).is_ok());
    }
}

/// Tries until something holds: each try is a call that takes its time.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
    }
    panic!("not in time: {what}");
}

#[test]
fn a_device_that_breaks_ends_its_connections_and_no_others() {
    let world = FabricServer::new(ServerPlan { addresses: 2, ..ServerPlan::default() });
    let mut doomed = world.connect();
    let channel = queue(&mut doomed, "q");
    consume(&mut doomed, channel, "q");
    let (mut other, mut tcp) = (world.try_connect(ADDRESSES[1]).expect("a connection"), world.connect_tcp());
    exchange(&mut other, &mut tcp, "before");
    // The first address has the first device.
    world.fabric.break_nth(0);
    let broken = until_broken(&mut doomed);
    assert!(matches!(broken, ClientError::Link(_)), "{broken}");
    exchange(&mut other, &mut tcp, "after");
    // The queue lost its consumer, so another gets what is sent to it.
    let to = queue(&mut tcp, "q");
    tcp.publish(to, &Publish::to("", "q"), b"anybody?").expect("published");
    tcp.flush().expect("sent");
    let again = queue(&mut other, "q");
    consume(&mut other, again, "q");
    assert_eq!(other.next_delivery(PATIENCE).expect("whole").expect("a delivery").body(), b"anybody?");
    assert!(world.server().is_running());
}

fn until_broken(client: &mut Client) -> ClientError {
    let channel = client.open_channel();
    match channel {
        Err(error) => error,
        Ok(_) => panic!("nobody can have answered"),
    }
}

#[test]
fn a_client_that_vanished_is_disconnected() {
    let settings = PortSettings {
        ping_after: Duration::from_millis(200),
        silent_max: Duration::from_millis(800),
        ..ServerPlan::default().settings
    };
    let world = FabricServer::new(ServerPlan { settings, poll: RdmaPoll::Event, ..ServerPlan::default() });
    let mut doomed = world.connect();
    let channel = queue(&mut doomed, "q");
    consume(&mut doomed, channel, "q");
    let mut tcp = world.connect_tcp();
    // The broker's device is the first.
    world.fabric.vanish_nth(1);
    // Nothing else happens over RDMA: the broker's own looks at the time find it, and its message goes to another.
    let to = queue(&mut tcp, "q");
    consume(&mut tcp, to, "q");
    let mut taken = 0;
    for _ in 0..2 {
        tcp.publish(to, &Publish::to("", "q"), b"anybody?").expect("published");
    }
    while taken < 2 {
        assert_eq!(tcp.next_delivery(PATIENCE).expect("whole").expect("a delivery").body(), b"anybody?");
        taken += 1;
    }
}

#[test]
fn a_broker_that_stops_closes_its_connections_and_ends() {
    for shards in [1, 2] {
        let world = FabricServer::new(ServerPlan { shards, ..ServerPlan::default() });
        let mut clients: Vec<_> = (0..4).map(|_| world.connect()).collect();
        let channels: Vec<_> = clients.iter_mut().map(|client| queue(client, "q")).collect();
        clients[0].publish(channels[0], &Publish::to("", "q"), &body(1, 200_000)).expect("published");
        clients[0].flush().expect("sent");
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
}

#[test]
fn a_client_without_a_token_is_refused_where_one_is_needed() {
    let settings = PortSettings { accepts_direct: false, ..ServerPlan::default().settings };
    let world = FabricServer::new(ServerPlan { settings, ..ServerPlan::default() });
    let refused = world.try_connect(ADDRESSES[0]).expect_err("no token").to_string();
    assert!(refused.contains("a token is needed"), "{refused}");
}

#[test]
fn a_client_that_logged_in_by_tcp_connects_over_rdma_with_a_token() {
    let settings = PortSettings { accepts_direct: false, ..ServerPlan::default().settings };
    for shards in [1, 2] {
        let world = FabricServer::new(ServerPlan { shards, settings: settings.clone(), ..ServerPlan::default() });
        let port = world.tcp.rsplit_once(':').expect("a port").1;
        let connect =
            |login: &str, vhost: &str| world.try_connect(&format!("amqp+rdma://{login}{PLACE}/{vhost}?via=tcp:{port}"));
        let mut clients: Vec<_> = (0..6).map(|_| connect("guest:guest@", "%2F").expect("it logs in")).collect();
        assert!(clients.iter().all(|client| client.transport() == "rdma"));
        let (first, second) = clients.split_at_mut(3);
        exchange(&mut first[0], &mut second[0], "q");
        exchange(&mut first[1], &mut world.connect_tcp(), "r");
        for (login, vhost, why) in [("guest:wrong@", "%2F", "403"), ("guest:guest@", "nowhere", "530")] {
            let refused = connect(login, vhost).expect_err("refused").to_string();
            assert!(refused.contains(why), "{refused}");
        }
        // Without a token nobody gets in, nor with one that was never given.
        let refused = world.try_connect(ADDRESSES[0]).expect_err("no token").to_string();
        assert!(refused.contains("a token is needed"), "{refused}");
        let guess =
            StandaloneLink::connect(world.fabric.device(), PLACE, Some(RdmaToken([7; 16])), settings.clone(), PATIENCE);
        let refused = guess.err().expect("a guess").to_string();
        assert!(refused.contains("token is unknown"), "{refused}");
        clients.into_iter().for_each(|client| client.close().expect("an orderly end"));
    }
}

#[test]
fn a_token_is_valid_once_and_only_for_the_user_who_logged_in() {
    let settings = PortSettings { accepts_direct: false, ..ServerPlan::default().settings };
    let world = FabricServer::new(ServerPlan { settings: settings.clone(), ..ServerPlan::default() });
    let token = |client: &Client| match client.server_properties().get("harrier.rdma_token") {
        Some(Value::LongStr(bytes)) => RdmaToken(bytes.first_chunk().copied().expect("16 bytes")),
        other => panic!("{other:?}"),
    };
    let come = |token| StandaloneLink::connect(world.fabric.device(), PLACE, Some(token), settings.clone(), PATIENCE);
    // Who does not say that it will come is not waited for.
    let plain = world.connect_tcp();
    assert!(come(token(&plain)).is_err());
    let via = Url { via: Some(world.tcp["amqp://".len()..].to_owned()), ..Url::parse(&world.tcp).expect("an address") };
    let mut client = Client::connect_with(&via, world.options()).expect("it logs in");
    let given = token(&client);
    let link = come(given).expect("it is expected");
    assert!(come(given).is_err(), "used");
    // It stands for its user, and for no password.
    let known = Url { external: true, ..via.clone() };
    let over = Client::over(Box::new(link), &known, world.options()).expect("known");
    assert_eq!(over.transport(), "rdma");
    client.keep_alive().expect("it goes on");
    let next = Client::connect_with(&via, world.options()).expect("it logs in");
    let given = token(&next);
    let link = come(given).expect("it is expected");
    let refused = Client::over(Box::new(link), &via, world.options()).expect_err("no password is asked for");
    assert!(matches!(refused, ClientError::Unexpected { .. }), "{refused}");
    let last = Client::connect_with(&via, world.options()).expect("it logs in");
    let given = token(&last);
    last.close().expect("an orderly end");
    until("its token is forgotten", || come(given).is_err());
}

#[test]
fn a_carried_client_logs_in_by_itself() {
    let settings = PortSettings { accepts_direct: false, ..ServerPlan::default().settings };
    for shards in [1, 2] {
        let world = FabricServer::new(ServerPlan { shards, settings: settings.clone(), ..ServerPlan::default() });
        let port = world.tcp.rsplit_once(':').expect("a port").1;
        let pass = |login: &str| {
            let url = format!("amqp+rdma://{login}@{PLACE}/carriers?via=tcp:{port}");
            CarrierPass::get(&Url::parse(&url).expect("an address"), world.options())
        };
        let come = |pass: CarrierPass| {
            let link =
                StandaloneLink::connect(world.fabric.device(), PLACE, Some(pass.token()), settings.clone(), PATIENCE);
            let link = link.expect("the token is good");
            pass.close().expect("an orderly end");
            link
        };
        let own = |login: &str, external: bool| Url {
            external,
            ..Url::parse(&format!("amqp+rdma://{login}@{PLACE}")).expect("an address")
        };
        let carried = |login: &str, external| {
            let link = come(pass("carrier:secret").expect("it may carry"));
            Client::over(Box::new(link), &own(login, external), world.options())
        };
        let mut clients = [0, 1].map(|_| carried("guest:guest", false).expect("its own login is good"));
        let [first, second] = &mut clients;
        exchange(first, second, "q");
        for (login, external) in [("guest:wrong", false), ("carrier:secret", true)] {
            // Its own password counts, and the token says nothing of who it is.
            carried(login, external).expect_err("refused");
        }
        let refused = pass("guest:guest").err().expect("no carrier").to_string();
        assert!(refused.contains("403") || refused.contains("530"), "{refused}");
        clients.into_iter().for_each(|client| client.close().expect("an orderly end"));
    }
}

#[test]
fn only_a_carrier_is_given_a_token_for_others() {
    let world = FabricServer::new(ServerPlan::default());
    let port = world.tcp.rsplit_once(':').expect("a port").1;
    let url = format!("amqp+rdma://guest:guest@{PLACE}/%2F?via=tcp:{port}");
    let refused = CarrierPass::get(&Url::parse(&url).expect("an address"), world.options());
    let refused = refused.err().expect("no carrier").to_string();
    assert!(refused.contains("403") && refused.contains("no tag 'carrier'"), "{refused}");
    let direct = CarrierPass::get(&Url::parse(ADDRESSES[0]).expect("an address"), world.options());
    assert!(direct.err().expect("no place to log in").to_string().contains("via=tcp or via=tls"));
}

#[test]
fn tcp_replaces_rdma_only_where_configured_and_the_reason_is_reported() {
    let world = FabricServer::new(ServerPlan { addresses: 0, ..ServerPlan::default() });
    let tcp = world.tcp.replace("amqp://", "amqp+rdma://");
    let refused = world.try_connect(&tcp).expect_err("nobody listens there").to_string();
    assert!(refused.contains("nobody listens there"), "{refused}");
    let client = world.try_connect(&format!("{tcp}/%2F?fallback=tcp")).expect("TCP will do");
    assert_eq!(client.transport(), "tcp");
    assert!(
        client.used_fallback().is_some_and(|why| why.contains("nobody listens there")),
        "{:?}",
        client.used_fallback()
    );
}

#[test]
fn buffers_of_ports_count_for_the_memory_limit() {
    // What is left for messages: less than half, with two ports of eight MiB and one of landing blocks each.
    let plan = || {
        let settings = PortSettings { accepts_direct: true, receive_buffers: 2_048, ..PortSettings::default() };
        ServerPlan { shards: 2, settings, ..ServerPlan::default() }
    };
    let ports_bytes = 2 * plan().settings.port_bytes();
    assert_eq!(ports_bytes, 2 * (9 << 20));
    let world = FabricServer::new(ServerPlan { memory_bytes_max: 2 * ports_bytes, ..plan() });
    let mut client = world.connect_tcp();
    let channel = queue(&mut client, "q");
    // All that is left beside them and the program; without them it would be half of what there is.
    let mut sent = 0;
    until("the broker is short of memory", || {
        if sent < 16 {
            client.publish(channel, &Publish::to("", "q"), &body(sent, 1 << 20)).expect("published");
            sent += 1;
        }
        client.flush_now().expect("it stands");
        let none = client.next_delivery(Duration::from_millis(5)).expect("it stands");
        assert!(none.is_none());
        client.blocked().is_some()
    });
    assert_eq!(client.blocked(), Some("low on memory"));
    drop(client);
    drop(world);
    let fabric = Fabric::real_time(&FabricOptions::faultless());
    let listen = RdmaListen {
        address: ADDRESSES[0].parse().expect("an address"),
        devices: fabric.siblings(2).into_iter().map(|device| Box::new(device) as _).collect(),
    };
    let crowded = fabric::start(&ServerPlan { memory_bytes_max: 2 * ports_bytes - 2, ..plan() }, vec![listen]);
    let why = crowded.err().expect("nothing is left for messages").to_string();
    assert!(why.contains("RDMA ports take 18 MiB") && why.contains("a higher memory_limit"), "{why}");
}

#[test]
fn a_user_with_its_share_of_pinned_memory_is_refused_one_more_connection() {
    // Receive buffers of 2 MiB for each connection, and a share of 9.4 MiB.
    let settings = PortSettings { credits: 512, receive_buffers: 4_096, ..ServerPlan::default().settings };
    let world = FabricServer::new(ServerPlan { settings, memory_bytes_max: 40 << 20, ..ServerPlan::default() });
    let mut clients: Vec<Client> = (0..4).map(|_| world.connect()).collect();
    for _ in 0..3 {
        let refused = world.try_connect(ADDRESSES[0]).expect_err("its share is reached").to_string();
        let text = "RESOURCE_ERROR - connection refused for user 'guest': its share of memory that is pinned for RDMA";
        assert!(refused.contains(text), "{refused}");
    }
    let other = world.try_connect("amqp+rdma://carrier:secret@127.0.0.1:5672/carriers").expect("another user");
    assert_eq!(other.transport(), "rdma");
    world.connect_tcp().close().expect("sockets pin nothing");
    clients.pop().expect("one of them").close().expect("an orderly end");
    until("its memory is free", || world.try_connect(ADDRESSES[0]).is_ok());
}

#[test]
fn a_broker_without_its_devices_does_not_start() {
    let fabric = Fabric::real_time(&FabricOptions::faultless());
    let listen = |devices: usize| RdmaListen {
        address: ADDRESSES[0].parse().expect("an address"),
        devices: fabric.siblings(devices).into_iter().map(|device| Box::new(device) as _).collect(),
    };
    let plan = ServerPlan { shards: 2, ..ServerPlan::default() };
    let why = |listen| match fabric::start(&plan, listen) {
        Err(BrokerStartError::Listen { address, error }) => format!("{address}: {error}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    };
    assert_eq!(why(vec![listen(1)]), "amqp+rdma://127.0.0.1:5672: it needs an RDMA device for each shard");
    let taken = why(vec![listen(2), listen(2)]);
    assert!(taken.contains("the address is in use"), "{taken}");
}
