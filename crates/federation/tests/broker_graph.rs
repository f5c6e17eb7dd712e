//! Binding propagation in graphs of brokers: bindings reach every broker where a matching message may be published, and no longer
//! than somebody has them.
//!
//! The model has brokers that consist of bindings alone, and edges with a propagation each; bindings, cut edges and their return
//! happen in random order and pace. Only what a propagation sends to its source counts.

use catalog::arguments::X_BOUND_FROM;
use federation::{AckMode, BindingPropagation, BrokerIdentity, RouteDirection, RouteKind, RouteSpec};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{Table, TableRef, Value};

const KEYS: [&str; 3] = ["a", "b", "c"];

fn name(broker: usize) -> String {
    format!("broker-{broker}")
}

fn identity(broker: usize) -> BrokerIdentity {
    BrokerIdentity { cluster_name: name(broker).into(), vhost: "/".into() }
}

/// A binding of an internal exchange: its key and its encoded arguments.
type BoundKey = (Vec<u8>, Vec<u8>);

struct RequestInFlight {
    bind: bool,
    bound_key: BoundKey,
}

/// Messages travel from `source` to `dest`, bindings the other way.
struct GraphEdge {
    dest: usize,
    source: usize,
    propagation: BindingPropagation,
    suffix: char,
    up: bool,
    /// The exchange of this connection is not complete yet, so that of the connection before still exists.
    filling: bool,
    /// Requests that the source has not processed.
    in_flight: VecDeque<RequestInFlight>,
}

#[derive(Default)]
struct GraphBroker {
    /// How many queues are bound with a key.
    local: BTreeMap<&'static str, usize>,
    /// The bindings of an internal exchange, by edge and suffix.
    internal: BTreeMap<(usize, char), BTreeSet<BoundKey>>,
}

struct BrokerGraph {
    brokers: Vec<GraphBroker>,
    edges: Vec<GraphEdge>,
    hops_max: u16,
    operations: usize,
}

impl BrokerGraph {
    /// `pairs` are destinations with their sources.
    fn new(brokers: usize, pairs: &[(usize, usize)], hops_max: u16) -> Self {
        let spec = RouteSpec {
            exchange: "x".into(),
            kind: RouteKind::Dynamic,
            direction: RouteDirection::Pull,
            ack: AckMode::Confirm,
            credit: 10,
            hops_max,
            durable: false,
            forced: false,
            dead_letter_exchange: None,
            options: Default::default(),
        };
        let edges = pairs.iter().map(|&(dest, source)| GraphEdge {
            dest,
            source,
            propagation: BindingPropagation::new(identity(dest), &spec, 7),
            suffix: 'A',
            up: false,
            filling: false,
            in_flight: VecDeque::new(),
        });
        let edges = edges.collect();
        let mut world =
            Self { brokers: (0..brokers).map(|_| GraphBroker::default()).collect(), edges, hops_max, operations: 0 };
        (0..pairs.len()).for_each(|edge| world.connect(edge));
        world
    }

    /// A binding of a broker was added or removed.
    fn notify_propagations(&mut self, broker: usize, bind: bool, key: &[u8], arguments: Option<&Table>) {
        for edge in self.edges.iter_mut().filter(|edge| edge.dest == broker) {
            if bind {
                edge.propagation.add(key, arguments);
            } else {
                assert!(edge.propagation.remove(key, arguments), "a propagation knows what is bound");
            }
        }
    }

    fn bind(&mut self, broker: usize, key: &'static str) {
        *self.brokers[broker].local.entry(key).or_default() += 1;
        self.notify_propagations(broker, true, key.as_bytes(), None);
    }

    fn unbind(&mut self, broker: usize, key: &'static str) {
        let Some(count) = self.brokers[broker].local.get_mut(key) else { return };
        *count -= 1;
        if *count == 0 {
            self.brokers[broker].local.remove(key);
        }
        self.notify_propagations(broker, false, key.as_bytes(), None);
    }

