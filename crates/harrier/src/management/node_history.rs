//! What the broker's process had in the last two rounds, and how it changes.

use crate::management::process_resources::ProcessResources;
use management::NodeResourceRates;

/// What the process had in a round.
#[derive(Clone, Copy, Default)]
pub struct NodeSample {
    pub resources: ProcessResources,
    /// Connections of clients.
    pub sockets: u64,
    pub memory_bytes: u64,
    /// Milliseconds since the epoch.
    pub at_ms: u64,
}

/// The last two rounds.
#[derive(Default)]
pub struct NodeHistory {
    now: NodeSample,
    before: Option<NodeSample>,
}

impl NodeHistory {
    pub fn update(&mut self, sample: NodeSample) {
        let before = std::mem::replace(&mut self.now, sample);
        self.before = (before.at_ms > 0).then_some(before);
    }

    /// So much of the disk is free now, between two rounds.
    pub fn set_disk_free(&mut self, bytes: Option<u64>) {
        self.now.resources.disk_free_bytes = bytes;
    }

    pub fn now(&self) -> &NodeSample {
        &self.now
    }

    /// Whether less of the disk is free than shall be, as far as that is known.
    pub fn is_disk_short(&self, free_bytes_least: u64) -> bool {
        self.now.resources.disk_free_bytes.is_some_and(|free| free < free_bytes_least)
    }

    /// How much more of each there was in the last round, a second; nothing as long as there was one round.
    pub fn rates(&self) -> NodeResourceRates {
        let Some(before) = self.before.as_ref().filter(|before| before.at_ms < self.now.at_ms) else {
            return NodeResourceRates::default();
        };
        let seconds = (self.now.at_ms - before.at_ms) as f64 / 1e3;
        let rate = |of: fn(&NodeSample) -> u64| (of(&self.now) as f64 - of(before) as f64) / seconds;
        NodeResourceRates {
            memory_bytes: rate(|sample| sample.memory_bytes),
            disk_free_bytes: rate(|sample| sample.resources.disk_free_bytes.unwrap_or(0)),
            descriptors: rate(|sample| sample.resources.descriptors),
            sockets: rate(|sample| sample.sockets),
            threads: rate(|sample| sample.resources.threads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeHistory, NodeSample};
    use crate::management::process_resources::ProcessResources;
    use management::NodeResourceRates;

    #[test]
    fn a_disk_of_which_nothing_is_known_is_not_short() {
        let mut history = NodeHistory::default();
        assert!(!history.is_disk_short(1), "nobody has looked yet");
        for (free, is_short) in [(None, false), (Some(9), true), (Some(10), false)] {
            let resources = ProcessResources { disk_free_bytes: free, ..ProcessResources::default() };
            history.update(NodeSample { resources, at_ms: 1, ..NodeSample::default() });
            assert_eq!(history.is_disk_short(10), is_short, "{free:?}");
        }
        history.set_disk_free(Some(9));
        assert!(history.is_disk_short(10), "between two rounds");
    }

    #[test]
    fn what_becomes_less_has_a_negative_rate() {
        let mut history = NodeHistory::default();
        let sample =
            |at_ms, sockets, memory_bytes| NodeSample { sockets, memory_bytes, at_ms, ..NodeSample::default() };
        history.update(sample(1_000, 10, 500));
        assert_eq!(history.rates(), NodeResourceRates::default());
        history.update(sample(3_000, 4, 700));
        let rates = history.rates();
        assert_eq!((rates.sockets, rates.memory_bytes, rates.threads), (-3.0, 100.0, 0.0));
        assert_eq!((history.now().sockets, history.now().memory_bytes), (4, 700));
    }
}
