//! Collects the data of a figure from documents: which points belong to it, and how they are grouped into lines.
//!
//! Results measured in different ways are never on one line.

use std::collections::{BTreeMap, BTreeSet};

use super::axis_scale::{AxisUnit, ScaleKind};
use super::catalogue::{FigureAxis, FigureSpec, LineGrouping};
use super::line_style::LineStyle;
use super::plot::{LinePlot, PlotAxis, PlotDot, PlotLine};
use crate::columns::is_ping_pong;
use crate::compare::same_measurement;
use crate::document::{Document, MeasuredSeries, SeriesPoint, TargetFacts};
use crate::estimate::{MetricEstimate, invalid_reasons};
use crate::metric::Metric;
use crate::osu::plain;

/// The percentiles of a latency curve.
const QUANTILES: [f64; 9] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.999_5, 0.999_9];
/// Parameters that repeat the information of others.
const SAID_ELSEWHERE: [&str; 1] = ["shape"];

/// A broker on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageContestant {
    /// The documents that contain it.
    pub documents: Vec<usize>,
    pub target: String,
    /// Its name on the page.
    pub label: String,
}

impl PageContestant {
    /// Whether a series of a document belongs to it.
    pub fn has(&self, document: usize, series: &MeasuredSeries) -> bool {
        self.target == series.target && self.documents.contains(&document)
    }
}

/// All contestants with distinguishing names. The same broker in two documents is one contestant, unless both documents have the
/// same measurement of it, which makes it two to be compared.
pub(super) fn contestants(documents: &[&Document]) -> Vec<PageContestant> {
    let mut found: Vec<(PageContestant, TargetFacts)> = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        let mut names: Vec<&String> = Vec::new();
        for name in document.targets.iter().map(|facts| &facts.name).chain(document.series.iter().map(|s| &s.target)) {
            if !names.contains(&name) && document.series.iter().any(|series| series.target == *name) {
                names.push(name);
            }
        }
        for name in names {
            let facts = document.target(name).cloned().unwrap_or_default();
            let known = found.iter_mut().find(|(known, its)| {
                let same = |facts: &TargetFacts| {
                    (facts.name.clone(), facts.transport.clone(), facts.product.clone(), facts.version.clone())
                };
                let clash = |&earlier: &usize| measured_twice(documents[earlier], document, name);
                same(its) == same(&facts) && !known.documents.iter().any(clash)
            });
            match known {
                Some((known, _)) => known.documents.push(number),
                None => {
                    let contestant =
                        PageContestant { documents: vec![number], target: name.clone(), label: name.clone() };
                    found.push((contestant, facts));
                }
            }
        }
    }
    let twins = |found: &[(PageContestant, TargetFacts)]| -> Vec<bool> {
        let same = |label: &String| found.iter().filter(|(other, _)| other.label == *label).count() > 1;
        found.iter().map(|(contestant, _)| same(&contestant.label)).collect()
    };
    let shared = twins(&found);
    for ((contestant, facts), _) in found.iter_mut().zip(shared).filter(|(_, shared)| *shared) {
        if !facts.transport.is_empty() {
            contestant.label = format!("{} {}", contestant.target, facts.transport);
        }
    }
    let shared = twins(&found);
    for ((contestant, _), _) in found.iter_mut().zip(shared).filter(|(_, shared)| *shared) {
        let first = contestant.documents.first().map_or(0, |number| number + 1);
        contestant.label = format!("{} ({first})", contestant.label);
    }
    found.into_iter().map(|(contestant, _)| contestant).collect()
}

/// Whether two documents have the same measurement of a target.
fn measured_twice(a: &Document, b: &Document, target: &str) -> bool {
    let mut mine = a.series.iter().filter(|series| series.target == target);
    mine.any(|one| b.series.iter().any(|other| other.target == target && same_measurement(one, other)))
}

#[derive(Clone, Copy)]
pub(super) struct SeriesEntry<'a> {
    pub document: usize,
    pub contestant: usize,
    pub series: &'a MeasuredSeries,
}

