//! The `suite` command, which `make bench` runs: all benchmarks, and the report.
//!
//! A benchmark that fails does not stop the others, and its figures stay in the report.

use std::path::{Path, PathBuf};

use report::document::Document;

use harness::arguments::{OptionSpec, ParsedOptions, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::interrupt;
use harness::measure_options::TARGETS;
use harness::run_recorder::{is_broken, write_page};
use report::json;
use report::page::write_file;
use report::stdout::put;

const OPTIONS: &[OptionSpec] = &[
    option("quick", None, "", "few sizes, three short runs: three minutes"),
    option("full", None, "", "all sizes, five runs: half an hour (default)"),
    option(
        "out",
        None,
        "FOLDER",
        "directory for report.html, report.json and one document per benchmark (default out)",
    ),
    option("only", None, "NAMES", "only these benchmarks, separated by commas"),
    option("iterations", Some('i'), "COUNT", "messages of each size in closed loop (default: by size and broker)"),
    option("check", Some('c'), "", "check sequence and checksum of every message"),
    option(
        "durable",
        None,
        "",
        "also with persistent messages in durable queues; brokers that are started for it get a state folder",
    ),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Runs every benchmark on the same brokers and writes one report. Each benchmark's document is kept beside it, so that two
suites can be compared benchmark by benchmark. Lost, duplicate, reordered or corrupted messages fail the suite (status 3).
Figures for which the load generator was at its limit are marked INVALID in tables and report, and missed objectives are
listed at the end; neither fails the suite.";

const EXAMPLES: &[(&str, &str)] = &[
    ("suite --quick", "what `make bench` runs"),
    ("suite --quick --durable --out out/durable", "every benchmark with transient and with persistent messages"),
    ("suite --full --url amqp://host --against amqp://other --out here", "two brokers in turns, everything, overnight"),
];

/// A benchmark of the suite: its name, its command, and its additional options for each effort.
struct SuiteBenchmark {
    name: &'static str,
    command: &'static str,
    quick: &'static str,
    full: &'static str,
}

const fn part(name: &'static str, command: &'static str, quick: &'static str, full: &'static str) -> SuiteBenchmark {
    SuiteBenchmark { name, command, quick, full }
}

const QUICK: &str = "--step 16 --runs 3 --seconds 0.25";
const QUICK_ONE: &str = "-m 64:64 --runs 3 --seconds 0.25";
const FULL: &str = "--runs 5 --seconds 1";
const FULL_STEP: &str = "--step 4 --runs 5 --seconds 0.7";
const FULL_FEW: &str = "--step 16 --runs 5 --seconds 0.6";

const PARTS: &[SuiteBenchmark] = &[
    part("sockets", "baseline sockets", QUICK, "--runs 5 --seconds 0.5"),
    part("sockets-pp", "baseline sockets --ping-pong", QUICK, "--runs 5 --seconds 0.5"),
    part("de-spsc", "de-spsc", QUICK, FULL),
    part("de-mpmc", "de-mpmc", QUICK, FULL_STEP),
    part("de-pp", "de-pp", QUICK, FULL),
    part("fe-spmc", "fe-spmc", "--consumers 1,8,32 --step 16 --runs 3 --seconds 0.25", FULL_STEP),
    part("te-spsc", "te-spsc", "--patterns 1,64,1024 --step 16 --runs 3 --seconds 0.25", FULL_STEP),
    part("te-spsc-all", "te-spsc --match all --patterns 1024", QUICK_ONE, FULL_FEW),
    part("te-spsc-wildcards", "te-spsc --match wildcards --patterns 1024", QUICK_ONE, FULL_FEW),
    part("te-spsc-changing", "te-spsc --changing 1000 --patterns 1024", QUICK_ONE, FULL_FEW),
    part("confirm", "confirm", QUICK, "--step 4 --runs 5 --seconds 1"),
    part("churn", "churn", "--seconds 1 --runs 1", "--seconds 1 --runs 5"),
    part("drain", "drain", "-m 64:64 -i 50000 --runs 3", "-m 64:64K -i 50000 --runs 3"),
    part(
        "open",
        "open",
        "--rate 1000,5000 --seconds 1 --warm-up 0.2 --runs 3",
        "--rate 1000,2000,5000,10000 --seconds 3 --runs 3",
    ),
    part("market", "market-sweep", "--rates 1000,8000,80000 --seconds 1", "--seconds 5 --runs 3"),
    part("market-data", "workload market-data", "--seconds 3", "--seconds 20"),
    part("order-entry", "workload order-entry", "--seconds 3", "--seconds 20"),
    part("telemetry", "workload telemetry", "--seconds 3", "--seconds 20"),
    part("task-queue", "workload task-queue", "--seconds 3", "--seconds 20"),
    part("bulk-transfer", "workload bulk-transfer", "--seconds 3", "--seconds 20"),
];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench suite [OPTIONS]", ABOUT, &[OPTIONS, TARGETS], EXAMPLES)
}

/// Runs them.
///
/// # Errors
/// The first benchmark that failed, after all were run; lost, duplicate, reordered or corrupted messages.
pub fn run(words: &[String], run_one: fn(&str, &[String]) -> Result<(), CommandFailure>) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    if given.has("quick") && given.has("full") {
        return Err(CommandFailure::Usage("--quick or --full, not both".to_owned()));
    }
    let only: Option<Vec<&str>> = given.text("only").map(|names| names.split(',').collect());
    if let Some(unknown) = only.iter().flatten().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(CommandFailure::Usage(format!("unknown benchmark '{unknown}' (of {})", names.join(", "))));
    }
    let out = PathBuf::from(given.text("out").unwrap_or("out"));
    let chosen = PARTS.iter().filter(|part| only.as_ref().is_none_or(|only| only.contains(&part.name)));
    let mut whole: Option<Document> = None;
    let mut ends = SuiteFailures::default();
    for part in chosen {
        if interrupt::requested() {
            ends.interrupted = true;
            break;
        }
        let file = out.join(format!("{}.json", part.name));
        remove_old(&file)?;
        let words = part.words(&given, &file);
        let outcome = run_one(words[0].as_str(), &words[1..]);
        put("\n")?;
        if let Ok(text) = std::fs::read_to_string(&file) {
            whole = Some(merged(whole, json::read(&text)?));
        }
        if let Err(failure) = outcome {
            ends.record(part.name, failure.or_interrupted());
        }
    }
    match whole {
        Some(whole) => finish(whole, words, &out, &ends),
        None => ends.outcome(),
    }
}

