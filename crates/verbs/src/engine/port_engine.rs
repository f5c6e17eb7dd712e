//! All connections of a port and the polling round: events, completions, deadlines, doorbells.
//!
//! The end of a connection does not affect any other.

use super::connection::Connection;
use super::connection_state::ConnectionPhase;
use super::port_shared::{LANDING, RECEIVE};
use super::{PortShared, PortUsage};
use crate::device::{
    CompletionStatus, ConnectRequestId, ConnectionEvent, Device, DeviceError, QueuePairId, QueuePairLimits,
    WorkCompletion,
};
use crate::fault::ConnectionFault;
use crate::limits::{COMPLETIONS_MAX, DEADLINE_CHECK_INTERVAL, HANDSHAKES_MAX, POLL_COMPLETIONS_MAX, TOKENS_MAX};
use crate::wire::{Hello, RdmaToken, Reject, RejectReason, VERSION_MAX, VERSION_MIN};
use crate::{LinkId, ReadinessEdges, TokenVerifier};
use link::{PeerAddress, RdmaUsage};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

struct ConnectionSlot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

pub(crate) struct PortEngine<D> {
    pub shared: PortShared<D>,
    slots: Vec<ConnectionSlot>,
    free_slots: Vec<u32>,
    /// The keys are the device's numbers, which no peer can choose, so the hash need not resist attacks.
    slot_by_queue_pair: hashbrown::HashMap<QueuePairId, u32>,
    /// Initial credits of all peers with a slot, and of those that had one in the last round.
    promised: usize,
    retiring: usize,
    accepting: usize,
    /// Established connections of peers that the owner has not accepted yet.
    pub accepted: VecDeque<LinkId>,
    tokens: HashMap<RdmaToken, Duration>,
    /// Verifies tokens that were issued elsewhere.
    pub token_verifier: Option<Arc<dyn TokenVerifier>>,
    is_stopping: bool,
    next_check: Duration,
    /// The last `wait` for a link of this port had to sleep.
    pub has_slept: bool,
    /// Disconnected peers, until the messages they had sent are polled.
    disconnected: Vec<QueuePairId>,
    completions: Vec<WorkCompletion>,
    events: Vec<ConnectionEvent>,
}

impl<D: Device> PortEngine<D> {
    pub fn new(shared: PortShared<D>) -> Result<Self, DeviceError> {
        let mut core = PortEngine {
            shared,
            slots: Vec::new(),
            free_slots: Vec::new(),
            slot_by_queue_pair: hashbrown::HashMap::new(),
            promised: 0,
            retiring: 0,
            accepting: 0,
            accepted: VecDeque::new(),
            tokens: HashMap::new(),
            token_verifier: None,
            is_stopping: false,
            next_check: Duration::ZERO,
            has_slept: false,
            disconnected: Vec::new(),
            completions: Vec::new(),
            events: Vec::new(),
        };
        core.shared.replenish()?;
        Ok(core)
    }

    /// The connection of a link, with the port's shared state.
    pub fn with(&mut self, id: LinkId) -> Option<(&mut Connection, &mut PortShared<D>)> {
        let place = self.slots.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        Some((place.connection.as_deref_mut()?, &mut self.shared))
    }

    fn at(&mut self, slot: u32) -> Option<(&mut Connection, &mut PortShared<D>)> {
        let connection = self.slots.get_mut(slot as usize)?.connection.as_deref_mut()?;
        Some((connection, &mut self.shared))
    }

    fn has_capacity(&self) -> bool {
        self.has_capacity_for(self.shared.settings.credits)
    }

    /// Whether there are receive buffers for one more connection with these initial credits.
    pub fn has_capacity_for(&self, credits: u16) -> bool {
        let settings = &self.shared.settings;
        self.promised + usize::from(credits) <= settings.receive_buffers - settings.spare_buffers
    }

    fn queue_pair_limits(&self) -> QueuePairLimits {
        let (settings, capabilities) = (&self.shared.settings, &self.shared.capabilities);
        QueuePairLimits {
            send_slots: settings.send_slots,
            receiver_not_ready_retries: settings.receiver_not_ready_retries,
            reads_issued_max: capabilities.reads_issued_max.min(1),
            reads_answered_max: capabilities.reads_answered_max,
        }
    }

