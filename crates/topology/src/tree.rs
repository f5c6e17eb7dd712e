//! A tree by the counts of its levels: the brokers of a level have equally many children, or differ by one.
//!
//! Brokers are numbered level by level from the root, 0, and from left to right. No node is stored: everything follows
//! from the counts.

use std::fmt;
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    levels: Box<[u32]>,
    consumers: u32,
}

/// A broker of a tree, by its level and its index there from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeBroker {
    /// 0 for the root.
    pub level: u32,
    /// 0 for the first.
    pub index: u32,
}

/// How many children the brokers of a level have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DegreeRange {
    /// The fewest: 1 or more.
    pub least: u32,
    /// The most: `least`, or one more.
    pub most: u32,
    /// How many brokers have the most.
    pub with_most: u32,
}

/// A route: messages flow down from the source to the destination, which dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRoute {
    /// The broker below.
    pub destination: TreeBroker,
    /// The broker above.
    pub source: TreeBroker,
}

impl fmt::Display for TreeBroker {
    /// A name for files, hosts and tables: `b0`, `b1.0`, `b1.1`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            0 => to.write_str("b0"),
            level => write!(to, "b{level}.{}", self.index),
        }
    }
}

impl Tree {
    /// Of valid counts: the first is 1, and none is less than the one before.
    pub(crate) fn new(levels: Vec<u32>, consumers: u32) -> Self {
        Self { levels: levels.into(), consumers }
    }

    /// How many brokers each level has, from the root down.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    pub fn brokers_count(&self) -> u32 {
        self.levels.iter().sum()
    }

    pub fn consumers(&self) -> u32 {
        self.consumers
    }

    /// The largest number of children (at the last level, consumers) that a broker of the level has.
    pub fn degree(&self, level: u32) -> u32 {
        self.degrees(level).most
    }

    /// How many children the brokers of a level have.
    pub fn degrees(&self, level: u32) -> DegreeRange {
        let (below, here) = (self.count_below(level), self.levels[level as usize]);
        match (below / here, below % here) {
            (least, 0) => DegreeRange { least, most: least, with_most: here },
            (least, with_most) => DegreeRange { least, most: least + 1, with_most },
        }
    }

    /// Whether all brokers of each level have equally many children, as in the paper.
    pub fn is_uniform(&self) -> bool {
        (0..self.levels.len() as u32).all(|level| self.degrees(level).least == self.degree(level))
    }

    /// Every broker, in the order of their numbers.
    pub fn brokers(&self) -> impl Iterator<Item = TreeBroker> + '_ {
        (0..)
            .zip(&self.levels)
            .flat_map(|(level, &count)| (0..count).map(move |place| TreeBroker { level, index: place }))
    }

    /// A broker's number in the order of [`brokers`](Self::brokers).
    pub fn number(&self, broker: TreeBroker) -> u32 {
        self.levels[..broker.level as usize].iter().sum::<u32>() + broker.index
    }

    /// Whether it has consumers, not brokers, below it.
    pub fn is_leaf(&self, broker: TreeBroker) -> bool {
        broker.level as usize + 1 == self.levels.len()
    }

    /// The broker above; `None` for the root.
    pub fn parent(&self, broker: TreeBroker) -> Option<TreeBroker> {
        let level = broker.level.checked_sub(1)?;
        Some(TreeBroker { level, index: self.above(level, broker.index) })
    }

    /// The brokers directly below; none for a leaf.
    pub fn children(&self, broker: TreeBroker) -> impl Iterator<Item = TreeBroker> + use<> {
        let places = if self.is_leaf(broker) { 0..0 } else { self.below(broker) };
        let level = broker.level + 1;
        places.map(move |place| TreeBroker { level, index: place })
    }

    /// The consumers of a leaf, by number from the left; none for another broker.
    pub fn consumers_of(&self, broker: TreeBroker) -> Range<u32> {
        if self.is_leaf(broker) { self.below(broker) } else { 0..0 }
    }

    /// The routes that join the brokers, one for each but the root, the upper ones first.
    pub fn routes(&self) -> impl Iterator<Item = TreeRoute> + '_ {
        self.brokers().filter_map(|destination| Some(TreeRoute { destination, source: self.parent(destination)? }))
    }

    /// How many nodes the level below has.
    fn count_below(&self, level: u32) -> u32 {
        self.levels.get(level as usize + 1).copied().unwrap_or(self.consumers)
    }

    /// The indexes of a broker's children. Brokers with one child more come first.
    fn below(&self, broker: TreeBroker) -> Range<u32> {
        let DegreeRange { least, most, with_most } = self.degrees(broker.level);
        let more = most - least;
        let from = |place: u32| place * least + place.min(with_most) * more;
        from(broker.index)..from(broker.index + 1)
    }

    /// The index, on a level, of the parent of a node on the next level.
    fn above(&self, level: u32, place: u32) -> u32 {
        let DegreeRange { least, most, with_most } = self.degrees(level);
        match place.checked_sub(with_most * most) {
            None => place / most,
            // If `with_most` is all of them, brokers with one child more have all children, so that a `least` of 0
            // divides nothing.
            Some(behind) => with_most + behind / least,
        }
    }
}
