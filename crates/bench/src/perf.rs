//! The `perf` command: compares this broker with RabbitMQ and the relay floor against goals, interleaved, in one run.

mod broker_goals;
mod confirm_runs;
mod declared_queues;
mod durable;
mod features;
mod http_floor;
mod http_observer;
mod management;
mod memory;
mod tls;

pub(crate) use durable::{CrashBacklog, CrashMeasurement};

use std::path::{Path, PathBuf};

use crate::core_distance::core_distance_ns;
use gauge::HostEnvironment;
use harness::arguments::{OptionSpec, ParsedOptions, option};
use harness::command_spec::CommandSpec;
use harness::limits::{RUNS_MAX, SEGMENT_MESSAGES_MAX};
use harness::placement::{CpuList, CpuPlacement};
use harness::target::BenchmarkTarget;
use load::interleaved::PerfEffort;
use load::perf_table::{PerfHeading, PerfTable};
use report::page;
use report::stdout::put;

const OPTIONS: &[OptionSpec] = &[
    option("against", None, "URL", "the RabbitMQ to compare with (default: started by the scripts below)"),
    option("rabbitmq-scripts", None, "FOLDER", "directory of the scripts `start` and `stop` (default tests/rabbitmq)"),
    option("broker-command", None, "COMMAND", "start this broker instead of `harrier broker`"),
    option("broker-options", None, "OPTIONS", "options of the broker in all rows without options of their own"),
    option("spin-options", None, "OPTIONS", "options of the broker in the rows on spinning (default --spin-us 50)"),
    option("latency-cpus", None, "PLACES", "placement for round trips (default broker=0,publisher=1,consumer=1)"),
    option("runs", None, "N", "runs of each measurement (default 3)"),
    option("seconds", None, "N", "length of each run (default 2)"),
    option(
        "only",
        None,
        "PARTS",
        "of throughput,large,latency,fanout,topic,pairs,shards,memory,features,tls,management,durable",
    ),
    option("dir", Some('d'), "FOLDER", "where stores are made for `durable` (default: the system's temporary folder)"),
    option("recover", None, "N", "messages that wait when a broker is killed for `durable` (default 10000000)"),
    option("write", None, "", "write docs/measurements/DATE-perf.md and .json"),
    option("out", None, "FOLDER", "write perf.json and perf.html there"),
    option("help", Some('h'), "", "this text"),
];

const PARTS: &[&str] = &[
    "throughput",
    "large",
    "latency",
    "fanout",
    "topic",
    "pairs",
    "shards",
    "memory",
    "features",
    "tls",
    "management",
    "durable",
];

/// Those in which most of the work is to pass bytes from one processor to another.
const CROSSING_PARTS: &[&str] = &["large", "fanout", "shards"];

/// State shared by the parts of the comparison.
struct PerfRun {
    effort: PerfEffort,
    /// RabbitMQ, or why it is not available.
    rabbit: Result<BenchmarkTarget, String>,
    broker_command: Option<String>,
    broker_options: Vec<String>,
    spin_options: Vec<String>,
    latency_placement: CpuPlacement,
    /// Where stores are made.
    dir: PathBuf,
    /// Messages that wait when a broker is killed.
    recover_messages: u64,
    measure_crash: CrashMeasurement,
    record: PerfTable,
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench perf [OPTIONS]", "", &[OPTIONS], &[])
}

/// Runs the comparison. `measure_crash` is what `recover` does.
///
/// # Errors
/// A usage error or a broker that cannot be started. Missed goals are results, not errors.
pub(crate) fn run(words: &[String], measure_crash: CrashMeasurement) -> Result<(), String> {
    let given = declared().given(words).map_err(|failure| failure.to_string())?;
    let Some(given) = given else { return Ok(()) };
    let parts: Vec<&str> = given.text("only").map_or_else(|| PARTS.to_vec(), |parts| parts.split(',').collect());
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        return Err(format!("unknown part '{unknown}' (of {})", PARTS.join(",")));
    }
    let needs_rabbit = parts.iter().any(|part| ["throughput", "latency", "durable"].contains(part));
    let mut perf = PerfRun::read(&given, needs_rabbit, measure_crash)?;
    for part in parts {
        perf.part(part)?;
    }
    let PerfRun { record, .. } = perf;
    put(&format!("\n{}", record.text()))?;
    if given.has("write") {
        let stem = format!("docs/measurements/{}-perf", record.environment.date);
        page::write_file(&PathBuf::from(format!("{stem}.md")), &record.markdown())?;
        page::write_file(&PathBuf::from(format!("{stem}.json")), &record.json()?)?;
        put(&format!("written: {stem}.md and .json\n"))?;
    }
    if let Some(folder) = given.text("out").map(Path::new) {
        page::write_file(&folder.join("perf.json"), &record.json()?)?;
        page::write_file(&folder.join("perf.html"), &page::render_section(&record.section()))?;
    }
    Ok(())
}

