//! Tests that `docs/measurements/schema.md` and the document's fields agree.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::columns;
use crate::document::{RecoveryFigures, StoreUsage};
use crate::fixture;
use crate::metric::{Metric, MetricDirection, MetricRole};

const PAGE: &str = include_str!("../../../docs/measurements/schema.md");
/// Objects whose keys are names and not fields.
const OPEN: [&str; 5] = ["options", "parameters", "tcp", "latencies", "nodes"];

/// The fields listed in each table under a level-three heading.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut heading = None;
    for line in PAGE.lines() {
        if line.starts_with('#') {
            heading = line.strip_prefix("### ").map(str::to_owned);
        } else if let (Some(heading), Some(field)) =
            (&heading, line.strip_prefix("| `").and_then(|rest| rest.split('`').next()))
        {
            tables.entry(heading.clone()).or_default().insert(field.to_owned());
        }
    }
    tables
}

/// The fields of the document, by the object that contains them.
fn written(name: &str, value: &Value, found: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        Value::Object(fields) if !OPEN.contains(&name) => {
            let table = match name {
                "broker" | "publishers" | "consumers" => "usage",
                other => other,
            };
            for (field, value) in fields {
                found.entry(table.to_owned()).or_default().insert(field.clone());
                written(field, value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| written(name, value, found)),
        _ => {}
    }
}

#[test]
fn every_field_is_documented_and_every_documented_field_exists() {
    let mut document = fixture::document();
    let samples = fixture::latency_point(64.0, "round_trip", &[vec![1_000; 20]]);
    document.series.push(fixture::series("de-pp", "size_bytes", vec![samples]));
    for run in document.series.iter_mut().flat_map(|series| &mut series.points).flat_map(|point| &mut point.runs) {
        run.store = Some(StoreUsage::default());
        run.recovery = Some(RecoveryFigures::default());
    }
    let mut found = BTreeMap::new();
    written("document", &serde_json::to_value(&document).expect("JSON"), &mut found);
    assert_eq!(found, documented());
}

#[test]
fn the_page_names_the_schema_that_is_written() {
    assert!(PAGE.starts_with(&format!("# The document of a run: schema `{}`\n", crate::document::SCHEMA)));
}

#[test]
fn every_metric_is_documented_with_its_direction() {
    let metrics = PAGE.lines().skip_while(|line| *line != "## Metrics").skip(1);
    let rows: Vec<&str> =
        metrics.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| `")).collect();
    let mut listed = BTreeSet::new();
    let mut metrics: Vec<Metric> = Vec::new();
    for benchmark in ["de-pp", "de-spsc", "drain", "recover", "churn", "confirm", "disk", "open", "order"] {
        metrics.extend(columns::available_metrics(&fixture::series(benchmark, "size_bytes", Vec::new())));
    }
    for metric in metrics {
        let mut key = metric.key();
        if let Metric::LatencyUs(kind, _) | Metric::LatencyMeanUs(kind) | Metric::OneWayMeanUs(kind) = &metric {
            key = key.replacen(kind.as_str(), "KIND", 1);
        }
        for role in MetricRole::ALL {
            let prefix = format!("{}_", role.name().to_lowercase());
            let plural = format!("{}s_", role.name().to_lowercase());
            for prefix in [prefix, plural] {
                if let Some(rest) = key.strip_prefix(&prefix) {
                    key = format!("ROLE_{rest}");
                }
            }
        }
        // The percentiles share one row.
        if key.starts_with("KIND_p") {
            key = "KIND_p50_us".to_owned();
        }
        let row = rows.iter().find(|row| row.starts_with(&format!("| `{key}`")));
        let row = row.unwrap_or_else(|| panic!("{key} is not documented"));
        let direction = if metric.better() == MetricDirection::Higher { "| more |" } else { "| less |" };
        assert!(row.contains(direction), "{key}: {row}");
        listed.insert(key);
    }
    assert_eq!(rows.len(), listed.len(), "documented, but no metric: {rows:?}");
}
