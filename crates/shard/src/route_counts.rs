//! Counts of one route.

use crate::given_up::GivenUp;
use federation::TraceVerdict;

/// Messages that a route has moved.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RouteCounts {
    pub messages: u64,
    pub bytes: u64,
    pub redelivered: u64,
    /// Messages that this broker, the other one, or too many brokers had already.
    pub dropped: u64,
    pub given_up: GivenUp,
}

impl RouteCounts {
    /// Counts a message that was not given up.
    #[inline]
    pub fn count(&mut self, verdict: TraceVerdict, body_bytes: usize, is_redelivered: bool) {
        match verdict {
            TraceVerdict::Forward => self.messages += 1,
            TraceVerdict::Drop | TraceVerdict::TooLarge => self.dropped += 1,
        }
        self.bytes += body_bytes as u64;
        self.redelivered += u64::from(is_redelivered);
    }

    pub fn add(&mut self, other: RouteCounts) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.redelivered += other.redelivered;
        self.dropped += other.dropped;
        self.given_up.add(other.given_up);
    }
}
