//! The results of `perf`: rows with verdicts and the runs behind them, as text, Markdown, JSON and HTML.
//!
//! What could not be measured keeps its row, with the reason.

use serde::Serialize;
use serde_json::{Value, json};

use super::interleaved::PerfSeries;
use crate::scenario::SegmentFigures;
use gauge::HostEnvironment;
use report::page::{PageSection, number};

/// The goal of a row.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum GoalBound {
    AtLeast(f64),
    AtMost(f64),
    /// No goal: for comparison only.
    Nothing,
}

#[derive(Clone, Debug, Serialize)]
pub struct PerfRow {
    what: String,
    bound: GoalBound,
    /// What would be better still.
    aim: Option<f64>,
    /// `None` if it was not measured.
    value: Option<f64>,
    verdict: &'static str,
    detail: String,
}

impl PerfRow {
    /// A row with its verdict.
    pub fn new(what: &str, bound: GoalBound, value: Option<f64>, detail: String) -> Self {
        let value = value.filter(|value| value.is_finite());
        let verdict = match (bound, value) {
            (_, None) => "not measured",
            (GoalBound::Nothing, Some(_)) => "-",
            (GoalBound::AtLeast(least), Some(value)) if value >= least => "pass",
            (GoalBound::AtMost(most), Some(value)) if value <= most => "pass",
            _ => "miss",
        };
        Self { what: what.to_owned(), bound, aim: None, value, verdict, detail }
    }

    /// Sets an aim beyond the goal: a value that reaches it has the verdict "aim".
    pub fn set_aim(&mut self, aim: f64) {
        self.aim = Some(aim);
        let reaches = match (self.bound, self.value) {
            (GoalBound::AtLeast(_), Some(value)) => value >= aim,
            (GoalBound::AtMost(_), Some(value)) => value <= aim,
            (GoalBound::Nothing, _) | (_, None) => false,
        };
        if reaches {
            self.verdict = "aim";
        }
    }

    /// Adds to what is behind it.
    pub fn add_detail(&mut self, more: &str) {
        self.detail = format!("{}; {more}", self.detail);
    }

    fn goal_text(&self) -> String {
        let aim = self.aim.map_or_else(String::new, |aim| format!(", aim {}", number(Some(aim))));
        let goal = match self.bound {
            GoalBound::AtLeast(value) => format!(">= {}", number(Some(value))),
            GoalBound::AtMost(value) => format!("<= {}", number(Some(value))),
            GoalBound::Nothing => "-".to_owned(),
        };
        goal + &aim
    }

    /// A line for the terminal, with the name padded to this width.
    pub fn line(&self, width: usize) -> String {
        let (what, asked, value) = (&self.what, self.goal_text(), number(self.value));
        format!("{what:<width$}  {asked:>19}  {value:>10}  {:<12}  {}\n", self.verdict, self.detail)
    }

    fn cells(&self) -> Vec<String> {
        vec![self.what.clone(), self.goal_text(), number(self.value), self.verdict.to_owned(), self.detail.clone()]
    }
}

/// The heading of a table.
#[derive(Clone, Debug)]
pub struct PerfHeading {
    pub title: &'static str,
    /// The command that produced it.
    pub by: &'static str,
    /// How to read the table.
    pub remark: String,
}

/// The results of a comparison.
pub struct PerfTable {
    heading: PerfHeading,
    pub environment: HostEnvironment,
    pub rows: Vec<PerfRow>,
    runs: usize,
    seconds: f64,
    series: Vec<Value>,
    medians: Vec<Vec<String>>,
    faults: u64,
}

const COLUMNS: [&str; 5] = ["figure", "asked", "measured", "verdict", "behind it (medians)"];
const MEDIAN_COLUMNS: [&str; 8] = ["measurement", "who", "msg/s", "low - high", "MB/s", "CPU s/M", "p50 us", "p99 us"];

impl PerfTable {
    pub fn new(heading: PerfHeading, environment: HostEnvironment, runs: usize, seconds: f64) -> Self {
        Self {
            heading,
            environment,
            rows: Vec::new(),
            runs,
            seconds,
            series: Vec::new(),
            medians: Vec::new(),
            faults: 0,
        }
    }

