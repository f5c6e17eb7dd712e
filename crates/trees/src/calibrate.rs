//! `harrier topology calibrate`: measures the paper's three sweeps on these hosts, and fits the costs of nodes to them.
//!
//! A profile is written only when everything that was requested has been measured.

use std::path::Path;

use planner::{CostSet, Estimate, Observation, Profile, Sharing, SizeCosts, fit};
use report::ProgressLine;
use report::page::number;
use report::stdout::put;

use super::calibration_sweeps::{CalibrationSweeps, RouteMode, SweepTree, nodes, seconds};
use super::interleaved_runs::{InterleavedRuns, RunProgress};
use super::limited_links::fair_options;
use super::live_tree::TreePlan;
use super::observation_set::ObservationSet;
use super::profile_files;
use super::run_command::section;
use super::tree_environment::NodeHosting;
use super::tree_measurement::MeasurementEffort;
use super::tree_options::{self, bits_per_s, hosting_over, sizes};
use crate::limits::{CALIBRATION_RUNS_MIN, TREE_BROKERS_MAX, TREE_CONSUMERS_MAX};
use gauge::{HostEnvironment, validity};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::launcher::{has_ranks, lone_ranks};
use harness::limits::RUNS_MAX;
use harness::measure_options::OutputOptions;
use harness::open_files::raise_for;
use harness::role_tasks::TreeTransport;
use load::device_probe::device::first_address;
use load::limits::SECONDS_MAX;
use report::section_text::text;

const MEASURED: &[OptionSpec] = &[
    option("sizes", Some('m'), "LIST", "message sizes (default 64,256,1K,4K,64K,128K,256K: the paper's)"),
    option(
        "transports",
        None,
        "LIST",
        "between brokers, of tcp,unix,rdma (default: those that are here; tcp on links)",
    ),
    option("acks", None, "LIST", "between brokers, of none,confirm (default both)"),
    option("depths", None, "LIST", "brokers one below another, with a consumer (default 1,2,3,4,5)"),
    option("consumers", None, "LIST", "consumers of one broker (default 1,2,4,8,16)"),
    option("brokers", None, "LIST", "brokers below the root, a consumer on each (default 1,2,3,4,8)"),
    option("runs", None, "N", "runs of each, 5 at least (default 5)"),
    option("seconds", None, "S", "length of a run, about (default 1)"),
    option("quick", None, "", "a quick calibration: fewer trees and sizes, two short runs; gives a coarse profile"),
    option("dry-run", None, "", "show what would be measured, and how long it would take"),
];

const TREES: &[OptionSpec] = &[
    option("exchange", None, "TYPE", "fanout (default), direct or topic"),
    option("credit", None, "N", "messages in flight between two brokers with ack confirm; 0: unlimited (default 1000)"),
    option("prefetch", None, "N", "consumers acknowledge, N ahead; 0: unlimited (default: they acknowledge none)"),
    option("address", None, "IP", "address of this host for brokers (default 127.0.0.1; rdma: the first device's)"),
    option("namespaces", None, "", "each broker and each group of clients in a network namespace of its own (root)"),
    option(
        "link-rate",
        None,
        "RATE",
        "speed of each link, as in 200mbit: set with --namespaces, noted under a launcher",
    ),
    option("broker-options", None, "OPTIONS", "more options for every broker"),
    option("url", None, "URL", "under mpirun or srun: the broker where the ranks meet, which is not measured"),
];