impl PerfRun {
    fn read(given: &ParsedOptions, needs_rabbit: bool, measure_crash: CrashMeasurement) -> Result<Self, String> {
        let words = |name: &str, usual: &str| {
            given.text(name).unwrap_or(usual).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let effort = PerfEffort {
            runs: given.number("runs", 3, 1, RUNS_MAX as u64)? as usize,
            seconds: given.number("seconds", 2, 1, 30)? as f64,
        };
        let environment = HostEnvironment::read();
        put(&format!(
            "# harrier bench perf: {} runs of {} s each, interleaved, medians\n# {}\n",
            effort.runs,
            effort.seconds,
            environment.line()
        ))?;
        Ok(Self {
            effort,
            rabbit: if needs_rabbit { rabbit(given) } else { Err("not asked for".to_owned()) },
            broker_command: given.text("broker-command").map(str::to_owned),
            broker_options: words("broker-options", ""),
            spin_options: words("spin-options", "--spin-us 50"),
            dir: dir(given),
            recover_messages: given.number("recover", 10_000_000, 1, SEGMENT_MESSAGES_MAX)?,
            measure_crash,
            latency_placement: match given.text("latency-cpus") {
                Some(places) => CpuPlacement::parse(places)?,
                None => CpuPlacement::broker_apart(),
            },
            record: PerfTable::new(heading(), environment, effort.runs, effort.seconds),
        })
    }

    fn part(&mut self, part: &str) -> Result<(), String> {
        put(&format!("# {part}\n"))?;
        let first = self.record.rows.len();
        let before = if CROSSING_PARTS.contains(&part) { core_distance_ns() } else { None };
        self.measure(part)?;
        // What large bodies cost depends on it above all, and on a virtual machine it may change within a part.
        if let Some(before) = before
            && let Some(after) = core_distance_ns()
        {
            let detail = format!("processors {before:.0} ns apart before, {after:.0} ns after");
            self.record.rows[first..].iter_mut().for_each(|row| row.add_detail(&detail));
        }
        Ok(())
    }

    fn measure(&mut self, part: &str) -> Result<(), String> {
        match part {
            "throughput" => self.throughput(),
            "large" => self.large(),
            "latency" => self.latency(),
            "fanout" => self.fanout(),
            "topic" => self.topic(),
            "pairs" => self.pairs(),
            "shards" => self.shards(),
            "features" => self.features(),
            "tls" => self.tls(),
            "management" => self.management(),
            "durable" => self.durable(),
            _ => self.memory(),
        }
    }

    /// A fresh broker with the default or other options.
    fn broker(&self, name: &str, options: Option<&[String]>) -> Result<BenchmarkTarget, String> {
        let options = options.unwrap_or(&self.broker_options);
        let mut target = BenchmarkTarget::embedded(self.broker_command.as_deref(), options, &CpuList::default())?;
        target.name = name.to_owned();
        Ok(target)
    }
}

/// The folder of stores.
fn dir(given: &ParsedOptions) -> PathBuf {
    given.text("dir").map_or_else(std::env::temp_dir, PathBuf::from)
}

fn heading() -> PerfHeading {
    PerfHeading {
        title: "Figures to reach",
        by: "make perf",
        remark: "Publisher, broker and consumer share the processors, so rates are bounded by all three; the broker's CPU is the figure to trust.".to_owned(),
    }
}

fn rabbit(given: &ParsedOptions) -> Result<BenchmarkTarget, String> {
    let target = match given.text("against") {
        Some(url) => BenchmarkTarget::at(url),
        None => {
            let scripts = PathBuf::from(given.text("rabbitmq-scripts").unwrap_or("tests/rabbitmq"));
            if !scripts.join("start").is_file() {
                return Err(format!("SKIPPED: {} is not there", scripts.join("start").display()));
            }
            let directory = dir(given).join(format!("harrier-perf-rabbitmq-{}", std::process::id()));
            BenchmarkTarget::scripted("rabbitmq", &scripts, directory)
        }
    };
    match target {
        Ok(mut target) => {
            target.name = "rabbitmq".to_owned();
            Ok(target)
        }
        Err(why) => {
            cli::print_error(&format!("harrier bench: SKIPPED: no RabbitMQ to compare with: {why}"));
            Err(why)
        }
    }
}
