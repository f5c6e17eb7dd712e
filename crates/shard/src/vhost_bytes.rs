//! Bytes queued in virtual hosts that have a limit of bytes, shard by shard.

use catalog::{ShardId, VhostId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The counts of all shards. Shards take the lock when they add up their memory, and only for virtual hosts that have
/// such a limit.
#[derive(Default)]
pub(crate) struct VhostBytes(Mutex<HashMap<VhostId, Vec<u64>>>);

impl VhostBytes {
    /// Records what is queued in a virtual host on one shard. Returns what is queued on all of them.
    pub fn record(&self, vhost: VhostId, shard: ShardId, bytes: u64) -> u64 {
        let mut vhosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = vhosts.entry(vhost).or_default();
        let index = usize::from(shard.0);
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        counts[index] = bytes;
        counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::VhostBytes;
    use catalog::{ShardId, VhostId};

    #[test]
    fn the_bytes_of_all_shards_are_added_up() {
        let bytes = VhostBytes::default();
        assert_eq!(bytes.record(VhostId(1), ShardId(1), 5), 5);
        assert_eq!(bytes.record(VhostId(1), ShardId(0), 2), 7);
        assert_eq!(bytes.record(VhostId(2), ShardId(0), 9), 9);
        assert_eq!(bytes.record(VhostId(1), ShardId(1), 0), 2);
    }
}
