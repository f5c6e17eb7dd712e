//! Tables in the format of the OSU micro-benchmarks, printed row by row: width 10 for the axis, 18 for each figure, two decimals.
//!
//! A `*` after a row marks it as INVALID. Every line is a comment (`#`) or a row.

use crate::columns;
use crate::document::{Document, LoopMode, MeasuredSeries, SeriesPoint};
use crate::estimate::{MetricEstimate, invalid_reasons};
use crate::metric::Metric;
use crate::paired_ratios;
use crate::stdout::put;

const AXIS_WIDTH: usize = 10;
const FIELD_WIDTH: usize = 18;

/// A table in progress: one group of columns per target, the first target's first.
pub struct OsuTable {
    groups: Vec<Vec<OsuColumn>>,
    yardsticks: Vec<YardstickColumns>,
    axis: String,
}

/// A target that only serves as a yardstick for others (raw sockets, the load generator alone).
pub struct Yardstick {
    /// The index of its series, after those of the last target with columns of its own.
    pub index: usize,
    pub metric: Metric,
    /// The figures expressed as a share of it.
    pub shares: Vec<YardstickShare>,
}

/// A figure as a share of a yardstick's.
pub struct YardstickShare {
    /// The index of its series; yardsticks among them are named.
    pub index: usize,
    /// The metric of both.
    pub metric: Metric,
}

/// The columns of a yardstick: its own figure, and the shares.
struct YardstickColumns {
    index: usize,
    metric: Metric,
    own: String,
    shares: Vec<(String, YardstickShare)>,
}

/// A column: a metric's median, or a bound of its interval.
struct OsuColumn {
    metric: Metric,
    part: IntervalPart,
    name: String,
    width: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IntervalPart {
    Median,
    Low,
    High,
}

impl OsuTable {
    /// Prints the head and returns the table. `series` are those of all interleaved targets (usually one), without points so
    /// far; `full`: all metrics, the default ones with intervals.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn begin(document: &Document, series: &[&MeasuredSeries], full: bool) -> Result<Self, String> {
        let table = Self::new(series, full);
        put(&table.head(document, series))?;
        Ok(table)
    }

    /// Like `begin`, with yardsticks among the `series`: they have two columns instead of a group.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn begin_beside(
        document: &Document,
        series: &[&MeasuredSeries],
        yardsticks: Vec<Yardstick>,
        full: bool,
    ) -> Result<Self, String> {
        let indexes: Vec<usize> = yardsticks.iter().map(|yardstick| yardstick.index).collect();
        let is_yardstick = |index: usize| indexes.contains(&index);
        let measured: Vec<&MeasuredSeries> =
            series.iter().enumerate().filter(|(index, _)| !is_yardstick(*index)).map(|(_, series)| *series).collect();
        let mut table = Self::new(&measured, full);
        for Yardstick { index, metric, shares } in yardsticks {
            let Some(target) = series.get(index).map(|series| &series.target) else { continue };
            let name = |share: &YardstickShare| match series.get(share.index) {
                Some(other) if is_yardstick(share.index) => format!("{} of {target}", other.target),
                _ if share.index == 0 => format!("of {target}"),
                _ => format!("of {target} ({})", share.index + 1),
            };
            table.yardsticks.push(YardstickColumns {
                index,
                own: format!("{target} {}", metric.name()),
                metric,
                shares: shares.into_iter().map(|share| (name(&share), share)).collect(),
            });
        }
        put(&table.head(document, series))?;
        Ok(table)
    }

    /// Prints the row of one value on the axis: a point of each series, in order.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn row(&self, points: &[&SeriesPoint]) -> Result<(), String> {
        put(&self.line(points))
    }

    fn new(series: &[&MeasuredSeries], full: bool) -> Self {
        let groups = series
            .iter()
            .enumerate()
            .map(|(index, series)| {
                let number = if index == 0 { String::new() } else { format!(" ({})", index + 1) };
                columns_of(series, full, &number)
            })
            .collect();
        let axis = series.first().map_or_else(String::new, |series| axis_name(&series.axis));
        Self { groups, yardsticks: Vec::new(), axis }
    }

    /// The comment lines and the column headings.
    fn head(&self, document: &Document, series: &[&MeasuredSeries]) -> String {
        let mut text = String::new();
        for (index, one) in series.iter().enumerate() {
            let title = title(document, one);
            let number = if series.len() > 1 { format!("({}) ", index + 1) } else { String::new() };
            let program = if index == 0 { "harrier bench " } else { "" };
            text.push_str(&format!("# {number}{program}{title}\n"));
        }
        text.push_str(&format!("# {}\n", document.environment.line()));
        text.push_str(&format!("# placement: {}\n", document.placement));
        text.push_str(&format!("{:<AXIS_WIDTH$}", format!("# {}", self.axis)));
        for column in self.groups.iter().flatten() {
            text.push_str(&format!("{:>1$}", column.name, column.width));
        }
        for name in self.yardsticks.iter().flat_map(YardstickColumns::names) {
            text.push_str(&format!("{name:>0$}", FIELD_WIDTH.max(name.len() + 2)));
        }
        text.push('\n');
        text
    }

    fn line(&self, points: &[&SeriesPoint]) -> String {
        let Some(at) = points.first().map(|point| plain(point.at)) else { return String::new() };
        let mut text = format!("{at:<AXIS_WIDTH$}");
        for (group, point) in self.groups.iter().zip(points) {
            for column in group {
                text.push_str(&format!("{:>1$}", column.value(point), column.width));
            }
        }
        for yardstick in &self.yardsticks {
            for (name, value) in yardstick.names().zip(yardstick.values(points)) {
                let text_of = value.filter(|value| value.is_finite()).map_or_else(|| "-".to_owned(), decimals);
                text.push_str(&format!("{text_of:>0$}", FIELD_WIDTH.max(name.len() + 2)));
            }
        }
        let mut below = String::new();
        for (index, point) in points.iter().enumerate() {
            let number = if points.len() > 1 { format!(" ({})", index + 1) } else { String::new() };
            for reason in invalid_reasons(point) {
                below.push_str(&format!("# * {at}{number}: INVALID: {reason}\n"));
            }
        }
        text.push_str(if below.is_empty() { "\n" } else { "  *\n" });
        text + &below
    }
}

