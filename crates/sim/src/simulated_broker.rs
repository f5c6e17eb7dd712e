//! A broker of the simulation: shards that sleep and wake as their threads would, and its ends of all connections.
//!
//! It never ticks a shard that a reactor would have left asleep, so a lost wake-up stays lost.

use crate::broker_heap::BrokerHeap;
use crate::broker_limits::BrokerLimits;
use crate::limits::{LOG_HEAP_BYTES_MAX, MAILBOX_HEAP_BYTES_MAX};
use crate::simulated_clock::some_instant;
use crate::store_recovery::{attach, recover_catalog};
use broker::{Broker, BrokerOptions, ConnectionSlot};
use catalog::{Catalog, CatalogLimits, Definition, Name, Password, Permission, ShardId};
use durability::StoreSync;
use link::Link;
use link::sim::{SimConnection, SimLink, SimSide};
use session::Greeting;
use shard::{
    DialError, DialRequest, DialedLink, Mailbox, MovedConnection, Shard, ShardEffects, ShardOptions, ShardReport,
    ShardWaker, SharedState, TickOutcome, WakeTarget,
};
use simdisks::{BrokerDisks, DiskOptions};
use slab::{Pool, PoolOptions};
use splitmix::SplitMix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{Table, Value};

/// One shard, as its reactor would run it.
pub struct SimulatedShard {
    pub shard: Shard,
    /// Its message memory.
    pub pool: Pool,
    waker: Arc<ShardWaker>,
    woken: Arc<AtomicBool>,
    awake: bool,
    until: Option<Instant>,
}

/// The broker's end of a connection.
pub struct BrokerConnection {
    pub cable: SimConnection,
    /// The right one if the broker accepted the connection, the left one if it dialled.
    pub side: SimSide,
    /// The shard that serves it.
    pub shard: usize,
    pub slot: ConnectionSlot,
    over: bool,
    /// It has left a shard, and is not at the next one yet.
    is_moving: bool,
}

/// A connection that has left a shard.
pub(crate) struct MovingConnection {
    /// The shard where it goes.
    to: usize,
    /// Both know the broker's end of it.
    cable: SimConnection,
    side: SimSide,
    moved: MovedConnection,
}

struct WakeFlag(Arc<AtomicBool>);

impl WakeTarget for WakeFlag {
    fn wake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Clone)]
pub struct SimulatedBrokerOptions {
    /// Its cluster name.
    pub name: Box<str>,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The number of its shards.
    pub shards: u16,
    pub limits: BrokerLimits,
    /// When its time begins.
    pub epoch: Instant,
    /// What its disks are like, if it has a store.
    pub disks: Option<DiskOptions>,
    /// What confirms wait for in this life, if it has a store.
    pub store_sync: StoreSync,
}

/// A broker: everything but its clients.
pub struct SimulatedBroker {
    pub shards: Vec<SimulatedShard>,
    /// Its ends of connections, those that are over until [`SimulatedBroker::forget_connections`].
    pub connections: Vec<BrokerConnection>,
    /// Those that are on their way to the shard with this index.
    pub(crate) moving: Vec<MovingConnection>,
    /// What the shards share.
    pub shared: Arc<SharedState>,
    /// Ticks of its shards in all its lives.
    pub ticks: u64,
    /// Connections that have moved from one of its shards to another, in all its lives.
    pub connections_moved: u64,
    /// Whether its process runs.
    pub is_up: bool,
    /// How often it was started.
    pub lives: u32,
    /// What confirms wait for in this life, if it has a store.
    pub store_sync: StoreSync,
    /// The most work that a turn has done in its lives that are over.
    pub(crate) past_work_per_turn_max: u64,
    /// Messages that were moved within its logs in its lives that are over.
    pub(crate) past_messages_moved: u64,
    /// What its code has allocated.
    pub(crate) heap: BrokerHeap,
    /// What its store is on.
    pub(crate) disks: Option<BrokerDisks>,
    /// What the contents of its disks took when this life began.
    disks_heap_bytes: isize,
    pub(crate) epoch: Instant,
}

