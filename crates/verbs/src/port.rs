//! A port: one shard's connections over one device.
//!
//! A port is used by one thread; the mutex is never contended.

use crate::device::{Device, DeviceError};
use crate::engine::{PortCounters, PortEngine, PortShared, PortUsage};
use crate::limits::DEADLINE_CHECK_INTERVAL;
use crate::settings::PortSettings;
use crate::verbs_link::VerbsLink;
use crate::wire::RdmaToken;
use link::RdmaUsage;
use slab::{BlockMut, Pool};
use std::fmt;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Identifies a connection of a port. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl LinkId {
    /// Its slot in the port, from zero, so that an owner may keep the state of links in a list. A slot is reused after
    /// the connection has ended, with another `LinkId`.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadinessEdges {
    /// Bytes or the end of the stream can be received.
    pub readable: bool,
    /// Bytes can be sent, or sending fails.
    pub writable: bool,
    /// The peer's stream has ended, or the connection is lost.
    pub closed: bool,
}

impl ReadinessEdges {
    pub fn any(self) -> bool {
        self.readable || self.writable || self.closed
    }

    pub(crate) fn merge(&mut self, other: ReadinessEdges) {
        self.readable |= other.readable;
        self.writable |= other.writable;
        self.closed |= other.closed;
    }
}

/// Verifies tokens that were issued elsewhere.
pub trait TokenVerifier: Send + Sync {
    /// Whether a client with this token is accepted. Called once for each request with a token; a valid token is used
    /// up.
    fn admits(&self, token: &RdmaToken) -> bool;
}

