//! The room of virtual hosts: how many bytes wait in the queues of one that has a limit for them.
//!
//! Enters: queues whose messages have come or gone, limits.  Leaves: sums, and which virtual hosts are full.
//! Owns:   the share of this shard in each such virtual host, exact whenever a command has run.
//! Never:  costs a queue anything whose virtual host has no limit; sees the shares of other shards.

use crate::queue::Queue;
use catalog::VhostId;

struct VhostQuota {
    vhost: VhostId,
    bytes: u64,
    bytes_max: u64,
    full: bool,
}

/// The virtual hosts whose bytes are counted: few, so that they are looked through.
#[derive(Default)]
pub(crate) struct VhostQuotas(Vec<VhostQuota>);

impl VhostQuotas {
    fn get_mut(&mut self, vhost: VhostId) -> &mut VhostQuota {
        let at = self.0.iter().position(|room| room.vhost == vhost).unwrap_or_else(|| {
            self.0.push(VhostQuota { vhost, bytes: 0, bytes_max: u64::MAX, full: false });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Takes in which virtual hosts have a limit. Answers those that were full and have none any more.
    pub fn set_limits(&mut self, limits: impl Iterator<Item = (VhostId, u64)>) -> Vec<VhostId> {
        let mut before = std::mem::take(&mut self.0);
        for (vhost, bytes_max) in limits {
            let room = before.iter().position(|room| room.vhost == vhost).map(|at| before.swap_remove(at));
            let room = room.unwrap_or(VhostQuota { vhost, bytes: 0, bytes_max, full: false });
            self.0.push(VhostQuota { bytes_max, ..room });
        }
        before.iter().filter(|room| room.full).map(|room| room.vhost).collect()
    }

    /// What waits in a queue has changed.
    #[inline]
    pub fn update(&mut self, queue: &mut Queue) {
        if queue.features.as_ref().is_some_and(|features| features.counted_bytes.is_some()) {
            self.update_counted(queue);
        }
    }

    fn update_counted(&mut self, queue: &mut Queue) {
        let bytes = queue.memory_bytes();
        if let Some(features) = &mut queue.features
            && let Some(counted) = &mut features.counted_bytes
        {
            let room = self.get_mut(queue.vhost);
            room.bytes = room.bytes + bytes - *counted;
            *counted = bytes;
        }
    }

    /// A queue goes, or is not counted from now on.
    pub fn remove_queue(&mut self, queue: &mut Queue) {
        if let Some(features) = &mut queue.features
            && let Some(counted) = features.counted_bytes.take()
        {
            self.get_mut(queue.vhost).bytes -= counted;
        }
    }

    /// The virtual hosts with a limit: what waits here, and how much may wait everywhere.
    pub fn iter(&self) -> impl Iterator<Item = (VhostId, u64, u64)> {
        self.0.iter().map(|room| (room.vhost, room.bytes, room.bytes_max))
    }

    /// Notes whether a virtual host is full. Answers whether that is news.
    pub fn set_full(&mut self, vhost: VhostId, full: bool) -> bool {
        let room = self.0.iter_mut().find(|room| room.vhost == vhost);
        room.is_some_and(|room| std::mem::replace(&mut room.full, full) != full)
    }

    /// Whether one is full.
    pub fn is_full(&self, vhost: VhostId) -> bool {
        self.0.iter().any(|room| room.vhost == vhost && room.full)
    }

    /// Whether any is full.
    pub fn any_full(&self) -> bool {
        self.0.iter().any(|room| room.full)
    }
}