pub(super) struct FigureData {
    /// Panels with all their lines.
    pub plots: Vec<LinePlot>,
    /// The fixed parameters and their values.
    pub fixed: Vec<(&'static str, f64)>,
}

/// Whether a figure covers a series.
pub(super) fn covers(spec: &FigureSpec, series: &MeasuredSeries) -> bool {
    let first = series.benchmark.split_whitespace().next().unwrap_or("");
    let named = spec.benchmarks.iter().any(|name| *name == series.benchmark || name == first);
    named
        && spec.ping_pong.is_none_or(|wanted| wanted == is_ping_pong(series))
        && !matches!(&spec.over, FigureAxis::Own(axis) if *axis != series.axis)
}

/// Collects a figure's data; `None` if there is nothing to draw.
pub(super) fn gather(
    spec: &FigureSpec,
    contestants: &[PageContestant],
    entries: &[SeriesEntry<'_>],
) -> Option<FigureData> {
    let has = |series: &MeasuredSeries| {
        let points = || series.points.iter();
        spec.metrics.iter().any(|metric| points().any(|point| !dots(spec, series, point, metric).is_empty()))
    };
    let entries: Vec<SeriesEntry<'_>> =
        entries.iter().copied().filter(|entry| covers(spec, entry.series) && has(entry.series)).collect();
    let fixed = spec
        .fixed
        .iter()
        .map(|&(name, wanted)| Some((name, nearest(&entries, name, wanted)?)))
        .collect::<Option<Vec<_>>>()?;
    let varying = varying(spec, &entries);
    // Lines are identified by panel and name, in order of appearance.
    let mut lines: Vec<(LineKey, PlotLine)> = Vec::new();
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
                    None => lines.push((key, PlotLine { label, look: LineStyle::number(0), dots })),
                }
            }
        }
    }
    lines.retain(|(_, line)| !line.dots.is_empty());
    if let LineGrouping::Values(_) = spec.lines {
        lines.sort_by(|(a, _), (b, _)| a.value.total_cmp(&b.value));
    }
    let plots = panels(spec, contestants, lines);
    (!plots.is_empty()).then_some(FigureData { plots, fixed })
}

/// The identity of a line.
#[derive(Clone, Debug, PartialEq)]
struct LineKey {
    contestant: usize,
    /// The panel's title; empty for a single panel.
    panel: String,
    /// The line's name in its panel.
    line: String,
    variant: usize,
    /// The parameter's value, for sorting.
    value: f64,
}

fn key(
    spec: &FigureSpec,
    entry: &SeriesEntry<'_>,
    point: &SeriesPoint,
    who: String,
    variant: usize,
    metric: &Metric,
) -> Option<(LineKey, String)> {
    let (panel, label, value) = match spec.lines {
        LineGrouping::Contestants => (String::new(), who, 0.0),
        LineGrouping::Values(name) => {
            let value = coordinate(entry.series, point, name)?;
            (who, plain(value), value)
        }
        LineGrouping::Metrics => (who, metric_label(metric), 0.0),
    };
    let name = entry.series.name_at(point.at);
    let label = match (&spec.over, name) {
        // Named values form no axis: each is a line, or a curve, of its own.
        (FigureAxis::Own(_) | FigureAxis::Quantiles(_), Some(name)) => format!("{label}, {name}"),
        // A percentile curve belongs to a single point.
        (FigureAxis::Quantiles(_), None) if entry.series.points.len() > 1 => {
            format!("{label}, {} {}", entry.series.axis, plain(point.at))
        }
        _ => label,
    };
    Some((LineKey { contestant: entry.contestant, panel, line: label.clone(), variant, value }, label))
}

/// A metric's name without what the axis already states.
fn metric_label(metric: &Metric) -> String {
    let name = metric.name();
    let name = name.strip_suffix(" (us)").or_else(|| name.strip_suffix(" CPU %")).unwrap_or(&name);
    match metric {
        Metric::LatencyUs(..) | Metric::LatencyMeanUs(_) => name.split(' ').next_back().unwrap_or(name).to_owned(),
        _ => name.to_owned(),
    }
}

