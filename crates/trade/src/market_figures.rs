//! Figures of one run of a market, for tables and documents; decides whether a run is INVALID.
//!
//! Averages are never averaged: completion times are one histogram of all orders.

use std::collections::BTreeMap;

use gauge::{DeliveryFaults, LatencyHistogram, RoleUsage, validity};
use report::document::MeasuredRun;

use super::market_options::MarketLoad;
use super::running_market::MarketResults;

/// Name of the completion latency in a document.
pub(super) const COMPLETION: &str = "completion";

/// One run.
pub(super) struct MarketFigures {
    outcome: MarketResults,
    /// Requested orders a second.
    rate: Option<f64>,
    load: MarketLoad,
    completion: LatencyHistogram,
}

impl MarketFigures {
    pub(super) fn of(outcome: MarketResults, load: &MarketLoad, rate: Option<f64>) -> Self {
        let mut completion = LatencyHistogram::default();
        outcome.traded.iter().for_each(|traded| completion.merge(&traded.completion));
        Self { outcome, rate, load: load.clone(), completion }
    }

    /// Orders that the gateways sent.
    pub(super) fn orders(&self) -> u64 {
        self.outcome.traded.iter().map(|traded| traded.orders).sum()
    }

    /// Seconds from the first order to the last answer.
    pub(super) fn elapsed_s(&self) -> f64 {
        let traded = &self.outcome.traded;
        let began = traded.iter().map(|traded| traded.began_ns).min().unwrap_or(0);
        let ended = traded.iter().map(|traded| traded.ended_ns).max().unwrap_or(0);
        ended.saturating_sub(began).max(1) as f64 / 1e9
    }

    /// Orders a second that the gateways sent, each over its own time.
    pub(super) fn sent_per_s(&self) -> f64 {
        let rate = |orders: u64, ns: u64| orders as f64 * 1e9 / ns.max(1) as f64;
        self.outcome.traded.iter().map(|one| rate(one.orders, one.sent_at_ns.saturating_sub(one.began_ns))).sum()
    }

    /// Orders a second that the engine received.
    pub(super) fn taken_per_s(&self) -> f64 {
        let matched = &self.outcome.matched;
        let ns = matched.ended_ns.saturating_sub(matched.began_ns);
        (matched.orders - matched.replayed.min(matched.orders)) as f64 * 1e9 / ns.max(1) as f64
    }

    /// Confirmations and quotes a second that the engine sent.
    pub(super) fn answered_per_s(&self) -> f64 {
        let matched = &self.outcome.matched;
        matched.sent as f64 * 1e9 / matched.ended_ns.saturating_sub(matched.began_ns).max(1) as f64
    }

    /// Confirmations and quotes a second that the gateways received.
    pub(super) fn received_per_s(&self) -> f64 {
        self.received() as f64 / self.elapsed_s()
    }

    fn received(&self) -> u64 {
        self.outcome.traded.iter().map(super::program_results::GatewayResults::received).sum()
    }

    /// The share of a processor that a role used.
    fn share(&self, usage: Option<&RoleUsage>) -> Option<f64> {
        usage.map(|usage| usage.cpu_s() / self.elapsed_s())
    }

    pub(super) fn broker_share(&self) -> Option<f64> {
        self.share(self.outcome.broker.as_ref())
    }

    pub(super) fn engine_share(&self) -> Option<f64> {
        self.share(self.outcome.engine.as_ref())
    }

    pub(super) fn gateways_share(&self) -> Option<f64> {
        self.share(self.outcome.gateways.as_ref())
    }

    /// From when an order was due until it was answered.
    pub(super) fn completion(&self) -> &LatencyHistogram {
        &self.completion
    }

    pub(super) fn network(&self) -> Option<gauge::NetworkUsage> {
        self.outcome.network
    }

