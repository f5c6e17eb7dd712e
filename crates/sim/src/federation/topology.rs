//! The settings of a run with several brokers: which brokers, which routes between them, which faults.

use crate::broker_limits::{AMPLE_MEMORY_BYTES, AMPLE_OUTPUT_BYTES, AMPLE_QUEUE_BYTES, BrokerLimits};
use crate::limits::REST_QUIET_STEP_US;
use crate::settings::{FaultSettings, Schedule, Settings, TurnOrder, WorkloadSettings};
use federation::{AckMode, LinkKey, LinkSpec, RouteDirection, RouteKind, RouteSpec};
use splitmix::SplitMix64;
use std::fmt::{self, Display, Formatter};

/// Hops for every path between the brokers of a run.
const HOPS_ENOUGH: u16 = 8;
/// Simulated seconds that a world may take to come to rest: several times the longest back-off of a link.
const REST_S_MAX: u64 = 240;

/// How the brokers are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyShape {
    /// A tree; messages pass from the root to the leaves.
    Down,
    /// A tree; messages pass in both directions.
    Tree,
    /// A ring; messages pass in one direction, or both.
    Ring,
    /// A tree in both directions with further edges.
    Graph,
}

/// An exchange that every broker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FederatedExchange {
    /// Equal keys.
    Direct,
    /// Patterns.
    Topic,
    /// Everything.
    Fanout,
}

impl FederatedExchange {
    /// The name of its type in AMQP.
    pub const fn type_name(self) -> &'static str {
        match self {
            FederatedExchange::Direct => "direct",
            FederatedExchange::Topic => "topic",
            FederatedExchange::Fanout => "fanout",
        }
    }

    /// The binding keys of queues and routes.
    pub const fn patterns(self) -> &'static [&'static str] {
        match self {
            FederatedExchange::Direct => &["k0", "k1", "k2", "k3"],
            FederatedExchange::Topic => &["a.b", "a.*", "#", "*.b", "a.#", "c.d"],
            FederatedExchange::Fanout => &["", "k0"],
        }
    }

    /// The routing keys of messages.
    pub const fn keys(self) -> &'static [&'static str] {
        match self {
            FederatedExchange::Direct => &["k0", "k1", "k2", "k3"],
            FederatedExchange::Topic => &["a.b", "a.c", "c.d", "c.b"],
            FederatedExchange::Fanout => &["", "k0"],
        }
    }

    /// Whether a binding with this key routes a message with that one.
    pub fn matches(self, pattern: &str, key: &str) -> bool {
        match self {
            FederatedExchange::Direct => pattern == key,
            FederatedExchange::Topic => crate::topic_pattern::matches(pattern, key),
            FederatedExchange::Fanout => true,
        }
    }
}

/// A federation route between two brokers.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    /// The broker that messages come from.
    pub source: usize,
    /// The broker that they go to.
    pub destination: usize,
    /// The number of its exchange.
    pub exchange: usize,
    /// The route as an operator configures it.
    pub spec: RouteSpec,
    /// For a route from a queue: the binding key of that queue at the source.
    pub feed: Option<&'static str>,
}

impl RouteSettings {
    /// The broker that dials, and the one that it dials.
    pub fn ends(&self) -> (usize, usize) {
        match self.spec.direction {
            RouteDirection::Pull => (self.destination, self.source),
            RouteDirection::Push => (self.source, self.destination),
        }
    }

    /// The link that carries it, at the broker that dials.
    pub fn link(&self) -> LinkSpec {
        let peer = self.ends().1;
        let key = LinkKey::of_operator("/".into(), format!("b{peer}").into());
        LinkSpec {
            key,
            url: format!("amqp://guest:guest@b{peer}/%2F").into(),
            user: "guest".into(),
            durable: false,
            options: Default::default(),
        }
    }

    /// Turns it into a dynamic pull route that makes a second path. A message that arrived by a long path is forwarded, and
    /// its duplicate by a short path is dropped: there must be hops for the longest path.
    fn force(&mut self) {
        (self.spec.kind, self.spec.direction, self.feed) = (RouteKind::Dynamic, RouteDirection::Pull, None);
        (self.spec.hops_max, self.spec.forced) = (HOPS_ENOUGH, true);
    }

    /// Whether it sends a message again that was not acknowledged.
    pub fn keeps(&self) -> bool {
        self.spec.ack == AckMode::Confirm
    }

    /// Whether the bindings of the destination decide what it carries.
    pub fn is_dynamic(&self) -> bool {
        self.spec.kind == RouteKind::Dynamic
    }

    /// The binding key of a route whose bindings never change.
    pub fn pattern(&self) -> Option<&str> {
        match &self.spec.kind {
            RouteKind::Dynamic => None,
            RouteKind::Static { key } => Some(key),
            RouteKind::Queue { .. } => self.feed,
        }
    }
}

impl Display for RouteSettings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let RouteSettings { source, destination, spec, feed, .. } = self;
        let (title, ack, credit, feed) = (spec.title(), spec.ack, spec.credit, feed.unwrap_or_default());
        write!(f, "b{source} -> b{destination}: {title} {feed} {ack:?} credit {credit}")
    }
}

