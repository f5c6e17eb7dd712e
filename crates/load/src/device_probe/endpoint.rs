//! One endpoint of a verbs connection: queue pair, memory, completions, and counts of the operations posted to the device.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ib::{
    Arena, ArenaBlock, CmEventChannel, CmEventKind, CmId, CmIdKey, CompletedWork, Completion, CompletionChannel,
    CompletionQueue, LocalKey, MemoryRegion, PostOptions, ProtectionDomain, QueuePair, QueuePairOptions, ReadLimits,
    RemoteAccess, RemoteMemory, SharedPages, SharedReceiveQueue,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::device::DeviceFacts;
use super::verbs_request::{CompletionWait, VerbsOperation, VerbsRequest};
use crate::limits::VERBS_INLINE_BYTES;
use crate::limits::{
    SILENCE_WAIT, VERBS_BATCH_MAX, VERBS_CHECK_MS, VERBS_EMPTY_POLLS_PER_CHECK, VERBS_EMPTY_POLLS_PER_YIELD,
    VERBS_READS_MAX, VERBS_SPARE, VERBS_TEXT_BYTES_MAX,
};
use gauge::clock::Deadline;

/// Counts of operations on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounts {
    /// Calls that post requests: doorbells.
    pub posts: u64,
    /// Requests posted.
    pub requests: u64,
    /// Completions polled.
    pub completions: u64,
    /// Times an endpoint slept until it was woken.
    pub sleeps: u64,
}

impl DeviceCounts {
    /// The difference to an earlier count.
    pub fn since(self, before: Self) -> Self {
        Self {
            posts: self.posts - before.posts,
            requests: self.requests - before.requests,
            completions: self.completions - before.completions,
            sleeps: self.sleeps - before.sleeps,
        }
    }
}

/// An error of the layer below as text.
pub fn text(error: ib::IbError) -> String {
    error.to_string()
}

/// One endpoint of a connection.
pub struct VerbsEndpoint {
    request: VerbsRequest,
    /// How this endpoint waits at present.
    pub poll: CompletionWait,
    /// Timeout of a wait.
    pub patience: Duration,
    pair: QueuePair<SharedPages, ArenaBlock>,
    connection: CmIdKey,
    channel: CmEventChannel,
    wakes: CompletionChannel,
    queue: CompletionQueue,
    receives: SharedReceiveQueue<ArenaBlock>,
    receive_key: LocalKey,
    /// Receive buffers to be posted again.
    returned: Vec<(ArenaBlock, LocalKey)>,
    /// The body of messages that are sent inline.
    body: Vec<u8>,
    source: MemoryRegion<SharedPages>,
    target: MemoryRegion<SharedPages>,
    word_pages: MemoryRegion<SharedPages>,
    /// The target memory of READs.
    sinks: Vec<ArenaBlock>,
    sink_key: Option<LocalKey>,
    peer: Option<RemoteMemory>,
    unsignalled: u32,
    /// Messages that have arrived.
    pub arrived: u64,
    /// The number in the last short message.
    pub word: u64,
    /// The last text, if the caller wants to read it.
    pub last_text: Option<Vec<u8>>,
    /// Operations so far.
    pub device_counts: DeviceCounts,
    there: Vec<Completion>,
    finished: Vec<CompletedWork<ArenaBlock>>,
    // Dropped after everything that uses it.
    _memory: Vec<MemoryRegion<Arena>>,
    domain: ProtectionDomain,
}

impl VerbsEndpoint {
    /// Creates the resources for a request on the id's device.
    ///
    /// # Errors
    /// Something that the device does not support, or an error of the system.
    pub fn new(id: &CmId, channel: &CmEventChannel, request: VerbsRequest) -> Result<Self, String> {
        Self::build(id, channel, request).map_err(text)
    }

