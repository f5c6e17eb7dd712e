//! Connects the two sides of the verbs baseline: one listens, the other makes one connection per segment.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use ib::{CmEvent, CmEventChannel, CmEventKind, CmId, ConnectParams, ReadLimits};
use serde::{Deserialize, Serialize};

use super::device::DeviceFacts;
use super::endpoint::{DeviceCounts, VerbsEndpoint, readable, text};
use super::segment_driver::SegmentDriver;
use super::verbs_request::{CompletionWait, VerbsRequest, acceptance, of_acceptance};
use crate::limits::{VERBS_ACK_TIMEOUT_EXPONENT, VERBS_SET_UP_WAIT};
use gauge::clock::{Deadline, now_ns};
use gauge::{HistogramBuckets, LatencyHistogram, ProcessMeter, RoleUsage};
use harness::interrupt;

/// Results of the passive side, sent at the end of a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PeerResults {
    used: RoleUsage,
    #[serde(rename = "asked")]
    device_counts: DeviceCounts,
}

/// Results of a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerbsResults {
    /// From the first message to the last answer or completion.
    pub elapsed_ns: u64,
    /// Round trips, if the pattern has them.
    pub latencies: HistogramBuckets,
    /// The inline limit.
    pub inline_bytes: usize,
    /// Usage of the measuring process, and of its device.
    #[serde(rename = "near")]
    pub active: (RoleUsage, DeviceCounts),
    /// The same of the passive side.
    #[serde(rename = "far")]
    pub passive: (RoleUsage, DeviceCounts),
}

fn event(channel: &CmEventChannel) -> Result<CmEvent, String> {
    let deadline = Deadline::after(VERBS_SET_UP_WAIT);
    loop {
        if let Some(event) = channel.next().map_err(text)? {
            return Ok(event);
        }
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        readable(&[channel.as_fd()])?;
        if deadline.passed() {
            return Err("the other end does not answer".to_owned());
        }
    }
}

fn other_than_expected(event: &CmEvent) -> String {
    match &event.kind {
        CmEventKind::Failed { step: what, errno } => format!("{what}: {}", std::io::Error::from_raw_os_error(*errno)),
        CmEventKind::Rejected { reason: ib::REJECTED_NO_LISTENER } => "nobody listens there".to_owned(),
        CmEventKind::Rejected { .. } => {
            let words: Vec<u8> = event.private_data.iter().copied().take_while(|&byte| byte != 0).collect();
            format!("it was refused: {}", String::from_utf8_lossy(&words))
        }
        about => format!("unexpected event: {about:?}"),
    }
}

/// Waits for the expected event of an id.
fn await_event(
    channel: &CmEventChannel,
    id: &CmId,
    is_wanted: impl Fn(&CmEventKind) -> bool,
) -> Result<CmEvent, String> {
    loop {
        let event = event(channel)?;
        if event.id == id.key() {
            return if is_wanted(&event.kind) { Ok(event) } else { Err(other_than_expected(&event)) };
        }
        // Another connection request: dropping the event rejects it.
    }
}

/// Creates an id with a device and a resolved route to the peer.
fn resolve_route(channel: &CmEventChannel, to: SocketAddr) -> Result<CmId, String> {
    let id = CmId::new(channel).map_err(text)?;
    // Kernels before 5.1 do not support this and choose for themselves.
    if let Err(error) = id.set_ack_timeout(VERBS_ACK_TIMEOUT_EXPONENT)
        && error.os_error() != Some(nix::errno::Errno::ENOSYS as i32)
    {
        return Err(text(error));
    }
    id.resolve_address(None, to, VERBS_SET_UP_WAIT).map_err(text)?;
    await_event(channel, &id, |about| matches!(about, CmEventKind::AddressResolved))?;
    id.resolve_route(VERBS_SET_UP_WAIT).map_err(text)?;
    await_event(channel, &id, |about| matches!(about, CmEventKind::RouteResolved))?;
    Ok(id)
}

/// The device on the route to an address.
///
/// # Errors
/// Why there is none.
pub(crate) fn device_towards(to: SocketAddr) -> Result<DeviceFacts, String> {
    let channel = CmEventChannel::new().map_err(text)?;
    let id = resolve_route(&channel, to)?;
    id.context().map(|context| DeviceFacts::of(&context)).map_err(text)
}

fn terms(data: &[u8], reads: ReadLimits) -> ConnectParams<'_> {
    ConnectParams {
        private_data: data,
        read_limits: reads,
        retry_count: ib::RETRIES_MAX,
        rnr_retry_count: ib::RETRIES_MAX,
    }
}

