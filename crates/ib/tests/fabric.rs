//! Verbs over a real device, in the lab's guest (`tests/lab`). Without one each test prints that it is skipped, and
//! why.

#[path = "fabric/endpoints.rs"]
mod endpoints;
#[path = "fabric/failures.rs"]
mod failures;
#[path = "fabric/hosts.rs"]
mod hosts;
#[path = "fabric/resources.rs"]
mod resources;

use endpoints::{
    PART_BYTES, TestEndpoint, TestResources, connect, disconnected, established, event, lab, listen, pair, readable,
    request, routed, signalled, terms,
};
use ib::{
    CmEventChannel, CmEventKind, MemoryRegion, PostOptions, QueuePair, QueuePairState, RemoteAccess, RemoteMemory,
    SharedPages, WcOpcode,
};
use std::os::fd::AsFd;
use std::time::Duration;

#[test]
fn a_device_says_what_it_is() {
    let Some(ip) = lab() else { return };
    let devices = ib::devices().expect("there is a device");
    let context = &devices[0];
    let facts = context.attributes().expect("it can be asked");
    assert!(
        facts.ports >= 1
            && facts.queue_pairs_max > 100
            && facts.work_requests_max >= 64
            && facts.initiator_depth_max > 0,
        "{facts:?}"
    );
    let port = context.port(1).expect("it has a port");
    assert_eq!(port.state, ib::PortState::Active);
    assert!(port.mtu_bytes >= 256 && port.message_bytes_max >= 1 << 20, "{port:?}");
    let gids = context.gids(&port).expect("they can be asked");
    let std::net::IpAddr::V4(v4) = ip else { panic!("the lab has an address of IPv4") };
    let entry =
        gids.iter().find(|entry| entry.gid == v4.to_ipv6_mapped().octets()).expect("its address is one of its GIDs");
    assert!(entry.interface.is_some() && entry.kind.as_deref() == Some("RoCE v2"), "{entry:?}");
    assert!(context.async_event().expect("it can be asked").is_none_or(|event| event != ib::AsyncEvent::DeviceFailed));
}

#[test]
fn connections_carry_private_data_both_ways_and_end() {
    let Some(ip) = lab() else { return };
    let (near, far) = pair(ip, 4);
    assert_eq!(near.pair.state().expect("it can be asked"), QueuePairState::ReadyToSend);
    assert_eq!(near.id.peer_address().map(|address| address.ip()), Some(ip));
    assert_eq!(far.id.peer_address(), near.id.local_address());
    near.id.disconnect().expect("it can end");
    disconnected(&far.channel);
    far.id.disconnect().expect("it can end");
    disconnected(&near.channel);
    assert_eq!(far.pair.state().expect("it can be asked"), QueuePairState::Error);
}

#[test]
fn a_refusal_has_the_words_of_who_refuses() {
    let Some(ip) = lab() else { return };
    let (listening, _listener, address) = listen(ip);
    let asking = CmEventChannel::new().expect("a channel");
    for words in [b"not you".as_slice(), b""] {
        let id = routed(&asking, address);
        let bench = TestResources::new(&id, 1);
        let pair = bench.queue_pair(&id);
        id.connect(&terms(b"")).expect("it can be asked");
        let (refused, _) = request(&listening);
        if words.is_empty() {
            // Without a word.
            drop(refused);
        } else {
            refused.reject(words).expect("it can be refused");
        }
        let answer = event(&asking);
        assert_eq!(answer.id, id.key());
        assert!(matches!(answer.kind, CmEventKind::Rejected { reason: ib::REJECTED_BY_PROGRAM }), "{answer:?}");
        assert!(answer.private_data.starts_with(words), "{answer:?}");
        drop(pair);
    }
}

