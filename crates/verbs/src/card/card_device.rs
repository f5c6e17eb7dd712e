//! A card as the engine wants it.
//!
//! Enters: the engine's calls.  Leaves: its completions and events.
//! Owns:   one shard's share of a device: queues, registrations, connections.
//! Never:  shares any of it with another thread; siblings write letters.

use super::address::{addresses, device_error, bind_error};
use super::cm_connection::{CmConnection, CardQueuePair, connect_params};
use super::listener_group::{ListenerGroup, CardMailbox};
use super::head_slots::HeadSlots;
use super::receive_order::ReceiveOrder;
use super::wait::EpollSet;
use crate::device::{
    DeviceCapabilities, WorkCompletion, Device, DeviceError, ConnectionEvent, ReadGrant, QueuePairId, QueuePairLimits, ConnectRequestId, WorkRequest, WorkRequestId,
};
use crate::limits::{
    ACKNOWLEDGE_EXPONENT, BACKLOG_REQUESTS, CARD_COMPLETIONS_MAX, INLINE_BYTES_WANTED, LAST_WQE_TIMEOUT,
    MESSAGE_PARTS_MAX, READS_ANSWERED_MAX, RESOLVE_MAX,
};
use hashbrown::HashMap;
use ib::{
    CmEventChannel, CompletionChannel, CompletionQueue, DeviceContext, ProtectionDomain, CompletedWork, CmId, CmIdKey, LocalKey, RegistrationCache, TaggedMemory, QueuePairOptions,
    RemoteAccess, WorkQueueId, ReadLimits, SharedReceiveQueue, MemoryRegion,
};
use slab::{BlockMut, Slice};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Parts that a send gathers, the head among them.
const SGE_NEEDED: usize = MESSAGE_PARTS_MAX + 1;

/// A receive buffer, with the number that its owner gave it, and that of its turn.
pub(super) type ReceiveBuffer = TaggedMemory<TaggedMemory<BlockMut>>;

pub(super) struct CardDevice {
    pub context: DeviceContext,
    domain: ProtectionDomain,
    completion_channel: CompletionChannel,
    pub completion_queue: CompletionQueue,
    /// Made for as many buffers as are first posted: their owner has no more.
    pub receive_queue: Option<SharedReceiveQueue<ReceiveBuffer>>,
    pub receive_order: ReceiveOrder,
    pub receive_list: Vec<(ReceiveBuffer, LocalKey)>,
    pub cm_channel: CmEventChannel,
    pub mailbox: Arc<CardMailbox>,
    pub listener_group: Option<Arc<ListenerGroup>>,
    /// An address that was looked up already.
    pub resolved: Option<(String, SocketAddr)>,
    capabilities: DeviceCapabilities,
    pub registrations: RegistrationCache,
    pub heads: HeadSlots,
    grants: HashMap<u32, MemoryRegion<Slice>>,
    pub listener: Option<CmId>,
    pub connections: HashMap<u32, CmConnection>,
    pub by_id: HashMap<CmIdKey, u32>,
    pub by_tag: HashMap<WorkQueueId, u32>,
    /// By the device's own numbers, which it may give again; ours are not.
    pub by_device_number: HashMap<u32, u32>,
    next_number: u32,
    /// Connections that their owner has forgotten and the device has not.
    pub leaving: Vec<u32>,
    pub requests: HashMap<u64, (CmId, ReadLimits)>,
    pub next_request: u64,
    /// Completions that nobody has asked for yet.
    pub ready: VecDeque<WorkCompletion>,
    pub batch: Vec<ib::Completion>,
    pub finished: Vec<CompletedWork<BlockMut>>,
    /// The next round looks for news, whatever the time.
    pub event_poll_due: bool,
    /// Of a device that somebody has waited for by `wait`.
    epoll: Option<EpollSet>,
    /// A wait has just looked for them.
    pub events_just_polled: bool,
    pub events_polled_at: Duration,
    begun: Instant,
    pub broken: Option<DeviceError>,
}

