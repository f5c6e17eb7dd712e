//! The RDMA ports of a shard, beside its poll: what their devices tell becomes edges of connections.
//!
//! Enters: devices, rounds of the reactor.  Leaves: connections accepted, edges, doorbells rung.
//! Owns:   the ports; which link has which slot.
//! Never:  looks into a byte, sleeps, or lets a port that breaks reach the others.

use crate::asking::Asking;
use crate::household::Household;
use crate::limits::{DIALLED_CREDITS_MIN, DIALLED_OF_A_PORT};
use crate::rdma::RdmaPoll;
use crate::shard::Shard;
use crate::ties::{Asked, Dial, Tell};
use broker::ConnectionSlot;
use link::{Abort, Link};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use slab::{Pool, PoolOptions};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;
use verbs::device::{AnyDevice, Way};
use verbs::{Doorkeeper, LinkId, Port, Readiness, Settings, VerbsLink};

/// A port, and its links' slots.
struct Seat {
    port: Port<AnyDevice>,
    address: Box<str>,
    /// The card that its device belongs to: whoever that leads to is dialled over this port.
    card: Box<str>,
    descriptors: Vec<RawFd>,
    /// Those of them that tell of rare events alone.
    news: Vec<RawFd>,
    /// Those that this port has registered.
    registered: Vec<RawFd>,
    /// What it takes of memory, if that was not counted when the broker was started.
    bytes: u64,
    /// By the links' places. One that is over is never told of again, so it may stand here until its place has another.
    slots: Vec<Option<(LinkId, ConnectionSlot)>>,
    /// Connections to other brokers that do not stand yet.
    asking: Vec<Asking>,
    /// Its device does nothing more; it goes when its connections have ended.
    is_broken: bool,
}

/// All ports of a shard: none, of a broker that has nothing to do with RDMA.
pub(crate) struct Ports {
    seats: Vec<Seat>,
    poll: RdmaPoll,
    /// How they behave.
    settings: Settings,
    /// What descriptors are registered under: of all, and of those that tell of rare events.
    tokens: (Token, Token),
    edges: Vec<(LinkId, Readiness)>,
    is_stopping: bool,
    /// Buffers for peers: counted once, when the broker starts, and not with the messages.
    pool: Option<Pool>,
    /// What ports did that are gone.
    past: verbs::Counters,
}

impl Ports {
    /// `tokens`: what their descriptors are registered under, and those that tell of rare events alone.
    pub fn new(poll: RdmaPoll, settings: Settings, tokens: (Token, Token)) -> Self {
        Ports {
            seats: Vec::new(),
            poll,
            settings: Settings { corked: true, ..settings },
            tokens,
            edges: Vec::new(),
            is_stopping: false,
            pool: None,
            past: verbs::Counters::default(),
        }
    }

    /// One more port, which listens. What it takes of memory was counted when the broker was started.
    ///
    /// # Errors
    /// What the device says, or that it cannot do what the settings want.
    pub fn open(&mut self, device: AnyDevice, address: &str, household: &Arc<Household>) -> io::Result<()> {
        let port = self.port(device, self.settings.clone())?;
        port.ask(Arc::clone(household) as Arc<dyn Doorkeeper>);
        port.listen(address)?;
        self.seats.push(Seat::new(port, address));
        Ok(())
    }

    fn port(&mut self, device: AnyDevice, settings: Settings) -> io::Result<Port<AnyDevice>> {
        let pool = self.pool.get_or_insert_with(|| Pool::new(PoolOptions::default()));
        Port::open(device, pool, settings).map_err(io::Error::other)
    }

    /// Asks for a connection to another broker, over a port of the card that leads there. What becomes of it is told when
    /// that is known.
    pub fn ask(&mut self, dial: Dial, asked: Asked, tell: Tell, household: &Household, registry: &Registry) {
        let mut place = 0;
        let credits = self.settings.credits.max(DIALLED_CREDITS_MIN);
        let begun = Asking::begin(dial, asked, tell, |way, token| {
            if self.is_stopping {
                return Err(io::Error::other("this broker stops"));
            }
            let to = way.place.clone();
            place = self.seat_for(way, credits, household, registry)?;
            Ok(self.seats[place].port.connect_promising(&to, token, credits)?)
        });
        match begun {
            Ok(asking) => self.seats[place].asking.push(asking),
            Err((error, unwanted)) => unwanted.tell(&error.to_string()),
        }
    }

