//! A proxy over a real device: in the lab's guest, where there is one of software (`tests/lab`).

mod fabric_broker;
mod harness;

use fabric_broker::{BrokerBehavior, BrokerConnection};
use harness::{PATIENCE, TestProxy, must_echo, until};
use proxy::RdmaUpstreamOptions;
use slab::{Gather, Pool, PoolOptions};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use verbs::{Port, PortCounters, PortSettings};

/// The address of the guest's device, if this is the guest.
fn lab() -> Option<String> {
    let address = std::env::var("LAB_ADDRESS").ok();
    if address.is_none() {
        assert!(std::env::var_os("LAB_MUST").is_none(), "there is no RDMA device, and there must be one");
        // Past the capture of tests that pass, so that it is seen.
        writeln!(std::io::stdout(), "\nSKIPPED: LAB_ADDRESS does not say where an RDMA device is")
            .expect("standard output");
    }
    address
}

/// Whoever sends back what comes at an address of the device, until it is told to end.
fn echo_at(address: String) -> (Sender<()>, JoinHandle<PortCounters>) {
    let (end, ended) = channel();
    let (ready, listens) = channel();
    let thread = std::thread::spawn(move || {
        let pool = Pool::new(PoolOptions::default());
        let device = verbs::card::open_at(&address, 1).expect("a device").pop().expect("one");
        let settings = PortSettings { accepts_direct: true, receive_buffers: 1_024, ..PortSettings::default() };
        let port = Port::open(device, &pool, settings).expect("a port");
        port.listen(&address).expect("nobody listens there");
        ready.send(()).expect("somebody waits for it");
        let mut connections: Vec<BrokerConnection> = Vec::new();
        let mut nap = Duration::ZERO;
        while ended.recv_timeout(nap) == Err(RecvTimeoutError::Timeout) {
            let before = port.counters();
            port.poll().expect("the device is whole");
            while let Some(link) = port.accept() {
                connections.push(BrokerConnection::new(Box::new(link), Gather::new()));
            }
            let mut moved = false;
            for connection in &mut connections {
                moved |= connection.serve(BrokerBehavior::Echo, &pool);
            }
            connections.retain(|connection| !connection.is_gone());
            port.flush();
            moved |= port.counters() != before;
            nap = if moved { Duration::ZERO } else { Duration::from_millis(1) };
        }
        port.counters()
    });
    listens.recv_timeout(PATIENCE).expect("it listens");
    (end, thread)
}

fn start(address: &str) -> TestProxy {
    TestProxy::start(&format!("amqp+rdma://{address}"), |options| {
        options.rdma = Some(RdmaUpstreamOptions {
            devices: Arc::new(verbs::card::open_towards),
            settings: PortSettings::default(),
            tokens: None,
        });
        options.connections_max = 16;
    })
}

#[test]
fn bytes_of_all_sizes_come_back_over_a_device() {
    let Some(host) = lab() else { return };
    let address = format!("{host}:5690");
    let (end, broker) = echo_at(address.clone());
    let proxy = start(&address);
    for bytes in [1, 64, 4_088, 20_000, 2 << 20] {
        must_echo(proxy.connect(), bytes);
    }
    std::thread::scope(|scope| {
        for at in 0..8 {
            let proxy = &proxy;
            scope.spawn(move || must_echo(proxy.connect(), 100_000 + at));
        }
    });
    let totals = proxy.end();
    end.send(()).expect("it runs");
    let counters = broker.join().expect("it ends");
    assert_eq!((totals.accepted, totals.broken, totals.unreachable), (13, 0, 0), "{totals:?}");
    // The broker's device has read bodies from the proxy's memory, and the proxy's from the broker's.
    assert!(counters.placed_bytes > 0 && totals.lent_bytes > 0, "{counters:?} {totals:?}");
    println!("{totals:?}");
}

#[test]
fn clients_are_reset_where_nobody_listens() {
    let Some(host) = lab() else { return };
    let proxy = start(&format!("{host}:5691"));
    proxy.connect().read_exact(&mut [0]).expect_err("nobody answers");
    until("it was told", || proxy.totals().unreachable == 1 && proxy.connections() == 0);
    proxy.end();
}
