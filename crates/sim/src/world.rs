//! The world of a run: brokers, connections between them, clients, simulated time, chance, and the record of what happens.
//!
//! Everything is on one thread. The order of everything is drawn from [`SimulatedWorld::chance`], which the seed determines.

use crate::broker_links::BrokerLinks;
use crate::client_connection::ClientConnection;
use crate::faults::Faults;
use crate::limits::{FEDERATION_HEAP_BYTES_MAX, SCRATCH_BYTES, SHARD_HEAP_BYTES_LEFT_MAX};
use crate::settings::Settings;
use crate::simulated_broker::{SimulatedBroker, SimulatedBrokerOptions};
use crate::simulated_client::{ClientRole, ConnectionState, SimulatedClient};
use crate::simulated_clock::SimulatedClock;
use crate::tally::Tally;
use crate::trace::Trace;
use durability::StoreSync;
use link::sim::{SimConnection, SimOptions, SimSide, pair};
use simdisks::CrashKind;
use simdisks::DamageLedger;
use simdisks::StaleFooters;
use slab::{Pool, PoolOptions};
use splitmix::SplitMix64;
use std::time::Duration;
use wire::Method;

/// The memory that clients of a run share.
pub struct ClientMemory {
    /// For their messages.
    pub pool: Pool,
    /// What they read into.
    pub scratch: Vec<u8>,
}

/// A message to be published.
pub struct NewMessage<'a> {
    /// Its number in the run.
    pub id: u64,
    pub exchange: &'a str,
    pub routing_key: &'a str,
    pub mandatory: bool,
    /// In wire form.
    pub properties: &'a [u8],
    pub body: &'a [u8],
}

pub struct SimulatedWorld {
    pub settings: Settings,
    pub chance: SplitMix64,
    pub clock: SimulatedClock,
    pub brokers: Vec<SimulatedBroker>,
    /// Every connection that is not over, of clients and between brokers.
    pub cables: Vec<SimConnection>,
    pub links: BrokerLinks,
    pub clients: Vec<SimulatedClient>,
    pub memory: ClientMemory,
    pub faults: Faults,
    pub trace: Trace,
    pub tally: Tally,
    /// A broker closes all connections: deliveries come back before their clients know.
    pub is_ending: bool,
    /// Footers that disks had before.
    pub stale_footers: StaleFooters,
    /// Places that were damaged, and whose outcome is not known.
    pub damage: DamageLedger,
    uids: u64,
}

impl SimulatedWorld {
    /// Brokers without connections.
    pub fn new(settings: Settings, traced: bool) -> Self {
        let mut world = SimulatedWorld {
            chance: SplitMix64::new(settings.seed),
            clock: SimulatedClock::new(),
            brokers: Vec::new(),
            cables: Vec::new(),
            links: BrokerLinks::default(),
            clients: Vec::new(),
            memory: ClientMemory { pool: Pool::new(PoolOptions::default()), scratch: vec![0; SCRATCH_BYTES] },
            faults: Faults::new(settings.faults),
            trace: Trace::new(traced),
            tally: Tally::default(),
            is_ending: false,
            stale_footers: StaleFooters::default(),
            damage: DamageLedger::default(),
            uids: 0,
            settings,
        };
        for broker in 0..world.settings.shards.len() {
            let options = world.broker_options(broker);
            world.brokers.push(SimulatedBroker::new(&options));
        }
        world
    }

    /// The options of a broker. A lone broker has the run's seed; each of several draws one for each of its lives.
    pub(crate) fn broker_options(&mut self, broker: usize) -> SimulatedBrokerOptions {
        let is_alone = self.settings.shards.len() == 1;
        let seed = if is_alone { self.settings.seed } else { self.chance.next_u64() };
        let (name, limits) = (self.settings.broker_name(broker).into(), self.settings.limits);
        let shards = self.settings.shards[broker];
        let Some(durable) = self.settings.durable() else {
            let (epoch, store_sync) = (self.clock.now, StoreSync::Always);
            return SimulatedBrokerOptions { name, seed, shards, limits, epoch, disks: None, store_sync };
        };
        // Times of stored messages mean the same in all its lives, and names that it makes are never made again.
        let life = self.brokers.get(broker).map_or(0, |broker| broker.lives);
        let store_sync = durable.store_sync(seed, life);
        let (epoch, disks) = (self.clock.start, Some(durable.disk_options()));
        SimulatedBrokerOptions { name, seed: seed ^ u64::from(life) << 48, shards, limits, epoch, disks, store_sync }
    }