    fn apply(&mut self, edge: usize, suffix: char, operation: &RequestInFlight) {
        let source = self.edges[edge].source;
        let bound = self.brokers[source].internal.entry((edge, suffix)).or_default();
        let changed = match operation.bind {
            true => bound.insert(operation.bound_key.clone()),
            false => bound.remove(&operation.bound_key),
        };
        assert!(changed, "nothing is requested twice");
        let arguments = TableRef::new(&operation.bound_key.1).to_table().expect("what is written can be read");
        self.notify_propagations(source, operation.bind, &operation.bound_key.0, Some(&arguments));
    }

    /// Deletes an internal exchange.
    fn drop_exchange(&mut self, edge: usize, suffix: char) {
        let source = self.edges[edge].source;
        for bound_key in self.brokers[source].internal.remove(&(edge, suffix)).unwrap_or_default() {
            let arguments = TableRef::new(&bound_key.1).to_table().expect("it could be read before");
            self.notify_propagations(source, false, &bound_key.0, Some(&arguments));
        }
    }

    fn connect(&mut self, edge: usize) {
        if self.edges[edge].up {
            return;
        }
        let suffix = if self.edges[edge].suffix == 'A' { 'B' } else { 'A' };
        self.drop_exchange(edge, suffix);
        let GraphEdge { propagation, source, .. } = &mut self.edges[edge];
        propagation.begin(Some(identity(*source)), suffix);
        let it = &mut self.edges[edge];
        (it.suffix, it.up, it.filling) = (suffix, true, true);
    }

    /// Requests in flight are lost, bindings remain.
    fn cut(&mut self, edge: usize) {
        let edge = &mut self.edges[edge];
        edge.up = false;
        edge.in_flight.clear();
    }

    /// The source deletes what an edge has left there.
    fn expire(&mut self, edge: usize) {
        self.cut(edge);
        for suffix in ['A', 'B'] {
            self.drop_exchange(edge, suffix);
        }
    }

    /// One step of an edge. Returns false if there is none to take.
    fn advance(&mut self, edge: usize, arrive: bool) -> bool {
        let it = &mut self.edges[edge];
        if !it.up {
            return false;
        }
        if arrive && let Some(operation) = it.in_flight.pop_front() {
            let suffix = it.suffix;
            self.apply(edge, suffix, &operation);
            return true;
        }
        if let Some(operation) = it.propagation.next_operation(&mut { u64::MAX }) {
            let bound_key = (operation.key.to_vec(), operation.arguments.as_bytes().to_vec());
            let bind = operation.bind;
            it.in_flight.push_back(RequestInFlight { bind, bound_key });
            self.operations += 1;
            return true;
        }
        if it.filling && it.in_flight.is_empty() {
            it.filling = false;
            let before = if it.suffix == 'A' { 'B' } else { 'A' };
            self.drop_exchange(edge, before);
            return true;
        }
        false
    }

    fn settle(&mut self, operations_max: usize) {
        self.operations = 0;
        let mut any = true;
        while any {
            any = false;
            for edge in 0..self.edges.len() {
                any |= self.advance(edge, true);
            }
            assert!(self.operations <= operations_max, "{} operations and no end", self.operations);
        }
    }

    /// The brokers on the path of a propagated binding.
    fn path(bound_key: &BoundKey) -> Vec<String> {
        let arguments = TableRef::new(&bound_key.1).to_table().expect("it can be read");
        let list = arguments.get(X_BOUND_FROM).and_then(Value::as_list).expect("every propagated binding has a path");
        let name = |hop: &Value| Some(hop.as_table()?.get("cluster-name")?.as_str()?.to_owned());
        list.iter().map(|hop| name(hop).expect("a name")).collect()
    }

