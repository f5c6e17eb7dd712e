//! What measurements found, and how it is told: one document, several formats.
//!
//! Enters: runs with their figures.  Leaves: tables, JSON, CSV, Markdown, a page with figures, the comparison of two documents.
//! Owns:   the document's schema and the names, units and directions of all metrics.
//! Never:  measures, starts anything, loads anything from anywhere.
#![forbid(unsafe_code)]

pub mod document;
mod metric;
pub mod page;
pub mod table;

pub use document::Document;
pub use metric::{Better, Metric, Role};
