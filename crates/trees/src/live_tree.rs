//! A running tree: brokers joined by routes, consumers on the leaves, a publisher at the root, and every path probed.
//!
//! Owns the roles, and ends them in an order in which none misses another.

use std::time::Duration;

use serde::de::DeserializeOwned;
use topology::{Tree, TreeBroker};

use super::tree_environment::{NodeHosting, TreeEnvironment};
use super::tree_segment_figures::TreeSegmentFigures;
use crate::limits::{PROBE_AGAIN, ROUTES_LOOK_INTERVAL};
use gauge::clock::{Deadline, pause};
use harness::delivery_window::DeliveryWindow;
use harness::limits::{CHILD_END_WAIT, ROLE_READY_WAIT};
use harness::queue_feature::QueueFeature;
use harness::role_handle::RoleHandle;
use harness::role_protocol::{LoadSegment, RoleReport, TrafficShape};
use harness::role_tasks::{
    BrokerAddresses, ConsumerTask, LeafCommand, PublisherTask, RootCommand, RouteTask, RoutesStatus, SupervisorCommand,
    SupervisorTask, TreeTransport,
};
use load::limits::{PROBE_LAST, REPORT_WAIT, ROLE_POLL_WAIT, ROUTE_WAIT, TREE_READY_WAIT};
use load::scenario::ScenarioExchange;
use report::document::NodeUsage;

const EXCHANGE: &str = "harrier.topology";
/// The binding pattern of a topic exchange, and the key of all messages.
const PATTERN: &str = "harrier.*";
const KEY: &str = "harrier.topology";

#[derive(Clone, Debug)]
pub(super) struct TreePlan {
    pub tree: Tree,
    /// Type of the exchange that all messages pass.
    pub exchange: ScenarioExchange,
    /// `none` or `confirm`, between brokers.
    pub ack: &'static str,
    /// Messages in flight between two brokers; 0: unlimited.
    pub credit: u16,
    /// Prefetch count of consumers, 0: unlimited; `None`: they acknowledge nothing.
    pub prefetch: Option<u16>,
    /// Transport between brokers.
    pub transport: TreeTransport,
    /// More options for every broker.
    pub broker_options: Vec<String>,
    /// Consumers check every byte of every message, not only its number.
    pub checks_bodies: bool,
}

impl TreePlan {
    /// Consumers acknowledge after this many messages; 0: never.
    fn ack_every(&self) -> u64 {
        const USUAL: u16 = 100;
        self.prefetch.map_or(0, |prefetch| match prefetch {
            0 => u64::from(USUAL),
            some => u64::from((some / 2).clamp(1, USUAL)),
        })
    }
}

/// A broker with its supervisor.
struct LiveBroker {
    name: String,
    role: RoleHandle,
    kept: BrokerAddresses,
}

/// A running tree.
pub(super) struct LiveTree {
    brokers: Vec<LiveBroker>,
    leaves: Vec<(String, RoleHandle)>,
    root: Option<RoleHandle>,
    consumers: u64,
    environment: TreeEnvironment,
}

fn receive_report<T: DeserializeOwned>(name: &str, role: &mut RoleHandle, wait: Duration) -> Result<T, String> {
    match role.report(wait).map_err(|why| format!("{name}: {why}"))? {
        RoleReport::Results(value) => serde_json::from_value(value).map_err(|error| format!("{name}: {error}")),
        other => Err(format!("{name} answered {other:?} instead of its results")),
    }
}

fn await_armed(name: &str, role: &mut RoleHandle, wait: Duration) -> Result<(), String> {
    match role.report(wait).map_err(|why| format!("{name}: {why}"))? {
        RoleReport::Armed => Ok(()),
        other => Err(format!("{name} answered {other:?} instead of being ready")),
    }
}

impl LiveTree {
    /// Starts a tree; everything is in place when this returns.
    ///
    /// # Errors
    /// Which node failed, and why.
    pub fn start(plan: &TreePlan, hosting: &NodeHosting) -> Result<Self, String> {
        let environment = TreeEnvironment::prepare(hosting)?;
        let consumers = u64::from(plan.tree.consumers());
        let mut tree = Self { brokers: Vec::new(), leaves: Vec::new(), root: None, consumers, environment };
        tree.start_brokers(plan)?;
        tree.add_routes(plan)?;
        tree.start_consumers(plan)?;
        tree.start_publisher(plan)?;
        tree.probe()?;
        Ok(tree)
    }

    /// Which rank has which nodes, if there are ranks.
    pub fn describe_ranks(&self) -> Option<String> {
        self.environment.describe_ranks()
    }

