//! The RDMA ports of a shard: polls their devices, accepts and dials connections, and reports readiness.
//!
//! A port that fails ends its own connections and no others. Nothing here waits; the reactor does.

use crate::limits::{DIAL_CREDITS_MIN, DIAL_PORT_CONNECTIONS};
use crate::link_dial::{DialCallback, DialRequest, DialedLink, RdmaDial};
use crate::pending_dial::PendingDial;
use crate::rdma_options::RdmaPoll;
use crate::shared_state::SharedState;
use crate::tokens::TokenOwner;
use broker::ConnectionSlot;
use catalog::ShardId;
use link::{AbortReason, Link};
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use reactor::{ASYNC_EVENTS, COMPLETIONS};
use slab::{Pool, PoolOptions};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;
use verbs::device::{AnyDevice, ResolvedRoute};
use verbs::{LinkId, Port, PortSettings, ReadinessEdges, TokenVerifier, VerbsLink};

/// What ports give their connections and readiness to: the shard.
pub(crate) trait PortHandler {
    /// Takes over the link of a client, which is known by its owner if it has presented a token. Returns its slot.
    fn on_accept(&mut self, link: Box<dyn Link>, owner: Option<TokenOwner>, now: Instant) -> ConnectionSlot;

    /// Takes over the link that a dial has established. Returns its slot, unless the link is not wanted any more.
    fn on_connect(&mut self, dial: &DialRequest, dialled: DialedLink, now: Instant) -> Option<ConnectionSlot>;

    fn on_ready(&mut self, slot: ConnectionSlot, readiness: ReadinessEdges);
}

/// A port of the shard, and the slots of its links.
struct ShardPort {
    port: Port<AnyDevice>,
    address: Box<str>,
    /// The card of its device: peers that this card leads to are dialled over this port.
    card: Box<str>,
    descriptors: Vec<RawFd>,
    /// Those of them that announce asynchronous events only.
    async_descriptors: Vec<RawFd>,
    /// Those that this port has registered.
    registered: Vec<RawFd>,
    /// Bytes of receive buffers that were not counted when the broker started.
    dialled_bytes: u64,
    /// By the index of the link's id. Entries of ended links stay until the index is used again.
    slots: Vec<Option<(LinkId, ConnectionSlot)>>,
    /// Connections to other brokers that are being established.
    pending: Vec<PendingDial>,
    /// The device has failed. The port is removed when its connections have ended.
    is_failed: bool,
}

/// All ports of a shard. A broker without RDMA addresses and RDMA links has none.
pub(crate) struct RdmaPorts {
    ports: Vec<ShardPort>,
    poll_mode: RdmaPoll,
    settings: PortSettings,
    shard: ShardId,
    shared: Arc<SharedState>,
    readiness: Vec<(LinkId, ReadinessEdges)>,
    is_stopping: bool,
    /// Receive buffers. Their memory is counted when a port opens, not with the messages.
    pool: Option<Pool>,
    /// PortCounters of ports that were removed.
    removed: verbs::PortCounters,
}

impl RdmaPorts {
    pub fn new(poll_mode: RdmaPoll, settings: PortSettings, shard: ShardId, shared: Arc<SharedState>) -> Self {
        RdmaPorts {
            ports: Vec::new(),
            poll_mode,
            settings: PortSettings { corked: true, ..settings },
            shard,
            shared,
            readiness: Vec::new(),
            is_stopping: false,
            pool: None,
            removed: verbs::PortCounters::default(),
        }
    }

    /// Opens a port that listens. Its receive buffers were counted when the broker started.
    ///
    /// # Errors
    /// The device fails, cannot do what the settings ask for, or cannot be waited for.
    pub fn open(&mut self, device: AnyDevice, address: &str, registry: &Registry) -> io::Result<()> {
        let port = self.open_port(device, self.settings.clone())?;
        port.set_token_verifier(Arc::clone(&self.shared) as Arc<dyn TokenVerifier>);
        port.listen(address)?;
        let mut port = ShardPort::new(port, address);
        port.register(registry)?;
        self.ports.push(port);
        Ok(())
    }

    fn open_port(&mut self, device: AnyDevice, settings: PortSettings) -> io::Result<Port<AnyDevice>> {
        let pool = self.pool.get_or_insert_with(|| Pool::new(PoolOptions::default()));
        Port::open(device, pool, settings).map_err(io::Error::other)
    }

