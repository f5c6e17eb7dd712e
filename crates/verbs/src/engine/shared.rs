//! What all connections of a port share: the device, the buffers, the limits in all.
//!
//! Enters: buffers that are free, grants that end.  Leaves: buffers posted, landing blocks lent.
//! Owns:   the device, free memory, the sum of what peers may read.
//! Never:  knows one connection from another.

use super::inward::Free;
use super::{Census, Counters};
use crate::device::{Abilities, Device, DeviceError, Grant, WorkId};
use crate::settings::Settings;
use slab::{BlockMut, Slice};
use std::collections::VecDeque;
use std::time::Duration;

/// The bit in the number of a receive.
pub(crate) const RECEIVE: u64 = 1 << 63;
/// The bit in the number of a READ into a landing block.
pub(crate) const LANDING: u64 = 1 << 62;

pub(crate) struct Shared<D> {
    pub device: D,
    pub abilities: Abilities,
    pub settings: Settings,
    pub now: Duration,
    pub counters: Counters,
    /// Receive buffers to post.
    free_buffers: Vec<(WorkId, BlockMut)>,
    posted_buffers: usize,
    free_landings: Vec<BlockMut>,
    /// Connections that wait for a landing block.
    pub landing_queue: VecDeque<u32>,
    pub granted_bytes: usize,
    /// Connections with edges that nobody took.
    pub edged: Vec<u32>,
    /// Connections that may have something to post.
    pub dirty: Vec<u32>,
    pub frees: Vec<Free>,
}

impl<D: Device> Shared<D> {
    pub fn new(device: D, settings: Settings, buffers: Vec<BlockMut>, landings: Vec<BlockMut>) -> Self {
        Shared {
            abilities: device.abilities(),
            now: device.now(),
            device,
            settings,
            counters: Counters::default(),
            free_buffers: buffers.into_iter().map(|buffer| (WorkId(RECEIVE), buffer)).collect(),
            posted_buffers: 0,
            free_landings: landings,
            landing_queue: VecDeque::new(),
            granted_bytes: 0,
            edged: Vec::new(),
            dirty: Vec::new(),
            frees: Vec::new(),
        }
    }

    /// A receive buffer is free.
    pub fn free_buffer(&mut self, buffer: BlockMut) {
        self.free_buffers.push((WorkId(RECEIVE), buffer));
    }

    /// The device gave a receive buffer back.
    pub fn took_buffer(&mut self) {
        self.posted_buffers -= 1;
    }

    /// Gives free buffers to the device, once they are worth a list. It must happen before the credits for them are returned,
    /// but for so many that half of the spare buffers stand in for them: the device has one for each message that peers may
    /// send, and the other half for those that they may not.
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

    pub fn grant(&mut self, memory: Slice) -> Result<Grant, DeviceError> {
        let bytes = memory.len();
        let grant = self.device.grant(memory)?;
        self.granted_bytes += bytes;
        self.counters.offers += 1;
        self.counters.offered_bytes += bytes as u64;
        Ok(grant)
    }

    pub fn revoke(&mut self, grant: Grant, bytes: usize) {
        self.granted_bytes -= bytes;
        self.device.revoke(grant);
    }

    /// Whether a look has something to do, whatever the device says.
    pub fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.landing_queue.is_empty()
    }

    pub fn census(&self) -> Census {
        Census {
            posted_buffers: self.posted_buffers,
            free_buffers: self.free_buffers.len(),
            granted_bytes: self.granted_bytes,
            free_landings: self.free_landings.len(),
            ..Census::default()
        }
    }
}