fn panels(spec: &FigureSpec, contestants: &[PageContestant], lines: Vec<(LineKey, PlotLine)>) -> Vec<LinePlot> {
    let mut titles: Vec<(usize, String)> = Vec::new();
    for (key, _) in &lines {
        let entry = (key.contestant, key.panel.clone());
        if spec.lines != LineGrouping::Contestants && !titles.contains(&entry) {
            titles.push(entry);
        }
    }
    titles.sort_by_key(|(contestant, _)| *contestant);
    if spec.lines == LineGrouping::Contestants {
        titles.push((usize::MAX, String::new()));
    }
    // Lines of the same name have the same style in all panels of a figure.
    let mut names: Vec<String> = Vec::new();
    for (key, _) in &lines {
        if !names.contains(&key.line) {
            names.push(key.line.clone());
        }
    }
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let looks: Vec<LineStyle> = lines
        .iter()
        .map(|(key, _)| match spec.lines {
            LineGrouping::Contestants => {
                // Each contestant keeps its colour on the whole page; its lines differ in marker and dash.
                let variant = seen.entry(key.contestant).or_insert(0);
                *variant += 1;
                if contestants.len() == 1 {
                    LineStyle::number(*variant - 1)
                } else {
                    LineStyle::variant(key.contestant, *variant - 1)
                }
            }
            _ => LineStyle::number(names.iter().position(|name| *name == key.line).unwrap_or(0)),
        })
        .collect();
    let panels: Vec<LinePlot> = titles
        .into_iter()
        .map(|(contestant, title)| {
            let lines: Vec<PlotLine> = lines
                .iter()
                .zip(&looks)
                .filter(|((key, _), _)| {
                    spec.lines == LineGrouping::Contestants || (key.contestant == contestant && key.panel == title)
                })
                .map(|((_, line), look)| PlotLine { look: *look, ..line.clone() })
                .collect();
            LinePlot { title, x: x_axis(spec, lines_span(&lines)), y: y_axis(spec), lines }.pruned()
        })
        .filter(|plot| plot.spans().is_some())
        .collect();
    // Panels of single points beside panels of lines are dropped; such points have a figure of their own.
    let has_line = |plot: &LinePlot| plot.lines.iter().any(|line| line.dots.len() > 1);
    match panels.iter().any(has_line) {
        true => panels.into_iter().filter(has_line).collect(),
        false => panels,
    }
}

fn lines_span(lines: &[PlotLine]) -> (f64, f64) {
    lines
        .iter()
        .flat_map(|line| &line.dots)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), dot| (low.min(dot.x), high.max(dot.x)))
}

fn x_axis(spec: &FigureSpec, (low, high): (f64, f64)) -> PlotAxis {
    let (name, unit) = match &spec.over {
        FigureAxis::Size(..) => ("size_bytes", AxisUnit::Bytes),
        FigureAxis::Parameter(name) => (*name, AxisUnit::Plain),
        FigureAxis::Own(name) if name == "size_bytes" => ("size_bytes", AxisUnit::Bytes),
        FigureAxis::Own(name) => (name.as_str(), AxisUnit::Plain),
        FigureAxis::Quantiles(_) => {
            let label = "share of messages within".to_owned();
            return PlotAxis { label, spread: ScaleKind::Nines, unit: AxisUnit::Quantile };
        }
    };
    let doubling = unit == AxisUnit::Bytes || (low > 0.0 && high / low >= 4.0 && name != "rate_per_s");
    let spread = match doubling {
        true => ScaleKind::Log2,
        false if low > 0.0 && high / low >= 50.0 => ScaleKind::Log10,
        false => ScaleKind::Linear,
    };
    PlotAxis { label: axis_words(name), spread, unit }
}

/// The label of an axis.
pub(super) fn axis_words(name: &str) -> String {
    match name {
        "size_bytes" => "message size".to_owned(),
        "pairs" => "publisher-consumer pairs".to_owned(),
        "rate_per_s" => "messages a second asked for".to_owned(),
        other => other.replace('_', " "),
    }
}

fn y_axis(spec: &FigureSpec) -> PlotAxis {
    let label = match (spec.metrics.first(), spec.metrics.len()) {
        (Some(Metric::CpuPercent(_)), 2..) => "CPU, % of a processor".to_owned(),
        (Some(Metric::LatencyUs(..) | Metric::LatencyMeanUs(_)), 2..) => "us".to_owned(),
        (Some(Metric::LatencyUs(..)), _) if matches!(spec.over, FigureAxis::Quantiles(_)) => "us".to_owned(),
        (Some(metric), _) => metric.name(),
        (None, _) => String::new(),
    };
    PlotAxis { label, spread: spec.spread, unit: AxisUnit::Plain }
}