impl YardstickColumns {
    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.own).chain(self.shares.iter().map(|(name, _)| name))
    }

    fn values(&self, points: &[&SeriesPoint]) -> Vec<Option<f64>> {
        let Some(own) = points.get(self.index) else { return Vec::new() };
        let mut values = vec![MetricEstimate::of(&self.metric, own).map(|estimate| estimate.median)];
        let shares = self.shares.iter();
        values.extend(
            shares.map(|(_, YardstickShare { index, metric })| paired_ratios::ratio(metric, points.get(*index)?, own)),
        );
        values
    }
}

impl OsuColumn {
    fn value(&self, point: &SeriesPoint) -> String {
        let Some(estimate) = MetricEstimate::of(&self.metric, point) else { return "-".to_owned() };
        match (self.part, estimate.interval) {
            (IntervalPart::Median, _) => decimals(estimate.median),
            (IntervalPart::Low, Some((low, _))) => decimals(low),
            (IntervalPart::High, Some((_, high))) => decimals(high),
            _ => "-".to_owned(),
        }
    }
}

fn columns_of(series: &MeasuredSeries, full: bool, number: &str) -> Vec<OsuColumn> {
    let usual = columns::default_metrics(series);
    let shown = if full { columns::available_metrics(series) } else { usual.clone() };
    let mut columns = Vec::new();
    for metric in shown {
        let parts: &[IntervalPart] = if full && usual.contains(&metric) {
            &[IntervalPart::Median, IntervalPart::Low, IntervalPart::High]
        } else {
            &[IntervalPart::Median]
        };
        for &part in parts {
            let name = match part {
                IntervalPart::Median => format!("{}{number}", metric.name()),
                IntervalPart::Low => "low".to_owned(),
                IntervalPart::High => "high".to_owned(),
            };
            let width = FIELD_WIDTH.max(name.len() + 2);
            columns.push(OsuColumn { metric: metric.clone(), part, name, width });
        }
    }
    columns
}

/// Title of a series with its target and load model: `de-spsc, pairs=2: harrier (Harrier 0.1.0, tcp), closed loop`.
pub fn title(document: &Document, series: &MeasuredSeries) -> String {
    let mut text = series.benchmark.clone();
    for (name, value) in &series.parameters {
        text.push_str(&format!(", {name}={value}"));
    }
    let pace = match series.pace {
        LoopMode::Closed => "closed loop",
        LoopMode::Open => "open loop",
    };
    format!("{text}: {}, {pace}", document.target_line(&series.target))
}

/// The heading of an axis: `Size` for `size_bytes`.
pub(crate) fn axis_name(axis: &str) -> String {
    match axis {
        "size_bytes" => "Size".to_owned(),
        "rate_per_s" => "Rate/s".to_owned(),
        other => {
            let mut name = other.replace('_', " ");
            if let Some(first) = name.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            name
        }
    }
}

/// A value on the axis: integers without a decimal point.
pub fn plain(at: f64) -> String {
    format!("{at}")
}

