//! What all connections of a port share: the device, its buffers, and the limits on their sum.

use super::receive_half::FreedMemory;
use super::{PortCounters, PortUsage};
use crate::device::{Device, DeviceCapabilities, DeviceError, ReadGrant, WorkRequestId};
use crate::settings::PortSettings;
use slab::{BlockMut, Slice};
use std::collections::VecDeque;
use std::time::Duration;

/// The bit in the work request id of a receive.
pub(crate) const RECEIVE: u64 = 1 << 63;
/// The bit in the work request id of a READ into a landing block.
pub(crate) const LANDING: u64 = 1 << 62;

pub(crate) struct PortShared<D> {
    pub device: D,
    pub capabilities: DeviceCapabilities,
    pub settings: PortSettings,
    pub now: Duration,
    pub counters: PortCounters,
    /// Receive buffers to post.
    free_buffers: Vec<(WorkRequestId, BlockMut)>,
    posted_buffers: usize,
    free_landings: Vec<BlockMut>,
    /// Connections that wait for a landing block.
    pub landing_waiters: VecDeque<u32>,
    pub granted_bytes: usize,
    /// Connections with edges to take.
    pub edged: Vec<u32>,
    /// Connections that may have something to post.
    pub dirty: Vec<u32>,
    pub freed: Vec<FreedMemory>,
}

impl<D: Device> PortShared<D> {
    pub fn new(device: D, settings: PortSettings, buffers: Vec<BlockMut>, landings: Vec<BlockMut>) -> Self {
        PortShared {
            capabilities: device.capabilities(),
            now: device.now(),
            device,
            settings,
            counters: PortCounters::default(),
            free_buffers: buffers.into_iter().map(|buffer| (WorkRequestId(RECEIVE), buffer)).collect(),
            posted_buffers: 0,
            free_landings: landings,
            landing_waiters: VecDeque::new(),
            granted_bytes: 0,
            edged: Vec::new(),
            dirty: Vec::new(),
            freed: Vec::new(),
        }
    }

    pub fn free_buffer(&mut self, buffer: BlockMut) {
        self.free_buffers.push((WorkRequestId(RECEIVE), buffer));
    }

    pub fn receive_completed(&mut self) {
        self.posted_buffers -= 1;
    }

    /// Posts the free buffers, once there are enough for a list. That must happen before their credits are returned,
    /// except for as many as half of the spare buffers replace: so the device has a buffer for each message that peers
    /// may send, and the other half of the spares for messages beyond their credit.
    pub fn replenish(&mut self) -> Result<(), DeviceError> {
        if self.free_buffers.len() <= self.settings.spare_buffers / 2 {
            return Ok(());
        }
        self.posted_buffers += self.free_buffers.len();
        self.counters.receive_doorbells += 1;
        self.device.post_receives(&mut self.free_buffers)
    }

    pub fn take_landing(&mut self) -> Option<BlockMut> {
        self.free_landings.pop()
    }

    pub fn free_landing(&mut self, block: BlockMut) {
        self.free_landings.push(block);
    }

    pub fn grant(&mut self, memory: Slice) -> Result<ReadGrant, DeviceError> {
        let bytes = memory.len();
        let grant = self.device.grant(memory)?;
        self.granted_bytes += bytes;
        self.counters.offers += 1;
        self.counters.offered_bytes += bytes as u64;
        Ok(grant)
    }

    pub fn revoke(&mut self, grant: ReadGrant, bytes: usize) {
        self.granted_bytes -= bytes;
        self.device.revoke(grant);
    }

    /// Whether a poll has something to do even if the device has no event.
    pub fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.landing_waiters.is_empty()
    }

    pub fn usage(&self) -> PortUsage {
        PortUsage {
            posted_buffers: self.posted_buffers,
            free_buffers: self.free_buffers.len(),
            granted_bytes: self.granted_bytes,
            free_landings: self.free_landings.len(),
            ..PortUsage::default()
        }
    }
}
