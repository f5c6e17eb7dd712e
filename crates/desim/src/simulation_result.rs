//! The result of a simulation: rates, latencies, queue depths, loads and losses.
//!
//! A run that was cut short says so in `cut_short`.

use crate::edge::{ConsumerGroup, Edge};
use crate::histogram::Histogram;
use crate::load_trace::{LoadTrace, Spread};
use crate::simulation::Simulation;

/// The results of one level of brokers.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelResult {
    /// 0 for the root.
    pub level: u32,
    pub brokers: u32,
    /// Share of the run in which a broker's busiest thread worked.
    pub processor: Spread,
    /// Share of the run in which a broker's link sent.
    pub link: Spread,
    /// Maximum depth of a broker's longest queue, to brokers or consumers.
    pub queue_max: Spread,
    /// Mean depth of a broker's queues.
    pub queue_mean: Spread,
    /// Maximum number of messages that had arrived and were not read.
    pub unread_max: Spread,
    /// Maximum number of messages in flight to one broker or consumer below.
    pub in_flight_max: Spread,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SimulationResult {
    pub published: u64,
    pub consumers: u64,
    /// Deliveries, without redeliveries, over all consumers.
    pub delivered: u64,
    /// Redeliveries, over all consumers.
    pub redelivered: u64,
    /// Redeliveries that were not marked.
    pub unmarked: u64,
    /// Messages that a consumer did not receive, over all consumers; those that still wait count.
    pub missing: u64,
    /// The most messages that one consumer did not receive.
    pub missing_max: u64,
    /// First deliveries that came after newer messages.
    pub late: u64,
    /// Messages still waiting at the end: queued, unread or in flight.
    pub waiting: u64,
    /// From the first publication until the last consumer has the last message.
    pub elapsed_ns: u64,
    /// Messages a second of one stream over that time.
    pub stream_per_s: f64,
    /// The rate of the slowest consumer after its first quarter of messages, when queues have filled.
    pub steady_per_s: f64,
    /// The same for the median consumer.
    pub steady_median_per_s: f64,
    /// From publication until a consumer has a message.
    pub delivery: Histogram,
    /// From publication until the last consumer has it.
    pub last_delivery: Histogram,
    /// Levels of brokers, from the root down.
    pub levels: Vec<LevelResult>,
    pub trace: LoadTrace,
    pub events: u64,
    /// Why the run was cut short, if it was.
    pub cut_short: Option<&'static str>,
}

impl SimulationResult {
    /// Messages a second over all consumers.
    pub fn aggregate_per_s(&self) -> f64 {
        self.delivered as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

/// The rate of a consumer after its first quarter of messages.
fn steady(group: &ConsumerGroup) -> Option<f64> {
    let (count, at_ns) = group.quarter?;
    let (count, ns) = (group.received.unique - count, group.last_ns - at_ns);
    (count > 0 && ns > 0).then(|| count as f64 * 1e9 / ns as f64)
}

/// The median rate, in which each consumer of a group counts.
fn median(mut rates: Vec<(f64, u32)>) -> f64 {
    rates.sort_by(|one, other| one.0.total_cmp(&other.0));
    let all: u64 = rates.iter().map(|(_, consumers)| u64::from(*consumers)).sum();
    let mut before = 0;
    let middle = rates.iter().find(|(_, consumers)| {
        before += u64::from(*consumers);
        before * 2 >= all
    });
    middle.map_or(0.0, |(rate, _)| *rate)
}

pub(crate) fn summarize(mut engine: Simulation<'_>, cut_short: Option<&'static str>) -> SimulationResult {
    let now_ns = engine.calendar.now_ns();
    engine.edges.iter_mut().for_each(|edge| edge.accumulate_queue_area(now_ns));
    let topology = engine.tree;
    let published = u64::from(engine.scenario.messages);
    let over = |value: &dyn Fn(&ConsumerGroup) -> u64| -> u64 {
        engine.consumer_groups.iter().map(|group| value(group) * u64::from(group.consumers)).sum()
    };
    let delivered = over(&|group| group.received.unique);
    let consumers = u64::from(topology.consumers());
    let elapsed_ns = engine.last_ns;
    let rates: Vec<(f64, u32)> =
        engine.consumer_groups.iter().map(|group| (steady(group).unwrap_or(0.0), group.consumers)).collect();
    let unread: u64 = engine.hosts.iter().map(|host| host.inbox.len()).sum();
    let kept: u64 = engine.edges.iter().map(|edge| edge.queue.len() + edge.in_flight).sum();
    SimulationResult {
        published,
        consumers,
        delivered,
        redelivered: over(&|group| group.received.redelivered),
        unmarked: over(&|group| group.received.unmarked),
        missing: published * consumers - delivered,
        missing_max: engine.consumer_groups.iter().map(|group| published - group.received.unique).max().unwrap_or(0),
        late: over(&|group| group.received.late),
        waiting: unread + kept,
        elapsed_ns,
        stream_per_s: delivered as f64 / consumers as f64 * 1e9 / elapsed_ns.max(1) as f64,
        steady_per_s: rates.iter().map(|(rate, _)| *rate).fold(f64::INFINITY, f64::min),
        steady_median_per_s: median(rates),
        delivery: engine.latencies.delivery.clone(),
        last_delivery: engine.latencies.last_delivery(topology.consumers()),
        levels: (0..topology.levels()).map(|level| summarize_level(&engine, level, now_ns)).collect(),
        trace: engine.trace.clone(),
        events: engine.calendar.scheduled(),
        cut_short,
    }
}

fn summarize_level(engine: &Simulation<'_>, level: u32, now_ns: u64) -> LevelResult {
    let own: Vec<u32> = (0..engine.tree.brokers()).filter(|&broker| engine.tree.level_of(broker) == level).collect();
    let spread = |value: &dyn Fn(u32) -> f64| Spread::of(own.iter().map(|&broker| value(broker)).collect());
    let host = |broker: u32| &engine.hosts[broker as usize];
    let edges = |broker: u32| {
        let node = &engine.tree.nodes()[broker as usize];
        let all = node.children.clone().chain(engine.to_consumers[broker as usize].clone());
        all.map(|edge| &engine.edges[edge as usize])
    };
    let most = |broker: u32, value: &dyn Fn(&Edge) -> f64| edges(broker).map(value).fold(0.0, f64::max);
    let elapsed_ns = engine.last_ns.max(1) as f64;
    LevelResult {
        level,
        brokers: own.len() as u32,
        processor: spread(&|broker| (host(broker).busy_ns as f64 / elapsed_ns).min(1.0)),
        link: spread(&|broker| (host(broker).link.busy_ns as f64 / elapsed_ns).min(1.0)),
        queue_max: spread(&|broker| most(broker, &|edge| edge.queue_max as f64)),
        queue_mean: spread(&|broker| most(broker, &|edge| edge.mean_queue_depth(now_ns))),
        unread_max: spread(&|broker| host(broker).unread_max as f64),
        in_flight_max: spread(&|broker| most(broker, &|edge| edge.in_flight_max as f64)),
    }
}
