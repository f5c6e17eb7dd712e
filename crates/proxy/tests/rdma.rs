//! A proxy with an RDMA upstream, over a simulated device: links without descriptors, in the same loop.

mod fabric_broker;
mod harness;

use fabric_broker::{ADDRESS, BrokerBehavior, FabricBroker, ReceivedStream};
use harness::{TestProxy, TestStream, must_echo, pattern, settled, until};
use proxy::limits::{READ_BYTES_MAX, WINDOW_BYTES};
use proxy::{BootstrapToken, DeviceSource, Proxy, ProxyOptions, ProxyStartError, RdmaUpstreamOptions, TokenSource};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use verbs::device::DeviceError;
use verbs::{PortSettings, RdmaToken};

/// The broker's settings, and the proxy's.
fn settings() -> PortSettings {
    PortSettings { accepts_direct: true, receive_buffers: 2_048, ..PortSettings::default() }
}

fn start(broker: &FabricBroker, wired: bool, change: impl FnOnce(&mut ProxyOptions)) -> TestProxy {
    TestProxy::start(&format!("amqp+rdma://{ADDRESS}"), |options| {
        options.rdma = Some(broker.rdma(PortSettings::default(), wired));
        options.connections_max = 32;
        change(options);
    })
}

#[test]
fn bytes_of_all_sizes_come_back() {
    for wired in [false, true] {
        let broker = FabricBroker::start(BrokerBehavior::Echo, settings());
        let proxy = start(&broker, wired, |_| ());
        for bytes in [1, 64, 4_087, 4_088, 20_000, 1 << 20] {
            must_echo(proxy.connect(), bytes);
        }
        must_echo(proxy.connect(), 0);
        let totals = proxy.end();
        assert_eq!((totals.accepted, totals.broken, totals.unreachable), (7, 0, 0), "{totals:?}");
        broker.end();
    }
}

#[test]
fn many_connections_at_once_on_several_threads() {
    let broker = FabricBroker::start(BrokerBehavior::Echo, settings());
    let proxy = start(&broker, true, |options| options.threads = 2);
    std::thread::scope(|scope| {
        (0..20).for_each(|at| {
            drop(scope.spawn({
                let proxy = &proxy;
                move || must_echo(proxy.connect(), 100_000 + at)
            }))
        })
    });
    assert_eq!(proxy.end().broken, 0);
    broker.end();
}

#[test]
fn large_reads_travel_without_a_copy_in_both_directions() {
    const BYTES: usize = 16 << 20;
    let broker = FabricBroker::start(BrokerBehavior::Echo, settings());
    let proxy = start(&broker, true, |_| ());
    must_echo(proxy.connect(), BYTES);
    let totals = proxy.end();
    let counters = broker.end();
    // What TCP brings in small pieces is copied, or sent; most comes in large ones, which the broker reads by itself.
    assert!(counters.placed_bytes > 3 * BYTES as u64 / 4, "{counters:?}");
    assert!(totals.lent_bytes > 3 * BYTES as u64 / 4, "{totals:?}");
    assert!(totals.copied_bytes < BYTES as u64 / 4, "{totals:?}");
}

#[test]
fn each_end_may_close_its_direction_first() {
    let broker = FabricBroker::start(BrokerBehavior::EndsFirst, settings());
    let proxy = start(&broker, true, |_| ());
    let mut client = proxy.connect();
    let mut greeting = Vec::new();
    client.read_to_end(&mut greeting).expect("an end in order");
    assert_eq!(greeting, b"greeting");
    client.write_all(&pattern(0, 70_000)).expect("sent");
    client.shut(Shutdown::Write);
    assert!(broker.next_stream() == ReceivedStream { bytes: pattern(0, 70_000), is_lost: false });
    until("the connection is over", || proxy.connections() == 0);
    assert_eq!(proxy.end().broken, 0);
}

#[test]
fn a_reset_at_one_end_resets_the_other() {
    let broker = FabricBroker::start(BrokerBehavior::Aborts, settings());
    let proxy = start(&broker, true, |_| ());
    let mut client = proxy.connect();
    client.write_all(b"x").expect("sent");
    let error = client.read_exact(&mut [0]).expect_err("the broker breaks off");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until("the connection is over", || proxy.connections() == 0);
    assert_eq!(proxy.end().broken, 1);

    let broker = FabricBroker::start(BrokerBehavior::Echo, settings());
    let proxy = start(&broker, true, |_| ());
    let mut client = proxy.connect();
    client.write_all(b"x").expect("sent");
    client.read_exact(&mut [0]).expect("it comes back");
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("a socket");
    drop(client);
    assert!(broker.next_stream().is_lost);
    assert_eq!(proxy.end().broken, 1);
}

