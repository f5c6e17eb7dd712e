//! The metrics that each benchmark shows by default, in order.

use std::collections::BTreeSet;

use crate::document::MeasuredSeries;
use crate::metric::{Metric, MetricRole};

/// Quantiles shown with all columns, each only if there are enough samples.
pub const QUANTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];

/// What rows with persistent messages show in addition.
const STORE_METRICS: [Metric; 4] =
    [Metric::StoreGroupMessages, Metric::StoreSyncsPerS, Metric::WrittenMbPerS, Metric::WrittenBytesPerMessage];

/// The metrics of a series that are shown by default, the most important first.
///
/// For streams MB/s and Messages/s come first, for round trips the one-way latency, as in the OSU benchmarks.
pub(crate) fn default_metrics(series: &MeasuredSeries) -> Vec<Metric> {
    let us = |kind: &str, quantiles: &[f64]| {
        quantiles.iter().map(|&quantile| Metric::LatencyUs(kind.to_owned(), quantile)).collect::<Vec<_>>()
    };
    let mut metrics = Vec::new();
    match series.benchmark.split_whitespace().next().unwrap_or("") {
        _ if is_ping_pong(series) => {
            metrics.push(Metric::OneWayMeanUs("round_trip".to_owned()));
            metrics.extend(us("round_trip", &[0.5, 0.99, 0.999, 1.0]));
        }
        // A READ is a round trip by nature, so its latency is not halved.
        "verbs" if series.parameters.get("shape").is_some_and(|shape| shape == "fetch") => {
            metrics.push(Metric::LatencyMeanUs("fetch".to_owned()));
            metrics.extend(us("fetch", &[0.5, 0.99, 0.999, 1.0]));
        }
        "fe-spmc" => metrics.extend([Metric::MbPerS, Metric::PublishedPerS, Metric::DeliveredPerS]),
        "confirm" => {
            metrics.extend([Metric::MbPerS, Metric::PublishedPerS]);
            metrics.extend(us("confirm", &[0.5, 0.99]));
        }
        "churn" => {
            metrics.push(Metric::OperationsPerS);
            metrics.extend(kinds(series).iter().flat_map(|kind| us(kind, &[0.5, 0.99])));
        }
        "disk" => {
            metrics.push(Metric::OperationsPerS);
            metrics.extend(us("write", &[0.5, 0.99]));
            metrics.extend([Metric::MbPerS, Metric::CpuUsPerOperation]);
        }
        "drain" if series.parameters.get("phase").is_some_and(|phase| phase == "fill") => {
            metrics.extend([Metric::PublishedPerS, Metric::BacklogBytesPerMessage]);
        }
        "drain" => metrics.extend([Metric::MbPerS, Metric::DeliveredPerS]),
        "open" | "workload" => {
            metrics.push(Metric::DeliveredPerS);
            metrics.extend(us("delivery", &[0.5, 0.99, 0.999, 1.0]));
            if series.parameters.contains_key("confirms") {
                metrics.extend(us("confirm", &[0.5, 0.99]));
            }
            // If messages are requests or jobs, their latency counts; known once there is a run.
            let found = kinds(series);
            for kind in ["round_trip", "done"].iter().filter(|kind| found.iter().any(|found| found == *kind)) {
                metrics.extend(us(kind, &[0.5, 0.99]));
            }
        }
        "topology" => {
            metrics.extend([Metric::MbPerS, Metric::PublishedPerS, Metric::DeliveredPerS]);
            metrics.extend(kinds(series).iter().flat_map(|kind| us(kind, &[0.5, 0.99])));
        }
        "order" => {
            metrics.push(Metric::OperationsPerS);
            metrics.extend(us("completion", &[0.5, 0.99, 0.999, 1.0]));
        }
        "recover" if series.parameters.get("phase").is_some_and(|phase| phase == "fill") => {
            metrics.extend([Metric::PublishedPerS, Metric::MbPerS]);
        }
        "recover" => metrics.extend([
            Metric::ListeningS,
            Metric::FirstDeliveryS,
            Metric::DeliveredPerS,
            Metric::LostMessages,
            Metric::DoubledMessages,
            Metric::RedeliveredMessages,
        ]),
        _ => metrics.extend([Metric::MbPerS, Metric::PublishedPerS, Metric::UsPerMessage]),
    }
    if series.parameters.get("durable").is_some_and(|durable| durable == "yes") {
        metrics.extend(STORE_METRICS);
    }
    metrics
}

/// Whether the series is a ping-pong.
pub(crate) fn is_ping_pong(series: &MeasuredSeries) -> bool {
    series.benchmark == "de-pp" || series.parameters.get("shape").is_some_and(|shape| shape == "ping-pong")
}

/// All metrics of a series: the default ones, then the others. Once there is a run, metrics that no run has are left out.
pub(crate) fn available_metrics(series: &MeasuredSeries) -> Vec<Metric> {
    let mut metrics = possible_metrics(series);
    let runs = || series.points.iter().flat_map(|point| &point.runs);
    if runs().next().is_some() {
        metrics.retain(|metric| runs().any(|run| metric.of(run).is_some()));
    }
    metrics
}

