//! What the stores of all shards tell one another: definitions that are durable, whether a disk is full, and the failure that
//! ends the broker.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Shared by all shards.
pub struct StoreSignals {
    /// Definitions before this version are durable, or need not be.
    first_undurable: AtomicU64,
    /// Shards whose disk has too little free space.
    shards_without_space: AtomicU32,
    /// Why the broker ends.
    failure: OnceLock<Box<str>>,
}

impl Default for StoreSignals {
    /// Without a journal no message waits for definitions.
    fn default() -> Self {
        StoreSignals {
            first_undurable: AtomicU64::new(u64::MAX),
            shards_without_space: AtomicU32::new(0),
            failure: OnceLock::new(),
        }
    }
}

impl StoreSignals {
    /// Shard 0: definitions up to this version are durable; none if there is none, not even those that the broker began with.
    pub fn set_durable_definitions(&self, version: Option<u64>) {
        self.first_undurable.store(version.map_or(0, |version| version + 1), Ordering::Release);
    }

    /// The first version of the definitions that is not durable.
    #[inline]
    pub fn first_undurable(&self) -> u64 {
        self.first_undurable.load(Ordering::Acquire)
    }

    /// The disk of one more shard has too little space, or of one less.
    pub fn set_space(&self, has_space: bool) {
        if has_space {
            let before = self.shards_without_space.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "a shard has space again only after it had none");
        } else {
            self.shards_without_space.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a disk of any shard has too little space.
    #[inline]
    pub fn is_disk_full(&self) -> bool {
        self.shards_without_space.load(Ordering::Relaxed) > 0
    }

    /// A disk has failed. Returns whether it is the first one.
    pub fn fail(&self, text: &str) -> bool {
        self.failure.set(text.into()).is_ok()
    }

    /// Why the broker ends, if a disk has failed.
    #[inline]
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::StoreSignals;

    #[test]
    fn a_disk_is_full_until_every_shard_has_space_again() {
        let signals = StoreSignals::default();
        assert!(!signals.is_disk_full());
        signals.set_space(false);
        signals.set_space(false);
        signals.set_space(true);
        assert!(signals.is_disk_full());
        signals.set_space(true);
        assert!(!signals.is_disk_full());
    }

    #[test]
    fn the_first_failure_is_the_one_that_is_told() {
        let signals = StoreSignals::default();
        assert_eq!(signals.failure(), None);
        assert!(signals.fail("one") && !signals.fail("two"));
        assert_eq!(signals.failure(), Some("one"));
    }
}
