//! How a thread connects to the broker: by sockets, or over a port of an RDMA device.

use crate::dialler::{Dialler, ProxyInbox};
use crate::endpoint::Endpoint;
use crate::limits::{CHECK_INTERVAL, DEVICE_POLL_INTERVAL};
use crate::options::RdmaUpstreamOptions;
use crate::proxied_connection::UpstreamState;
use crate::proxy_slot::ProxySlot;
use crate::totals::ProxyTotals;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use reactor::COMPLETIONS;
use slab::Pool;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::Duration;
use verbs::device::AnyDevice;
use verbs::{LinkId, Port, ReadinessEdges};

/// How a thread connects to the broker.
pub(crate) enum Upstream {
    /// By sockets, which the dialler's threads connect.
    Sockets(Dialler),
    /// Over a port of the thread, whose device is polled for all links together.
    Rdma(Box<RdmaUpstream>),
}

pub(crate) struct RdmaUpstream {
    options: RdmaUpstreamOptions,
    address: String,
    /// Fetches a token for each link, if links need one.
    token_fetcher: Option<Dialler>,
    open: Option<OpenPort>,
    /// The connections that the links belong to.
    slots: HashMap<LinkId, ProxySlot>,
    readiness: Vec<(LinkId, ReadinessEdges)>,
    /// PortCounters of ports that have failed.
    failed: verbs::PortCounters,
}

struct OpenPort {
    port: Port<AnyDevice>,
    descriptors: Vec<RawFd>,
}

impl Upstream {
    /// Starts a link for the connection in `slot`.
    pub fn begin(
        &mut self,
        (slot, dial_id): (ProxySlot, u64),
        inbox: &ProxyInbox,
        pool: &Pool,
        registry: &Registry,
    ) -> Result<(UpstreamState, Option<LinkId>), String> {
        match self {
            Upstream::Sockets(dialler) => {
                Ok((UpstreamState::Dialling(dialler.dial(slot, dial_id, inbox.clone())), None))
            }
            Upstream::Rdma(rdma) => match &rdma.token_fetcher {
                Some(fetcher) => Ok((UpstreamState::Dialling(fetcher.dial(slot, dial_id, inbox.clone())), None)),
                None => {
                    let (endpoint, id) = rdma.connect(slot, None, pool, registry)?;
                    Ok((UpstreamState::Connecting(endpoint), Some(id)))
                }
            },
        }
    }

    /// Starts a link that presents a token.
    pub fn connect_with_token(
        &mut self,
        slot: ProxySlot,
        token: verbs::RdmaToken,
        pool: &Pool,
        registry: &Registry,
    ) -> Result<(Endpoint, LinkId), String> {
        match self {
            Upstream::Rdma(rdma) => rdma.connect(slot, Some(token), pool, registry),
            Upstream::Sockets(_) => Err("sockets present no token".to_owned()),
        }
    }

    /// Whether there is a device to poll.
    pub fn has_device(&self) -> bool {
        matches!(self, Upstream::Rdma(_))
    }

    /// Polls the device and appends the readiness of links, by the slots of their connections.
    pub fn poll(&mut self, registry: &Registry, ready: &mut Vec<(ProxySlot, ReadinessEdges)>) {
        if let Upstream::Rdma(rdma) = self {
            rdma.poll(registry, ready);
        }
    }

    /// Posts the sends of this round.
    pub fn flush(&self) {
        if let Upstream::Rdma(rdma) = self
            && let Some(open) = &rdma.open
        {
            open.port.flush();
        }
    }

    /// Arms the device before a sleep and polls it once more. Returns how long the thread may sleep, if that is bounded.
    pub fn arm(&mut self, registry: &Registry, ready: &mut Vec<(ProxySlot, ReadinessEdges)>) -> Option<Duration> {
        let Upstream::Rdma(rdma) = self else { return None };
        let open = rdma.open.as_ref()?;
        if let Err(error) = open.port.arm() {
            tracing::warn!(%error, "cannot wait for the RDMA device");
        }
        rdma.poll(registry, ready);
        let open = rdma.open.as_ref()?;
        // The first flush posts what was queued, the second what its completions allow.
        open.port.flush();
        open.port.flush();
        let is_idle = rdma.slots.is_empty() && open.port.usage().connections == 0;
        (!is_idle).then_some(if open.descriptors.is_empty() { DEVICE_POLL_INTERVAL } else { CHECK_INTERVAL })
    }

