//! A port's connections and its round: events, completions, deadlines, doorbells.
//!
//! Enters: calls of the port and its links.  Leaves: connections that stand, edges.
//! Owns:   the table of connections, the promises to peers, the tokens.
//! Never:  lets one connection's end reach another.

use super::connection::{Connection, Phase};
use super::shared::{LANDING, RECEIVE};
use super::{Census, LinkCensus, Shared};
use crate::device::{Completion, Device, DeviceError, Event, QueuePair, QueueWishes, Request, Status};
use crate::fault::Fault;
use crate::limits::{COMPLETIONS_MAX, DEADLINES_EVERY, HANDSHAKES_MAX, POLL_COMPLETIONS_MAX, TOKENS_MAX};
use crate::wire::{Hello, Refusal, Reject, Token, VERSION_MAX, VERSION_MIN};
use crate::{Doorkeeper, LinkId, Readiness};
use link::PeerAddress;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

struct Place {
    generation: u32,
    connection: Option<Box<Connection>>,
}

pub(crate) struct Core<D> {
    pub shared: Shared<D>,
    places: Vec<Place>,
    vacant: Vec<u32>,
    /// By numbers of the device's own, which no peer chooses.
    by_pair: hashbrown::HashMap<QueuePair, u32>,
    /// Credits promised to the peers of connections that have a place, and of those that had one in the last round.
    promised: usize,
    retiring: usize,
    accepting: usize,
    /// Connections of peers that stand and that nobody has taken.
    pub accepted: VecDeque<LinkId>,
    tokens: HashMap<Token, Duration>,
    /// Knows of others.
    pub doorkeeper: Option<Arc<dyn Doorkeeper>>,
    is_stopping: bool,
    next_check: Duration,
    /// Whoever waited last for a link of this port had to sleep.
    pub has_slept: bool,
    /// Peers that went, until what they had sent is polled.
    gone: Vec<QueuePair>,
    completions: Vec<Completion>,
    events: Vec<Event>,
}

impl<D: Device> Core<D> {
    pub fn new(shared: Shared<D>) -> Result<Self, DeviceError> {
        let mut core = Core {
            shared,
            places: Vec::new(),
            vacant: Vec::new(),
            by_pair: hashbrown::HashMap::new(),
            promised: 0,
            retiring: 0,
            accepting: 0,
            accepted: VecDeque::new(),
            tokens: HashMap::new(),
            doorkeeper: None,
            is_stopping: false,
            next_check: Duration::ZERO,
            has_slept: false,
            gone: Vec::new(),
            completions: Vec::new(),
            events: Vec::new(),
        };
        core.shared.replenish()?;
        Ok(core)
    }

    /// The connection of a link, with what it shares.
    pub fn with(&mut self, id: LinkId) -> Option<(&mut Connection, &mut Shared<D>)> {
        let place = self.places.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        Some((place.connection.as_deref_mut()?, &mut self.shared))
    }

    fn at(&mut self, slot: u32) -> Option<(&mut Connection, &mut Shared<D>)> {
        let connection = self.places.get_mut(slot as usize)?.connection.as_deref_mut()?;
        Some((connection, &mut self.shared))
    }

    fn has_room(&self) -> bool {
        self.has_room_for(self.shared.settings.credits)
    }

    /// Whether there are receive buffers for one connection more whose peer is promised so many.
    pub fn has_room_for(&self, credits: u16) -> bool {
        let settings = &self.shared.settings;
        self.promised + usize::from(credits) <= settings.receive_buffers - settings.spare_buffers
    }

    fn wishes(&self) -> QueueWishes {
        let (settings, abilities) = (&self.shared.settings, &self.shared.abilities);
        QueueWishes {
            send_slots: settings.send_slots,
            receiver_not_ready_retries: settings.receiver_not_ready_retries,
            reads_issued_max: abilities.reads_issued_max.min(1),
            reads_answered_max: abilities.reads_answered_max,
        }
    }

