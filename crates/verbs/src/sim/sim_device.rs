//! A simulated device: one node of a fabric. Only `wait` advances the fabric's time, by one step.

use super::sim_network::{SimGrant, SimNetwork};
use super::{Fabric, STEP};
use crate::device::{
    ConnectRequestId, ConnectionEvent, Device, DeviceCapabilities, DeviceError, QueuePairId, QueuePairLimits,
    ReadGrant, WorkCompletion, WorkRequest, WorkRequestId,
};
use crate::limits::MESSAGE_PARTS_MAX;
use crate::wake_pipe::WakePipe;
use slab::{BlockMut, Slice};
use std::os::fd::RawFd;
use std::time::Duration;

/// A device of a [`Fabric`].
pub struct SimDevice {
    fabric: Fabric,
    node: usize,
}

impl SimDevice {
    pub(super) fn new(fabric: Fabric, node: usize) -> Self {
        SimDevice { fabric, node }
    }

    /// Its number in the fabric, from zero.
    pub fn node(&self) -> usize {
        self.node
    }
}

/// Fails if the device was removed.
fn whole(net: &SimNetwork, node: usize) -> Result<(), DeviceError> {
    if net.nodes[node].is_broken { Err(mistake("the device has failed")) } else { Ok(()) }
}

fn mistake(what: &str) -> DeviceError {
    DeviceError(what.to_owned())
}

impl Drop for SimDevice {
    /// In real time other threads keep running: connected peers get no answer any more.
    fn drop(&mut self) {
        let mut net = self.fabric.network();
        if net.live.is_some() {
            let node = self.node;
            net.listeners.values_mut().for_each(|listeners| listeners.retain(|&other| other != node));
            net.vanish(node);
            self.fabric.settle(net);
        }
    }
}

impl Device for SimDevice {
    fn capabilities(&self) -> DeviceCapabilities {
        let options = &self.fabric.network().options;
        DeviceCapabilities {
            inline_bytes_max: options.inline_bytes_max,
            sge_max: MESSAGE_PARTS_MAX + 1,
            reads_issued_max: 1,
            reads_answered_max: 16,
            receives_max: 1 << 20,
            initiator_sends_first: options.initiator_sends_first,
        }
    }

    fn card(&self) -> String {
        self.fabric.card()
    }

    fn now(&self) -> Duration {
        let net = self.fabric.network();
        if let Some(live) = &net.live {
            return live.now();
        }
        let steps = net.now;
        STEP * u32::try_from(steps).unwrap_or(u32::MAX)
    }

    fn grant(&mut self, memory: Slice) -> Result<ReadGrant, DeviceError> {
        let mut net = self.fabric.network();
        if net.grants.values().filter(|granted| granted.node == self.node).count() >= net.options.grants_max {
            return Err(mistake("no more registrations are possible"));
        }
        let key = net.next_number();
        let address = memory.as_ptr().addr() as u64;
        net.grants.insert(key, SimGrant { node: self.node, address, memory });
        Ok(ReadGrant { address, key })
    }

    fn revoke(&mut self, grant: ReadGrant) {
        let gone = self.fabric.network().grants.remove(&grant.key);
        assert!(gone.is_some(), "a grant is revoked once");
    }

    fn post_receives(&mut self, buffers: &mut Vec<(WorkRequestId, BlockMut)>) -> Result<(), DeviceError> {
        let mut net = self.fabric.network();
        if let Err(broken) = whole(&net, self.node) {
            buffers.clear();
            return Err(broken);
        }
        let node = &mut net.nodes[self.node];
        node.regions.extend(buffers.iter().filter_map(|(_, buffer)| Some(buffer.region()?.serial)));
        node.receives.extend(buffers.drain(..));
        self.fabric.settle(net);
        Ok(())
    }

