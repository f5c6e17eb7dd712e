//! A fabric in real time: its devices can be used by several threads that sleep until there is an event.
//!
//! Runs of such a fabric cannot be reproduced; elsewhere time is the number of steps.

use super::sim_network::SimNetwork;
use std::time::{Duration, Instant};

/// Most steps of one call: unacknowledged work is retried by the next.
const STEPS_A_CALL_MAX: u32 = 64;

/// The clock of a fabric.
pub(super) struct RealTimeClock {
    began: Instant,
}

impl RealTimeClock {
    #[expect(clippy::disallowed_methods, reason = "the clock of a device is the device's own, as on a card")]
    pub fn new() -> Self {
        RealTimeClock { began: Instant::now() }
    }

    #[expect(clippy::disallowed_methods, reason = "the clock of a device is the device's own, as on a card")]
    pub fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.began)
    }
}

impl SimNetwork {
    /// Delivers everything that is due, and wakes the nodes it arrives at. Only in real time.
    pub fn deliver_pending(&mut self) {
        if self.live.is_none() {
            return;
        }
        for _ in 0..STEPS_A_CALL_MAX {
            if !self.is_moving() {
                break;
            }
            self.step();
        }
        for node in &mut self.nodes {
            if node.is_notified()
                && let Some(wake_pipe) = &mut node.wake_pipe
            {
                wake_pipe.wake();
            }
        }
    }

    fn is_moving(&self) -> bool {
        self.nodes.iter().any(|node| {
            let works = |pair: &super::sim_queue_pair::SimQueuePair| pair.is_working();
            !node.pending_events.is_empty() || (!node.is_gone && node.queue_pairs.values().any(works))
        })
    }

    /// The device polls completions, which clears their notice, but not that of events: these have a channel of their
    /// own, as on a card, and one that came since they were taken last must still wake the owner.
    pub fn on_completions_polled(&mut self, node: usize) {
        self.deliver_pending();
        self.nodes[node].has_completion_notice = false;
        self.clear_wake_pipe(node);
    }

    /// The device takes events, which clears their notice.
    pub fn on_events_taken(&mut self, node: usize) {
        self.deliver_pending();
        self.nodes[node].has_event_notice = false;
        self.clear_wake_pipe(node);
    }

    fn clear_wake_pipe(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if !node.is_notified()
            && let Some(wake_pipe) = &mut node.wake_pipe
        {
            wake_pipe.clear();
        }
    }
}