/// Two decimals, as the OSU benchmarks print; four for small values.
fn decimals(value: f64) -> String {
    if value != 0.0 && value.abs() < 1.0 { format!("{value:.4}") } else { format!("{value:.2}") }
}

/// The tables of all series of a document, as they are printed during the measurement.
pub fn write(document: &Document, full: bool) -> String {
    let mut text = String::new();
    for series in &document.series {
        let table = OsuTable::new(&[series], full);
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table.head(document, &[series]));
        for point in &series.points {
            text.push_str(&table.line(&[point]));
        }
    }
    if let Some(why) = &document.cut_short {
        text.push_str(&format!("# cut short: {why}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_document_as_osu_tables() {
        let mut document = fixture::document();
        document.cut_short = Some("interrupted".to_owned());
        let expected = "\
# harrier bench de-spsc, pairs=1: harrier (Harrier 0.1.0, tcp), closed loop
# harrier 0.1.0, 2 x Example CPU, 4096 MiB, Linux 6.1.0, TCP cubic
# placement: any
# Size                  MB/s        Messages/s        us/message
64                    0.1280           2000.00            500.00
128                   0.1216            950.00           1052.63  *
# * 128: INVALID: the publisher used 93 % of its core (1 of 3 runs)
# cut short: interrupted
";
        assert_eq!(write(&document, false), expected);
    }

    #[test]
    fn all_columns_begin_with_the_usual_ones_and_their_intervals() {
        let document = fixture::document();
        let text = write(&document, true);
        let rows: Vec<_> = text.lines().skip(3).collect();
        assert!(
            rows[0].starts_with("# Size                  MB/s               low              high        Messages/s"),
            "{}",
            rows[0]
        );
        assert!(
            rows[1].starts_with("64                    0.1280            0.0640            0.1920           2000.00"),
            "{}",
            rows[1]
        );
        assert!(rows[0].contains("Broker CPU s/M") && rows[0].contains("Packet gap (us)"), "{}", rows[0]);
        assert_eq!(rows[0].matches("low").count(), 3);
    }

    #[test]
    fn a_yardstick_is_a_figure_and_a_share_of_it() {
        let mut document = fixture::document();
        document.targets.push(fixture::target("relay", "relay", "0"));
        let first = fixture::series("de-pp", "pairs", Vec::new());
        let relay = MeasuredSeries { target: "relay".to_owned(), ..first.clone() };
        let metric = Metric::OneWayMeanUs("round_trip".to_owned());
        let mut table = OsuTable::new(&[&first], false);
        table.yardsticks.push(YardstickColumns {
            index: 1,
            own: "relay Latency (us)".to_owned(),
            shares: vec![("of relay".to_owned(), YardstickShare { index: 0, metric: metric.clone() })],
            metric,
        });
        let head = table.head(&document, &[&first, &relay]);
        assert!(head.ends_with("  relay Latency (us)          of relay\n"), "{head}");
        let slow = fixture::latency_point(2.0, "round_trip", &[vec![100_000; 10]]);
        let quick = fixture::latency_point(2.0, "round_trip", &[vec![50_000; 10]]);
        let line = table.line(&[&slow, &quick]);
        let words: Vec<&str> = line.split_whitespace().rev().take(2).collect();
        let share: f64 = words[0].parse().expect("a number");
        assert!((share - 2.0).abs() < 0.01 && words[1].starts_with("25.0"), "{line}");
    }

    #[test]
    fn targets_side_by_side() {
        let mut document = fixture::document();
        document.targets.push(fixture::target("rabbitmq", "RabbitMQ", "3.10.8"));
        let first = fixture::series("de-pp", "pairs", Vec::new());
        let second = MeasuredSeries { target: "rabbitmq".to_owned(), ..first.clone() };
        let table = OsuTable::new(&[&first, &second], false);
        let head = table.head(&document, &[&first, &second]);
        assert!(head.starts_with(
            "# (1) harrier bench de-pp: harrier (Harrier 0.1.0, tcp), closed loop\n\
             # (2) de-pp: rabbitmq (RabbitMQ 3.10.8, tcp), closed loop\n"
        ));
        assert!(head.contains("\n# Pairs         Latency (us)") && head.contains("Latency (us) (2)"), "{head}");
        let quick = fixture::latency_point(2.0, "round_trip", &[vec![100_000; 10]]);
        let mut slow = fixture::latency_point(2.0, "round_trip", &[vec![200_000; 10]]);
        slow.runs[0].invalid.push("why".to_owned());
        let line = table.line(&[&quick, &slow]);
        assert!(line.starts_with("2                      50.0"), "{line}");
        assert!(line.ends_with("  *\n# * 2 (2): INVALID: why\n"), "{line}");
    }
}
