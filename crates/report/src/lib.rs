//! What measurements found, and how it is told: one document, several formats.
//!
//! Enters: runs with their figures.  Leaves: tables, JSON, CSV, Markdown, a page with figures, the comparison of two documents.
//! Owns:   the document's schema and the names, units and directions of all metrics.
//! Never:  measures, starts anything, loads anything from anywhere.
//!
//! Read `document` first (what a run of the program found), then `metric` (what can be read off it) and `columns` (what
//! a benchmark shows of it); each format is one file.
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
mod progress;
#[cfg(test)]
mod schema;
pub mod stdout;
pub mod paired_ratios;

pub use compare::DocumentComparison;
pub use document::Document;
pub use estimate::{MetricEstimate, invalid_reasons_of_run, invalid_reasons};
pub use format::DocumentFormat;
pub use metric::{MetricDirection, Metric, MetricRole};
pub use osu::{OsuTable, YardstickShare, Yardstick};
pub use progress::ProgressLine;
