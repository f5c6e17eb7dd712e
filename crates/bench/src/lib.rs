//! The benchmark suite: runs loads through Harrier, a relay or another broker and measures all of them in the same way.
//!
//! The broker, publishers and consumers always run in processes of their own.
//!
//! Read `closed_loop/benchmarks` first (the paper's benchmarks), then `closed_loop/runner` (the order of measurements). How
//! one segment is measured, and what the child processes do, is in the crate `load`.
#![forbid(unsafe_code)]

mod churn;
mod closed_loop;
mod compare;
mod core_distance;
mod disk_writes;
mod drain;
mod durability_case;
mod limits;
mod networks;
mod open_loop;
mod perf;
mod rdma;
mod recover;
mod render;
mod scale;
mod suite;
mod turns;
mod verbs;
mod workload_command;
mod written_segment;

use std::process::ExitCode;

use harness::command_spec::{CommandSpec, tool};
use harness::failure::CommandFailure;
use harness::{command, launcher};
use load::role;

/// A command: its name, one line about it, and what it takes.
type BenchCommand = (&'static str, &'static str, fn() -> CommandSpec);

/// Commands other than closed-loop benchmarks.
const OTHERS: &[BenchCommand] = &[
    (
        "networks",
        "three benchmarks over TCP, rsockets and RDMA, relative to the bare device (one table)",
        networks::declared,
    ),
    ("rdma", "goals for RDMA: user time, system calls, copies, pinned memory, round trips (one table)", rdma::declared),
    ("baseline verbs", "performance of a bare RDMA device between two processes, by size", verbs::declared),
    ("churn", "rate and latency of opening and closing connections, channels and queues", churn::declared),
    (
        "disk",
        "how fast this disk makes groups durable that are written as the store writes them",
        disk_writes::declared,
    ),
    ("drain", "rate of filling and emptying a queue, and memory per queued message", drain::declared),
    ("recover", "kills a broker and starts it again: time to the first delivery, and what is lost", recover::declared),
    ("suite", "all benchmarks, and a report (`make bench`)", suite::declared),
    ("open", "open loop: latency at given rates, or the highest rate that meets an objective", open_loop::declared),
    ("workload", "a load described in a file, or one included in the program (--list)", workload_command::declared),
    ("compare", "compares two results saved with --json: ratios with intervals and verdicts", compare::declared),
    ("report", "shows results saved with --json as a page with figures, or in another format", render::declared),
    ("perf", "goals: this broker, RabbitMQ and the relay floor, interleaved (`make perf`)", perf::declared),
    ("scale", "memory per connection, queue, binding and message, with many of each", scale::declared),
];

const BASELINES: &str = "\
usage: harrier bench baseline KIND [OPTIONS]

  sockets  raw sockets through a relay, without AMQP
  verbs    sends, writes and reads of an RDMA device between two processes

harrier bench baseline KIND --help lists the options.
";

/// Runs a command line (without `harrier bench`).
///
/// The calling program must pass on the words after `bench` unchanged, because the benchmarks execute it again:
/// `PROGRAM bench role …` for child processes and `PROGRAM broker --listen ADDRESS` for the broker.
pub fn main(words: &[String]) -> ExitCode {
    let (command, rest) = command::split(words);
    if command == "role" {
        return role::run(rest, trade::ROLES);
    }
    command::run("harrier bench", || launcher::run_on_ranks(command, rest, |rest| run(command, rest)))
}

fn run(command: &str, rest: &[String]) -> Result<(), CommandFailure> {
    if let Some(benchmark) = closed_loop::find(command) {
        return closed_loop::run(benchmark, rest);
    }
    match command {
        "baseline" => baseline(rest),
        // The former name of `baseline sockets`.
        "floor" => baseline(&[&["sockets".to_owned()], rest].concat()),
        "suite" => suite::run(rest, run),
        "perf" => Ok(perf::run(rest, recover::measure_own)?),
        "scale" => Ok(scale::run(rest)?),
        "open" => open_loop::run(rest),
        "workload" => workload_command::run(rest),
        // For the suite: `harrier market sweep`.
        "market-sweep" => trade::sweep(rest),
        "networks" => networks::run(rest),
        "rdma" => rdma::run(rest),
        "churn" => churn::run(rest),
        "disk" => disk_writes::run(rest),
        "drain" => drain::run(rest),
        "recover" => recover::run(rest),
        "compare" => compare::run(rest),
        "report" => render::run(rest),
        "help" | "--help" | "-h" => Ok(report::stdout::put(&usage())?),
        "" => Err(CommandFailure::Usage(usage())),
        other => Err(CommandFailure::Usage(format!("unknown command '{other}'\n{}", usage()))),
    }
}

fn baseline(words: &[String]) -> Result<(), CommandFailure> {
    match words.split_first() {
        Some((word, _)) if ["--help", "-h"].contains(&word.as_str()) => Ok(report::stdout::put(BASELINES)?),
        Some((word, rest)) if word == "verbs" => verbs::run(rest),
        Some((kind, rest)) => match closed_loop::find(&format!("baseline {kind}")) {
            Some(benchmark) => closed_loop::run(benchmark, rest),
            None => Err(CommandFailure::Usage(format!("unknown baseline '{kind}'\n{BASELINES}"))),
        },
        None => Err(CommandFailure::Usage(BASELINES.to_owned())),
    }
}

/// The tool as declared.
pub fn command() -> cli::Command {
    let closed = closed_loop::ALL.iter().map(|benchmark| (benchmark.command, benchmark.summary, benchmark.declared()));
    let others = OTHERS.iter().map(|(name, does, declared)| (*name, *does, declared()));
    tool("bench", "measure a broker", closed.chain(others)).after_help(launcher::HELP)
}

fn usage() -> String {
    let mut text = "usage: harrier bench COMMAND [OPTIONS]\n\n".to_owned();
    let closed = closed_loop::ALL.iter().map(|benchmark| (benchmark.command, benchmark.summary));
    for (command, summary) in closed.chain(OTHERS.iter().map(|(name, does, _)| (*name, *does))) {
        text.push_str(&format!("  {command:<18} {summary}\n"));
    }
    format!("{text}\nharrier bench COMMAND --help lists the options.\n\n{}", launcher::HELP)
}
