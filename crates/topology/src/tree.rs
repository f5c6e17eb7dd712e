//! A tree whose levels are uniform: every broker of a level has as many below it as the next.
//!
//! Enters: counts that divide.  Leaves: brokers by number, their parents, children, consumers, and routes.
//! Owns:   the numbering: level by level from the root, 0, and from left to right.
//! Never:  holds a node: everything follows from the counts.

use std::fmt;
use std::ops::Range;

/// A tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    levels: Box<[u32]>,
    consumers: u32,
}

/// A broker of a tree: how many levels below the root, and its place there from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Broker {
    /// 0 for the root.
    pub level: u32,
    /// 0 for the first.
    pub place: u32,
}

/// One route: messages go down from the source to the destination, which dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The broker below.
    pub destination: Broker,
    /// The broker above.
    pub source: Broker,
}

impl fmt::Display for Broker {
    /// A name for files, hosts and tables: `b0`, `b1.0`, `b1.1`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            0 => to.write_str("b0"),
            level => write!(to, "b{level}.{}", self.place),
        }
    }
}

impl Tree {
    /// Of counts that were checked: each is a multiple of the one before, and the first is 1.
    pub(crate) fn new(levels: Vec<u32>, consumers: u32) -> Self {
        Self { levels: levels.into(), consumers }
    }

    /// How many brokers each level has, from the root on.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// How many brokers there are.
    pub fn brokers_count(&self) -> u32 {
        self.levels.iter().sum()
    }

    /// How many consumers there are.
    pub fn consumers(&self) -> u32 {
        self.consumers
    }

    /// How many brokers, or at the last level consumers, each broker of a level has below it.
    pub fn degree(&self, level: u32) -> u32 {
        let level = level as usize;
        self.levels.get(level + 1).copied().unwrap_or(self.consumers) / self.levels[level]
    }

    /// Every broker, by level and place.
    pub fn brokers(&self) -> impl Iterator<Item = Broker> + '_ {
        (0..).zip(&self.levels).flat_map(|(level, &count)| (0..count).map(move |place| Broker { level, place }))
    }

    /// A broker's number in the order of [`brokers`](Self::brokers).
    pub fn number(&self, broker: Broker) -> u32 {
        self.levels[..broker.level as usize].iter().sum::<u32>() + broker.place
    }

    /// Whether consumers hang on it, not brokers.
    pub fn is_leaf(&self, broker: Broker) -> bool {
        broker.level as usize + 1 == self.levels.len()
    }

    /// The broker above. The root has none.
    pub fn parent(&self, broker: Broker) -> Option<Broker> {
        let level = broker.level.checked_sub(1)?;
        Some(Broker { level, place: broker.place / self.degree(level) })
    }

    /// The brokers right below, none for a leaf.
    pub fn children(&self, broker: Broker) -> impl Iterator<Item = Broker> + use<> {
        let places = if self.is_leaf(broker) { 0..0 } else { self.below(broker) };
        let level = broker.level + 1;
        places.map(move |place| Broker { level, place })
    }

    /// The consumers of a leaf, by number from the left; none for a broker further up.
    pub fn consumers_of(&self, broker: Broker) -> Range<u32> {
        if self.is_leaf(broker) { self.below(broker) } else { 0..0 }
    }

    /// The leaf that a consumer hangs on.
    pub fn leaf_of(&self, consumer: u32) -> Broker {
        let level = self.levels.len() as u32 - 1;
        Broker { level, place: consumer / self.degree(level) }
    }

    /// The routes that join the brokers, one for each but the root, in an order in which the upper ones come first.
    pub fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        self.brokers().filter_map(|destination| Some(Route { destination, source: self.parent(destination)? }))
    }

    fn below(&self, broker: Broker) -> Range<u32> {
        let degree = self.degree(broker.level);
        broker.place * degree..(broker.place + 1) * degree
    }
}
