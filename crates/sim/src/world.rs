//! A broker of the simulation: shards that sleep and wake as their threads would, links, and time.
//!
//! Enters: connections, dials, rounds.  Leaves: ticks of the shards, in random order.
//! Owns:   the clock, the shards, the cables of all connections.
//! Never:  ticks a shard that a reactor would have left asleep: a wake-up that is lost stays lost.

use crate::terms::Terms;
use broker::{Broker, BrokerOptions};
use catalog::{Catalog, CatalogLimits, Definition, Name, Password, Permission, ShardId};
use link::sim::{SimConnection, SimLink, SimOptions, SimSide, SplitMix64, pair};
use session::Greeting;
use shard::{
    DialRequest, DialError, DialedLink, Mailbox, Shard, ShardEffects, ShardOptions, ShardWaker, SharedState, WakeTarget, TickOutcome,
};
use slab::{Pool, PoolOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{Table, Value};

/// One shard, as its reactor would run it.
pub struct Node {
    /// The shard.
    pub shard: Shard,
    /// Its message memory.
    pub pool: Pool,
    doorbell: Arc<ShardWaker>,
    rung: Arc<AtomicBool>,
    awake: bool,
    until: Option<Instant>,
}

/// A connection's way through the broker.
pub struct Wire {
    /// The cable.
    pub cable: SimConnection,
    /// The broker's end: the right one of those that came, the left one of those that it has dialled.
    pub side: SimSide,
    /// The shard that serves it.
    pub shard: usize,
    /// Its slot there.
    pub slot: u32,
    over: bool,
}

struct NoteBell(Arc<AtomicBool>);

impl WakeTarget for NoteBell {
    fn wake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A broker with its links: everything but the clients.
pub struct World {
    /// The shards.
    pub nodes: Vec<Node>,
    /// Every connection there has been.
    pub wires: Vec<Wire>,
    /// What the shards share.
    pub household: Arc<SharedState>,
    /// Now.
    pub now: Instant,
    start: Instant,
    /// Calls of `tick`.
    pub ticks: u64,
}

impl World {
    /// A broker without connections.
    pub fn new(terms: &Terms) -> Self {
        let mut chance = SplitMix64::new(terms.seed ^ 0xB40C);
        let (now, epoch_unix_s) = (terms.now, 1_000_000_000);
        let household = Arc::new(SharedState::new(terms.shards, terms.bounds.memory_bytes_max, 1_000));
        let rungs: Vec<_> = (0..terms.shards).map(|_| Arc::new(AtomicBool::new(false))).collect();
        let bells: Vec<_> = rungs.iter().map(|rung| ShardWaker::new(Box::new(NoteBell(Arc::clone(rung))))).collect();
        let capabilities = ["publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked"];
        let capabilities = capabilities
            .iter()
            .fold(Table::default(), |table, name| table.with(name, Value::Bool(true)).expect("a short name"));
        let properties = Table::default().with("capabilities", Value::Table(capabilities)).expect("a short name");
        let properties = properties.with("cluster_name", Value::text(&terms.name)).expect("a short name");
        let greeting = Arc::new(Greeting::new(&properties, "PLAIN"));
        let nodes = Mailbox::connect(&bells).into_iter().zip(bells).zip(rungs).zip(0..terms.shards);
        let nodes = nodes.map(|(((mail, doorbell), rung), id)| {
            let mut catalog = Catalog::new(CatalogLimits {
                hash_seed: terms.seed,
                // Delivery limits come with the other types of queues.
                queue_types_as_classic: true,
                ..CatalogLimits::default()
            });
            let (vhost, user) = (Name::from("/"), Name::from("guest"));
            let definitions = [
                Definition::CreateVhost { name: vhost.clone() },
                Definition::PutUser {
                    name: user.clone(),
                    password: Password::plain("guest"),
                    tags: vec![],
                    loopback_only: true,
                },
                Definition::SetPermission { user, vhost, permission: Permission::all() },
            ];
            for definition in &definitions {
                catalog.execute(definition).expect("a fresh catalog takes its first definitions");
            }
            let shard = ShardId(id);
            let pool = Pool::new(PoolOptions::default());
            let mut seed = [0; 32];
            seed[..8].copy_from_slice(&chance.next_u64().to_le_bytes());
            let broker_options = BrokerOptions {
                shard,
                shards: terms.shards,
                queue_bytes_max: terms.bounds.queue_bytes_max,
                epoch_unix_s,
                consumer_timeout_ms: terms.bounds.consumer_timeout_ms,
            };
            let options = ShardOptions {
                shard,
                session: terms.bounds.session(),
                rdma_frame_bytes_max: session::limits::BODY_FRAME_BYTES_MAX,
                greeting: Arc::clone(&greeting),
                login_timeout: Duration::from_secs(10),
                epoch: now,
                cluster_name: terms.name.clone(),
            };
            let desk = ShardEffects::new(pool.clone(), mail, terms.bounds.output_bytes_max, seed);
            let mut broker = Broker::new(broker_options, catalog);
            broker.set_origin(terms.seed);
            let shard = Shard::new(options, broker, desk, Arc::clone(&household));
            Node { shard, pool, doorbell, rung, awake: true, until: None }
        });
        World { nodes: nodes.collect(), wires: Vec::new(), household, now, start: now, ticks: 0 }
    }

    /// A client connects. Answers its end, and the number of its wire.
    pub fn connect(&mut self, options: &SimOptions) -> (SimLink, usize) {
        let (near, far, cable) = pair(options);
        (near, self.admit(far, cable))
    }

    /// The right end of a cable comes in. Answers the number of its wire.
    pub fn admit(&mut self, far: SimLink, cable: SimConnection) -> usize {
        let shard = usize::from(self.household.assign_connection().expect("there is room for a thousand"));
        let node = &mut self.nodes[shard];
        let slot = node.shard.accept(Box::new(far), self.now);
        node.awake = true;
        self.wires.push(Wire { cable, side: SimSide::Right, shard, slot, over: false });
        self.wires.len() - 1
    }

    /// What became of a dial of a shard. Answers the number of the wire, if the shard still wanted one.
    pub fn dialled(
        &mut self,
        shard: usize,
        dial: &DialRequest,
        outcome: Result<(DialedLink, SimConnection), DialError>,
    ) -> Option<usize> {
        let node = &mut self.nodes[shard];
        node.awake = true;
        let (outcome, cable) = match outcome {
            Ok((dialled, cable)) => (Ok(dialled), Some(cable)),
            Err(error) => (Err(error), None),
        };
        let slot = node.shard.on_dial_outcome(dial, outcome, self.now)?;
        self.wires.push(Wire { cable: cable?, side: SimSide::Left, shard, slot, over: false });
        Some(self.wires.len() - 1)
    }

    /// Does something to a shard that wakes it, as an arrival would.
    pub fn wake<T>(&mut self, shard: usize, what: impl FnOnce(&mut Shard, Instant) -> T) -> T {
        let node = &mut self.nodes[shard];
        node.awake = true;
        what(&mut node.shard, self.now)
    }

    /// Forgets the wires that are over.
    pub fn forget_wires(&mut self) {
        self.wires.retain(|wire| !wire.over);
    }

    /// Microseconds since the beginning.
    pub fn us(&self) -> u64 {
        self.now.duration_since(self.start).as_micros() as u64
    }

    /// Time passes.
    pub fn pass(&mut self, us: u64) {
        self.now += Duration::from_micros(us);
    }

    /// One cable moves on. Answers whether something arrived.
    pub fn step_wire(&mut self, wire: usize) -> bool {
        !self.wires[wire].over && self.wires[wire].cable.step()
    }

    /// Ticks a shard if it is awake or something wakes it. Answers whether it was ticked.
    pub fn run(&mut self, node: usize) -> bool {
        let now = self.now;
        let mut edges_came = false;
        for wire in self.wires.iter_mut().filter(|wire| !wire.over && wire.shard == node) {
            if wire.cable.is_closed(wire.side) {
                wire.over = true;
                continue;
            }
            let edges = wire.cable.take_edges(wire.side);
            if edges.any() {
                edges_came = true;
                self.nodes[node].shard.on_readiness(wire.slot, edges.readable, edges.writable, edges.closed);
            }
        }
        let node = &mut self.nodes[node];
        let rung = node.rung.swap(false, Ordering::Relaxed);
        if !(node.awake || rung || edges_came || node.until.is_some_and(|until| until <= now)) {
            return false;
        }
        node.doorbell.is_awake();
        self.ticks += 1;
        match node.shard.tick(now) {
            TickOutcome::More => node.awake = true,
            TickOutcome::Idle { until } => {
                node.until = until;
                node.doorbell.will_sleep();
                node.awake = node.shard.has_messages();
            }
        }
        true
    }

    /// What keeps the world busy, in words.
    pub fn busy(&self) -> Vec<String> {
        let nodes = self.nodes.iter().enumerate().filter(|(_, node)| node.awake);
        let nodes = nodes.map(|(at, node)| format!("shard {at} is awake, mail: {}", node.shard.has_messages()));
        let wires = self.wires.iter().filter(|wire| !wire.over && wire.cable.is_busy());
        let wires = wires.map(|wire| {
            let (left, right) = (wire.cable.unread_bytes(SimSide::Left), wire.cable.unread_bytes(SimSide::Right));
            format!("slot {} of shard {}: {left} bytes for the client, {right} for the broker", wire.slot, wire.shard)
        });
        nodes.chain(wires).collect()
    }

    /// What is left of connections, queues and messages, in words: when everybody has gone, a leak.
    pub fn left(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for (shard, node) in self.nodes.iter_mut().enumerate() {
            node.pool.collect();
            let counts = [
                ("connections", node.shard.connections()),
                ("queues", node.shard.broker().queues().count()),
                ("bytes of output", node.shard.effects().output_bytes()),
                ("bytes of lists", node.shard.broker().list_overhead_bytes()),
                ("bytes of message memory", node.pool.used_bytes()),
            ];
            let counts = counts.into_iter().chain(node.shard.broker().census());
            let counts = counts.filter(|&(_, count)| count > 0);
            left.extend(counts.map(|(what, count)| format!("{count} {what} on shard {shard}")));
        }
        left
    }

    /// Whether bytes are under way anywhere, or an edge waits for a shard.
    pub fn is_busy(&self) -> bool {
        self.wires.iter().any(|wire| !wire.over && wire.cable.is_busy())
            || self.nodes.iter().any(|node| node.awake || node.rung.load(Ordering::Relaxed))
    }
}
