//! A real device as the engine sees it: one shard's queues, registrations and connections.
//!
//! Each belongs to one thread; those of other shards send it messages.

use super::address::{addresses, bind_error, device_error};
use super::cm_connection::{CardQueuePair, CmConnection, connect_params};
use super::head_slots::HeadSlots;
use super::listener_group::{CardMailbox, ListenerGroup};
use super::receive_order::ReceiveOrder;
use super::wait::EpollSet;
use crate::device::{
    ConnectRequestId, ConnectionEvent, Device, DeviceCapabilities, DeviceError, QueuePairId, QueuePairLimits,
    ReadGrant, WorkCompletion, WorkRequest, WorkRequestId,
};
use crate::limits::{
    ACKNOWLEDGE_EXPONENT, BACKLOG_REQUESTS, CARD_COMPLETIONS_MAX, INLINE_BYTES_WANTED, LAST_WQE_TIMEOUT,
    MESSAGE_PARTS_MAX, READS_ANSWERED_MAX, RESOLVE_MAX,
};
use hashbrown::HashMap;
use ib::{
    CmEventChannel, CmId, CmIdKey, CompletedWork, CompletionChannel, CompletionQueue, DeviceContext, LocalKey,
    MemoryRegion, ProtectionDomain, QueuePairOptions, ReadLimits, RegistrationCache, RemoteAccess, SharedReceiveQueue,
    TaggedMemory, WorkQueueId,
};
use slab::{BlockMut, Slice};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Scatter/gather elements of a send: the header and the parts.
const SGE_NEEDED: usize = MESSAGE_PARTS_MAX + 1;

/// A receive buffer, with its owner's number and its position in posting order.
pub(super) type ReceiveBuffer = TaggedMemory<TaggedMemory<BlockMut>>;

pub(super) struct CardDevice {
    pub context: DeviceContext,
    domain: ProtectionDomain,
    completion_channel: CompletionChannel,
    pub completion_queue: CompletionQueue,
    /// Made for as many buffers as are posted first: the owner has no more.
    pub receive_queue: Option<SharedReceiveQueue<ReceiveBuffer>>,
    pub receive_order: ReceiveOrder,
    pub receive_list: Vec<(ReceiveBuffer, LocalKey)>,
    pub cm_channel: CmEventChannel,
    pub mailbox: Arc<CardMailbox>,
    pub listener_group: Option<Arc<ListenerGroup>>,
    /// A peer's address that is resolved already.
    pub resolved: Option<(String, SocketAddr)>,
    capabilities: DeviceCapabilities,
    pub registrations: RegistrationCache,
    pub heads: HeadSlots,
    grants: HashMap<u32, MemoryRegion<Slice>>,
    pub listener: Option<CmId>,
    pub connections: HashMap<u32, CmConnection>,
    pub by_id: HashMap<CmIdKey, u32>,
    pub by_tag: HashMap<WorkQueueId, u32>,
    /// By the device's queue pair numbers, which it may reuse; ours are unique.
    pub by_device_number: HashMap<u32, u32>,
    next_number: u32,
    /// Connections that the owner has destroyed and that wait for their last completions.
    pub leaving: Vec<u32>,
    pub requests: HashMap<u64, (CmId, ReadLimits)>,
    pub next_request: u64,
    /// Completions that were polled and not yet returned.
    pub ready: VecDeque<WorkCompletion>,
    pub batch: Vec<ib::Completion>,
    pub finished: Vec<CompletedWork<BlockMut>>,
    /// The next round polls for events, whatever the time.
    pub event_poll_due: bool,
    /// Made by the first `wait`.
    epoll: Option<EpollSet>,
    /// A `wait` has just polled for events.
    pub events_just_polled: bool,
    pub events_polled_at: Duration,
    begun: Instant,
    pub broken: Option<DeviceError>,
}

