//! Quotas of virtual hosts: how many bytes wait in their queues on this shard, and which of them are full.
//!
//! The sums are exact whenever a command has run. Queues of virtual hosts without a quota cost nothing.

use crate::queue::Queue;
use catalog::VhostId;
use std::collections::BTreeMap;

struct VhostQuota {
    bytes: u64,
    bytes_max: u64,
    full: bool,
}

impl VhostQuota {
    /// Of a virtual host without one, whose queues are counted until each is told.
    const NONE: VhostQuota = VhostQuota { bytes: 0, bytes_max: u64::MAX, full: false };
}

/// The virtual hosts with a quota.
#[derive(Default)]
pub struct VhostQuotas(BTreeMap<VhostId, VhostQuota>);

impl VhostQuotas {
    fn get_mut(&mut self, vhost: VhostId) -> &mut VhostQuota {
        self.0.entry(vhost).or_insert(VhostQuota::NONE)
    }

    /// Sets which virtual hosts have a quota. Returns those that were full and have none any more.
    pub fn set_limits(&mut self, limits: impl Iterator<Item = (VhostId, u64)>) -> Vec<VhostId> {
        let mut before = std::mem::take(&mut self.0);
        for (vhost, bytes_max) in limits {
            let quota = before.remove(&vhost).unwrap_or(VhostQuota::NONE);
            self.0.insert(vhost, VhostQuota { bytes_max, ..quota });
        }
        let full = before.iter().filter(|(_, quota)| quota.full).map(|(vhost, _)| *vhost).collect();
        // Their queues are counted until each is told, which takes more than one turn where there are many.
        let counted = before.into_iter().filter(|(_, quota)| quota.bytes > 0);
        self.0.extend(counted.map(|(vhost, quota)| (vhost, VhostQuota { bytes: quota.bytes, ..VhostQuota::NONE })));
        full
    }

    /// The messages that wait in a queue have changed.
    #[inline]
    pub fn update(&mut self, queue: &mut Queue) {
        if queue.features.as_ref().is_some_and(|features| features.counted_bytes.is_some()) {
            self.update_counted(queue);
        }
    }

    fn update_counted(&mut self, queue: &mut Queue) {
        let bytes = queue.waiting_bytes();
        if let Some(features) = &mut queue.features
            && let Some(counted) = &mut features.counted_bytes
        {
            let quota = self.get_mut(queue.vhost);
            quota.bytes = quota.bytes + bytes - *counted;
            *counted = bytes;
        }
    }

    /// A queue is deleted, or is not counted any more.
    pub fn remove_queue(&mut self, queue: &mut Queue) {
        if let Some(features) = &mut queue.features
            && let Some(counted) = features.counted_bytes.take()
        {
            self.get_mut(queue.vhost).bytes -= counted;
        }
    }

    /// The virtual hosts with a quota: the bytes that wait here, and those that may wait on all shards.
    pub fn iter(&self) -> impl Iterator<Item = (VhostId, u64, u64)> {
        let limited = self.0.iter().filter(|(_, quota)| quota.bytes_max < u64::MAX);
        limited.map(|(vhost, quota)| (*vhost, quota.bytes, quota.bytes_max))
    }

    /// How many are counted.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Notes whether a virtual host is full. Returns whether that has changed.
    pub fn set_full(&mut self, vhost: VhostId, full: bool) -> bool {
        let quota = self.0.get_mut(&vhost);
        quota.is_some_and(|quota| std::mem::replace(&mut quota.full, full) != full)
    }

    pub fn is_full(&self, vhost: VhostId) -> bool {
        self.0.get(&vhost).is_some_and(|quota| quota.full)
    }
}