    fn post(&mut self, pair: QueuePairId, list: &mut Vec<WorkRequest>) -> Result<(), DeviceError> {
        let mut net = self.fabric.network();
        if let Err(broken) = whole(&net, self.node) {
            list.clear();
            return Err(broken);
        }
        let inline_bytes_max = net.options.inline_bytes_max;
        let node = &mut net.nodes[self.node];
        for work in list.iter() {
            match work {
                WorkRequest::Send { head, parts, inline, .. } => {
                    let bytes = head.as_bytes().len() + parts.iter().map(|part| part.len()).sum::<usize>();
                    assert!(!inline || bytes <= inline_bytes_max, "{bytes} bytes inline");
                    let parts = parts.iter().filter(|_| !inline);
                    node.regions.extend(parts.filter_map(|part| Some(part.region()?.serial)));
                }
                WorkRequest::Read { into, at, bytes, .. } => {
                    assert!(at + *bytes as usize <= into.len(), "a READ beyond its memory");
                    node.regions.extend(into.region().map(|region| region.serial));
                }
            }
        }
        let Some(it) = node.queue_pairs.get_mut(&pair.0) else {
            list.clear();
            return Err(mistake("no such queue pair"));
        };
        it.queue.extend(list.drain(..));
        assert!(it.slots_used() <= it.limits.send_slots, "more work than the send queue has slots");
        if it.state == super::sim_queue_pair::SimQueuePairState::Failed {
            net.fail_queue_pair(self.node, pair.0, None);
        }
        self.fabric.settle(net);
        Ok(())
    }

    fn poll(&mut self, into: &mut Vec<WorkCompletion>, most: usize) -> Result<usize, DeviceError> {
        let mut net = self.fabric.network();
        whole(&net, self.node)?;
        net.on_completions_polled(self.node);
        let queue = &mut net.nodes[self.node].completions;
        let count = most.min(queue.len());
        into.extend(queue.drain(..count).map(|entry| entry.completion));
        self.fabric.wake_waiting(net);
        Ok(count)
    }

    fn arm(&mut self) -> Result<(), DeviceError> {
        let mut net = self.fabric.network();
        whole(&net, self.node)?;
        net.nodes[self.node].is_armed = true;
        Ok(())
    }

    /// Advances time by one step; in real time, blocks.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DeviceError> {
        let net = self.fabric.network();
        whole(&net, self.node)?;
        if net.live.is_none() {
            drop(net);
            self.fabric.step();
            return Ok(());
        }
        self.fabric.wait(net, self.node, timeout);
        Ok(())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.fabric.network().nodes[self.node].wake_pipe.iter().map(WakePipe::descriptor).collect()
    }

    fn listen(&mut self, address: &str) -> Result<(), DeviceError> {
        let mut net = self.fabric.network();
        let group = net.nodes[self.node].group;
        let listeners = net.listeners.get(address).cloned().unwrap_or_default();
        if listeners.iter().any(|&other| other == self.node || net.nodes[other].group != group) {
            return Err(mistake("the address is in use"));
        }
        net.listeners.entry(address.to_owned()).or_default().push(self.node);
        Ok(())
    }

    fn connect(&mut self, address: &str, private: &[u8], limits: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
        let mut net = self.fabric.network();
        whole(&net, self.node)?;
        let outcome = net.connect(self.node, address, private, *limits);
        self.fabric.settle(net);
        outcome
    }

    fn accept(
        &mut self,
        request: ConnectRequestId,
        private: &[u8],
        limits: &QueuePairLimits,
    ) -> Result<QueuePairId, DeviceError> {
        let mut net = self.fabric.network();
        whole(&net, self.node)?;
        let outcome = net.accept(self.node, request, private, *limits);
        self.fabric.settle(net);
        outcome
    }

    fn reject(&mut self, request: ConnectRequestId, private: &[u8]) {
        let mut net = self.fabric.network();
        net.reject(request, private);
        self.fabric.settle(net);
    }

    fn disconnect(&mut self, pair: QueuePairId) {
        let mut net = self.fabric.network();
        net.disconnect(self.node, pair);
        self.fabric.settle(net);
    }

    fn destroy(&mut self, pair: QueuePairId) {
        let mut net = self.fabric.network();
        net.fail_queue_pair(self.node, pair.0, None);
        net.nodes[self.node].queue_pairs.remove(&pair.0);
        self.fabric.settle(net);
    }

    fn events(&mut self, _now: Duration, into: &mut Vec<ConnectionEvent>) -> Result<(), DeviceError> {
        let mut net = self.fabric.network();
        whole(&net, self.node)?;
        net.on_events_taken(self.node);
        let late = net.options.late_events_permille;
        if net.live.is_some() || !net.chance.permille(late) {
            into.extend(net.nodes[self.node].events.drain(..));
        }
        self.fabric.wake_waiting(net);
        Ok(())
    }
}
