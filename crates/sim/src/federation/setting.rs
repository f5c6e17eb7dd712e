//! What kind of run of several brokers a seed is: which brokers, which routes between them, which faults.
//!
//! Enters: a seed.  Leaves: a setting.
//! Owns:   the ranges, the shapes of graphs, the keys.
//! Never:  draws anything once the run has begun.

use crate::terms::{Bounds, ROOMY_MEMORY_BYTES, ROOMY_OUTPUT_BYTES, ROOMY_QUEUE_BYTES};
use federation::{AckMode, RouteDirection, LinkKey, LinkSpec, RouteKind, RouteSpec};
use link::sim::SplitMix64;

/// Hops for every way between the brokers of a run.
const HOPS_ENOUGH: u16 = 8;

/// How brokers are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A tree; messages go down.
    Down,
    /// A tree; messages go both ways.
    Tree,
    /// A ring; messages go one way, or both.
    Ring,
    /// A tree both ways with more edges.
    Graph,
}

/// An exchange, the same at every broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Equal keys.
    Direct,
    /// Patterns.
    Topic,
    /// Everything.
    Fanout,
}

impl Kind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Direct => "direct",
            Kind::Topic => "topic",
            Kind::Fanout => "fanout",
        }
    }

    /// What queues and routes are bound with.
    pub const fn patterns(self) -> &'static [&'static str] {
        match self {
            Kind::Direct => &["k0", "k1", "k2", "k3"],
            Kind::Topic => &["a.b", "a.*", "#", "*.b", "a.#", "c.d"],
            Kind::Fanout => &["", "k0"],
        }
    }

    /// What is published.
    pub const fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::Direct => &["k0", "k1", "k2", "k3"],
            Kind::Topic => &["a.b", "a.c", "c.d", "c.b"],
            Kind::Fanout => &["", "k0"],
        }
    }

    /// Whether a pattern lets a key through.
    pub fn matches(self, pattern: &str, key: &str) -> bool {
        match self {
            Kind::Direct => pattern == key,
            Kind::Topic => crate::routing::is_topic(pattern, key),
            Kind::Fanout => true,
        }
    }
}

/// A route between two brokers.
#[derive(Clone, Debug)]
pub struct Edge {
    /// From this broker.
    pub source: usize,
    /// To this one.
    pub destination: usize,
    /// The number of its exchange.
    pub exchange: usize,
    /// The route as an operator orders it.
    pub spec: RouteSpec,
    /// Of a route from a queue: what that queue is bound with at the source.
    pub feed: Option<&'static str>,
}

impl Edge {
    /// Who dials whom.
    pub fn ends(&self) -> (usize, usize) {
        match self.spec.direction {
            RouteDirection::Pull => (self.destination, self.source),
            RouteDirection::Push => (self.source, self.destination),
        }
    }

    /// The link that it rides on, at the broker that dials.
    pub fn link(&self) -> LinkSpec {
        let peer = self.ends().1;
        let key = LinkKey { vhost: "/".into(), peer: format!("b{peer}").into() };
        LinkSpec { key, url: format!("amqp://guest:guest@b{peer}/%2F").into(), user: "guest".into(), durable: false }
    }

    /// It becomes a pulled dynamic route that makes a second path, whatever it was. A message that came by a long way goes on, and
    /// one by a short way behind it does not: there must be hops for the longest.
    fn force(&mut self) {
        (self.spec.kind, self.spec.direction, self.feed) = (RouteKind::Dynamic, RouteDirection::Pull, None);
        (self.spec.hops_max, self.spec.forced) = (HOPS_ENOUGH, true);
    }

    /// Whether what it has sent comes again when it was not acknowledged.
    pub fn keeps(&self) -> bool {
        self.spec.ack == AckMode::Confirm
    }

    /// Whether the bindings of the destination decide what it carries.
    pub fn is_dynamic(&self) -> bool {
        self.spec.kind == RouteKind::Dynamic
    }