    /// Stores all runs of a part.
    pub fn keep(&mut self, part: &str, all: &[PerfSeries]) {
        for series in all {
            self.faults += series.faults();
            let rate = series.summary(SegmentFigures::published_per_s);
            let latency = |share: f64| {
                if series.runs.iter().any(|run| run.latencies.count() > 0) {
                    Some(series.quantile_us(share))
                } else {
                    None
                }
            };
            self.medians.push(vec![
                part.to_owned(),
                series.name.clone(),
                number(Some(rate.median)),
                format!("{} - {}", number(Some(rate.low)), number(Some(rate.high))),
                number(Some(series.median(SegmentFigures::mb_per_s))),
                number(Some(series.cpu()).filter(|cpu| cpu.is_finite())),
                number(latency(0.5)),
                number(latency(0.99)),
            ]);
            self.series.push(json!({
                "part": part,
                "who": series.name,
                "scenario": series.scenario,
                "placement": series.placement,
                "published_per_s": rate,
                "runs": series.runs.iter().map(SegmentFigures::to_run).collect::<Vec<_>>(),
            }));
        }
    }

    fn method(&self) -> String {
        let faults = if self.faults == 0 {
            "nothing lost, doubled or out of order".to_owned()
        } else {
            format!("INVALID: {} wrong messages", self.faults)
        };
        format!(
            "{} runs of about {} s each, contestants in turns, medians; closed loop; {faults}.",
            self.runs, self.seconds
        )
    }

    fn tally(&self) -> String {
        let count = |verdict: &str| self.rows.iter().filter(|row| row.verdict == verdict).count();
        let reached = match count("aim") {
            0 => String::new(),
            aims => format!("{aims} reach their aim, "),
        };
        format!("{reached}{} pass, {} miss, {} not measured", count("pass"), count("miss"), count("not measured"))
    }

    /// As text for the terminal.
    pub fn text(&self) -> String {
        let width = self.rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            text.push_str(&row.line(width));
        }
        format!("{text}{}; {}\n{}\n", self.tally(), self.method(), self.heading.remark)
    }

    /// As Markdown for `docs/measurements`.
    pub fn markdown(&self) -> String {
        let table = |columns: &[&str], rows: &[Vec<String>]| {
            let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
            for row in rows {
                text.push_str(&format!("| {} |\n", row.join(" | ")));
            }
            text
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(PerfRow::cells).collect();
        format!(
            "# {}, {}\n\nWritten by `{}`. {}\n\n{}\n\n{}\n\n## Figures: {}\n\n{}\n## Medians of every measurement\n\n`low - high` is the interval of the rate over the runs; CPU is the broker's, for a million deliveries.\n\n{}",
            self.heading.title,
            self.environment.date,
            self.heading.by,
            self.method(),
            self.environment.line(),
            self.heading.remark,
            self.tally(),
            table(&COLUMNS, &rows),
            table(&MEDIAN_COLUMNS, &self.medians),
        )
    }

    /// As JSON with every run.
    pub fn json(&self) -> Result<String, String> {
        let value = json!({ "environment": self.environment, "remark": self.heading.remark, "how": self.method(), "rows": self.rows, "series": self.series });
        serde_json::to_string(&value).map(|text| text + "\n").map_err(|error| error.to_string())
    }

    /// As a section of the HTML report.
    pub fn section(&self) -> PageSection {
        PageSection {
            name: "perf".to_owned(),
            facts: vec![self.environment.line(), self.method(), self.tally()],
            columns: COLUMNS.map(str::to_owned).to_vec(),
            rows: self.rows.iter().map(PerfRow::cells).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_strict() {
        let verdict = |bound, value| PerfRow::new("x", bound, value, String::new()).verdict;
        assert_eq!(verdict(GoalBound::AtLeast(0.8), Some(0.8)), "pass");
        assert_eq!(verdict(GoalBound::AtLeast(0.8), Some(0.799)), "miss");
        assert_eq!(verdict(GoalBound::AtMost(2.0), Some(2.001)), "miss");
        assert_eq!(verdict(GoalBound::AtMost(2.0), Some(f64::NAN)), "not measured");
        assert_eq!(verdict(GoalBound::AtMost(2.0), None), "not measured");
    }

    #[test]
    fn an_aim_is_beyond_the_goal() {
        let verdict = |bound, value| {
            let mut row = PerfRow::new("x", bound, value, String::new());
            row.set_aim(if matches!(bound, GoalBound::AtLeast(_)) { 40.0 } else { 1.4 });
            (row.verdict, row.goal_text())
        };
        let text = |goal: &str| goal.to_owned();
        assert_eq!(verdict(GoalBound::AtLeast(20.0), Some(40.0)), ("aim", text(">= 20.0, aim 40.0")));
        assert_eq!(verdict(GoalBound::AtLeast(20.0), Some(39.0)).0, "pass");
        assert_eq!(verdict(GoalBound::AtMost(1.8), Some(1.4)), ("aim", text("<= 1.800, aim 1.400")));
        assert_eq!(verdict(GoalBound::AtMost(1.8), Some(1.9)).0, "miss");
        assert_eq!(verdict(GoalBound::AtMost(1.8), None).0, "not measured");
    }
}