/// Measures a segment with the listener at `to`.
///
/// # Errors
/// The error of either side.
pub(crate) fn run_segment(to: SocketAddr, request: &VerbsRequest) -> Result<VerbsResults, String> {
    let channel = CmEventChannel::new().map_err(text)?;
    let id = resolve_route(&channel, to)?;
    let mut end = VerbsEndpoint::new(&id, &channel, *request)?;
    let (private_data, reads) = (request.request(end.memory()), end.reads()?);
    id.connect(&terms(&private_data, reads)).map_err(text)?;
    let established = await_event(&channel, &id, |about| matches!(about, CmEventKind::Established { .. }))?;
    end.set_peer(of_acceptance(&established.private_data, request.size_bytes)?);
    let mut work = SegmentDriver::new(end);
    let mut latencies = LatencyHistogram::default();
    work.run_active(request.warm_up, &mut latencies)?;
    // The passive side is ready for the measured segment.
    work.end.send_number(0)?;
    work.await_next()?;
    let (mut latencies, device_counts) = (LatencyHistogram::default(), work.end.device_counts);
    let meter = ProcessMeter::of_self();
    let began_ns = now_ns();
    work.run_active(request.count, &mut latencies)?;
    let elapsed_ns = now_ns() - began_ns;
    let active = (meter.stop(), work.end.device_counts.since(device_counts));
    work.end.last_text = Some(Vec::new());
    work.end.poll = CompletionWait::Events;
    work.end.send_number(0)?;
    work.await_next()?;
    let last_text = work.end.last_text.take().unwrap_or_default();
    let peer: PeerResults =
        serde_json::from_slice(&last_text).map_err(|error| format!("the other end's results: {error}"))?;
    let inline_bytes = work.end.inline_bytes_max();
    id.disconnect().map_err(text)?;
    await_event(&channel, &id, |about| matches!(about, CmEventKind::Disconnected))?;
    Ok(VerbsResults {
        elapsed_ns,
        latencies: latencies.buckets(),
        inline_bytes,
        active,
        passive: (peer.used, peer.device_counts),
    })
}

/// The listening side.
pub struct VerbsListener {
    channel: CmEventChannel,
    listener: CmId,
}

impl VerbsListener {
    /// Listens on the address of a local device; for port 0 the system chooses a port.
    ///
    /// # Errors
    /// The error of the system.
    pub fn listen(address: IpAddr, port: u16) -> Result<Self, String> {
        let text = |error| format!("{address}: {}", text(error));
        let channel = CmEventChannel::new().map_err(text)?;
        let listener = CmId::new(&channel).map_err(text)?;
        listener.reuse_address().map_err(text)?;
        listener.bind(SocketAddr::new(address, port)).map_err(text)?;
        listener.listen(4).map_err(text)?;
        Ok(Self { channel, listener })
    }

    pub fn address(&self) -> Result<SocketAddr, String> {
        self.listener.local_address().ok_or_else(|| "the listener has no address".to_owned())
    }

    /// The device with that address.
    pub fn device(&self) -> Result<DeviceFacts, String> {
        self.listener.context().map(|context| DeviceFacts::of(&context)).map_err(text)
    }

    /// Serves connections one at a time until the process is asked to end. Errors of a connection are passed to `complain`, and
    /// the next one is served.
    ///
    /// # Errors
    /// A failure of the listener itself.
    pub fn serve(&self, mut complain: impl FnMut(&str)) -> Result<(), String> {
        while !interrupt::requested() {
            let Some(event) = self.channel.next().map_err(text)? else {
                readable(&[self.channel.as_fd()])?;
                continue;
            };
            // Other events belong to connections that have already ended.
            if let CmEventKind::ConnectRequest { id, reads } = event.kind
                && let Err(why) = self.serve_one(&id, reads, &event.private_data)
            {
                complain(&why);
            }
        }
        Ok(())
    }

    fn serve_one(&self, id: &CmId, offered: ReadLimits, data: &[u8]) -> Result<(), String> {
        let (mut end, request) = match self.prepare(id, data) {
            Ok(prepared) => prepared,
            Err(why) => {
                let words = &why.as_bytes()[..why.len().min(ib::REJECT_DATA_BYTES_MAX)];
                id.reject(words).map_err(text)?;
                return Err(why);
            }
        };
        let facts = serde_json::to_string(&end.device()).map_err(|error| error.to_string())?;
        let own = end.reads()?;
        let reads = ReadLimits {
            responder_resources: own.responder_resources.min(offered.responder_resources),
            initiator_depth: own.initiator_depth.min(offered.initiator_depth),
        };
        let data = acceptance(end.memory(), &facts);
        id.accept(&terms(&data[..data.len().min(ib::ACCEPT_DATA_BYTES_MAX)], reads)).map_err(text)?;
        await_event(&self.channel, id, |about| matches!(about, CmEventKind::Established { .. }))?;
        if request.is_one_sided() {
            end.poll = CompletionWait::Events;
        }
        let mut work = SegmentDriver::new(end);
        work.run_passive(request.warm_up)?;
        work.await_next()?;
        work.end.repost_receives()?;
        let device_counts = work.end.device_counts;
        let meter = ProcessMeter::of_self();
        work.end.send_number(0)?;
        work.run_passive(request.count)?;
        let peer = PeerResults { used: meter.stop(), device_counts: work.end.device_counts.since(device_counts) };
        work.await_next()?;
        let peer = serde_json::to_string(&peer).map_err(|error| error.to_string())?;
        let _kept = work.end.send_text(&peer)?;
        await_event(&self.channel, id, |about| matches!(about, CmEventKind::Disconnected))?;
        // The peer has already disconnected.
        id.disconnect().map_err(text)
    }

    fn prepare(&self, id: &CmId, data: &[u8]) -> Result<(VerbsEndpoint, VerbsRequest), String> {
        let (request, memory) = VerbsRequest::of_request(data)?;
        let mut end = VerbsEndpoint::new(id, &self.channel, request)?;
        end.set_peer(memory);
        Ok((end, request))
    }
}