    /// No path has a loop, and each binding is somebody's.
    fn check_interests(&self) {
        for (broker, bindings) in self.brokers.iter().enumerate() {
            for (&(edge, suffix), bound) in &bindings.internal {
                assert!(self.edges[edge].up && self.edges[edge].suffix == suffix, "only the last exchange is left");
                for bound_key in bound {
                    let path = Self::path(bound_key);
                    let distinct: BTreeSet<&String> = path.iter().collect();
                    assert_eq!(distinct.len(), path.len(), "a loop: {path:?}");
                    assert!(!path.contains(&name(broker)), "{broker} is asked for its own binding: {path:?}");
                    assert_eq!(path[0], name(self.edges[edge].dest));
                    let last = path.last().expect("paths are not empty");
                    let downstream = (0..self.brokers.len()).find(|&broker| name(broker) == *last).expect("a broker");
                    let key = std::str::from_utf8(&bound_key.0).expect("a key of this test");
                    assert!(self.brokers[downstream].local.contains_key(key), "nobody has bound {key}: {path:?}");
                }
            }
        }
    }

    /// How often a message published at one broker arrives at each.
    fn flood(&self, from: usize, key: &str) -> Vec<usize> {
        let mut arrivals = vec![0; self.brokers.len()];
        let mut waiting = vec![(from, Vec::new())];
        while let Some((at, trace)) = waiting.pop() {
            arrivals[at] += 1;
            for (&(edge, _), bound) in &self.brokers[at].internal {
                let dest = self.edges[edge].dest;
                if bound.iter().any(|bound_key| bound_key.0 == key.as_bytes())
                    && !trace.contains(&dest)
                    && dest != at
                    && trace.len() < usize::from(self.hops_max)
                {
                    let trace = trace.iter().copied().chain([at]).collect();
                    waiting.push((dest, trace));
                }
            }
        }
        arrivals
    }

    /// Brokers that messages of one can reach within the hops.
    fn within_reach(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([from]);
        for _ in 0..self.hops_max {
            let next: Vec<usize> =
                self.edges.iter().filter(|e| e.up && reached.contains(&e.source)).map(|e| e.dest).collect();
            reached.extend(next);
        }
        reached
    }

    fn check_reach(&self, exactly_once: bool) {
        for from in 0..self.brokers.len() {
            let within = self.within_reach(from);
            for key in KEYS {
                let arrivals = self.flood(from, key);
                for &to in within.iter().filter(|&&to| self.brokers[to].local.contains_key(key)) {
                    assert!(arrivals[to] > 0, "{key} from {from} does not reach {to}");
                    assert!(
                        !exactly_once || arrivals[to] == 1,
                        "{key} from {from} reaches {to} {} times",
                        arrivals[to]
                    );
                }
            }
        }
    }

    /// A resync with all bindings finds no difference.
    fn check_resync(&mut self) {
        for edge in 0..self.edges.len() {
            let dest = &self.brokers[self.edges[edge].dest];
            let mut bindings: Vec<(Vec<u8>, Option<Table>)> = Vec::new();
            for (key, &count) in &dest.local {
                bindings.extend((0..count).map(|_| (key.as_bytes().to_vec(), None)));
            }
            for (key, arguments) in dest.internal.values().flatten() {
                let arguments = TableRef::new(arguments).to_table().expect("it can be read");
                bindings.push((key.clone(), Some(arguments)));
            }
            let it = &mut self.edges[edge];
            it.propagation.resync(bindings.iter().map(|(key, arguments)| (&**key, arguments.as_ref())));
            assert!(!it.up || it.propagation.next_operation(&mut { u64::MAX }).is_none(), "there is no difference");
        }
    }
}

#[derive(Clone, Debug)]
enum GraphAction {
    Bind(usize, &'static str),
    Unbind(usize, &'static str),
    Cut(usize),
    Connect(usize),
    Expire(usize),
    Advance(usize, usize),
    Send(usize, usize),
}

fn step() -> impl Strategy<Value = GraphAction> {
    let key = prop::sample::select(&KEYS[..]);
    prop_oneof![
        4 => (any::<usize>(), key.clone()).prop_map(|(at, key)| GraphAction::Bind(at, key)),
        3 => (any::<usize>(), key).prop_map(|(at, key)| GraphAction::Unbind(at, key)),
        1 => any::<usize>().prop_map(GraphAction::Cut),
        2 => any::<usize>().prop_map(GraphAction::Connect),
        1 => any::<usize>().prop_map(GraphAction::Expire),
        6 => (any::<usize>(), 1..6_usize).prop_map(|(at, steps)| GraphAction::Advance(at, steps)),
        4 => (any::<usize>(), 1..6_usize).prop_map(|(at, steps)| GraphAction::Send(at, steps)),
    ]
}

/// Brokers, each except the first downstream of an earlier one, in both directions or in one.
fn tree() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    let below = prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 1..7);
    below.prop_map(|below| {
        let mut pairs = Vec::new();
        for (at, (above, way)) in below.iter().enumerate() {
            let (lower, upper) = (at + 1, above.index(at + 1));
            if *way != 0 {
                pairs.push((lower, upper));
            }
            if *way != 1 {
                pairs.push((upper, lower));
            }
        }
        (below.len() + 1, pairs)
    })
}

