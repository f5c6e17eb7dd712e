//! Two connected endpoints in one process, over the lab's device.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Once;
use std::time::{Duration, Instant};

use ib::{
    Arena, ArenaBlock, CmEvent, CmEventChannel, CmEventKind, CmId, CompletedWork, Completion, CompletionChannel,
    CompletionQueue, ConnectParams, LocalKey, MemoryRegion, PostOptions, ProtectionDomain, QueuePair, QueuePairOptions,
    ReadLimits, RemoteAccess, SharedReceiveQueue,
};

/// Longer than anything here takes on a loaded machine; who waits for it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// 4.096 us times 2 to the power of this: 67 ms. Some kernels wait up to four times as long.
pub const ACK_TIMEOUT_EXPONENT: u8 = 14;
pub const READS: ReadLimits = ReadLimits { responder_resources: 4, initiator_depth: 4 };
pub const PART_BYTES: usize = 4096;

/// The address of the lab's device, or `None`, said aloud, where this is not run in the lab.
pub fn lab() -> Option<IpAddr> {
    if let Ok(address) = std::env::var("LAB_ADDRESS") {
        return Some(address.parse().expect("LAB_ADDRESS is an address"));
    }
    assert!(std::env::var_os("LAB_MUST").is_none(), "LAB_ADDRESS is not set");
    let why = match ib::devices() {
        Ok(_) => "LAB_ADDRESS does not say which address to use".to_owned(),
        Err(error) => error.to_string(),
    };
    // Once for all of them, and past the capture of tests that pass, so that it is seen.
    static SAID: Once = Once::new();
    SAID.call_once(|| writeln!(std::io::stdout(), "\nSKIPPED: all over a device: {why}").expect("standard output"));
    None
}

#[expect(clippy::disallowed_methods, reason = "a test that waits has a deadline")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits until the descriptor is readable; false after `patience`.
pub fn readable(fd: BorrowedFd<'_>, patience: Duration) -> bool {
    let mut ready = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    unsafe { libc::poll(&mut ready, 1, patience.as_millis() as i32) > 0 }
}

/// The next event of a channel.
pub fn event(channel: &CmEventChannel) -> CmEvent {
    let deadline = now() + PATIENCE;
    loop {
        if let Some(event) = channel.next().expect("the channel can be read") {
            return event;
        }
        assert!(now() < deadline && readable(channel.as_fd(), PATIENCE), "no event came");
    }
}

/// The next event, which must be as `wanted`.
pub fn expect<T>(channel: &CmEventChannel, what: &str, wanted: impl FnOnce(CmEvent) -> Result<T, CmEvent>) -> T {
    wanted(event(channel)).unwrap_or_else(|event| panic!("not {what}: {event:?}"))
}

pub fn established(channel: &CmEventChannel) -> Vec<u8> {
    expect(channel, "established", |event| match event.kind {
        CmEventKind::Established { .. } => Ok(event.private_data),
        _ => Err(event),
    })
}

pub fn disconnected(channel: &CmEventChannel) {
    expect(
        channel,
        "disconnected",
        |event| if matches!(event.kind, CmEventKind::Disconnected) { Ok(()) } else { Err(event) },
    );
}

pub fn request(channel: &CmEventChannel) -> (CmId, Vec<u8>) {
    expect(channel, "a request", |event| match event.kind {
        CmEventKind::ConnectRequest { id, .. } => Ok((id, event.private_data)),
        _ => Err(event),
    })
}

pub fn terms(data: &[u8]) -> ConnectParams<'_> {
    ConnectParams { private_data: data, read_limits: READS, retry_count: 6, rnr_retry_count: 6 }
}

/// A listener on a port of the system's choice.
pub fn listen(ip: IpAddr) -> (CmEventChannel, CmId, SocketAddr) {
    let channel = CmEventChannel::new().expect("a channel");
    let id = CmId::new(&channel).expect("an id");
    id.bind(SocketAddr::new(ip, 0)).expect("the address is that of a device");
    id.listen(128).expect("it can be listened on");
    let address = id.local_address().expect("it is bound");
    assert_ne!(address.port(), 0);
    (channel, id, address)
}

/// An id whose way to `to` is known.
pub fn routed(channel: &CmEventChannel, to: SocketAddr) -> CmId {
    let id = CmId::new(channel).expect("an id");
    id.set_ack_timeout(ACK_TIMEOUT_EXPONENT).expect("the time-out can be set");
    id.resolve_address(None, to, PATIENCE).expect("it can be asked");
    expect(
        channel,
        "an address",
        |event| if matches!(event.kind, CmEventKind::AddressResolved) { Ok(()) } else { Err(event) },
    );
    id.resolve_route(PATIENCE).expect("it can be asked");
    expect(
        channel,
        "a way",
        |event| if matches!(event.kind, CmEventKind::RouteResolved) { Ok(()) } else { Err(event) },
    );
    id
}

/// What one end has besides its connection: memory, a receive queue and a completion queue.
pub struct TestResources {
    pub domain: ProtectionDomain,
    pub wakes: CompletionChannel,
    pub queue: CompletionQueue,
    pub receives: SharedReceiveQueue<ArenaBlock>,
    pub key: LocalKey,
    pub parts: Vec<ArenaBlock>,
    /// Completions that nobody has asked for yet.
    pub waiting: VecDeque<Completion>,
    /// Registered for as long as the end lives.
    _region: MemoryRegion<Arena>,
}

