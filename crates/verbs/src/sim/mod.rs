//! A simulated device: reliable connections in memory, with faults drawn from a seed.
//!
//! The same seed and the same calls give the same run: time is the number of [`Fabric::step`] calls, except with
//! [`Fabric::real_time`]. No thread is started.

mod real_time;
mod sim_cm;
mod sim_device;
mod sim_network;
mod sim_queue_pair;

pub use sim_device::SimDevice;

use crate::device::ResolvedRoute;
use real_time::RealTimeClock;
use sim_network::SimNetwork;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The duration of one step of the fabric.
pub const STEP: Duration = Duration::from_micros(10);

/// The longest wait of a device in real time.
const WAIT_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct FabricOptions {
    /// The seed of the random number generator.
    pub seed: u64,
    /// Most steps that anything is in flight; zero: it arrives in the next step.
    pub delay_steps_max: u32,
    /// Whether completions of different queue pairs are reordered.
    pub reorder: bool,
    /// In how many of a thousand cases the receiver is not ready although buffers are posted.
    pub not_ready_permille: u32,
    /// In how many of a million cases a work request fails.
    pub error_ppm: u32,
    /// In how many of a million cases a bit of a message's first eight bytes flips.
    pub flip_ppm: u32,
    /// In how many of a thousand cases a poll for events finds none although there are some, as if one arrived between
    /// the polls for events and for completions. Not in real time, where a sleeping thread would miss it.
    pub late_events_permille: u32,
    /// Grants that a device can hold.
    pub grants_max: usize,
    /// Most bytes of an inline send.
    pub inline_bytes_max: usize,
    /// As on iWARP: the accepting end gets its established event at once, and a message that reaches the connecting end
    /// before the acceptance ends the connection.
    pub initiator_sends_first: bool,
}

impl FabricOptions {
    /// A fabric without faults.
    pub fn faultless() -> Self {
        FabricOptions {
            seed: 0,
            delay_steps_max: 0,
            reorder: false,
            not_ready_permille: 0,
            error_ppm: 0,
            flip_ppm: 0,
            late_events_permille: 0,
            grants_max: usize::MAX,
            inline_bytes_max: 128,
            initiator_sends_first: false,
        }
    }

    /// A fabric that delays and reorders, but loses nothing.
    pub fn slow(seed: u64) -> Self {
        let mut chance = splitmix::SplitMix64::new(seed);
        FabricOptions {
            seed,
            delay_steps_max: chance.below(8) as u32,
            reorder: chance.below(2) == 0,
            not_ready_permille: chance.below(100) as u32,
            inline_bytes_max: [0, 64, 128][chance.below(3) as usize],
            grants_max: [usize::MAX, 3, 1][chance.below(3) as usize],
            late_events_permille: [0, 300, 900][chance.below(3) as usize],
            initiator_sends_first: chance.below(2) == 0,
            ..FabricOptions::faultless()
        }
    }

    /// A fabric on which work also fails and bits flip.
    pub fn broken(seed: u64) -> Self {
        let mut chance = splitmix::SplitMix64::new(!seed);
        FabricOptions {
            error_ppm: chance.below(5_000) as u32,
            flip_ppm: chance.below(5_000) as u32,
            ..FabricOptions::slow(seed)
        }
    }
}

struct FabricInner {
    net: Mutex<SimNetwork>,
    /// Notified when something has arrived at any node.
    moved: Condvar,
}

/// A handle on the fabric between devices. Clones are handles on the same one.
#[derive(Clone)]
pub struct Fabric(Arc<FabricInner>);

impl Fabric {
    /// A fabric without devices.
    pub fn new(options: &FabricOptions) -> Self {
        Self::with(options, None)
    }

    /// A fabric in real time: its devices may be used by several threads, have descriptors to wait for, and advance the
    /// fabric with each call.
    pub fn real_time(options: &FabricOptions) -> Self {
        Self::with(options, Some(RealTimeClock::new()))
    }

    fn with(options: &FabricOptions, live: Option<RealTimeClock>) -> Self {
        Fabric(Arc::new(FabricInner { net: Mutex::new(SimNetwork::new(options, live)), moved: Condvar::new() }))
    }

    /// Adds a device.
    pub fn device(&self) -> SimDevice {
        let node = self.network().add_node(None);
        SimDevice::new(self.clone(), node)
    }

    /// Adds devices that listen together: requests are passed to the one with the fewest queue pairs.
    pub fn siblings(&self, count: usize) -> Vec<SimDevice> {
        let mut net = self.network();
        let group = net.nodes.len();
        let nodes: Vec<_> = (0..count).map(|_| net.add_node(Some(group))).collect();
        drop(net);
        nodes.into_iter().map(|node| SimDevice::new(self.clone(), node)).collect()
    }

    /// All devices of a fabric count as one card.
    fn card(&self) -> String {
        format!("sim-{:p}", Arc::as_ptr(&self.0))
    }

    /// The route to an address of this fabric.
    pub fn route_to(&self, place: &str) -> ResolvedRoute {
        let fabric = self.clone();
        ResolvedRoute {
            card: self.card(),
            address: place.to_owned(),
            open: Box::new(move || Ok(Box::new(fabric.device()))),
        }
    }

    fn network(&self) -> MutexGuard<'_, SimNetwork> {
        // A test that panics with the lock held has failed already.
        self.0.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers everything that is due, in real time.
    fn settle(&self, mut net: MutexGuard<'_, SimNetwork>) {
        net.deliver_pending();
        self.wake_waiting(net);
    }

    /// Those who wait look again at what was delivered to them.
    fn wake_waiting(&self, net: MutexGuard<'_, SimNetwork>) {
        if net.live.is_some() {
            drop(net);
            self.0.moved.notify_all();
        }
    }

    /// Waits until a device has something to poll, or until the time-out.
    fn wait(&self, mut net: MutexGuard<'_, SimNetwork>, node: usize, timeout: Option<Duration>) {
        // Even without a time-out the caller polls from time to time.
        let timeout = timeout.unwrap_or(WAIT_MAX);
        net.deliver_pending();
        self.0.moved.notify_all();
        let waited = self.0.moved.wait_timeout_while(net, timeout, |net| !net.nodes[node].is_notified());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Simulates a card that is removed: every call of the device fails, and nothing leaves or reaches it. Devices are
    /// numbered in the order of their creation, from zero.
    pub fn break_nth(&self, node: usize) {
        let mut net = self.network();
        net.break_down(node);
        drop(net);
        self.0.moved.notify_all();
    }

    /// Advances time by one step.
    pub fn step(&self) {
        self.network().step();
    }

    /// Simulates a host that is switched off: it answers nothing and notifies nobody.
    pub fn vanish(&self, device: &SimDevice) {
        self.network().vanish(device.node());
    }

    /// As [`vanish`](Self::vanish), for a device that was moved to a port: numbered in the order of creation, from
    /// zero.
    pub fn vanish_nth(&self, node: usize) {
        self.network().vanish(node);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.network().heal();
    }

    /// The number of devices.
    pub fn devices(&self) -> usize {
        self.network().nodes.len()
    }

    /// The number of delivered messages.
    pub fn delivered(&self) -> u64 {
        self.network().delivered
    }

    /// The largest number of regions that a device has registered.
    pub fn regions_max(&self) -> usize {
        self.network().nodes.iter().map(|node| node.regions.len()).max().unwrap_or(0)
    }
}
