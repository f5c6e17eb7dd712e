//! One direction of a simulated connection: bytes under way, bytes arrived.
//!
//! Enters: bytes sent.  Leaves: the same bytes in the same order, later.
//! Owns:   the window, the delays, the end of the stream.
//! Never:  loses a byte but by a cut.

use super::rng::SplitMix64;
use std::collections::VecDeque;

/// A direction.
pub(super) struct SimDirection {
    /// Everything sent and not received; the first `arrived` bytes can be received.
    buffer: VecDeque<u8>,
    arrived: usize,
    /// What has not arrived: the step when it does, and how many bytes.
    in_flight: VecDeque<(u64, usize)>,
    window: usize,
    /// Bytes that arrive in one step, at most.
    pub bytes_per_step_max: Option<usize>,
    /// The sender has ended the stream: the end follows the last byte.
    pub finished: bool,
    /// The receiver was told of the end, or will read it.
    pub end_reported: bool,
    /// Nobody will receive any more.
    pub receiver_gone: bool,
    /// The sender was told that there is no room, and waits for an edge.
    pub sender_blocked: bool,
    /// Bytes received so far.
    pub received_bytes: u64,
}

impl SimDirection {
    pub fn new(window: usize) -> Self {
        SimDirection {
            buffer: VecDeque::new(),
            arrived: 0,
            in_flight: VecDeque::new(),
            window,
            bytes_per_step_max: None,
            finished: false,
            end_reported: false,
            receiver_gone: false,
            sender_blocked: false,
            received_bytes: 0,
        }
    }

    pub fn free_bytes(&self) -> usize {
        self.window.saturating_sub(self.buffer.len())
    }

    pub fn arrived(&self) -> usize {
        self.arrived
    }

    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    pub fn is_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether the end of the stream is the next thing to read, or follows bytes that are all there.
    pub fn end_arrived(&self) -> bool {
        self.finished && self.arrived == self.buffer.len()
    }

    /// Takes bytes in. `due`: when they arrive; `None` for at once.
    pub fn write(&mut self, bytes: &[u8], due: Option<u64>) {
        self.buffer.extend(bytes);
        match due {
            None if self.in_flight.is_empty() => self.arrived += bytes.len(),
            due => {
                // A stream keeps its order: nothing arrives before what was sent earlier.
                let earlier = self.in_flight.back().map_or(0, |&(due, _)| due);
                self.in_flight.push_back((due.unwrap_or(0).max(earlier), bytes.len()));
            }
        }
    }

    /// Lets arrive what is due. Answers whether something did.
    pub fn advance(&mut self, step: u64, scatter: bool, chance: &mut SplitMix64) -> bool {
        let mut budget = self.bytes_per_step_max.unwrap_or(usize::MAX);
        let before = self.arrived;
        while budget > 0
            && let Some((due, bytes)) = self.in_flight.front_mut()
            && *due <= step
        {
            let mut now = (*bytes).min(budget);
            let divided = scatter && chance.below(2) == 0;
            if divided {
                now = chance.between(0, now as u64) as usize;
            }
            *bytes -= now;
            budget -= now;
            self.arrived += now;
            if *bytes == 0 {
                self.in_flight.pop_front();
            }
            if divided {
                break;
            }
        }
        self.arrived > before
    }

    /// Gives out arrived bytes, as many as `out` takes.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let bytes = out.len().min(self.arrived);
        let (first, second) = self.buffer.as_slices();
        let split = bytes.min(first.len());
        out[..split].copy_from_slice(&first[..split]);
        out[split..bytes].copy_from_slice(&second[..bytes - split]);
        self.buffer.drain(..bytes);
        self.arrived -= bytes;
        self.received_bytes += bytes as u64;
        bytes
    }

    /// Forgets the bytes that have not arrived, or all.
    pub fn discard_bytes(&mut self, arrived_too: bool) {
        let keep = if arrived_too { 0 } else { self.arrived };
        self.buffer.truncate(keep);
        self.in_flight.clear();
        self.arrived = keep;
    }
}