fn dots(spec: &FigureSpec, series: &MeasuredSeries, point: &SeriesPoint, metric: &Metric) -> Vec<PlotDot> {
    let why = invalid_reasons(point);
    let dot = |x: f64, metric: &Metric| {
        let estimate = MetricEstimate::of(metric, point)?;
        let runs = point.runs.len();
        Some(PlotDot { x, y: estimate.median, interval: estimate.interval, invalid: why.clone(), runs })
    };
    match &spec.over {
        FigureAxis::Quantiles(kind) => {
            QUANTILES.iter().filter_map(|&quantile| dot(quantile, &Metric::LatencyUs(kind.clone(), quantile))).collect()
        }
        FigureAxis::Size(least, most) if !(*least..=*most).contains(&point.size_bytes) => Vec::new(),
        FigureAxis::Size(..) => dot(point.size_bytes, metric).into_iter().collect(),
        FigureAxis::Parameter(name) => {
            coordinate(series, point, name).and_then(|x| dot(x, metric)).into_iter().collect()
        }
        FigureAxis::Own(_) if series.name_at(point.at).is_some() => dot(0.0, metric).into_iter().collect(),
        FigureAxis::Own(_) => dot(point.at, metric).into_iter().collect(),
    }
}

/// A point's value of a parameter, of the axis, or of the size.
fn coordinate(series: &MeasuredSeries, point: &SeriesPoint, name: &str) -> Option<f64> {
    if series.axis == name {
        return Some(point.at);
    }
    match series.parameters.get(name) {
        Some(text) => text.parse().ok(),
        None => (name == "size_bytes").then_some(point.size_bytes),
    }
}

