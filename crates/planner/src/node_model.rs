//! The model of one node: how long a broker takes for a message, by its position in the tree and its degree.
//!
//! A broker with k children receives a message once and copies it k times (`t_in + k * t_out`, or the measured time
//! with k where that is not linear); k copies leave on its link, and one arrives. All times rise with the degree: a
//! broker that was measured to become faster is taken for noise, because the search relies on monotonic times.
//!
//! **Cores.** A calibration on own hosts measured brokers as they are, with all their threads. One on a shared host
//! measured processor time, which a broker's threads divide: connections are spread over its shards, of which there is
//! one less than cores (decision 0005). The publisher's shard, which receives messages, also makes its part of the
//! copies, and is the busiest. The cost of messages between shards is not included in a calibration whose brokers had
//! one shard.

use topology::Tree;

use crate::{Basis, Estimate, Sharing, SizeCosts};

/// The hosts of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostModel {
    pub cores: u32,
    /// Speed of its link, in each direction, if that is to be considered.
    pub link_bits_per_s: Option<u64>,
    /// Whether each broker has a host for itself.
    pub sharing: Sharing,
}

/// A broker's position in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreePosition {
    /// The only broker: a publisher above, consumers below.
    Alone,
    /// A publisher above, brokers below.
    Root,
    /// Brokers above and below.
    Inner,
    /// A broker above, consumers below.
    Leaf,
}

impl TreePosition {
    /// The position of the brokers of a level.
    pub fn of(tree: &Tree, level: u32) -> Self {
        Self::at(level == 0, level as usize + 1 == tree.levels().len())
    }

    /// By whether it is the first, and the last level of brokers.
    pub fn at(is_first: bool, is_last: bool) -> Self {
        match (is_first, is_last) {
            (true, true) => TreePosition::Alone,
            (true, false) => TreePosition::Root,
            (false, false) => TreePosition::Inner,
            (false, true) => TreePosition::Leaf,
        }
    }

    /// Whether it receives messages from a publisher.
    pub fn is_first(self) -> bool {
        matches!(self, TreePosition::Alone | TreePosition::Root)
    }

    /// Whether consumers are below it.
    pub fn is_last(self) -> bool {
        matches!(self, TreePosition::Alone | TreePosition::Leaf)
    }
}

/// The resource that limits a node's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitingResource {
    /// Its processors (or whatever limited its rate when it was measured on a host of its own).
    Cores,
    /// Its link, outbound.
    Egress,
    /// Its link, inbound.
    Ingress,
    /// The processors of the one host that all nodes share.
    SharedCores,
}

/// The times that one message takes at a broker's resources, in microseconds; they work in parallel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeTime {
    /// Of its busiest thread.
    pub cores_us: Estimate,
    /// Of its outbound link: all copies.
    pub egress_us: Option<f64>,
    /// Of its inbound link.
    pub ingress_us: Option<f64>,
}

impl NodeTime {
    /// The time from one message to the next: the longest of them.
    pub(crate) fn between_us(&self) -> Estimate {
        let link = self.egress_us.unwrap_or(0.0).max(self.ingress_us.unwrap_or(0.0));
        self.cores_us.max(Estimate::exact(link))
    }

    /// The resource with the longest time.
    pub(crate) fn limiting_resource(&self) -> LimitingResource {
        let [egress, ingress] = [self.egress_us, self.ingress_us].map(|us| us.unwrap_or(0.0));
        if self.cores_us.value >= egress.max(ingress) {
            LimitingResource::Cores
        } else if egress >= ingress {
            LimitingResource::Egress
        } else {
            LimitingResource::Ingress
        }
    }
}

/// The model of nodes with these costs on these hosts.
#[derive(Clone, Debug)]
pub struct NodeModel<'a> {
    pub costs: &'a SizeCosts,
    pub host: HostModel,
    /// Time of the busiest thread by degree, from 1 up to the highest of the table: with brokers, with consumers.
    tables: [Vec<Estimate>; 2],
}

impl<'a> NodeModel<'a> {
    pub fn new(costs: &'a SizeCosts, host: HostModel) -> Self {
        let mut nodes = Self { costs, host, tables: [Vec::new(), Vec::new()] };
        for is_last in [true, false] {
            let mut rising: Vec<Estimate> = Vec::new();
            for degree in 1..=costs.table(is_last).last().map_or(0, |(degree, _)| *degree) {
                let time = nodes.busiest_thread(costs.whole_us(is_last, degree), degree);
                rising.push(rising.last().map_or(time, |before| before.max(time)));
            }
            nodes.tables[usize::from(is_last)] = rising;
        }
        nodes
    }

    /// How many threads of a broker share the copies.
    pub fn shards(&self) -> u32 {
        match self.costs.basis {
            Basis::Wall => 1,
            Basis::Processor => self.host.cores.saturating_sub(1).max(1),
        }
    }

    /// The times of a message at a broker with this many children (at least 1).
    pub fn time(&self, place: TreePosition, degree: u32) -> NodeTime {
        let copy_us = self.host.link_bits_per_s.map(|bits| self.costs.wire_bytes_per_copy * 8e6 / bits as f64);
        NodeTime {
            cores_us: self.cores(place, degree),
            egress_us: copy_us.map(|us| us * f64::from(degree)),
            ingress_us: copy_us,
        }
    }

    fn cores(&self, place: TreePosition, degree: u32) -> Estimate {
        let costs = self.costs;
        let table = &self.tables[usize::from(place.is_last())];
        let copies = |degree: u32| f64::from(degree.div_ceil(self.shards()));
        let taken = if place.is_first() { costs.take_in_us } else { costs.relay_in_us };
        let Some(&last) = table.last() else { return taken.plus(costs.copy_us(place.is_last()).times(copies(degree))) };
        let of_first = match table.get(degree as usize - 1) {
            Some(&time) => time,
            None => last.plus(costs.slope_us(place.is_last()).times(copies(degree) - copies(table.len() as u32))),
        };
        if place.is_first() {
            return of_first;
        }
        // Tables are of brokers that receive from a publisher.
        let more = costs.relay_in_us.value - costs.take_in_us.value;
        of_first.map(|us| (us + more).max(taken.low))
    }

    /// The busiest thread's share of a whole time.
    fn busiest_thread(&self, whole: Estimate, degree: u32) -> Estimate {
        let taken = self.costs.take_in_us.value;
        let share = f64::from(degree.div_ceil(self.shards())) / f64::from(degree);
        whole.map(|us| if us > taken { taken + (us - taken) * share } else { us })
    }
}
