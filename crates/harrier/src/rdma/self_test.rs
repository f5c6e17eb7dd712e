//! Self-test of an address: connects two ends and sends inline, eagerly and by READ.
//!
//! Stops at the first step that fails, and reports a remedy for it.

use super::findings::Problem;
use ib::{
    Arena, ArenaBlock, CmEvent, CmEventChannel, CmEventKind, CmId, CompletionChannel, CompletionQueue, ConnectParams,
    IbError, MemoryRegion, PostOptions, ProtectionDomain, QueuePair, QueuePairOptions, ReadLimits, RemoteAccess,
    RemoteMemory, SharedPages, SharedReceiveQueue,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Time limit for each wait. A loopback connection takes milliseconds.
const WAIT_MAX: Duration = Duration::from_secs(5);
const ACK_TIMEOUT_EXPONENT: u8 = 14;
const PART_BYTES: usize = 8192;
const PARTS: usize = 8;
const READS: ReadLimits = ReadLimits { responder_resources: 1, initiator_depth: 1 };
const INLINE: &[u8] = b"harrier rdma check";

pub struct SelfTest {
    pub address: IpAddr,
    /// The steps in order; only the last can have failed.
    pub steps: Vec<SelfTestStep>,
}

pub struct SelfTestStep {
    pub name: &'static str,
    /// How long it took, or why it failed.
    pub outcome: Result<Duration, Problem>,
}

impl SelfTest {
    /// Why the test ended early, if it did.
    pub fn failure(&self) -> Option<&Problem> {
        self.steps.last().and_then(|step| step.outcome.as_ref().err())
    }
}

/// Tests an address.
pub fn run(address: IpAddr) -> SelfTest {
    let mut walk = SelfTest { address, steps: Vec::new() };
    let Some((mut near, mut far)) = walk.step("connect", || connect(address)) else { return walk };
    if walk.step("inline send", || inline(&mut near, &mut far)).is_none()
        || walk.step("eager send", || eager(&mut near, &mut far)).is_none()
        || walk.step("READ", || read(&mut near, &far)).is_none()
    {
        return walk;
    }
    walk.step("end", || end(&near, &far));
    walk
}

#[expect(clippy::disallowed_methods, reason = "the check and the calibration say how long each step takes")]
pub(super) fn now() -> Instant {
    Instant::now()
}

pub(super) type StepResult<T> = Result<T, Problem>;

impl SelfTest {
    fn step<T>(&mut self, name: &'static str, try_it: impl FnOnce() -> StepResult<T>) -> Option<T> {
        let begun = now();
        let (outcome, result) = match try_it() {
            Ok(result) => (Ok(now() - begun), Some(result)),
            Err(problem) => (Err(problem), None),
        };
        self.steps.push(SelfTestStep { name, outcome });
        result
    }
}

/// The meaning of a refused call, and a remedy.
fn refused(error: &IbError) -> Problem {
    let fix = match (error, error.os_error()) {
        (IbError::NoDevice(_), _) => "`modprobe rdma_ucm`, and the rights of /dev/infiniband/rdma_cm",
        (IbError::CallFailed { call: "ibv_reg_mr", .. }, _) => {
            "`ulimit -l unlimited`: memory must be locked for a device to reach it"
        }
        (IbError::CallFailed { call: "rdma_create_qp", .. }, Some(code))
            if code == rustix::io::Errno::INVAL.raw_os_error() =>
        {
            "the device accepts fewer or shorter requests than this check needs: please report it"
        }
        (_, Some(code)) if code == rustix::io::Errno::NOMEM.raw_os_error() => "`ulimit -l unlimited`",
        (_, Some(code)) if code == rustix::io::Errno::ACCESS.raw_os_error() => "the rights of /dev/infiniband/*",
        (_, Some(code)) if code == rustix::io::Errno::NODEV.raw_os_error() => {
            "an address that belongs to the device's own interface; the loopback one has no device"
        }
        _ => "what the kernel's log (dmesg) says of the device",
    };
    Problem::new(error.to_string(), fix)
}

pub(super) fn explain<T>(result: Result<T, IbError>) -> StepResult<T> {
    result.map_err(|error| refused(&error))
}

/// Waits for a descriptor until `deadline`; false if that has passed.
fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(now());
    let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let mut ready = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    // The caller's loop repeats a wait that a signal interrupted.
    poll(&mut ready, Some(&time)).is_ok_and(|count| count > 0) || !left.is_zero()
}