    fn start_brokers(&mut self, plan: &TreePlan) -> Result<(), String> {
        let is_alone = plan.tree.brokers_count() == 1;
        let mut started = Vec::new();
        for broker in plan.tree.brokers() {
            let name = broker.to_string();
            let slot = self.environment.allocate(&name)?;
            let task = SupervisorTask {
                cluster_name: if is_alone { String::new() } else { format!("{name}@harrier.topology") },
                place: slot.listen_at.clone(),
                login: self.environment.login.clone(),
                transport: plan.transport,
                exchange: EXCHANGE.to_owned(),
                exchange_type: plan.exchange.name().to_owned(),
                options: plan.broker_options.clone(),
            };
            let role = slot.start("topology-broker", &task).map_err(|why| format!("{name}: {why}"))?;
            started.push((name, role));
        }
        for (name, mut role) in started {
            let kept = receive_report(&name, &mut role, ROLE_READY_WAIT)?;
            self.brokers.push(LiveBroker { name, role, kept });
        }
        Ok(())
    }

    /// Adds the routes and waits until all of them run.
    fn add_routes(&mut self, plan: &TreePlan) -> Result<(), String> {
        let mut joined = Vec::new();
        for route in plan.tree.routes() {
            let [source, destination] =
                [route.source, route.destination].map(|broker| plan.tree.number(broker) as usize);
            let source = self.brokers[source].kept.source.clone();
            let task = RouteTask { source, ack: plan.ack.to_owned(), credit: plan.credit };
            let LiveBroker { name, role, .. } = &mut self.brokers[destination];
            role.send_command(&SupervisorCommand::AddRoute(task)).map_err(|why| format!("{name}: {why}"))?;
            await_armed(name, role, ROUTE_WAIT * 2)?;
            joined.push(destination);
        }
        let deadline = Deadline::after(TREE_READY_WAIT);
        while !joined.is_empty() {
            let mut waiting = Vec::new();
            for &index in &joined {
                let LiveBroker { name, role, .. } = &mut self.brokers[index];
                role.send_command(&SupervisorCommand::RouteStatus).map_err(|why| format!("{name}: {why}"))?;
                let RoutesStatus { run, why } = receive_report(name, role, ROUTE_WAIT * 2)?;
                match run {
                    true => {}
                    false if deadline.passed() => {
                        let waited = TREE_READY_WAIT.as_secs();
                        return Err(format!("{name}: its route does not run after {waited} s: {why}"));
                    }
                    false => waiting.push(index),
                }
            }
            if !waiting.is_empty() {
                pause(ROUTES_LOOK_INTERVAL);
            }
            joined = waiting;
        }
        Ok(())
    }

