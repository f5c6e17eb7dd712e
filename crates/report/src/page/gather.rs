//! From documents to lines: which points belong to a figure, and how they are grouped.
//!
//! Enters: documents and a figure's specification.  Leaves: panels with lines.
//! Owns:   the names of lines: the broker, its network where there are several, and parameters that differ.
//! Never:  one line of figures that were measured in different ways.

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::{Lines, Over, Spec};
use super::look::Look;
use super::plot::{Axis, Dot, Line, Plot};
use super::scale::{Spread, Unit};
use crate::columns::is_ping_pong;
use crate::document::{Document, Point, Series};
use crate::estimate::{Estimate, marks};
use crate::metric::Metric;
use crate::osu::plain;

/// Percentiles that the curve of a latency is drawn through.
const QUANTILES: [f64; 9] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.999_5, 0.999_9];
/// Parameters that say what others say already.
const SAID_ELSEWHERE: [&str; 1] = ["shape"];

/// A broker on a network, in one of the documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contestant {
    pub document: usize,
    pub target: String,
    /// Its name on the page.
    pub label: String,
}

/// Everyone who was measured, with names that tell them apart.
pub(super) fn contestants(documents: &[&Document]) -> Vec<Contestant> {
    let mut found: Vec<(Contestant, String)> = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        let mut names: Vec<&String> = Vec::new();
        for name in document.targets.iter().map(|facts| &facts.name).chain(document.series.iter().map(|s| &s.target)) {
            if !names.contains(&name) && document.series.iter().any(|series| series.target == *name) {
                names.push(name);
            }
        }
        for name in names {
            let transport = document.target(name).map_or_else(String::new, |facts| facts.transport.clone());
            found.push((Contestant { document: number, target: name.clone(), label: name.clone() }, transport));
        }
    }
    let twins = |found: &[(Contestant, String)], index: usize| {
        found.iter().filter(|(other, _)| other.label == found[index].0.label).count() > 1
    };
    let shared: Vec<bool> = (0..found.len()).map(|index| twins(&found, index)).collect();
    for (index, (contestant, transport)) in found.iter_mut().enumerate() {
        if shared[index] && !transport.is_empty() {
            contestant.label = format!("{} {transport}", contestant.target);
        }
    }
    let shared: Vec<bool> = (0..found.len()).map(|index| twins(&found, index)).collect();
    for (index, (contestant, _)) in found.iter_mut().enumerate() {
        if shared[index] {
            contestant.label = format!("{} ({})", contestant.label, contestant.document + 1);
        }
    }
    found.into_iter().map(|(contestant, _)| contestant).collect()
}

/// A series on the page.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub contestant: usize,
    pub series: &'a Series,
}

/// The panels of a figure.
pub(super) struct Gathered {
    /// With all lines.
    pub plots: Vec<Plot>,
    /// The coordinates that were kept, and at what.
    pub fixed: Vec<(&'static str, f64)>,
}

/// Whether a figure is about a series at all.
pub(super) fn concerns(spec: &Spec, series: &Series) -> bool {
    let first = series.benchmark.split_whitespace().next().unwrap_or("");
    let named = spec.benchmarks.iter().any(|name| *name == series.benchmark || name == first);
    named
        && spec.ping_pong.is_none_or(|wanted| wanted == is_ping_pong(series))
        && !matches!(&spec.over, Over::Own(axis) if *axis != series.axis)
}

/// Collects a figure's points; `None` if there is nothing to draw.
pub(super) fn gather(spec: &Spec, contestants: &[Contestant], entries: &[Entry<'_>]) -> Option<Gathered> {
    let has = |series: &Series| {
        let points = || series.points.iter();
        spec.metrics.iter().any(|metric| points().any(|point| !dots(spec, series, point, metric).is_empty()))
    };
    let entries: Vec<Entry<'_>> =
        entries.iter().copied().filter(|entry| concerns(spec, entry.series) && has(entry.series)).collect();
    let fixed = spec
        .fixed
        .iter()
        .map(|&(name, wanted)| Some((name, nearest(&entries, name, wanted)?)))
        .collect::<Option<Vec<_>>>()?;
    let varying = varying(spec, &entries);
    // A line is found by its panel, then by its name, in the order in which they come up.
    let mut lines: Vec<(Key, Line)> = Vec::new();
    for entry in &entries {
        let rest: String = varying
            .iter()
            .filter_map(|name| entry.series.parameters.get(name).map(|value| format!(", {name}={value}")))
            .collect();
        for point in &entry.series.points {
            let kept = fixed.iter().all(|&(name, value)| coordinate(entry.series, point, name) == Some(value));
            if !kept {
                continue;
            }
            for (variant, metric) in spec.metrics.iter().enumerate() {
                let who = format!("{}{rest}", contestants[entry.contestant].label);
                let Some((key, label)) = key(spec, entry, point, who, variant, metric) else { continue };
                let dots = dots(spec, entry.series, point, metric);
                match lines.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, line)) => line.dots.extend(dots),
                    None => lines.push((key, Line { label, look: Look::number(0), dots })),
                }
            }
        }
    }
    lines.retain(|(_, line)| !line.dots.is_empty());
    if let Lines::Values(_) = spec.lines {
        lines.sort_by(|(a, _), (b, _)| a.value.total_cmp(&b.value));
    }
    let plots = panels(spec, contestants, lines);
    (!plots.is_empty()).then_some(Gathered { plots, fixed })
}