    fn hello(&self, versions: (u8, u8), token: Option<Token>, credits: u16) -> Hello {
        let settings = &self.shared.settings;
        let wishes = self.wishes();
        Hello {
            versions,
            receive_buffer_bytes: settings.receive_buffer_bytes,
            credits,
            rendezvous_max: settings.rendezvous_max,
            rendezvous_threshold_bytes: settings.rendezvous_threshold_bytes,
            reads_issued_max: wishes.reads_issued_max,
            reads_answered_max: wishes.reads_answered_max,
            token,
        }
    }

    fn add(&mut self, pair: QueuePair, peer: PeerAddress, phase: Phase, credits: u16) -> LinkId {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, connection: None });
            (self.places.len() - 1) as u32
        });
        self.promised += usize::from(credits);
        self.by_pair.insert(pair, slot);
        let place = &mut self.places[slot as usize];
        place.connection = Some(Box::new(Connection::new(&self.shared, slot, pair, peer, phase, credits)));
        LinkId { slot, generation: place.generation }
    }

    fn remove(&mut self, slot: u32) {
        let place = &mut self.places[slot as usize];
        let Some(connection) = place.connection.take() else { return };
        place.generation = place.generation.wrapping_add(1);
        self.vacant.push(slot);
        if self.by_pair.get(&connection.pair) == Some(&slot) {
            self.by_pair.remove(&connection.pair);
        }
        self.retiring += usize::from(connection.credits.promised());
    }

    pub fn connect(&mut self, address: &str, token: Option<Token>, credits: u16) -> Result<LinkId, DeviceError> {
        if !self.has_room_for(credits) {
            return Err(DeviceError("there are no receive buffers left for another connection".into()));
        }
        // Whoever has no connections may not have polled for long: the time to stand begins now, not then.
        self.shared.now = self.shared.device.now();
        let hello = self.hello((VERSION_MIN, VERSION_MAX), token, credits).encode();
        let wishes = self.wishes();
        let pair = self.shared.device.connect(address, &hello, &wishes)?;
        let peer = PeerAddress { address: address.into(), local_address: "rdma".into(), is_loopback: false };
        Ok(self.add(pair, peer, Phase::Asking, credits))
    }

    /// Lets one client in that shows this token, for a while.
    pub fn expect(&mut self, token: Token) -> bool {
        let now = self.shared.now;
        if self.tokens.len() >= TOKENS_MAX {
            self.tokens.retain(|_, until| *until > now);
        }
        let has_room = self.tokens.len() < TOKENS_MAX;
        if has_room {
            self.tokens.insert(token, now + self.shared.settings.token_max);
        }
        has_room
    }

    pub fn forget_token(&mut self, token: &Token) {
        self.tokens.remove(token);
    }

    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    fn admit(&mut self, private: &[u8]) -> Result<(Hello, u8), Refusal> {
        let hello = Hello::decode(private).map_err(|_| Refusal::Malformed)?;
        let version = hello.version_with(VERSION_MIN, VERSION_MAX).ok_or(Refusal::Version)?;
        if self.is_stopping {
            return Err(Refusal::Shutdown);
        }
        let now = self.shared.now;
        match &hello.token {
            // Once: whatever becomes of the connection.
            Some(token) => match self.tokens.remove(token) {
                Some(until) if until > now => {}
                None if self.doorkeeper.as_ref().is_some_and(|doorkeeper| doorkeeper.admits(token)) => {}
                _ => return Err(Refusal::TokenWrong),
            },
            None if self.shared.settings.direct => {}
            None => return Err(Refusal::TokenNeeded),
        }
        if !self.has_room() || self.accepting >= HANDSHAKES_MAX {
            return Err(Refusal::Busy);
        }
        Ok((hello, version))
    }

    fn request(&mut self, request: Request, private: &[u8], peer: PeerAddress) {
        let admitted = self.admit(private);
        let (hello, version) = match admitted {
            Ok(admitted) => admitted,
            Err(why) => {
                self.shared.counters.refusals += 1;
                let reject = Reject { why, versions: (VERSION_MIN, VERSION_MAX) };
                return self.shared.device.reject(request, &reject.encode());
            }
        };
        let credits = self.shared.settings.credits;
        let answer = self.hello((version, version), None, credits).encode();
        let wishes = self.wishes();
        match self.shared.device.accept(request, &answer, &wishes) {
            Ok(pair) => {
                let id = self.add(pair, peer, Phase::Accepting, credits);
                self.accepting += 1;
                if let Some((connection, shared)) = self.with(id) {
                    connection.agree(shared, &hello);
                    connection.is_orphan = true;
                }
            }
            // The request is gone, or the device is full; the peer learns of it from the device.
            Err(_gone) => self.shared.counters.refusals += 1,
        }
    }

    fn established(&mut self, pair: QueuePair, private: &[u8]) {
        let Some(&slot) = self.by_pair.get(&pair) else { return };
        let Some((connection, shared)) = self.at(slot) else { return };
        match connection.phase {
            Phase::Asking => match Hello::decode(private) {
                Ok(hello)
                    if hello.versions.0 == hello.versions.1
                        && (VERSION_MIN..=VERSION_MAX).contains(&hello.versions.0) =>
                {
                    connection.agree(shared, &hello);
                    connection.open(shared);
                    if shared.abilities.asker_speaks_first {
                        connection.speak_first(shared.now);
                    }
                    connection.touch(shared);
                    if let Err(fault) = connection.hear_early(shared) {
                        connection.fail(shared, fault);
                    }
                }
                Ok(_) => connection.fail(shared, Fault::Private(crate::wire::PrivateError::Value("version"))),
                Err(error) => connection.fail(shared, Fault::Private(error)),
            },
            // Else the first message says so.
            Phase::Accepting if !shared.abilities.asker_speaks_first => connection.open(shared),
            _ => {}
        }
        self.welcome(slot);
    }

    /// A peer's connection that has come to stand waits for an owner.
    fn welcome(&mut self, slot: u32) {
        let place = &mut self.places[slot as usize];
        let Some(connection) = place.connection.as_deref_mut() else { return };
        if connection.phase == Phase::Open && connection.is_orphan {
            connection.is_orphan = false;
            self.accepting -= 1;
            self.accepted.push_back(LinkId { slot, generation: place.generation });
            connection.raise(&mut self.shared, Readiness { readable: true, writable: true, closed: false });
        }
    }

    fn fail(&mut self, pair: QueuePair, fault: Fault) {
        let Some(&slot) = self.by_pair.get(&pair) else { return };
        let Some((connection, shared)) = self.at(slot) else { return };
        let was_accepting = connection.phase == Phase::Accepting;
        connection.fail(shared, fault);
        if was_accepting {
            self.accepting -= 1;
        }
    }

    fn completion(&mut self, completion: Completion) {
        let Completion { id, pair, status, bytes, memory } = completion;
        let is_receive = id.0 & RECEIVE != 0;
        if is_receive {
            self.shared.took_buffer();
        }
        let Some(&slot) = self.by_pair.get(&pair) else { return self.keep(id.0, memory) };
        let Some((connection, shared)) = self.at(slot) else { return self.keep(id.0, memory) };
        let is_over = !matches!(connection.phase, Phase::Open | Phase::Ending);
        if status != Status::Done {
            self.keep(id.0, memory);
            // Flushed work follows a failure or an end, which is told by itself.
            if status != Status::Flushed {
                self.fail(pair, Fault::Work(status));
            } else if !is_over && !self.gone.contains(&pair) {
                self.gone.push(pair);
            }
            return;
        }
        if is_receive {
            let was_accepting = connection.phase == Phase::Accepting;
            if connection.phase == Phase::Over {
                return self.keep(id.0, memory);
            }
            let heard = match connection.phase {
                Phase::Asking => connection.keep_early(shared, bytes, memory),
                _ => connection.hear(shared, bytes, memory),
            };
            if was_accepting {
                self.welcome(slot);
            }
            if let Err(fault) = heard {
                self.fail(pair, fault);
            }
            return;
        }
        shared.counters.signalled += 1;
        if is_over || (connection.phase == Phase::Ending && !memory.is_empty()) {
            connection.outward.completed(id);
            connection.touch(shared);
            if !is_over && !memory.is_empty() {
                connection.read_in_vain(shared);
            }
            return self.keep(id.0, memory);
        }
        if let Err(fault) = connection.completed(shared, id, memory) {
            self.fail(pair, fault);
        }
    }

    /// Memory that came back and that no stream has use for. What was lent goes.
    fn keep(&mut self, id: u64, memory: slab::BlockMut) {
        if memory.is_empty() {
            return;
        }
        if id & RECEIVE != 0 {
            self.shared.free_buffer(memory);
        } else if id & LANDING != 0 {
            self.shared.free_landing(memory);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Request { request, private, peer } => self.request(request, &private, peer),
            Event::Established { pair, private } => self.established(pair, &private),
            Event::Rejected { pair, private } => self.fail(pair, Fault::Rejected(Reject::decode(&private))),
            Event::Failed { pair, why } => self.fail(pair, Fault::Device(why)),
            Event::Disconnected { pair } => self.gone.push(pair),
        }
    }

    /// One round: what the device has to tell, and what time brings. Rings the doorbells, unless that is asked for apart.
    ///
    /// # Errors
    /// The device is broken; all connections are over.
    pub fn poll(&mut self) -> Result<(), DeviceError> {
        self.shared.now = self.shared.device.now();
        let mut events = std::mem::take(&mut self.events);
        let mut completions = std::mem::take(&mut self.completions);
        let outcome = self.take_all(&mut events, &mut completions);
        self.events = events;
        self.completions = completions;
        let outcome = outcome.inspect_err(|error| {
            for slot in 0..self.places.len() as u32 {
                if let Some((connection, shared)) = self.at(slot) {
                    connection.fail(shared, error.clone().into());
                }
            }
        });
        self.land_queued();
        if self.shared.now >= self.next_check {
            self.check();
        }
        if !self.shared.settings.corked {
            self.flush();
        }
        outcome
    }

    /// A look at completions alone, by who has armed the device after a whole look that found nothing, and sleeps if this does
    /// not either. Says whether there were some: then a whole look follows.
    ///
    /// # Errors
    /// The device is broken, which the next whole look tells all connections.
    pub fn came_meanwhile(&mut self) -> Result<bool, DeviceError> {
        let mut completions = std::mem::take(&mut self.completions);
        let polled = self.shared.device.poll(&mut completions, COMPLETIONS_MAX);
        for completion in completions.drain(..) {
            self.completion(completion);
        }
        self.completions = completions;
        Ok(polled? > 0)
    }

    fn take_all(&mut self, events: &mut Vec<Event>, completions: &mut Vec<Completion>) -> Result<(), DeviceError> {
        self.shared.device.events(self.shared.now, events)?;
        for event in events.drain(..) {
            self.event(event);
        }
        let mut taken = 0;
        while taken < POLL_COMPLETIONS_MAX {
            let polled = self.shared.device.poll(completions, COMPLETIONS_MAX)?;
            taken += polled;
            for completion in completions.drain(..) {
                self.completion(completion);
            }
            if polled < COMPLETIONS_MAX {
                // All that a peer had sent before it went is here.
                for pair in std::mem::take(&mut self.gone) {
                    self.fail(pair, Fault::Disconnected);
                }
                // No completion of a connection that is over holds a buffer any more.
                self.promised -= std::mem::take(&mut self.retiring);
                break;
            }
        }
        Ok(())
    }

    /// Landing blocks that came back go to those that wait.
    fn land_queued(&mut self) {
        let mut blocks = self.shared.census().free_landings;
        while blocks > 0
            && let Some(slot) = self.shared.landing_queue.pop_front()
        {
            if let Some((connection, shared)) = self.at(slot)
                && std::mem::take(&mut connection.inward.wants_landing)
            {
                connection.raise_readable(shared);
                blocks -= 1;
            }
        }
    }

    fn check(&mut self) {
        self.next_check = self.shared.now + DEADLINES_EVERY.min(self.shared.settings.silent_max / 8);
        // Who asks and never finishes must not keep the others out for long.
        let is_crowded = !self.has_room() || self.accepting >= HANDSHAKES_MAX;
        for slot in 0..self.places.len() as u32 {
            let Some((connection, shared)) = self.at(slot) else { continue };
            let pair = connection.pair;
            if let Err(fault) = connection.check(shared, is_crowded) {
                self.fail(pair, fault);
            }
        }
    }

    /// Rings one doorbell for each link that has something to post, and clears ended connections away.
    pub fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.shared.dirty);
        if let Err(error) = self.shared.replenish() {
            // The next poll finds the device broken, too; until then nobody is promised these buffers.
            dirty.iter().for_each(|slot| {
                if let Some((connection, shared)) = self.at(*slot) {
                    connection.fail(shared, error.clone().into());
                }
            });
        }
        for slot in dirty.drain(..) {
            let Some((connection, shared)) = self.at(slot) else { continue };
            connection.is_dirty = false;
            connection.pay(shared);
            connection.post_or_fail(shared);
            if connection.is_finished() {
                connection.end(shared);
            }
            if connection.phase == Phase::Over && connection.is_orphan {
                connection.forget_inward(shared);
                self.remove(slot);
            }
        }
        // What was touched meanwhile is looked at in the next round.
        if self.shared.dirty.is_empty() {
            self.shared.dirty = dirty;
        }
    }

    /// The owner of a link is done with it.
    pub fn abandon(&mut self, id: LinkId) {
        let Some((connection, shared)) = self.with(id) else { return };
        connection.is_orphan = true;
        connection.edges = Readiness::default();
        match connection.phase {
            Phase::Open => {
                connection.forget_inward(shared);
                connection.decline();
                connection.close_sending(shared);
                connection.begin_ending(shared);
            }
            Phase::Asking | Phase::Accepting => connection.end(shared),
            Phase::Ending | Phase::Over => {
                connection.forget_inward(shared);
                connection.touch(shared);
            }
        }
        if !self.shared.settings.corked {
            self.flush();
        }
    }

    pub fn take_edges(&mut self, out: &mut Vec<(LinkId, Readiness)>) {
        for slot in std::mem::take(&mut self.shared.edged) {
            let place = &mut self.places[slot as usize];
            if let Some(connection) = &mut place.connection
                && connection.edges.any()
            {
                out.push((LinkId { slot, generation: place.generation }, std::mem::take(&mut connection.edges)));
            }
        }
    }

    /// Connections that have a place.
    pub fn connections(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Whether links have edges that nobody took, or something to post, or have no owner yet.
    pub fn has_work(&self) -> bool {
        !self.shared.edged.is_empty() || !self.shared.dirty.is_empty() || !self.accepted.is_empty()
    }

    pub fn census(&self) -> Census {
        let connections = self.places.iter().filter_map(|place| place.connection.as_deref());
        let unread = connections.clone().map(Connection::census).map(|census| usize::from(census.unread_messages));
        Census {
            promised_credits: self.promised,
            unread_buffers: unread.sum(),
            connections: connections.count(),
            ..self.shared.census()
        }
    }

    pub fn link_census(&mut self, id: LinkId) -> LinkCensus {
        self.with(id).map_or(LinkCensus::default(), |(connection, _)| connection.census())
    }
}