#[test]
fn a_broker_that_does_not_read_costs_a_window_and_no_more() {
    const TOTAL_BYTES: usize = 16 << 20;
    let broker = FabricBroker::start(BrokerBehavior::ReadsLater, settings());
    let proxy = start(&broker, true, |_| ());
    let mut client = proxy.connect();
    let mut writer = client.twin();
    let sender = std::thread::spawn(move || {
        writer.write_all(&pattern(0, TOTAL_BYTES)).expect("somebody reads in the end");
        writer.shut(Shutdown::Write);
    });
    until("the proxy has taken a window", || proxy.totals().to_upstream_bytes >= WINDOW_BYTES as u64);
    let taken = settled(|| proxy.totals().to_upstream_bytes);
    // The window, what the broker was offered and has not read, and its receive buffers.
    let most = WINDOW_BYTES + READ_BYTES_MAX + 8 * READ_BYTES_MAX + 16 * 4_096;
    assert!(taken <= most as u64, "{taken} of at most {most} bytes were taken for a broker that does not read");
    broker.listen();
    let stream = broker.next_stream();
    assert!(stream.bytes == pattern(0, TOTAL_BYTES) && !stream.is_lost);
    sender.join().expect("all was sent");
    client.read_exact(&mut [0]).expect_err("the broker has nothing to say");
    assert_eq!(proxy.end().broken, 0);
}

#[test]
fn a_client_that_does_not_read_costs_a_window_and_no_more() {
    const TOTAL_BYTES: usize = 32 << 20;
    let broker = FabricBroker::start(BrokerBehavior::Echo, settings());
    let small = Some(64 * 1024);
    let proxy = start(&broker, true, |options| options.listen_options.socket.send_buffer_bytes = small);
    let mut client = proxy.connect();
    let mut writer = client.twin();
    let sender = std::thread::spawn(move || {
        writer.write_all(&pattern(0, TOTAL_BYTES)).expect("somebody reads in the end");
        writer.shut(Shutdown::Write);
    });
    until("the proxy has taken a window", || proxy.totals().to_client_bytes >= WINDOW_BYTES as u64);
    let taken = settled(|| proxy.totals().to_client_bytes);
    // The system lets a client's socket grow to some MiB.
    assert!(taken < TOTAL_BYTES as u64 / 2, "{taken} bytes were taken for a client that does not read");
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("an end in order");
    assert!(received == pattern(0, TOTAL_BYTES));
    sender.join().expect("all was sent");
    assert_eq!(proxy.end().broken, 0);
}

#[test]
fn a_client_is_reset_when_the_broker_refuses_the_link() {
    // One that lets nobody in without a token.
    let broker = FabricBroker::start(BrokerBehavior::Echo, PortSettings { accepts_direct: false, ..settings() });
    let proxy = start(&broker, true, |_| ());
    let error = proxy.connect().read_exact(&mut [0]).expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until("it was told", || proxy.totals().unreachable == 1 && proxy.connections() == 0);
    proxy.end();
}

#[test]
fn a_vanished_host_ends_its_connections() {
    let broker = FabricBroker::start(BrokerBehavior::Echo, settings());
    let proxy = start(&broker, true, |_| ());
    let mut client = proxy.connect();
    client.write_all(b"x").expect("sent");
    client.read_exact(&mut [0]).expect("it comes back");
    broker.vanish();
    // The proxy may have noticed by its own sends already; then the client's write fails.
    let error = client.write_all(b"y").and_then(|()| client.read_exact(&mut [0])).expect_err("nobody answers");
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    assert_eq!(proxy.end().broken, 1);
}

#[test]
fn a_failed_device_is_replaced_for_the_next_client() {
    let broker = FabricBroker::start(BrokerBehavior::Echo, settings());
    let proxy = start(&broker, true, |_| ());
    let mut client = proxy.connect();
    client.write_all(b"x").expect("sent");
    client.read_exact(&mut [0]).expect("it comes back");
    broker.unplug();
    let error = client.read_exact(&mut [0]).expect_err("the device is gone");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    must_echo(proxy.connect(), 50_000);
    let totals = proxy.end();
    assert_eq!((totals.broken, totals.accepted), (1, 2));
    assert!(totals.doorbells > 0 && totals.rdma_sent > 0, "{totals:?}");
}

#[test]
fn connections_end_at_the_drain_timeout() {
    let broker = FabricBroker::start(BrokerBehavior::Echo, settings());
    let proxy = start(&broker, true, |options| options.drain_timeout = Duration::from_millis(200));
    let mut client = proxy.connect();
    client.write_all(b"x").expect("sent");
    client.read_exact(&mut [0]).expect("it comes back");
    assert_eq!(proxy.end().broken, 1);
    client.read_exact(&mut [0]).expect_err("it was ended");
    assert!(broker.next_stream().is_lost);
}