    /// Whether the port has no connections left, not even closing ones.
    pub fn is_quiet(&self) -> bool {
        let Upstream::Rdma(rdma) = self else { return true };
        rdma.open.as_ref().is_none_or(|open| open.port.usage().connections == 0)
    }

    /// The connection of a link has ended.
    pub fn forget(&mut self, id: Option<LinkId>) {
        if let (Upstream::Rdma(rdma), Some(id)) = (self, id) {
            rdma.slots.remove(&id);
        }
    }

    /// Copies the device's counters.
    pub fn count(&self, totals: &mut ProxyTotals) {
        let Upstream::Rdma(rdma) = self else { return };
        let now = rdma.open.as_ref().map_or_else(Default::default, |open| open.port.counters());
        totals.doorbells = rdma.failed.doorbells + now.doorbells;
        totals.rdma_sent = rdma.failed.messages_sent + now.messages_sent;
        totals.rdma_received = rdma.failed.messages_received + now.messages_received;
    }
}

impl RdmaUpstream {
    pub fn new(options: RdmaUpstreamOptions, address: String, token_fetcher: Option<Dialler>) -> Self {
        RdmaUpstream {
            options,
            address,
            token_fetcher,
            open: None,
            slots: HashMap::new(),
            readiness: Vec::new(),
            failed: verbs::PortCounters::default(),
        }
    }

    /// Opens a device and a port on it, unless one is open.
    pub fn open(&mut self, pool: &Pool, registry: &Registry) -> Result<(), String> {
        if self.open.is_some() {
            return Ok(());
        }
        let device = (self.options.devices)(&self.address).map_err(|error| error.to_string())?;
        let port = Port::open(device, pool, self.options.settings.clone()).map_err(|error| error.to_string())?;
        let descriptors = port.descriptors();
        for descriptor in &descriptors {
            let registered = registry.register(&mut SourceFd(descriptor), COMPLETIONS, Interest::READABLE);
            registered.map_err(|error| format!("cannot wait for the device: {error}"))?;
        }
        self.open = Some(OpenPort { port, descriptors });
        Ok(())
    }

    fn connect(
        &mut self,
        slot: ProxySlot,
        token: Option<verbs::RdmaToken>,
        pool: &Pool,
        registry: &Registry,
    ) -> Result<(Endpoint, LinkId), String> {
        self.open(pool, registry)?;
        let Some(open) = &self.open else { return Err("there is no device".to_owned()) };
        let link = open.port.connect(&self.address, token).map_err(|error| error.to_string())?;
        let id = link.id();
        self.slots.insert(id, slot);
        let mut endpoint = Endpoint::new(Box::new(link));
        // Its first edge reports that it is connected.
        (endpoint.readable, endpoint.writable) = (false, false);
        Ok((endpoint, id))
    }

    fn poll(&mut self, registry: &Registry, ready: &mut Vec<(ProxySlot, ReadinessEdges)>) {
        let Some(open) = &self.open else { return };
        let failure = open.port.poll().err();
        open.port.take_edges(&mut self.readiness);
        for (id, readiness) in self.readiness.drain(..) {
            if let Some(slot) = self.slots.get(&id) {
                ready.push((*slot, readiness));
            }
        }
        if let Some(error) = failure
            && let Some(open) = self.open.take()
        {
            tracing::error!(%error, "the RDMA device failed; the next client opens another");
            let counters = open.port.counters();
            self.failed.doorbells += counters.doorbells;
            self.failed.messages_sent += counters.messages_sent;
            self.failed.messages_received += counters.messages_received;
            for descriptor in &open.descriptors {
                // A closed descriptor is not registered any more.
                let _closed = registry.deregister(&mut SourceFd(descriptor));
            }
        }
    }
}