impl CardDevice {
    /// Everything is made on a context of the connection manager's: that of `ib::devices` is another opening, and
    /// queue pairs of ids cannot be made with what belongs to it.
    pub fn open(context: &DeviceContext) -> Result<Self, DeviceError> {
        let facts = context.attributes().map_err(device_error)?;
        if (facts.sge_max as usize) < SGE_NEEDED {
            let most = facts.sge_max;
            return Err(DeviceError(format!(
                "{} gathers {most} pieces in a send, and {SGE_NEEDED} are needed",
                context.name()
            )));
        }
        let domain = ProtectionDomain::new(context).map_err(device_error)?;
        let wakes = CompletionChannel::new(context).map_err(device_error)?;
        let completions = CARD_COMPLETIONS_MAX.min(facts.completions_max);
        let queue = CompletionQueue::new(context, completions, Some(&wakes)).map_err(device_error)?;
        let inline = ib::probe_inline_bytes(&domain, &queue, SGE_NEEDED as u32, INLINE_BYTES_WANTED).map_err(device_error)?;
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
                // The other half of the queue is for what is sent.
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

    /// Completions first, then the connection manager, the device's own news, letters.
    fn fds(&self) -> [BorrowedFd<'_>; 4] {
        [self.completion_channel.as_fd(), self.cm_channel.as_fd(), self.context.async_fd(), self.mailbox.wake.as_fd()]
    }

    /// A queue pair for an id that has this device, if the completion queue can bear all of its work failing at once:
    /// a queue that overflows takes every connection with it.
    pub fn queue_pair(&self, id: &CmId, wishes: &QueuePairLimits) -> Result<CardQueuePair, DeviceError> {
        let receives =
            self.receive_queue.as_ref().ok_or_else(|| DeviceError("no receive buffers were posted yet".into()))?;
        let pairs = self.connections.values().filter_map(|conn| conn.pair.as_ref());
        let taken: usize = pairs.map(|pair| pair.options().send_wr_max as usize).sum();
        let needed = taken + receives.posted() + receives.free_slots() + wishes.send_slots;
        if needed > self.completion_queue.entries() as usize {
            let most = self.completion_queue.entries();
            return Err(DeviceError(format!(
                "the device's completion queue holds {most}: too few for another connection"
            )));
        }
        let options = QueuePairOptions {
            send_wr_max: wishes.send_slots as u32,
            send_sge_max: SGE_NEEDED as u32,
            inline_bytes_max: self.capabilities.inline_bytes_max as u32,
        };
        CardQueuePair::new(id, &self.domain, &self.completion_queue, &self.completion_queue, receives, options).map_err(device_error)
    }

    /// Takes a connection in, and gives it a number that no other ever has here.
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

    /// The owner forgets it. What has a queue pair goes later, see `Card::let_leave`.
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

    /// Both ends' own wishes have met: the connection is let in.
    fn admit(&mut self, id: CmId, offered: ReadLimits, private: &[u8], wishes: &QueuePairLimits) -> Result<u32, DeviceError> {
        self.check_not_broken()?;
        // What the kernel takes unless it is told makes a dead peer go unnoticed for long.
        id.set_ack_timeout(ACKNOWLEDGE_EXPONENT).map_err(device_error)?;
        let pair = self.queue_pair(&id, wishes)?;
        let number = self.add(CmConnection::new(id, "", Some(pair), *wishes, &[]));
        let accepted = self.connections.get(&number).map(|conn| conn.id.accept(&connect_params(private, wishes, Some(offered))));
        if let Some(Err(error)) = accepted {
            self.disconnect(QueuePairId(number));
            self.forget(number);
            return Err(device_error(error));
        }
        Ok(number)
    }

    /// The address that a connection is asked for at.
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
        // Exactly its bytes: the key opens no neighbour in the same region of message memory.
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
        // What has woken us is taken before the next is asked for: it would wake for ever. It is one at most, since the
        // last time that it was asked for.
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
        // Who was told which are readable has looked.
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

    fn connect(&mut self, address: &str, private: &[u8], wanted: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
        self.check_not_broken()?;
        let to = self.target(address)?;
        let id = CmId::new(&self.cm_channel).map_err(device_error)?;
        // What the kernel takes unless it is told makes a dead peer go unnoticed for long.
        id.set_ack_timeout(ACKNOWLEDGE_EXPONENT).map_err(device_error)?;
        let asked = id.resolve_address(None, to, RESOLVE_MAX);
        asked.map_err(|error| DeviceError(format!("no RDMA device leads to {address}: {error}")))?;
        self.mailbox.add_queue_pair();
        // Its queue pair is made when the way is known; nothing is posted before the connection stands.
        Ok(QueuePairId(self.add(CmConnection::new(id, address, None, *wanted, private))))
    }

    fn accept(&mut self, request: ConnectRequestId, private: &[u8], wanted: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
        let gone = || DeviceError("the request is gone".into());
        let (id, offered) = self.requests.remove(&request.0).ok_or_else(gone)?;
        let before = self.next_number;
        let admitted = self.admit(id, offered, private, wanted);
        if admitted.is_err() && self.next_number == before {
            // It never became a connection; one that did is counted out when it leaves.
            self.mailbox.remove_queue_pair();
        }
        admitted.map(QueuePairId)
    }

    fn reject(&mut self, request: ConnectRequestId, private: &[u8]) {
        let Some((id, _)) = self.requests.remove(&request.0) else { return };
        self.mailbox.remove_queue_pair();
        if let Err(error) = id.reject(private) {
            // The peer may have gone meanwhile. Dropping the id refuses it without a word.
            tracing::debug!("RDMA: a request could not be refused in words: {error}");
        }
    }

    fn disconnect(&mut self, pair: QueuePairId) {
        let Some(conn) = self.connections.get_mut(&pair.0) else { return };
        let Some(queue_pair) = &mut conn.pair else { return };
        // Either may fail because the other end was quicker, or because it never stood. The first tells the peer; the
        // second makes all work end where there is nobody to tell.
        let (told, failed) = (conn.id.disconnect(), queue_pair.move_to_error());
        if let (Err(one), Err(other)) = (told, failed) {
            tracing::debug!("RDMA: a connection could not be ended in order: {one}; {other}");
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