    fn start_consumers(&mut self, plan: &TreePlan) -> Result<(), String> {
        let leaves: Vec<TreeBroker> = plan.tree.brokers().filter(|&broker| plan.tree.is_leaf(broker)).collect();
        for leaf in leaves {
            let broker = &self.brokers[plan.tree.number(leaf) as usize];
            let name = format!("consumers of {}", broker.name);
            let key = if plan.exchange == ScenarioExchange::Topic { PATTERN } else { KEY };
            let task = ConsumerTask {
                url: broker.kept.url.clone(),
                exchange: EXCHANGE.to_owned(),
                exchange_type: plan.exchange.name().to_owned(),
                binding_keys: vec![key.to_owned()],
                queue_prefix: format!("{EXCHANGE}.{}", broker.name),
                consumers: plan.tree.consumers_of(leaf).len(),
                decoys: Vec::new(),
                ack_every: plan.ack_every(),
                prefetch: plan.prefetch.unwrap_or(0),
                reply_exchange: String::new(),
                reply_key: String::new(),
                window: DeliveryWindow::default(),
                checks: plan.checks_bodies,
                queue_bytes: None,
                feature: QueueFeature::None,
                durable: false,
                from_source: false,
                on_leaf: true,
            };
            let slot = self.environment.allocate(&format!("c{}", broker.name))?;
            let role = slot.start("topology-consumer", &task).map_err(|why| format!("{name}: {why}"))?;
            self.leaves.push((name, role));
        }
        for (name, role) in &mut self.leaves {
            role.ready(ROLE_READY_WAIT).map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(())
    }

    fn start_publisher(&mut self, plan: &TreePlan) -> Result<(), String> {
        let task = PublisherTask {
            url: self.brokers[0].kept.url.clone(),
            exchange: EXCHANGE.to_owned(),
            keys: vec![KEY.to_owned()],
            reply_exchange: format!("{EXCHANGE}.replies"),
            reply_key: format!("{EXCHANGE}.replies"),
            consumers: 0,
            confirm_window: 0,
            window: DeliveryWindow::default(),
            checks: plan.checks_bodies,
            priority: None,
            persistent: false,
        };
        let mut role = self.environment.allocate("publisher")?.start("topology-publisher", &task)?;
        role.ready(ROLE_READY_WAIT)?;
        self.root = Some(role);
        Ok(())
    }

    fn root(&mut self) -> Result<&mut RoleHandle, String> {
        self.root.as_mut().ok_or_else(|| "there is no publisher".to_owned())
    }

    /// Sends probes until each consumer has received one, and then a last one, after which nothing is in flight.
    fn probe(&mut self) -> Result<(), String> {
        for (name, role) in &mut self.leaves {
            role.send_command(&LeafCommand::Probe).map_err(|why| format!("{name}: {why}"))?;
        }
        let deadline = Deadline::after(TREE_READY_WAIT);
        let mut waiting: Vec<usize> = (0..self.leaves.len()).collect();
        let mut number = 0;
        while let Some(&first) = waiting.first() {
            if deadline.passed() {
                let (name, waited) = (&self.leaves[first].0, TREE_READY_WAIT.as_secs());
                return Err(format!("{name}: messages from the root have not reached them after {waited} s"));
            }
            self.send_probe(number)?;
            number += 1;
            let again = Deadline::after(PROBE_AGAIN);
            let mut still = Vec::new();
            for index in waiting {
                let (name, role) = &mut self.leaves[index];
                match role.report_within(again.left()).map_err(|why| format!("{name}: {why}"))? {
                    Some(RoleReport::Armed) => {}
                    None => still.push(index),
                    Some(other) => return Err(format!("{name} answered {other:?} to a probe")),
                }
            }
            waiting = still;
        }
        self.send_probe(PROBE_LAST)?;
        for (name, role) in &mut self.leaves {
            role.ready(TREE_READY_WAIT).map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(())
    }

    fn send_probe(&mut self, number: u64) -> Result<(), String> {
        let root = self.root()?;
        root.send_command(&RootCommand::Probe(number))?;
        await_armed("publisher", root, ROLE_READY_WAIT)
    }

    /// Runs one segment; if `metered`, the brokers are metered meanwhile.
    ///
    /// # Errors
    /// A role fails or stays silent.
    pub fn segment(&mut self, size_bytes: usize, count: u64, metered: bool) -> Result<TreeSegmentFigures, String> {
        let segment = LoadSegment { shape: TrafficShape::Stream, size_bytes, count };
        for (name, role) in &mut self.leaves {
            role.send_command(&LeafCommand::Consume(segment)).map_err(|why| format!("{name}: {why}"))?;
        }
        for (name, role) in &mut self.leaves {
            await_armed(name, role, REPORT_WAIT)?;
        }
        if metered {
            self.brokers.iter_mut().try_for_each(|broker| broker.role.send_command(&SupervisorCommand::Begin))?;
            self.brokers.iter_mut().try_for_each(|broker| await_armed(&broker.name, &mut broker.role, REPORT_WAIT))?;
        }
        self.root()?.send_command(&RootCommand::Send(segment))?;
        let mut figures = TreeSegmentFigures::begin(size_bytes, count, self.consumers);
        self.collect_reports(&mut figures)?;
        if metered {
            self.brokers.iter_mut().try_for_each(|broker| broker.role.send_command(&SupervisorCommand::End))?;
            for broker in &mut self.brokers {
                let node: NodeUsage = receive_report(&broker.name, &mut broker.role, REPORT_WAIT)?;
                figures.nodes.push((broker.name.clone(), node));
            }
        }
        Ok(figures)
    }

    /// Collects the report of every role, in any order. One that fails ends the wait for all.
    fn collect_reports(&mut self, figures: &mut TreeSegmentFigures) -> Result<(), String> {
        let deadline = Deadline::after(REPORT_WAIT);
        let root = self.root.iter_mut().map(|role| ("publisher", role));
        let mut waiting: Vec<(&str, &mut RoleHandle)> =
            self.leaves.iter_mut().map(|(name, role)| (name.as_str(), role)).chain(root).collect();
        while !waiting.is_empty() {
            if deadline.passed() {
                return Err(format!("no report of {} roles within {} s", waiting.len(), REPORT_WAIT.as_secs()));
            }
            let mut silent = Vec::with_capacity(waiting.len());
            for (index, (name, role)) in waiting.into_iter().enumerate() {
                // Waits for one role, and polls the others.
                let wait = if index == 0 { ROLE_POLL_WAIT } else { Duration::ZERO };
                match role.report_within(wait).map_err(|why| format!("{name}: {why}"))? {
                    None => silent.push((name, role)),
                    Some(report) => figures.add_report(report).map_err(|why| format!("{name} {why}"))?,
                }
            }
            waiting = silent;
        }
        Ok(())
    }
}

impl Drop for LiveTree {
    fn drop(&mut self) {
        // Clients end first, so that brokers have no connections to close; then all brokers at once.
        self.root = None;
        self.leaves.clear();
        for broker in &mut self.brokers {
            // A role that is gone needs no command.
            let _gone = broker.role.send_command(&SupervisorCommand::Quit);
        }
        for broker in &mut self.brokers {
            // Its end is the answer to this command.
            let _ended = broker.role.report(CHILD_END_WAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(prefetch: Option<u16>) -> TreePlan {
        TreePlan {
            tree: "B-2C".parse().expect("a tree"),
            exchange: ScenarioExchange::Fanout,
            ack: "none",
            credit: 0,
            prefetch,
            transport: TreeTransport::Tcp,
            broker_options: Vec::new(),
            checks_bodies: false,
        }
    }

    #[test]
    fn consumers_acknowledge_before_their_credit_is_used_up() {
        for (prefetch, expected) in [(None, 0), (Some(0), 100), (Some(1), 1), (Some(10), 5), (Some(1_000), 100)] {
            assert_eq!(plan(prefetch).ack_every(), expected, "{prefetch:?}");
        }
    }
}