    /// A port with room on the card of a way: one that there is, or a new one.
    fn seat_for(&mut self, way: Way, credits: u16, household: &Household, registry: &Registry) -> io::Result<usize> {
        let suits = |seat: &Seat| !seat.is_broken && *seat.card == *way.card && seat.port.has_room_for(credits);
        if let Some(place) = self.seats.iter().position(suits) {
            return Ok(place);
        }
        let of_links = |links: usize| self.settings.spare_buffers + links * usize::from(credits);
        let receive_buffers = of_links(DIALLED_OF_A_PORT).min(self.settings.receive_buffers.max(of_links(1)));
        let settings = Settings { receive_buffers, ..self.settings.clone() };
        if !household.add_port(settings.port_bytes()) {
            return Err(io::Error::other("the buffers of RDMA ports would take too much of the memory limit"));
        }
        let port = (way.open)().map_err(io::Error::from).and_then(|device| self.port(device, settings.clone()));
        let port = port.inspect_err(|_| household.remove_port(settings.port_bytes()))?;
        let mut seat = Seat::new(port, &way.card);
        seat.bytes = settings.port_bytes();
        seat.register(registry, self.tokens)?;
        self.seats.push(seat);
        Ok(self.seats.len() - 1)
    }

    /// Wakes the poll when a device has something to tell. Edges suffice: whoever wakes looks at every port for completions,
    /// and for news where the poll tells of them, see [`Ports::heed_news`].
    pub fn register(&mut self, registry: &Registry) -> io::Result<()> {
        let tokens = self.tokens;
        self.seats.iter_mut().try_for_each(|seat| seat.register(registry, tokens))
    }

    /// The next look is for rare events, too.
    pub fn heed_news(&self) {
        self.seats.iter().for_each(|seat| seat.port.heed_news());
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    pub fn how(&self) -> RdmaPoll {
        self.poll
    }

    /// Connections of all ports, those included that are being made or are ending.
    pub fn connections(&self) -> usize {
        self.seats.iter().map(|seat| seat.port.connections()).sum()
    }

    /// What all ports did since they were opened; `None` if there never was one.
    pub fn counters(&self) -> Option<verbs::Counters> {
        self.pool.as_ref()?;
        let mut all = self.past;
        self.seats.iter().for_each(|seat| all += seat.port.counters());
        Some(all)
    }

    /// Takes no new connections.
    pub fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            for seat in &mut self.seats {
                seat.port.stop();
                seat.asking.clear();
            }
        }
    }

    /// What the devices have to tell. Says whether there was something.
    pub fn look(&mut self, shard: &mut Shard, household: &Household, now: Instant) -> bool {
        let mut came = false;
        for seat in &mut self.seats {
            if !seat.is_broken
                && let Err(error) = seat.port.poll()
            {
                seat.is_broken = true;
                let (address, connections) = (&*seat.address, seat.port.connections());
                tracing::error!(%error, address, connections, "an RDMA device failed; its connections end");
            }
            while let Some(link) = seat.port.accept() {
                came = true;
                seat.take(link, shard, household, self.is_stopping, now);
            }
            seat.port.take_edges(&mut self.edges);
            for (id, edges) in self.edges.drain(..) {
                came = true;
                if !seat.asking.is_empty() && seat.asked(id, edges, shard, now) {
                    continue;
                }
                // One that was refused has no slot.
                if let Some(Some((known, slot))) = seat.slots.get(id.place())
                    && *known == id
                {
                    shard.edge(*slot, edges.readable, edges.writable, edges.closed);
                }
            }
        }
        came
    }

    /// Rings the doorbells of what the round has written, and lets a broken port go that has no connections any more.
    pub fn flush(&mut self, registry: &Registry, household: &Household) {
        let mut over = false;
        for seat in &self.seats {
            seat.port.flush();
            over |= seat.is_broken && seat.port.connections() == 0;
        }
        if over {
            let (past, tokens) = (&mut self.past, self.tokens);
            self.seats
                .retain(|seat| !seat.is_broken || seat.port.connections() > 0 || seat.leave(registry, past, household));
            // What a card tells of itself it tells by one descriptor, which may have been registered by the one that went.
            for seat in &mut self.seats {
                if let Err(error) = seat.register(registry, tokens) {
                    tracing::error!(%error, address = &*seat.address, "an RDMA device cannot be waited for");
                }
            }
        }
    }

    /// The last look before a sleep: from now on the devices wake the poll. Says whether there is nothing to do.
    pub fn may_sleep(&mut self, shard: &mut Shard, household: &Household, registry: &Registry, now: Instant) -> bool {
        for seat in self.seats.iter().filter(|seat| !seat.is_broken) {
            // What fails here fails at the look that follows, and is told there.
            let _told_soon = seat.port.arm_for_messages();
        }
        let came = self.look(shard, household, now);
        self.flush(registry, household);
        !came && !self.seats.iter().any(|seat| seat.port.has_work())
    }
}