/// The benchmarks that failed.
#[derive(Default)]
struct SuiteFailures {
    interrupted: bool,
    /// Those that did not complete.
    failed: Vec<&'static str>,
    /// Those that missed objectives.
    missed: Vec<&'static str>,
}

impl SuiteFailures {
    fn record(&mut self, name: &'static str, failure: CommandFailure) {
        match failure {
            CommandFailure::Interrupted => self.interrupted = true,
            // INVALID figures are marked in place; lost messages are checked at the end.
            CommandFailure::Invalid(_) => {}
            CommandFailure::Missed(_) => self.missed.push(name),
            failure => {
                cli::print_error_lines(&format!("harrier bench: {name}: {failure}"));
                self.failed.push(name);
            }
        }
    }

    fn outcome(&self) -> Result<(), CommandFailure> {
        match (self.interrupted, self.failed.as_slice()) {
            (true, _) => Err(CommandFailure::Interrupted),
            (false, []) => Ok(()),
            (false, names) => Err(CommandFailure::Failed(format!("not run, or not to the end: {}", names.join(", ")))),
        }
    }
}

impl SuiteBenchmark {
    fn words(&self, given: &ParsedOptions, file: &Path) -> Vec<String> {
        let effort = if given.has("quick") { self.quick } else { self.full };
        let mut words: Vec<String> = self.command.split(' ').chain(effort.split(' ')).map(str::to_owned).collect();
        words.extend(["--json".to_owned(), file.to_string_lossy().into_owned()]);
        for name in self.forwarded_options() {
            if name == "iterations"
                && given.has(name)
                && let Some(at) = words.iter().position(|word| word == "-i")
            {
                // The suite's number of runs applies here, not the part's.
                words.drain(at..at + 2);
            }
            for value in given.texts(name) {
                words.push(format!("--{name}"));
                if !value.is_empty() {
                    words.push(value.clone());
                }
            }
        }
        words
    }

    /// The options of the suite that are passed on to this benchmark.
    fn forwarded_options(&self) -> Vec<&'static str> {
        let word = self.command.split(' ').next().unwrap_or_default();
        let mut names: Vec<&'static str> = match word {
            "baseline" => vec!["cpus"],
            _ => TARGETS.iter().map(|option| option.name).collect(),
        };
        if !["churn", "open", "workload", "market-sweep"].contains(&word) {
            names.push("iterations");
        }
        if !["churn", "market-sweep"].contains(&word) {
            names.push("check");
        }
        // Sockets have no queues, and the market's are of its own making.
        if !["baseline", "market-sweep"].contains(&word) {
            names.push("durable");
        }
        names
    }
}

/// A document of an earlier suite must not be mistaken for one of this.
fn remove_old(file: &Path) -> Result<(), CommandFailure> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CommandFailure::Failed(format!("{}: {error}", file.display())))
        }
        _ => Ok(()),
    }
}