    fn hello(&self, versions: (u8, u8), token: Option<RdmaToken>, credits: u16) -> Hello {
        let settings = &self.shared.settings;
        let limits = self.queue_pair_limits();
        Hello {
            versions,
            receive_buffer_bytes: settings.receive_buffer_bytes,
            credits,
            rendezvous_max: settings.rendezvous_max,
            rendezvous_threshold_bytes: settings.rendezvous_threshold_bytes,
            reads_issued_max: limits.reads_issued_max,
            reads_answered_max: limits.reads_answered_max,
            token,
        }
    }

    fn add(&mut self, pair: QueuePairId, peer: PeerAddress, phase: ConnectionPhase, credits: u16) -> LinkId {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(ConnectionSlot { generation: 0, connection: None });
            (self.slots.len() - 1) as u32
        });
        self.promised += usize::from(credits);
        self.slot_by_queue_pair.insert(pair, slot);
        let place = &mut self.slots[slot as usize];
        place.connection = Some(Box::new(Connection::new(&self.shared, slot, pair, peer, phase, credits)));
        LinkId { slot, generation: place.generation }
    }

    fn remove(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let Some(connection) = place.connection.take() else { return };
        place.generation = place.generation.wrapping_add(1);
        self.free_slots.push(slot);
        if self.slot_by_queue_pair.get(&connection.pair) == Some(&slot) {
            self.slot_by_queue_pair.remove(&connection.pair);
        }
        self.retiring += usize::from(connection.credits.promised());
    }

    pub fn connect(&mut self, address: &str, token: Option<RdmaToken>, credits: u16) -> Result<LinkId, DeviceError> {
        if !self.has_capacity_for(credits) {
            return Err(DeviceError("there are no receive buffers left for another connection".into()));
        }
        // A port without connections may not have been polled for long, and the set-up time begins now.
        self.shared.now = self.shared.device.now();
        let hello = self.hello((VERSION_MIN, VERSION_MAX), token, credits).encode();
        let limits = self.queue_pair_limits();
        let pair = self.shared.device.connect(address, &hello, &limits)?;
        let peer = PeerAddress { address: address.into(), local_address: "rdma".into(), is_loopback: false };
        Ok(self.add(pair, peer, ConnectionPhase::Connecting, credits))
    }

    /// Accepts one client with this token, for a limited time.
    pub fn expect(&mut self, token: RdmaToken) -> bool {
        let now = self.shared.now;
        if self.tokens.len() >= TOKENS_MAX {
            self.tokens.retain(|_, until| *until > now);
        }
        let has_capacity = self.tokens.len() < TOKENS_MAX;
        if has_capacity {
            self.tokens.insert(token, now + self.shared.settings.token_max);
        }
        has_capacity
    }

    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    fn admit(&mut self, private: &[u8]) -> Result<(Hello, u8), RejectReason> {
        let hello = Hello::decode(private).map_err(|_| RejectReason::Malformed)?;
        let version = hello.version_with(VERSION_MIN, VERSION_MAX).ok_or(RejectReason::Version)?;
        if self.is_stopping {
            return Err(RejectReason::Shutdown);
        }
        let now = self.shared.now;
        match &hello.token {
            // A token is used up even if the connection fails.
            Some(token) => match self.tokens.remove(token) {
                Some(until) if until > now => {}
                None if self.token_verifier.as_ref().is_some_and(|doorkeeper| doorkeeper.admits(token)) => {}
                _ => return Err(RejectReason::TokenWrong),
            },
            None if self.shared.settings.accepts_direct => {}
            None => return Err(RejectReason::TokenNeeded),
        }
        if !self.has_capacity() || self.accepting >= HANDSHAKES_MAX {
            return Err(RejectReason::Busy);
        }
        Ok((hello, version))
    }

    fn on_request(&mut self, request: ConnectRequestId, private: &[u8], peer: PeerAddress) {
        let admitted = self.admit(private);
        let (hello, version) = match admitted {
            Ok(admitted) => admitted,
            Err(why) => {
                self.shared.counters.refusals += 1;
                let reject = Reject { reason: why, versions: (VERSION_MIN, VERSION_MAX) };
                return self.shared.device.reject(request, &reject.encode());
            }
        };
        let credits = self.shared.settings.credits;
        let answer = self.hello((version, version), None, credits).encode();
        let limits = self.queue_pair_limits();
        match self.shared.device.accept(request, &answer, &limits) {
            Ok(pair) => {
                let id = self.add(pair, peer, ConnectionPhase::Accepting, credits);
                self.accepting += 1;
                if let Some((connection, shared)) = self.with(id) {
                    connection.apply_hello(shared, &hello);
                    connection.is_unowned = true;
                }
            }
            // The request is gone, or the device has no resources; the peer is notified by the device.
            Err(_gone) => self.shared.counters.refusals += 1,
        }
    }

    fn on_established(&mut self, pair: QueuePairId, private: &[u8]) {
        let Some(&slot) = self.slot_by_queue_pair.get(&pair) else { return };
        let Some((connection, shared)) = self.at(slot) else { return };
        match connection.phase {
            ConnectionPhase::Connecting => match Hello::decode(private) {
                Ok(hello)
                    if hello.versions.0 == hello.versions.1
                        && (VERSION_MIN..=VERSION_MAX).contains(&hello.versions.0) =>
                {
                    connection.apply_hello(shared, &hello);
                    connection.open(shared);
                    if shared.capabilities.initiator_sends_first {
                        connection.send_first_ping(shared.now);
                    }
                    connection.mark_dirty(shared);
                    if let Err(fault) = connection.replay_deferred(shared) {
                        connection.fail(shared, fault);
                    }
                }
                Ok(_) => connection
                    .fail(shared, ConnectionFault::InvalidPrivateData(crate::wire::PrivateDataError::Value("version"))),
                Err(error) => connection.fail(shared, ConnectionFault::InvalidPrivateData(error)),
            },
            // Otherwise the first message opens it.
            ConnectionPhase::Accepting if !shared.capabilities.initiator_sends_first => connection.open(shared),
            _ => {}
        }
        self.queue_for_accept(slot);
    }

    /// Queues an established connection of a peer for `accept`.
    fn queue_for_accept(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let Some(connection) = place.connection.as_deref_mut() else { return };
        if connection.phase == ConnectionPhase::Open && connection.is_unowned {
            connection.is_unowned = false;
            self.accepting -= 1;
            self.accepted.push_back(LinkId { slot, generation: place.generation });
            connection.raise_edges(&mut self.shared, ReadinessEdges { readable: true, writable: true, closed: false });
        }
    }

    fn fail(&mut self, pair: QueuePairId, fault: ConnectionFault) {
        let Some(&slot) = self.slot_by_queue_pair.get(&pair) else { return };
        let Some((connection, shared)) = self.at(slot) else { return };
        let was_accepting = connection.phase == ConnectionPhase::Accepting;
        connection.fail(shared, fault);
        if was_accepting {
            self.accepting -= 1;
        }
    }

    fn on_completion(&mut self, completion: WorkCompletion) {
        let WorkCompletion { id, pair, status, bytes, memory } = completion;
        let is_receive = id.0 & RECEIVE != 0;
        if is_receive {
            self.shared.receive_completed();
        }
        let Some(&slot) = self.slot_by_queue_pair.get(&pair) else { return self.reclaim(id.0, memory) };
        let Some((connection, shared)) = self.at(slot) else { return self.reclaim(id.0, memory) };
        let is_over = !matches!(connection.phase, ConnectionPhase::Open | ConnectionPhase::Closing);
        if status != CompletionStatus::Success {
            self.reclaim(id.0, memory);
            // Flushed work follows a failure or a disconnect, which is reported by itself.
            if status != CompletionStatus::Flushed {
                self.fail(pair, ConnectionFault::WorkFailed(status));
            } else if !is_over && !self.disconnected.contains(&pair) {
                self.disconnected.push(pair);
            }
            return;
        }
        if is_receive {
            let was_accepting = connection.phase == ConnectionPhase::Accepting;
            if connection.phase == ConnectionPhase::Closed {
                return self.reclaim(id.0, memory);
            }
            let heard = match connection.phase {
                ConnectionPhase::Connecting => connection.defer_message(shared, bytes, memory),
                _ => connection.on_message(shared, bytes, memory),
            };
            if was_accepting {
                self.queue_for_accept(slot);
            }
            if let Err(fault) = heard {
                self.fail(pair, fault);
            }
            return;
        }
        shared.counters.signalled += 1;
        if is_over || (connection.phase == ConnectionPhase::Closing && !memory.is_empty()) {
            connection.send_half.on_completion(id);
            connection.mark_dirty(shared);
            if !is_over && !memory.is_empty() {
                connection.on_unwanted_read(shared);
            }
            return self.reclaim(id.0, memory);
        }
        if let Err(fault) = connection.on_completion(shared, id, memory) {
            self.fail(pair, fault);
        }
    }

    /// Returns memory that no stream needs to the port. Lent memory is dropped.
    fn reclaim(&mut self, id: u64, memory: slab::BlockMut) {
        if memory.is_empty() {
            return;
        }
        if id & RECEIVE != 0 {
            self.shared.free_buffer(memory);
        } else if id & LANDING != 0 {
            self.shared.free_landing(memory);
        }
    }

    fn on_event(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Request { request, private, peer } => self.on_request(request, &private, peer),
            ConnectionEvent::Established { pair, private } => self.on_established(pair, &private),
            ConnectionEvent::Rejected { pair, private } => {
                self.fail(pair, ConnectionFault::Rejected(Reject::decode(&private)))
            }
            ConnectionEvent::Failed { pair, why } => self.fail(pair, ConnectionFault::DeviceFailed(why)),
            ConnectionEvent::Disconnected { pair } => self.disconnected.push(pair),
        }
    }

    /// One round: events, completions and deadlines. Posts queued work, unless the port is corked.
    ///
    /// # Errors
    /// The device has failed; all connections are closed.
    pub fn poll(&mut self) -> Result<(), DeviceError> {
        self.shared.now = self.shared.device.now();
        let mut events = std::mem::take(&mut self.events);
        let mut completions = std::mem::take(&mut self.completions);
        let outcome = self.drain_device(&mut events, &mut completions);
        self.events = events;
        self.completions = completions;
        let outcome = outcome.inspect_err(|error| {
            for slot in 0..self.slots.len() as u32 {
                if let Some((connection, shared)) = self.at(slot) {
                    connection.fail(shared, error.clone().into());
                }
            }
        });
        self.wake_landing_waiters();
        if self.shared.now >= self.next_check {
            self.check_deadlines();
        }
        if !self.shared.settings.corked {
            self.flush();
        }
        outcome
    }

    /// Polls completions only, after arming the device and before sleeping. Returns whether there were any: then a full
    /// poll must follow.
    ///
    /// # Errors
    /// The device has failed, which the next full poll reports to all connections.
    pub fn poll_completions(&mut self) -> Result<bool, DeviceError> {
        let mut completions = std::mem::take(&mut self.completions);
        let polled = self.shared.device.poll(&mut completions, COMPLETIONS_MAX);
        for completion in completions.drain(..) {
            self.on_completion(completion);
        }
        self.completions = completions;
        Ok(polled? > 0)
    }

    fn drain_device(
        &mut self,
        events: &mut Vec<ConnectionEvent>,
        completions: &mut Vec<WorkCompletion>,
    ) -> Result<(), DeviceError> {
        self.shared.device.events(self.shared.now, events)?;
        for event in events.drain(..) {
            self.on_event(event);
        }
        let mut taken = 0;
        while taken < POLL_COMPLETIONS_MAX {
            let polled = self.shared.device.poll(completions, COMPLETIONS_MAX)?;
            taken += polled;
            for completion in completions.drain(..) {
                self.on_completion(completion);
            }
            if polled < COMPLETIONS_MAX {
                // All messages that a peer had sent before it disconnected are received.
                for pair in std::mem::take(&mut self.disconnected) {
                    self.fail(pair, ConnectionFault::Disconnected);
                }
                // No completion of a closed connection holds a buffer any more.
                self.promised -= std::mem::take(&mut self.retiring);
                break;
            }
        }
        Ok(())
    }

    /// Wakes connections that wait for a landing block, as many as there are free blocks.
    fn wake_landing_waiters(&mut self) {
        let mut blocks = self.shared.usage().free_landings;
        while blocks > 0
            && let Some(slot) = self.shared.landing_waiters.pop_front()
        {
            if let Some((connection, shared)) = self.at(slot)
                && std::mem::take(&mut connection.receive_half.wants_landing)
            {
                connection.raise_readable(shared);
                blocks -= 1;
            }
        }
    }

    fn check_deadlines(&mut self) {
        self.next_check = self.shared.now + DEADLINE_CHECK_INTERVAL.min(self.shared.settings.silent_max / 8);
        // A peer that never finishes its set-up must not keep others out for long.
        let is_crowded = !self.has_capacity() || self.accepting >= HANDSHAKES_MAX;
        for slot in 0..self.slots.len() as u32 {
            let Some((connection, shared)) = self.at(slot) else { continue };
            let pair = connection.pair;
            if let Err(fault) = connection.check_deadlines(shared, is_crowded) {
                self.fail(pair, fault);
            }
        }
    }

    /// Posts the queued work of each link with one doorbell, and removes closed connections.
    pub fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.shared.dirty);
        if let Err(error) = self.shared.replenish() {
            // The next poll reports the failed device, too; until then these buffers' credits are not returned.
            dirty.iter().for_each(|slot| {
                if let Some((connection, shared)) = self.at(*slot) {
                    connection.fail(shared, error.clone().into());
                }
            });
        }
        for slot in dirty.drain(..) {
            let Some((connection, shared)) = self.at(slot) else { continue };
            connection.is_dirty = false;
            connection.queue_control_messages(shared);
            connection.post_or_fail(shared);
            if connection.is_finished() {
                connection.close(shared);
            }
            if connection.phase == ConnectionPhase::Closed && connection.is_unowned {
                connection.discard_received(shared);
                self.remove(slot);
            }
        }
        // Connections that were marked meanwhile are handled in the next round.
        if self.shared.dirty.is_empty() {
            self.shared.dirty = dirty;
        }
    }

    /// The owner has dropped a link.
    pub fn abandon(&mut self, id: LinkId) {
        let Some((connection, shared)) = self.with(id) else { return };
        connection.is_unowned = true;
        connection.edges = ReadinessEdges::default();
        match connection.phase {
            ConnectionPhase::Open => {
                connection.discard_received(shared);
                connection.decline_offers();
                connection.close_sending(shared);
                connection.begin_close(shared);
            }
            ConnectionPhase::Connecting | ConnectionPhase::Accepting => connection.close(shared),
            ConnectionPhase::Closing | ConnectionPhase::Closed => {
                connection.discard_received(shared);
                connection.mark_dirty(shared);
            }
        }
        if !self.shared.settings.corked {
            self.flush();
        }
    }

    pub fn take_edges(&mut self, out: &mut Vec<(LinkId, ReadinessEdges)>) {
        for slot in std::mem::take(&mut self.shared.edged) {
            let place = &mut self.slots[slot as usize];
            if let Some(connection) = &mut place.connection
                && connection.edges.any()
            {
                out.push((LinkId { slot, generation: place.generation }, std::mem::take(&mut connection.edges)));
            }
        }
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    /// Whether there are edges to take, work to post, or connections to accept.
    pub fn has_work(&self) -> bool {
        !self.shared.edged.is_empty() || !self.shared.dirty.is_empty() || !self.accepted.is_empty()
    }

    pub fn usage(&self) -> PortUsage {
        let connections = self.slots.iter().filter_map(|place| place.connection.as_deref());
        let unread = connections.clone().map(Connection::usage).map(|census| usize::from(census.unread_messages));
        PortUsage {
            promised_credits: self.promised,
            unread_buffers: unread.sum(),
            connections: connections.count(),
            ..self.shared.usage()
        }
    }

    pub fn link_usage(&mut self, id: LinkId) -> RdmaUsage {
        self.with(id).map_or(RdmaUsage::default(), |(connection, _)| connection.usage())
    }
}