impl Seat {
    fn new(port: Port<AnyDevice>, address: &str) -> Self {
        let (descriptors, news, card) = (port.descriptors(), port.news_descriptors(), port.card().into());
        let (slots, asking, registered) = (Vec::new(), Vec::new(), Vec::new());
        Seat {
            port,
            address: address.into(),
            card,
            descriptors,
            news,
            registered,
            slots,
            asking,
            bytes: 0,
            is_broken: false,
        }
    }

    /// Has the poll woken by those of its descriptors that do not wake it yet.
    fn register(&mut self, registry: &Registry, (token, news): (Token, Token)) -> io::Result<()> {
        for descriptor in &self.descriptors {
            if self.registered.contains(descriptor) {
                continue;
            }
            let token = if self.news.contains(descriptor) { news } else { token };
            match registry.register(&mut SourceFd(descriptor), token, Interest::READABLE) {
                Ok(()) => self.registered.push(*descriptor),
                // That of a card's own news is one for all ports of it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Edges of a connection that was asked for. Says whether they were.
    #[cold]
    fn asked(&mut self, id: LinkId, edges: Readiness, shard: &mut Shard, now: Instant) -> bool {
        let Some(place) = self.asking.iter().position(|asking| asking.id() == id) else { return false };
        match self.asking[place].heard(edges) {
            None => {}
            Some(Ok(())) => {
                let (dial, dialled) = self.asking.swap_remove(place).stands();
                if let Some(slot) = shard.dialled(&dial, Ok(dialled), now) {
                    self.seat(id, slot);
                }
            }
            Some(Err(error)) => self.asking.swap_remove(place).failed(&error.to_string()),
        }
        true
    }

    fn seat(&mut self, id: LinkId, slot: ConnectionSlot) {
        if self.slots.len() <= id.place() {
            self.slots.resize(id.place() + 1, None);
        }
        self.slots[id.place()] = Some((id, slot));
    }

    /// A peer's connection becomes one of the shard's, if there is room for it.
    fn take(
        &mut self,
        mut link: VerbsLink<AnyDevice>,
        shard: &mut Shard,
        household: &Household,
        stopping: bool,
        now: Instant,
    ) {
        if stopping {
            return link.abort(Abort::Shutdown);
        }
        let ticket = link.token().and_then(|token| household.tokens.claim(&token));
        if link.token().is_some() && ticket.is_none() {
            // Let in by a token that was forgotten meanwhile.
            return link.abort(Abort::Overdue);
        }
        if !household.add_connection(shard.number()) {
            tracing::warn!(peer = &*link.peer().address, "too many connections: one more is refused");
            return link.abort(Abort::Limit);
        }
        let id = link.id();
        let slot = shard.accept_known(Box::new(link), ticket, now);
        self.seat(id, slot);
    }

    /// Nobody waits for its device any more. Says that it does not stay.
    fn leave(&self, registry: &Registry, past: &mut verbs::Counters, household: &Household) -> bool {
        *past += self.port.counters();
        household.remove_port(self.bytes);
        for descriptor in &self.registered {
            if let Err(error) = registry.deregister(&mut SourceFd(descriptor)) {
                tracing::debug!(%error, address = &*self.address, "a broken RDMA device was not waited for");
            }
        }
        false
    }
}
