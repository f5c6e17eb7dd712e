//! Memory, registrations and queues over a real device: what they return when they end.

use super::endpoints::{
    PATIENCE, TestEndpoint, TestResources, established, lab, listen, now, pair, request, routed, signalled, terms,
};
use ib::{
    Arena, CmEventChannel, CompletionQueue, FilledArenaBlock, MemoryRegion, ProtectionDomain, QueuePair,
    QueuePairOptions, RegistrationCache, RemoteAccess, SendSegment, SharedReceiveQueue, TaggedMemory,
};
use slab::{Pool, PoolOptions};

#[test]
fn devices_of_the_connection_manager_are_those_of_its_ids() {
    let Some(ip) = lab() else { return };
    let (near, _far) = pair(ip, 1);
    let context = near.id.context().expect("it has a device");
    let devices = ib::cm_devices().expect("there is a device");
    assert!(devices.contains(&context), "{devices:?}");
    assert!(!ib::devices().expect("there is a device").contains(&context), "these are openings of their own");
}

#[test]
fn an_inline_send_may_be_as_long_as_the_device_is_found_to_allow() {
    let Some(ip) = lab() else { return };
    let (near, _far) = pair(ip, 1);
    let inline = |wanted| ib::probe_inline_bytes(&near.bench.domain, &near.bench.queue, 5, wanted);
    assert_eq!(inline(64).expect("it can be asked"), 64);
    assert_eq!(inline(0).expect("it can be asked"), 0);
    let some = inline(1 << 20).expect("no device takes a mebibyte, and one that takes less says so");
    assert!((64..1 << 20).contains(&some), "{some}");
    assert!(inline(u32::MAX / 2).is_ok());
}