/// What makes a line one line.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    contestant: usize,
    /// The panel's title; empty where there is one panel.
    panel: String,
    /// What the line is in its panel.
    line: String,
    /// Which metric.
    variant: usize,
    /// The parameter's value, by which lines are sorted.
    value: f64,
}

fn key(
    spec: &Spec,
    entry: &Entry<'_>,
    point: &Point,
    who: String,
    variant: usize,
    metric: &Metric,
) -> Option<(Key, String)> {
    let (panel, label, value) = match spec.lines {
        Lines::Contestants => (String::new(), who, 0.0),
        Lines::Values(name) => {
            let value = coordinate(entry.series, point, name)?;
            (who, plain(value), value)
        }
        Lines::Metrics => (who, metric_label(metric), 0.0),
    };
    let label = match (&spec.over, entry.series.points.len()) {
        // A curve of percentiles is one of a single point.
        (Over::Quantiles(_), 2..) => format!("{label}, {} {}", entry.series.axis, plain(point.at)),
        _ => label,
    };
    Some((Key { contestant: entry.contestant, panel, line: label.clone(), variant, value }, label))
}

/// A metric's name without what the axis says already.
fn metric_label(metric: &Metric) -> String {
    let name = metric.name();
    let name = name.strip_suffix(" (us)").or_else(|| name.strip_suffix(" CPU %")).unwrap_or(&name);
    match metric {
        Metric::LatencyUs(..) | Metric::LatencyMeanUs(_) => name.split(' ').next_back().unwrap_or(name).to_owned(),
        _ => name.to_owned(),
    }
}

fn panels(spec: &Spec, contestants: &[Contestant], lines: Vec<(Key, Line)>) -> Vec<Plot> {
    let mut titles: Vec<(usize, String)> = Vec::new();
    for (key, _) in &lines {
        let entry = (key.contestant, key.panel.clone());
        if spec.lines != Lines::Contestants && !titles.contains(&entry) {
            titles.push(entry);
        }
    }
    titles.sort_by_key(|(contestant, _)| *contestant);
    if spec.lines == Lines::Contestants {
        titles.push((usize::MAX, String::new()));
    }
    // Lines of one name look alike in all panels of the figure.
    let mut names: Vec<String> = Vec::new();
    for (key, _) in &lines {
        if !names.contains(&key.line) {
            names.push(key.line.clone());
        }
    }
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let looks: Vec<Look> = lines
        .iter()
        .map(|(key, _)| match spec.lines {
            Lines::Contestants => {
                // Each contestant keeps its colour on the whole page; more lines of it differ in marker and dash.
                let variant = seen.entry(key.contestant).or_insert(0);
                *variant += 1;
                if contestants.len() == 1 {
                    Look::number(*variant - 1)
                } else {
                    Look::variant(key.contestant, *variant - 1)
                }
            }
            _ => Look::number(names.iter().position(|name| *name == key.line).unwrap_or(0)),
        })
        .collect();
    let panels: Vec<Plot> = titles
        .into_iter()
        .map(|(contestant, title)| {
            let lines: Vec<Line> = lines
                .iter()
                .zip(&looks)
                .filter(|((key, _), _)| {
                    spec.lines == Lines::Contestants || (key.contestant == contestant && key.panel == title)
                })
                .map(|((_, line), look)| Line { look: *look, ..line.clone() })
                .collect();
            Plot { title, x: x_axis(spec, lines_span(&lines)), y: y_axis(spec), lines }.pruned()
        })
        .filter(|plot| plot.spans().is_some())
        .collect();
    // A panel of lone points beside panels of lines says nothing; such points have a figure of their own.
    let has_line = |plot: &Plot| plot.lines.iter().any(|line| line.dots.len() > 1);
    match panels.iter().any(has_line) {
        true => panels.into_iter().filter(has_line).collect(),
        false => panels,
    }
}

fn lines_span(lines: &[Line]) -> (f64, f64) {
    lines
        .iter()
        .flat_map(|line| &line.dots)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), dot| (low.min(dot.x), high.max(dot.x)))
}

