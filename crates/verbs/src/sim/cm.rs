//! The connection manager of a simulated fabric.
//!
//! Enters: requests and their answers.  Leaves: events, in the order of one device.
//! Never:  lets an event overtake a message of the same queue pair that was sent before.

use super::net::Net;
use super::pair::{Pair, Stage};
use crate::device::{DeviceError, Event, QueuePair, QueueWishes, Request};
use crate::limits::PRIVATE_BYTES_MAX;
use link::PeerAddress;

/// An acceptance's private data has so many bytes; what is not used is zero.
const REPLY_BYTES: usize = 196;
/// A reject's.
const REJECT_BYTES: usize = 148;

fn padded(private: &[u8], bytes: usize) -> Result<Vec<u8>, DeviceError> {
    if private.len() > bytes {
        return Err(DeviceError("too much private data".into()));
    }
    let mut padded = private.to_vec();
    padded.resize(bytes, 0);
    Ok(padded)
}

impl Net {
    pub fn ask(
        &mut self,
        node: usize,
        address: &str,
        private: &[u8],
        wishes: QueueWishes,
    ) -> Result<QueuePair, DeviceError> {
        let private = padded(private, PRIVATE_BYTES_MAX)?;
        let number = self.number();
        self.nodes[node].pairs.insert(number, Pair::new(number, Stage::Asking, None, wishes));
        let pair = QueuePair(number);
        match self.least_busy(address) {
            Some(listener) => {
                let request = u64::from(self.number());
                self.requests.insert(request, (node, number));
                let peer = PeerAddress::in_process(&format!("sim:{number}"), address);
                self.tell(listener, Event::Request { request: Request(request), private, peer });
            }
            None => self.tell(node, Event::Rejected { pair, private: vec![0; REJECT_BYTES] }),
        }
        Ok(pair)
    }

    /// Of those that listen together the one with the fewest queue pairs.
    fn least_busy(&self, address: &str) -> Option<usize> {
        let listeners = self.listeners.get(address)?.iter().copied();
        listeners.filter(|&node| !self.nodes[node].is_broken).min_by_key(|&node| self.nodes[node].pairs.len())
    }

    pub fn accept(
        &mut self,
        node: usize,
        request: Request,
        private: &[u8],
        wishes: QueueWishes,
    ) -> Result<QueuePair, DeviceError> {
        let private = padded(private, REPLY_BYTES)?;
        let (client, theirs) = self.requests.remove(&request.0).ok_or(DeviceError("the request is gone".into()))?;
        if !self.pair(client, theirs).is_some_and(|pair| pair.stage == Stage::Asking) {
            return Err(DeviceError("the request is gone".into()));
        }
        let number = self.number();
        self.nodes[node].pairs.insert(number, Pair::new(number, Stage::Up, Some((client, theirs)), wishes));
        if let Some(pair) = self.pair(client, theirs) {
            pair.peer = Some((node, number));
        }
        self.tell(client, Event::Established { pair: QueuePair(theirs), private });
        if self.options.asker_speaks_first {
            self.tell(node, Event::Established { pair: QueuePair(number), private: Vec::new() });
        }
        Ok(QueuePair(number))
    }

    pub fn reject(&mut self, request: Request, private: &[u8]) {
        let Some((client, theirs)) = self.requests.remove(&request.0) else { return };
        // What is too long is the caller's mistake, and rejected all the same.
        let private = padded(private, REJECT_BYTES).unwrap_or_default();
        self.tell(client, Event::Rejected { pair: QueuePair(theirs), private });
    }

    pub fn disconnect(&mut self, node: usize, pair: QueuePair) {
        let Some(it) = self.pair(node, pair.0) else { return };
        let peer = it.peer;
        self.down(node, pair.0, None);
        if let Some((there, theirs)) = peer
            && !self.nodes[node].is_gone
            && self.pair(there, theirs).is_some()
        {
            self.tell(there, Event::Disconnected { pair: QueuePair(theirs) });
        }
    }

    /// Events whose time has come.
    pub fn arrive(&mut self, node: usize) {
        while let Some((due, _)) = self.nodes[node].coming.front()
            && *due <= self.now
            && let Some((_, event)) = self.nodes[node].coming.pop_front()
        {
            if self.nodes[node].is_gone {
                continue;
            }
            match &event {
                Event::Established { pair, .. } => {
                    let Some(it) = self.pair(node, pair.0).filter(|it| it.stage != Stage::Down) else { continue };
                    // The end that accepted is up since then.
                    let was = std::mem::replace(&mut it.stage, Stage::Up);
                    if was == Stage::Asking
                        && let Some((there, theirs)) = it.peer
                        && !self.options.asker_speaks_first
                    {
                        // It hears last that the connection stands; a message may come before that.
                        self.tell(there, Event::Established { pair: QueuePair(theirs), private: Vec::new() });
                    }
                }
                Event::Rejected { pair, .. } | Event::Disconnected { pair } => {
                    let number = pair.0;
                    self.down(node, number, None);
                }
                Event::Request { .. } | Event::Failed { .. } => {}
            }
            let it = &mut self.nodes[node];
            it.events.push_back(event);
            it.is_notified = true;
        }
    }
}