/// The shards of a broker, and what they share.
type NewShards = (Vec<SimulatedShard>, Arc<SharedState>);

impl SimulatedBroker {
    /// A broker without connections. Its disks are empty, if it has a store.
    pub fn new(options: &SimulatedBrokerOptions) -> Self {
        let disks = options.disks.map(|disks| BrokerDisks::new(options.seed, options.shards, disks));
        Self::begin(options, disks, options.epoch).expect("there is nothing that could not be recovered")
    }

    /// A broker without connections, with what its disks have. `Err` says why that cannot be recovered.
    pub(crate) fn begin(
        options: &SimulatedBrokerOptions,
        disks: Option<BrokerDisks>,
        now: Instant,
    ) -> Result<SimulatedBroker, String> {
        let mut heap = BrokerHeap::default();
        let disks_heap_bytes = disks.as_ref().map_or(0, BrokerDisks::heap_bytes);
        let (shards, shared) = heap.measure(|| Self::shards(options, disks.as_ref(), now))?;
        heap.mark_empty(shards.iter().map(|node| node.shard.broker().catalog().bytes()).sum());
        Ok(SimulatedBroker {
            shards,
            connections: Vec::new(),
            moving: Vec::new(),
            shared,
            ticks: 0,
            connections_moved: 0,
            is_up: true,
            lives: 1,
            store_sync: options.store_sync,
            past_work_per_turn_max: 0,
            past_messages_moved: 0,
            heap,
            disks,
            disks_heap_bytes,
            epoch: options.epoch,
        })
    }

    /// The limits of its catalogs.
    pub fn catalog_limits(hash_seed: u64) -> CatalogLimits {
        // Delivery limits come with the other types of queues.
        CatalogLimits { hash_seed, queue_types_as_classic: true, ..CatalogLimits::default() }
    }

    fn empty_catalog(options: &SimulatedBrokerOptions) -> Catalog {
        Catalog::new(Self::catalog_limits(options.seed))
    }

    /// What a new broker begins with.
    fn first_definitions() -> Vec<Definition> {
        let (vhost, user) = (Name::from("/"), Name::from("guest"));
        vec![
            Definition::CreateVhost { name: vhost.clone() },
            Definition::PutUser {
                name: user.clone(),
                password: Password::plain("guest"),
                tags: vec![],
                loopback_only: true,
            },
            Definition::SetPermission { user, vhost, permission: Permission::all() },
        ]
    }

