//! Two machines, each with one of these tests: `tests/lab/run` joins two guests by a cable and switches the first off.

use super::endpoints::{
    PART_BYTES, PATIENCE, TestEndpoint, TestResources, established, event, lab, now, readable, request, signalled,
    terms,
};
use ib::{
    CmEventChannel, CmEventKind, CmId, ConnectStep, MemoryRegion, RemoteAccess, RemoteMemory, SharedPages, WcStatus,
};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

const PORT: u16 = 7471;
const PEER: &str = "FABRIC_PEER";

/// The lab's address, for the machine whose test this is: only one of them knows of a peer.
fn host(asks: bool) -> Option<IpAddr> {
    let ip = lab()?;
    // In a guest of one machine these two have nothing to do, and `tests/lab/run` leaves them out there.
    (std::env::var_os(PEER).is_some() == asks).then_some(ip)
}

#[test]
fn one_listens() {
    let Some(ip) = host(false) else { return };
    let listening = CmEventChannel::new().expect("a channel");
    let listener = CmId::new(&listening).expect("an id");
    listener.bind(SocketAddr::new(ip, PORT)).expect("the address is that of a device");
    listener.listen(8).expect("it can be listened on");
    let (id, _) = request(&listening);
    let bench = TestResources::new(&id, 4);
    let mut far = TestEndpoint { pair: bench.queue_pair(&id), bench, id, channel: listening };
    far.id.accept(&terms(b"")).expect("it can be accepted");
    established(&far.channel);
    assert_eq!(far.received(), b"hello");
    let pages = MemoryRegion::new(&far.bench.domain, SharedPages::new(PART_BYTES).expect("memory"), RemoteAccess::Read)
        .expect("it can be registered");
    let grant = pages.remote();
    far.send_inline(&[grant.address.to_le_bytes(), u64::from(grant.key).to_le_bytes()].concat());
    // Until the machine is switched off, which no event tells.
    readable(far.channel.as_fd(), 3 * PATIENCE);
}

#[test]
fn one_asks() {
    let Some(_) = host(true) else { return };
    let peer = std::env::var(PEER).expect("a peer").parse().expect("an address");
    let mut end = connected(SocketAddr::new(peer, PORT));
    end.send_inline(b"hello");
    assert!(end.finished().0.is_success());
    let told = end.received();
    let number = |at: usize| u64::from_le_bytes(told[at..at + 8].try_into().expect("eight bytes"));
    let grant = RemoteMemory { address: number(0), bytes: PART_BYTES as u64, key: number(8) as u32 };
    println!("two hosts are connected");
    std::io::stdout().flush().expect("standard output");
    // The peer's machine goes now. Its card answers until then, whatever its program does.
    let begun = now();
    let key = end.bench.key;
    let mut part = end.bench.filled(b"");
    let status = loop {
        let mut batch = end.pair.batch();
        batch.read(part, key, grant, signalled(1)).expect("there is room");
        batch.post().expect("it can be posted");
        let (status, mut done) = end.finished();
        part = done.pop().and_then(|work| work.read_memory).expect("the memory comes back");
        if !status.is_success() {
            break status;
        }
        assert!(now() - begun < PATIENCE, "the peer does not go");
    };
    assert_eq!(status, WcStatus::RETRY_EXCEEDED);
    assert!(now() - begun < PATIENCE, "it took {:?}", now() - begun);
    assert!(end.channel.next().expect("it can be asked").is_none(), "no event comes with it");
    let mut batch = end.pair.batch();
    batch.send_inline(&[b"into the void"], signalled(1)).expect("there is room");
    batch.post().expect("it can be posted");
    assert_eq!(end.finished().0, WcStatus::WR_FLUSH);
}

/// Asks until the other machine is up and listens.
fn connected(to: SocketAddr) -> TestEndpoint {
    let deadline = now() + 2 * PATIENCE;
    loop {
        let asking = CmEventChannel::new().expect("a channel");
        let Some(id) = way(&asking, to) else {
            assert!(now() < deadline, "the other machine does not come up");
            continue;
        };
        let bench = TestResources::new(&id, 4);
        let end = TestEndpoint { pair: bench.queue_pair(&id), bench, id, channel: asking };
        end.id.connect(&terms(b"")).expect("it can be asked");
        let answer = event(&end.channel);
        match answer.kind {
            CmEventKind::Established { .. } => return end,
            CmEventKind::Rejected { .. } | CmEventKind::Failed { step: ConnectStep::Unreachable, .. } => {
                assert!(now() < deadline, "nobody listens: {answer:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// An id with a way to `to`, unless nobody answers there yet.
fn way(channel: &CmEventChannel, to: SocketAddr) -> Option<CmId> {
    let id = CmId::new(channel).expect("an id");
    id.set_ack_timeout(super::endpoints::ACK_TIMEOUT_EXPONENT).expect("the time-out can be set");
    id.resolve_address(None, to, Duration::from_secs(2)).expect("it can be asked");
    match event(channel).kind {
        CmEventKind::AddressResolved => {}
        CmEventKind::Failed { .. } => return None,
        other => panic!("{other:?}"),
    }
    id.resolve_route(Duration::from_secs(2)).expect("it can be asked");
    match event(channel).kind {
        CmEventKind::RouteResolved => Some(id),
        CmEventKind::Failed { .. } => None,
        other => panic!("{other:?}"),
    }
}