const BLOCKED: &str =
    "a firewall that lets UDP port 4791 (RoCE v2) through, and the address on an interface that is up";

fn event(channel: &CmEventChannel) -> StepResult<CmEvent> {
    let deadline = now() + WAIT_MAX;
    loop {
        if let Some(event) = explain(channel.next())? {
            return Ok(event);
        }
        if !readable(channel.as_fd(), deadline) {
            return Err(Problem::new("no answer came", BLOCKED));
        }
    }
}

fn unexpected(event: &CmEvent) -> Problem {
    let what = match &event.kind {
        CmEventKind::Failed { step: what, errno } => format!("{what}: {}", std::io::Error::from_raw_os_error(*errno)),
        CmEventKind::Rejected { reason } => format!("the connection was rejected, reason {reason}"),
        other => format!("unexpected event: {other:?}"),
    };
    Problem::new(what, BLOCKED)
}

/// Waits for the event that `is` accepts.
fn await_event(channel: &CmEventChannel, is: impl FnOnce(&CmEventKind) -> bool) -> StepResult<()> {
    let event = event(channel)?;
    if is(&event.kind) { Ok(()) } else { Err(unexpected(&event)) }
}

struct TestedEnd {
    pair: QueuePair<ArenaBlock, ArenaBlock>,
    id: CmId,
    channel: CmEventChannel,
    wakes: CompletionChannel,
    queue: CompletionQueue,
    receives: SharedReceiveQueue<ArenaBlock>,
    parts: Vec<ArenaBlock>,
    region: MemoryRegion<Arena>,
    domain: ProtectionDomain,
}

impl TestedEnd {
    fn new(id: CmId, channel: &CmEventChannel) -> Result<Self, IbError> {
        let context = id.context()?;
        let domain = ProtectionDomain::new(&context)?;
        let wakes = CompletionChannel::new(&context)?;
        let queue = CompletionQueue::new(&context, 64, Some(&wakes))?;
        let mut receives = SharedReceiveQueue::new(&domain, PARTS as u32)?;
        let (arena, mut parts) = Arena::new(2 * PARTS, PART_BYTES)?;
        let region = MemoryRegion::new(&domain, arena, RemoteAccess::None)?;
        let mut posted: Vec<_> = parts.drain(..PARTS).map(|part| (part, region.key())).collect();
        receives.post(&mut posted)?;
        // Every device supports this much: siw takes no more inline.
        let options = QueuePairOptions { send_wr_max: 16, send_sge_max: 2, inline_bytes_max: 64 };
        let pair = QueuePair::new(&id, &domain, &queue, &queue, &receives, options)?;
        Ok(Self { pair, id, channel: channel.clone(), wakes, queue, receives, parts, region, domain })
    }

    /// The next completion, which must be successful. Returns its bytes if it was a receive, or the memory of a READ.
    fn completion(&mut self) -> StepResult<Vec<u8>> {
        let deadline = now() + WAIT_MAX;
        let mut there = Vec::new();
        while there.is_empty() {
            explain(self.queue.arm())?;
            if explain(self.queue.poll(&mut there))? > 0 {
                break;
            }
            if !readable(self.wakes.as_fd(), deadline) {
                return Err(Problem::new(
                    "the device reports no completion",
                    "what the kernel's log (dmesg) says of the device",
                ));
            }
            explain(self.wakes.drain())?;
        }
        let mut bytes = Vec::new();
        for completion in there {
            if !completion.status().is_success() {
                return Err(Problem::new(completion.status().to_string(), BLOCKED));
            }
            if completion.work_queue() == self.receives.work_queue() {
                let count = completion.bytes() as usize;
                let part = explain(self.receives.on_completion(completion))?;
                bytes = part[..count].to_vec();
            } else {
                let mut done = Vec::new();
                explain(self.pair.on_completion(completion, &mut done))?;
                bytes = done.pop().and_then(|work| work.read_memory).map(|part| part.to_vec()).unwrap_or_default();
            }
        }
        Ok(bytes)
    }

    fn part(&mut self, byte: u8) -> StepResult<ArenaBlock> {
        let mut part = self.parts.pop().ok_or_else(|| Problem::new("the check has no memory left", "tell us"))?;
        part.fill(byte);
        Ok(part)
    }
}

