//! `harrier topology figures`: measures the figures that federation has goals for, and prints them with verdicts.
//!
//! The goals are those of the issue "Broker federation". A missed goal is a result, not an error.

use report::page::{render_section, write_file};
use report::stdout::put;
use topology::Tree;

use super::interleaved_runs::{InterleavedRuns, RunProgress};
use super::limited_links;
use super::live_tree::TreePlan;
use super::tree_environment::NodeHosting;
use super::tree_measurement::{MeasurementEffort, SizeMeasurement};
use super::tree_options::{self, plan};
use super::tree_segment_figures::TreeSegmentFigures;
use gauge::HostEnvironment;
use harness::arguments::{OptionSpec, ParsedOptions, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::limits::RUNS_MAX;
use harness::run_recorder::check_interrupted;
use load::limits::SECONDS_MAX;
use load::perf_table::{GoalBound, PerfHeading, PerfRow, PerfTable};

const OPTIONS: &[OptionSpec] = &[
    option("only", None, "PARTS", "of hop,cliff,links"),
    option("runs", None, "N", "runs of each measurement (default 3)"),
    option("seconds", None, "S", "length of each run, about (default 1; links 3)"),
    option("link-rate", None, "RATE", "speed of each link of the part links (default 200mbit)"),
    option("broker-options", None, "OPTIONS", "more options for every broker"),
    option("json", None, "FILE", "write everything as JSON"),
    option("report", None, "FILE", "write a page"),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Measures the figures of federation that have goals, and prints whether each goal is met. A missed goal is not an error.
  hop    cost of a second broker for a message, relative to the first (B-B-C, 64 B)
  cliff  the time of a message of one stream is t_in + k * t_out for k copies. Fitted to 1, 2 and 4 consumers, or brokers
         below the root, it should predict 8
  links  sixteen consumers, 64 KiB, a link for each host (network namespaces, as root): the share that each tree delivers
         of what its narrowest link allows, and the best tree against a single broker";

const EXAMPLES: &[(&str, &str)] = &[
    ("figures", "all parts, in some minutes"),
    ("figures --only links --link-rate 1gbit", "one part, with faster links"),
];

const PARTS: [&str; 3] = ["hop", "cliff", "links"];
const SMALL_BYTES: usize = 64;
const HOP_TIMES_MAX: f64 = 1.3;
const FITTED: [u32; 3] = [1, 2, 4];
const PREDICTED: u32 = 8;
const ERROR_MAX: f64 = 0.25;

type MeasurementMetric<'a> = &'a dyn Fn(&SizeMeasurement) -> Option<f64>;

/// State that the parts share.
pub(super) struct FederationGoals<'a> {
    pub given: &'a ParsedOptions,
    pub effort: MeasurementEffort,
    record: PerfTable,
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier topology figures [OPTIONS]", ABOUT, &[OPTIONS], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, or a node that failed.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let parts: Vec<&str> = given.text("only").map_or_else(|| PARTS.to_vec(), |parts| parts.split(',').collect());
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        return Err(CommandFailure::Usage(format!("unknown part '{unknown}' (of {})", PARTS.join(","))));
    }
    let bits_per_s = tree_options::bits_per_s(given.text("link-rate").unwrap_or("200mbit"))?;
    let effort = MeasurementEffort {
        messages: None,
        seconds: given.decimal("seconds", 1.0, 0.05, SECONDS_MAX)?,
        runs: given.number("runs", 3, 1, RUNS_MAX as u64)? as usize,
        singles: 0,
    };
    let environment = HostEnvironment::read();
    put(&format!("# harrier topology figures\n# {}\n", environment.line()))?;
    let remark = "Brokers, publisher and consumers share the processors of this host.".to_owned();
    let heading =
        PerfHeading { title: "Figures to reach with trees of brokers", by: "harrier topology figures", remark };
    let record = PerfTable::new(heading, environment, effort.runs, effort.seconds);
    let mut goals = FederationGoals { given: &given, effort, record };
    for part in parts {
        check_interrupted()?;
        put(&format!("# {part}\n"))?;
        match part {
            "hop" => goals.hop()?,
            "cliff" => goals.cliff()?,
            _ => limited_links::run(&mut goals, bits_per_s)?,
        }
    }
    let FederationGoals { record, .. } = goals;
    put(&format!("\n{}", record.text()))?;
    if let Some(file) = given.text("json") {
        write_file(file.as_ref(), &record.json()?)?;
    }
    if let Some(file) = given.text("report") {
        write_file(file.as_ref(), &render_section(&record.section()))?;
    }
    Ok(())
}