#[test]
fn where_nobody_listens_the_answer_says_so() {
    let Some(ip) = lab() else { return };
    let (listening, listener, address) = listen(ip);
    drop((listener, listening));
    let asking = CmEventChannel::new().expect("a channel");
    let id = routed(&asking, address);
    let bench = TestResources::new(&id, 1);
    let _pair = bench.queue_pair(&id);
    id.connect(&terms(b"")).expect("it can be asked");
    let answer = event(&asking);
    assert!(matches!(answer.kind, CmEventKind::Rejected { reason: ib::REJECTED_NO_LISTENER }), "{answer:?}");
}

#[test]
fn sends_of_each_kind_arrive_through_the_shared_queue() {
    let Some(ip) = lab() else { return };
    let (mut near, mut far) = pair(ip, 8);
    // Inline, from memory that nobody registered, in two parts.
    let mut batch = near.pair.batch();
    batch.send_inline(&[b"in", b"line"], signalled(1)).expect("there is room");
    batch.post().expect("it can be posted");
    assert_eq!(far.received(), b"inline");
    // Eager, two messages by one doorbell.
    let key = near.bench.key;
    let first = near.bench.filled(&[1; PART_BYTES]);
    let last = near.bench.filled(b"and one more");
    let mut batch = near.pair.batch();
    batch.send([(first, key)], PostOptions { cookie: 2, signalled: false }).expect("there is room");
    batch.send([(last, key)], signalled(3)).expect("there is room");
    assert_eq!(batch.len(), 2);
    assert_eq!(batch.post().expect("it can be posted"), 2);
    assert_eq!(far.received(), [1; PART_BYTES]);
    let arrived = far.received();
    assert!(arrived.len() == PART_BYTES && arrived.starts_with(b"and one more"));
    assert_eq!(near.finished().1.len(), 1);
    let (status, done) = near.finished();
    assert!(status.is_success());
    assert_eq!(done.iter().map(|work| work.cookie).collect::<Vec<_>>(), [2, 3], "one completion ends both");
    assert_eq!(near.pair.outstanding(), 0);
}

/// A sender of message memory, from the bench of an end that is there, and a far end of its own.
fn slice_sender(bench: &TestResources, ip: std::net::IpAddr) -> (QueuePair<slab::Slice, slab::BlockMut>, TestEndpoint) {
    let (listening, _listener, address) = listen(ip);
    let asking = CmEventChannel::new().expect("a channel");
    let id = routed(&asking, address);
    let options = ib::QueuePairOptions { send_wr_max: 8, send_sge_max: 4, inline_bytes_max: 0 };
    let sender =
        QueuePair::new(&id, &bench.domain, &bench.queue, &bench.queue, &bench.receives, options).expect("a queue pair");
    id.connect(&terms(b"")).expect("it can be asked");
    let (id, _) = request(&listening);
    let bench = TestResources::new(&id, 2);
    let far = TestEndpoint { pair: bench.queue_pair(&id), bench, id, channel: listening.clone() };
    far.id.accept(&terms(b"")).expect("it can be accepted");
    established(&asking);
    established(&listening);
    (sender, far)
}

#[test]
fn message_memory_is_gathered_from_its_pool_in_order() {
    let Some(ip) = lab() else { return };
    let (near, _) = pair(ip, 2);
    let (mut sender, mut far) = slice_sender(&near.bench, ip);
    let pool = slab::Pool::new(slab::PoolOptions::default());
    let mut regions = ib::PoolRegions::new(&near.bench.domain);
    let mut block = pool.block(600);
    for (at, byte) in block.iter_mut().enumerate() {
        *byte = at as u8;
    }
    let whole = block.freeze();
    assert!(regions.key(&whole).is_none(), "nothing was registered yet");
    regions.refresh(&pool).expect("it can be registered");
    let key = regions.key(&whole).expect("it is registered");
    let pieces = [whole.slice(500..600), whole.slice(0..100), whole.slice(50..51)];
    let mut batch = sender.batch();
    batch.send(pieces.map(|piece| (piece, key)), signalled(9)).expect("there is room");
    batch.post().expect("it can be posted");
    assert_eq!(far.received(), [&whole[500..600], &whole[..100], &whole[50..51]].concat());
}

