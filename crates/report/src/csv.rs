//! Writes a document as CSV (RFC 4180): one row per run, with every parameter and metric and no medians.
//!
//! Column names are the schema's field names and the metrics' keys.

use std::collections::BTreeSet;

use crate::columns;
use crate::document::{Document, LoopMode, MeasuredRun, MeasuredSeries, SeriesPoint};
use crate::estimate::invalid_reasons_of_run;
use crate::metric::Metric;
use crate::osu::plain;

const BEFORE: [&str; 7] = ["benchmark", "target", "transport", "product", "version", "pace", "axis"];
const BETWEEN: [&str; 8] =
    ["at", "size_bytes", "run", "elapsed_s", "published", "delivered", "delivered_bytes", "operations"];
const BEHIND: [&str; 9] =
    ["lost", "duplicates", "reordered", "strays", "damaged", "refused", "mark", "invalid", "notes"];

/// Writes a document. INVALID runs have a `*` in the column `mark`, followed by the reasons.
pub fn write(document: &Document) -> String {
    let parameters: BTreeSet<&String> = document.series.iter().flat_map(|series| series.parameters.keys()).collect();
    let mut metrics: Vec<Metric> = Vec::new();
    for metric in document.series.iter().flat_map(columns::possible_metrics) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let mut header: Vec<String> = BEFORE.map(str::to_owned).to_vec();
    header.extend(parameters.iter().map(|name| format!("parameter_{name}")));
    header.extend(BETWEEN.map(str::to_owned));
    header.extend(metrics.iter().map(Metric::key));
    header.extend(BEHIND.map(str::to_owned));
    let mut text = record(&header);
    for series in &document.series {
        let facts = document.target(&series.target);
        let mut before = vec![
            series.benchmark.clone(),
            series.target.clone(),
            facts.map_or_else(String::new, |facts| facts.transport.clone()),
            facts.and_then(|facts| facts.product.clone()).unwrap_or_default(),
            facts.and_then(|facts| facts.version.clone()).unwrap_or_default(),
            pace(series).to_owned(),
            series.axis.clone(),
        ];
        before.extend(parameters.iter().map(|name| series.parameters.get(*name).cloned().unwrap_or_default()));
        for point in &series.points {
            for (index, run) in point.runs.iter().enumerate() {
                let mut cells = before.clone();
                cells.extend(figures(point, index, run));
                cells.extend(metrics.iter().map(|metric| metric.of(run).map_or_else(String::new, |v| v.to_string())));
                cells.extend(verdict(run));
                text.push_str(&record(&cells));
            }
        }
    }
    text
}

fn pace(series: &MeasuredSeries) -> &'static str {
    match series.pace {
        LoopMode::Closed => "closed",
        LoopMode::Open => "open",
    }
}

fn figures(point: &SeriesPoint, index: usize, run: &MeasuredRun) -> [String; BETWEEN.len()] {
    [
        plain(point.at),
        plain(point.size_bytes),
        (index + 1).to_string(),
        run.elapsed_s.to_string(),
        run.published.to_string(),
        run.delivered.to_string(),
        run.delivered_bytes.to_string(),
        run.operations.map_or_else(String::new, |operations| operations.to_string()),
    ]
}

fn verdict(run: &MeasuredRun) -> [String; BEHIND.len()] {
    let faults = run.faults;
    let why = invalid_reasons_of_run(run);
    [
        faults.lost.to_string(),
        faults.duplicates.to_string(),
        faults.reordered.to_string(),
        faults.strays.to_string(),
        faults.damaged.to_string(),
        run.refused.to_string(),
        if why.is_empty() { String::new() } else { "*".to_owned() },
        why.join("; "),
        run.notes.join("; "),
    ]
}

/// One record with its line end (RFC 4180 §2: CRLF; quotes around what needs them, doubled within).
fn record(cells: &[String]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| {
            if cell.contains([',', '"', '\r', '\n']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.clone()
            }
        })
        .collect();
    cells.join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn records() {
        assert_eq!(record(&["a".to_owned(), "b,\"c\"\n".to_owned(), String::new()]), "a,\"b,\"\"c\"\"\n\",\r\n");
    }

    #[test]
    fn one_row_a_run() {
        let text = write(&fixture::document());
        let rows: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(rows.len(), 1 + 6 + 1, "a header, six runs, and nothing behind the last line end");
        assert!(
            rows[0].starts_with(
                "benchmark,target,transport,product,version,pace,axis,parameter_pairs,at,size_bytes,run,elapsed_s,published,\
                 delivered,delivered_bytes,operations,mb_per_s,published_per_s,message_us,delivered_per_s,operations_per_s,\
                 backlog_bytes_per_message,listening_s,first_delivery_s,lost_messages,doubled_messages,redelivered_messages,\
                 broker_cpu_s_per_million"
            ),
            "{}",
            rows[0]
        );
        assert_eq!(
            rows[1],
            "de-spsc,harrier,tcp,Harrier,0.1.0,closed,size_bytes,1,64,64,1,1,1000,1000,64000,,0.064,1000,1000,1000,,,\
             ,,,,,750,75,0.75,0.25,0.5,0.125,30,31,8,750,75,0.75,0.25,0.5,0.125,30,31,8,750,75,0.75,0.25,0.5,0.125,30,31,8,\
             2000,2,160,500,0,,,,,0,0,0,0,0,0,,,"
        );
        assert!(rows[6].ends_with(",0,0,0,0,0,0,*,the publisher used 93 % of its core,1 retransmit"), "{}", rows[6]);
        let columns = rows[0].split(',').count();
        assert!(rows[..7].iter().all(|row| row.split(',').count() == columns));
    }
}
