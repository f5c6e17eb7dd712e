//! Which shards hold publishers back because memory is low, counted for readers outside.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The memory alarms of all shards.
#[derive(Default)]
pub(crate) struct MemoryAlarms {
    /// Shards whose alarm is in effect.
    shards: AtomicU32,
    /// How often the first of them was raised.
    raised: AtomicU64,
}

impl MemoryAlarms {
    /// The alarm of a shard is raised, or ends.
    pub fn change(&self, is_raised: bool) {
        if !is_raised {
            self.shards.fetch_sub(1, Ordering::Relaxed);
        } else if self.shards.fetch_add(1, Ordering::Relaxed) == 0 {
            self.raised.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn is_raised(&self) -> bool {
        self.shards.load(Ordering::Relaxed) > 0
    }

    pub fn raised(&self) -> u64 {
        self.raised.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryAlarms;

    #[test]
    fn the_alarm_of_several_shards_is_one() {
        let alarms = MemoryAlarms::default();
        let mut told = Vec::new();
        for is_raised in [true, true, false, false, true] {
            alarms.change(is_raised);
            told.push((alarms.is_raised(), alarms.raised()));
        }
        assert_eq!(told, [(true, 1), (true, 1), (true, 1), (false, 1), (true, 2)]);
    }
}