    /// A number that nothing else in this run has.
    pub fn uid(&mut self) -> u64 {
        self.uids += 1;
        self.uids
    }

    /// Time passes.
    pub fn pass(&mut self, us: u64) {
        self.clock.now += Duration::from_micros(us);
        self.trace.now_us = self.clock.us();
    }

    /// Draws what a new connection is like.
    pub fn cable_options(&mut self) -> SimOptions {
        self.settings.limits.cable_options(self.settings.schedule.window_bytes_min, &mut self.chance)
    }

    /// A client connects to a broker. Returns its index.
    pub fn connect(&mut self, broker: usize, role: ClientRole) -> usize {
        let uid = self.uid() as u32;
        let (near, far, cable) = pair(&self.cable_options());
        let now = self.clock.now;
        let to = &mut self.brokers[broker];
        let end = to.accept(far, cable.clone(), now);
        let shard = to.connections[end].shard;
        let limits = self.settings.limits.session();
        let connection = ClientConnection::new(near, cable.clone(), limits, &self.memory.pool, now);
        self.tally.connections += 1;
        self.trace.note(|| format!("{} {uid} connects to shard {shard} of broker {broker}", role.name()));
        self.cables.push(cable.clone());
        self.clients.push(SimulatedClient {
            connection,
            cable,
            uid,
            broker,
            role,
            state: ConnectionState::Opening,
            blocked: false,
            channels: Vec::new(),
            cut: false,
            replies: 0,
        });
        self.clients.len() - 1
    }

