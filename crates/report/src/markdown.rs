//! Writes a document as Markdown, for `docs/measurements`: one table per series, medians with intervals.

use crate::columns;
use crate::document::{Document, MeasuredSeries};
use crate::estimate::{MetricEstimate, invalid_reasons};
use crate::metric::Metric;
use crate::osu::{axis_name, title};

/// Writes a document; `full`: all metrics.
pub fn write(document: &Document, full: bool) -> String {
    let mut text = format!("# {}\n\n", title_of(document));
    for line in document.facts() {
        text.push_str(&format!("- {line}\n"));
    }
    for series in &document.series {
        text.push_str(&format!("\n## {}\n\n", title(document, series)));
        text.push_str(&table(series, full));
    }
    text
}

/// The heading of a document.
fn title_of(document: &Document) -> String {
    format!("Measured on {}", document.began.split('T').next().unwrap_or("an unknown day"))
}

/// A series as a table, followed by the reasons of its marks.
pub fn table(series: &MeasuredSeries, full: bool) -> String {
    let metrics = if full { columns::available_metrics(series) } else { columns::default_metrics(series) };
    let mut names = vec![axis_name(&series.axis)];
    names.extend(metrics.iter().map(Metric::name));
    let mut text = head(&names);
    let mut below = String::new();
    for point in &series.points {
        let reasons = invalid_reasons(point);
        let mark = if reasons.is_empty() { "" } else { " \\*" };
        let mut cells = vec![format!("{}{mark}", series.label_at(point.at))];
        cells.extend(metrics.iter().map(|metric| MetricEstimate::of(metric, point).map_or("-".to_owned(), cell)));
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
        for reason in reasons {
            below.push_str(&format!("\n\\* {}: INVALID: {reason}\n", series.label_at(point.at)));
        }
    }
    text + &below
}

/// The head of a table.
pub fn head(names: &[String]) -> String {
    format!("| {} |\n|{}\n", names.join(" | "), "---:|".repeat(names.len()))
}

fn cell(estimate: MetricEstimate) -> String {
    match estimate.interval {
        None => number(estimate.median),
        Some((low, high)) => format!("{} ({} – {})", number(estimate.median), number(low), number(high)),
    }
}

/// A number with three significant digits, or all digits before the point; thousands are separated.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1_000.0 {
        let digits = format!("{size:.0}");
        let mut text = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index) % 3 == 0 {
                text.push(',');
            }
            text.push(digit);
        }
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    match size {
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ if size == 0.0 => "0".to_owned(),
        _ if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_document_as_markdown() {
        let expected = "\
# Measured on 2026-01-31

- `harrier bench de-spsc -m 64:128 --runs 3`
- 2026-01-31T12:34:56Z to 2026-01-31T12:35:10Z, commit 0123abc
- harrier 0.1.0, 2 x Example CPU, 4096 MiB, Linux 6.1.0, TCP cubic
- placement: any
- harrier (Harrier 0.1.0, tcp): amqp://127.0.0.1:5672; nodelay true
- medians of 3 runs with their intervals

## de-spsc, pairs=1: harrier (Harrier 0.1.0, tcp), closed loop

| Size | MB/s | Messages/s | us/message |
|---:|---:|---:|---:|
| 64 | 0.128 (0.0640 – 0.192) | 2,000 (1,000 – 3,000) | 500 (333 – 1,000) |
| 128 \\* | 0.122 (0.115 – 0.128) | 950 (900 – 1,000) | 1,053 (1,000 – 1,111) |

\\* 128: INVALID: the publisher used 93 % of its core (1 of 3 runs)
";
        assert_eq!(write(&fixture::document(), false), expected);
        assert!(write(&fixture::document(), true).contains("| Broker CPU s/M |"));
    }

    #[test]
    fn numbers() {
        let shown = [0.0, 0.01234, 0.1234, 1.234, 12.34, 123.4, 1_234.5, 1_234_567.0, -1_000.0].map(number);
        assert_eq!(shown, ["0", "0.0123", "0.123", "1.23", "12.3", "123", "1,234", "1,234,567", "-1,000"]);
    }
}
