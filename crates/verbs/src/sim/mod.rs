//! A simulated device: reliable connections in memory, with faults from a seed.
//!
//! Enters: options.  Leaves: devices, all on one fabric, and the fabric to move time on.
//! Owns:   what is under way, the order of faults: the same seed and calls give the same run.
//! Never:  starts a thread; reads a clock but for [`Fabric::live`]: elsewhere time is the number of [`Fabric::step`] calls.

mod sim_cm;
mod sim_device;
mod real_time;
mod sim_network;
mod sim_queue_pair;

pub use sim_device::SimDevice;

use crate::device::ResolvedRoute;
use real_time::RealTimeClock;
use sim_network::SimNetwork;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time that one step of the fabric takes.
pub const STEP: Duration = Duration::from_micros(10);

/// The longest wait of a device in real time.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How a simulated fabric behaves.
#[derive(Clone, Debug)]
pub struct FabricOptions {
    /// Where chance begins.
    pub seed: u64,
    /// Most steps that anything is under way; zero: it is there in the next step.
    pub delay_steps_max: u32,
    /// Whether completions of different queue pairs come in any order.
    pub reorder: bool,
    /// In how many of a thousand cases a message finds no receive buffer although there are some.
    pub not_ready_permille: u32,
    /// In how many of a million cases a piece of work fails.
    pub error_ppm: u32,
    /// In how many of a million cases a bit of a message's first eight bytes flips.
    pub flip_ppm: u32,
    /// In how many of a thousand cases a look for events finds none although there are some: as where one arrives between
    /// the look for events and the look for completions. Not in real time, where whoever sleeps would miss it.
    pub late_events_permille: u32,
    /// Grants that a device has room for.
    pub grants_max: usize,
    /// Bytes that a send may carry inline.
    pub inline_bytes_max: usize,
    /// As iWARP has it: who accepts is told at once that the connection stands, and a message that comes to the end that
    /// asked before it has the answer ends the connection.
    pub initiator_sends_first: bool,
}

impl FabricOptions {
    /// A fabric on which nothing goes wrong.
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

    /// One that is slow and in no order, but loses nothing.
    pub fn slow(seed: u64) -> Self {
        let mut chance = link::sim::SplitMix64::new(seed);
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

    /// One on which work fails and bits flip as well.
    pub fn broken(seed: u64) -> Self {
        let mut chance = link::sim::SplitMix64::new(!seed);
        FabricOptions {
            error_ppm: chance.below(5_000) as u32,
            flip_ppm: chance.below(5_000) as u32,
            ..FabricOptions::slow(seed)
        }
    }
}

struct FabricInner {
    net: Mutex<SimNetwork>,
    /// Something has arrived somewhere.
    moved: Condvar,
}

/// The fabric between devices. Clones are the same.
#[derive(Clone)]
pub struct Fabric(Arc<FabricInner>);

impl Fabric {
    /// A fabric without devices.
    pub fn new(options: &FabricOptions) -> Self {
        Self::with(options, None)
    }

    /// One in real time: its devices may be used on several threads, have descriptors to wait for, and move it on by
    /// being used. Delays are no longer than the calls make them.
    pub fn real_time(options: &FabricOptions) -> Self {
        Self::with(options, Some(RealTimeClock::new()))
    }

    fn with(options: &FabricOptions, live: Option<RealTimeClock>) -> Self {
        Fabric(Arc::new(FabricInner { net: Mutex::new(SimNetwork::new(options, live)), moved: Condvar::new() }))
    }

    /// One more device.
    pub fn device(&self) -> SimDevice {
        let node = self.network().add_node(None);
        SimDevice::new(self.clone(), node)
    }

    /// So many devices that listen together: requests go to the one with the fewest queue pairs.
    pub fn siblings(&self, count: usize) -> Vec<SimDevice> {
        let mut net = self.network();
        let group = net.nodes.len();
        let nodes: Vec<_> = (0..count).map(|_| net.add_node(Some(group))).collect();
        drop(net);
        nodes.into_iter().map(|node| SimDevice::new(self.clone(), node)).collect()
    }

    /// All devices of a fabric count as shares of one card: each reaches whatever another does.
    fn card(&self) -> String {
        format!("sim-{:p}", Arc::as_ptr(&self.0))
    }

    /// The way to an address of this fabric.
    pub fn route_to(&self, place: &str) -> ResolvedRoute {
        let fabric = self.clone();
        ResolvedRoute { card: self.card(), address: place.to_owned(), open: Box::new(move || Ok(Box::new(fabric.device()))) }
    }

    fn network(&self) -> MutexGuard<'_, SimNetwork> {
        // A test that panics with the lock held has failed already.
        self.0.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything arrives that can, in real time.
    fn settle(&self, mut net: MutexGuard<'_, SimNetwork>) {
        if net.live.is_some() {
            net.deliver_pending();
            drop(net);
            self.0.moved.notify_all();
        }
    }

    /// Waits until a device has something to look at, or so long.
    fn wait(&self, mut net: MutexGuard<'_, SimNetwork>, node: usize, timeout: Option<Duration>) {
        // Nobody sleeps for ever for want of a limit: whoever waits looks again.
        let timeout = timeout.unwrap_or(WAIT_MAX);
        net.deliver_pending();
        self.0.moved.notify_all();
        let waited = self.0.moved.wait_timeout_while(net, timeout, |net| !net.nodes[node].is_notified);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// As a card that is pulled out: every call of the device fails, and nothing leaves or reaches it. Devices are
    /// numbered as they were made, from zero.
    pub fn break_nth(&self, node: usize) {
        let mut net = self.network();
        net.break_down(node);
        drop(net);
        self.0.moved.notify_all();
    }

    /// Time moves on by one step.
    pub fn step(&self) {
        self.network().step();
    }

    /// A device's host disappears: it answers nothing and tells nobody.
    pub fn vanish(&self, device: &SimDevice) {
        self.network().vanish(device.node());
    }

    /// As [`vanish`](Self::vanish), for a device that was handed to a port: they are numbered as they were made, from zero.
    pub fn vanish_nth(&self, node: usize) {
        self.network().vanish(node);
    }

    /// Work fails and bits flip no more.
    pub fn heal(&self) {
        self.network().heal();
    }

    /// Devices made so far.
    pub fn devices(&self) -> usize {
        self.network().nodes.len()
    }

    /// Messages delivered so far.
    pub fn delivered(&self) -> u64 {
        self.network().delivered
    }

    /// Most regions of message memory that a device has registered.
    pub fn regions_max(&self) -> usize {
        self.network().nodes.iter().map(|node| node.regions.len()).max().unwrap_or(0)
    }
}