    fn shards(
        options: &SimulatedBrokerOptions,
        disks: Option<&BrokerDisks>,
        now: Instant,
    ) -> Result<NewShards, String> {
        let recovered = disks.map(|disks| recover_catalog(disks, Self::empty_catalog(options))).transpose()?;
        let stored = recovered.as_ref().and_then(|recovered| recovered.definitions.clone());
        let definitions = stored.unwrap_or_else(Self::first_definitions);
        let mut chance = SplitMix64::new(options.seed ^ 0xB40C);
        let (epoch, epoch_unix_s) = (options.epoch, 1_000_000_000);
        let shared = SharedState::new(options.shards, options.limits.memory_bytes_max, 1_000);
        let shared = shared.with_paging_threshold(BrokerLimits::draw_paging(options.seed));
        let shared = Arc::new(shared.with_moves(BrokerLimits::draw_moves(options.seed)));
        let wake_flags: Vec<_> = (0..options.shards).map(|_| Arc::new(AtomicBool::new(false))).collect();
        let wakers: Vec<_> =
            wake_flags.iter().map(|woken| ShardWaker::new(Box::new(WakeFlag(Arc::clone(woken))))).collect();
        let capabilities = ["publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked"];
        let capabilities = capabilities
            .iter()
            .fold(Table::default(), |table, name| table.with(name, Value::Bool(true)).expect("a short name"));
        let properties = Table::default().with("capabilities", Value::Table(capabilities)).expect("a short name");
        let properties = properties.with("cluster_name", Value::text(&options.name)).expect("a short name");
        let greeting = Arc::new(Greeting::new(&properties, "PLAIN"));
        let nodes = Mailbox::connect(&wakers).into_iter().zip(wakers).zip(wake_flags).zip(0..options.shards);
        let nodes = nodes.map(|(((mailbox, waker), woken), id)| {
            let mut catalog = Self::empty_catalog(options);
            for definition in &definitions {
                catalog.execute(definition).expect("a fresh catalog takes what another one took");
            }
            let shard = ShardId(id);
            let pool = Pool::new(PoolOptions::default());
            let mut seed = [0; 32];
            seed[..8].copy_from_slice(&chance.next_u64().to_le_bytes());
            let broker_options = BrokerOptions {
                shard,
                shards: options.shards,
                queue_bytes_max: options.limits.queue_bytes_max,
                epoch_unix_s,
                work_per_turn: options.limits.work_per_turn,
                consumer_timeout_ms: options.limits.consumer_timeout_ms,
            };
            let shard_options = ShardOptions {
                shard,
                session: options.limits.session(),
                rdma_frame_bytes_max: session::limits::BODY_FRAME_BYTES_MAX,
                greeting: Arc::clone(&greeting),
                login_timeout: Duration::from_secs(10),
                epoch,
                epoch_unix_us: 0,
                clock: some_instant,
                cluster_name: options.name.clone(),
            };
            let effects = ShardEffects::new(pool.clone(), mailbox, options.limits.output_bytes_max, seed);
            let mut broker = Broker::new(broker_options, catalog);
            broker.set_origin(options.seed);
            let shard = Shard::new(shard_options, broker, effects, Arc::clone(&shared));
            SimulatedShard { shard, pool, waker, woken, awake: true, until: None }
        });
        let mut nodes: Vec<_> = nodes.collect();
        if let (Some(disks), Some(recovered)) = (disks, &recovered) {
            attach(nodes.iter_mut().map(|node| &mut node.shard), disks, recovered, options.store_sync, now)?;
        }
        Ok((nodes, shared))
    }

    /// Accepts a connection, and returns the index of the broker's end.
    pub fn accept(&mut self, far: SimLink, cable: SimConnection, now: Instant) -> usize {
        let shard = usize::from(self.shared.assign_connection().expect("there is room for a thousand").0);
        let node = &mut self.shards[shard];
        self.heap.take_over(|| far.peer().clone());
        let slot = self.heap.measure(|| node.shard.accept(Box::new(far), now));
        node.awake = true;
        self.connections.push(BrokerConnection {
            cable,
            side: SimSide::Right,
            shard,
            slot,
            over: false,
            is_moving: false,
        });
        self.connections.len() - 1
    }

    /// Tells a shard the outcome of a dial. Returns the index of the connection, if the shard still wanted one.
    pub fn on_dial_outcome(
        &mut self,
        shard: usize,
        dial: &DialRequest,
        outcome: Result<(DialedLink, SimConnection), DialError>,
        now: Instant,
    ) -> Option<usize> {
        let node = &mut self.shards[shard];
        node.awake = true;
        let (outcome, cable) = match outcome {
            Ok((dialled, cable)) => (Ok(dialled), Some(cable)),
            Err(error) => (Err(error), None),
        };
        let slot = self.heap.measure(|| node.shard.on_dial_outcome(dial, outcome, now))?;
        self.connections.push(BrokerConnection {
            cable: cable?,
            side: SimSide::Left,
            shard,
            slot,
            over: false,
            is_moving: false,
        });
        Some(self.connections.len() - 1)
    }

    /// Calls a shard and wakes it, as an arrival would.
    pub fn wake<T>(&mut self, shard: usize, call: impl FnOnce(&mut Shard) -> T) -> T {
        let node = &mut self.shards[shard];
        node.awake = true;
        self.heap.measure(|| call(&mut node.shard))
    }

    /// Forgets the connections that are over.
    pub fn forget_connections(&mut self) {
        let SimulatedBroker { connections, heap, .. } = self;
        connections.retain(|connection| {
            if connection.over {
                heap.hand_over(connection.cable.outbound_heap_bytes(connection.side));
            }
            !connection.over
        });
    }

