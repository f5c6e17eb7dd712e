//! The `workload` command: runs a described load and checks its objectives.

use harness::arguments::decimal;
use load::workload::{execution, objective, parse, random, run_results, scaling, shipped, validation};
use std::collections::BTreeMap;
use std::io::Read;

use report::document::{LoopMode, MeasuredSeries, SeriesPoint};
use report::stdout::put;
use report::{OsuTable, ProgressLine};

use crate::durability_case::{DurabilityCase, cases, note_durable};
use crate::limits::WORKLOAD_FILE_BYTES_MAX;
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::measure_options::{MeasureOptions, OUTPUT, TARGETS};
use harness::run_recorder::{RunRecorder, check_interrupted};
use harness::target::BenchmarkTarget;
use harness::tcp::QUEUE;
use load::workload::objective::{ObjectiveStatus, ObjectiveVerdict};
use load::workload::shipped::SHIPPED;
use load::workload::spec::WorkloadSpec;

const OPTIONS: &[OptionSpec] = &[
    option("list", None, "", "list the workloads included in the program"),
    option("show", None, "NAME", "print the file of one of them"),
    option("scale", None, "X", "multiply rates and numbers of publishers and consumers (default 1)"),
    option("seconds", None, "S", "duration instead of that in the file; the warm-up is scaled alike"),
    option("seed", None, "N", "seed instead of that in the file"),
    option("runs", None, "N", "runs, all brokers in turns; tables show medians (default 1)"),
    option("check", Some('c'), "", "a checksum in every message, checked on arrival"),
    option(
        "durable",
        None,
        "",
        "also with persistent messages in durable queues; a broker that is started for it gets a state folder",
    ),
];

const USAGE: &str = "harrier bench workload NAME|FILE [OPTIONS]";

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new(USAGE, "", &[OPTIONS, TARGETS, QUEUE, OUTPUT], &[]).with_words("[NAME]")
}

/// Runs the command.
///
/// # Errors
/// A usage error, an invalid file, a broker that fails, objectives missed, messages lost.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    if given.has("list") {
        return Ok(put(&list()?)?);
    }
    if let Some(name) = given.text("show") {
        return Ok(put(shipped::text(name).ok_or_else(|| UsageError(no_such(name)))?)?);
    }
    let [source] = given.bare() else {
        return Err(
            UsageError(format!("expected one workload: {USAGE}; --list shows those included in the program")).into()
        );
    };
    let spec = adjusted(read(source)?, &given)?;
    let setup = MeasureOptions::read(&given)?;
    let targets = setup.targets()?;
    let mut record = RunRecorder::begin("workload", words, &given, &setup, &targets);
    record.note_option("scale", "1");
    record.note_option("seconds", spec.duration_ns as f64 / 1e9);
    record.note_option("seed", spec.seed);
    let cases = cases(&targets, given.has("durable"));
    let outcome = measure(&spec, &setup, &cases, &mut record);
    // Results measured before a failure are shown nevertheless.
    let judged = judge(&spec, &cases, &mut record);
    record.end(outcome)?;
    match judged?.into_iter().find(|verdict| verdict.met == ObjectiveStatus::No) {
        Some(missed) => Err(CommandFailure::Missed(missed.to_string())),
        None => Ok(()),
    }
}

fn list() -> Result<String, String> {
    let mut text = String::new();
    for (name, file) in SHIPPED {
        text.push_str(&format!("{name:<16}{}\n", parse::parse(name, name, file)?.about));
    }
    Ok(text)
}

fn no_such(name: &str) -> String {
    let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    format!("there is no workload '{name}'; there are {}", names.join(", "))
}

/// Reads a shipped workload or a file. A wrong name or file is a usage error.
fn read(source: &str) -> Result<WorkloadSpec, CommandFailure> {
    if let Some(text) = shipped::text(source) {
        return Ok(parse::parse(source, &format!("{source}.toml"), text)?);
    }
    let mut text = String::new();
    let mut file = match std::fs::File::open(source) {
        Ok(file) => file.take(WORKLOAD_FILE_BYTES_MAX + 1),
        Err(_) if !source.contains(['/', '.']) => return Err(CommandFailure::Usage(no_such(source))),
        Err(error) => return Err(CommandFailure::Usage(format!("{source}: {error}"))),
    };
    file.read_to_string(&mut text).map_err(|error| CommandFailure::Usage(format!("{source}: {error}")))?;
    if text.len() as u64 > WORKLOAD_FILE_BYTES_MAX {
        return Err(CommandFailure::Usage(format!(
            "{source}: a workload file may have at most {WORKLOAD_FILE_BYTES_MAX} bytes"
        )));
    }
    let name = std::path::Path::new(source).file_stem().map_or(source.into(), |stem| stem.to_string_lossy());
    parse::parse(&name, source, &text).map_err(CommandFailure::Usage)
}

/// Applies the command line's changes to a workload.
fn adjusted(mut spec: WorkloadSpec, given: &ParsedOptions) -> Result<WorkloadSpec, UsageError> {
    if let Some(seed) = given.number_if_given("seed", 0, i64::MAX as u64)? {
        spec.seed = seed;
    }
    if let Some(text) = given.text("seconds") {
        scaling::lasting(&mut spec, decimal("seconds", text, 0.1, 3_600.0)?);
    }
    if let Some(text) = given.text("scale") {
        scaling::times(&mut spec, decimal("scale", text, 1e-3, 1e3)?);
    }
    validation::whole(&spec).map_err(UsageError)?;
    Ok(spec)
}

