//! Failures over a real device, each limited to its own connection.

use super::endpoints::{
    PART_BYTES, PATIENCE, TestEndpoint, TestResources, connect, disconnected, established, event, expect, lab, listen,
    now, pair, readable, request, routed, signalled, terms,
};
use ib::{
    AsyncEvent, CmEventChannel, CmEventKind, ConnectParams, ConnectStep, IbError, MemoryRegion, PostOptions,
    QueuePairState, RemoteAccess, RemoteMemory, SharedPages, WcStatus,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Two connections by one listener, with a grant of the far end of the first.
fn two(ip: IpAddr) -> ((TestEndpoint, TestEndpoint), (TestEndpoint, TestEndpoint), MemoryRegion<SharedPages>) {
    let (listening, _listener, address) = listen(ip);
    let asking = CmEventChannel::new().expect("a channel");
    let one = connect(&asking, &listening, address, 4);
    let other = connect(&asking, &listening, address, 4);
    let region =
        MemoryRegion::new(&one.1.bench.domain, SharedPages::new(PART_BYTES).expect("memory"), RemoteAccess::Read)
            .expect("it can be registered");
    (one, other, region)
}

fn read(end: &mut TestEndpoint, from: RemoteMemory) -> WcStatus {
    let (into, key) = (end.bench.filled(b""), end.bench.key);
    let mut batch = end.pair.batch();
    batch.read(into, key, from, signalled(7)).expect("there is room");
    batch.post().expect("it can be posted");
    let (status, done) = end.finished();
    assert!(done.len() == 1 && done[0].read_memory.is_some(), "failed or not, the memory comes back");
    status
}

#[test]
fn a_read_that_was_not_granted_fails_on_its_connection_alone() {
    let Some(ip) = lab() else { return };
    type CorruptRemote = fn(RemoteMemory) -> RemoteMemory;
    let wrongs: [(&str, CorruptRemote); 4] = [
        ("a key that was never given", |grant| RemoteMemory { key: grant.key ^ 0x5a5a_5a5a, ..grant }),
        ("beyond the end", |grant| RemoteMemory { address: grant.address + 1, ..grant }),
        ("before the start", |grant| RemoteMemory { address: grant.address - 1, ..grant }),
        ("nowhere", |grant| RemoteMemory { address: 0, ..grant }),
    ];
    for (what, wrong) in wrongs {
        let ((mut near, far), (mut near_too, mut far_too), region) = two(ip);
        assert!(read(&mut near, region.remote()).is_success(), "what was granted can be read");
        assert_eq!(read(&mut near, wrong(region.remote())), WcStatus::REMOTE_ACCESS, "{what}");
        assert_eq!(near.pair.state().expect("it can be asked"), QueuePairState::Error, "{what}");
        near_too.send_inline(b"unmoved");
        assert_eq!(far_too.received(), b"unmoved", "{what}");
        drop(far);
    }
}

#[test]
fn a_grant_ends_with_its_region() {
    let Some(ip) = lab() else { return };
    let ((mut near, _far), (mut near_too, mut far_too), region) = two(ip);
    let grant = region.remote();
    let pages = region.into_owner();
    assert_eq!(read(&mut near, grant), WcStatus::REMOTE_ACCESS);
    pages.write(0, b"still ours");
    near_too.send_inline(b"unmoved");
    assert_eq!(far_too.received(), b"unmoved");
}

#[test]
fn more_than_there_is_room_for_fails_at_both_ends() {
    let Some(ip) = lab() else { return };
    let (mut near, mut far) = pair(ip, 2);
    let key = near.bench.key;
    let pieces = [near.bench.filled(b"a"), near.bench.filled(b"b")];
    let mut batch = near.pair.batch();
    batch.send(pieces.into_iter().map(|piece| (piece, key)), signalled(1)).expect("there is room");
    batch.post().expect("it can be posted");
    let (status, _) = near.finished();
    // The standard says the first, and Soft-RoCE the other.
    assert!([WcStatus::REMOTE_INVALID, WcStatus::REMOTE_OPERATION].contains(&status), "{status}");
    let completion = far.bench.completion();
    // `LOCAL_LENGTH` by the standard, and again another number from Soft-RoCE.
    assert!(!completion.status().is_success(), "{completion:?}");
    assert_eq!(completion.work_queue(), far.bench.receives.work_queue());
    far.bench.receives.on_completion(completion).expect("the buffer comes back all the same");
}

#[test]
fn a_receiver_that_is_not_ready_is_not_waited_for_for_ever() {
    let Some(ip) = lab() else { return };
    let (mut near, _far) = pair(ip, 0);
    near.send_inline(b"to nobody");
    assert_eq!(near.finished().0, WcStatus::RNR_RETRY_EXCEEDED);
}

/// The peer's queue pair is gone, and nobody says so: nothing but the card's own retries tells.
#[test]
fn a_peer_that_falls_silent_is_noticed_by_retries_that_end() {
    let Some(ip) = lab() else { return };
    let (mut near, far) = pair(ip, 2);
    let TestEndpoint { pair, id, bench, channel } = far;
    drop(pair);
    let begun = now();
    let key = near.bench.key;
    let part = near.bench.filled(b"is anybody there?");
    let mut batch = near.pair.batch();
    batch.send([(part, key)], PostOptions { cookie: 1, signalled: false }).expect("there is room");
    batch.post().expect("it can be posted");
    near.send_inline(b"hello?");
    // The failure of the first comes although no completion was asked for; what was behind it is flushed.
    let (status, done) = near.finished();
    assert_eq!((status, done.len()), (WcStatus::RETRY_EXCEEDED, 1));
    assert_eq!(near.finished().0, WcStatus::WR_FLUSH);
    let took = now() - begun;
    assert!(took < Duration::from_secs(20), "it took {took:?}");
    assert!(near.channel.next().expect("it can be asked").is_none(), "no event comes with it");
    drop((id, bench, channel));
}

#[test]
fn retries_without_end_are_refused() {
    let Some(ip) = lab() else { return };
    let (_listening, _listener, address) = listen(ip);
    let asking = CmEventChannel::new().expect("a channel");
    let id = routed(&asking, address);
    let bench = TestResources::new(&id, 1);
    let _pair = bench.queue_pair(&id);
    let refused = id.connect(&ConnectParams { retry_count: 7, ..terms(b"") });
    assert!(matches!(refused, Err(IbError::Limit { requested: 7, max: 6, .. })), "{refused:?}");
    let refused = id.connect(&terms(&[0; 57]));
    assert!(matches!(refused, Err(IbError::Limit { requested: 57, max: 56, .. })), "{refused:?}");
    assert!(matches!(id.set_ack_timeout(32), Err(IbError::Limit { .. })));
}

#[test]
fn an_ended_connection_flushes_and_says_when_it_takes_no_more_receives() {
    let Some(ip) = lab() else { return };
    let (mut near, far) = pair(ip, 2);
    near.pair.move_to_error().expect("it can be ended");
    near.send_inline(b"too late");
    assert_eq!(near.finished().0, WcStatus::WR_FLUSH);
    let context = near.id.context().expect("it has a device");
    let deadline = now() + PATIENCE;
    // Other tests' events come here as well: all of them share the device.
    loop {
        match context.async_event().expect("it can be asked") {
            Some(AsyncEvent::LastWqeReached { queue_pair }) if queue_pair == near.pair.number() => break,
            Some(_) => {}
            None if readable(context.async_fd(), Duration::from_millis(200)) => {}
            // Soft-RoCE of some kernels says so only when a packet finds the queue pair in that state.
            None => break,
        }
        assert!(now() < deadline, "the events have no end");
    }
    drop(far);
}

#[test]
fn what_a_queue_cannot_take_is_refused_before_the_device_sees_it() {
    let Some(ip) = lab() else { return };
    let (mut near, mut far) = pair(ip, 2);
    let most = near.pair.options().send_wr_max as usize;
    let mut batch = near.pair.batch();
    for at in 0..most {
        batch.send_inline(&[b"x"], signalled(at as u64)).expect("there is room");
    }
    assert!(matches!(batch.send_inline(&[b"x"], signalled(0)), Err(IbError::QueueFull)));
    // A batch that is dropped leaves nothing behind.
    drop(batch);
    assert_eq!((near.pair.free_slots(), near.pair.outstanding()), (most, 0));
    let long = [0; 4097];
    assert!(matches!(
        near.pair.batch().send_inline(&[&long], signalled(0)),
        Err(IbError::Limit { requested: 4097, .. })
    ));
    let (foreign, key) = (far.bench.filled(b"of another region"), near.bench.key);
    assert!(matches!(near.pair.batch().send([(foreign, key)], signalled(0)), Err(IbError::NotRegistered)));
    let parts: Vec<_> = (0..9).map(|_| (near.bench.filled(b""), key)).collect();
    assert!(matches!(near.pair.batch().send(parts, signalled(0)), Err(IbError::Limit { requested: 9, max: 8, .. })));
    assert_eq!(near.pair.outstanding(), 0);
    // A completion of one queue is none of another.
    near.send_inline(b"x");
    let completion = far.bench.completion();
    assert!(matches!(far.pair.on_completion(completion, &mut Vec::new()), Err(IbError::WrongQueue)));
    let completion = near.bench.completion();
    assert!(matches!(near.bench.receives.on_completion(completion), Err(IbError::WrongQueue)));
}

#[test]
fn an_address_without_a_device_is_refused() {
    let Some(_) = lab() else { return };
    let channel = CmEventChannel::new().expect("a channel");
    let id = ib::CmId::new(&channel).expect("an id");
    assert!(matches!(id.context(), Err(IbError::InvalidState(_))));
    // An address of documentation, which nobody has.
    let refused = id.bind(SocketAddr::new([192, 0, 2, 7].into(), 0));
    assert!(matches!(refused, Err(IbError::CallFailed { call: "rdma_bind_addr", .. })), "{refused:?}");
    let id = ib::CmId::new(&channel).expect("an id");
    let nowhere = SocketAddr::new([192, 0, 2, 7].into(), 1);
    match id.resolve_address(None, nowhere, Duration::from_secs(1)) {
        Err(IbError::CallFailed { call: "rdma_resolve_addr", .. }) => {}
        Ok(()) => expect(&channel, "a failure", |event| match event.kind {
            CmEventKind::Failed { step: ConnectStep::Address, .. } => Ok(()),
            _ => Err(event),
        }),
        Err(error) => panic!("{error}"),
    }
}

const PEER: &str = "failures::a_peer_that_is_killed_is_noticed_at_once";
const PEER_ADDRESS: &str = "FABRIC_PEER_ADDRESS";

/// This test is its own peer: with an address in the environment it connects there and waits to be killed.
#[test]
fn a_peer_that_is_killed_is_noticed_at_once() {
    let Some(ip) = lab() else { return };
    if let Ok(address) = std::env::var(PEER_ADDRESS) {
        be_killed(address.parse().expect("an address"));
        return;
    }
    let (listening, _listener, address) = listen(ip);
    let test = std::env::current_exe().expect("this test");
    let mut peer = Command::new(test)
        .args(["--exact", PEER, "--nocapture"])
        .env(PEER_ADDRESS, address.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let (id, _) = request(&listening);
    let bench = TestResources::new(&id, 4);
    let mut far = TestEndpoint { pair: bench.queue_pair(&id), bench, id, channel: listening };
    far.id.accept(&terms(b"")).expect("it can be accepted");
    established(&far.channel);
    assert_eq!(far.received(), b"here I am");
    peer.kill().expect("it lives");
    peer.wait().expect("it has ended");
    let begun = now();
    disconnected(&far.channel);
    assert!(now() - begun < Duration::from_secs(10), "{:?}", now() - begun);
    far.id.disconnect().expect("it can end");
    far.send_inline(b"to nobody");
    assert_eq!(far.finished().0, WcStatus::WR_FLUSH);
}

fn be_killed(address: SocketAddr) {
    let asking = CmEventChannel::new().expect("a channel");
    let id = routed(&asking, address);
    let bench = TestResources::new(&id, 1);
    let mut end = TestEndpoint { pair: bench.queue_pair(&id), bench, id, channel: asking };
    end.id.connect(&terms(b"")).expect("it can be asked");
    established(&end.channel);
    end.send_inline(b"here I am");
    // No event comes before the end of this process.
    readable(end.channel.as_fd(), PATIENCE);
    panic!("nobody has killed this: {:?}", event(&end.channel));
}
