//! Heartbeats: noticing that a peer is gone, and not seeming gone.
//!
//! Enters: when bytes last came and went, and the time.  Leaves: what is due, and when to look again.
//! Owns:   the interval of one connection.

use std::time::{Duration, Instant};

/// The heartbeat of one connection (AMQP 0-9-1 §4.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    interval: Duration,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatAction {
    /// Nothing before this time.
    Wait {
        /// When to look again.
        until: Instant,
    },
    /// Send a heartbeat frame, then look again.
    Send,
    /// The peer has been silent for two intervals: end the link.
    Dead,
}

impl Heartbeat {
    /// The heartbeat for a settled interval; `None` if it is 0, which is none.
    pub fn new(interval_s: u16) -> Option<Self> {
        (interval_s > 0).then(|| Self { interval: Duration::from_secs(interval_s.into()) })
    }

    /// What is due at `now`. A heartbeat is sent after half an interval without sending anything, so that the peer
    /// hears one in each interval; a peer is given up after two intervals without a byte from it.
    pub fn due(&self, now: Instant, last_received: Instant, last_sent: Instant) -> HeartbeatAction {
        let dead_at = last_received + self.interval * 2;
        let send_at = last_sent + self.interval / 2;
        if now >= dead_at {
            HeartbeatAction::Dead
        } else if now >= send_at {
            HeartbeatAction::Send
        } else {
            HeartbeatAction::Wait { until: dead_at.min(send_at) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Heartbeat, HeartbeatAction};
    use std::time::{Duration, Instant};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn sends_after_half_an_interval_and_gives_up_after_two() {
        assert_eq!(Heartbeat::new(0), None);
        let heartbeat = Heartbeat::new(10).expect("ten seconds");
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let check = |now, received, sent, expect| {
            assert_eq!(heartbeat.due(at(now), at(received), at(sent)), expect, "now {now}");
        };
        check(0, 0, 0, HeartbeatAction::Wait { until: at(5) });
        check(4, 0, 0, HeartbeatAction::Wait { until: at(5) });
        check(5, 0, 0, HeartbeatAction::Send);
        check(19, 0, 18, HeartbeatAction::Wait { until: at(20) });
        check(20, 0, 18, HeartbeatAction::Dead);
        check(20, 1, 14, HeartbeatAction::Send);
    }
}