impl TestResources {
    /// For a device; with that many receives posted.
    pub fn new(id: &CmId, posted: usize) -> Self {
        let context = id.context().expect("a device");
        let domain = ProtectionDomain::new(&context).expect("a domain");
        let wakes = CompletionChannel::new(&context).expect("a channel");
        let queue = CompletionQueue::new(&context, 1024, Some(&wakes)).expect("a queue");
        let mut receives = SharedReceiveQueue::new(&domain, 256).expect("a receive queue");
        let (arena, mut parts) = Arena::new(posted + 64, PART_BYTES).expect("memory");
        let region = MemoryRegion::new(&domain, arena, RemoteAccess::None).expect("it can be registered");
        let key = region.key();
        let mut some: Vec<_> = parts.drain(..posted).map(|part| (part, key)).collect();
        assert_eq!(receives.post(&mut some).expect("they can be posted"), posted);
        assert!(some.is_empty() && receives.posted() == posted);
        Self { domain, wakes, queue, receives, key, parts, waiting: VecDeque::new(), _region: region }
    }

    pub fn queue_pair(&self, id: &CmId) -> QueuePair<ArenaBlock, ArenaBlock> {
        let options = QueuePairOptions { send_wr_max: 64, send_sge_max: 8, inline_bytes_max: 128 };
        QueuePair::new(id, &self.domain, &self.queue, &self.queue, &self.receives, options).expect("a queue pair")
    }

    /// The next completion, by waiting on the channel's descriptor.
    pub fn completion(&mut self) -> Completion {
        let deadline = now() + PATIENCE;
        let mut batch = Vec::new();
        while self.waiting.is_empty() {
            self.queue.arm().expect("it can be armed");
            self.queue.poll(&mut batch).expect("it can be polled");
            self.waiting.extend(batch.drain(..));
            if self.waiting.is_empty() {
                assert!(now() < deadline && readable(self.wakes.as_fd(), PATIENCE), "no completion came");
                self.wakes.drain().expect("the channel can be read");
            }
        }
        self.waiting.pop_front().expect("one is there")
    }

    /// A part with these bytes in front.
    pub fn filled(&mut self, bytes: &[u8]) -> ArenaBlock {
        let mut part = self.parts.pop().expect("a part is free");
        part[..bytes.len()].copy_from_slice(bytes);
        part
    }
}

/// One end of a connection.
pub struct TestEndpoint {
    // The queue pair goes first: so memory that it held is not waited for by anybody.
    pub pair: QueuePair<ArenaBlock, ArenaBlock>,
    pub bench: TestResources,
    pub id: CmId,
    pub channel: CmEventChannel,
}

impl TestEndpoint {
    /// The next completion of a receive: what arrived. The buffer is posted again.
    pub fn received(&mut self) -> Vec<u8> {
        let completion = self.bench.completion();
        assert!(completion.status().is_success(), "{completion:?}");
        assert_eq!(completion.work_queue(), self.bench.receives.work_queue(), "{completion:?}");
        assert_eq!(completion.queue_pair(), self.pair.number());
        let bytes = completion.bytes() as usize;
        let part = self.bench.receives.on_completion(completion).expect("it was posted");
        let seen = part[..bytes].to_vec();
        let key = self.bench.key;
        self.bench.receives.post(&mut vec![(part, key)]).expect("it can be posted again");
        seen
    }

    /// The next completion of work of our own.
    pub fn finished(&mut self) -> (ib::WcStatus, Vec<CompletedWork<ArenaBlock>>) {
        let completion = self.bench.completion();
        assert_eq!(completion.work_queue(), self.pair.work_queue(), "{completion:?}");
        let (status, mut into) = (completion.status(), Vec::new());
        self.pair.on_completion(completion, &mut into).expect("it was posted");
        (status, into)
    }

    pub fn send_inline(&mut self, bytes: &[u8]) {
        let mut batch = self.pair.batch();
        batch.send_inline(&[bytes], signalled(1)).expect("there is room");
        assert_eq!(batch.post().expect("it can be posted"), 1);
    }
}

pub fn signalled(cookie: u64) -> PostOptions {
    PostOptions { cookie, signalled: true }
}

/// Two ends, with `posted` receives each. The first has asked.
pub fn pair(ip: IpAddr, posted: usize) -> (TestEndpoint, TestEndpoint) {
    let (listening, listener, address) = listen(ip);
    let asking = CmEventChannel::new().expect("a channel");
    let ends = connect(&asking, &listening, address, posted);
    drop(listener);
    ends
}

/// Two more ends by a listener that is there.
pub fn connect(
    asking: &CmEventChannel,
    listening: &CmEventChannel,
    address: SocketAddr,
    posted: usize,
) -> (TestEndpoint, TestEndpoint) {
    let id = routed(asking, address);
    let bench = TestResources::new(&id, posted);
    let near = TestEndpoint { pair: bench.queue_pair(&id), bench, id, channel: asking.clone() };
    near.id.connect(&terms(b"let me in")).expect("it can be asked");
    let (id, data) = request(listening);
    assert!(data.starts_with(b"let me in\0") || data == b"let me in", "{data:?}");
    id.set_ack_timeout(ACK_TIMEOUT_EXPONENT).expect("the time-out can be set");
    let bench = TestResources::new(&id, posted);
    let far = TestEndpoint { pair: bench.queue_pair(&id), bench, id, channel: listening.clone() };
    far.id.accept(&terms(b"be welcome")).expect("it can be accepted");
    assert!(established(asking).starts_with(b"be welcome"));
    established(listening);
    (near, far)
}
