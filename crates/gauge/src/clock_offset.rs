//! The offset between two clocks, and its error bound, from request-reply exchanges (Cristian, 1989, with two times on the
//! other side as in NTP). The two directions are not assumed to take the same time.

use serde::{Deserialize, Serialize};

/// A request and its reply. A side that cannot distinguish the two times in the middle gives the same time twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockExchange {
    #[serde(rename = "asked_ns")]
    pub request_sent_ns: u64,
    /// On the other clock.
    #[serde(rename = "arrived_ns")]
    pub request_received_ns: u64,
    /// On the other clock.
    #[serde(rename = "answered_ns")]
    pub reply_sent_ns: u64,
    #[serde(rename = "heard_ns")]
    pub reply_received_ns: u64,
}

/// The offset of the other clock from this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The number to add to a time of this clock.
    pub offset_ns: i64,
    /// Error bound of the offset, unless a clock was set or drifted visibly in between.
    pub error_ns: u64,
}

/// The offset that is compatible with all exchanges. Each one bounds it from both sides, since no message arrives before it is sent;
/// quick ones give the best bounds. If they contradict each other (a clock drifted or was set), only the quickest exchange
/// counts. `None` without a valid exchange.
pub fn offset(exchanges: &[ClockExchange]) -> Option<ClockOffset> {
    let bounds: Vec<(i128, i128)> = exchanges.iter().filter_map(ClockExchange::bounds).collect();
    let quickest = *bounds.iter().min_by_key(|(low, high)| high - low)?;
    let low = bounds.iter().map(|bound| bound.0).max()?;
    let high = bounds.iter().map(|bound| bound.1).min()?;
    let (low, high) = if low <= high { (low, high) } else { quickest };
    Some(ClockOffset {
        offset_ns: i64::try_from((low + high).div_euclid(2)).ok()?,
        error_ns: u64::try_from((high - low + 1).div_euclid(2)).ok()?,
    })
}

impl ClockExchange {
    /// The smallest and largest offset with which no message arrives before it is sent.
    fn bounds(&self) -> Option<(i128, i128)> {
        let between = |later: u64, earlier: u64| i128::from(later) - i128::from(earlier);
        let (low, high) = (
            between(self.reply_sent_ns, self.reply_received_ns),
            between(self.request_received_ns, self.request_sent_ns),
        );
        (self.request_sent_ns <= self.reply_received_ns
            && self.request_received_ns <= self.reply_sent_ns
            && low <= high)
            .then_some((low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange with a clock that is `lead` ahead; `there`, `at` and `back` are the durations of its parts.
    fn exchange(asked_ns: u64, lead: i64, there: u64, at: u64, back: u64) -> ClockExchange {
        let other = |ns: u64| ns.checked_add_signed(lead).expect("a time");
        ClockExchange {
            request_sent_ns: asked_ns,
            request_received_ns: other(asked_ns + there),
            reply_sent_ns: other(asked_ns + there + at),
            reply_received_ns: asked_ns + there + at + back,
        }
    }

    fn check(exchanges: &[ClockExchange], lead: i64, error_ns_max: u64) {
        let found = offset(exchanges).expect("exchanges");
        assert!(found.offset_ns.abs_diff(lead) <= found.error_ns, "{found:?}, true {lead}");
        assert!(found.error_ns <= error_ns_max, "{found:?}");
    }

    #[test]
    fn the_true_offset_is_within_the_error() {
        for lead in [0, 5_000_000_000, -900_000_000] {
            check(&[exchange(1_000_000_000, lead, 100, 5_000, 100)], lead, 100);
            check(&[exchange(1_000_000_000, lead, 900, 0, 100)], lead, 500);
            // One request was quick, another reply was: together they bound the offset better than each alone.
            let both = [exchange(1_000_000_000, lead, 10, 0, 5_000), exchange(2_000_000_000, lead, 7_000, 0, 20)];
            check(&both, lead, 15);
        }
    }

    #[test]
    fn contradictions_leave_it_to_the_quickest() {
        let drifted = [exchange(1_000_000, 500, 10, 0, 10), exchange(2_000_000, 90_000, 40, 0, 40)];
        assert_eq!(offset(&drifted), Some(ClockOffset { offset_ns: 500, error_ns: 10 }));
    }

    #[test]
    fn nonsense_is_left_out() {
        let backwards =
            ClockExchange { request_sent_ns: 10, request_received_ns: 5, reply_sent_ns: 5, reply_received_ns: 9 };
        assert_eq!(offset(&[backwards]), None);
        assert_eq!(offset(&[]), None);
        // More time at the other side than the whole exchange took.
        let impossible =
            ClockExchange { request_sent_ns: 10, request_received_ns: 0, reply_sent_ns: 100, reply_received_ns: 20 };
        assert_eq!(offset(&[impossible]), None);
        let far = ClockExchange {
            request_sent_ns: 0,
            request_received_ns: u64::MAX,
            reply_sent_ns: u64::MAX,
            reply_received_ns: 0,
        };
        assert_eq!(offset(&[far]), None, "no such lead fits");
        let good = exchange(100, 7, 1, 0, 1);
        assert_eq!(offset(&[backwards, good]), Some(ClockOffset { offset_ns: 7, error_ns: 1 }));
    }
}
