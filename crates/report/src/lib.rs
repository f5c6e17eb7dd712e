//! Reports of measurements: one document schema, and its tables, JSON, CSV, Markdown, HTML page and comparisons.
//!
//! Read `document` first (the results of a run), then `metric` (what can be computed from it) and `columns` (what a benchmark
//! shows of it); each format is one file.
#![forbid(unsafe_code)]

pub mod columns;
pub mod compare;
pub mod csv;
pub mod document;
mod estimate;
#[cfg(test)]
mod fixture;
mod format;
pub mod json;
pub mod markdown;
mod metric;
pub mod osu;
pub mod page;
pub mod paired_ratios;
mod progress;
#[cfg(test)]
mod schema;
pub mod section_text;
pub mod stdout;

pub use compare::DocumentComparison;
pub use document::Document;
pub use estimate::{MetricEstimate, invalid_reasons_of_run};
pub use format::DocumentFormat;
pub use metric::{Metric, MetricDirection, MetricRole};
pub use osu::{OsuTable, Yardstick, YardstickShare};
pub use progress::ProgressLine;
