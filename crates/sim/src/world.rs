//! The broker's side of the simulation: shards that sleep and wake as their threads would, links, and time.
//!
//! Enters: connections, rounds.  Leaves: ticks of the shards, in random order.
//! Owns:   the clock, the shards, the cables of all connections.
//! Never:  ticks a shard that a reactor would have left asleep: a wake-up that is lost stays lost.

use crate::setting::Setting;
use broker::{Broker, BrokerOptions};
use catalog::{Catalog, Definition, Limits, Name, Password, Permission, ShardId};
use link::sim::{Cable, Chance, Side, SimLink, SimOptions, pair};
use session::{Greeting, SessionLimits};
use shard::{Bell, Desk, Doorbell, Household, Mail, Shard, ShardOptions, Work};
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
    doorbell: Arc<Doorbell>,
    rung: Arc<AtomicBool>,
    awake: bool,
    until: Option<Instant>,
}

/// A connection's way through the broker.
pub struct Wire {
    /// The cable; the broker is its right side.
    pub cable: Cable,
    /// The shard that serves it.
    pub shard: usize,
    slot: u32,
    over: bool,
}

struct NoteBell(Arc<AtomicBool>);

impl Bell for NoteBell {
    fn ring(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Everything but the clients.
pub struct World {
    /// The shards.
    pub nodes: Vec<Node>,
    /// Every connection there has been.
    pub wires: Vec<Wire>,
    /// What the shards share.
    pub household: Arc<Household>,
    /// Now.
    pub now: Instant,
    start: Instant,
    /// Calls of `tick`.
    pub ticks: u64,
}

/// What a connection of a run may use.
pub fn session_limits(setting: &Setting) -> SessionLimits {
    SessionLimits {
        frame_bytes_max: setting.frame_bytes_max,
        heartbeat_s: setting.heartbeat_s,
        ..SessionLimits::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "simulated time needs some instant to count from; nothing depends on it")]
fn some_instant() -> Instant {
    Instant::now()
}

impl World {
    /// A broker without connections.
    pub fn new(setting: &Setting) -> Self {
        let mut chance = Chance::new(setting.seed ^ 0xB40C);
        let (now, epoch_unix_s) = (some_instant(), 1_000_000_000);
        let household = Arc::new(Household::new(setting.shards, setting.memory_bytes_max, 1_000));
        let rungs: Vec<_> = (0..setting.shards).map(|_| Arc::new(AtomicBool::new(false))).collect();
        let bells: Vec<_> = rungs.iter().map(|rung| Doorbell::new(Box::new(NoteBell(Arc::clone(rung))))).collect();
        let capabilities = ["publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked"];
        let capabilities = capabilities
            .iter()
            .fold(Table::default(), |table, name| table.with(name, Value::Bool(true)).expect("a short name"));
        let properties = Table::default().with("capabilities", Value::Table(capabilities)).expect("a short name");
        let greeting = Arc::new(Greeting::new(&properties, "PLAIN"));
        let nodes = Mail::connect(&bells).into_iter().zip(bells).zip(rungs).zip(0..setting.shards);
        let nodes = nodes.map(|(((mail, doorbell), rung), id)| {
            let mut catalog = Catalog::new(Limits {
                hash_seed: setting.seed,
                // Delivery limits come with the other types of queues.
                queue_types_as_classic: true,
                ..Limits::default()
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
            seed[..8].copy_from_slice(&chance.number().to_le_bytes());
            let broker_options = BrokerOptions {
                shard,
                shards: setting.shards,
                queue_bytes_max: setting.queue_bytes_max,
                epoch_unix_s,
                consumer_timeout_ms: setting.consumer_timeout_ms,
            };
            let options = ShardOptions {
                shard,
                session: session_limits(setting),
                rdma_frame_bytes_max: session::limits::BODY_FRAME_BYTES_MAX,
                greeting: Arc::clone(&greeting),
                login_timeout: Duration::from_secs(10),
                epoch: now,
            };
            let desk = Desk::new(pool.clone(), mail, setting.output_bytes_max, seed);
            let shard = Shard::new(options, Broker::new(broker_options, catalog), desk, Arc::clone(&household));
            Node { shard, pool, doorbell, rung, awake: true, until: None }
        });
        World { nodes: nodes.collect(), wires: Vec::new(), household, now, start: now, ticks: 0 }
    }

    /// A client connects. Answers its end, and the number of its wire.
    pub fn connect(&mut self, options: &SimOptions) -> (SimLink, usize) {
        let shard = usize::from(self.household.place_connection().expect("there is room for a thousand"));
        let (near, far, cable) = pair(options);
        let node = &mut self.nodes[shard];
        let slot = node.shard.accept(Box::new(far), self.now);
        node.awake = true;
        self.wires.push(Wire { cable, shard, slot, over: false });
        (near, self.wires.len() - 1)
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
            if wire.cable.is_over(Side::Right) {
                wire.over = true;
                continue;
            }
            let edges = wire.cable.take_edges(Side::Right);
            if edges.any() {
                edges_came = true;
                self.nodes[node].shard.edge(wire.slot, edges.readable, edges.writable, edges.closed);
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
            Work::More => node.awake = true,
            Work::Idle { until } => {
                node.until = until;
                node.doorbell.will_sleep();
                node.awake = node.shard.has_mail();
            }
        }
        true
    }

    /// What keeps the world busy, in words.
    pub fn busy(&self) -> Vec<String> {
        let nodes = self.nodes.iter().enumerate().filter(|(_, node)| node.awake);
        let nodes = nodes.map(|(at, node)| format!("shard {at} is awake, mail: {}", node.shard.has_mail()));
        let wires = self.wires.iter().filter(|wire| !wire.over && wire.cable.is_busy());
        let wires = wires.map(|wire| {
            let (left, right) = (wire.cable.bytes_for(Side::Left), wire.cable.bytes_for(Side::Right));
            format!("slot {} of shard {}: {left} bytes for the client, {right} for the broker", wire.slot, wire.shard)
        });
        nodes.chain(wires).collect()
    }

    /// Whether bytes are under way anywhere, or an edge waits for a shard.
    pub fn is_busy(&self) -> bool {
        self.wires.iter().any(|wire| !wire.over && wire.cable.is_busy())
            || self.nodes.iter().any(|node| node.awake || node.rung.load(Ordering::Relaxed))
    }
}