    /// Whether a queue is closed, as a disk cannot read its messages.
    pub fn has_closed_queue(&self) -> bool {
        self.shards.iter().any(|node| node.shard.broker().counters().queues_closed > 0)
    }

    /// Ticks a shard if it is awake or something wakes it. Returns whether it did.
    pub fn run_shard(&mut self, index: usize, now: Instant) -> bool {
        let mut has_edges = false;
        self.receive_moved(index, now);
        for connection in self.connections.iter_mut().filter(|one| !one.over && !one.is_moving && one.shard == index) {
            if connection.cable.is_closed(connection.side) {
                connection.over = true;
                continue;
            }
            let edges = connection.cable.take_edges(connection.side);
            if edges.any() {
                has_edges = true;
                let shard = &mut self.shards[index].shard;
                let (readable, writable, closed) = (edges.readable, edges.writable, edges.closed);
                self.heap.measure(|| shard.on_readiness(connection.slot, readable, writable, closed));
            }
        }
        if let Some(disks) = &self.disks {
            has_edges |= disks.set_now(index, now.saturating_duration_since(self.epoch).as_micros() as u64);
        }
        let node = &mut self.shards[index];
        let was_woken = node.woken.swap(false, Ordering::Relaxed);
        if !(node.awake || was_woken || has_edges || node.until.is_some_and(|until| until <= now)) {
            return false;
        }
        node.waker.is_awake();
        self.ticks += 1;
        match self.heap.measure(|| node.shard.tick(now)) {
            TickOutcome::More => node.awake = true,
            TickOutcome::Idle { until } => {
                node.until = until;
                node.waker.will_sleep();
                node.awake = node.shard.has_messages();
            }
        }
        self.send_departed(index);
        true
    }

    /// Takes connections that have left a shard on their way to another, which they wake.
    fn send_departed(&mut self, index: usize) {
        let SimulatedBroker { shards, connections, moving, heap, .. } = self;
        while let Some((slot, moved)) = heap.measure(|| shards[index].shard.next_departed()) {
            let to = usize::from(moved.to().0);
            let mut ends = connections.iter_mut();
            let end = ends.find(|one| {
                !one.over && !one.is_moving && (one.shard, one.slot) == (index, slot) && !one.cable.is_closed(one.side)
            });
            let end = end.expect("a connection that moves has an end here");
            (end.shard, end.is_moving) = (to, true);
            moving.push(MovingConnection { to, cable: end.cable.clone(), side: end.side, moved });
            shards[to].awake = true;
            self.connections_moved += 1;
        }
    }

    /// Connections that were on their way to a shard are there.
    fn receive_moved(&mut self, index: usize, now: Instant) {
        while let Some(at) = self.moving.iter().position(|one| one.to == index) {
            let MovingConnection { cable, side, moved, .. } = self.moving.remove(at);
            let node = &mut self.shards[index];
            node.awake = true;
            let slot = self.heap.measure(|| node.shard.arrive(moved, now));
            if let Some(end) = self.connections.iter_mut().find(|one| one.side == side && one.cable.is_same(&cable)) {
                (end.slot, end.is_moving) = (slot, false);
            }
        }
    }

    /// The shard and slot of the broker's end of a connection, unless it is on its way from one to another.
    pub fn end_of(&self, cable: &SimConnection) -> Option<(usize, ConnectionSlot)> {
        let end = self.connections.iter().find(|one| one.cable.is_same(cable))?;
        (!end.is_moving).then_some((end.shard, end.slot))
    }

    /// What keeps it busy, in words.
    pub fn activity(&self) -> Vec<String> {
        let nodes = self.shards.iter().enumerate().filter(|(_, node)| node.awake);
        let nodes = nodes.map(|(at, node)| format!("shard {at} is awake, mail: {}", node.shard.has_messages()));
        let connections = self.connections.iter().filter(|connection| !connection.over && connection.cable.is_busy());
        let connections = connections.map(|connection| {
            let (left, right) =
                (connection.cable.unread_bytes(SimSide::Left), connection.cable.unread_bytes(SimSide::Right));
            format!(
                "slot {} of shard {}: {left} bytes for the client, {right} for the broker",
                connection.slot, connection.shard
            )
        });
        nodes.chain(connections).collect()
    }