    fn build(id: &CmId, channel: &CmEventChannel, request: VerbsRequest) -> Result<Self, ib::IbError> {
        let context = id.context()?;
        let domain = ProtectionDomain::new(&context)?;
        let wakes = CompletionChannel::new(&context)?;
        let (receive_count, work_max) = (request.window + VERBS_SPARE, 2 * request.window + VERBS_SPARE);
        let queue = CompletionQueue::new(&context, receive_count + work_max, Some(&wakes))?;
        let mut receives = SharedReceiveQueue::new(&domain, receive_count)?;
        let received_bytes =
            if request.kind == VerbsOperation::Send { request.size_bytes } else { 0 }.max(VERBS_TEXT_BYTES_MAX);
        let (arena, parts) = Arena::new(receive_count as usize, received_bytes)?;
        let received = MemoryRegion::new(&domain, arena, RemoteAccess::None)?;
        let receive_key = received.key();
        let mut posted = parts.into_iter().map(|part| (part, receive_key)).collect();
        receives.post(&mut posted)?;
        let mut memory = vec![received];
        let (mut sinks, mut sink_key) = (Vec::new(), None);
        if request.kind == VerbsOperation::Read {
            let (arena, parts) = Arena::new(request.window as usize, request.size_bytes)?;
            let region = MemoryRegion::new(&domain, arena, RemoteAccess::None)?;
            (sinks, sink_key) = (parts, Some(region.key()));
            memory.push(region);
        }
        let pair = Self::queue_pair(id, &domain, &queue, &receives, work_max, &request)?;
        Ok(Self {
            request,
            poll: request.poll,
            patience: SILENCE_WAIT,
            pair,
            connection: id.key(),
            channel: channel.clone(),
            wakes,
            queue,
            receives,
            receive_key,
            returned: posted,
            body: vec![b'x'; request.size_bytes],
            source: MemoryRegion::new(&domain, SharedPages::new(request.size_bytes)?, RemoteAccess::None)?,
            target: MemoryRegion::new_remote_writable(&domain, SharedPages::new(request.size_bytes)?)?,
            word_pages: MemoryRegion::new(&domain, SharedPages::new(size_of::<u64>())?, RemoteAccess::None)?,
            sinks,
            sink_key,
            peer: None,
            unsignalled: 0,
            arrived: 0,
            word: 0,
            last_text: None,
            device_counts: DeviceCounts::default(),
            there: Vec::new(),
            finished: Vec::new(),
            _memory: memory,
            domain,
        })
    }

