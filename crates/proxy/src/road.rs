//! How a thread gets upstream: by sockets, or by a port of an RDMA device.
//!
//! Enters: clients that want a link; rounds of the thread's loop.  Leaves: links, their edges, how long a sleep may be.
//! Owns:   the port, and which of its links belongs to whom.
//! Never:  waits.

use crate::bridge::Far;
use crate::counts::Totals;
use crate::dialler::{Dialler, Door};
use crate::end::End;
use crate::limits::{LOOK_AT_DEVICE, LOOK_UP};
use crate::options::Rdma;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use slab::Pool;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::Duration;
use verbs::device::AnyDevice;
use verbs::{LinkId, Port, ReadinessEdges};

/// A way upstream.
pub(crate) enum Road {
    /// Links with descriptors of their own, connected elsewhere.
    Sockets(Dialler),
    /// Links of a port, which is looked at as a whole.
    Port(Box<PortRoad>),
}

/// The port of a thread.
pub(crate) struct PortRoad {
    rdma: Rdma,
    address: String,
    /// Who fetches a token for each link, if they need one.
    passes: Option<Dialler>,
    /// What the device's descriptors are registered under.
    token: Token,
    open: Option<Open>,
    /// Whose links there are.
    slots: HashMap<LinkId, u32>,
    edges: Vec<(LinkId, ReadinessEdges)>,
    /// What ports did that are gone.
    past: verbs::PortCounters,
}

struct Open {
    port: Port<AnyDevice>,
    descriptors: Vec<RawFd>,
}

impl Road {
    /// Begins a link for the client at `slot`.
    pub fn begin(
        &mut self,
        (slot, ticket): (u32, u64),
        door: &Door,
        pool: &Pool,
        registry: &Registry,
    ) -> Result<(Far, Option<LinkId>), String> {
        match self {
            Road::Sockets(dialler) => Ok((Far::Dialling(dialler.dial(slot, ticket, door.clone())), None)),
            Road::Port(road) => match &road.passes {
                Some(passes) => Ok((Far::Dialling(passes.dial(slot, ticket, door.clone())), None)),
                None => {
                    let (end, id) = road.begin(slot, None, pool, registry)?;
                    Ok((Far::Asking(end), Some(id)))
                }
            },
        }
    }

    /// Begins a link that shows a token.
    pub fn ask(
        &mut self,
        slot: u32,
        token: verbs::RdmaToken,
        pool: &Pool,
        registry: &Registry,
    ) -> Result<(End, LinkId), String> {
        match self {
            Road::Port(road) => road.begin(slot, Some(token), pool, registry),
            Road::Sockets(_) => Err("sockets show no token".to_owned()),
        }
    }

    /// One round of the device; appends the edges of links by their places.
    pub fn round(&mut self, registry: &Registry, edges: &mut Vec<(u32, ReadinessEdges)>) {
        if let Road::Port(road) = self {
            road.round(registry, edges);
        }
    }

    /// Rings the doorbells of this round.
    pub fn flush(&self) {
        if let Road::Port(road) = self
            && let Some(open) = &road.open
        {
            open.port.flush();
        }
    }

    /// The last thing before a sleep: the device is asked to wake us, and looked at once more. Answers the longest sleep.
    pub fn will_sleep(&mut self, registry: &Registry, edges: &mut Vec<(u32, ReadinessEdges)>) -> Option<Duration> {
        let Road::Port(road) = self else { return None };
        let open = road.open.as_ref()?;
        if let Err(error) = open.port.arm() {
            tracing::warn!(%error, "cannot wait for the RDMA device");
        }
        road.round(registry, edges);
        let open = road.open.as_ref()?;
        // Once for what there was to say, and once for what that has brought.
        open.port.flush();
        open.port.flush();
        let at_rest = road.slots.is_empty() && open.port.usage().connections == 0;
        (!at_rest).then_some(if open.descriptors.is_empty() { LOOK_AT_DEVICE } else { LOOK_UP })
    }

    /// Whether nothing is under way but what connections have.
    pub fn is_quiet(&self) -> bool {
        let Road::Port(road) = self else { return true };
        road.open.as_ref().is_none_or(|open| open.port.usage().connections == 0)
    }

    /// A link's connection is over.
    pub fn forget(&mut self, id: Option<LinkId>) {
        if let (Road::Port(road), Some(id)) = (self, id) {
            road.slots.remove(&id);
        }
    }

    /// Adds what the device has counted.
    pub fn count(&self, totals: &mut Totals) {
        let Road::Port(road) = self else { return };
        let now = road.open.as_ref().map_or_else(Default::default, |open| open.port.counters());
        totals.doorbells = road.past.doorbells + now.doorbells;
        totals.rdma_sent = road.past.messages_sent + now.messages_sent;
        totals.rdma_received = road.past.messages_received + now.messages_received;
    }
}

impl PortRoad {
    pub fn new(rdma: Rdma, address: String, token: Token, passes: Option<Dialler>) -> Self {
        let (open, past) = (None, verbs::PortCounters::default());
        PortRoad { rdma, address, passes, token, open, slots: HashMap::new(), edges: Vec::new(), past }
    }

    /// Takes a device and opens a port on it, unless there is one.
    pub fn open(&mut self, pool: &Pool, registry: &Registry) -> Result<(), String> {
        if self.open.is_some() {
            return Ok(());
        }
        let device = (self.rdma.devices)(&self.address).map_err(|error| error.to_string())?;
        let port = Port::open(device, pool, self.rdma.settings.clone()).map_err(|error| error.to_string())?;
        let descriptors = port.descriptors();
        for descriptor in &descriptors {
            let registered = registry.register(&mut SourceFd(descriptor), self.token, Interest::READABLE);
            registered.map_err(|error| format!("cannot wait for the device: {error}"))?;
        }
        self.open = Some(Open { port, descriptors });
        Ok(())
    }

    fn begin(
        &mut self,
        slot: u32,
        token: Option<verbs::RdmaToken>,
        pool: &Pool,
        registry: &Registry,
    ) -> Result<(End, LinkId), String> {
        self.open(pool, registry)?;
        let Some(open) = &self.open else { return Err("there is no device".to_owned()) };
        let link = open.port.connect(&self.address, token).map_err(|error| error.to_string())?;
        let id = link.id();
        self.slots.insert(id, slot);
        let mut end = End::new(Box::new(link));
        // It says by an edge that it stands.
        (end.readable, end.writable) = (false, false);
        Ok((end, id))
    }

    fn round(&mut self, registry: &Registry, edges: &mut Vec<(u32, ReadinessEdges)>) {
        let Some(open) = &self.open else { return };
        let broken = open.port.poll().err();
        open.port.take_edges(&mut self.edges);
        for (id, readiness) in self.edges.drain(..) {
            if let Some(slot) = self.slots.get(&id) {
                edges.push((*slot, readiness));
            }
        }
        if let Some(error) = broken
            && let Some(open) = self.open.take()
        {
            tracing::error!(%error, "the RDMA device is broken; the next client makes us try another");
            let counted = open.port.counters();
            self.past.doorbells += counted.doorbells;
            self.past.messages_sent += counted.messages_sent;
            self.past.messages_received += counted.messages_received;
            for descriptor in &open.descriptors {
                // It may be closed already, and then it is not registered either.
                let _closed = registry.deregister(&mut SourceFd(descriptor));
            }
        }
    }
}