fn x_axis(spec: &Spec, (low, high): (f64, f64)) -> Axis {
    let (name, unit) = match &spec.over {
        Over::Size(..) => ("size_bytes", Unit::Bytes),
        Over::Parameter(name) => (*name, Unit::Plain),
        Over::Own(name) if name == "size_bytes" => ("size_bytes", Unit::Bytes),
        Over::Own(name) => (name.as_str(), Unit::Plain),
        Over::Quantiles(_) => {
            let label = "share of messages within".to_owned();
            return Axis { label, spread: Spread::Nines, unit: Unit::Quantile };
        }
    };
    let doubling = unit == Unit::Bytes || (low > 0.0 && high / low >= 4.0 && name != "rate_per_s");
    let spread = match doubling {
        true => Spread::Log2,
        false if low > 0.0 && high / low >= 50.0 => Spread::Log10,
        false => Spread::Linear,
    };
    Axis { label: axis_words(name), spread, unit }
}

/// An axis in words.
pub(super) fn axis_words(name: &str) -> String {
    match name {
        "size_bytes" => "message size".to_owned(),
        "pairs" => "publisher-consumer pairs".to_owned(),
        "rate_per_s" => "messages a second asked for".to_owned(),
        other => other.replace('_', " "),
    }
}

fn y_axis(spec: &Spec) -> Axis {
    let label = match (spec.metrics.first(), spec.metrics.len()) {
        (Some(Metric::CpuPercent(_)), 2..) => "CPU, % of a processor".to_owned(),
        (Some(Metric::LatencyUs(..) | Metric::LatencyMeanUs(_)), 2..) => "us".to_owned(),
        (Some(Metric::LatencyUs(..)), _) if matches!(spec.over, Over::Quantiles(_)) => "us".to_owned(),
        (Some(metric), _) => metric.name(),
        (None, _) => String::new(),
    };
    Axis { label, spread: spec.spread, unit: Unit::Plain }
}

fn dots(spec: &Spec, series: &Series, point: &Point, metric: &Metric) -> Vec<Dot> {
    let why = marks(point);
    let dot = |x: f64, metric: &Metric| {
        let estimate = Estimate::of(metric, point)?;
        let runs = point.runs.len();
        Some(Dot { x, y: estimate.median, interval: estimate.interval, invalid: why.clone(), runs })
    };
    match &spec.over {
        Over::Quantiles(kind) => {
            QUANTILES.iter().filter_map(|&quantile| dot(quantile, &Metric::LatencyUs(kind.clone(), quantile))).collect()
        }
        Over::Size(least, most) if !(*least..=*most).contains(&point.size_bytes) => Vec::new(),
        Over::Size(..) => dot(point.size_bytes, metric).into_iter().collect(),
        Over::Parameter(name) => coordinate(series, point, name).and_then(|x| dot(x, metric)).into_iter().collect(),
        Over::Own(_) => dot(point.at, metric).into_iter().collect(),
    }
}

/// A point's value of a parameter, of the axis, or of the size.
fn coordinate(series: &Series, point: &Point, name: &str) -> Option<f64> {
    if series.axis == name {
        return Some(point.at);
    }
    match series.parameters.get(name) {
        Some(text) => text.parse().ok(),
        None => (name == "size_bytes").then_some(point.size_bytes),
    }
}

/// The measured value of a coordinate next to the wanted one.
fn nearest(entries: &[Entry<'_>], name: &str, wanted: f64) -> Option<f64> {
    let distance = |value: f64| (value.max(1e-9) / wanted).ln().abs();
    entries
        .iter()
        .flat_map(|entry| entry.series.points.iter().filter_map(|point| coordinate(entry.series, point, name)))
        .min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
}

/// Parameters that are on no axis and differ between the series of a figure.
fn varying(spec: &Spec, entries: &[Entry<'_>]) -> Vec<String> {
    let mut shown: Vec<&str> = SAID_ELSEWHERE.to_vec();
    shown.extend(spec.fixed.iter().map(|(name, _)| *name));
    match &spec.over {
        Over::Parameter(name) => shown.push(name),
        Over::Own(name) => shown.push(name),
        Over::Size(..) => shown.push("size_bytes"),
        Over::Quantiles(_) => {}
    }
    if let Lines::Values(name) = spec.lines {
        shown.push(name);
    }
    let names: BTreeSet<&String> = entries.iter().flat_map(|entry| entry.series.parameters.keys()).collect();
    names
        .into_iter()
        .filter(|name| !shown.contains(&name.as_str()))
        .filter(|name| {
            // Not to have a parameter is another value of it, except for a baseline, which is another benchmark.
            let mut values: BTreeMap<&str, BTreeSet<Option<&String>>> = BTreeMap::new();
            for entry in entries {
                values.entry(&entry.series.benchmark).or_default().insert(entry.series.parameters.get(*name));
            }
            values.values().any(|values| values.len() > 1)
        })
        .cloned()
        .collect()
}
