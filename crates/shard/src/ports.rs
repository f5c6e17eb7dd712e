//! The RDMA ports of a shard, beside its poll: what their devices tell becomes edges of connections.
//!
//! Enters: devices, rounds of the reactor.  Leaves: connections accepted, edges, doorbells rung.
//! Owns:   the ports; which link has which slot.
//! Never:  looks into a byte, sleeps, or lets a port that breaks reach the others.

use crate::household::Household;
use crate::rdma::RdmaPoll;
use crate::shard::Shard;
use broker::Slot;
use link::{Abort, Link};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use slab::{Pool, PoolOptions};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;
use verbs::device::AnyDevice;
use verbs::{Doorkeeper, LinkId, Port, Readiness, Settings, VerbsLink};

/// A port, and its links' slots.
struct Seat {
    port: Port<AnyDevice>,
    address: Box<str>,
    descriptors: Vec<RawFd>,
    /// By the links' places. One that is over is never told of again, so it may stand here until its place has another.
    slots: Vec<Option<(LinkId, Slot)>>,
    /// Its device does nothing more; it goes when its connections have ended.
    is_broken: bool,
}

/// All ports of a shard: none, of a broker that does not listen for RDMA.
pub(crate) struct Ports {
    seats: Vec<Seat>,
    poll: RdmaPoll,
    edges: Vec<(LinkId, Readiness)>,
    is_stopping: bool,
    /// Buffers for peers: counted once, when the broker starts, and not with the messages.
    pool: Option<Pool>,
    /// What ports did that are gone.
    past: verbs::Counters,
}

impl Ports {
    pub fn new(poll: RdmaPoll) -> Self {
        Ports {
            seats: Vec::new(),
            poll,
            edges: Vec::new(),
            is_stopping: false,
            pool: None,
            past: verbs::Counters::default(),
        }
    }

    /// One more port, which listens.
    ///
    /// # Errors
    /// What the device says, or that it cannot do what the settings want.
    pub fn open(
        &mut self,
        device: AnyDevice,
        address: &str,
        settings: &Settings,
        household: &Arc<Household>,
    ) -> io::Result<()> {
        let pool = self.pool.get_or_insert_with(|| Pool::new(PoolOptions::default()));
        let settings = Settings { corked: true, ..settings.clone() };
        let port = Port::open(device, pool, settings).map_err(io::Error::other)?;
        port.ask(Arc::clone(household) as Arc<dyn Doorkeeper>);
        port.listen(address)?;
        let descriptors = port.descriptors();
        self.seats.push(Seat { port, address: address.into(), descriptors, slots: Vec::new(), is_broken: false });
        Ok(())
    }

    /// Wakes the poll when a device has something to tell. Edges suffice: whoever wakes looks at every port.
    pub fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let mut descriptors = self.seats.iter().flat_map(|seat| &seat.descriptors);
        descriptors.try_for_each(|descriptor| registry.register(&mut SourceFd(descriptor), token, Interest::READABLE))
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
            self.seats.iter().for_each(|seat| seat.port.stop());
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
    pub fn flush(&mut self, registry: &Registry) {
        let mut over = false;
        for seat in &self.seats {
            seat.port.flush();
            over |= seat.is_broken && seat.port.connections() == 0;
        }
        if over {
            let past = &mut self.past;
            self.seats.retain(|seat| !seat.is_broken || seat.port.connections() > 0 || seat.leave(registry, past));
        }
    }

    /// The last look before a sleep: from now on the devices wake the poll. Says whether there is nothing to do.
    pub fn may_sleep(&mut self, shard: &mut Shard, household: &Household, registry: &Registry, now: Instant) -> bool {
        for seat in self.seats.iter().filter(|seat| !seat.is_broken) {
            // What fails here fails at the look that follows, and is told there.
            let _told_soon = seat.port.arm();
        }
        let came = self.look(shard, household, now);
        self.flush(registry);
        !came && !self.seats.iter().any(|seat| seat.port.has_work())
    }
}

impl Seat {
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
        if self.slots.len() <= id.place() {
            self.slots.resize(id.place() + 1, None);
        }
        self.slots[id.place()] = Some((id, slot));
    }

    /// Nobody waits for its device any more. Says that it does not stay.
    fn leave(&self, registry: &Registry, past: &mut verbs::Counters) -> bool {
        *past += self.port.counters();
        for descriptor in &self.descriptors {
            if let Err(error) = registry.deregister(&mut SourceFd(descriptor)) {
                tracing::debug!(%error, address = &*self.address, "a broken RDMA device was not waited for");
            }
        }
        false
    }
}