    /// Samples that the reporter should have received, and has.
    pub(super) fn measurements(&self) -> (u64, u64) {
        let MarketResults { traded, matched, reported, .. } = &self.outcome;
        let gateways: u64 = traded.iter().map(|one| one.samples).sum();
        (gateways + matched.samples, reported.gateway + reported.engine)
    }

    /// A summary in words.
    pub(super) fn describe(&self) -> String {
        let MarketResults { traded, matched, reported, .. } = &self.outcome;
        let sum = |of: fn(&super::program_results::GatewayResults) -> u64| traded.iter().map(of).sum::<u64>();
        let (due, came) = self.measurements();
        let mut text = format!(
            "{} trades, {} order confirmations, {} quotes, {} rejects; {came} of {due} measurements; checksum of all trades {:016x}",
            matched.trades,
            sum(|one| one.confirmations),
            sum(|one| one.quotes),
            matched.rejects,
            matched.checksum
        );
        if matched.replayed > 0 {
            text.push_str(&format!(
                "; {} orders from the journal, {} repeated orders and {} repeated answers (counted once)",
                matched.replayed,
                matched.repeated,
                sum(|one| one.repeated)
            ));
        }
        if reported.rejections > 0 {
            text.push_str(&format!("; {} foreign messages were rejected", reported.rejections));
        }
        text
    }

    /// Why an order, an answer or a sample was lost.
    pub(super) fn losses(&self) -> Vec<String> {
        let MarketResults { traded, matched, reported, .. } = &self.outcome;
        let mut wrong: Vec<String> = traded.iter().flat_map(super::program_results::GatewayResults::problems).collect();
        let orders = self.orders();
        if matched.missing > 0 {
            wrong.push(format!("the engine missed {} orders", matched.missing));
        }
        if matched.orders != orders {
            wrong.push(format!("the engine received {} of {orders} orders", matched.orders));
        }
        if reported.strays > 0 {
            wrong.push(format!("the reporter received {} messages that are not measurements", reported.strays));
        }
        let (due, came) = self.measurements();
        // A killed engine may have sent a sample that its successor sends again.
        if came < due || (matched.replayed == 0 && came > due) {
            wrong.push(format!("{came} of {due} measurements reached the reporter"));
        }
        wrong
    }

    /// Why the figures must not be trusted.
    pub(super) fn invalid(&self) -> Vec<String> {
        let late: u64 = self.outcome.traded.iter().map(|one| one.late).sum();
        let behind = self.rate.and_then(|_| validity::generator_fell_behind(late, self.orders()));
        self.losses().into_iter().chain(behind).collect()
    }

    /// The run as in a document.
    pub(super) fn to_run(&self) -> MeasuredRun {
        let MarketResults { traded, matched, broker, engine, gateways, network, .. } = &self.outcome;
        let lost: u64 = traded.iter().map(|one| one.orders.saturating_sub(one.answered)).sum();
        let strays = traded.iter().map(|one| one.strays + one.malformed).sum();
        let mut notes = vec![self.describe()];
        notes.push(format!(
            "confirmations and quotes a second: {:.0} sent, {:.0} received",
            self.answered_per_s(),
            self.received_per_s()
        ));
        MeasuredRun {
            elapsed_s: self.elapsed_s(),
            published: self.orders(),
            delivered: matched.orders,
            operations: Some(self.orders()),
            delivered_bytes: matched.orders * market::ORDER_BYTES as u64,
            latencies: BTreeMap::from([(COMPLETION.to_owned(), self.completion.buckets())]),
            faults: DeliveryFaults { lost, strays, ..DeliveryFaults::default() },
            refused: traded.iter().map(|one| one.refused).sum(),
            broker: *broker,
            publishers: *gateways,
            consumers: *engine,
            network: *network,
            invalid: self.invalid(),
            notes,
            ..MeasuredRun::default()
        }
    }

    /// The load of the run.
    pub(super) fn load(&self) -> &MarketLoad {
        &self.load
    }
}
