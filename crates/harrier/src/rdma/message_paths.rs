//! The paths of a message over a device: inline, eager and rendezvous, each timed between two connected ends in this
//! process.

use super::findings::Problem;
use super::self_test::{StepResult, connect_ends, explain, now};
use ib::{
    Arena, ArenaBlock, CmEventChannel, CmId, CompletedWork, Completion, CompletionQueue, IbError, LocalKey,
    MemoryRegion, PostOptions, ProtectionDomain, QueuePair, QueuePairOptions, RemoteAccess, RemoteMemory, SharedPages,
    SharedReceiveQueue,
};
use std::net::IpAddr;
use std::time::Duration;

/// Bytes of a receive buffer: the transport's default.
pub const RECEIVE_BYTES: usize = 4096;
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// Sizes of an offer and of its completion: header and payload in the transport's protocol.
const OFFER_BYTES: usize = 32;
const DONE_BYTES: usize = 12;
/// Receive buffers of an end: enough for the largest body at once.
const RECEIVES: usize = BODY_BYTES_MAX / RECEIVE_BYTES + 16;
const WORK: usize = RECEIVES;
/// Time limit for each wait.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Inline limits to try, the largest first.
const INLINE: [u32; 5] = [220, 188, 128, 64, 0];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePath {
    /// By value: the device gets the bytes with the request.
    Inline,
    /// By reference into receive buffers, in pieces, which are copied out.
    Eager,
    /// Offered: registered for the receiver, read by it into its final place, and released.
    Rendezvous,
}

/// Two connected ends.
pub struct ConnectedEnds {
    near: TimedEnd,
    far: TimedEnd,
}

struct TimedEnd {
    pair: QueuePair<SharedPages, ArenaBlock>,
    id: CmId,
    queue: CompletionQueue,
    receives: SharedReceiveQueue<ArenaBlock>,
    key: LocalKey,
    /// Received bytes.
    body: Vec<u8>,
    arrived: usize,
    returned: Vec<(ArenaBlock, LocalKey)>,
    there: Vec<Completion>,
    finished: Vec<CompletedWork<ArenaBlock>>,
    domain: ProtectionDomain,
    _region: MemoryRegion<Arena>,
}

/// A body at its sender, registered as message memory is, in the pieces that eager sends take.
pub struct TimedBody {
    bytes: Vec<u8>,
    pieces: Vec<MemoryRegion<SharedPages>>,
    whole: SharedPages,
    /// The receiver's memory, and its key.
    sink: Option<ArenaBlock>,
    sink_region: MemoryRegion<Arena>,
}

const SILENT: PostOptions = PostOptions { cookie: 0, signalled: false };
const SIGNALLED: PostOptions = PostOptions { cookie: 0, signalled: true };

impl TimedEnd {
    fn new(id: CmId, _channel: &CmEventChannel) -> Result<Self, IbError> {
        let context = id.context()?;
        let domain = ProtectionDomain::new(&context)?;
        let queue = CompletionQueue::new(&context, (RECEIVES + WORK) as u32, None)?;
        let mut receives = SharedReceiveQueue::new(&domain, RECEIVES as u32)?;
        let (arena, parts) = Arena::new(RECEIVES, RECEIVE_BYTES)?;
        let region = MemoryRegion::new(&domain, arena, RemoteAccess::None)?;
        let key = region.key();
        let mut returned: Vec<_> = parts.into_iter().map(|part| (part, key)).collect();
        receives.post(&mut returned)?;
        let mut pair = Err(IbError::InvalidState("no inline limit was tried"));
        for inline_bytes_max in INLINE {
            let options = QueuePairOptions { send_wr_max: WORK as u32, send_sge_max: 1, inline_bytes_max };
            pair = QueuePair::new(&id, &domain, &queue, &queue, &receives, options);
            if pair.is_ok() {
                break;
            }
        }
        Ok(Self {
            pair: pair?,
            id,
            queue,
            receives,
            key,
            body: vec![0; BODY_BYTES_MAX],
            arrived: 0,
            returned,
            there: Vec::new(),
            finished: Vec::new(),
            domain,
            _region: region,
        })
    }

    /// Handles completions: received pieces are appended to the body.
    fn take(&mut self) -> Result<usize, Problem> {
        let count = explain(self.queue.poll(&mut self.there))?;
        for completion in self.there.drain(..) {
            if !completion.status().is_success() {
                return Err(Problem::new(completion.status().to_string(), "see what `harrier rdma check` says"));
            }
            if completion.work_queue() == self.receives.work_queue() {
                let bytes = completion.bytes() as usize;
                let part = explain(self.receives.on_completion(completion))?;
                let room = self.body.len() - self.arrived;
                let into = &mut self.body[self.arrived..][..bytes.min(room)];
                into.copy_from_slice(&part[..into.len()]);
                self.arrived += into.len();
                self.returned.push((part, self.key));
            } else {
                explain(self.pair.on_completion(completion, &mut self.finished))?;
                self.finished.retain(|work| work.read_memory.is_some());
            }
        }
        Ok(count)
    }

    fn wait(&mut self, is_there: impl Fn(&Self) -> bool) -> StepResult<()> {
        let deadline = now() + WAIT_MAX;
        while !is_there(self) {
            if self.take()? == 0 {
                // A software device may need this processor.
                std::thread::yield_now();
                if now() > deadline {
                    return Err(Problem::new("the device reports no completion", "see what `harrier rdma check` says"));
                }
            }
        }
        Ok(())
    }

