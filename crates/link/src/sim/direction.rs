//! One direction of a simulated connection: bytes in flight, bytes that have arrived. Only a cut loses bytes.

use slab::thread_heap_bytes;
use splitmix::SplitMix64;
use std::collections::VecDeque;

pub(super) struct SimDirection {
    /// Bytes sent and not received; the first `arrived` of them can be received.
    buffer: VecDeque<u8>,
    arrived: usize,
    /// Bytes that have not arrived: the step in which they do, and their number.
    in_flight: VecDeque<(u64, usize)>,
    window: usize,
    pub bytes_per_step_max: Option<usize>,
    /// The sender has ended the stream.
    pub finished: bool,
    /// The edge for the end of the stream was raised.
    pub end_reported: bool,
    pub receiver_gone: bool,
    /// The sender's last call returned `Blocked`, and it waits for an edge.
    pub sender_blocked: bool,
    /// Bytes received so far.
    pub received_bytes: u64,
    /// What the sender has allocated for this direction, if the program counts its heap.
    pub heap_bytes: isize,
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
            heap_bytes: 0,
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

    /// Whether the end of the stream has arrived, with all bytes before it.
    pub fn end_arrived(&self) -> bool {
        self.finished && self.arrived == self.buffer.len()
    }

    /// Appends bytes that arrive in step `due`, or at once.
    pub fn write(&mut self, bytes: &[u8], due: Option<u64>) {
        let heap_bytes = thread_heap_bytes();
        self.buffer.extend(bytes);
        match due {
            None if self.in_flight.is_empty() => self.arrived += bytes.len(),
            due => {
                // Bytes stay in order: none arrives before one that was sent earlier.
                let earlier = self.in_flight.back().map_or(0, |&(due, _)| due);
                self.in_flight.push_back((due.unwrap_or(0).max(earlier), bytes.len()));
            }
        }
        self.heap_bytes += thread_heap_bytes() - heap_bytes;
    }

    /// Moves bytes that are due to those that have arrived. Returns whether there were any.
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

    /// Reads as many arrived bytes as `out` takes.
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

    /// Discards the bytes that have not arrived, or all bytes.
    pub fn discard_bytes(&mut self, arrived_too: bool) {
        let keep = if arrived_too { 0 } else { self.arrived };
        self.buffer.truncate(keep);
        self.in_flight.clear();
        self.arrived = keep;
    }
}
