//! What the programs of a market find, each by itself.
//!
//! Enters: counts.  Leaves: reports that travel as JSON; sentences on what went wrong.
//! Owns:   what counts as wrong.
//! Never:  measures.

use gauge::Buckets;
use serde::{Deserialize, Serialize};

/// What a gateway found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct GatewayResults {
    /// Which gateway.
    pub gateway: u16,
    /// Orders sent.
    pub orders: u64,
    /// When the first order was to be sent, when the last one was sent, and when the last answer was there.
    pub began_ns: u64,
    pub sent_at_ns: u64,
    pub ended_ns: u64,
    /// Orders that left more than a millisecond after their time.
    pub late: u64,
    /// What came.
    pub trades: u64,
    pub confirmations: u64,
    pub quotes: u64,
    pub rejects: u64,
    /// From when an order was to be sent until it was answered.
    pub completion: Buckets,
    /// Orders that were answered.
    pub answered: u64,
    /// Answers that came again, known by their numbers and not counted twice.
    pub repeated: u64,
    /// Answers that never came: their numbers were passed over.
    pub missing: u64,
    /// Quotes that never came.
    pub missing_quotes: u64,
    /// Of all trades, as the engine told at the end.
    pub checksum: u64,
    /// Answers to what was answered already, or never sent.
    pub strays: u64,
    /// Messages that were none of the market's.
    pub malformed: u64,
    /// Orders that the broker refused to confirm.
    pub refused: u64,
    /// Measurements sent to the reporter.
    pub samples: u64,
}

/// What the engine found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EngineResults {
    /// Orders taken, those of the journal among them.
    pub orders: u64,
    /// Of these, the ones that the journal had.
    pub replayed: u64,
    /// Orders that came again and were known.
    pub repeated: u64,
    /// Orders that never came: their numbers were passed over.
    pub missing: u64,
    /// Orders that were not taken, and messages that no order could be read from.
    pub rejects: u64,
    pub malformed: u64,
    /// Answers to gateways that there are not.
    pub unaddressed: u64,
    pub trades: u64,
    pub confirmations: u64,
    pub quotes: u64,
    /// Answers and quotes that were sent.
    pub sent: u64,
    /// Of all trades.
    pub checksum: u64,
    /// When the first order came, and the last.
    pub began_ns: u64,
    pub ended_ns: u64,
    /// Measurements sent to the reporter.
    pub samples: u64,
}

impl GatewayResults {
    /// Answers and quotes that came.
    pub(crate) fn received(&self) -> u64 {
        self.trades + self.confirmations + self.quotes + self.rejects
    }

    /// What went wrong.
    pub(crate) fn problems(&self) -> Vec<String> {
        let who = format!("gateway {}", self.gateway);
        let unanswered = self.orders.saturating_sub(self.answered);
        [
            (unanswered, "orders were never answered"),
            (self.missing, "answers are missing"),
            (self.missing_quotes, "quotes are missing"),
            (self.strays, "answers belong to no open order"),
            (self.malformed, "messages are none of the market's"),
            (self.refused, "orders were refused by the broker"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{who}: {count} {what}"))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_twice_is_no_complaint_and_what_is_missing_is() {
        let well = GatewayResults { orders: 10, answered: 10, repeated: 3, ..GatewayResults::default() };
        assert!(well.problems().is_empty());
        let ill = GatewayResults { gateway: 1, answered: 8, missing: 2, ..well };
        assert_eq!(ill.problems(), ["gateway 1: 2 orders were never answered", "gateway 1: 2 answers are missing"]);
    }
}
