//! One direction of a simulated connection: bytes under way, bytes arrived.
//!
//! Enters: bytes sent.  Leaves: the same bytes in the same order, later.
//! Owns:   the window, the delays, the end of the stream.
//! Never:  loses a byte but by a cut.

use super::chance::Chance;
use std::collections::VecDeque;

/// A direction.
pub(super) struct Way {
    /// Everything sent and not received; the first `arrived` bytes can be received.
    held: VecDeque<u8>,
    arrived: usize,
    /// What has not arrived: the step when it does, and how many bytes.
    under_way: VecDeque<(u64, usize)>,
    window: usize,
    /// Bytes that arrive in one step, at most.
    pub pace: Option<usize>,
    /// The sender has ended the stream: the end follows the last byte.
    pub finished: bool,
    /// The receiver was told of the end, or will read it.
    pub end_told: bool,
    /// Nobody will receive any more.
    pub deaf: bool,
    /// The sender was told that there is no room, and waits for an edge.
    pub sender_waits: bool,
    /// Bytes received so far.
    pub passed: u64,
}

impl Way {
    pub fn new(window: usize) -> Self {
        Way {
            held: VecDeque::new(),
            arrived: 0,
            under_way: VecDeque::new(),
            window,
            pace: None,
            finished: false,
            end_told: false,
            deaf: false,
            sender_waits: false,
            passed: 0,
        }
    }

    pub fn room(&self) -> usize {
        self.window.saturating_sub(self.held.len())
    }

    pub fn arrived(&self) -> usize {
        self.arrived
    }

    pub fn room_used(&self) -> usize {
        self.held.len()
    }

    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether the end of the stream is the next thing to read, or follows bytes that are all there.
    pub fn end_arrived(&self) -> bool {
        self.finished && self.arrived == self.held.len()
    }

    /// Takes bytes in. `due`: when they arrive; `None` for at once.
    pub fn push(&mut self, bytes: &[u8], due: Option<u64>) {
        self.held.extend(bytes);
        match due {
            None if self.under_way.is_empty() => self.arrived += bytes.len(),
            due => {
                // A stream keeps its order: nothing arrives before what was sent earlier.
                let earlier = self.under_way.back().map_or(0, |&(due, _)| due);
                self.under_way.push_back((due.unwrap_or(0).max(earlier), bytes.len()));
            }
        }
    }

    /// Lets arrive what is due. Answers whether something did.
    pub fn advance(&mut self, step: u64, scatter: bool, chance: &mut Chance) -> bool {
        let mut budget = self.pace.unwrap_or(usize::MAX);
        let before = self.arrived;
        while budget > 0
            && let Some((due, bytes)) = self.under_way.front_mut()
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
                self.under_way.pop_front();
            }
            if divided {
                break;
            }
        }
        self.arrived > before
    }

    /// Gives out arrived bytes, as many as `out` takes.
    pub fn pull(&mut self, out: &mut [u8]) -> usize {
        let bytes = out.len().min(self.arrived);
        let (first, second) = self.held.as_slices();
        let split = bytes.min(first.len());
        out[..split].copy_from_slice(&first[..split]);
        out[split..bytes].copy_from_slice(&second[..bytes - split]);
        self.held.drain(..bytes);
        self.arrived -= bytes;
        self.passed += bytes as u64;
        bytes
    }

    /// Forgets the bytes that have not arrived, or all.
    pub fn drop_bytes(&mut self, arrived_too: bool) {
        let keep = if arrived_too { 0 } else { self.arrived };
        self.held.truncate(keep);
        self.under_way.clear();
        self.arrived = keep;
    }
}
