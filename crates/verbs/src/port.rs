//! A port: one shard's connections over one device.
//!
//! Enters: a device, memory for its buffers, rounds of the owner's loop.  Leaves: links, edges, counts.
//! Owns:   the engine, together with its links.
//! Never:  is used by two threads at once; the lock is there for the compiler, and nobody waits for it.

use crate::device::{Device, DeviceError};
use crate::engine::{PortUsage, PortEngine, PortCounters, LinkUsage, PortShared};
use crate::limits::DEADLINE_CHECK_INTERVAL;
use crate::verbs_link::VerbsLink;
use crate::settings::PortSettings;
use crate::wire::RdmaToken;
use slab::{BlockMut, Pool};
use std::fmt;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One connection of a port. A number is not given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl LinkId {
    /// Its place among those of its port, from zero: an owner may keep what belongs to links in a list. A place is given
    /// to another link when this one is over; the numbers differ then.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// Readiness edges of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadinessEdges {
    /// There is something to receive, or the end.
    pub readable: bool,
    /// More can be sent, or nothing ever.
    pub writable: bool,
    /// The peer's stream has ended, or the connection broke.
    pub closed: bool,
}

impl ReadinessEdges {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.readable || self.writable || self.closed
    }

    pub(crate) fn merge(&mut self, other: ReadinessEdges) {
        self.readable |= other.readable;
        self.writable |= other.writable;
        self.closed |= other.closed;
    }
}

/// Who knows of tokens that were given out elsewhere.
pub trait TokenVerifier: Send + Sync {
    /// Whether a client may come in by this token. It is asked once for each request that shows one; a token that was good
    /// is used with that.
    fn admits(&self, token: &RdmaToken) -> bool;
}

