//! Pairs the series of two documents: same benchmark, parameters and axis, and the same target or the only one of each side.

use std::collections::BTreeSet;

use crate::document::{Document, MeasuredSeries};

pub(super) type SeriesPairs<'a> = Vec<(&'a MeasuredSeries, &'a MeasuredSeries)>;

/// Whether two series are the same measurement, possibly of different targets.
pub(crate) fn same_measurement(a: &MeasuredSeries, b: &MeasuredSeries) -> bool {
    (&a.benchmark, &a.parameters, &a.axis, a.pace) == (&b.benchmark, &b.parameters, &b.axis, b.pace)
}

/// A series without its target: `de-spsc, pairs=2`.
pub(super) fn what(series: &MeasuredSeries) -> String {
    let mut text = series.benchmark.clone();
    for (name, value) in &series.parameters {
        text.push_str(&format!(", {name}={value}"));
    }
    text
}

/// Pairs the series of two named documents.
pub(super) fn of_documents<'a>(a: (&str, &'a Document), b: (&str, &'a Document)) -> (SeriesPairs<'a>, Vec<String>) {
    let names =
        |document: &'a Document| document.series.iter().map(|series| &*series.target).collect::<BTreeSet<&str>>();
    let (in_a, in_b) = (names(a.1), names(b.1));
    // With one target each, two brokers are compared whatever their names. Otherwise targets are paired by name.
    let by_name = in_a.len() != 1 || in_b.len() != 1;
    let belong = |first: &MeasuredSeries, second: &MeasuredSeries| {
        same_measurement(first, second) && (!by_name || first.target == second.target)
    };
    let mut together = Vec::new();
    let mut alone = Vec::new();
    let mut taken = BTreeSet::new();
    for first in &a.1.series {
        let partner =
            b.1.series.iter().enumerate().find(|(index, second)| !taken.contains(index) && belong(first, second));
        match partner {
            Some((index, second)) => {
                taken.insert(index);
                together.push((first, second));
            }
            None => alone.push(format!("{}: {} only in {}", what(first), first.target, a.0)),
        }
    }
    for (_, second) in b.1.series.iter().enumerate().filter(|(index, _)| !taken.contains(index)) {
        alone.push(format!("{}: {} only in {}", what(second), second.target, b.0));
    }
    (together, alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// Series as `benchmark@target`, and the expected pairs.
    fn check(a: &[&str], b: &[&str], together: &str, alone: &[&str]) {
        let document = |words: &[&str]| {
            let series = words.iter().map(|word| {
                let (benchmark, target) = word.split_once('@').expect("benchmark@target");
                MeasuredSeries { target: target.to_owned(), ..fixture::series(benchmark, "size_bytes", Vec::new()) }
            });
            fixture::document_of(Vec::new(), series.collect())
        };
        let (a, b) = (document(a), document(b));
        let (found, left) = of_documents(("A", &a), ("B", &b));
        let found: Vec<_> =
            found.iter().map(|(a, b)| format!("{}@{}-{}@{}", a.benchmark, a.target, b.benchmark, b.target)).collect();
        assert_eq!(
            (found.join(" "), left.iter().map(String::as_str).collect::<Vec<_>>()),
            (together.to_owned(), alone.to_vec())
        );
    }

    #[test]
    fn series_are_paired() {
        check(&["x@h"], &["x@h"], "x@h-x@h", &[]);
        check(&["x@h"], &["x@r"], "x@h-x@r", &[]);
        check(&["x@h", "x@r"], &["x@r", "x@h"], "x@h-x@h x@r-x@r", &[]);
        check(&["x@h", "x@r"], &["x@q"], "", &["x: h only in A", "x: r only in A", "x: q only in B"]);
        check(&["x@h"], &["y@h"], "", &["x: h only in A", "y: h only in B"]);
        check(&["x@h", "x@h"], &["x@h"], "x@h-x@h", &["x: h only in A"]);
    }
}