/// The same including metrics that no run has.
pub(crate) fn possible_metrics(series: &MeasuredSeries) -> Vec<Metric> {
    let mut metrics = default_metrics(series);
    let mut others = vec![
        Metric::MbPerS,
        Metric::PublishedPerS,
        Metric::DeliveredPerS,
        Metric::UsPerMessage,
        Metric::OperationsPerS,
        Metric::BacklogBytesPerMessage,
        Metric::ListeningS,
        Metric::FirstDeliveryS,
        Metric::LostMessages,
        Metric::DoubledMessages,
        Metric::RedeliveredMessages,
    ];
    for kind in kinds(series) {
        others.push(Metric::LatencyMeanUs(kind.clone()));
        others.extend(QUANTILES.map(|quantile| Metric::LatencyUs(kind.clone(), quantile)));
    }
    for role in MetricRole::ALL {
        others.extend([
            Metric::CpuSPerMillion(role),
            Metric::CpuPercent(role),
            Metric::Cores(role),
            Metric::UserCores(role),
            Metric::SystemCores(role),
            Metric::RunQueue(role),
            Metric::SwitchesPerThousand(role),
            Metric::FaultsPerThousand(role),
            Metric::ResidentMib(role),
        ]);
    }
    others.extend([
        Metric::Packets,
        Metric::PacketsPerMessage,
        Metric::PacketBytes,
        Metric::PacketGapUs,
        Metric::RetransmitsPerMillion,
    ]);
    others.extend(STORE_METRICS);
    for metric in others {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    metrics
}

/// The kinds of latency of a series: those of its runs, or those its benchmark will have.
fn kinds(series: &MeasuredSeries) -> Vec<String> {
    let found: BTreeSet<&String> =
        series.points.iter().flat_map(|point| &point.runs).flat_map(|run| run.latencies.keys()).collect();
    if !found.is_empty() {
        return found.into_iter().cloned().collect();
    }
    let known: &[&str] = match series.benchmark.split_whitespace().next().unwrap_or("") {
        _ if is_ping_pong(series) => &["round_trip"],
        "confirm" => &["confirm"],
        "churn" => &["open", "close"],
        "disk" => &["write"],
        "open" | "workload" => &["delivery", "service"],
        "order" => &["completion"],
        _ => &[],
    };
    known.iter().map(|kind| (*kind).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn check(benchmark: &str, expected: &str) {
        let series = fixture::series(benchmark, "size_bytes", Vec::new());
        let names: Vec<_> = default_metrics(&series).iter().map(Metric::name).collect();
        assert_eq!(names.join(" | "), expected, "{benchmark}");
    }

    #[test]
    fn rows_of_persistent_messages_say_what_the_disk_got() {
        let mut series = fixture::series("confirm", "size_bytes", Vec::new());
        let shown = |series: &MeasuredSeries| default_metrics(series).iter().map(Metric::name).collect::<Vec<_>>();
        let before = shown(&series);
        series.parameters.insert("durable".to_owned(), "yes".to_owned());
        let added = ["Messages/group", "Syncs/s", "Disk MB/s", "Disk bytes/msg"];
        assert_eq!(shown(&series), [&before.iter().map(String::as_str).collect::<Vec<_>>()[..], &added].concat());
    }

    #[test]
    fn headline_figures() {
        check("de-spsc", "MB/s | Messages/s | us/message");
        check("de-pp", "Latency (us) | RTT p50 (us) | RTT p99 (us) | RTT p99.9 (us) | RTT max (us)");
        check("fe-spmc", "MB/s | Messages/s | Delivered/s");
        check("confirm", "MB/s | Messages/s | Confirm p50 (us) | Confirm p99 (us)");
        check("churn", "Operations/s | Open p50 (us) | Open p99 (us) | Close p50 (us) | Close p99 (us)");
        check("disk", "Operations/s | Write p50 (us) | Write p99 (us) | MB/s | CPU us/operation");
        check("drain", "MB/s | Delivered/s");
        check("topology multi-level", "MB/s | Messages/s | Delivered/s");
        check("open", "Delivered/s | Delivery p50 (us) | Delivery p99 (us) | Delivery p99.9 (us) | Delivery max (us)");
        check(
            "workload market-data",
            "Delivered/s | Delivery p50 (us) | Delivery p99 (us) | Delivery p99.9 (us) | Delivery max (us)",
        );
    }

    #[test]
    fn all_metrics_begin_with_the_usual_ones_and_leave_out_what_no_run_has() {
        let empty = fixture::series("de-pp", "size_bytes", Vec::new());
        assert!(
            available_metrics(&empty).starts_with(&default_metrics(&empty))
                && available_metrics(&empty).contains(&Metric::PacketGapUs)
        );
        let document = fixture::document();
        let found = available_metrics(&document.series[0]);
        assert!(found.contains(&Metric::Cores(MetricRole::Broker)) && !found.contains(&Metric::OperationsPerS));
        let mut keys: Vec<_> = available_metrics(&empty).iter().map(Metric::key).collect();
        keys.sort();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count, "two metrics of one key");
    }
}