/// Why a port could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortError {
    /// Its settings contradict one another.
    Settings(&'static str),
    /// The device cannot provide what they require.
    Device(DeviceError),
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortError::Settings(what) => write!(f, "RDMA settings: {what}"),
            PortError::Device(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for PortError {}

/// A handle on a port; clones are the same port.
///
/// In each round its owner calls [`poll`](Port::poll), [`take_edges`](Port::take_edges) and [`accept`](Port::accept),
/// serves its links, and, with [`PortSettings::corked`], calls [`flush`](Port::flush).
pub struct Port<D: Device>(Arc<Mutex<PortEngine<D>>>);

impl<D: Device> Port<D> {
    /// Opens a port. All memory that it ever holds for peers is allocated here.
    ///
    /// # Errors
    /// Settings that contradict one another or the device.
    pub fn open(device: D, pool: &Pool, settings: PortSettings) -> Result<Self, PortError> {
        settings.check().map_err(PortError::Settings)?;
        if settings.receive_buffers > device.capabilities().receives_max {
            return Err(PortError::Settings("more receive buffers than the device's receive queue holds"));
        }
        let blocks = |count: usize, bytes: usize| (0..count).map(|_| pool.block(bytes)).collect::<Vec<BlockMut>>();
        let buffers = blocks(settings.receive_buffers, settings.receive_buffer_bytes as usize);
        let landings = blocks(settings.landing_blocks, settings.landing_bytes);
        let core = PortEngine::new(PortShared::new(device, settings, buffers, landings)).map_err(PortError::Device)?;
        Ok(Port(Arc::new(Mutex::new(core))))
    }

    pub(crate) fn engine(&self) -> MutexGuard<'_, PortEngine<D>> {
        // A panic ends the thread, and the port with it; the state is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens for connections.
    ///
    /// # Errors
    /// The device's error.
    pub fn listen(&self, address: &str) -> Result<(), DeviceError> {
        self.engine().shared.device.listen(address)
    }

    /// Begins to connect. The link takes bytes once it is established, and is readable if it fails.
    ///
    /// # Errors
    /// The device's error, or that there are no receive buffers left.
    pub fn connect(&self, address: &str, token: Option<RdmaToken>) -> Result<VerbsLink<D>, DeviceError> {
        let mut core = self.engine();
        let credits = core.shared.settings.credits;
        let id = core.connect(address, token, credits)?;
        drop(core);
        Ok(VerbsLink::new(self.clone(), id))
    }

    /// The same, with initial credits of its own for the peer (see [`PortSettings::credits`]).
    ///
    /// # Errors
    /// As [`connect`](Port::connect).
    pub fn connect_with_credits(
        &self,
        address: &str,
        token: Option<RdmaToken>,
        credits: u16,
    ) -> Result<VerbsLink<D>, DeviceError> {
        let id = self.engine().connect(address, token, credits)?;
        Ok(VerbsLink::new(self.clone(), id))
    }

    /// Whether there are receive buffers for one more connection with these initial credits.
    pub fn has_capacity_for(&self, credits: u16) -> bool {
        self.engine().has_capacity_for(credits)
    }

    /// The name of its device's card (see [`Device::card`]).
    pub fn card(&self) -> String {
        self.engine().shared.device.card()
    }

    /// Accepts the next connection of a peer.
    pub fn accept(&self) -> Option<VerbsLink<D>> {
        let id = self.engine().accepted.pop_front()?;
        Some(VerbsLink::new(self.clone(), id))
    }

    /// Accepts one client with this token, within [`PortSettings::token_max`]. False if too many tokens are expected
    /// already.
    pub fn expect_token(&self, token: RdmaToken) -> bool {
        self.engine().expect(token)
    }

    /// Sets who verifies tokens that were not passed to [`expect_token`](Port::expect_token): for ports that share a
    /// listener, where any port may get a client.
    pub fn set_token_verifier(&self, doorkeeper: Arc<dyn TokenVerifier>) {
        self.engine().token_verifier = Some(doorkeeper);
    }

    /// Refuses all further requests.
    pub fn stop(&self) {
        self.engine().stop();
    }

    /// One round: events, completions and deadlines.
    ///
    /// # Errors
    /// The device has failed, and all connections are closed.
    pub fn poll(&self) -> Result<(), DeviceError> {
        self.engine().poll()
    }

    /// Posts the queued work of each link with one doorbell.
    pub fn flush(&self) {
        self.engine().flush();
    }

    /// Requests a notification from the device. Poll once more after this and before waiting.
    ///
    /// # Errors
    /// The device is broken.
    pub fn arm(&self) -> Result<(), DeviceError> {
        let device = &mut self.engine().shared.device;
        // The poll between this call and the sleep also polls for events; later events end the sleep. So an owner that
        // waits for edges, which are reported once, misses none, at the cost of one poll for events per sleep.
        device.request_event_poll();
        device.arm()
    }

    /// The same for an owner that calls [`request_event_poll`](Port::request_event_poll) when it is woken by one of
    /// [`event_descriptors`](Port::event_descriptors), which saves the poll for events per sleep.
    ///
    /// # Errors
    /// The device is broken.
    pub fn arm_for_messages(&self) -> Result<(), DeviceError> {
        self.engine().shared.device.arm()
    }

    /// Makes the next poll also poll for events (see [`Device::request_event_poll`]).
    pub fn request_event_poll(&self) {
        self.engine().shared.device.request_event_poll();
    }

    /// The device's descriptors (see [`Device::descriptors`]).
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.engine().shared.device.descriptors()
    }

    /// Those of them that report only events (see [`Device::event_descriptors`]).
    pub fn event_descriptors(&self) -> Vec<RawFd> {
        self.engine().shared.device.event_descriptors()
    }

    /// Appends the edges since the last call.
    pub fn take_edges(&self, out: &mut Vec<(LinkId, ReadinessEdges)>) {
        self.engine().take_edges(out);
    }

    /// The number of connections, including those that are being established or closed.
    pub fn connections(&self) -> usize {
        self.engine().connections()
    }

    /// Whether the owner's next round has something to do even without an event of the device, so that it must not
    /// sleep.
    pub fn has_work(&self) -> bool {
        self.engine().has_work()
    }

    /// Drives the port until its connections have ended or `longest` has passed, so that connections whose links were
    /// dropped send their last messages. Blocks; an owner with a loop of its own keeps polling instead.
    pub(crate) fn linger(&self, longest: Duration) {
        let mut core = self.engine();
        let until = core.shared.device.now().saturating_add(longest);
        loop {
            let polled = core.poll();
            core.flush();
            core.flush();
            let left = until.saturating_sub(core.shared.now);
            if polled.is_err() || core.connections() == 0 || left.is_zero() {
                return;
            }
            let ready = core.shared.device.arm().and_then(|()| core.poll());
            core.flush();
            if ready.is_err() || core.connections() == 0 {
                return;
            }
            if core.shared.device.wait(Some(left.min(DEADLINE_CHECK_INTERVAL))).is_err() {
                return;
            }
        }
    }

    pub fn counters(&self) -> PortCounters {
        self.engine().shared.counters
    }

    pub fn usage(&self) -> PortUsage {
        self.engine().usage()
    }

    pub fn link_usage(&self, id: LinkId) -> RdmaUsage {
        self.engine().link_usage(id)
    }
}

impl<D: Device> Clone for Port<D> {
    fn clone(&self) -> Self {
        Port(Arc::clone(&self.0))
    }
}
