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

use harness::command_spec::tool;
use harness::failure::CommandFailure;
use harness::{command, launcher};
use load::role::RoleMain;
use report::stdout::put;

const BEHIND: &str = "harrier market COMMAND --help lists the options, with examples.";

/// The tool as declared.
pub fn command() -> cli::Command {
    let commands = [
        (
            "run",
            "run a market: reporter, engine and gateways as processes, and a broker unless --url names one",
            run_market::declared(),
        ),
        ("sweep", "run markets at several rates: the paper's Figures 8 and 9, and its Table 1", rate_sweep::declared()),
        ("max", "find the highest rate whose p99 completion stays under a limit", max_rate::declared()),
        (
            "gateway",
            "run one gateway: sends random orders, receives the engine's answers",
            programs::gateway_declared(),
        ),
        ("engine", "run the matching engine: a book for each symbol", programs::engine_declared()),
        (
            "reporter",
            "run the statistics reporter: writes the others' measurements to a file",
            programs::reporter_declared(),
        ),
        ("tail", "print the messages of a market in words", tail::declared()),
    ];
    let about = "a stock exchange that trades through a broker, and measures it";
    tool("market", about, commands).after_help(BEHIND)
}

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
    let (name, rest) = command::split(words);
    command::run("harrier market", || match name {
        "run" | "sweep" | "max" => launcher::run_on_ranks(name, rest, |rest| match name {
            "run" => run_market::run(rest),
            "sweep" => rate_sweep::run(rest),
            _ => max_rate::run(rest),
        }),
        "tail" => tail::run(rest),
        "gateway" => programs::gateway(rest),
        "engine" => programs::engine(rest),
        "reporter" => programs::reporter(rest),
        "help" | "--help" | "-h" => Ok(put(&cli::help(&command()))?),
        "" => Err(CommandFailure::Usage(cli::help(&command()))),
        other => Err(CommandFailure::Usage(format!("unknown command '{other}'\n{}", cli::help(&command())))),
    })
}

/// `sweep`, for the suite of all benchmarks.
///
/// # Errors
/// As the command.
pub fn sweep(words: &[String]) -> Result<(), CommandFailure> {
    rate_sweep::run(words)
}