/// The measured value closest to the wanted one.
fn nearest(entries: &[SeriesEntry<'_>], name: &str, wanted: f64) -> Option<f64> {
    let distance = |value: f64| (value.max(1e-9) / wanted).ln().abs();
    entries
        .iter()
        .flat_map(|entry| entry.series.points.iter().filter_map(|point| coordinate(entry.series, point, name)))
        .min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
}

/// Whether a parameter is the name of a value on the axis.
fn is_place(series: &MeasuredSeries, parameter: &str) -> bool {
    parameter.strip_prefix(&series.axis).is_some_and(|rest| rest.starts_with(' '))
}

/// Parameters that are on no axis and differ between the series of a figure.
fn varying(spec: &FigureSpec, entries: &[SeriesEntry<'_>]) -> Vec<String> {
    let mut shown: Vec<&str> = SAID_ELSEWHERE.to_vec();
    shown.extend(spec.fixed.iter().map(|(name, _)| *name));
    match &spec.over {
        FigureAxis::Parameter(name) => shown.push(name),
        FigureAxis::Own(name) => shown.push(name),
        FigureAxis::Size(..) => shown.push("size_bytes"),
        FigureAxis::Quantiles(_) => {}
    }
    if let LineGrouping::Values(name) = spec.lines {
        shown.push(name);
    }
    let names: BTreeSet<&String> = entries.iter().flat_map(|entry| entry.series.parameters.keys()).collect();
    names
        .into_iter()
        .filter(|name| !shown.contains(&name.as_str()))
        .filter(|name| !entries.iter().any(|entry| is_place(entry.series, name)))
        .filter(|name| {
            // A missing parameter counts as another value, except for a baseline, which is another benchmark.
            let mut values: BTreeMap<&str, BTreeSet<Option<&String>>> = BTreeMap::new();
            for entry in entries {
                values.entry(&entry.series.benchmark).or_default().insert(entry.series.parameters.get(*name));
            }
            values.values().any(|values| values.len() > 1)
        })
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn check(documents: &[&Document], expected: &[&str]) {
        let labels: Vec<_> = contestants(documents).into_iter().map(|contestant| contestant.label).collect();
        assert_eq!(labels, expected);
    }

    #[test]
    fn names_tell_contestants_apart() {
        let stream = fixture::document();
        let mut unix = stream.clone();
        unix.targets[0].transport = "unix".to_owned();
        let mut trips = stream.clone();
        trips.series[0].benchmark = "de-pp".to_owned();
        check(&[&stream], &["harrier"]);
        check(&[&stream, &trips], &["harrier"]);
        check(&[&stream, &unix], &["harrier tcp", "harrier unix"]);
        check(&[&stream, &stream.clone()], &["harrier tcp (1)", "harrier tcp (2)"]);
    }

    /// The lines of a figure as `label: x x x`, each panel preceded by its title.
    fn lines(spec: &FigureSpec, document: &Document) -> Vec<String> {
        let all = contestants(&[document]);
        let find = |series: &MeasuredSeries| all.iter().position(|one| one.has(0, series)).expect("a contestant");
        let entries: Vec<_> = document
            .series
            .iter()
            .map(|series| SeriesEntry { document: 0, contestant: find(series), series })
            .collect();
        let Some(gathered) = gather(spec, &all, &entries) else { return Vec::new() };
        let mut text = Vec::new();
        for plot in gathered.plots {
            for line in plot.lines {
                let dots: Vec<_> = line.dots.iter().map(|dot| plain(dot.x)).collect();
                text.push(format!("{}|{}: {}", plot.title, line.label, dots.join(" ")));
            }
        }
        text
    }

    fn spec(id: &str) -> FigureSpec {
        let mut all = super::super::catalogue::chapters().into_iter().flat_map(|chapter| chapter.figures);
        all.find(|spec| spec.id == id).expect("a figure of the catalogue")
    }

    fn with(mut series: MeasuredSeries, target: &str, parameters: &[(&str, &str)]) -> MeasuredSeries {
        series.target = target.to_owned();
        series.parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        series
    }

    fn stream(benchmark: &str, sizes: &[f64]) -> MeasuredSeries {
        let points = sizes.iter().map(|&size| fixture::point(size, &[1_000])).collect();
        fixture::series(benchmark, "size_bytes", points)
    }

    #[test]
    fn lines_by_a_parameter_stand_in_a_panel_for_each_broker() {
        let mut series = Vec::new();
        for target in ["harrier", "rabbitmq"] {
            for consumers in ["1", "32", "8"] {
                series.push(with(stream("fe-spmc", &[1.0, 64.0]), target, &[("consumers", consumers)]));
            }
        }
        let document = fixture::document_of(Vec::new(), series);
        assert_eq!(
            lines(&spec("fanout-rate"), &document),
            [
                "harrier|1: 1 64",
                "harrier|8: 1 64",
                "harrier|32: 1 64",
                "rabbitmq|1: 1 64",
                "rabbitmq|8: 1 64",
                "rabbitmq|32: 1 64"
            ]
        );
        assert_eq!(lines(&spec("fanout-bandwidth"), &document), ["|harrier: 1 64", "|rabbitmq: 1 64"]);
        assert_eq!(lines(&spec("fanout-deliveries"), &document), ["|harrier: 1 8 32", "|rabbitmq: 1 8 32"]);
    }

    #[test]
    fn what_was_measured_in_other_ways_is_another_line() {
        let document = fixture::document_of(
            Vec::new(),
            vec![
                with(stream("te-spsc", &[1.0, 64.0]), "harrier", &[("patterns", "1024")]),
                with(stream("te-spsc", &[64.0]), "harrier", &[("patterns", "1024"), ("match", "all")]),
                with(stream("te-spsc", &[64.0]), "harrier", &[("patterns", "1024"), ("changing", "1000")]),
            ],
        );
        assert_eq!(lines(&spec("topic-rate"), &document), ["harrier|1024: 1 64"]);
        assert_eq!(
            lines(&spec("topic-variants"), &document),
            ["|harrier: 64", "|harrier, match=all: 64", "|harrier, changing=1000: 64"]
        );
    }

    #[test]
    fn places_with_names_are_values_of_their_own() {
        let mut series = fixture::series(
            "workload orders",
            "group",
            vec![fixture::point(0.0, &[1_000]), fixture::point(1.0, &[2_000])],
        );
        series = with(series, "harrier", &[("group 0", "all"), ("group 1", "traders"), ("seed", "1")]);
        let document = fixture::document_of(Vec::new(), vec![series]);
        let spec = super::super::catalogue::plain("x".to_owned(), "workload orders", "group", Metric::DeliveredPerS);
        assert_eq!(lines(&spec, &document), ["|harrier, all: 0", "|harrier, traders: 0"]);
    }

    #[test]
    fn a_baseline_needs_no_parameter() {
        let mut relay = with(stream("sockets", &[1.0, 64.0]), "relay", &[("shape", "stream")]);
        relay.pace = crate::document::LoopMode::Closed;
        let document = fixture::document_of(
            Vec::new(),
            vec![with(stream("de-spsc", &[1.0, 64.0]), "harrier", &[("pairs", "1")]), relay],
        );
        assert_eq!(lines(&spec("rate"), &document), ["|harrier: 1 64", "|relay: 1 64"]);
        assert!(lines(&spec("latency-small"), &document).is_empty());
    }
}
