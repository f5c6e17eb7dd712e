//! A hostile client with a queue pair of its own, which sends whatever it is told to. It keeps the protocol's counts
//! only where it is not told otherwise, and does not use the crate `verbs`.

use super::format::{CLOSE, DATA, HEADER_BYTES, PeerHello, RENDEZVOUS, RendezvousOffer, WireMessage, header};
use super::{PATIENCE, now};
use ib::{
    Arena, ArenaBlock, CmEventChannel, CmEventKind, CmId, CompletionChannel, CompletionQueue, ConnectParams,
    FilledArenaBlock, LocalKey, MemoryRegion, PostOptions, ProtectionDomain, QueuePair, QueuePairOptions, ReadLimits,
    RemoteAccess, RemoteMemory, SharedPages, SharedReceiveQueue, WcStatus,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Longer than any receive buffer of the broker's.
const PART_BYTES: usize = 16_384;
/// Posted receives, whatever it announces.
const RECEIVES: usize = 32;
/// Buffers to send from, and to read into.
const PARTS: usize = 16;
const INLINE_BYTES: usize = 64;
pub const WORK_MAX: u32 = 1_024;
/// Work request id of a READ or WRITE. Sends have none.
const REMOTE: u64 = 1;
/// 4.096 us times 2 to the power of this: 67 ms.
const ACK_TIMEOUT_EXPONENT: u8 = 14;

/// Why a connection request failed.
#[derive(Debug, PartialEq, Eq)]
pub enum ConnectRefusal {
    /// The broker's reason.
    Reason(u16),
    /// The connection manager's event, without a reason of the broker's.
    Silently(String),
}

/// An id with a resolved route.
pub fn towards(channel: &CmEventChannel, to: SocketAddr) -> CmId {
    let id = CmId::new(channel).expect("an id");
    id.set_ack_timeout(ACK_TIMEOUT_EXPONENT).expect("the time-out can be set");
    id.resolve_address(None, to, PATIENCE).expect("it can be asked");
    let about = next_event(channel, "an address");
    assert!(matches!(about.0, CmEventKind::AddressResolved), "{about:?}");
    id.resolve_route(PATIENCE).expect("it can be asked");
    let about = next_event(channel, "a way");
    assert!(matches!(about.0, CmEventKind::RouteResolved), "{about:?}");
    id
}

/// Parameters of a request.
pub fn terms(data: &[u8], reads: ReadLimits) -> ConnectParams<'_> {
    ConnectParams { private_data: data, read_limits: reads, retry_count: 6, rnr_retry_count: 6 }
}

fn next_event(channel: &CmEventChannel, what: &str) -> (CmEventKind, Vec<u8>) {
    let deadline = now() + PATIENCE;
    loop {
        if let Some(event) = channel.next().expect("the channel can be read") {
            return (event.kind, event.private_data);
        }
        assert!(now() < deadline, "no event came: {what}");
        wait(&[channel.as_fd()]);
    }
}

/// Waits until one is readable, or for a moment.
fn wait(fds: &[std::os::fd::BorrowedFd<'_>]) {
    let mut list: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut list, Some(&moment)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => panic!("descriptors cannot be waited for: {error}"),
    }
}

pub struct HostilePeer {
    // The queue pair must be dropped first.
    pair: QueuePair<FilledArenaBlock, ArenaBlock>,
    receives: SharedReceiveQueue<ArenaBlock>,
    queue: CompletionQueue,
    wakes: CompletionChannel,
    key: LocalKey,
    parts: Vec<ArenaBlock>,
    _region: MemoryRegion<Arena>,
    domain: ProtectionDomain,
    id: CmId,
    channel: CmEventChannel,
    /// Memory that it has offered.
    lent: Vec<MemoryRegion<SharedPages>>,
    /// The numbers of the next message and of the next offer.
    pub sequence: u16,
    pub offers: u32,
    /// A false number of returned credits, if it does not count.
    pub returned: Option<u16>,
    received: u16,
    unread: Vec<WireMessage>,
    /// Status of the last READ or WRITE.
    remote: Option<WcStatus>,
    gone: bool,
}

impl HostilePeer {
    /// Connects with this private data.
    pub fn connect(to: SocketAddr, hello: &PeerHello) -> Result<HostilePeer, ConnectRefusal> {
        let reads = ReadLimits { responder_resources: hello.reads_answered, initiator_depth: hello.reads_issued };
        let mut peer = HostilePeer::prepare(to);
        peer.id.connect(&terms(&hello.bytes(), reads)).expect("it can be asked");
        match next_event(&peer.channel, "an answer") {
            (CmEventKind::Established { .. }, data) => {
                assert!(data.starts_with(b"HRDM\x01\x01"), "the broker's hello: {data:?}");
                peer.poll();
                Ok(peer)
            }
            (CmEventKind::Rejected { .. }, data) if data.starts_with(b"HRDM") => {
                Err(ConnectRefusal::Reason(u16::from_be_bytes([data[4], data[5]])))
            }
            (about, _) => Err(ConnectRefusal::Silently(format!("{about:?}"))),
        }
    }

