//! `harrier market`: the stock exchange simulation of the 2008 paper's section 5, over any broker.
//!
//! Read `gateway`, `engine` and `reporter` first (the three programs), then `running_market` (how they are started and
//! measured together). Matching is the job of the crate `market`; measurements are never taken in the process that
//! prints.
#![forbid(unsafe_code)]

mod answer_outbox;
mod blotter;
mod engine;
mod gateway;
mod limits;
mod market_address;
mod market_figures;
mod market_options;
mod market_roles;
mod market_table;
mod max_rate;
mod measurement_interval;
mod order_journal;
mod paper_2008;
mod process_usage;
mod program_results;
mod programs;
mod rate_sweep;
mod report_lines;
mod reporter;
mod run_market;
mod running_market;
mod sweep_placements;
mod tail;

use std::process::ExitCode;

use harness::arguments::{OptionSpec, help_with};
use harness::failure::CommandFailure;
use harness::{command, launcher};
use load::role::RoleMain;
use report::stdout::put;

const USAGE: &str = "\
usage: harrier market COMMAND [OPTIONS]

  run       run a market: reporter, engine and gateways as processes, and a broker unless --url names one
  sweep     run markets at several rates: the paper's Figures 8 and 9, and its Table 1
  max       find the highest rate whose p99 completion stays under a limit
  gateway   run one gateway: sends random orders, receives the engine's answers
  engine    run the matching engine: a book for each symbol
  reporter  run the statistics reporter: writes the others' measurements to a file
  tail      print the messages of a market in words

harrier market COMMAND --help lists the options, with examples.
";

/// The roles of a market's processes.
pub const ROLES: &[(&str, RoleMain)] = &[
    ("market-gateway", market_roles::gateway),
    ("market-engine", market_roles::engine),
    ("market-reporter", market_roles::reporter),
];

/// Runs the command whose arguments (after `harrier market`) are given.
///
/// The calling program must pass `bench role …` with [`ROLES`] on to [`load::role::run`], and must provide `broker`.
pub fn main(words: &[String]) -> ExitCode {
    let (command, rest) = command::split(words);
    command::run("harrier market", || match command {
        "run" | "sweep" | "max" => launcher::run_on_ranks(command, rest, |rest| match command {
            "run" => run_market::run(rest),
            "sweep" => rate_sweep::run(rest),
            _ => max_rate::run(rest),
        }),
        "tail" => tail::run(rest),
        "gateway" => programs::gateway(rest),
        "engine" => programs::engine(rest),
        "reporter" => programs::reporter(rest),
        "help" | "--help" | "-h" => Ok(put(USAGE)?),
        "" => Err(CommandFailure::Usage(USAGE.to_owned())),
        other => Err(CommandFailure::Usage(format!("unknown command '{other}'\n{USAGE}"))),
    })
}

/// `sweep`, for the suite of all benchmarks.
///
/// # Errors
/// As the command.
pub fn sweep(words: &[String]) -> Result<(), CommandFailure> {
    rate_sweep::run(words)
}

/// The help of a command of `harrier market`.
fn help(usage: &str, about: &str, options: &[&[OptionSpec]], examples: &[(&str, &str)]) -> String {
    help_with(usage, about, options, examples).replace("\n  harrier bench ", "\n  harrier market ")
}