    /// Starts a connection to another broker, over a port of the card that leads there. The outcome is reported when it is
    /// known.
    pub fn connect(&mut self, dial: DialRequest, asked: RdmaDial, tell: DialCallback, registry: &Registry) {
        let mut index = 0;
        let credits = self.settings.credits.max(DIAL_CREDITS_MIN);
        let begun = PendingDial::start(dial, asked, tell, |way, token| {
            if self.is_stopping {
                return Err(io::Error::other("this broker stops"));
            }
            let to = way.address.clone();
            index = self.port_for(way, credits, registry)?;
            Ok(self.ports[index].port.connect_with_credits(&to, token, credits)?)
        });
        match begun {
            Ok(asking) => self.ports[index].pending.push(asking),
            Err((error, handler)) => handler.on_failure(&error.to_string()),
        }
    }

    /// A port with capacity on the card of a way: an existing one, or a new one.
    fn port_for(&mut self, way: ResolvedRoute, credits: u16, registry: &Registry) -> io::Result<usize> {
        let suits =
            |port: &ShardPort| !port.is_failed && *port.card == *way.card && port.port.has_capacity_for(credits);
        if let Some(index) = self.ports.iter().position(suits) {
            return Ok(index);
        }
        let of_links = |links: usize| self.settings.spare_buffers + links * usize::from(credits);
        let receive_buffers = of_links(DIAL_PORT_CONNECTIONS).min(self.settings.receive_buffers.max(of_links(1)));
        let settings = PortSettings { receive_buffers, ..self.settings.clone() };
        if !self.shared.reserve_port_bytes(settings.port_bytes()) {
            return Err(io::Error::other("the buffers of RDMA ports would take too much of the memory limit"));
        }
        let port = (way.open)().map_err(io::Error::from).and_then(|device| self.open_port(device, settings.clone()));
        let port = port.inspect_err(|_| self.shared.release_port_bytes(settings.port_bytes()))?;
        let mut port = ShardPort::new(port, &way.card);
        port.dialled_bytes = settings.port_bytes();
        port.register(registry)?;
        self.ports.push(port);
        Ok(self.ports.len() - 1)
    }

    /// The next [`poll`](RdmaPorts::poll) checks the devices for asynchronous events, too.
    pub fn on_async_event(&self) {
        self.ports.iter().for_each(|port| port.port.request_event_poll());
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    pub fn poll_mode(&self) -> RdmaPoll {
        self.poll_mode
    }

    /// Connections of all ports, including those that are being established or closed.
    pub fn connections(&self) -> usize {
        self.ports.iter().map(|port| port.port.connections()).sum()
    }

    /// PortCounters of all ports, including removed ones; `None` if there never was a port.
    pub fn counters(&self) -> Option<verbs::PortCounters> {
        self.pool.as_ref()?;
        let mut all = self.removed;
        self.ports.iter().for_each(|port| all += port.port.counters());
        Some(all)
    }

    /// Stops accepting and dialling.
    pub fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            for port in &mut self.ports {
                port.port.stop();
                port.pending.clear();
            }
        }
    }

    /// Polls all devices and passes new connections and readiness to the handler. Returns whether there were any.
    pub fn poll(&mut self, handler: &mut impl PortHandler, now: Instant) -> bool {
        let mut has_events = false;
        for port in &mut self.ports {
            if !port.is_failed
                && let Err(error) = port.port.poll()
            {
                port.is_failed = true;
                let (address, connections) = (&*port.address, port.port.connections());
                tracing::error!(%error, address, connections, "an RDMA device failed; its connections end");
            }
            while let Some(mut link) = port.port.accept() {
                has_events = true;
                match admit(&link, &self.shared, self.shard, self.is_stopping) {
                    Ok(owner) => {
                        let id = link.id();
                        let slot = handler.on_accept(Box::new(link), owner, now);
                        port.set_slot(id, slot);
                    }
                    Err(reason) => link.abort(reason),
                }
            }
            port.port.take_edges(&mut self.readiness);
            for (id, readiness) in self.readiness.drain(..) {
                has_events = true;
                if !port.pending.is_empty() && port.on_pending_ready(id, readiness, handler, now) {
                    continue;
                }
                // A refused link has no slot.
                if let Some(Some((known, slot))) = port.slots.get(id.slot())
                    && *known == id
                {
                    handler.on_ready(*slot, readiness);
                }
            }
        }
        has_events
    }

    /// Posts what the round has written, and removes failed ports that have no connections left.
    pub fn flush(&mut self, registry: &Registry) {
        let mut is_any_over = false;
        for port in &self.ports {
            port.port.flush();
            is_any_over |= port.is_over();
        }
        if is_any_over {
            for port in self.ports.extract_if(.., |port| port.is_over()) {
                self.removed += port.port.counters();
                self.shared.release_port_bytes(port.dialled_bytes);
                port.deregister(registry);
            }
            // Ports of one card share the descriptor of its events, which a removed port may have registered.
            for port in &mut self.ports {
                if let Err(error) = port.register(registry) {
                    tracing::error!(%error, address = &*port.address, "an RDMA device cannot be waited for");
                }
            }
        }
    }

    /// Requests a notification for the next completion of each device and polls once more. Returns whether the thread may
    /// sleep.
    pub fn arm(&mut self, handler: &mut impl PortHandler, registry: &Registry, now: Instant) -> bool {
        for port in self.ports.iter().filter(|port| !port.is_failed) {
            // A device that fails here fails in the poll below, which reports it.
            let _reported_below = port.port.arm_for_messages();
        }
        let has_events = self.poll(handler, now);
        self.flush(registry);
        !has_events && !self.ports.iter().any(|port| port.port.has_work())
    }
}