    /// Everything but the request.
    pub fn prepare(to: SocketAddr) -> HostilePeer {
        let channel = CmEventChannel::new().expect("a channel");
        let id = towards(&channel, to);
        let context = id.context().expect("a device");
        let domain = ProtectionDomain::new(&context).expect("a domain");
        let wakes = CompletionChannel::new(&context).expect("a channel");
        let entries = WORK_MAX + RECEIVES as u32;
        let queue = CompletionQueue::new(&context, entries, Some(&wakes)).expect("a queue");
        let mut receives = SharedReceiveQueue::new(&domain, RECEIVES as u32).expect("a receive queue");
        let (arena, mut parts) = Arena::new(RECEIVES + PARTS, PART_BYTES).expect("memory");
        let region = MemoryRegion::new(&domain, arena, RemoteAccess::None).expect("it can be registered");
        let key = region.key();
        let mut some: Vec<_> = parts.drain(..RECEIVES).map(|part| (part, key)).collect();
        assert_eq!(receives.post(&mut some).expect("they can be posted"), RECEIVES);
        let options =
            QueuePairOptions { send_wr_max: WORK_MAX, send_sge_max: 1, inline_bytes_max: INLINE_BYTES as u32 };
        let pair = QueuePair::new(&id, &domain, &queue, &queue, &receives, options).expect("a queue pair");
        HostilePeer {
            pair,
            receives,
            queue,
            wakes,
            key,
            parts,
            _region: region,
            domain,
            id,
            channel,
            lent: Vec::new(),
            sequence: 0,
            offers: 0,
            returned: None,
            received: 0,
            unread: Vec::new(),
            remote: None,
            gone: false,
        }
    }

    /// A message with a valid header, except for what it was told to falsify.
    pub fn message(&mut self, kind: u8, payload: &[u8]) -> Vec<u8> {
        self.lying(payload.len() as u32, kind, payload)
    }

