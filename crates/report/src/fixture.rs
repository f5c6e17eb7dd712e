//! A small document for this crate's tests, with every field filled in.

use std::collections::BTreeMap;

use gauge::{DeliveryFaults, HostEnvironment, LatencyHistogram};
use serde_json::json;

use crate::document::{
    Document, LoopMode, MeasuredRun, MeasuredSeries, NetworkUsage, RoleUsage, SCHEMA, SeriesPoint, TargetFacts,
};

/// A run of one second in which `count` messages of `size_bytes` passed.
pub fn run(size_bytes: f64, count: u64) -> MeasuredRun {
    let usage = RoleUsage {
        processes: 1,
        user_s: 0.25,
        system_s: 0.5,
        voluntary_switches: 10,
        involuntary_switches: 20,
        minor_faults: 30,
        major_faults: 1,
        resident_bytes: 8 << 20,
        run_queue_s: 0.125,
        busiest_cores: 0.75,
        ..RoleUsage::default()
    };
    MeasuredRun {
        elapsed_s: 1.0,
        published: count,
        delivered: count,
        delivered_bytes: count * size_bytes as u64,
        broker: Some(usage),
        publishers: Some(usage),
        consumers: Some(usage),
        network: Some(NetworkUsage { packets: 2_000, bytes: 320_000, ..NetworkUsage::default() }),
        ..MeasuredRun::default()
    }
}

/// A point with one run for each count.
pub fn point(size_bytes: f64, counts: &[u64]) -> SeriesPoint {
    SeriesPoint { at: size_bytes, size_bytes, runs: counts.iter().map(|&count| run(size_bytes, count)).collect() }
}

/// A point with one run for each list of latencies in nanoseconds.
pub fn latency_point(at: f64, kind: &str, runs: &[Vec<u64>]) -> SeriesPoint {
    let runs = runs.iter().map(|samples| {
        let mut latencies = LatencyHistogram::default();
        samples.iter().for_each(|&ns| latencies.record(ns));
        MeasuredRun { latencies: [(kind.to_owned(), latencies.buckets())].into(), ..run(at, samples.len() as u64) }
    });
    SeriesPoint { at, size_bytes: at, runs: runs.collect() }
}

/// A series on the target `harrier`.
pub fn series(benchmark: &str, axis: &str, points: Vec<SeriesPoint>) -> MeasuredSeries {
    MeasuredSeries {
        benchmark: benchmark.to_owned(),
        target: "harrier".to_owned(),
        pace: if benchmark == "open" { LoopMode::Open } else { LoopMode::Closed },
        parameters: BTreeMap::new(),
        axis: axis.to_owned(),
        points,
    }
}

pub fn target(name: &str, product: &str, version: &str) -> TargetFacts {
    TargetFacts {
        name: name.to_owned(),
        transport: "tcp".to_owned(),
        product: Some(product.to_owned()),
        version: Some(version.to_owned()),
        url: Some("amqp://127.0.0.1:5672".to_owned()),
        capabilities: vec!["basic.nack".to_owned()],
        tcp: [("nodelay".to_owned(), "true".to_owned())].into(),
    }
}

/// A machine, of which only what every document has is known.
fn environment() -> HostEnvironment {
    let facts = json!({
        "date": "2026-01-31",
        "processor": "Example CPU",
        "processors": 2,
        "memory_mib": 4_096,
        "kernel": "6.1.0",
        "congestion_control": "cubic",
        "version": "0.1.0",
        "optimised": true,
    });
    serde_json::from_value(facts).expect("the facts of an environment")
}

/// A document of the given series, each field filled.
pub fn document_of(targets: Vec<TargetFacts>, series: Vec<MeasuredSeries>) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        command: "harrier bench de-spsc -m 64:128 --runs 3".to_owned(),
        began: "2026-01-31T12:34:56Z".to_owned(),
        ended: Some("2026-01-31T12:35:10Z".to_owned()),
        commit: Some("0123abc".to_owned()),
        environment: environment(),
        placement: "any".to_owned(),
        options: [("runs".to_owned(), "3".to_owned())].into(),
        targets,
        series,
        cut_short: None,
    }
}

/// A stream through `harrier` at 64 and 128 bytes, three runs each, the last of which is INVALID.
pub fn document() -> Document {
    let mut last = point(128.0, &[900, 950, 1_000]);
    last.runs[2].invalid.push("the publisher used 93 % of its core".to_owned());
    last.runs[2].notes.push("1 retransmit".to_owned());
    last.runs[2].faults = DeliveryFaults::default();
    let mut series = series("de-spsc", "size_bytes", vec![point(64.0, &[1_000, 2_000, 3_000]), last]);
    series.parameters.insert("pairs".to_owned(), "1".to_owned());
    document_of(vec![target("harrier", "Harrier", "0.1.0")], vec![series])
}
