//! The benchmark suite: workloads through a broker, a relay or another broker, measured the same way.
//!
//! Enters: the words behind `harrier bench`.  Leaves: tables, JSON, an HTML report.
//! Owns:   workloads, processes and their placement, statistics, the comparison that `make perf` prints.
//! Never:  runs broker, publisher or consumer inside its own process.
//!
//! Read `scenario` first (what a workload is and how one segment of it is measured), then `role` (what the child
//! processes do), `paper` (de-spsc, de-pp, floor) and `perf` (the figures to reach).
#![forbid(unsafe_code)]

pub mod arguments;
mod compare;
mod failure;
mod interrupt;
pub mod launcher;
pub mod limits;
mod paper;
mod perf;
mod placement;
mod plan;
mod process;
mod render;
mod role;
mod scale;
mod scenario;
mod suite;
mod target;

use std::process::ExitCode;

use failure::Failure;
use paper::Benchmark;

const USAGE: &str = "usage: harrier bench COMMAND [OPTIONS]

  de-spsc   one publisher, one consumer through a direct exchange: MB/s and messages/s by size
  de-pp     round trips between two through direct exchanges: latency by size
  floor     the same through a relay that knows no AMQP
  suite     de-spsc and de-pp with the usual options, and a report (`make bench`)
  perf      the figures to reach: this broker, RabbitMQ and the floor, interleaved (`make perf`)
  compare   two results saved with --json: ratios with intervals, and what is noise
  report    results saved with --json as a page with figures, or in another format
  scale     many connections, queues, bindings, messages, and what each costs in memory

harrier bench COMMAND --help lists the options.
";

/// Runs the command whose words (behind `harrier bench`) are given.
///
/// The program that calls this must pass on the words behind `bench` unchanged, since the benchmarks start it again
/// as `PROGRAM bench role …` for their child processes, and as `PROGRAM broker --listen ADDRESS` for the broker.
pub fn main(words: &[String]) -> ExitCode {
    let (command, rest) = match words.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", words),
    };
    if command == "role" {
        return role::run(rest);
    }
    let listening = interrupt::listen().map_err(Failure::from);
    match listening.and_then(|()| launcher::within(command, rest, |rest| run(command, rest))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ Failure::Told(_)) => failure.exit(),
        Err(failure) => {
            let failure = failure.or_interrupted();
            eprintln!("harrier bench: {failure}");
            failure.exit()
        }
    }
}

fn run(command: &str, rest: &[String]) -> Result<(), Failure> {
    match command {
        "de-spsc" => Ok(paper::run(Benchmark::DeSpsc, rest)?),
        "de-pp" => Ok(paper::run(Benchmark::DePp, rest)?),
        "floor" => Ok(paper::run(Benchmark::Floor, rest)?),
        "suite" => Ok(suite::run(rest)?),
        "perf" => Ok(perf::run(rest)?),
        "scale" => Ok(scale::run(rest)?),
        "compare" => compare::run(rest),
        "report" => render::run(rest),
        "help" | "--help" | "-h" => Ok(report::table::put(&format!("{USAGE}\n{}", launcher::HELP))?),
        "" => Err(Failure::Usage(USAGE.to_owned())),
        other => Err(Failure::Usage(format!("unknown command '{other}'\n{USAGE}"))),
    }
}