#[test]
fn registrations_follow_a_pool() {
    let Some(ip) = lab() else { return };
    let (near, _far) = pair(ip, 1);
    let pool = slab::Pool::new(slab::PoolOptions { cached_bytes_max: 0 });
    let mut regions = ib::PoolRegions::new(&near.bench.domain);
    let (small, large) = (pool.block(64), pool.block(1 << 20));
    regions.refresh(&pool).expect("it can be registered");
    assert!(regions.key(&small).is_some() && regions.key(&large).is_some());
    let pinned = regions.pinned_bytes();
    assert_eq!(pinned, pool.mapped_bytes());
    // Gone and come back, to the same address or not: it is registered anew.
    drop(large);
    pool.trim();
    let large = pool.block(1 << 20);
    regions.refresh(&pool).expect("it can be registered");
    assert!(regions.key(&small).is_some() && regions.key(&large).is_some());
    assert_eq!(regions.pinned_bytes(), pool.mapped_bytes());
    drop((small, large));
    pool.trim();
    regions.refresh(&pool).expect("it can be deregistered");
    assert_eq!((regions.pinned_bytes(), pool.mapped_bytes()), (0, 0));
}

#[test]
fn a_read_fetches_exactly_what_was_granted() {
    let Some(ip) = lab() else { return };
    let (mut near, far) = pair(ip, 2);
    let pages = SharedPages::new(3 * PART_BYTES).expect("memory");
    pages.write(PART_BYTES - 2, b"..the body..");
    let region = MemoryRegion::new(&far.bench.domain, pages, RemoteAccess::Read).expect("it can be registered");
    let grant = region.remote();
    let (into, key) = (near.bench.filled(b""), near.bench.key);
    let mut batch = near.pair.batch();
    let from = RemoteMemory { address: grant.address + PART_BYTES as u64, ..grant };
    batch.read(into, key, from, signalled(5)).expect("there is room");
    batch.post().expect("it can be posted");
    let (status, mut done) = near.finished();
    assert!(status.is_success(), "{status}");
    let filled = done.pop().and_then(|work| work.read_memory).expect("a READ gives its memory back");
    assert!(filled.starts_with(b"the body..\0"), "{:?}", &filled[..12]);
    assert!(done.is_empty());
}

#[test]
fn a_write_lands_where_the_peer_allows_it() {
    let Some(ip) = lab() else { return };
    let (mut near, far) = pair(ip, 2);
    let region =
        MemoryRegion::new_remote_writable(&far.bench.domain, SharedPages::new(2 * PART_BYTES).expect("memory"))
            .expect("it can be registered");
    let (part, key) = (near.bench.filled(b"written"), near.bench.key);
    let mut batch = near.pair.batch();
    let to = RemoteMemory { address: region.remote().address + 1, ..region.remote() };
    batch.write([(part, key)], to, signalled(1)).expect("there is room");
    batch.post().expect("it can be posted");
    assert!(near.finished().0.is_success());
    let mut seen = [0; 9];
    region.owner().read(0, &mut seen);
    assert_eq!(&seen, b"\0written\0");
    let mut batch = near.pair.batch();
    batch.write_inline(&[b"al", b"so"], region.remote(), signalled(2)).expect("there is room");
    batch.post().expect("it can be posted");
    assert!(near.finished().0.is_success());
    region.owner().read(0, &mut seen);
    assert_eq!((&seen, region.owner().read_volatile(3)), (b"alsotten\0", b'o'));
}