fn measure(
    spec: &WorkloadSpec,
    setup: &MeasureOptions,
    cases: &[DurabilityCase<'_, BenchmarkTarget>],
    record: &mut RunRecorder,
) -> Result<(), CommandFailure> {
    let groups = run_results::groups(spec);
    let durable = spec.clone().durable();
    for case in cases {
        record.document.series.push(empty_series(spec, &groups, *case));
    }
    let progress = ProgressLine::begin();
    let count = (setup.runs * cases.len()) as f64;
    let mut done = 0.0;
    for run in 1..=setup.runs {
        for (&(target, is_durable), index) in cases.iter().zip(0..) {
            check_interrupted()?;
            let what = format!("{}, run {run} of {}", target.name, setup.runs);
            let show = |share: f64, doing: &str| progress.show((done + share) / count, &format!("{what}: {doing}"));
            let outcome = execution::run(if is_durable { &durable } else { spec }, target, setup, &show);
            progress.clear();
            let mut runs = run_results::runs(spec, &outcome?, &record.document.environment);
            if let Some(all) = runs.first_mut() {
                all.notes.extend(setup.tcp.queue_note(target.facts.product.as_deref()));
            }
            for (point, run) in record.document.series[index].points.iter_mut().zip(runs) {
                if run.delivered > 0 {
                    point.size_bytes = (run.delivered_bytes as f64 / run.delivered as f64).round();
                }
                point.runs.push(run);
            }
            done += 1.0;
        }
    }
    Ok(())
}

fn empty_series(
    spec: &WorkloadSpec,
    groups: &[String],
    (target, is_durable): DurabilityCase<'_, BenchmarkTarget>,
) -> MeasuredSeries {
    let mut parameters: BTreeMap<String, String> =
        groups.iter().enumerate().map(|(at, name)| (format!("group {at}"), name.clone())).collect();
    parameters.insert("seed".to_owned(), spec.seed.to_string());
    note_durable(&mut parameters, is_durable);
    let bytes = |at: usize| match at.checked_sub(1).and_then(|at| spec.publishers.get(at)) {
        Some(group) => random::size_mean(&group.size),
        None => random::size_mean(&spec.publishers[0].size),
    };
    MeasuredSeries {
        benchmark: format!("workload {}", spec.name),
        target: target.name.clone(),
        pace: LoopMode::Open,
        parameters,
        axis: "group".to_owned(),
        points: (0..groups.len())
            .map(|at| SeriesPoint { at: at as f64, size_bytes: bytes(at), runs: Vec::new() })
            .collect(),
    }
}

/// Prints the table and the verdicts on the objectives, which the document records too.
fn judge(
    spec: &WorkloadSpec,
    cases: &[DurabilityCase<'_, BenchmarkTarget>],
    record: &mut RunRecorder,
) -> Result<Vec<ObjectiveVerdict>, String> {
    let groups = run_results::groups(spec);
    let document = &record.document;
    if document.series.iter().flat_map(|series| &series.points).all(|point| point.runs.is_empty()) {
        return Ok(Vec::new());
    }
    let mut lines = Vec::new();
    let mut verdicts = Vec::new();
    for (index, ((target, is_durable), series)) in cases.iter().zip(&document.series).enumerate() {
        for verdict in objective::judge(&spec.objectives, &groups, series) {
            let kind = if *is_durable { ", durable" } else { "" };
            let who = if cases.len() > 1 { format!("{}{kind}: ", target.name) } else { String::new() };
            lines.push((index, format!("objective {verdict}"), format!("# objective {who}{verdict}\n")));
            verdicts.push(verdict);
        }
    }
    if record.output.format.is_incremental() {
        let series: Vec<&MeasuredSeries> = document.series.iter().collect();
        let table = OsuTable::begin(document, &series, record.output.full)?;
        for at in 0..groups.len() {
            let points: Vec<&SeriesPoint> = series.iter().map(|series| &series.points[at]).collect();
            table.row(&points)?;
        }
        for note in
            series.iter().flat_map(|series| &series.points).flat_map(|point| &point.runs).flat_map(|run| &run.notes)
        {
            put(&format!("# {note}\n"))?;
        }
        for (_, _, line) in &lines {
            put(line)?;
        }
    }
    for (index, note, _) in lines {
        let series = record.document.series.get_mut(index);
        if let Some(run) = series.and_then(|series| series.points.first_mut()).and_then(|point| point.runs.last_mut()) {
            run.notes.push(note);
        }
    }
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_all_and_each_can_be_shown() {
        let text = list().expect("all are right");
        assert_eq!(text.lines().count(), 5);
        for (name, file) in SHIPPED {
            assert!(text.contains(name));
            assert_eq!(shipped::text(name), Some(file));
        }
    }

    #[test]
    fn missing_files_are_reported() {
        let why = |source: &str| read(source).expect_err("there is none");
        assert!(matches!(why("no-such"), CommandFailure::Usage(text) if text.contains("market-data")));
        assert!(matches!(why("./no/such.toml"), CommandFailure::Usage(text) if text.starts_with("./no/such.toml: ")));
    }
}