#[test]
fn a_read_fills_a_part_and_heads_go_before_message_memory() {
    let Some(ip) = lab() else { return };
    let (listening, _listener, address) = listen(ip);
    let asking = CmEventChannel::new().expect("a channel");
    let id = routed(&asking, address);
    let bench = TestResources::new(&id, 2);
    let options = QueuePairOptions { send_wr_max: 8, send_sge_max: 4, inline_bytes_max: 0 };
    let mut sender: QueuePair<SendSegment, slab::BlockMut> =
        QueuePair::new(&id, &bench.domain, &bench.queue, &bench.queue, &bench.receives, options).expect("a queue pair");
    id.connect(&terms(b"")).expect("it can be asked");
    let (id, _) = request(&listening);
    let theirs = TestResources::new(&id, 2);
    let mut far = TestEndpoint { pair: theirs.queue_pair(&id), bench: theirs, id, channel: listening.clone() };
    far.id.accept(&terms(b"")).expect("it can be accepted");
    established(&asking);
    established(&listening);
    // A head from a part, a body from message memory that nobody has announced.
    let pool = Pool::new(PoolOptions::default());
    let mut met = RegistrationCache::new(&bench.domain);
    let (arena, mut parts) = Arena::new(1, 128).expect("memory");
    let heads = MemoryRegion::new(&bench.domain, arena, RemoteAccess::None).expect("it can be registered");
    let mut part = parts.pop().expect("a part");
    part[..4].copy_from_slice(b"head");
    let body = pool.copy(b" and body");
    let body_key = met.key(&body).expect("it can be registered");
    let mut batch = sender.batch();
    let pieces =
        [(SendSegment::Own(FilledArenaBlock::new(part, 4, 77)), heads.key()), (SendSegment::Shared(body), body_key)];
    batch.send(pieces, signalled(1)).expect("there is room");
    batch.post().expect("it can be posted");
    assert_eq!(far.received(), b"head and body");
    // Read into the middle of a block.
    let grant = MemoryRegion::new(&far.bench.domain, pool.copy(b"0123456789"), RemoteAccess::Read)
        .expect("it can be registered");
    let mut into = pool.block(300);
    into.fill(b'.');
    let key = met.block_key(&into).expect("it can be registered");
    let mut batch = sender.batch();
    let beyond = batch.read_part(pool.block(300), 295, 6, key, grant.remote(), signalled(0));
    assert!(matches!(beyond, Err(ib::IbError::Limit { .. })), "{beyond:?}");
    batch.read_part(into, 100, 10, key, grant.remote(), signalled(2)).expect("there is room");
    batch.post().expect("it can be posted");
    let (mut done, mut heads_back, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    let deadline = now() + PATIENCE;
    let mut queue = bench.queue;
    while done.len() < 2 {
        queue.poll(&mut waiting).expect("it can be polled");
        for completion in waiting.drain(..) {
            sender.on_completion_with(completion, &mut done, |piece| heads_back.push(piece)).expect("it was posted");
        }
        assert!(now() < deadline, "no completion");
        std::thread::yield_now();
    }
    let filled = done.pop().and_then(|work| work.read_memory).expect("a READ gives its memory back");
    assert_eq!(&filled[98..112], b"..0123456789..");
    let back = heads_back.into_iter().filter_map(|piece| match piece {
        SendSegment::Own(filled) => Some(filled.into_block().1),
        SendSegment::Shared(_) => None,
    });
    assert_eq!(back.collect::<Vec<_>>(), [77]);
}

#[test]
fn memory_that_was_met_is_registered_once_and_given_up_when_it_goes() {
    let Some(ip) = lab() else { return };
    let (near, _far) = pair(ip, 1);
    let mut met = RegistrationCache::new(&near.bench.domain);
    let pool = Pool::new(PoolOptions { cached_bytes_max: 0 });
    let (small, other, large) = (pool.block(64), pool.block(64).freeze(), pool.block(2 << 20));
    met.block_key(&small).expect("it can be registered");
    met.key(&other).expect("it is registered");
    assert_eq!(met.len(), 1, "one region");
    met.block_key(&large).expect("it can be registered");
    assert_eq!((met.len(), met.pinned_bytes()), (2, pool.mapped_bytes()));
    assert!(met.key(&slab::Slice::default()).is_err());
    drop(large);
    pool.trim();
    met.sweep();
    assert_eq!((met.len(), met.pinned_bytes()), (1, pool.mapped_bytes()));
    // Perhaps at the same address: it is another region all the same.
    let large = pool.block(2 << 20);
    met.block_key(&large).expect("it can be registered");
    assert_eq!(met.pinned_bytes(), pool.mapped_bytes());
    // Of another pool, on another thread.
    let elsewhere = std::thread::spawn(|| Pool::new(PoolOptions::default()).copy(b"far away"));
    met.key(&elsewhere.join().expect("it ends")).expect("it can be registered");
    assert_eq!(met.len(), 3);
}

#[test]
fn a_queue_that_ends_gives_back_what_was_posted() {
    let Some(ip) = lab() else { return };
    let (near, mut far) = pair(ip, 0);
    let context = near.id.context().expect("it has a device");
    let domain = ProtectionDomain::new(&context).expect("a domain");
    let mut met = RegistrationCache::new(&domain);
    let pool = Pool::new(PoolOptions::default());
    let mut receives = SharedReceiveQueue::new(&domain, 8).expect("a receive queue");
    let mut list: Vec<_> = (0..3).map(|number| (pool.block(100), number)).collect();
    let mut list: Vec<_> = list
        .drain(..)
        .map(|(memory, number)| {
            let key = met.block_key(&memory).expect("it can be registered");
            (TaggedMemory { memory, tag: number }, key)
        })
        .collect();
    receives.post(&mut list).expect("they can be posted");
    // Not while a queue pair uses it.
    let (listening, _listener, address) = listen(ip);
    let asking = CmEventChannel::new().expect("a channel");
    let id = routed(&asking, address);
    let queue = CompletionQueue::new(&context, 64, None).expect("a queue");
    let options = QueuePairOptions { send_wr_max: 4, send_sge_max: 1, inline_bytes_max: 0 };
    let user: QueuePair<SendSegment, slab::BlockMut> =
        QueuePair::new(&id, &domain, &queue, &queue, &receives, options).expect("a queue pair");
    let receives = receives.destroy().expect_err("a queue pair uses it");
    assert_eq!(receives.posted(), 3);
    let mut left = Vec::new();
    user.destroy(&mut left, drop);
    assert!(left.is_empty(), "nothing was posted there");
    let mut numbers: Vec<_> =
        receives.destroy().expect("nobody uses it").into_iter().map(|buffer| buffer.tag).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    drop(listening);
    // A queue pair gives its work back: nobody receives these.
    far.pair.move_to_error().expect("it can be ended");
    let part = far.bench.filled(b"x");
    let key = far.bench.key;
    let mut batch = far.pair.batch();
    batch.send([(part, key)], signalled(41)).expect("there is room");
    batch.post().expect("it can be posted");
    let (mut left, mut sent) = (Vec::new(), 0);
    far.pair.destroy(&mut left, |_| sent += 1);
    assert_eq!((left.len(), left[0].cookie, sent), (1, 41, 1));
}