/// Numbered tokens that the broker expects (unless `wrong`); the counts of fetched and of closed ones.
fn token_source(broker: &FabricBroker, wrong: bool) -> (TokenSource, Arc<[AtomicU8; 2]>) {
    let counts = Arc::<[AtomicU8; 2]>::default();
    let (expect, counted) = (broker.token_registrar(), Arc::clone(&counts));
    let tokens = Arc::new(move || {
        let number = counted[0].fetch_add(1, Ordering::SeqCst);
        let token = RdmaToken([number; 16]);
        if !wrong {
            expect(token);
        }
        let counted = Arc::clone(&counted);
        let close = Box::new(move || {
            counted[1].fetch_add(1, Ordering::SeqCst);
        });
        Ok(BootstrapToken { token, close })
    });
    (tokens, counts)
}

#[test]
fn each_connection_presents_its_own_token() {
    let broker = FabricBroker::start(BrokerBehavior::Echo, PortSettings { accepts_direct: false, ..settings() });
    let (tokens, counts) = token_source(&broker, false);
    let [fetched, done] = [0, 1].map(|at| {
        let counts = Arc::clone(&counts);
        move || counts[at].load(Ordering::SeqCst)
    });
    let proxy = start(&broker, true, |options| {
        options.threads = 2;
        options.rdma = options.rdma.take().map(|rdma| RdmaUpstreamOptions { tokens: Some(tokens), ..rdma });
    });
    // More than there are threads that fetch, at once.
    let clients: Vec<_> = (0..12).map(|_| proxy.connect()).collect();
    for mut client in clients {
        client.write_all(b"x").expect("sent");
        client.read_exact(&mut [0]).expect("it comes back");
        must_echo(client, 50_000);
    }
    until("all bootstrap connections are closed", || done() == 12);
    assert_eq!(fetched(), 12);
    assert_eq!((proxy.end().broken, done()), (0, 12));
}

#[test]
fn a_client_is_reset_without_a_valid_token() {
    let broker = FabricBroker::start(BrokerBehavior::Echo, PortSettings { accepts_direct: false, ..settings() });
    let (wrong, counts) = token_source(&broker, true);
    let none: TokenSource = Arc::new(|| Err(std::io::Error::other("nobody logs in")));
    for tokens in [wrong, none] {
        let proxy = start(&broker, true, |options| {
            options.rdma = options.rdma.take().map(|rdma| RdmaUpstreamOptions { tokens: Some(tokens), ..rdma });
        });
        let mut client = proxy.connect();
        assert_eq!(client.read(&mut [0]).expect_err("refused").kind(), ErrorKind::ConnectionReset);
        assert_eq!(proxy.end().unreachable, 1);
    }
    until("the bootstrap connection is closed", || counts[1].load(Ordering::SeqCst) == 1);
}

#[test]
fn a_proxy_without_a_device_says_why_and_does_not_start() {
    let devices: DeviceSource = Arc::new(|_| Err(DeviceError("there is no RDMA device".to_owned())));
    let mut options = ProxyOptions::to(format!("amqp+rdma://{ADDRESS}").parse().expect("an upstream address"));
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    options.threads = 2;
    options.rdma = Some(RdmaUpstreamOptions { devices, settings: PortSettings::default(), tokens: None });
    match Proxy::start(options) {
        Err(ProxyStartError::Upstream(why)) => assert_eq!(why, "RDMA: there is no RDMA device"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it has started"),
    }
}

/// What decision 0015 counts: `cargo test -p harrier-proxy --test rdma doorbells -- --nocapture` prints the figures.
#[test]
fn doorbells_are_rung_once_a_round_for_each_connection() {
    const BYTES: usize = 1 << 20;
    for clients in [1, 4, 16] {
        let broker = FabricBroker::start(BrokerBehavior::ReadsLater, settings());
        broker.listen();
        let proxy = start(&broker, true, |_| ());
        std::thread::scope(|scope| {
            for _ in 0..clients {
                let mut client = proxy.connect();
                scope.spawn(move || {
                    // Small messages, as many publishers send them.
                    let message = pattern(0, 64);
                    (0..BYTES / 64).for_each(|_| client.write_all(&message).expect("sent"));
                });
            }
        });
        (0..clients).for_each(|_| assert!(broker.next_stream().bytes.len() == BYTES));
        let totals = proxy.end();
        let (doorbells, messages) = (totals.doorbells, (clients * BYTES / 64) as u64);
        println!(
            "{clients} clients: {:.1} doorbells and {:.1} sends per 1,000 messages of 64 bytes, {} bytes a connection",
            doorbells as f64 * 1_000.0 / messages as f64,
            totals.rdma_sent as f64 * 1_000.0 / messages as f64,
            PortSettings::default().credits as u32 * PortSettings::default().receive_buffer_bytes,
        );
        assert!(doorbells < messages / 4, "{doorbells} doorbells for {messages} messages");
    }
}