    /// Sends a method on a channel of a client.
    pub fn send<'a>(&mut self, client: usize, channel: usize, method: impl Into<Method<'a>>) {
        let one = &mut self.clients[client];
        let channel = &one.channels[channel];
        let (method, uid) = (method.into(), channel.uid);
        self.trace.note(|| format!("channel {uid} sends {method:?}"));
        one.connection.send_method(channel.number, method, &self.memory.pool);
    }

    /// Publishes a message on a channel of a client, and records it there.
    pub fn publish(&mut self, client: usize, channel: usize, message: &NewMessage<'_>) {
        let NewMessage { id, exchange, routing_key, mandatory, properties, body } = *message;
        let one = &mut self.clients[client];
        let (broker, channel) = (one.broker, &mut one.channels[channel]);
        channel.record_publish(id);
        let (uid, number, bytes) = (channel.uid, channel.number, body.len());
        self.tally.published += 1;
        self.trace.note(|| {
            format!("channel {uid} of broker {broker} publishes {id} to '{exchange}' by '{routing_key}', {bytes} bytes")
        });
        let pool = &self.memory.pool;
        one.connection.publish(number, exchange, routing_key, mandatory, properties, body, pool);
    }

    /// Sends a method on the channel of the client that has this role at a broker, if there is one.
    pub fn send_as<'a>(&mut self, broker: usize, role: ClientRole, method: impl Into<Method<'a>>) {
        if let Some(client) = self.client_by_role(broker, role) {
            self.send(client, 0, method);
        }
    }

    pub fn client_by_uid(&self, uid: u32) -> Option<usize> {
        self.clients.iter().position(|client| client.uid == uid)
    }

    /// The client of a broker that has this role.
    pub fn client_by_role(&self, broker: usize, role: ClientRole) -> Option<usize> {
        self.clients.iter().position(|client| client.broker == broker && client.role == role)
    }

    /// The clients of a broker, consumers before publishers.
    pub fn clients_of(&self, broker: usize) -> Vec<usize> {
        let mut clients: Vec<usize> =
            (0..self.clients.len()).filter(|&client| self.clients[client].broker == broker).collect();
        clients.sort_by_key(|&client| self.clients[client].role);
        clients
    }

    /// Stops a broker: its connections are reset, its clients are gone, and it forgets everything.
    pub fn stop_broker(&mut self, broker: usize) {
        self.tally.stops += 1;
        let options = self.broker_options(broker);
        self.brokers[broker].reset_connections();
        self.clients.retain(|client| client.broker != broker);
        self.brokers[broker].replace(&options);
        self.links.forget_broker(broker);
        self.trace.note(|| format!("broker {broker} is stopped"));
    }

    /// The process of a broker with a store is gone, and nobody is connected any more.
    pub fn crash_broker(&mut self, broker: usize, kind: CrashKind) {
        self.trace.note(|| format!("broker {broker} crashes: {kind:?}"));
        self.brokers[broker].reset_connections();
        self.clients.retain(|client| client.broker != broker);
        self.brokers[broker].crash(kind);
    }

    /// Starts a broker that was stopped.
    pub fn start_broker(&mut self, broker: usize) {
        self.brokers[broker].start();
        self.trace.note(|| format!("broker {broker} is started"));
    }

    /// Forgets clients and connections that are over.
    pub fn sweep(&mut self) {
        self.clients.retain(|client| client.state != ConnectionState::Gone);
        self.cables.retain(|cable| !cable.is_closed(SimSide::Left) || !cable.is_closed(SimSide::Right));
        self.brokers.iter_mut().for_each(SimulatedBroker::forget_connections);
    }

    /// What keeps brokers and connections busy, in words.
    pub fn activity(&self) -> String {
        let activity: Vec<String> = self.brokers.iter().flat_map(SimulatedBroker::activity).collect();
        activity.join(", ")
    }

    /// When all clients have gone: whatever is left is a leak. No turn until then has done too much.
    pub fn check_nothing_left(&mut self) {
        self.check_work();
        let mut left = Vec::new();
        let federation_bytes = if self.settings.shards.len() > 1 { FEDERATION_HEAP_BYTES_MAX } else { 0 };
        let heap_bytes_max = SHARD_HEAP_BYTES_LEFT_MAX + federation_bytes;
        for (number, broker) in self.brokers.iter_mut().enumerate() {
            let counted = broker.shared.connections();
            let counted = (counted > 0).then(|| format!("{counted} connections counted"));
            let leftovers = counted.into_iter().chain(broker.leftovers());
            let leftovers = leftovers.chain(broker.excess_heap(heap_bytes_max)).chain(broker.excess_segments());
            let leftovers = leftovers.collect::<Vec<_>>().into_iter();
            left.extend(leftovers.map(|leftover| format!("{leftover} of broker {number}")));
        }
        if self.memory.pool.used_bytes() > 0 {
            left.push(format!("{} bytes of the clients' memory", self.memory.pool.used_bytes()));
        }
        if !left.is_empty() {
            self.trace.fail(format!("all clients have gone, and left: {}", left.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SimulatedWorld;
    use crate::limits::WORK_BEYOND_BUDGET_MAX;
    use crate::settings::{Mode, Settings};
    use crate::simulated_client::ClientRole;

    #[test]
    fn a_stopped_broker_forgets_its_clients_and_others_keep_theirs() {
        let mut world = SimulatedWorld::new(Settings::of(Mode::Federation, 3), false);
        for broker in [0, 1] {
            world.connect(broker, ClientRole::Publisher);
            world.connect(broker, ClientRole::Consumer);
        }
        assert_eq!(world.clients_of(0).len(), 2);
        assert_eq!(world.clients[world.clients_of(1)[0]].role, ClientRole::Consumer);
        world.stop_broker(0);
        assert_eq!((world.clients_of(0).len(), world.clients_of(1).len()), (0, 2));
        assert!(!world.brokers[0].is_up && world.brokers[1].is_up && world.tally.stops == 1);
        world.start_broker(0);
        assert_eq!((world.brokers[0].is_up, world.brokers[0].lives), (true, 2));
    }

    #[test]
    fn memory_that_a_broker_does_not_account_for_is_found() {
        const BYTES: usize = 64 << 20;
        for mode in [Mode::Features, Mode::Federation] {
            let mut world = SimulatedWorld::new(Settings::of(mode, 1), false);
            let kept = world.brokers[0].wake(0, |_| vec![7_u8; BYTES]);
            world.check_nothing_left();
            let violation = world.trace.into_parts().0.expect("it is found");
            assert!(violation.contains("bytes of the heap that nothing accounts for"), "{violation}");
            assert_eq!(kept.len(), BYTES);
        }
    }

    #[test]
    fn a_turn_that_does_too_much_while_everything_goes_is_found() {
        for mode in [Mode::Features, Mode::Federation] {
            let mut world = SimulatedWorld::new(Settings::of(mode, 1), false);
            let work_max = u64::from(world.settings.limits.work_per_turn) + WORK_BEYOND_BUDGET_MAX;
            world.brokers[0].past_work_per_turn_max = work_max + 1;
            world.check_nothing_left();
            let violation = world.trace.into_parts().0.expect("it is found");
            assert!(violation.contains("a turn of broker 0 has done"), "{violation}");
        }
    }

    #[test]
    fn a_world_without_clients_leaves_nothing() {
        for mode in [Mode::Features, Mode::Federation] {
            let mut world = SimulatedWorld::new(Settings::of(mode, 1), false);
            world.check_nothing_left();
            assert!(!world.trace.has_failed(), "{mode:?}");
        }
    }
}