impl CardDevice {
    /// All objects are made on a context of the connection manager: that of `ib::devices` is another opening, whose
    /// objects cannot be used for queue pairs of ids.
    pub fn open(context: &DeviceContext) -> Result<Self, DeviceError> {
        let facts = context.attributes().map_err(device_error)?;
        if (facts.sge_max as usize) < SGE_NEEDED {
            let most = facts.sge_max;
            return Err(DeviceError(format!(
                "{} allows {most} scatter/gather elements per send, and {SGE_NEEDED} are needed",
                context.name()
            )));
        }
        let domain = ProtectionDomain::new(context).map_err(device_error)?;
        let wakes = CompletionChannel::new(context).map_err(device_error)?;
        let completions = CARD_COMPLETIONS_MAX.min(facts.completions_max);
        let queue = CompletionQueue::new(context, completions, Some(&wakes)).map_err(device_error)?;
        let inline =
            ib::probe_inline_bytes(&domain, &queue, SGE_NEEDED as u32, INLINE_BYTES_WANTED).map_err(device_error)?;
        let channel = CmEventChannel::new().map_err(device_error)?;
        let mailbox = CardMailbox::new(context, &channel)?;
        #[expect(clippy::disallowed_methods, reason = "the engine's clock, which it is told by its device")]
        let begun = Instant::now();
        Ok(CardDevice {
            context: context.clone(),
            completion_channel: wakes,
            receive_queue: None,
            receive_order: ReceiveOrder::default(),
            receive_list: Vec::new(),
            cm_channel: channel,
            mailbox,
            listener_group: None,
            resolved: None,
            capabilities: DeviceCapabilities {
                inline_bytes_max: inline as usize,
                sge_max: SGE_NEEDED,
                reads_issued_max: facts.initiator_depth_max,
                reads_answered_max: facts.responder_resources_max.min(READS_ANSWERED_MAX),
                // The other half of the completion queue is for sends.
                receives_max: facts.shared_receive_wr_max.min(queue.entries() / 2).min(ib::WORK_REQUESTS_MAX) as usize,
                initiator_sends_first: context.is_iwarp(),
            },
            completion_queue: queue,
            registrations: RegistrationCache::new(&domain),
            heads: HeadSlots::new(&domain),
            domain,
            grants: HashMap::new(),
            listener: None,
            connections: HashMap::new(),
            by_id: HashMap::new(),
            by_tag: HashMap::new(),
            by_device_number: HashMap::new(),
            next_number: 0,
            leaving: Vec::new(),
            requests: HashMap::new(),
            next_request: 0,
            ready: VecDeque::new(),
            batch: Vec::new(),
            finished: Vec::new(),
            event_poll_due: false,
            epoll: None,
            events_just_polled: false,
            events_polled_at: Duration::ZERO,
            begun,
            broken: None,
        })
    }

    pub fn check_not_broken(&self) -> Result<(), DeviceError> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// The descriptors of completions, connection manager events, asynchronous events and messages, in this order.
    fn fds(&self) -> [BorrowedFd<'_>; 4] {
        [self.completion_channel.as_fd(), self.cm_channel.as_fd(), self.context.async_fd(), self.mailbox.wake.as_fd()]
    }

    /// Makes a queue pair for an id of this device, if the completion queue has entries for all of its work failing at
    /// once: an overflow would lose every connection.
    pub fn queue_pair(&self, id: &CmId, limits: &QueuePairLimits) -> Result<CardQueuePair, DeviceError> {
        let receives =
            self.receive_queue.as_ref().ok_or_else(|| DeviceError("no receive buffers were posted yet".into()))?;
        let pairs = self.connections.values().filter_map(|conn| conn.pair.as_ref());
        let taken: usize = pairs.map(|pair| pair.options().send_wr_max as usize).sum();
        let needed = taken + receives.posted() + receives.free_slots() + limits.send_slots;
        if needed > self.completion_queue.entries() as usize {
            let most = self.completion_queue.entries();
            return Err(DeviceError(format!(
                "the device's completion queue has {most} entries: too few for another connection"
            )));
        }
        let options = QueuePairOptions {
            send_wr_max: limits.send_slots as u32,
            send_sge_max: SGE_NEEDED as u32,
            inline_bytes_max: self.capabilities.inline_bytes_max as u32,
        };
        CardQueuePair::new(id, &self.domain, &self.completion_queue, &self.completion_queue, receives, options)
            .map_err(device_error)
    }

    /// Adds a connection under a number that is never reused.
    pub fn add(&mut self, conn: CmConnection) -> u32 {
        self.next_number += 1;
        let number = self.next_number;
        self.by_id.insert(conn.id.key(), number);
        if let Some(pair) = &conn.pair {
            self.index_queue_pair(number, pair.work_queue(), pair.number());
        }
        self.connections.insert(number, conn);
        number
    }