    /// The pattern of one whose bindings never change.
    pub fn pattern(&self) -> Option<&str> {
        match &self.spec.kind {
            RouteKind::Dynamic => None,
            RouteKind::Static { key } => Some(key),
            RouteKind::Queue { .. } => self.feed,
        }
    }
}

/// A run's setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed.
    pub seed: u64,
    /// How the brokers are joined.
    pub shape: Shape,
    /// Shards of each broker.
    pub shards: Vec<u16>,
    /// The exchanges.
    pub exchanges: Vec<Kind>,
    /// The routes.
    pub edges: Vec<Edge>,
    /// Brokers that a message may come through.
    pub hops_max: u16,
    /// Storms, each with a rest behind it and a calm in which everything must come through.
    pub storms: u32,
    /// Steps of a storm.
    pub steps: u32,
    /// Most microseconds of a step.
    pub step_us_max: u64,
    /// Whether links are cut, and dials fail.
    pub cuts: bool,
    /// Whether brokers stop and come back.
    pub stops: bool,
    /// Whether routes are removed and added under load.
    pub reroutes: bool,
    /// Whether directions of links are slow, or stand still for a while, and consumers too.
    pub slow: bool,
    /// Whether connections fall silent: nothing passes, and nobody is told. Heartbeats find it.
    pub silences: bool,
    /// Whether logins are refused now and then.
    pub refusals: bool,
    /// Whether clients' connections break too. Then they acknowledge what they take.
    pub client_cuts: bool,
    /// Whether the second paths are forced: all routes are dynamic then, and what comes twice is dropped.
    pub forced: bool,
    /// The limits of every broker, and what links are like.
    pub bounds: Bounds,
}