    /// Creates a queue pair with the requested inline limit, or the largest usual one that the device supports.
    fn queue_pair(
        id: &CmId,
        domain: &ProtectionDomain,
        queue: &CompletionQueue,
        receives: &SharedReceiveQueue<ArenaBlock>,
        work_max: u32,
        request: &VerbsRequest,
    ) -> Result<QueuePair<SharedPages, ArenaBlock>, ib::IbError> {
        let with = |inline_bytes_max| {
            QueuePair::new(
                id,
                domain,
                queue,
                queue,
                receives,
                QueuePairOptions { send_wr_max: work_max, send_sge_max: 1, inline_bytes_max },
            )
        };
        if let Some(bytes) = request.inline_bytes {
            return with(bytes);
        }
        let mut last = None;
        for bytes in VERBS_INLINE_BYTES {
            match with(bytes) {
                Ok(pair) => return Ok(pair),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(ib::IbError::InvalidState("no inline limit was tried")))
    }

    /// The parameters of this connection.
    pub fn request(&self) -> &VerbsRequest {
        &self.request
    }

    /// Concurrent READs of both sides, up to the device's limits.
    pub fn reads(&self) -> Result<ReadLimits, String> {
        let facts = self.domain.context().attributes().map_err(text)?;
        Ok(ReadLimits {
            responder_resources: facts.responder_resources_max.min(VERBS_READS_MAX),
            initiator_depth: facts.initiator_depth_max.min(VERBS_READS_MAX),
        })
    }

    pub fn device(&self) -> DeviceFacts {
        DeviceFacts::of(self.domain.context())
    }

    /// The memory that the peer may write and read.
    pub fn memory(&self) -> RemoteMemory {
        self.target.remote()
    }

    /// Sets the peer's memory for writes and reads.
    pub(crate) fn set_peer(&mut self, grant: RemoteMemory) {
        self.peer = Some(grant);
    }

    /// The inline limit.
    pub fn inline_bytes_max(&self) -> usize {
        // A device may grant more than requested; it is not used, so that the document's value is correct.
        let device_counts = self.request.inline_bytes.unwrap_or(VERBS_INLINE_BYTES[0]);
        self.pair.options().inline_bytes_max.min(device_counts) as usize
    }

    /// Requests without a completion so far.
    pub fn in_flight(&self) -> usize {
        self.pair.outstanding()
    }

    /// Requests that can be posted now.
    pub(crate) fn capacity(&self) -> usize {
        let sinks = if self.request.kind == VerbsOperation::Read { self.sinks.len() } else { usize::MAX };
        self.pair.free_slots().min(VERBS_BATCH_MAX).min(sinks)
    }

    /// The last byte written by the peer.
    pub(crate) fn last_written(&self) -> u8 {
        self.target.owner().read_volatile(self.request.size_bytes - 1)
    }

    /// Sets the last byte of the next messages.
    pub(crate) fn set_last(&mut self, byte: u8) {
        let last = self.request.size_bytes - 1;
        self.body[last] = byte;
        if self.request.size_bytes > self.inline_bytes_max() {
            self.source.owner().write(last, &[byte]);
        }
    }

    /// Posts this many messages with one call; with `last`, the last one is signalled in any case.
    pub fn post(&mut self, count: usize, last: bool) -> Result<(), String> {
        let (request, goes_inline) = (self.request, self.request.size_bytes <= self.inline_bytes_max());
        let peer = self.peer.filter(|_| request.kind != VerbsOperation::Send);
        let mut batch = self.pair.batch();
        for at in 0..count {
            self.unsignalled += 1;
            let signalled = self.unsignalled >= request.signal_every || (last && at + 1 == count);
            if signalled {
                self.unsignalled = 0;
            }
            let how = PostOptions { cookie: 0, signalled };
            let pieces = || [(self.source.owner().clone(), self.source.key())];
            match (request.kind, peer) {
                (VerbsOperation::Send, _) if goes_inline => batch.send_inline(&[&self.body], how),
                (VerbsOperation::Send, _) => batch.send(pieces(), how),
                (VerbsOperation::Write, Some(to)) if goes_inline => batch.write_inline(&[&self.body], to, how),
                (VerbsOperation::Write, Some(to)) => batch.write(pieces(), to, how),
                (VerbsOperation::Read, Some(from)) => match (self.sinks.pop(), self.sink_key) {
                    (Some(sink), Some(key)) => batch.read(sink, key, from, how),
                    _ => Err(ib::IbError::QueueFull),
                },
                (_, None) => Err(ib::IbError::InvalidState("the peer has not announced its memory")),
            }
            .map_err(text)?;
        }
        let posted = batch.post().map_err(text)?;
        self.device_counts.posts += 1;
        self.device_counts.requests += posted as u64;
        Ok(())
    }

    pub(crate) fn send_number(&mut self, word: u64) -> Result<(), String> {
        while self.pair.free_slots() == 0 {
            self.await_completion()?;
        }
        let how = PostOptions { cookie: 0, signalled: true };
        let (bytes, goes_inline) = (word.to_le_bytes(), self.inline_bytes_max() >= size_of::<u64>());
        let mut batch = self.pair.batch();
        if goes_inline {
            batch.send_inline(&[&bytes], how).map_err(text)?;
        } else {
            // This may overwrite a number in flight, which is harmless because numbers only grow.
            self.word_pages.owner().write(0, &bytes);
            batch.send([(self.word_pages.owner().clone(), self.word_pages.key())], how).map_err(text)?;
        }
        batch.post().map_err(text)?;
        self.device_counts.posts += 1;
        self.device_counts.requests += 1;
        Ok(())
    }

    /// Sends a text. Returns its memory, which must be kept until the connection ends.
    pub(crate) fn send_text(&mut self, text_to_send: &str) -> Result<MemoryRegion<SharedPages>, String> {
        if text_to_send.is_empty() || text_to_send.len() > VERBS_TEXT_BYTES_MAX {
            return Err(format!("a text of {} bytes cannot be sent", text_to_send.len()));
        }
        while self.pair.free_slots() == 0 {
            self.await_completion()?;
        }
        let pages = SharedPages::new(text_to_send.len()).map_err(text)?;
        pages.write(0, text_to_send.as_bytes());
        let region = MemoryRegion::new(&self.domain, pages.clone(), RemoteAccess::None).map_err(text)?;
        let mut batch = self.pair.batch();
        batch.send([(pages, region.key())], PostOptions { cookie: 0, signalled: true }).map_err(text)?;
        batch.post().map_err(text)?;
        Ok(region)
    }

    /// Polls completions and reposts receives in batches. Never waits.
    pub(crate) fn poll_completions(&mut self) -> Result<usize, String> {
        let count = self.queue.poll(&mut self.there).map_err(text)?;
        self.device_counts.completions += count as u64;
        for completion in self.there.drain(..) {
            if !completion.status().is_success() {
                return Err(format!("the connection broke: {}", completion.status()));
            }
            if completion.work_queue() == self.receives.work_queue() {
                let bytes = completion.bytes() as usize;
                let part = self.receives.on_completion(completion).map_err(text)?;
                self.arrived += 1;
                if let Some(word) = part[..bytes].try_into().ok().map(u64::from_le_bytes) {
                    self.word = word;
                }
                if let Some(last_text) = &mut self.last_text {
                    last_text.clear();
                    last_text.extend_from_slice(&part[..bytes.min(VERBS_TEXT_BYTES_MAX)]);
                }
                self.returned.push((part, self.receive_key));
            } else {
                self.pair.on_completion(completion, &mut self.finished).map_err(text)?;
                self.sinks.extend(self.finished.drain(..).filter_map(|work| work.read_memory));
            }
        }
        // Repost in batches: this many may be missing without the peer noticing.
        if self.returned.len() >= (self.request.window as usize / 4).max(1) {
            self.receives.post(&mut self.returned).map_err(text)?;
        }
        Ok(count)
    }

    pub(crate) fn repost_receives(&mut self) -> Result<(), String> {
        self.receives.post(&mut self.returned).map(drop).map_err(text)
    }

    /// Waits for a completion.
    pub(crate) fn await_completion(&mut self) -> Result<(), String> {
        self.wait_until(|_| false)
    }

    /// Waits for a completion or until `is_there` returns true, which only busy polling checks.
    pub fn wait_until(&mut self, is_there: impl Fn(&Self) -> bool) -> Result<(), String> {
        let deadline = Deadline::after(self.patience);
        let mut empty: u32 = 0;
        loop {
            if is_there(self) || self.poll_completions()? > 0 {
                return Ok(());
            }
            let look = match self.poll {
                CompletionWait::Busy => {
                    empty = empty.wrapping_add(1);
                    if empty.is_multiple_of(VERBS_EMPTY_POLLS_PER_YIELD) {
                        std::thread::yield_now();
                    }
                    empty.is_multiple_of(VERBS_EMPTY_POLLS_PER_CHECK)
                }
                CompletionWait::Events => {
                    self.queue.arm().map_err(text)?;
                    if self.poll_completions()? > 0 {
                        return Ok(());
                    }
                    self.device_counts.sleeps += 1;
                    let woken = readable(&[self.wakes.as_fd(), self.channel.as_fd()])?;
                    self.wakes.drain().map_err(text)?;
                    woken != [true, false]
                }
            };
            if look {
                self.check()?;
                if deadline.passed() {
                    return Err(format!("the other end did nothing for {} s", self.patience.as_secs()));
                }
            }
        }
    }

    /// Fails if the peer has disconnected.
    fn check(&self) -> Result<(), String> {
        if harness::interrupt::requested() {
            return Err(harness::interrupt::MESSAGE.to_owned());
        }
        while let Some(event) = self.channel.next().map_err(text)? {
            // Further connection requests are rejected by dropping the event.
            if event.id == self.connection && !matches!(event.kind, CmEventKind::Established { .. }) {
                return Err(format!("the other end has disconnected ({:?})", event.kind));
            }
        }
        Ok(())
    }
}

/// Sleeps until a descriptor is readable, or for a limited time, and returns which of them are.
pub fn readable<const N: usize>(descriptors: &[BorrowedFd<'_>; N]) -> Result<[bool; N], String> {
    let mut waited = descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
    match poll(&mut waited, PollTimeout::from(VERBS_CHECK_MS)) {
        Ok(_) => Ok(waited.map(|one| one.any().unwrap_or(false))),
        Err(Errno::EINTR) => Ok([false; N]),
        Err(error) => Err(format!("cannot wait: {error}")),
    }
}