    /// The most work that a turn has done, of this life and those before.
    pub fn work_per_turn_max(&self) -> u64 {
        let shards = self.shards.iter().map(|node| node.shard.broker().counters().work_per_turn_max);
        shards.max().unwrap_or(0).max(self.past_work_per_turn_max)
    }

    /// Everything that its shards have to tell a reader who was told what there was before.
    pub fn reports(&mut self, now: Instant) -> Vec<ShardReport> {
        let SimulatedBroker { shards, heap, .. } = self;
        let mut reports = Vec::new();
        for node in shards {
            loop {
                let report = heap.measure(|| node.shard.report(now));
                // The reader's is a copy, which is none of the broker's heap.
                reports.push(report.clone());
                let more = report.more;
                heap.measure(|| drop(report));
                if !more {
                    break;
                }
            }
        }
        reports
    }

    /// Messages that were moved so that their segments could be given back, in this life and those before.
    pub fn messages_moved(&self) -> u64 {
        let stores = self.shards.iter().filter_map(|node| node.shard.store_metrics());
        self.past_messages_moved + stores.map(|store| store.messages.log.messages_moved).sum::<u64>()
    }

    /// Bytes of the heap that its code holds and that it does not account for as definitions, lists of messages or what
    /// connections that wait have received; without what it held before its first connection.
    fn unaccounted_bytes(&self) -> isize {
        let buffers = self.connections.iter().map(|one| one.cable.outbound_heap_bytes(one.side));
        let account = self.shards.iter().map(|node| {
            let broker = node.shard.broker();
            broker.catalog().bytes() + broker.list_overhead_bytes() + node.shard.unconsumed_bytes()
        });
        let disks = self.disks.as_ref().map_or(0, |disks| disks.heap_bytes() - self.disks_heap_bytes);
        self.heap.held_bytes() - disks - buffers.sum::<isize>() - account.sum::<usize>() as isize
    }

    /// What is wrong if its heap is more than it accounts for, and so many bytes for each shard, and what keeps them busy.
    pub fn excess_heap(&self, shard_bytes_max: usize) -> Option<String> {
        let shards = self.shards.len();
        let logs = self.disks.as_ref().map_or(0, BrokerDisks::count);
        let logs_bytes_max = logs * LOG_HEAP_BYTES_MAX;
        let bytes_max = shards * shard_bytes_max + shards * (shards - 1) * MAILBOX_HEAP_BYTES_MAX + logs_bytes_max;
        let bytes = self.unaccounted_bytes();
        let is_excess = usize::try_from(bytes).is_ok_and(|bytes| bytes > bytes_max);
        is_excess.then(|| format!("{bytes} bytes of the heap that nothing accounts for, of {bytes_max}"))
    }

    /// What it has of connections, queues and messages, in words: a leak when all clients have gone.
    pub fn leftovers(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for (shard, node) in self.shards.iter_mut().enumerate() {
            self.heap.measure(|| node.pool.collect());
            let counts = [
                ("connections", node.shard.connections()),
                ("queues", node.shard.broker().queues().count()),
                ("bytes of output", node.shard.effects().output_bytes()),
                ("bytes of lists", node.shard.broker().list_overhead_bytes()),
                ("bytes of message memory", node.pool.used_bytes()),
            ];
            let store = node.shard.effects().store_census();
            let counts = counts.into_iter().chain(node.shard.broker().census()).chain(store);
            let counts = counts.filter(|&(_, count)| count > 0);
            left.extend(counts.map(|(what, count)| format!("{count} {what} on shard {shard}")));
        }
        left
    }

    /// Whether bytes are under way, an edge waits for a shard, or a shard is awake.
    pub fn is_busy(&self) -> bool {
        self.connections.iter().any(|connection| !connection.over && connection.cable.is_busy())
            || self.shards.iter().any(|node| node.awake || node.woken.load(Ordering::Relaxed))
    }
}