fn terms() -> ConnectParams<'static> {
    ConnectParams { private_data: b"harrier rdma check", read_limits: READS, retry_count: 6, rnr_retry_count: 6 }
}

fn connect(address: IpAddr) -> StepResult<(TestedEnd, TestedEnd)> {
    connect_ends(address, TestedEnd::new, |end| &end.id)
}

/// Connects two ends on one address. `make` creates each from its id and channel; `id` returns the id of an end.
pub(super) fn connect_ends<E>(
    address: IpAddr,
    make: impl Fn(CmId, &CmEventChannel) -> Result<E, IbError>,
    id: impl Fn(&E) -> &CmId,
) -> StepResult<(E, E)> {
    let listening = explain(CmEventChannel::new())?;
    let listener = explain(CmId::new(&listening))?;
    explain(listener.bind(SocketAddr::new(address, 0)))?;
    explain(listener.listen(1))?;
    let to = listener.local_address().ok_or_else(|| Problem::new("a listener has no address", "tell us"))?;
    let asking = explain(CmEventChannel::new())?;
    let near = explain(CmId::new(&asking))?;
    // Kernels before 5.1 choose it themselves.
    if let Err(error) = near.set_ack_timeout(ACK_TIMEOUT_EXPONENT)
        && error.os_error() != Some(rustix::io::Errno::NOSYS.raw_os_error())
    {
        return Err(refused(&error));
    }
    explain(near.resolve_address(None, to, WAIT_MAX))?;
    await_event(&asking, |about| matches!(about, CmEventKind::AddressResolved))?;
    explain(near.resolve_route(WAIT_MAX))?;
    await_event(&asking, |about| matches!(about, CmEventKind::RouteResolved))?;
    let near = explain(make(near, &asking))?;
    explain(id(&near).connect(&terms()))?;
    let asked = event(&listening)?;
    let far = match asked.kind {
        CmEventKind::ConnectRequest { id, .. } => id,
        _ => return Err(unexpected(&asked)),
    };
    let far = explain(make(far, &listening))?;
    explain(id(&far).accept(&terms()))?;
    await_event(&asking, |about| matches!(about, CmEventKind::Established { .. }))?;
    await_event(&listening, |about| matches!(about, CmEventKind::Established { .. }))?;
    Ok((near, far))
}

const HOW: PostOptions = PostOptions { cookie: 0, signalled: true };

fn arrived(seen: &[u8], sent: &[u8]) -> StepResult<()> {
    if seen == sent {
        Ok(())
    } else {
        Err(Problem::new("the received bytes differ from those sent", "please report the device"))
    }
}

fn inline(near: &mut TestedEnd, far: &mut TestedEnd) -> StepResult<()> {
    let mut batch = near.pair.batch();
    explain(batch.send_inline(&[INLINE], HOW))?;
    explain(batch.post())?;
    arrived(&far.completion()?, INLINE)?;
    near.completion().map(drop)
}

fn eager(near: &mut TestedEnd, far: &mut TestedEnd) -> StepResult<()> {
    let (part, key) = (near.part(0xa5)?, near.region.key());
    let mut batch = near.pair.batch();
    explain(batch.send([(part, key)], HOW))?;
    explain(batch.post())?;
    arrived(&far.completion()?, &[0xa5; PART_BYTES])?;
    near.completion().map(drop)
}

fn read(near: &mut TestedEnd, far: &TestedEnd) -> StepResult<()> {
    let pages = explain(SharedPages::new(PART_BYTES))?;
    pages.write(0, &[0x5a; PART_BYTES]);
    let granted = explain(MemoryRegion::new(&far.domain, pages, RemoteAccess::Read))?;
    let from: RemoteMemory = granted.remote();
    let (into, key) = (near.part(0)?, near.region.key());
    let mut batch = near.pair.batch();
    explain(batch.read(into, key, from, HOW))?;
    explain(batch.post())?;
    arrived(&near.completion()?, &[0x5a; PART_BYTES])
}

fn end(near: &TestedEnd, far: &TestedEnd) -> StepResult<()> {
    explain(near.id.disconnect())?;
    await_event(&far.channel, |about| matches!(about, CmEventKind::Disconnected))?;
    explain(far.id.disconnect())?;
    await_event(&near.channel, |about| matches!(about, CmEventKind::Disconnected))
}
