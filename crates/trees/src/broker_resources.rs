//! Resource usage and traffic of each broker of a tree, the figures that the paper took from `sar`.
//!
//! Each broker is read in /proc and through its own sockets, so that other processes do not count.

use report::page::{PageSection, number};
use topology::Tree;

use super::run_command::section as empty;
use super::tree_measurement::SizeMeasurement;
use super::tree_segment_figures::TreeSegmentFigures;
use report::document::NodeUsage;

const COLUMNS: [&str; 8] =
    ["broker", "size", "MB/s in", "MB/s out", "switches/s", "page faults/s", "CPU %", "CPU us/message"];

/// The table of one tree.
pub(super) fn section(tree: &Tree, all: &[&SizeMeasurement]) -> PageSection {
    let facts =
        vec!["bytes are those of TCP sockets, without headers; CPU us/message: for each message published".to_owned()];
    let mut section = empty(format!("{tree}: resource usage and traffic of each broker"), facts, &COLUMNS);
    section.rows = all.iter().flat_map(|measured| rows(measured)).collect();
    section
}

/// A row for each broker at one size.
pub(super) fn rows(measured: &SizeMeasurement) -> Vec<Vec<String>> {
    let Some(first) = measured.runs.first() else { return Vec::new() };
    let names = first.nodes.iter().map(|(name, _)| name.clone()).enumerate();
    let row = |(index, name): (usize, String)| {
        let a_second = |value: &dyn Fn(&NodeUsage) -> Option<f64>| {
            let of = |figures: &TreeSegmentFigures| Some(value(&figures.nodes.get(index)?.1)? / figures.elapsed_s());
            number(measured.median_of(of))
        };
        vec![
            name,
            measured.size_bytes.to_string(),
            a_second(&|node| Some(node.network?.bytes_received() as f64 / 1e6)),
            a_second(&|node| Some(node.network?.bytes_sent as f64 / 1e6)),
            a_second(&|node| Some((node.usage.voluntary_switches + node.usage.involuntary_switches) as f64)),
            a_second(&|node| Some((node.usage.minor_faults + node.usage.major_faults) as f64)),
            a_second(&|node| Some(node.usage.cpu_s() * 100.0)),
            number(measured.median_of(|figures| figures.cpu_us(index))),
        ]
    };
    names.map(row).collect()
}