#[test]
fn a_channel_wakes_whoever_waits_for_its_descriptor() {
    let Some(ip) = lab() else { return };
    let (mut near, mut far) = pair(ip, 2);
    far.bench.queue.arm().expect("it can be armed");
    let mut none = Vec::new();
    assert_eq!(far.bench.queue.poll(&mut none).expect("it can be polled"), 0);
    assert!(!readable(far.bench.wakes.as_fd(), Duration::ZERO), "nothing has arrived");
    near.send_inline(b"wake");
    assert!(readable(far.bench.wakes.as_fd(), endpoints::PATIENCE), "it wakes");
    assert_eq!(far.bench.wakes.drain().expect("it can be read"), 1);
    assert!(!readable(far.bench.wakes.as_fd(), Duration::ZERO), "once");
    assert_eq!(far.received(), b"wake");
}

#[test]
fn one_completion_ends_many_sends() {
    let Some(ip) = lab() else { return };
    let (mut near, mut far) = pair(ip, 32);
    let mut ended = 0;
    for round in 0..20u8 {
        let bytes: Vec<_> = (0..16u8).map(|at| [round, at]).collect();
        let mut batch = near.pair.batch();
        for (at, bytes) in bytes.iter().enumerate() {
            let how = PostOptions { cookie: u64::from(round) * 16 + at as u64, signalled: at == 15 };
            batch.send_inline(&[bytes], how).expect("there is room");
        }
        assert_eq!(batch.post().expect("it can be posted"), 16);
        for at in 0..16 {
            assert_eq!(far.received(), [round, at]);
        }
        let (status, done) = near.finished();
        assert!(status.is_success() && done.len() == 16, "{status}");
        assert!(done.iter().all(|work| std::mem::replace(&mut ended, work.cookie + 1) == work.cookie), "in order");
    }
    assert_eq!((ended, near.pair.outstanding()), (320, 0));
    assert!(near.bench.waiting.is_empty());
}

#[test]
fn a_hundred_connections_share_one_listener() {
    let Some(ip) = lab() else { return };
    let (listening, _listener, address) = listen(ip);
    let asking = CmEventChannel::new().expect("a channel");
    let mut ends: Vec<_> = (0..100).map(|_| connect(&asking, &listening, address, 1)).collect();
    for (at, (near, far)) in ends.iter_mut().enumerate() {
        near.send_inline(&[at as u8]);
        assert_eq!(far.received(), [at as u8]);
    }
    let numbers: std::collections::BTreeSet<_> = ends.iter().map(|(near, _)| near.pair.number()).collect();
    assert_eq!(numbers.len(), 100);
}

#[test]
fn an_id_moves_to_the_channel_of_another_thread() {
    let Some(ip) = lab() else { return };
    let (near, far) = pair(ip, 2);
    let elsewhere = CmEventChannel::new().expect("a channel");
    far.id.migrate(&elsewhere).expect("it can move");
    let moved = std::thread::spawn(move || {
        disconnected(&elsewhere);
        far
    });
    near.id.disconnect().expect("it can end");
    let far = moved.join().expect("it has heard of it");
    assert!(far.channel.next().expect("it can be asked").is_none());
}

#[test]
fn handles_may_go_in_any_order() {
    let Some(ip) = lab() else { return };
    for order in 0..3 {
        let (near, mut far) = pair(ip, 4);
        let TestEndpoint { pair, bench, id, channel } = near;
        far.send_inline(b"on its way");
        match order {
            0 => {
                drop((channel, id, bench));
                drop(pair);
            }
            1 => {
                drop(pair);
                drop((bench, id));
                drop(channel);
            }
            _ => {
                let TestResources { domain, wakes, queue, receives, .. } = bench;
                drop((wakes, queue));
                drop((id, receives));
                drop((domain, channel));
                drop(pair);
            }
        }
    }
}

#[test]
fn kinds_of_completions_are_told_apart() {
    let Some(ip) = lab() else { return };
    let (mut near, mut far) = pair(ip, 2);
    near.send_inline(b"x");
    assert_eq!(far.bench.completion().opcode(), WcOpcode::Receive);
    assert_eq!(near.bench.completion().opcode(), WcOpcode::Send);
}
