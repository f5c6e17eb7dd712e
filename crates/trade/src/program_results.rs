//! Results of the market's programs, each by itself; they travel as JSON.

use gauge::HistogramBuckets;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct GatewayResults {
    pub gateway: u16,
    /// Orders sent.
    pub orders: u64,
    /// When the first order was due, when the last one was sent, and when the last answer arrived.
    pub began_ns: u64,
    pub sent_at_ns: u64,
    pub ended_ns: u64,
    /// Orders sent more than a millisecond late.
    pub late: u64,
    /// Messages received.
    pub trades: u64,
    pub confirmations: u64,
    pub quotes: u64,
    pub rejects: u64,
    /// From when an order was due until it was answered.
    pub completion: HistogramBuckets,
    /// Orders answered.
    pub answered: u64,
    /// Repeated answers, recognised by their numbers and not counted twice.
    pub repeated: u64,
    /// Answers that never arrived: their numbers were skipped.
    pub missing: u64,
    /// Quotes that never arrived.
    pub missing_quotes: u64,
    /// Checksum of all trades, as the engine reported it at the end.
    pub checksum: u64,
    /// Answers to orders that were answered already, or never sent.
    pub strays: u64,
    /// Messages that do not belong to the market.
    pub malformed: u64,
    /// Orders that the broker refused to confirm.
    pub refused: u64,
    /// Samples sent to the reporter.
    pub samples: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EngineResults {
    /// Orders processed, including those of the journal.
    pub orders: u64,
    /// Orders recovered from the journal.
    pub replayed: u64,
    /// Repeated orders.
    pub repeated: u64,
    /// Orders that never arrived: their numbers were skipped.
    pub missing: u64,
    /// Rejected orders, and inputs in which no order could be read.
    pub rejects: u64,
    pub malformed: u64,
    /// Answers to gateways that do not exist.
    pub unaddressed: u64,
    pub trades: u64,
    pub confirmations: u64,
    pub quotes: u64,
    /// Answers and quotes sent.
    pub sent: u64,
    /// Checksum of all trades.
    pub checksum: u64,
    /// When the first and the last order arrived.
    pub began_ns: u64,
    pub ended_ns: u64,
    /// Samples sent to the reporter.
    pub samples: u64,
}

impl GatewayResults {
    /// Answers and quotes received.
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
            (self.malformed, "messages do not belong to the market"),
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