const OUT: &[OptionSpec] = &[
    option("out", Some('o'), "FILE", "the profile (default profile.json)"),
    option("add", None, "", "add to FILE, under the same conditions: more sizes, modes or runs"),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Measures the costs of a broker in a tree, by three sweeps: chains of brokers, consumers of one broker, and brokers below the
root; each for every size, transport and reliability, interleaved, several times. Fits costs to them and writes a
profile, including the measurements, for plan, verify and simulate.
On one host all brokers and clients share the processors; there processor time is fitted, not rates.
Under mpirun or srun, with a host for each node, rates are fitted.";

const EXAMPLES: &[(&str, &str)] = &[
    ("calibrate --quick", "in a minute, a coarse profile.json"),
    ("calibrate --sizes 64,1K,64K --transports tcp --out profile.json", "three sizes over TCP"),
    ("calibrate --sizes 256K --transports tcp --add", "adds a size"),
    ("calibrate --namespaces --link-rate 200mbit --sizes 64K --acks none", "hosts with links of 200 Mbit/s (as root)"),
    ("calibrate --dry-run", "lists the trees, and the time that all would take"),
];

/// Single messages that are timed in each run.
const SINGLES: usize = 20;
/// The same with `--quick`.
const SINGLES_QUICK: usize = 5;

/// What a calibration measures.
struct Calibration {
    sweep_trees: Vec<SweepTree>,
    trees: Vec<(TreePlan, NodeHosting)>,
    sizes: Vec<usize>,
    effort: MeasurementEffort,
    sharing: Sharing,
    link_bits_per_s: Option<u64>,
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier topology calibrate [OPTIONS]", ABOUT, &[MEASURED, TREES, OUT], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a node that failed, a message that went wrong, costs that cannot be fitted.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let calibration = Calibration::of(&given)?;
    let environment = HostEnvironment::read();
    put(&format!("# harrier topology calibrate\n# {}\n{}", environment.line(), calibration.describe()))?;
    if given.has("dry-run") {
        return put(&calibration.list()).map_err(CommandFailure::from);
    }
    let out = Path::new(given.text("out").unwrap_or("profile.json"));
    OutputOptions { format: report::DocumentFormat::Osu, full: false, json: Some(out.to_owned()), html: None }
        .prepare()?;
    let mut profile = match given.has("add") {
        true => calibration.earlier(out)?,
        false => calibration.empty(),
    };
    let most = calibration.sweep_trees.iter().map(|entry| entry.tree.consumers()).max().unwrap_or(1);
    raise_for(most as usize)?;
    let mut observed = ObservationSet { all: std::mem::take(&mut profile.observations) };
    calibration.measure(&mut observed)?;
    profile.observations = observed.all;
    profile.costs =
        fit(&profile.observations, profile.sharing).map_err(|why| format!("costs cannot be fitted: {why}"))?;
    put(&measured_table(&profile.observations))?;
    profile.costs.iter().try_for_each(|set| put(&costs_table(set)))?;
    profile_files::write(out, &profile)?;
    put(&format!("# written: {}\n", out.display()))?;
    validity::unoptimised(&environment).map_or(Ok(()), |why| Err(CommandFailure::Invalid(why)))
}

/// A list of words out of `known`, without repetitions.
fn words_of(
    given: &ParsedOptions,
    name: &str,
    usual: &[&'static str],
    known: &[&'static str],
) -> Result<Vec<&'static str>, UsageError> {
    let Some(text) = given.text(name) else { return Ok(usual.to_vec()) };
    let mut found = Vec::new();
    for word in text.split(',').map(str::trim) {
        let one = known.iter().copied().find(|one| *one == word);
        let one = one.ok_or_else(|| UsageError(format!("--{name} takes {}, not '{word}'", known.join(","))))?;
        if found.contains(&one) {
            return Err(UsageError(format!("--{name}: {one} is given twice")));
        }
        found.push(one);
    }
    Ok(found)
}

impl Calibration {
    fn of(given: &ParsedOptions) -> Result<Self, CommandFailure> {
        let quick = given.has("quick");
        let link_bits_per_s = given.text("link-rate").map(bits_per_s).transpose()?;
        let on_hosts = given.has("namespaces") || has_ranks();
        let transports = transports(given, quick, on_hosts)?;
        let acks = words_of(given, "acks", if quick { &["none"] } else { &["none", "confirm"] }, &["none", "confirm"])?;
        let modes: Vec<RouteMode> = transports
            .iter()
            .flat_map(|&transport| acks.iter().map(move |&ack| RouteMode { transport, ack }))
            .collect();
        let list = |name: &str, usual: &[usize], quickly: &[usize], most: u32| {
            given.list(name, if quick { quickly } else { usual }, 1, most as usize)
        };
        let sweeps = CalibrationSweeps {
            depths: list("depths", &[1, 2, 3, 4, 5], &[1, 2, 3], TREE_BROKERS_MAX)?,
            consumers: list("consumers", &[1, 2, 4, 8, 16], &[1, 2, 4], TREE_CONSUMERS_MAX)?,
            brokers: list("brokers", &[1, 2, 3, 4, 8], &[1, 2], TREE_BROKERS_MAX - 1)?,
        };
        let (runs, runs_min) = if quick { (2, 1) } else { (CALIBRATION_RUNS_MIN, CALIBRATION_RUNS_MIN) };
        let effort = MeasurementEffort {
            messages: None,
            seconds: given.decimal("seconds", if quick { 0.2 } else { 1.0 }, 0.01, SECONDS_MAX)?,
            runs: given.number("runs", runs, runs_min, RUNS_MAX as u64)? as usize,
            singles: if quick { SINGLES_QUICK } else { SINGLES },
        };
        let sizes = if quick && !given.has("sizes") { vec![64, 64 << 10] } else { sizes(given)? };
        let entries = sweeps.trees(&modes)?;
        let trees = entries.iter().map(|entry| placed(entry, given)).collect::<Result<_, _>>()?;
        // A host for each node, or shared ones.
        let nodes_max = entries.iter().map(|entry| nodes(&entry.tree)).max().unwrap_or(0);
        let own = lone_ranks().is_some_and(|ranks| ranks >= nodes_max as usize);
        let sharing = if own { Sharing::OwnHosts } else { Sharing::OneHost };
        Ok(Self { sweep_trees: entries, trees, sizes, effort, sharing, link_bits_per_s })
    }

    /// What is measured, how long that takes, and how to read the figures; as comment lines.
    fn describe(&self) -> String {
        let trees = self.sweep_trees.iter().map(|entry| &entry.tree);
        let seconds = seconds(trees, &self.sizes, &self.effort, self.link_bits_per_s);
        let shares = match (self.sharing, has_ranks()) {
            (Sharing::OwnHosts, _) => "Every node has a host of its own: rates are costs.".to_owned(),
            (Sharing::OneHost, true) => {
                "There are fewer hosts than nodes, so some share one: processor time of a message is fitted, not rates."
                    .to_owned()
            }
            (Sharing::OneHost, false) => format!(
                "All nodes share the {} processors of this host: processor time of a message is fitted, not rates.",
                gauge::processors()
            ),
        };
        format!(
            "# {} trees, {} sizes, {} runs of {} s, in turns: about {}\n# {shares}\n",
            self.sweep_trees.len(),
            self.sizes.len(),
            self.effort.runs,
            self.effort.seconds,
            minutes(seconds)
        )
    }

    fn list(&self) -> String {
        let line = |entry: &SweepTree| {
            let ways: Vec<String> =
                entry.modes.iter().map(|mode| format!("{} {}", mode.transport.name(), mode.ack)).collect();
            let ways =
                if entry.tree.brokers_count() == 1 { "one broker: for all modes".to_owned() } else { ways.join(", ") };
            format!("  {:<16} {ways}\n", entry.tree.to_string())
        };
        self.sweep_trees.iter().map(line).collect()
    }

    fn empty(&self) -> Profile {
        Profile {
            schema: planner::SCHEMA.to_owned(),
            version: planner::VERSION,
            sharing: self.sharing,
            cores: u32::try_from(gauge::processors()).unwrap_or(u32::MAX),
            link_bits_per_s: self.link_bits_per_s,
            made_by: profile_files::made_by(),
            observations: Vec::new(),
            costs: Vec::new(),
        }
    }

    /// The profile that more is to be added to.
    fn earlier(&self, file: &Path) -> Result<Profile, CommandFailure> {
        let (earlier, now) = (profile_files::read(file)?, self.empty());
        let of = |profile: &Profile| (profile.sharing, profile.cores, profile.link_bits_per_s, profile.made_by.clone());
        if of(&earlier) != of(&now) {
            return Err(CommandFailure::Usage(format!(
                "{}: it was measured under other conditions, so that nothing can be added: {}, now {}",
                file.display(),
                profile_files::conditions(&earlier),
                profile_files::conditions(&now)
            )));
        }
        Ok(earlier)
    }

    fn measure(&self, observed: &mut ObservationSet) -> Result<(), CommandFailure> {
        let progress = ProgressLine::begin();
        let (entries, sizes) = (self.sweep_trees.len(), self.sizes.len());
        let all = (entries * sizes * self.effort.runs).max(1);
        let (mut done, mut run) = (0, 0);
        InterleavedRuns { trees: &self.trees, sizes: &self.sizes, effort: self.effort }.all(|step| {
            match step {
                RunProgress::Starting { index, round } => {
                    run = round + 1;
                    let (what, runs) = (&self.sweep_trees[index].tree, self.effort.runs);
                    progress.show(done as f64 / all as f64, &format!("{what}, run {run} of {runs}"));
                }
                RunProgress::Measured { index, measured } => {
                    let entry = &self.sweep_trees[index];
                    observed.add(&entry.tree, &entry.modes, measured)?;
                    done += 1;
                    let what =
                        format!("{}, {} bytes, run {run} of {}", entry.tree, measured.size_bytes, self.effort.runs);
                    progress.show(done as f64 / all as f64, &what);
                    if done % (entries * sizes) == 0 {
                        progress.clear();
                        put(&format!("# run {run} of {} of every tree is done\n", self.effort.runs))?;
                    }
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// A tree with its plan and its hosting.
fn placed(entry: &SweepTree, given: &ParsedOptions) -> Result<(TreePlan, NodeHosting), CommandFailure> {
    let Some(mode) = entry.modes.first() else {
        return Err(CommandFailure::Usage("no transport between brokers is available".to_owned()));
    };
    let usual = tree_options::plan(entry.tree.clone(), given)?;
    // A single broker has no peers: its clients use TCP.
    let transport = if entry.tree.brokers_count() == 1 { TreeTransport::Tcp } else { mode.transport };
    let mut plan = TreePlan { transport, ack: mode.ack, ..usual };
    if given.has("link-rate") && !has_ranks() {
        plan.broker_options.extend(fair_options(given).unwrap_or_default());
    }
    Ok((plan, hosting_over(given, transport)?))
}

/// The transports between brokers: those of the command line, or the available ones.
fn transports(given: &ParsedOptions, quick: bool, on_hosts: bool) -> Result<Vec<TreeTransport>, CommandFailure> {
    let mut usual = vec!["tcp"];
    if !quick && !on_hosts {
        usual.push("unix");
        if first_address().is_ok() {
            usual.push("rdma");
        }
    }
    let found = words_of(given, "transports", &usual, &TreeTransport::ALL.map(TreeTransport::name))?;
    if on_hosts && found != ["tcp"] {
        return Err(CommandFailure::Usage("brokers on different hosts or namespaces must use tcp".to_owned()));
    }
    Ok(TreeTransport::ALL.into_iter().filter(|one| found.contains(&one.name())).collect())
}

/// A duration for people.
pub(super) fn minutes(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}

/// The measurements, with the medians of the runs.
fn measured_table(observations: &[Observation]) -> String {
    let facts = vec![
        "medians of the runs; CPU: of a broker of each level, from the root, for a message of the stream".to_owned(),
    ];
    let columns = ["tree", "size", "over", "ack", "runs", "messages/s a stream", "one message us", "CPU us"];
    let mut table = section("What was measured".to_owned(), facts, &columns);
    let middle = |runs: &[f64]| Estimate::of(runs).map(|estimate| estimate.value);
    table.rows = observations
        .iter()
        .map(|one| {
            let cpu: Vec<String> = one.broker_cpu_us.iter().map(|runs| number(middle(runs))).collect();
            vec![
                one.tree.to_string(),
                one.message_bytes.to_string(),
                one.transport.clone(),
                one.ack.clone(),
                one.streams_per_s.len().to_string(),
                number(middle(&one.streams_per_s)),
                number(middle(&one.latency_us)),
                cpu.join(" "),
            ]
        })
        .collect();
    format!("\n{}", text(&table))
}

/// The fitted costs.
fn costs_table(set: &CostSet) -> String {
    let facts = vec!["microseconds, with 95 % intervals".to_owned()];
    let columns = [
        "size",
        "take in",
        "relay in",
        "copy to consumer",
        "copy to broker",
        "kept a level",
        "one message",
        "a hop",
        "wire bytes",
    ];
    let mut table = section(format!("Costs over {}, ack {}", set.transport, set.ack), facts, &columns);
    let shown =
        |one: &Estimate| format!("{} ({}-{})", number(Some(one.value)), number(Some(one.low)), number(Some(one.high)));
    let row = |costs: &SizeCosts| {
        let latency = |one: &Option<Estimate>| one.as_ref().map_or_else(|| "-".to_owned(), shown);
        vec![
            costs.message_bytes.to_string(),
            shown(&costs.take_in_us),
            shown(&costs.relay_in_us),
            shown(&costs.copy_to_consumer_us),
            shown(&costs.copy_to_broker_us),
            shown(&costs.per_level_ratio),
            latency(&costs.first_latency_us),
            latency(&costs.hop_latency_us),
            number(Some(costs.wire_bytes_per_copy)),
        ]
    };
    table.rows = set.sizes.iter().map(row).collect();
    format!("\n{}", text(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(line: &str) -> Result<Calibration, CommandFailure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Calibration::of(&ParsedOptions::parse(&words, &[MEASURED, TREES, OUT])?)
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let shown = calibration(line).map_or_else(
            |failure| failure.to_string(),
            |all| {
                let trees: Vec<String> = all.sweep_trees.iter().map(|entry| entry.tree.to_string()).collect();
                format!("{} | {:?} | {} x {} s", trees.join(" "), all.sizes, all.effort.runs, all.effort.seconds)
            },
        );
        assert!(shown.starts_with(expected), "{line}: {shown}");
    }

    #[test]
    fn what_is_measured_follows_from_the_words() {
        check(
            "--transports tcp --acks none --sizes 64",
            "B-C B-B-C B-B-B-C B-B-B-B-C B-B-B-B-B-C B-2C B-4C B-8C B-16C B-2B-2C B-3B-3C B-4B-4C B-8B-8C | [64] | 5 x 1 s",
        );
        check("--quick", "B-C B-B-C B-B-B-C B-2C B-4C B-2B-2C | [64, 65536] | 2 x 0.2 s");
        check(
            "--transports unix --depths 1,2 --consumers 1 --brokers 1 --runs 7 --sizes 1K",
            "B-C B-B-C B-B-C | [1024] | 7 x 1 s",
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, expected) in [
            ("--runs 4", "--runs is a number from 5 to"),
            ("--transports pigeon", "--transports takes tcp,unix,rdma, not 'pigeon'"),
            ("--acks none,none", "--acks: none is given twice"),
            ("--depths 0", "--depths is a number from 1 to"),
            ("--namespaces --transports unix", "brokers on different hosts or namespaces must use tcp"),
            ("--transports tcp --link-rate 1gbit", "--link-rate needs links: --namespaces"),
            ("--transports tcp --url amqp://h", "--url needs a launcher"),
        ] {
            check(line, expected);
        }
    }

    #[test]
    fn one_host_is_said_to_be_one() {
        let all = calibration("--quick").expect("a look");
        assert_eq!(all.sharing, Sharing::OneHost);
        assert!(all.describe().contains("processor time of a message is fitted, not rates"), "{}", all.describe());
        assert_eq!([minutes(30.0), minutes(150.0)], ["30 s", "2 min"]);
    }
}