/// Any edges between a few brokers, each at most once.
fn graph() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    (2..7_usize).prop_flat_map(|brokers| {
        let all: Vec<(usize, usize)> =
            (0..brokers).flat_map(|a| (0..brokers).filter(move |&b| a != b).map(move |b| (a, b))).collect();
        let count = all.len();
        (Just(brokers), prop::sample::subsequence(all, 1..=count.min(12)))
    })
}

/// `at_one`: at most one broker binds each key.
fn run(
    brokers: usize,
    pairs: &[(usize, usize)],
    hops_max: u16,
    steps: &[GraphAction],
    revive: &[bool],
    at_one: bool,
) -> BrokerGraph {
    let mut world = BrokerGraph::new(brokers, pairs, hops_max);
    let edges = pairs.len();
    for step in steps {
        match *step {
            GraphAction::Bind(at, key) => {
                let others = |&other: &usize| other != at % brokers && world.brokers[other].local.contains_key(key);
                if !at_one || !(0..brokers).any(|other| others(&other)) {
                    world.bind(at % brokers, key);
                }
            }
            GraphAction::Unbind(at, key) => world.unbind(at % brokers, key),
            GraphAction::Cut(at) => world.cut(at % edges),
            GraphAction::Connect(at) => world.connect(at % edges),
            GraphAction::Expire(at) => world.expire(at % edges),
            // It makes no difference whether there was a step to take.
            GraphAction::Advance(at, steps) => {
                (0..steps).for_each(|step| _ = world.advance((at % edges + step) % edges, true))
            }
            GraphAction::Send(at, steps) => (0..steps).for_each(|_| _ = world.advance(at % edges, false)),
        }
    }
    for edge in 0..edges {
        if revive[edge % revive.len()] {
            world.connect(edge);
        } else if !world.edges[edge].up {
            world.expire(edge);
        }
    }
    world.settle(20_000);
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    /// In a tree, every message reaches every broker with a matching binding exactly once.
    #[test]
    fn in_a_tree_messages_arrive_exactly_once(
        (brokers, pairs) in tree(),
        hops_max in 1..8_u16,
        steps in prop::collection::vec(step(), 1..80),
        revive in prop::collection::vec(any::<bool>(), 1..5),
    ) {
        let mut world = run(brokers, &pairs, hops_max, &steps, &revive, false);
        world.check_interests();
        world.check_reach(true);
        world.check_resync();
    }

    /// In any graph, messages reach the one broker that binds their key.
    #[test]
    fn in_any_graph_messages_reach_a_single_broker(
        (brokers, pairs) in graph(),
        hops_max in 1..6_u16,
        steps in prop::collection::vec(step(), 1..80),
        revive in prop::collection::vec(any::<bool>(), 1..5),
    ) {
        let mut world = run(brokers, &pairs, hops_max, &steps, &revive, true);
        world.check_interests();
        world.check_reach(false);
        world.check_resync();
    }

    /// In any graph, messages reach all brokers that bind their key.
    #[test]
    fn in_any_graph_messages_reach_all_brokers(
        (brokers, pairs) in graph(),
        hops_max in 1..6_u16,
        steps in prop::collection::vec(step(), 1..80),
        revive in prop::collection::vec(any::<bool>(), 1..5),
    ) {
        let mut world = run(brokers, &pairs, hops_max, &steps, &revive, false);
        world.check_interests();
        world.check_reach(false);
        world.check_resync();
    }
}