    pub fn index_queue_pair(&mut self, number: u32, tag: WorkQueueId, device_number: u32) {
        self.by_tag.insert(tag, number);
        self.by_device_number.insert(device_number, number);
    }

    /// The owner destroys a connection. One with a queue pair is kept for a while, see `CardDevice::destroy_leaving`.
    fn forget(&mut self, number: u32) {
        let now = self.now();
        let Some(conn) = self.connections.get_mut(&number).filter(|conn| conn.destroy_at.is_none()) else { return };
        self.by_id.remove(&conn.id.key());
        if conn.pair.is_some() {
            conn.destroy_at = Some(now + LAST_WQE_TIMEOUT);
            self.leaving.push(number);
        } else {
            self.connections.remove(&number);
            self.mailbox.remove_queue_pair();
        }
    }

    /// Accepts a request.
    fn admit(
        &mut self,
        id: CmId,
        offered: ReadLimits,
        private: &[u8],
        limits: &QueuePairLimits,
    ) -> Result<u32, DeviceError> {
        self.check_not_broken()?;
        // With the kernel's default a dead peer goes unnoticed for long.
        id.set_ack_timeout(ACKNOWLEDGE_EXPONENT).map_err(device_error)?;
        let pair = self.queue_pair(&id, limits)?;
        let number = self.add(CmConnection::new(id, "", Some(pair), *limits, &[]));
        let accepted =
            self.connections.get(&number).map(|conn| conn.id.accept(&connect_params(private, limits, Some(offered))));
        if let Some(Err(error)) = accepted {
            self.disconnect(QueuePairId(number));
            self.forget(number);
            return Err(device_error(error));
        }
        Ok(number)
    }

    /// Resolves the address to connect to.
    fn target(&self, address: &str) -> Result<SocketAddr, DeviceError> {
        match &self.resolved {
            Some((text, known)) if text == address => Ok(*known),
            _ => addresses(address)?.first().copied().ok_or_else(|| DeviceError(format!("`{address}` has no address"))),
        }
    }
}

