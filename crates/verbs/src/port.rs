//! A port: one shard's connections over one device.
//!
//! Enters: a device, memory for its buffers, rounds of the owner's loop.  Leaves: links, edges, counts.
//! Owns:   the engine, together with its links.
//! Never:  is used by two threads at once; the lock is there for the compiler, and nobody waits for it.

use crate::device::{Device, DeviceError};
use crate::engine::{Census, Core, Counters, LinkCensus, Shared};
use crate::limits::DEADLINES_EVERY;
use crate::link_end::VerbsLink;
use crate::settings::Settings;
use crate::wire::Token;
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
    pub fn place(self) -> usize {
        self.slot as usize
    }
}

/// Readiness edges of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to receive, or the end.
    pub readable: bool,
    /// More can be sent, or nothing ever.
    pub writable: bool,
    /// The peer's stream has ended, or the connection broke.
    pub closed: bool,
}

impl Readiness {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.readable || self.writable || self.closed
    }

    pub(crate) fn add(&mut self, other: Readiness) {
        self.readable |= other.readable;
        self.writable |= other.writable;
        self.closed |= other.closed;
    }
}

/// Who knows of tokens that were given out elsewhere.
pub trait Doorkeeper: Send + Sync {
    /// Whether a client may come in by this token. It is asked once for each request that shows one; a token that was good
    /// is used with that.
    fn admits(&self, token: &Token) -> bool;
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
pub struct Port<D: Device>(Arc<Mutex<Core<D>>>);

impl<D: Device> Port<D> {
    /// Opens a port. All the memory that it ever holds for peers is taken from the pool here.
    ///
    /// # Errors
    /// Settings that contradict one another or the device.
    pub fn open(device: D, pool: &Pool, settings: Settings) -> Result<Self, PortError> {
        settings.check().map_err(PortError::Settings)?;
        if settings.receive_buffers > device.abilities().receives_max {
            return Err(PortError::Settings("more receive buffers than the device's queue takes"));
        }
        let blocks = |count: usize, bytes: usize| (0..count).map(|_| pool.block(bytes)).collect::<Vec<BlockMut>>();
        let buffers = blocks(settings.receive_buffers, settings.receive_buffer_bytes as usize);
        let landings = blocks(settings.landing_blocks, settings.landing_bytes);
        let core = Core::new(Shared::new(device, settings, buffers, landings)).map_err(PortError::Device)?;
        Ok(Port(Arc::new(Mutex::new(core))))
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core<D>> {
        // Whoever panicked in it has ended its thread, and this port with it; the memory is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens for connections.
    ///
    /// # Errors
    /// What the device says.
    pub fn listen(&self, address: &str) -> Result<(), DeviceError> {
        self.core().shared.device.listen(address)
    }

    /// Begins a connection. Its link takes bytes once it stands, and is readable once it failed.
    ///
    /// # Errors
    /// What the device says, or that there are no receive buffers left.
    pub fn connect(&self, address: &str, token: Option<Token>) -> Result<VerbsLink<D>, DeviceError> {
        let mut core = self.core();
        let credits = core.shared.settings.credits;
        let id = core.connect(address, token, credits)?;
        drop(core);
        Ok(VerbsLink::new(self.clone(), id))
    }

    /// The same, with a promise to the peer of its own (see [`Settings::credits`]).
    ///
    /// # Errors
    /// As [`connect`](Port::connect).
    pub fn connect_promising(
        &self,
        address: &str,
        token: Option<Token>,
        credits: u16,
    ) -> Result<VerbsLink<D>, DeviceError> {
        let id = self.core().connect(address, token, credits)?;
        Ok(VerbsLink::new(self.clone(), id))
    }

    /// Whether it has receive buffers for one connection more, with such a promise.
    pub fn has_room_for(&self, credits: u16) -> bool {
        self.core().has_room_for(credits)
    }

    /// The name of its device's card (see [`Device::card`]).
    pub fn card(&self) -> String {
        self.core().shared.device.card()
    }

    /// The next connection that a peer has made.
    pub fn accept(&self) -> Option<VerbsLink<D>> {
        let id = self.core().accepted.pop_front()?;
        Some(VerbsLink::new(self.clone(), id))
    }

    /// Lets one client in that shows this token, within [`Settings::token_max`]. False if too many are expected already.
    pub fn expect(&self, token: Token) -> bool {
        self.core().expect(token)
    }

    /// Lets nobody in by this token any more.
    pub fn forget_token(&self, token: &Token) {
        self.core().forget_token(token);
    }

    /// Asks for tokens that it was not told of: for ports that share a listener, and do not know who comes to whom.
    pub fn ask(&self, doorkeeper: Arc<dyn Doorkeeper>) {
        self.core().doorkeeper = Some(doorkeeper);
    }

    /// Refuses all further requests.
    pub fn stop(&self) {
        self.core().stop();
    }

    /// One round: what the device has to tell, and what time brings.
    ///
    /// # Errors
    /// The device is broken, and all connections are over.
    pub fn poll(&self) -> Result<(), DeviceError> {
        self.core().poll()
    }

    /// Rings one doorbell for each link that has something to post.
    pub fn flush(&self) {
        self.core().flush();
    }

    /// Asks the device to wake whoever waits for it; poll once more after this, and wait then.
    ///
    /// # Errors
    /// The device is broken.
    pub fn arm(&self) -> Result<(), DeviceError> {
        let device = &mut self.core().shared.device;
        // In the round between this and the sleep. What comes later ends the sleep, and is seen before the next: so an owner
        // that waits for edges, and hears only once of what is not taken, misses nothing, and a sleep costs one look.
        device.heed_news();
        device.arm()
    }

    /// The same for an owner that calls [`heed_news`](Port::heed_news) when it is woken by one of
    /// [`news_descriptors`](Port::news_descriptors): its sleeps cost no look at them.
    ///
    /// # Errors
    /// The device is broken.
    pub fn arm_for_messages(&self) -> Result<(), DeviceError> {
        self.core().shared.device.arm()
    }

    /// The next poll looks for rare events, too.
    pub fn heed_news(&self) {
        self.core().shared.device.heed_news();
    }

    /// Descriptors that are readable when the device has something to tell (see [`Device::descriptors`]).
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.core().shared.device.descriptors()
    }

    /// Those of them that tell of rare events alone (see [`Device::news_descriptors`]).
    pub fn news_descriptors(&self) -> Vec<RawFd> {
        self.core().shared.device.news_descriptors()
    }

    /// Appends the edges since the last call.
    pub fn take_edges(&self, out: &mut Vec<(LinkId, Readiness)>) {
        self.core().take_edges(out);
    }

    /// Connections, those included that are being made or are ending.
    pub fn connections(&self) -> usize {
        self.core().connections()
    }

    /// Whether there is something for the owner's next round, although the device may have nothing to tell: whoever sleeps
    /// now sleeps too long.
    pub fn has_work(&self) -> bool {
        self.core().has_work()
    }

    /// Drives the port until its connections have ended, or so long: those whose links were dropped say what they have
    /// still to say. It blocks; an owner with rounds of its own goes on polling instead.
    pub fn linger(&self, longest: Duration) {
        let mut core = self.core();
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
            if core.shared.device.wait(Some(left.min(DEADLINES_EVERY))).is_err() {
                return;
            }
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.core().shared.counters
    }

    /// Where its memory and promises are.
    pub fn census(&self) -> Census {
        self.core().census()
    }

    /// The credits of a link.
    pub fn link_census(&self, id: LinkId) -> LinkCensus {
        self.core().link_census(id)
    }
}

impl<D: Device> Clone for Port<D> {
    fn clone(&self) -> Self {
        Port(Arc::clone(&self.0))
    }
}