    fn lying(&mut self, says_bytes: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
        let head = header(says_bytes, kind, self.returned.unwrap_or(self.received), self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
        [&head[..], payload].concat()
    }

    pub fn send(&mut self, kind: u8, payload: &[u8]) {
        let message = self.message(kind, payload);
        self.post(&[message]);
    }

    /// Sends a message whose header has another length.
    pub fn send_lying(&mut self, says_bytes: u32, kind: u8, payload: &[u8]) {
        let message = self.lying(says_bytes, kind, payload);
        self.post(&[message]);
    }

    /// Posts all of them with one doorbell.
    pub fn post(&mut self, messages: &[Vec<u8>]) {
        self.poll();
        let mut batch = self.pair.batch();
        for message in messages {
            let how = PostOptions { cookie: 0, signalled: true };
            if message.len() <= INLINE_BYTES {
                batch.send_inline(&[message], how).expect("there is room");
                continue;
            }
            let mut part = self.parts.pop().expect("a part is free");
            part[..message.len()].copy_from_slice(message);
            batch.send([(FilledArenaBlock::new(part, message.len(), 0), self.key)], how).expect("there is room");
        }
        // A peer that was disconnected meanwhile has a queue pair in error, which is fine.
        let _gone = batch.post();
    }

    /// Sends bytes of the stream as DATA.
    pub fn stream(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(4_096 - HEADER_BYTES) {
            self.send(DATA, piece);
        }
    }

    /// Registers memory that the broker may read.
    pub fn lend(&mut self, bytes: &[u8]) -> RemoteMemory {
        let pages = SharedPages::new(bytes.len()).expect("memory");
        pages.write(0, bytes);
        let region = MemoryRegion::new(&self.domain, pages, RemoteAccess::Read).expect("it can be registered");
        let grant = region.remote();
        self.lent.push(region);
        RemoteMemory { bytes: bytes.len() as u64, ..grant }
    }

    /// Revokes all registered memory: its keys become invalid.
    pub fn take_back(&mut self) {
        self.lent.clear();
    }

    pub fn offer_of(&mut self, bytes: u32, address: u64, key: u32) -> Vec<u8> {
        let offer = RendezvousOffer { number: self.offers, bytes, address, key };
        self.offers += 1;
        self.message(RENDEZVOUS, &offer.bytes())
    }

    pub fn offer(&mut self, bytes: u32, address: u64, key: u32) {
        let message = self.offer_of(bytes, address, key);
        self.post(&[message]);
    }

    /// Reads the broker's memory, and returns the status.
    pub fn read(&mut self, address: u64, bytes: u32, key: u32) -> WcStatus {
        let into = self.parts.pop().expect("a part is free");
        let how = PostOptions { cookie: REMOTE, signalled: true };
        let from = RemoteMemory { address, bytes: bytes.into(), key };
        self.remote = None;
        let mut batch = self.pair.batch();
        batch.read_part(into, 0, bytes as usize, self.key, from, how).expect("there is room");
        batch.post().expect("it can be posted");
        self.until("the end of a READ", |peer| peer.remote)
    }

    /// Starts a READ without waiting.
    pub fn begin_read(&mut self, address: u64, bytes: u32, key: u32) {
        let into = self.parts.pop().expect("a part is free");
        let mut batch = self.pair.batch();
        let from = RemoteMemory { address, bytes: bytes.into(), key };
        let how = PostOptions { cookie: REMOTE, signalled: true };
        batch.read_part(into, 0, bytes as usize, self.key, from, how).expect("there is room");
        batch.post().expect("it can be posted");
    }

    /// Writes to the broker's memory, and returns the status.
    pub fn write(&mut self, address: u64, bytes: &[u8], key: u32) -> WcStatus {
        let how = PostOptions { cookie: REMOTE, signalled: true };
        let to = RemoteMemory { address, bytes: bytes.len() as u64, key };
        self.remote = None;
        let mut batch = self.pair.batch();
        batch.write_inline(&[bytes], to, how).expect("there is room");
        batch.post().expect("it can be posted");
        self.until("the end of a WRITE", |peer| peer.remote)
    }

    /// Handles completions and events.
    pub fn poll(&mut self) {
        // The disconnect event first: messages from before it are then among the completions.
        while let Some(event) = self.channel.next().expect("the channel can be read") {
            self.gone |= matches!(event.kind, CmEventKind::Disconnected);
        }
        let mut batch = Vec::new();
        self.queue.arm().expect("it can be armed");
        while self.queue.poll(&mut batch).expect("it can be polled") > 0 {}
        let mut finished = Vec::new();
        for completion in batch {
            let (status, bytes) = (completion.status(), completion.bytes() as usize);
            if completion.work_queue() == self.receives.work_queue() {
                let part = self.receives.on_completion(completion).expect("it was posted");
                if status.is_success() {
                    self.unread.push(WireMessage::read(&part[..bytes], self.received));
                    self.received = self.received.wrapping_add(1);
                    self.receives.post(&mut vec![(part, self.key)]).expect("it can be posted again");
                }
                continue;
            }
            let parts = &mut self.parts;
            self.pair
                .on_completion_with(completion, &mut finished, |filled| parts.push(filled.into_block().0))
                .expect("it was posted");
            for done in finished.drain(..) {
                self.parts.extend(done.read_memory);
                if done.cookie == REMOTE {
                    self.remote = Some(status);
                }
            }
        }
    }

    /// Polls until `found` returns something.
    pub fn until<T>(&mut self, what: &str, mut found: impl FnMut(&mut HostilePeer) -> Option<T>) -> T {
        let deadline = now() + PATIENCE;
        loop {
            self.poll();
            if let Some(found) = found(self) {
                return found;
            }
            assert!(now() < deadline, "{what}: it did not come; heard {:?}", self.unread);
            wait(&[self.wakes.as_fd(), self.channel.as_fd()]);
            self.wakes.drain().expect("the channel can be read");
        }
    }

    /// The first unread message of a kind.
    pub fn take(&mut self, kind: u8) -> Option<WireMessage> {
        let at = self.unread.iter().position(|message| message.kind == kind)?;
        Some(self.unread.remove(at))
    }

    /// Waits for the next message of a kind.
    pub fn next(&mut self, kind: u8, what: &str) -> WireMessage {
        self.until(what, |peer| peer.take(kind))
    }

    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Waits for the end of the connection, and returns the broker's last message.
    pub fn ends(&mut self) -> String {
        self.until("the end", |peer| peer.gone.then_some(()));
        let words = self.take(CLOSE).map(|close| close.payload);
        words.map_or_else(String::new, |payload| String::from_utf8_lossy(payload.get(2..).unwrap_or(&[])).into_owned())
    }

    /// Answers pings, for peers that are slow but alive.
    pub fn answer_pings(&mut self) {
        self.poll();
        while self.take(super::format::PING).is_some() {
            self.send(super::format::PONG, &[]);
        }
    }

    /// Disconnects, as the kernel does for a process that ends.
    pub fn leave(&mut self) {
        // The broker may have been quicker.
        let _told = self.id.disconnect();
    }
}

impl Drop for HostilePeer {
    fn drop(&mut self) {
        self.leave();
    }
}