impl Device for CardDevice {
    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities
    }

    fn card(&self) -> String {
        self.context.name()
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn grant(&mut self, memory: Slice) -> Result<ReadGrant, DeviceError> {
        self.check_not_broken()?;
        // Exactly these bytes: the key must not cover other messages in the same region.
        let region = MemoryRegion::new(&self.domain, memory, RemoteAccess::Read).map_err(device_error)?;
        let grant = region.remote();
        self.grants.insert(grant.key, region);
        Ok(ReadGrant { address: grant.address, key: grant.key })
    }

    fn revoke(&mut self, grant: ReadGrant) {
        let gone = self.grants.remove(&grant.key);
        assert!(gone.is_some(), "a grant is revoked once");
    }

    fn post_receives(&mut self, buffers: &mut Vec<(WorkRequestId, BlockMut)>) -> Result<(), DeviceError> {
        let posted = self.check_not_broken().and_then(|()| self.post_all_receives(buffers));
        buffers.clear();
        posted
    }

    fn post(&mut self, pair: QueuePairId, list: &mut Vec<WorkRequest>) -> Result<(), DeviceError> {
        let posted = self.check_not_broken().and_then(|()| self.post_all(pair.0, list));
        list.clear();
        posted
    }

    fn poll(&mut self, into: &mut Vec<WorkCompletion>, most: usize) -> Result<usize, DeviceError> {
        self.check_not_broken()?;
        self.poll_completions(into, most)
    }

    fn arm(&mut self) -> Result<(), DeviceError> {
        self.check_not_broken()?;
        // Takes the notification of the last `arm`, of which there is one at most: it would keep the descriptor
        // readable.
        self.completion_channel.take(1).map_err(device_error)?;
        self.completion_queue.arm().map_err(device_error)
    }

    fn request_event_poll(&mut self) {
        self.event_poll_due = true;
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DeviceError> {
        if !self.ready.is_empty() || self.mailbox.has_messages() {
            return Ok(());
        }
        let watch = match self.epoll.take() {
            Some(watch) => watch,
            None => EpollSet::new(&self.fds())?,
        };
        let [_, channel, device, _] = self.epoll.insert(watch).wait(timeout)?;
        self.event_poll_due |= channel || device;
        // Knowing which descriptors are readable counts as a poll for events.
        self.events_just_polled = true;
        Ok(())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.fds().iter().map(AsRawFd::as_raw_fd).collect()
    }

    fn event_descriptors(&self) -> Vec<RawFd> {
        vec![self.cm_channel.as_fd().as_raw_fd(), self.context.async_fd().as_raw_fd()]
    }

    fn listen(&mut self, address: &str) -> Result<(), DeviceError> {
        self.check_not_broken()?;
        let channel = &self.cm_channel;
        let begin = |at: SocketAddr| {
            let id = CmId::new(channel).map_err(device_error)?;
            id.bind(at).map_err(|error| bind_error(at, error))?;
            id.listen(BACKLOG_REQUESTS).map_err(|error| bind_error(at, error))?;
            Ok(id)
        };
        let listener = match self.listener_group.as_ref().filter(|family| family.listens_at(address)) {
            Some(family) => family.listen(|| begin(family.address))?,
            None => Some(begin(self.target(address)?)?),
        };
        self.listener = listener.or(self.listener.take());
        Ok(())
    }

    fn connect(&mut self, address: &str, private: &[u8], limits: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
        self.check_not_broken()?;
        let to = self.target(address)?;
        let id = CmId::new(&self.cm_channel).map_err(device_error)?;
        // With the kernel's default a dead peer goes unnoticed for long.
        id.set_ack_timeout(ACKNOWLEDGE_EXPONENT).map_err(device_error)?;
        let asked = id.resolve_address(None, to, RESOLVE_MAX);
        asked.map_err(|error| DeviceError(format!("no RDMA device routes to {address}: {error}")))?;
        self.mailbox.add_queue_pair();
        // The queue pair is made after route resolution; nothing is posted before the connection is established.
        Ok(QueuePairId(self.add(CmConnection::new(id, address, None, *limits, private))))
    }

    fn accept(
        &mut self,
        request: ConnectRequestId,
        private: &[u8],
        limits: &QueuePairLimits,
    ) -> Result<QueuePairId, DeviceError> {
        let gone = || DeviceError("the request is gone".into());
        let (id, offered) = self.requests.remove(&request.0).ok_or_else(gone)?;
        let before = self.next_number;
        let admitted = self.admit(id, offered, private, limits);
        if admitted.is_err() && self.next_number == before {
            // It never became a connection; one that did is uncounted when it is destroyed.
            self.mailbox.remove_queue_pair();
        }
        admitted.map(QueuePairId)
    }

    fn reject(&mut self, request: ConnectRequestId, private: &[u8]) {
        let Some((id, _)) = self.requests.remove(&request.0) else { return };
        self.mailbox.remove_queue_pair();
        if let Err(error) = id.reject(private) {
            // The peer may be gone. Dropping the id rejects the request without private data.
            tracing::debug!("RDMA: a request could not be rejected with a reason: {error}");
        }
    }

    fn disconnect(&mut self, pair: QueuePairId) {
        let Some(conn) = self.connections.get_mut(&pair.0) else { return };
        let Some(queue_pair) = &mut conn.pair else { return };
        // Either may fail if the other end was quicker, or the connection was never established. The first notifies the
        // peer; the second completes all work if there is nobody to notify.
        let (told, failed) = (conn.id.disconnect(), queue_pair.move_to_error());
        if let (Err(one), Err(other)) = (told, failed) {
            tracing::debug!("RDMA: a connection could not be disconnected: {one}; {other}");
        }
    }

    fn destroy(&mut self, pair: QueuePairId) {
        self.forget(pair.0);
    }

    fn events(&mut self, now: Duration, into: &mut Vec<ConnectionEvent>) -> Result<(), DeviceError> {
        self.poll_events(now, into)?;
        self.destroy_leaving()?;
        self.registrations.sweep();
        self.check_not_broken()
    }
}

impl Drop for CardDevice {
    fn drop(&mut self) {
        if let (Some(family), Some(_)) = (&self.listener_group, self.listener.take()) {
            family.on_listener_closed();
        }
    }
}