impl FederationGoals<'_> {
    /// Records a row and prints it at once, so that an interrupted command shows what it has measured.
    pub fn row(&mut self, what: &str, bound: GoalBound, value: Option<f64>, detail: String) -> Result<(), String> {
        let row = PerfRow::new(what, bound, value, detail);
        put(&row.line(0))?;
        self.record.rows.push(row);
        Ok(())
    }

    /// A plan with this credit and acknowledgement.
    pub fn plan(&self, notation: &str, ack: &'static str, credit: u16) -> Result<TreePlan, CommandFailure> {
        let tree: Tree = tree_options::tree(notation)?;
        Ok(TreePlan { ack, credit, ..plan(tree, self.given)? })
    }

    /// Measures one size on several trees, interleaved. A message that went wrong ends the command.
    pub fn measure_interleaved(
        &self,
        plans: &[TreePlan],
        hosting: &NodeHosting,
        size_bytes: usize,
    ) -> Result<Vec<SizeMeasurement>, CommandFailure> {
        let trees: Vec<(TreePlan, NodeHosting)> = plans.iter().map(|plan| (plan.clone(), hosting.clone())).collect();
        let turns = InterleavedRuns { trees: &trees, sizes: &[size_bytes], effort: self.effort };
        let all = turns.all(|step| match step {
            RunProgress::Measured { index, measured } => match measured.problem() {
                Some(why) => Err(CommandFailure::Invalid(format!("{}: {why}", plans[index].tree))),
                None => Ok(()),
            },
            RunProgress::Starting { .. } => Ok(()),
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    fn hop(&mut self) -> Result<(), CommandFailure> {
        let plans =
            [self.plan("B-C", "none", 0)?, self.plan("B-B-C", "none", 0)?, self.plan("B-B-C", "confirm", 1_000)?];
        let all = self.measure_interleaved(&plans, &local_processes(), SMALL_BYTES)?;
        let [flat, others @ ..] = all.as_slice() else { return Ok(()) };
        for ((two, ack), bound) in
            others.iter().zip(["none", "confirm"]).zip([GoalBound::AtMost(HOP_TIMES_MAX), GoalBound::Nothing])
        {
            let times = two.median_of(|figures| Some(figures.cpu_us(1)? / figures.cpu_us(0)?));
            let us = |broker: usize| two.median_of(|figures| figures.cpu_us(broker)).unwrap_or(f64::NAN);
            let alone = flat.median_of(|figures| figures.cpu_us(0)).unwrap_or(f64::NAN);
            self.row(
                &format!("B-B-C, 64 B, ack {ack}: CPU of the second broker for a message, times that of the first"),
                bound,
                times,
                format!("{:.2} us after {:.2} us; a broker alone {alone:.2} us", us(1), us(0)),
            )?;
            let [rate, flat] = [two, flat].map(|measured| measured.median(TreeSegmentFigures::per_stream_per_s));
            self.row(
                &format!("B-B-C, 64 B, ack {ack}: rate, times that of B-C"),
                GoalBound::Nothing,
                Some(rate / flat),
                format!("{rate:.0}/s and {flat:.0}/s on {} processors for all", gauge::processors()),
            )?;
        }
        Ok(())
    }

    fn cliff(&mut self) -> Result<(), CommandFailure> {
        let consumers = |k: u32| format!("B-{k}C");
        let brokers = |k: u32| if k == 1 { "B-B-C".to_owned() } else { format!("B-{k}B-{k}C") };
        self.one_cliff("consumers", consumers, "none", 0, Some(1_000))?;
        self.one_cliff("consumers", consumers, "none", 0, Some(0))?;
        self.one_cliff("brokers below the root", brokers, "none", 0, None)?;
        self.one_cliff("brokers below the root", brokers, "confirm", 1_000, None)?;
        self.one_cliff("brokers below the root", brokers, "confirm", 0, None)
    }

    fn one_cliff(
        &mut self,
        what: &str,
        notation: impl Fn(u32) -> String,
        ack: &'static str,
        credit: u16,
        prefetch: Option<u16>,
    ) -> Result<(), CommandFailure> {
        let copies = || FITTED.into_iter().chain([PREDICTED]);
        let plans: Vec<TreePlan> = copies()
            .map(|k| Ok(TreePlan { prefetch, ..self.plan(&notation(k), ack, credit)? }))
            .collect::<Result<_, CommandFailure>>()?;
        let all = self.measure_interleaved(&plans, &local_processes(), SMALL_BYTES)?;
        let limit = |credit: u16| if credit == 0 { "unlimited".to_owned() } else { credit.to_string() };
        let how = match (ack, prefetch) {
            (_, Some(prefetch)) => format!("prefetch {}", limit(prefetch)),
            ("none", None) => "ack none".to_owned(),
            (_, None) => format!("ack {ack}, credit {}", limit(credit)),
        };
        let time = |measured: &SizeMeasurement| Some(1e6 / measured.median(TreeSegmentFigures::per_stream_per_s));
        let root = |measured: &SizeMeasurement| measured.median_of(|figures| figures.cpu_us(0));
        let rows: [(&str, MeasurementMetric<'_>, GoalBound); 2] = [
            ("time", &time, GoalBound::AtMost(ERROR_MAX)),
            // Of this broker alone, since the others share its processors.
            ("the root's CPU", &root, GoalBound::Nothing),
        ];
        for (which, value, bound) in rows {
            let points: Vec<(u32, f64)> = copies().zip(&all).filter_map(|(k, one)| Some((k, value(one)?))).collect();
            let (fitted, predicted) = points.split_at(FITTED.len().min(points.len()));
            let Some(&(k, us)) = predicted.first() else { continue };
            let (t_in, t_out) = fit(fitted);
            let expected = t_in + f64::from(k) * t_out;
            let shown: Vec<String> = points.iter().map(|(k, us)| format!("{k}: {us:.2}")).collect();
            self.row(
                &format!("{k} {what}, {how}: {which} for a message of one stream, relative error of the prediction"),
                bound,
                Some(us / expected - 1.0),
                format!("t_in {t_in:.2} us, t_out {t_out:.2} us: {expected:.2} us; {}", shown.join(", ")),
            )?;
        }
        Ok(())
    }
}

/// Processes of this host.
fn local_processes() -> NodeHosting {
    NodeHosting::Local(std::net::Ipv4Addr::LOCALHOST.into())
}

/// The least-squares line through points: its value at zero, and its slope.
fn fit(points: &[(u32, f64)]) -> (f64, f64) {
    let count = points.len().max(1) as f64;
    let mean = |value: &dyn Fn(&(u32, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(&|point| f64::from(point.0)), mean(&|point| point.1));
    let over: f64 = points.iter().map(|point| (f64::from(point.0) - x) * (point.1 - y)).sum();
    let under: f64 = points.iter().map(|point| (f64::from(point.0) - x).powi(2)).sum();
    let slope = over / under;
    (y - slope * x, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points = FITTED.map(|k| (k, 3.0 + 0.5 * f64::from(k)));
        let (t_in, t_out) = fit(&points);
        assert!((t_in - 3.0).abs() < 1e-9 && (t_out - 0.5).abs() < 1e-9, "{t_in} {t_out}");
    }

    #[test]
    fn the_papers_cliff_is_one() {
        // B-1C, B-2C, B-4C and B-8C at 64 B.
        let us = [28_258.0, 27_183.0, 25_048.0, 2_570.0].map(|rate| 1e6 / rate);
        let (t_in, t_out) = fit(&[(1, us[0]), (2, us[1]), (4, us[2])]);
        assert!(us[3] / (t_in + 8.0 * t_out) - 1.0 > 5.0);
    }
}
