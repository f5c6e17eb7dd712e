//! The lines of the reporter: samples and rejections as JSON objects. `docs/market.md` describes the fields.

use gauge::{HistogramBuckets, LatencyHistogram};
use market::{MarketSample, OrderReject, SampleSource};
use serde::{Deserialize, Serialize};

/// One sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MeasurementLine {
    /// `gateway` or `engine`.
    pub from: String,
    /// The number of the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<usize>,
    /// The first is 0.
    pub number: u32,
    /// Seconds from the start to the end of the interval.
    pub at_s: f64,
    /// Seconds of the interval.
    pub span_s: f64,
    /// Orders that a gateway sent or the engine received.
    pub orders: u64,
    pub orders_per_s: f64,
    /// Confirmations of trades and orders, rejections and quotes, that a gateway received or the engine sent.
    pub answers_per_s: f64,
    pub trades: u64,
    pub confirmations: u64,
    pub rejects: u64,
    pub quotes: u64,
    /// Processors used, in user space and in the kernel.
    pub cpu_user: f64,
    pub cpu_system: f64,
    /// Of a gateway: from when an order was due until it was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<CompletionSummary>,
}

/// The rejection of an input in which the engine could read no order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RejectionLine {
    /// `engine`.
    pub from: String,
    /// The reason.
    pub rejected: String,
}

impl RejectionLine {
    pub(super) fn of(reject: &OrderReject) -> Self {
        Self { from: "engine".to_owned(), rejected: reject.reason.to_string() }
    }

    /// The line without its newline.
    pub(super) fn line(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
}

/// A histogram with its most important statistics.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CompletionSummary {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    /// Every non-empty bucket: its upper end and its count.
    pub buckets_ns: HistogramBuckets,
}

impl MeasurementLine {
    pub(super) fn of(sample: MarketSample) -> Self {
        let per_s = |count: u64| count as f64 * 1e9 / sample.span_ns.max(1) as f64;
        let share = |us: u64| per_s(us) / 1e6;
        let answers = sample.trades + sample.confirmations + sample.rejects + sample.quotes;
        let (from, gateway) = match sample.source {
            SampleSource::Gateway(gateway) => ("gateway", Some(gateway.number())),
            SampleSource::Engine => ("engine", None),
        };
        Self {
            from: from.to_owned(),
            gateway,
            number: sample.number,
            at_s: sample.at_ns as f64 / 1e9,
            span_s: sample.span_ns as f64 / 1e9,
            orders: sample.orders,
            orders_per_s: per_s(sample.orders),
            answers_per_s: per_s(answers),
            trades: sample.trades,
            confirmations: sample.confirmations,
            rejects: sample.rejects,
            quotes: sample.quotes,
            cpu_user: share(sample.user_us),
            cpu_system: share(sample.system_us),
            completion: gateway.map(|_| CompletionSummary::of(sample.completions.iter().copied().collect())),
        }
    }

    /// The line without its newline.
    pub(super) fn line(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
}

impl CompletionSummary {
    fn of(buckets_ns: HistogramBuckets) -> Self {
        let mut latencies = LatencyHistogram::default();
        latencies.merge(&buckets_ns);
        Self {
            count: latencies.count(),
            mean_us: latencies.mean_us(),
            p50_us: latencies.quantile_us(0.5),
            p99_us: latencies.quantile_us(0.99),
            p999_us: latencies.quantile_us(0.999),
            max_us: latencies.max_us(),
            buckets_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use market::GatewayId;

    fn sample(role: SampleSource) -> MarketSample {
        MarketSample {
            source: role,
            number: 3,
            at_ns: 2_000_000_000,
            span_ns: 500_000_000,
            orders: 10_000,
            trades: 6_000,
            confirmations: 4_000,
            rejects: 0,
            quotes: 5_000,
            user_us: 100_000,
            system_us: 50_000,
            completions: vec![(50_000, 9_900), (900_000, 100)],
        }
    }

    #[test]
    fn a_line_says_whose_it_is_and_has_the_whole_histogram() {
        let line =
            MeasurementLine::of(sample(SampleSource::Gateway(GatewayId::default()))).line().expect("it has a form");
        let read: MeasurementLine = serde_json::from_str(&line).expect("an object");
        assert_eq!((read.from.as_str(), read.gateway, read.number), ("gateway", Some(0), 3));
        assert_eq!((read.orders_per_s, read.answers_per_s), (20_000.0, 30_000.0));
        assert_eq!((read.cpu_user, read.cpu_system), (0.2, 0.1));
        let completion = read.completion.expect("a gateway has one");
        assert_eq!(completion.count, 10_000);
        assert!(completion.p50_us < 51.0 && completion.max_us > 899.0, "{completion:?}");
    }

    #[test]
    fn an_engine_has_no_completion() {
        let line = MeasurementLine::of(sample(SampleSource::Engine)).line().expect("it has a form");
        assert!(line.starts_with(r#"{"from":"engine","number":3,"#) && !line.contains("completion"), "{line}");
    }
}
