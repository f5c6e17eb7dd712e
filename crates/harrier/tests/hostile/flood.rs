//! Floods of connection requests, most of them never completed: limits hold, and honest clients get in.

use super::broker::{WatchedBroker, pause};
use super::format::PeerHello;
use super::honest::{HonestClients, connect};
use super::peer::{HostilePeer, terms, towards};
use super::{PATIENCE, lab, now, port};
use client::{Client, ClientChannel};
use ib::{
    ArenaBlock, CmEventChannel, CompletionQueue, ProtectionDomain, QueuePair, QueuePairOptions, ReadLimits,
    SharedReceiveQueue,
};

const REQUESTS: usize = 300;

/// Requests whose replies are never accepted.
struct UnfinishedRequests {
    // Queue pairs must be dropped first.
    _pairs: Vec<QueuePair<ArenaBlock, ArenaBlock>>,
    _ids: Vec<ib::CmId>,
    _channels: Vec<CmEventChannel>,
}

fn flood(broker: &WatchedBroker, count: usize) -> UnfinishedRequests {
    let hello = PeerHello::default().bytes();
    let mut all = UnfinishedRequests { _pairs: Vec::new(), _ids: Vec::new(), _channels: Vec::new() };
    let mut shared = None;
    for _ in 0..count {
        let channel = CmEventChannel::new().expect("a channel");
        let id = towards(&channel, broker.address);
        let (domain, queue, receives) = shared.get_or_insert_with(|| {
            let context = id.context().expect("a device");
            let domain = ProtectionDomain::new(&context).expect("a domain");
            let queue = CompletionQueue::new(&context, 64, None).expect("a queue");
            let receives = SharedReceiveQueue::<ArenaBlock>::new(&domain, 16).expect("a receive queue");
            (domain, queue, receives)
        });
        let options = QueuePairOptions { send_wr_max: 1, send_sge_max: 1, inline_bytes_max: 0 };
        let pair = QueuePair::new(&id, domain, queue, queue, receives, options).expect("a queue pair");
        id.connect(&terms(&hello, ReadLimits { responder_resources: 1, initiator_depth: 1 })).expect("it can be asked");
        all._pairs.push(pair);
        all._ids.push(id);
        all._channels.push(channel);
    }
    all
}

/// A client that is told to retry does so.
fn comes(broker: &WatchedBroker, honest: &mut HonestClients, when: &str) -> (Client, ClientChannel) {
    let deadline = now() + PATIENCE;
    loop {
        match connect(broker.address) {
            Ok(connected) => return connected,
            Err(error) => {
                assert!(now() < deadline && error.to_string().contains("no receive buffers"), "{when}: {error}");
            }
        }
        honest.exchange(when);
        pause();
    }
}

#[test]
fn a_flood_of_requests_meets_limits_and_honest_clients_get_in() {
    let Some(ip) = lab() else { return };
    let broker = WatchedBroker::start(ip, port(), &["--rdma-token", "allow"]);
    let mut honest = HonestClients::new(broker.address);
    let before = broker.holdings();
    let flood = flood(&broker, REQUESTS);
    let under = broker.holdings();
    // 1,024 buffers less 64 are the credits of 60 connections; as many again may be closing.
    assert!(under.counts["qp"] <= 120, "promises are limited: {under:?}");
    assert!(under.shares_memory(&before), "connections share memory: {under:?}, and before {before:?}");
    honest.exchange("in a flood of requests");
    let begun = now();
    let (mut newcomer, channel) = comes(&broker, &mut honest, "in a flood of requests");
    println!("an honest client got in after {:?}", now() - begun);
    newcomer.qos(channel, 1, false).expect("it is served");
    drop(flood);
    drop(newcomer);
    honest.exchange("after the flood");
    broker.holds_no_more_than(&before, "a flood of unfinished requests", Some(&mut honest));

    // And a flood of connections that complete and stay silent.
    let mut peers: Vec<_> =
        (0..100).map_while(|_| HostilePeer::connect(broker.address, &PeerHello::default()).ok()).collect();
    assert!(peers.len() <= 58, "promises are limited: {}", peers.len());
    honest.exchange("beside many connections");
    peers.iter_mut().for_each(HostilePeer::poll);
    drop(peers);
    // There is capacity again once the broker knows of their end.
    drop(comes(&broker, &mut honest, "after many connections"));
    broker.is_as_before(&before, "a flood of connections", Some(&mut honest));
    drop(honest);
    broker.stop();
}
