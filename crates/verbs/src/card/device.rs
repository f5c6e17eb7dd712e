//! A card as the engine wants it.
//!
//! Enters: the engine's calls.  Leaves: its completions and events.
//! Owns:   one shard's share of a device: queues, registrations, connections.
//! Never:  shares any of it with another thread; siblings write letters.

use super::address::{addresses, told, unbound};
use super::conn::{Conn, Pair, terms};
use super::family::{Family, Mailbox};
use super::heads::Heads;
use super::turns::Turns;
use super::wait::Watch;
use crate::device::{
    Abilities, Completion, Device, DeviceError, Event, Grant, QueuePair, QueueWishes, Request, Work, WorkId,
};
use crate::limits::{
    ACKNOWLEDGE_EXPONENT, BACKLOG_REQUESTS, CARD_COMPLETIONS_MAX, INLINE_BYTES_WANTED, LAST_RECEIVES_MAX,
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
const PIECES: usize = MESSAGE_PARTS_MAX + 1;

/// A receive buffer, with the number that its owner gave it, and that of its turn.
pub(super) type Buffer = TaggedMemory<TaggedMemory<BlockMut>>;

pub(super) struct Card {
    pub context: DeviceContext,
    domain: ProtectionDomain,
    wakes: CompletionChannel,
    pub queue: CompletionQueue,
    /// Made for as many buffers as are first posted: their owner has no more.
    pub receives: Option<SharedReceiveQueue<Buffer>>,
    pub turns: Turns,
    pub receive_list: Vec<(Buffer, LocalKey)>,
    pub channel: CmEventChannel,
    pub mailbox: Arc<Mailbox>,
    pub family: Option<Arc<Family>>,
    /// An address that was looked up already.
    pub known: Option<(String, SocketAddr)>,
    abilities: Abilities,
    pub met: RegistrationCache,
    pub heads: Heads,
    grants: HashMap<u32, MemoryRegion<Slice>>,
    pub listener: Option<CmId>,
    pub conns: HashMap<u32, Conn>,
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
    pub ready: VecDeque<Completion>,
    pub batch: Vec<ib::Completion>,
    pub finished: Vec<CompletedWork<BlockMut>>,
    /// The next round looks for news, whatever the time.
    pub is_look_due: bool,
    /// Of a device that somebody has waited for by `wait`.
    watch: Option<Watch>,
    /// A wait has just looked for them.
    pub has_looked: bool,
    pub looked_at: Duration,
    begun: Instant,
    pub broken: Option<DeviceError>,
}

impl Card {
    /// Everything is made on a context of the connection manager's: that of `ib::devices` is another opening, and
    /// queue pairs of ids cannot be made with what belongs to it.
    pub fn open(context: &DeviceContext) -> Result<Self, DeviceError> {
        let facts = context.attributes().map_err(told)?;
        if (facts.sge_max as usize) < PIECES {
            let most = facts.sge_max;
            return Err(DeviceError(format!(
                "{} gathers {most} pieces in a send, and {PIECES} are needed",
                context.name()
            )));
        }
        let domain = ProtectionDomain::new(context).map_err(told)?;
        let wakes = CompletionChannel::new(context).map_err(told)?;
        let completions = CARD_COMPLETIONS_MAX.min(facts.completions_max);
        let queue = CompletionQueue::new(context, completions, Some(&wakes)).map_err(told)?;
        let inline = ib::probe_inline_bytes(&domain, &queue, PIECES as u32, INLINE_BYTES_WANTED).map_err(told)?;
        let channel = CmEventChannel::new().map_err(told)?;
        let mailbox = Mailbox::new(context, &channel)?;
        #[expect(clippy::disallowed_methods, reason = "the engine's clock, which it is told by its device")]
        let begun = Instant::now();
        Ok(Card {
            context: context.clone(),
            wakes,
            receives: None,
            turns: Turns::default(),
            receive_list: Vec::new(),
            channel,
            mailbox,
            family: None,
            known: None,
            abilities: Abilities {
                inline_bytes_max: inline as usize,
                parts_max: PIECES,
                reads_issued_max: facts.initiator_depth_max,
                reads_answered_max: facts.responder_resources_max.min(READS_ANSWERED_MAX),
                // The other half of the queue is for what is sent.
                receives_max: facts.shared_receive_wr_max.min(queue.entries() / 2).min(ib::WORK_REQUESTS_MAX) as usize,
                asker_speaks_first: context.is_iwarp(),
            },
            queue,
            met: RegistrationCache::new(&domain),
            heads: Heads::new(&domain),
            domain,
            grants: HashMap::new(),
            listener: None,
            conns: HashMap::new(),
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
            is_look_due: false,
            watch: None,
            has_looked: false,
            looked_at: Duration::ZERO,
            begun,
            broken: None,
        })
    }

    pub fn check(&self) -> Result<(), DeviceError> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Completions first, then the connection manager, the device's own news, letters.
    fn fds(&self) -> [BorrowedFd<'_>; 4] {
        [self.wakes.as_fd(), self.channel.as_fd(), self.context.async_fd(), self.mailbox.wake.as_fd()]
    }

    /// A queue pair for an id that has this device, if the completion queue can bear all of its work failing at once:
    /// a queue that overflows takes every connection with it.
    pub fn queue_pair(&self, id: &CmId, wishes: &QueueWishes) -> Result<Pair, DeviceError> {
        let receives =
            self.receives.as_ref().ok_or_else(|| DeviceError("no receive buffers were posted yet".into()))?;
        let pairs = self.conns.values().filter_map(|conn| conn.pair.as_ref());
        let taken: usize = pairs.map(|pair| pair.options().send_wr_max as usize).sum();
        let needed = taken + receives.posted() + receives.free_slots() + wishes.send_slots;
        if needed > self.queue.entries() as usize {
            let most = self.queue.entries();
            return Err(DeviceError(format!(
                "the device's completion queue holds {most}: too few for another connection"
            )));
        }
        let options = QueuePairOptions {
            send_wr_max: wishes.send_slots as u32,
            send_sge_max: PIECES as u32,
            inline_bytes_max: self.abilities.inline_bytes_max as u32,
        };
        Pair::new(id, &self.domain, &self.queue, &self.queue, receives, options).map_err(told)
    }

    /// Takes a connection in, and gives it a number that no other ever has here.
    pub fn add(&mut self, conn: Conn) -> u32 {
        self.next_number += 1;
        let number = self.next_number;
        self.by_id.insert(conn.id.key(), number);
        if let Some(pair) = &conn.pair {
            self.know(number, pair.work_queue(), pair.number());
        }
        self.conns.insert(number, conn);
        number
    }

    pub fn know(&mut self, number: u32, tag: WorkQueueId, device_number: u32) {
        self.by_tag.insert(tag, number);
        self.by_device_number.insert(device_number, number);
    }

    /// The owner forgets it. What has a queue pair goes later, see `Card::let_leave`.
    fn forget(&mut self, number: u32) {
        let now = self.now();
        let Some(conn) = self.conns.get_mut(&number).filter(|conn| conn.goes_at.is_none()) else { return };
        self.by_id.remove(&conn.id.key());
        if conn.pair.is_some() {
            conn.goes_at = Some(now + LAST_RECEIVES_MAX);
            self.leaving.push(number);
        } else {
            self.conns.remove(&number);
            self.mailbox.pair_went();
        }
    }

    /// Both ends' own wishes have met: the connection is let in.
    fn admit(&mut self, id: CmId, offered: ReadLimits, private: &[u8], wishes: &QueueWishes) -> Result<u32, DeviceError> {
        self.check()?;
        // What the kernel takes unless it is told makes a dead peer go unnoticed for long.
        id.set_ack_timeout(ACKNOWLEDGE_EXPONENT).map_err(told)?;
        let pair = self.queue_pair(&id, wishes)?;
        let number = self.add(Conn::new(id, "", Some(pair), *wishes, &[]));
        let accepted = self.conns.get(&number).map(|conn| conn.id.accept(&terms(private, wishes, Some(offered))));
        if let Some(Err(error)) = accepted {
            self.disconnect(QueuePair(number));
            self.forget(number);
            return Err(told(error));
        }
        Ok(number)
    }

    /// The address that a connection is asked for at.
    fn target(&self, address: &str) -> Result<SocketAddr, DeviceError> {
        match &self.known {
            Some((text, known)) if text == address => Ok(*known),
            _ => addresses(address)?.first().copied().ok_or_else(|| DeviceError(format!("`{address}` has no address"))),
        }
    }
}

impl Device for Card {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn card(&self) -> String {
        self.context.name()
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn grant(&mut self, memory: Slice) -> Result<Grant, DeviceError> {
        self.check()?;
        // Exactly its bytes: the key opens no neighbour in the same region of message memory.
        let region = MemoryRegion::new(&self.domain, memory, RemoteAccess::Read).map_err(told)?;
        let grant = region.remote();
        self.grants.insert(grant.key, region);
        Ok(Grant { address: grant.address, key: grant.key })
    }

    fn revoke(&mut self, grant: Grant) {
        let gone = self.grants.remove(&grant.key);
        assert!(gone.is_some(), "a grant is revoked once");
    }

    fn post_receives(&mut self, buffers: &mut Vec<(WorkId, BlockMut)>) -> Result<(), DeviceError> {
        let posted = self.check().and_then(|()| self.post_all_receives(buffers));
        buffers.clear();
        posted
    }

    fn post(&mut self, pair: QueuePair, list: &mut Vec<Work>) -> Result<(), DeviceError> {
        let posted = self.check().and_then(|()| self.post_all(pair.0, list));
        list.clear();
        posted
    }

    fn poll(&mut self, into: &mut Vec<Completion>, most: usize) -> Result<usize, DeviceError> {
        self.check()?;
        self.take_completions(into, most)
    }

    fn arm(&mut self) -> Result<(), DeviceError> {
        self.check()?;
        // What has woken us is taken before the next is asked for: it would wake for ever. It is one at most, since the
        // last time that it was asked for.
        self.wakes.take(1).map_err(told)?;
        self.queue.arm().map_err(told)
    }

    fn heed_news(&mut self) {
        self.is_look_due = true;
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DeviceError> {
        if !self.ready.is_empty() || self.mailbox.has_letters() {
            return Ok(());
        }
        let watch = match self.watch.take() {
            Some(watch) => watch,
            None => Watch::new(&self.fds())?,
        };
        let [_, channel, device, _] = self.watch.insert(watch).news(timeout)?;
        self.is_look_due |= channel || device;
        // Who was told which are readable has looked.
        self.has_looked = true;
        Ok(())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.fds().iter().map(AsRawFd::as_raw_fd).collect()
    }

    fn news_descriptors(&self) -> Vec<RawFd> {
        vec![self.channel.as_fd().as_raw_fd(), self.context.async_fd().as_raw_fd()]
    }

    fn listen(&mut self, address: &str) -> Result<(), DeviceError> {
        self.check()?;
        let channel = &self.channel;
        let begin = |at: SocketAddr| {
            let id = CmId::new(channel).map_err(told)?;
            id.bind(at).map_err(|error| unbound(at, error))?;
            id.listen(BACKLOG_REQUESTS).map_err(|error| unbound(at, error))?;
            Ok(id)
        };
        let listener = match self.family.as_ref().filter(|family| family.is_of(address)) {
            Some(family) => family.listen(|| begin(family.address))?,
            None => Some(begin(self.target(address)?)?),
        };
        self.listener = listener.or(self.listener.take());
        Ok(())
    }

    fn connect(&mut self, address: &str, private: &[u8], wanted: &QueueWishes) -> Result<QueuePair, DeviceError> {
        self.check()?;
        let to = self.target(address)?;
        let id = CmId::new(&self.channel).map_err(told)?;
        // What the kernel takes unless it is told makes a dead peer go unnoticed for long.
        id.set_ack_timeout(ACKNOWLEDGE_EXPONENT).map_err(told)?;
        let asked = id.resolve_address(None, to, RESOLVE_MAX);
        asked.map_err(|error| DeviceError(format!("no RDMA device leads to {address}: {error}")))?;
        self.mailbox.pair_came();
        // Its queue pair is made when the way is known; nothing is posted before the connection stands.
        Ok(QueuePair(self.add(Conn::new(id, address, None, *wanted, private))))
    }

    fn accept(&mut self, request: Request, private: &[u8], wanted: &QueueWishes) -> Result<QueuePair, DeviceError> {
        let gone = || DeviceError("the request is gone".into());
        let (id, offered) = self.requests.remove(&request.0).ok_or_else(gone)?;
        let before = self.next_number;
        let admitted = self.admit(id, offered, private, wanted);
        if admitted.is_err() && self.next_number == before {
            // It never became a connection; one that did is counted out when it leaves.
            self.mailbox.pair_went();
        }
        admitted.map(QueuePair)
    }

    fn reject(&mut self, request: Request, private: &[u8]) {
        let Some((id, _)) = self.requests.remove(&request.0) else { return };
        self.mailbox.pair_went();
        if let Err(error) = id.reject(private) {
            // The peer may have gone meanwhile. Dropping the id refuses it without a word.
            tracing::debug!("RDMA: a request could not be refused in words: {error}");
        }
    }

    fn disconnect(&mut self, pair: QueuePair) {
        let Some(conn) = self.conns.get_mut(&pair.0) else { return };
        let Some(queue_pair) = &mut conn.pair else { return };
        // Either may fail because the other end was quicker, or because it never stood. The first tells the peer; the
        // second makes all work end where there is nobody to tell.
        let (told, failed) = (conn.id.disconnect(), queue_pair.move_to_error());
        if let (Err(one), Err(other)) = (told, failed) {
            tracing::debug!("RDMA: a connection could not be ended in order: {one}; {other}");
        }
    }

    fn destroy(&mut self, pair: QueuePair) {
        self.forget(pair.0);
    }

    fn events(&mut self, now: Duration, into: &mut Vec<Event>) -> Result<(), DeviceError> {
        self.hear_news(now, into)?;
        self.let_leave()?;
        self.met.sweep();
        self.check()
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if let (Some(family), Some(_)) = (&self.family, self.listener.take()) {
            family.stopped();
        }
    }
}