/// Merges two documents.
fn merged(whole: Option<Document>, part: Document) -> Document {
    let Some(mut whole) = whole else { return part };
    for target in part.targets {
        if whole.targets.iter().all(|known| known.name != target.name) {
            whole.targets.push(target);
        }
    }
    whole.series.extend(part.series);
    whole.ended = part.ended;
    whole.cut_short = match (whole.cut_short, part.cut_short) {
        (Some(first), _) => Some(first),
        (None, Some(why)) => Some(why),
        (None, None) => None,
    };
    whole
}

fn finish(mut whole: Document, words: &[String], out: &Path, ends: &SuiteFailures) -> Result<(), CommandFailure> {
    let outcome = ends.outcome();
    whole.command = harness::run_recorder::command_line("suite", words);
    if let Err(failure) = &outcome {
        whole.cut_short.get_or_insert_with(|| failure.to_string());
    }
    // Other options of a benchmark are in its own document.
    whole.options.retain(|name, _| TARGETS.iter().any(|option| option.name == name));
    let (json_file, html_file) = (out.join("report.json"), out.join("report.html"));
    write_file(&json_file, &json::write(&whole)?)?;
    write_page(&html_file, &whole)?;
    put(&format!("# {}\n", tally(&whole)))?;
    if !ends.missed.is_empty() {
        put(&format!("# objectives missed: {}\n", ends.missed.join(", ")))?;
    }
    put(&format!("# report: {}, {}\n", html_file.display(), json_file.display()))?;
    outcome?;
    let runs = || whole.series.iter().flat_map(|series| &series.points).flat_map(|point| &point.runs);
    match runs().filter(|run| is_broken(run)).count() {
        0 => Ok(()),
        count => Err(CommandFailure::Invalid(format!(
            "messages went wrong in {count} runs; they are marked in the tables above"
        ))),
    }
}

/// The number of figures, and of those that measure the load generator more than the broker.
fn tally(whole: &Document) -> String {
    let points: Vec<_> = whole.series.iter().flat_map(|series| &series.points).collect();
    let busy = points.iter().filter(|point| point.runs.iter().any(|run| !run.invalid.is_empty() && !is_broken(run)));
    let broken = points.iter().filter(|point| point.runs.iter().any(is_broken)).count();
    format!(
        "{} points; {} INVALID because the load generator was at its limit on this machine; messages went wrong in {broken}",
        points.len(),
        busy.count()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_closed_loop_part_is_a_command_line_that_is_understood() {
        let mut seen = 0;
        for part in PARTS {
            let own: Vec<&str> = part.command.split(' ').take_while(|word| !word.starts_with('-')).collect();
            let Some(benchmark) = crate::closed_loop::find(&own.join(" ")) else { continue };
            seen += 1;
            for effort in ["--quick", "--full"] {
                let asked = [effort, "--cpus", "broker=0", "-i", "7", "-c"].map(str::to_owned);
                let given = ParsedOptions::parse(&asked, &[OPTIONS, TARGETS]).expect("known options");
                let words = part.words(&given, Path::new("x.json"));
                let given = ParsedOptions::parse(&words[own.len()..], &benchmark.options())
                    .unwrap_or_else(|wrong| panic!("{}: {wrong}", part.name));
                benchmark.variants(&given).unwrap_or_else(|wrong| panic!("{}: {wrong}", part.name));
                assert_eq!((given.text("iterations"), given.has("check")), (Some("7"), true));
            }
        }
        assert!(seen >= crate::closed_loop::ALL.len(), "each is in the suite");
    }

    #[test]
    fn failures_that_end_the_suite() {
        let mut ends = SuiteFailures::default();
        ends.record("a", CommandFailure::Invalid("busy".to_owned()));
        ends.record("b", CommandFailure::Missed("p99".to_owned()));
        assert_eq!(ends.outcome(), Ok(()), "marked and counted, and no failure");
        assert_eq!(ends.missed, ["b"]);
        ends.record("c", CommandFailure::Failed("refused".to_owned()));
        assert_eq!(ends.outcome(), Err(CommandFailure::Failed("not run, or not to the end: c".to_owned())));
        ends.record("d", CommandFailure::Interrupted);
        assert_eq!(ends.outcome(), Err(CommandFailure::Interrupted));
    }

    #[test]
    fn a_given_number_of_messages_replaces_the_parts_own() {
        let asked = ["--quick", "-i", "7", "--against", "amqp://a", "--against", "amqp://b"].map(str::to_owned);
        let given = ParsedOptions::parse(&asked, &[OPTIONS, TARGETS]).expect("known options");
        let drain = PARTS.iter().find(|part| part.name == "drain").expect("a part");
        let words = drain.words(&given, Path::new("x.json")).join(" ");
        assert_eq!(words, "drain -m 64:64 --runs 3 --json x.json --against amqp://a --against amqp://b --iterations 7");
    }
}