/// What is drawn for a run with several brokers alone.
#[derive(Clone, Debug)]
pub struct FederationSettings {
    /// How the brokers are joined.
    pub shape: TopologyShape,
    /// The exchanges, the same at every broker.
    pub exchanges: Vec<FederatedExchange>,
    pub routes: Vec<RouteSettings>,
    /// How many brokers a message may pass.
    pub hops_max: u16,
    /// Storms, each followed by a rest and a calm in which everything must arrive.
    pub storms: u32,
    /// Steps of a storm.
    pub steps: u32,
    /// Whether second paths are forced: all routes are dynamic then, and duplicates are dropped.
    pub forced: bool,
}

impl FederationSettings {
    /// The settings of a seed.
    pub fn draw(seed: u64) -> Settings {
        let mut chance = SplitMix64::new(seed ^ 0xFED);
        let shape = {
            use TopologyShape::{Down, Graph, Ring, Tree};
            [Down, Tree, Tree, Tree, Ring, Graph][chance.below(6) as usize]
        };
        let brokers = chance.between(if shape == TopologyShape::Ring { 3 } else { 2 }, 6) as usize;
        let shards: Vec<u16> = (0..brokers).map(|_| chance.between(1, 2) as u16).collect();
        let kind = |chance: &mut SplitMix64| {
            use FederatedExchange::{Direct, Fanout, Topic};
            [Direct, Topic, Topic, Fanout][chance.below(4) as usize]
        };
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
        let mut routes = Vec::new();
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
                    dead_letter_exchange: None,
                    options: Default::default(),
                };
                routes.push(RouteSettings { source, destination, exchange, spec, feed });
            }
        }
        // In a cycle of brokers, full queues can wait for one another, as in every store-and-forward network. A message taken
        // from a queue, and not from an exchange, returns to the broker it came from and is dropped only there: that is a
        // cycle, too. Trees of other routes have none (docs/operations/federation.md).
        let feeds = routes.iter().any(|route| matches!(route.spec.kind, RouteKind::Queue { .. }));
        let small = matches!(shape, TopologyShape::Down | TopologyShape::Tree) && !feeds && chance.permille(500);
        // The results of known seeds depend on the order of these draws.
        let (storms, steps) = (chance.between(1, 3) as u32, chance.between(50, 400) as u32);
        let step_us_max = [200, 2_000, 10_000][chance.below(3) as usize];
        let (link_cuts, stops, reroutes) = (chance.permille(500), chance.permille(350), chance.permille(300));
        let (slow, faulty_links) = (chance.permille(500), chance.permille(600));
        let queue_bytes_max = if small { 1 << chance.between(10, 14) } else { AMPLE_QUEUE_BYTES };
        let output_bytes_max = if small { 1 << chance.between(9, 13) } else { AMPLE_OUTPUT_BYTES };
        let frame_bytes_max = [4_096, 131_072][chance.below(2) as usize];
        // These have a sequence of their own, so that older seeds keep their results.
        let mut more = SplitMix64::new(seed ^ 0xFED2);
        let (silences, refusals, client_cuts) = (more.permille(200), more.permille(200), more.permille(250));
        let heartbeat_s = if silences { [10, 15][more.below(2) as usize] } else { 0 };
        let forced = matches!(shape, TopologyShape::Ring | TopologyShape::Graph) && more.permille(600);
        let hops_max = if forced { HOPS_ENOUGH } else { hops_max };
        if forced {
            routes.iter_mut().for_each(RouteSettings::force);
        }
        if stops && more.permille(500) {
            routes.iter_mut().for_each(|route| route.spec.durable = true);
        }
        let workload = FederationSettings { shape, exchanges, routes, hops_max, storms, steps, forced };
        Settings {
            seed,
            shards,
            limits: BrokerLimits {
                output_bytes_max,
                queue_bytes_max,
                memory_bytes_max: AMPLE_MEMORY_BYTES,
                frame_bytes_max,
                heartbeat_s,
                consumer_timeout_ms: 0,
                work_per_turn: BrokerLimits::draw_work(seed),
                faulty_links,
            },
            schedule: Schedule {
                order: TurnOrder::ByBroker,
                step_us_max,
                cable_permille: 600,
                client_permille: 400,
                // Links of a few bytes only make runs long.
                window_bytes_min: 512,
                quiet_step_us: REST_QUIET_STEP_US,
                rest_s_max: REST_S_MAX,
            },
            faults: FaultSettings { client_cuts, link_cuts, silences, slow, refusals, stops, reroutes },
            workload: WorkloadSettings::Federation(workload),
        }
    }

    /// Draws an exchange and a binding key for it.
    pub fn draw_binding(&self, chance: &mut SplitMix64) -> (usize, &'static str) {
        let exchange = chance.below(self.exchanges.len() as u64) as usize;
        let patterns = self.exchanges[exchange].patterns();
        (exchange, patterns[chance.below(patterns.len() as u64) as usize])
    }

    /// Whether there is at most one path from one broker to another.
    pub fn is_tree(&self) -> bool {
        matches!(self.shape, TopologyShape::Down | TopologyShape::Tree)
    }
}

/// The pairs of a source and a destination.
fn pairs(shape: TopologyShape, brokers: usize, chance: &mut SplitMix64) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    if shape == TopologyShape::Ring {
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
        if shape != TopologyShape::Down {
            pairs.push((child, parent));
        }
    }
    if shape == TopologyShape::Graph {
        for _ in 0..chance.between(1, 4) {
            let (one, other) = (chance.below(brokers as u64) as usize, chance.below(brokers as u64) as usize);
            if one != other && !pairs.contains(&(one, other)) {
                pairs.push((one, other));
            }
        }
    }
    pairs
}
