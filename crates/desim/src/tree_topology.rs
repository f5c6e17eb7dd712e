//! The tree that is simulated: brokers by number from the root on, their consumers, and their service times.
//!
//! The children of a broker have consecutive numbers.

use crate::limits::{BROKERS_MAX, CONSUMERS_MAX, COST_NS_MAX};
use crate::scenario::InvalidScenario;
use std::ops::Range;
use topology::{Tree, TreeBroker};

/// Service times of one message at one thread of a broker, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServiceTimes {
    pub receive_ns: f64,
    /// For each copy to a broker below.
    pub to_broker_ns: f64,
    /// For each copy to a consumer.
    pub to_consumer_ns: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct BrokerNode {
    pub parent: Option<u32>,
    pub children: Range<u32>,
    pub consumers: u32,
    /// Number of its first consumer.
    pub consumers_from: u32,
    pub service: ServiceTimes,
    pub level: u32,
    pub index: u32,
}

impl BrokerNode {
    /// Its name, as a tree has it.
    pub fn name(&self) -> String {
        TreeBroker { level: self.level, index: self.index }.to_string()
    }
}

/// Brokers and the edges between them.
#[derive(Clone, Debug)]
pub struct TreeTopology {
    nodes: Vec<BrokerNode>,
    consumers: u32,
    levels: u32,
}

impl TreeTopology {
    /// A topology of brokers in the order of a tree, level by level and from left to right: the number of the parent
    /// (none for the root), consumers and service times.
    ///
    /// # Errors
    /// The order is not that of a tree, there are too many brokers or consumers, or a service time is invalid.
    pub fn new(brokers: impl IntoIterator<Item = (Option<u32>, u32, ServiceTimes)>) -> Result<Self, InvalidScenario> {
        let mut nodes: Vec<BrokerNode> = Vec::new();
        let mut consumers = 0u32;
        for (above, own, work) in brokers {
            let number = nodes.len() as u32;
            if number >= BROKERS_MAX {
                return Err(InvalidScenario(format!("at most {BROKERS_MAX} brokers are simulated")));
            }
            let costs = [work.receive_ns, work.to_broker_ns, work.to_consumer_ns];
            if !costs.iter().all(|cost| (0.0..=COST_NS_MAX).contains(cost)) {
                return Err(InvalidScenario(format!(
                    "a message costs a broker from 0 to {COST_NS_MAX} ns, not {costs:?}"
                )));
            }
            let in_order = match (above, nodes.last()) {
                (None, None) => true,
                (Some(above), Some(last)) => above < number && last.parent.is_none_or(|before| before <= above),
                _ => false,
            };
            if !in_order {
                return Err(InvalidScenario(format!(
                    "broker {number} is not in the order of levels, from left to right"
                )));
            }
            let (mut level, mut place) = (0, 0);
            if let Some(above) = above {
                level = nodes[above as usize].level + 1;
                place = nodes.last().filter(|last| last.level == level).map_or(0, |last| last.index + 1);
                let below = &mut nodes[above as usize].children;
                let first = if below.start == below.end { number } else { below.start };
                *below = first..number + 1;
            }
            let sum = consumers.checked_add(own).filter(|sum| *sum <= CONSUMERS_MAX);
            let sum = sum.ok_or_else(|| InvalidScenario(format!("at most {CONSUMERS_MAX} consumers are simulated")))?;
            let consumers_from = std::mem::replace(&mut consumers, sum);
            nodes.push(BrokerNode {
                parent: above,
                children: 0..0,
                consumers: own,
                consumers_from,
                service: work,
                level,
                index: place,
            });
        }
        if consumers == 0 {
            return Err(InvalidScenario("a tree without consumers carries nothing".to_owned()));
        }
        let levels = nodes.last().map_or(0, |last| last.level + 1);
        Ok(Self { nodes, consumers, levels })
    }

    /// The topology of a uniform tree; `work` gives the service times of a broker by its level and degree.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_tree(tree: &Tree, work: impl Fn(u32, u32) -> ServiceTimes) -> Result<Self, InvalidScenario> {
        if tree.brokers_count() > BROKERS_MAX {
            return Err(InvalidScenario(format!("{tree}: at most {BROKERS_MAX} brokers are simulated")));
        }
        Self::new(tree.brokers().map(|broker| {
            let above = tree.parent(broker).map(|above| tree.number(above));
            let consumers = tree.consumers_of(broker).len() as u32;
            let degree = if tree.is_leaf(broker) { consumers } else { tree.children(broker).count() as u32 };
            (above, consumers, work(broker.level, degree))
        }))
    }

    pub(crate) fn nodes(&self) -> &[BrokerNode] {
        &self.nodes
    }

    pub fn brokers(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub fn consumers(&self) -> u32 {
        self.consumers
    }

    pub fn levels(&self) -> u32 {
        self.levels
    }

    pub fn level_of(&self, broker: u32) -> u32 {
        self.nodes[broker as usize].level
    }

    /// The broker above; `None` for the root.
    pub fn parent(&self, broker: u32) -> Option<u32> {
        self.nodes[broker as usize].parent
    }

    /// How many consumers a broker has.
    pub fn consumers_of(&self, broker: u32) -> u32 {
        self.nodes[broker as usize].consumers
    }

    /// A broker's name: `b0`, `b1.0`.
    pub fn name(&self, broker: u32) -> String {
        self.nodes[broker as usize].name()
    }

    /// The number of the broker with this name.
    pub fn find(&self, name: &str) -> Option<u32> {
        (0..self.brokers()).find(|&broker| self.name(broker) == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_keeps_its_numbers_and_names() {
        let tree: Tree = "B-2B-4B-8C".parse().expect("a tree");
        let topology = TreeTopology::from_tree(&tree, |_, _| ServiceTimes::default()).expect("a topology");
        assert_eq!((topology.brokers(), topology.consumers(), topology.levels()), (7, 8, 3));
        assert_eq!(topology.find("b2.3"), Some(6));
        assert_eq!(topology.nodes()[1].children, 3..5);
        assert_eq!((topology.nodes()[6].consumers, topology.nodes()[6].consumers_from), (2, 6));
        assert_eq!(topology.parent(6), Some(2));
    }

    #[test]
    fn degrees_may_differ_and_the_order_may_not() {
        let work = ServiceTimes::default();
        let topology = TreeTopology::new([(None, 3, work), (Some(0), 1, work), (Some(0), 0, work), (Some(2), 5, work)]);
        let topology = topology.expect("consumers at several levels");
        assert_eq!((topology.consumers(), topology.name(3)), (9, "b2.0".to_owned()));
        for wrong in [
            vec![(Some(0), 1, work)],
            vec![(None, 1, work), (None, 1, work)],
            vec![(None, 0, work), (Some(0), 0, work), (Some(1), 1, work), (Some(0), 1, work)],
            vec![(None, 0, work)],
            vec![(None, 1, ServiceTimes { receive_ns: f64::NAN, ..work })],
        ] {
            assert!(TreeTopology::new(wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}