impl ShardPort {
    fn new(port: Port<AnyDevice>, address: &str) -> Self {
        let (descriptors, async_descriptors, card) = (port.descriptors(), port.event_descriptors(), port.card().into());
        ShardPort {
            port,
            address: address.into(),
            card,
            descriptors,
            async_descriptors,
            registered: Vec::new(),
            dialled_bytes: 0,
            slots: Vec::new(),
            pending: Vec::new(),
            is_failed: false,
        }
    }

    /// Whether the device has failed and all its connections have ended.
    fn is_over(&self) -> bool {
        self.is_failed && self.port.connections() == 0
    }

    /// Registers those of its descriptors that are not registered yet. Edges suffice, because every wake-up polls all ports.
    fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for descriptor in &self.descriptors {
            if self.registered.contains(descriptor) {
                continue;
            }
            let token = if self.async_descriptors.contains(descriptor) { ASYNC_EVENTS } else { COMPLETIONS };
            match registry.register(&mut SourceFd(descriptor), token, Interest::READABLE) {
                Ok(()) => self.registered.push(*descriptor),
                // All ports of a card share the descriptor of its events.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Handles the readiness of a connection that is being established. False if `id` is not one of those.
    #[cold]
    fn on_pending_ready(
        &mut self,
        id: LinkId,
        readiness: ReadinessEdges,
        handler: &mut impl PortHandler,
        now: Instant,
    ) -> bool {
        let Some(index) = self.pending.iter().position(|asking| asking.id() == id) else { return false };
        match self.pending[index].poll(readiness) {
            None => {}
            Some(Ok(())) => {
                let (dial, dialled) = self.pending.swap_remove(index).complete();
                if let Some(slot) = handler.on_connect(&dial, dialled, now) {
                    self.set_slot(id, slot);
                }
            }
            Some(Err(error)) => self.pending.swap_remove(index).fail(&error.to_string()),
        }
        true
    }

    fn set_slot(&mut self, id: LinkId, slot: ConnectionSlot) {
        if self.slots.len() <= id.slot() {
            self.slots.resize(id.slot() + 1, None);
        }
        self.slots[id.slot()] = Some((id, slot));
    }

    fn deregister(&self, registry: &Registry) {
        for descriptor in &self.registered {
            if let Err(error) = registry.deregister(&mut SourceFd(descriptor)) {
                tracing::debug!(%error, address = &*self.address, "a failed RDMA device was not waited for");
            }
        }
    }
}

/// Decides whether a client's link is accepted. Counts it and returns the owner for its token, or why it is refused.
fn admit(
    link: &VerbsLink<AnyDevice>,
    shared: &SharedState,
    shard: ShardId,
    is_stopping: bool,
) -> Result<Option<TokenOwner>, AbortReason> {
    if is_stopping {
        return Err(AbortReason::Shutdown);
    }
    let owner = link.token().and_then(|token| shared.tokens.redeem(&token));
    if link.token().is_some() && owner.is_none() {
        // The token was valid when the peer asked, and has expired since.
        return Err(AbortReason::Overdue);
    }
    if !shared.add_connection(shard) {
        tracing::warn!(peer = &*link.peer().address, "connection limit reached: client refused");
        return Err(AbortReason::Limit);
    }
    Ok(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::ReceiveOutcome;
    use mio::Poll;
    use verbs::sim::{Fabric, FabricOptions, SimDevice};

    const ADDRESS: &str = "broker:5672";

    /// Keeps accepted links in the order of their slots.
    #[derive(Default)]
    struct RecordingHandler {
        links: Vec<Box<dyn Link>>,
        readable: Vec<ConnectionSlot>,
    }

    impl PortHandler for RecordingHandler {
        fn on_accept(&mut self, link: Box<dyn Link>, owner: Option<TokenOwner>, _now: Instant) -> ConnectionSlot {
            assert!(owner.is_none(), "nobody presents a token");
            self.links.push(link);
            ConnectionSlot::new(self.links.len() as u32 - 1)
        }

        fn on_connect(&mut self, _dial: &DialRequest, _dialled: DialedLink, _now: Instant) -> Option<ConnectionSlot> {
            unreachable!("nothing is dialled here")
        }

        fn on_ready(&mut self, slot: ConnectionSlot, readiness: ReadinessEdges) {
            if readiness.readable {
                self.readable.push(slot);
            }
        }
    }

    /// One port of a shard and a client on the same simulated fabric.
    struct TestPorts {
        fabric: Fabric,
        node: usize,
        ports: RdmaPorts,
        poll: Poll,
        shared: Arc<SharedState>,
        handler: RecordingHandler,
        client: Port<SimDevice>,
        pool: Pool,
        now: Instant,
    }

    impl TestPorts {
        #[expect(clippy::disallowed_methods, reason = "some moment to count from")]
        fn new(connections_max: u32) -> Self {
            let fabric = Fabric::new(&FabricOptions::faultless());
            let settings = PortSettings { accepts_direct: true, ..PortSettings::default() };
            let shared = Arc::new(SharedState::new(1, 1 << 30, connections_max));
            let mut ports = RdmaPorts::new(RdmaPoll::Adaptive, settings.clone(), ShardId(0), Arc::clone(&shared));
            let poll = Poll::new().expect("a poll");
            let device = fabric.device();
            let node = device.node();
            ports.open(Box::new(device), ADDRESS, poll.registry()).expect("nobody listens there");
            let pool = Pool::new(PoolOptions::default());
            let client = Port::open(fabric.device(), &pool, settings).expect("sound settings");
            let handler = RecordingHandler::default();
            TestPorts { fabric, node, ports, poll, shared, handler, client, pool, now: Instant::now() }
        }

        /// Runs the fabric and both sides for a while.
        fn run(&mut self) {
            for _ in 0..1_000 {
                self.fabric.step();
                self.client.poll().expect("the client's device is whole");
                self.client.flush();
                self.ports.poll(&mut self.handler, self.now);
                self.ports.flush(self.poll.registry());
            }
        }

        fn connect(&mut self) -> VerbsLink<SimDevice> {
            let link = self.client.connect(ADDRESS, None).expect("the client's device is whole");
            self.run();
            link
        }

        /// Sends, and records only the readiness that follows.
        fn send(&mut self, link: &mut VerbsLink<SimDevice>) {
            self.handler.readable.clear();
            let mut out = slab::Gather::new();
            out.extend(&self.pool, b"bytes");
            link.send(&mut out).expect("the link is connected");
            self.run();
        }
    }

    #[test]
    fn links_are_accepted_up_to_the_limit_and_report_readiness_by_their_slots() {
        let mut test = TestPorts::new(2);
        let (mut first, mut second) = (test.connect(), test.connect());
        let mut refused = test.connect();
        assert_eq!((test.handler.links.len(), test.shared.connections()), (2, 2));
        assert!(refused.receive(&mut [0; 8], &mut []).is_err(), "the limit is two");
        for (link, slot) in [(&mut second, ConnectionSlot::new(1)), (&mut first, ConnectionSlot::new(0))] {
            test.send(link);
            assert_eq!(test.handler.readable, [slot]);
            let mut bytes = [0; 8];
            let received = test.handler.links[slot.index()].receive(&mut bytes, &mut []);
            assert_eq!(received.expect("the link is connected"), ReceiveOutcome::Bytes { bytes: 5, drained: true });
        }
        assert!(test.ports.arm(&mut test.handler, test.poll.registry(), test.now), "there is nothing left to do");
    }

    #[test]
    fn stopped_ports_accept_nobody_and_keep_their_connections() {
        let mut test = TestPorts::new(10);
        let mut link = test.connect();
        test.ports.stop();
        let mut refused = test.connect();
        assert!(refused.receive(&mut [0; 8], &mut []).is_err(), "the port is stopped");
        assert_eq!(test.handler.links.len(), 1);
        test.send(&mut link);
        assert_eq!(test.handler.readable, [ConnectionSlot::new(0)]);
    }

    #[test]
    fn a_failed_port_goes_with_its_last_connection_and_its_counters_stay() {
        let mut test = TestPorts::new(10);
        let mut link = test.connect();
        test.send(&mut link);
        test.fabric.break_nth(test.node);
        test.run();
        assert!(test.handler.links[0].receive(&mut [], &mut []).is_err(), "its device has failed");
        assert!(!test.ports.is_empty(), "there is a connection left");
        test.handler.links.clear();
        test.run();
        assert!(test.ports.is_empty());
        let counters = test.ports.counters().expect("there was a port");
        assert!(counters.messages_received > 0, "{counters:?}");
    }
}