/// Why a port could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortError {
    /// Its settings contradict one another.
    Settings(&'static str),
    /// The device cannot do what they want.
    Device(DeviceError),
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortError::Settings(what) => write!(f, "settings of RDMA: {what}"),
            PortError::Device(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for PortError {}

/// A handle on a port; clones are the same port.
///
/// In each round its owner calls [`poll`](Port::poll), looks at [`take_edges`](Port::take_edges) and
/// [`accept`](Port::accept), serves its links, and, if it asked for [`Settings::corked`], calls [`flush`](Port::flush).
pub struct Port<D: Device>(Arc<Mutex<PortEngine<D>>>);

impl<D: Device> Port<D> {
    /// Opens a port. All the memory that it ever holds for peers is taken from the pool here.
    ///
    /// # Errors
    /// Settings that contradict one another or the device.
    pub fn open(device: D, pool: &Pool, settings: PortSettings) -> Result<Self, PortError> {
        settings.check().map_err(PortError::Settings)?;
        if settings.receive_buffers > device.capabilities().receives_max {
            return Err(PortError::Settings("more receive buffers than the device's queue takes"));
        }
        let blocks = |count: usize, bytes: usize| (0..count).map(|_| pool.block(bytes)).collect::<Vec<BlockMut>>();
        let buffers = blocks(settings.receive_buffers, settings.receive_buffer_bytes as usize);
        let landings = blocks(settings.landing_blocks, settings.landing_bytes);
        let core = PortEngine::new(PortShared::new(device, settings, buffers, landings)).map_err(PortError::Device)?;
        Ok(Port(Arc::new(Mutex::new(core))))
    }

    pub(crate) fn engine(&self) -> MutexGuard<'_, PortEngine<D>> {
        // Whoever panicked in it has ended its thread, and this port with it; the memory is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens for connections.
    ///
    /// # Errors
    /// What the device says.
    pub fn listen(&self, address: &str) -> Result<(), DeviceError> {
        self.engine().shared.device.listen(address)
    }

    /// Begins a connection. Its link takes bytes once it stands, and is readable once it failed.
    ///
    /// # Errors
    /// What the device says, or that there are no receive buffers left.
    pub fn connect(&self, address: &str, token: Option<RdmaToken>) -> Result<VerbsLink<D>, DeviceError> {
        let mut core = self.engine();
        let credits = core.shared.settings.credits;
        let id = core.connect(address, token, credits)?;
        drop(core);
        Ok(VerbsLink::new(self.clone(), id))
    }

    /// The same, with a promise to the peer of its own (see [`Settings::credits`]).
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

    /// Whether it has receive buffers for one connection more, with such a promise.
    pub fn has_capacity_for(&self, credits: u16) -> bool {
        self.engine().has_capacity_for(credits)
    }

    /// The name of its device's card (see [`Device::card`]).
    pub fn card(&self) -> String {
        self.engine().shared.device.card()
    }

    /// The next connection that a peer has made.
    pub fn accept(&self) -> Option<VerbsLink<D>> {
        let id = self.engine().accepted.pop_front()?;
        Some(VerbsLink::new(self.clone(), id))
    }

    /// Lets one client in that shows this token, within [`Settings::token_max`]. False if too many are expected already.
    pub fn expect_token(&self, token: RdmaToken) -> bool {
        self.engine().expect(token)
    }

    /// Lets nobody in by this token any more.
    pub fn forget_token(&self, token: &RdmaToken) {
        self.engine().forget_token(token);
    }

    /// Asks for tokens that it was not told of: for ports that share a listener, and do not know who comes to whom.
    pub fn set_token_verifier(&self, doorkeeper: Arc<dyn TokenVerifier>) {
        self.engine().token_verifier = Some(doorkeeper);
    }

    /// Refuses all further requests.
    pub fn stop(&self) {
        self.engine().stop();
    }

    /// One round: what the device has to tell, and what time brings.
    ///
    /// # Errors
    /// The device is broken, and all connections are over.
    pub fn poll(&self) -> Result<(), DeviceError> {
        self.engine().poll()
    }

    /// Rings one doorbell for each link that has something to post.
    pub fn flush(&self) {
        self.engine().flush();
    }

    /// Asks the device to wake whoever waits for it; poll once more after this, and wait then.
    ///
    /// # Errors
    /// The device is broken.
    pub fn arm(&self) -> Result<(), DeviceError> {
        let device = &mut self.engine().shared.device;
        // In the round between this and the sleep. What comes later ends the sleep, and is seen before the next: so an owner
        // that waits for edges, and hears only once of what is not taken, misses nothing, and a sleep costs one look.
        device.request_event_poll();
        device.arm()
    }

    /// The same for an owner that calls [`heed_news`](Port::heed_news) when it is woken by one of
    /// [`news_descriptors`](Port::news_descriptors): its sleeps cost no look at them.
    ///
    /// # Errors
    /// The device is broken.
    pub fn arm_for_messages(&self) -> Result<(), DeviceError> {
        self.engine().shared.device.arm()
    }

    /// The next poll looks for rare events, too.
    pub fn request_event_poll(&self) {
        self.engine().shared.device.request_event_poll();
    }

    /// Descriptors that are readable when the device has something to tell (see [`Device::descriptors`]).
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.engine().shared.device.descriptors()
    }

    /// Those of them that tell of rare events alone (see [`Device::news_descriptors`]).
    pub fn event_descriptors(&self) -> Vec<RawFd> {
        self.engine().shared.device.event_descriptors()
    }

    /// Appends the edges since the last call.
    pub fn take_edges(&self, out: &mut Vec<(LinkId, ReadinessEdges)>) {
        self.engine().take_edges(out);
    }

    /// Connections, those included that are being made or are ending.
    pub fn connections(&self) -> usize {
        self.engine().connections()
    }

    /// Whether there is something for the owner's next round, although the device may have nothing to tell: whoever sleeps
    /// now sleeps too long.
    pub fn has_work(&self) -> bool {
        self.engine().has_work()
    }

    /// Drives the port until its connections have ended, or so long: those whose links were dropped say what they have
    /// still to say. It blocks; an owner with rounds of its own goes on polling instead.
    pub fn linger(&self, longest: Duration) {
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

    /// What it has done so far.
    pub fn counters(&self) -> PortCounters {
        self.engine().shared.counters
    }

    /// Where its memory and promises are.
    pub fn usage(&self) -> PortUsage {
        self.engine().usage()
    }

    /// The credits of a link.
    pub fn link_usage(&self, id: LinkId) -> LinkUsage {
        self.engine().link_usage(id)
    }
}

impl<D: Device> Clone for Port<D> {
    fn clone(&self) -> Self {
        Port(Arc::clone(&self.0))
    }
}
