//! What a thread outside of the shards is told of a running broker, and what it may do: reports, a replica of the definitions,
//! connections that are closed.

#[expect(dead_code, reason = "others join brokers by links")]
mod brokers;

use brokers::{TestBroker, eventually};
use catalog::{Definition, QueueId, SessionId, ShardId, VhostId};
use client::{Client, ClientChannel, ClientError, ConsumeOptions, Publish, QueueOptions};
use shard::{
    ConnectionReport, ConnectionSelector, ConnectionState, ConnectionTraffic, ReplicaLost, ShardReport, ShardTotals,
    limits,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use wire::{TableRef, ValueRef};

/// What a reader knows of a broker: it asks each shard until there is no more.
#[derive(Default)]
struct SeenReports {
    totals: BTreeMap<ShardId, ShardTotals>,
    connections: BTreeMap<SessionId, ConnectionReport>,
    queues: BTreeMap<QueueId, broker::QueueReport>,
    consumers: usize,
    closed_traffic: BTreeMap<(ShardId, VhostId), ConnectionTraffic>,
}

impl SeenReports {
    fn read(&mut self, broker: &TestBroker) {
        let admin = broker.server.admin();
        for shard in (0..admin.shards()).map(ShardId) {
            loop {
                let report = admin.report(shard).expect("it runs");
                let more = report.more;
                self.apply(report);
                if !more {
                    break;
                }
            }
        }
    }

    fn apply(&mut self, report: ShardReport) {
        assert!(report.len() <= limits::REPORT_OBJECTS_MAX && report.bytes() >= size_of_val(&report));
        self.totals.insert(report.shard, report.totals);
        for connection in report.connections.changed {
            self.connections.insert(connection.id, connection);
        }
        report.connections.gone.iter().for_each(|id| _ = self.connections.remove(id));
        for (vhost, traffic) in report.closed_traffic {
            self.closed_traffic.insert((report.shard, vhost), traffic);
        }
        for queue in report.broker.queues.changed {
            self.queues.insert(queue.id, queue);
        }
        report.broker.queues.gone.iter().for_each(|id| _ = self.queues.remove(id));
        self.consumers += report.broker.consumers.changed.len();
        self.consumers -= report.broker.consumers.gone.len();
    }

    fn sum(&self, of: impl Fn(&ShardTotals) -> u64) -> u64 {
        self.totals.values().map(of).sum()
    }

    /// What connections in a virtual host have received, those that are gone included.
    fn received_bytes(&self, vhost: VhostId) -> u64 {
        let open = self.connections.values().filter(|connection| connection.vhost == Some(vhost));
        let open: u64 = open.map(|connection| connection.traffic.received_bytes).sum();
        let closed = self.closed_traffic.iter().filter(|((_, of), _)| *of == vhost);
        open + closed.map(|(_, traffic)| traffic.received_bytes).sum::<u64>()
    }
}

fn consume(client: &mut Client, channel: ClientChannel, queue: &str) {
    client.consume(channel, queue, &ConsumeOptions::default()).expect("consumed");
}

/// Until a client learns that its connection is closed.
fn close_reason(client: &mut Client) -> String {
    loop {
        match client.open_channel() {
            Ok(_) => {}
            Err(error) => return error.to_string(),
        }
    }
}

#[test]
fn a_reader_outside_sees_queues_connections_and_counts_of_every_shard_and_what_changes() {
    let broker = TestBroker::start("reported", 3);
    let mut reader = SeenReports::default();
    reader.read(&broker);
    assert!(reader.connections.is_empty() && reader.queues.is_empty());
    let mut clients: Vec<_> = (0..4).map(|_| broker.client()).collect();
    for (at, (client, channel)) in clients.iter_mut().enumerate() {
        client.declare_queue(*channel, &format!("q{at}"), &QueueOptions::default()).expect("declared");
    }
    let (publisher, channel) = &mut clients[0];
    publisher.confirm_select(*channel).expect("confirms");
    for key in ["q0", "q1", "q2", "q3", "q1", "nowhere"] {
        publisher.publish(*channel, &Publish::to("", key), b"12345").expect("published");
    }
    publisher.wait_confirms(*channel, 0).expect("confirmed");
    let (consumer, channel) = &mut clients[3];
    consume(consumer, *channel, "q1");
    reader.read(&broker);
    assert_eq!((reader.connections.len(), reader.queues.len(), reader.consumers), (4, 4, 1));
    assert_eq!(reader.sum(|totals| totals.stats.channels.publish), 6);
    assert_eq!(reader.sum(|totals| totals.stats.channels.confirm), 6);
    assert_eq!(reader.sum(|totals| totals.stats.channels.drop_unroutable), 1);
    assert_eq!(reader.sum(|totals| totals.stats.exchanges.publish_out), 5);
    assert_eq!((reader.sum(|totals| totals.connections), reader.sum(|totals| totals.channels)), (4, 4));
    assert_eq!(reader.sum(|totals| totals.stats.queues_created), 4);
    // Each thread has worked and waited, and shards have written to one another.
    for totals in reader.totals.values() {
        let rounds: u64 = totals.thread.rounds.classes.iter().sum();
        assert!(rounds > 0 && totals.thread.busy_ns > 0 && totals.thread.waited_ns > 0, "{:?}", totals.thread);
        assert!(totals.thread.sleeps > 0 && totals.thread.rdma.is_none(), "{:?}", totals.thread);
    }
    assert!(reader.sum(|totals| totals.mail.messages) >= reader.sum(|totals| totals.mail.batches));
    assert!(reader.sum(|totals| totals.mail.batches) > 0);
    assert_eq!(reader.sum(|totals| totals.logins.accepted), 4);
    let wrong = Client::connect(&broker.tcp().replace("guest:guest", "guest:wrong"));
    assert!(wrong.is_err());
    eventually(
        "the login is counted as refused",
        || {
            reader.read(&broker);
            reader.sum(|totals| totals.logins.refused) == 1 && reader.connections.len() == 4
        },
        String::new,
    );
    let kept: u64 = reader.queues.values().map(|queue| queue.ready_bytes + queue.unacknowledged_bytes).sum();
    assert_eq!(kept, 25);
    for connection in reader.connections.values() {
        let (peer, local) = connection.name.split_once(" -> ").expect("two ends");
        assert_eq!((peer, local), (&*connection.peer_address, &*connection.local_address));
        assert_eq!(local, broker.server.addresses()[0]);
        let traffic = connection.traffic;
        assert!(traffic.received_bytes > 8 && traffic.sent_bytes > 8 && traffic.receives > 0 && traffic.sends > 0);
        assert_eq!((connection.transport, connection.state), ("tcp", ConnectionState::Running));
        assert_eq!((&*connection.mechanism, connection.channels, connection.hold), ("PLAIN", 1, None));
        let product = TableRef::new(&connection.client_properties).get("product").and_then(ValueRef::as_bytes);
        assert!(product.is_some(), "what the client says about itself");
    }
    let asked = broker.server.admin().queue_report("/", b"q1").expect("it is there");
    assert_eq!((asked.stats.publish, asked.consumers), (2, 1));
    assert!(broker.server.admin().queue_report("/", b"q9").is_none());
    clients.pop().expect("the consumer").0.close().expect("closed");
    eventually(
        "the consumer is gone",
        || {
            reader.read(&broker);
            reader.connections.len() == 3 && reader.consumers == 0
        },
        String::new,
    );
    assert_eq!(reader.queues[&asked.id].hold, Some(broker::QueueHold::NoConsumers));
    drop(clients);
    broker.stop();
}

#[test]
fn what_a_virtual_host_has_received_does_not_fall_when_connections_end() {
    let broker = TestBroker::start("carried", 3);
    let mut reader = SeenReports::default();
    // Nobody reads while these come and go.
    for _ in 0..3 {
        broker.client().0.close().expect("closed");
    }
    let mut clients: Vec<_> = (0..3).map(|_| broker.client()).collect();
    for (client, channel) in &mut clients {
        client.declare_queue(*channel, "q", &QueueOptions::default()).expect("declared");
        client.publish(*channel, &Publish::to("", "q"), &[0; 1_000]).expect("published");
        client.declare_queue(*channel, "q", &QueueOptions::default()).expect("whatever was sent before has come");
    }
    reader.read(&broker);
    let vhost = reader.connections.values().find_map(|connection| connection.vhost).expect("they are open");
    let mut before = reader.received_bytes(vhost);
    let closed = reader.closed_traffic.values().map(|traffic| traffic.received_bytes).sum::<u64>();
    assert!(closed > 3 * 100 && before > 3_000 + closed, "{before}, of which {closed} by those that are gone");
    while let Some((client, _)) = clients.pop() {
        client.close().expect("closed");
        eventually(
            "the connection is gone",
            || {
                reader.read(&broker);
                let now = reader.received_bytes(vhost);
                assert!(now >= before, "{now} bytes after {before}");
                before = now;
                reader.connections.len() == clients.len()
            },
            String::new,
        );
    }
    // Each has sent that it closes as well.
    let whole: u64 = reader.closed_traffic.values().map(|traffic| traffic.received_bytes).sum();
    assert!(whole == before && whole > closed + 3_000, "{whole}");
    broker.stop();
}

#[test]
fn connections_are_found_and_closed_by_name_and_by_user() {
    let broker = TestBroker::start("closing", 2);
    let admin = broker.server.admin();
    let mut clients: Vec<_> = (0..3).map(|_| broker.client().0).collect();
    let other = broker.tcp().replace("guest:guest", "plain:plain");
    let mut others: Vec<_> = (0..2).map(|_| Client::connect(&other).expect("a connection")).collect();
    let of_plain = ConnectionSelector::User("plain".into());
    let mut reader = SeenReports::default();
    reader.read(&broker);
    assert_eq!(reader.connections.len(), 5);
    assert_eq!(admin.close_connections(&of_plain, "go away"), Some(2));
    for client in &mut others {
        let reason = close_reason(client);
        assert!(reason.contains("320") && reason.contains("CONNECTION_FORCED - go away"), "{reason}");
    }
    drop(others);
    eventually(
        "those of a user are gone",
        || {
            reader.read(&broker);
            reader.connections.len() == 3
        },
        String::new,
    );
    let (&id, second) = reader.connections.iter().nth(1).expect("three are open");
    let name = ConnectionSelector::Name(second.name.clone());
    assert_eq!(admin.close_connections(&name, "by name"), Some(1));
    assert_eq!(admin.close_connections(&ConnectionSelector::Name("nobody".into()), "x"), Some(0));
    let closed = clients.iter_mut().filter_map(|client| client.open_channel().err()).collect::<Vec<_>>();
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert!(closed.iter().all(|error: &ClientError| error.to_string().contains("CONNECTION_FORCED - by name")));
    drop(clients);
    eventually(
        "one client is gone",
        || {
            reader.read(&broker);
            !reader.connections.contains_key(&id)
        },
        String::new,
    );
    broker.stop();
}

/// Changes that come while the definitions are copied are neither lost nor made twice, and clients go on meanwhile.
#[test]
fn a_replica_is_copied_in_pieces_while_clients_go_on() {
    const BINDINGS: usize = 40_000;
    for (name, shards) in [("copied", 1), ("copied by two", 2)] {
        let broker = TestBroker::start(name, shards);
        let admin = broker.server.admin();
        let vhost = admin.with_catalog(|catalog| catalog.vhost_by_name("/").expect("the default")).expect("it runs");
        let (mut client, channel) = broker.client();
        client.declare_queue(channel, "q", &QueueOptions::default()).expect("declared");
        for part in (0..BINDINGS).step_by(1_000) {
            let binding = |number: usize| Definition::BindQueue {
                vhost,
                exchange: "amq.topic".into(),
                queue: "q".into(),
                routing_key: format!("key.{number}.*").as_bytes().into(),
                arguments: Default::default(),
                session: None,
            };
            assert_eq!(admin.define((part..part + 1_000).map(binding).collect()).map(|refused| refused.len()), Some(0));
        }
        let copies = 4;
        let (subscriber, begun) = (admin.clone(), Arc::new(AtomicUsize::new(0)));
        let done = Arc::clone(&begun);
        let replicas = thread::spawn(move || {
            let subscribe = |_| {
                let replica = subscriber.subscribe_definitions().expect("few");
                done.fetch_add(1, Ordering::Relaxed);
                replica
            };
            (0..copies).map(subscribe).collect::<Vec<_>>()
        });
        // A client declares and deletes, and an operator, too, until all are there.
        let mut made = 0;
        while begun.load(Ordering::Relaxed) < copies || made < 40 {
            let name = format!("new-{made}");
            client.declare_queue(channel, &name, &QueueOptions::default()).expect("declared");
            if made % 2 == 0 {
                client.delete_queue(channel, &name, false, false).expect("deleted");
            }
            let name = (&*format!("vhost-{}", made % 8)).into();
            let definition =
                if made % 16 < 8 { Definition::CreateVhost { name } } else { Definition::DeleteVhost { name } };
            assert_eq!(admin.define(vec![definition]).map(|refused| refused.len()), Some(0));
            made += 1;
        }
        let ids = |catalog: &catalog::Catalog| {
            let queues = catalog.queues().map(|(id, queue)| (id, queue.name.to_string())).collect::<Vec<_>>();
            (catalog.version(), queues, catalog.vhosts().map(|(id, _)| id).collect::<Vec<_>>())
        };
        let expected = admin.with_catalog(move |catalog| ids(catalog)).expect("it runs");
        for mut replica in replicas.join().expect("they came") {
            while replica.apply(1_000, |_, _| {}).expect("it follows") > 0 {}
            assert_eq!(ids(replica.catalog()), expected);
            let topic = replica.catalog().exchange(vhost, b"amq.topic").expect("predeclared");
            assert_eq!(replica.catalog().bindings_from(topic).count(), BINDINGS);
        }
        drop(client);
        broker.stop();
    }
}

#[test]
fn a_replica_outside_of_the_shards_has_the_same_ids_until_it_is_lost() {
    let broker = TestBroker::start("followed", 2);
    let admin = broker.server.admin();
    let mut replica = admin.subscribe_definitions().expect("the first");
    let (mut client, channel) = broker.client();
    for name in ["a", "b", "c"] {
        client.declare_queue(channel, name, &QueueOptions::default()).expect("declared");
    }
    client.delete_queue(channel, "b", false, false).expect("deleted");
    client.declare_queue(channel, "d", &QueueOptions::default()).expect("declared");
    // What was answered is on its way already.
    while replica.apply(1, |_, _| {}).expect("it follows") > 0 {}
    let ids = |catalog: &catalog::Catalog| {
        let vhost = catalog.vhost_by_name("/").expect("the default");
        ["a", "b", "c", "d"].map(|name| catalog.queue(vhost, name.as_bytes()))
    };
    let first = admin.with_catalog(move |catalog| (ids(catalog), catalog.version())).expect("it runs");
    assert_eq!((ids(replica.catalog()), replica.catalog().version()), first);
    assert!(first.0[1].is_none() && first.0[3].is_some());
    assert_eq!(replica.wait(Duration::ZERO), Ok(false));
    // One that never reads is given up, and whoever makes changes is not held.
    let mut slow = admin.subscribe_definitions().expect("the second");
    let vhosts = |from: usize, to: usize| {
        (from..to).map(|number| Definition::CreateVhost { name: (&*format!("v{number}")).into() }).collect::<Vec<_>>()
    };
    let many = limits::DEFINITION_UPDATES_MAX / 2;
    for _ in 0..4 {
        // Each is made and undone, so that few are there at a time.
        for part in (0..many).step_by(64) {
            assert_eq!(admin.define(vhosts(part, part + 64)).map(|refused| refused.len()), Some(0));
            let names = vhosts(part, part + 64).into_iter().map(|definition| match definition {
                Definition::CreateVhost { name } => Definition::DeleteVhost { name },
                other => other,
            });
            assert_eq!(admin.define(names.collect()).map(|refused| refused.len()), Some(0));
            while replica.apply(1_000, |_, _| {}).expect("it follows") > 0 {}
        }
    }
    while slow.apply(1_000, |_, _| {}).is_ok_and(|made| made > 0) {}
    assert_eq!(slow.apply(1, |_, _| {}), Err(ReplicaLost));
    let anew = admin.subscribe_definitions().expect("the place of the lost one is free");
    assert_eq!(anew.version(), replica.version());
    broker.server.stop();
    drop(client);
    broker.server.join().expect("a good end");
    assert_eq!(replica.wait(Duration::MAX), Err(ReplicaLost), "the broker has stopped");
}