    fn await_bytes(&mut self, bytes: usize) -> StepResult<()> {
        self.wait(|end| end.arrived >= bytes)?;
        self.arrived = 0;
        explain(self.receives.post(&mut self.returned)).map(drop)
    }
}

impl TimedBody {
    fn new(from: &TimedEnd, to: &TimedEnd, bytes: usize) -> Result<Self, IbError> {
        let mut pieces = Vec::new();
        for at in (0..bytes).step_by(RECEIVE_BYTES) {
            pieces.push(MemoryRegion::new(
                &from.domain,
                SharedPages::new(RECEIVE_BYTES.min(bytes - at))?,
                RemoteAccess::None,
            )?);
        }
        let (arena, mut parts) = Arena::new(1, bytes)?;
        Ok(Self {
            bytes: vec![0x5a; bytes],
            pieces,
            whole: SharedPages::new(bytes)?,
            sink: parts.pop(),
            sink_region: MemoryRegion::new(&to.domain, arena, RemoteAccess::None)?,
        })
    }
}

impl ConnectedEnds {
    /// Connects two ends on an address.
    ///
    /// # Errors
    /// The problem and its remedy.
    pub fn connect(address: IpAddr) -> StepResult<Self> {
        let (near, far) = connect_ends(address, TimedEnd::new, |end| &end.id)?;
        Ok(Self { near, far })
    }

    /// The largest inline message, as far as it was tried.
    pub fn inline_bytes_max(&self) -> usize {
        self.near.pair.options().inline_bytes_max.min(INLINE[0]) as usize
    }

    /// A body of `bytes` bytes to send from the near end to the far one.
    ///
    /// # Errors
    /// The system's error, usually that memory cannot be locked.
    pub fn body(&self, bytes: usize) -> StepResult<TimedBody> {
        explain(TimedBody::new(&self.near, &self.far, bytes))
    }

    /// Sends a body `times` times, each after the previous arrival, and returns the time of one transfer.
    ///
    /// # Errors
    /// What does not work.
    pub fn time(&mut self, path: MessagePath, body: &mut TimedBody, times: u32) -> StepResult<Duration> {
        let begun = now();
        for _ in 0..times {
            match path {
                MessagePath::Inline => self.inline(body)?,
                MessagePath::Eager => self.eager(body)?,
                MessagePath::Rendezvous => self.rendezvous(body)?,
            }
        }
        Ok((now() - begun) / times.max(1))
    }

    fn inline(&mut self, body: &TimedBody) -> StepResult<()> {
        let mut batch = self.near.pair.batch();
        explain(batch.send_inline(&[&body.bytes], SIGNALLED))?;
        explain(batch.post())?;
        self.far.await_bytes(body.bytes.len())?;
        self.near.wait(|end| end.pair.outstanding() == 0)
    }

    fn eager(&mut self, body: &TimedBody) -> StepResult<()> {
        let mut batch = self.near.pair.batch();
        for (at, piece) in body.pieces.iter().enumerate() {
            let how = if at + 1 == body.pieces.len() { SIGNALLED } else { SILENT };
            explain(batch.send([(piece.owner().clone(), piece.key())], how))?;
        }
        explain(batch.post())?;
        self.far.await_bytes(body.bytes.len())?;
        self.near.wait(|end| end.pair.outstanding() == 0)
    }

    fn rendezvous(&mut self, body: &mut TimedBody) -> StepResult<()> {
        let granted = explain(MemoryRegion::new(&self.near.domain, body.whole.clone(), RemoteAccess::Read))?;
        let from: RemoteMemory = granted.remote();
        self.near.send_inline(&[0; OFFER_BYTES])?;
        self.far.await_bytes(OFFER_BYTES)?;
        let into = body.sink.take().ok_or_else(|| Problem::new("a body is read twice at once", "tell us"))?;
        let mut batch = self.far.pair.batch();
        explain(batch.read(into, body.sink_region.key(), from, SIGNALLED))?;
        explain(batch.post())?;
        self.far.wait(|end| end.pair.outstanding() == 0)?;
        body.sink = self.far.finished.drain(..).find_map(|work| work.read_memory);
        self.far.send_inline(&[0; DONE_BYTES])?;
        self.near.await_bytes(DONE_BYTES)?;
        drop(granted);
        self.near.wait(|end| end.pair.outstanding() == 0)?;
        self.far.wait(|end| end.pair.outstanding() == 0)
    }
}

impl TimedEnd {
    /// Sends a short message, inline if the device can.
    fn send_inline(&mut self, bytes: &[u8]) -> StepResult<()> {
        if self.pair.options().inline_bytes_max as usize >= bytes.len() {
            let mut batch = self.pair.batch();
            explain(batch.send_inline(&[bytes], SIGNALLED))?;
            return explain(batch.post()).map(drop);
        }
        let pages = explain(SharedPages::new(bytes.len()))?;
        let region = explain(MemoryRegion::new(&self.domain, pages.clone(), RemoteAccess::None))?;
        let mut batch = self.pair.batch();
        explain(batch.send([(pages, region.key())], SIGNALLED))?;
        explain(batch.post())?;
        // The registration ends with this call, so the send must have completed.
        self.wait(|end| end.pair.outstanding() == 0)
    }
}
