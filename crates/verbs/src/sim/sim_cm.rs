//! The connection manager of a simulated fabric.
//!
//! An event never overtakes a message that the same queue pair sent before.

use super::sim_network::SimNetwork;
use super::sim_queue_pair::{SimQueuePair, SimQueuePairState};
use crate::device::{ConnectRequestId, ConnectionEvent, DeviceError, QueuePairId, QueuePairLimits};
use crate::limits::PRIVATE_BYTES_MAX;
use link::PeerAddress;

/// The private data of an acceptance is padded with zeroes to this length.
const REPLY_BYTES: usize = 196;
/// That of a rejection.
const REJECT_BYTES: usize = 148;

fn padded(private: &[u8], bytes: usize) -> Result<Vec<u8>, DeviceError> {
    if private.len() > bytes {
        return Err(DeviceError("too much private data".into()));
    }
    let mut padded = private.to_vec();
    padded.resize(bytes, 0);
    Ok(padded)
}

impl SimNetwork {
    pub fn connect(
        &mut self,
        node: usize,
        address: &str,
        private: &[u8],
        limits: QueuePairLimits,
    ) -> Result<QueuePairId, DeviceError> {
        let private = padded(private, PRIVATE_BYTES_MAX)?;
        let number = self.next_number();
        self.nodes[node]
            .queue_pairs
            .insert(number, SimQueuePair::new(number, SimQueuePairState::Connecting, None, limits));
        let pair = QueuePairId(number);
        match self.least_busy(address) {
            Some(listener) => {
                let request = u64::from(self.next_number());
                self.requests.insert(request, (node, number));
                let peer = PeerAddress::in_process(&format!("sim:{number}"), address);
                self.queue_event(
                    listener,
                    ConnectionEvent::Request { request: ConnectRequestId(request), private, peer },
                );
            }
            None => self.queue_event(node, ConnectionEvent::Rejected { pair, private: vec![0; REJECT_BYTES] }),
        }
        Ok(pair)
    }

    /// Of the nodes that listen together, the one with the fewest queue pairs.
    fn least_busy(&self, address: &str) -> Option<usize> {
        let listeners = self.listeners.get(address)?.iter().copied();
        listeners.filter(|&node| !self.nodes[node].is_broken).min_by_key(|&node| self.nodes[node].queue_pairs.len())
    }

    pub fn accept(
        &mut self,
        node: usize,
        request: ConnectRequestId,
        private: &[u8],
        limits: QueuePairLimits,
    ) -> Result<QueuePairId, DeviceError> {
        let private = padded(private, REPLY_BYTES)?;
        let (client, theirs) = self.requests.remove(&request.0).ok_or(DeviceError("the request is gone".into()))?;
        if !self.queue_pair(client, theirs).is_some_and(|pair| pair.state == SimQueuePairState::Connecting) {
            return Err(DeviceError("the request is gone".into()));
        }
        let number = self.next_number();
        self.nodes[node]
            .queue_pairs
            .insert(number, SimQueuePair::new(number, SimQueuePairState::Connected, Some((client, theirs)), limits));
        if let Some(pair) = self.queue_pair(client, theirs) {
            pair.peer = Some((node, number));
        }
        self.queue_event(client, ConnectionEvent::Established { pair: QueuePairId(theirs), private });
        if self.options.initiator_sends_first {
            self.queue_event(node, ConnectionEvent::Established { pair: QueuePairId(number), private: Vec::new() });
        }
        Ok(QueuePairId(number))
    }

    pub fn reject(&mut self, request: ConnectRequestId, private: &[u8]) {
        let Some((client, theirs)) = self.requests.remove(&request.0) else { return };
        // Too long private data is the caller's mistake; the request is rejected nevertheless.
        let private = padded(private, REJECT_BYTES).unwrap_or_default();
        self.queue_event(client, ConnectionEvent::Rejected { pair: QueuePairId(theirs), private });
    }

    pub fn disconnect(&mut self, node: usize, pair: QueuePairId) {
        let Some(it) = self.queue_pair(node, pair.0) else { return };
        let peer = it.peer;
        self.fail_queue_pair(node, pair.0, None);
        if let Some((there, theirs)) = peer
            && !self.nodes[node].is_gone
            && self.queue_pair(there, theirs).is_some()
        {
            self.queue_event(there, ConnectionEvent::Disconnected { pair: QueuePairId(theirs) });
        }
    }

    /// Delivers the events that are due.
    pub fn deliver_events(&mut self, node: usize) {
        while let Some((due, _)) = self.nodes[node].pending_events.front()
            && *due <= self.now
            && let Some((_, event)) = self.nodes[node].pending_events.pop_front()
        {
            if self.nodes[node].is_gone {
                continue;
            }
            match &event {
                ConnectionEvent::Established { pair, .. } => {
                    let Some(it) = self.queue_pair(node, pair.0).filter(|it| it.state != SimQueuePairState::Failed)
                    else {
                        continue;
                    };
                    // The accepting end is connected since it accepted.
                    let was = std::mem::replace(&mut it.state, SimQueuePairState::Connected);
                    if was == SimQueuePairState::Connecting
                        && let Some((there, theirs)) = it.peer
                        && !self.options.initiator_sends_first
                    {
                        // The accepting end gets its event last; a message may arrive earlier.
                        self.queue_event(
                            there,
                            ConnectionEvent::Established { pair: QueuePairId(theirs), private: Vec::new() },
                        );
                    }
                }
                ConnectionEvent::Rejected { pair, .. } | ConnectionEvent::Disconnected { pair } => {
                    let number = pair.0;
                    self.fail_queue_pair(node, number, None);
                }
                ConnectionEvent::Request { .. } | ConnectionEvent::Failed { .. } => {}
            }
            let it = &mut self.nodes[node];
            it.events.push_back(event);
            it.has_event_notice = true;
        }
    }
}