impl Setting {
    /// The setting of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = SplitMix64::new(seed ^ 0xFED);
        let shape =
            [Shape::Down, Shape::Tree, Shape::Tree, Shape::Tree, Shape::Ring, Shape::Graph][chance.below(6) as usize];
        let brokers = chance.between(if shape == Shape::Ring { 3 } else { 2 }, 6) as usize;
        let shards = (0..brokers).map(|_| chance.between(1, 2) as u16).collect();
        let kind =
            |chance: &mut SplitMix64| [Kind::Direct, Kind::Topic, Kind::Topic, Kind::Fanout][chance.below(4) as usize];
        let exchanges: Vec<_> = (0..chance.between(1, 2)).map(|_| kind(&mut chance)).collect();
        let hops_max = if chance.permille(700) { HOPS_ENOUGH } else { chance.between(1, 4) as u16 };
        let pairs = pairs(shape, brokers, &mut chance);
        let mixed = chance.permille(350);
        let acks: &[AckMode] = match chance.below(10) {
            0..6 => &[AckMode::Confirm],
            6..8 => &[AckMode::None],
            _ => &[AckMode::Confirm, AckMode::None],
        };
        let credits = [0, 1, 3, 100];
        let one_credit = credits[chance.below(4) as usize];
        let same_credit = chance.permille(600);
        let mut edges = Vec::new();
        for (source, destination) in pairs {
            for (exchange, kind) in exchanges.iter().enumerate() {
                let pattern = kind.patterns()[chance.below(kind.patterns().len() as u64) as usize];
                let queue = format!("feed {source} {destination} {exchange}");
                let of = if mixed { chance.below(4) } else { 0 };
                let (kind, feed) = match of {
                    0 | 1 => (RouteKind::Dynamic, None),
                    2 => (RouteKind::Static { key: pattern.into() }, None),
                    _ => (RouteKind::Queue { queue: queue.into() }, Some(pattern)),
                };
                let pushes = kind != RouteKind::Dynamic && chance.permille(500);
                let spec = RouteSpec {
                    exchange: format!("x{exchange}").into(),
                    kind,
                    direction: if pushes { RouteDirection::Push } else { RouteDirection::Pull },
                    ack: acks[chance.below(acks.len() as u64) as usize],
                    credit: if same_credit { one_credit } else { credits[chance.below(4) as usize] },
                    hops_max,
                    durable: chance.permille(200),
                    forced: false,
                };
                edges.push(Edge { source, destination, exchange, spec, feed });
            }
        }
        // Where messages go round, full queues can wait for one another in a ring, as in every network of stores. What is taken
        // from a queue, and not from an exchange, goes back to where it came from, to be dropped only there: that is a ring, too.
        // Trees of other routes have none (docs/operations/federation.md).
        let feeds = edges.iter().any(|edge| matches!(edge.spec.kind, RouteKind::Queue { .. }));
        let small = matches!(shape, Shape::Down | Shape::Tree) && !feeds && chance.permille(500);
        // Drawn in this order, which the numbers of seeds rest on.
        let (storms, steps) = (chance.between(1, 3) as u32, chance.between(50, 400) as u32);
        let step_us_max = [200, 2_000, 10_000][chance.below(3) as usize];
        let (cuts, stops, reroutes) = (chance.permille(500), chance.permille(350), chance.permille(300));
        let (slow, faulty_links) = (chance.permille(500), chance.permille(600));
        let queue_bytes_max = if small { 1 << chance.between(10, 14) } else { ROOMY_QUEUE_BYTES };
        let output_bytes_max = if small { 1 << chance.between(9, 13) } else { ROOMY_OUTPUT_BYTES };
        let frame_bytes_max = [4_096, 131_072][chance.below(2) as usize];
        // These have a chance of their own: earlier seeds are what they were.
        let mut more = SplitMix64::new(seed ^ 0xFED2);
        let (silences, refusals, client_cuts) = (more.permille(200), more.permille(200), more.permille(250));
        let heartbeat_s = if silences { [10, 15][more.below(2) as usize] } else { 0 };
        let forced = matches!(shape, Shape::Ring | Shape::Graph) && more.permille(600);
        let hops_max = if forced { HOPS_ENOUGH } else { hops_max };
        if forced {
            edges.iter_mut().for_each(Edge::force);
        }
        if stops && more.permille(500) {
            edges.iter_mut().for_each(|edge| edge.spec.durable = true);
        }
        let bounds = Bounds {
            output_bytes_max,
            queue_bytes_max,
            memory_bytes_max: ROOMY_MEMORY_BYTES,
            frame_bytes_max,
            heartbeat_s,
            consumer_timeout_ms: 0,
            faulty_links,
        };
        Setting {
            seed,
            shape,
            shards,
            exchanges,
            edges,
            hops_max,
            storms,
            steps,
            step_us_max,
            cuts,
            stops,
            reroutes,
            slow,
            silences,
            refusals,
            client_cuts,
            forced,
            bounds,
        }
    }

    /// Whether there is one way at most from one broker to another.
    pub fn is_tree(&self) -> bool {
        matches!(self.shape, Shape::Down | Shape::Tree)
    }
}

/// Which broker sends to which.
fn pairs(shape: Shape, brokers: usize, chance: &mut SplitMix64) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    if shape == Shape::Ring {
        let both = chance.permille(500);
        for one in 0..brokers {
            let next = (one + 1) % brokers;
            pairs.push((one, next));
            if both {
                pairs.push((next, one));
            }
        }
        return pairs;
    }
    for child in 1..brokers {
        let parent = chance.below(child as u64) as usize;
        pairs.push((parent, child));
        if shape != Shape::Down {
            pairs.push((child, parent));
        }
    }
    if shape == Shape::Graph {
        for _ in 0..chance.between(1, 4) {
            let (one, other) = (chance.below(brokers as u64) as usize, chance.below(brokers as u64) as usize);
            if one != other && !pairs.contains(&(one, other)) {
                pairs.push((one, other));
            }
        }
    }
    pairs
}
