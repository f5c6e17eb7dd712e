//! `harrier market`: the stock exchange simulation of the 2008 paper's section 5, over any broker.
//!
//! Enters: the words behind `harrier market`.  Leaves: trades; tables, a document, a page with figures.
//! Owns:   its commands.
//! Never:  decides what trades with what (that is `market`), or measures in the process that prints.
//!
//! Read `gateway`, `engine` and `reporter` first (the three programs), then `stand` (how they are started and measured together).

mod asked;
mod blotter;
mod engine;
mod figures;
mod found;
mod gateway;
mod interval;
mod journal;
mod mailbox;
mod max;
mod paper;
mod place;
mod places;
mod programs;
mod reporter;
pub(crate) mod role;
mod run;
mod stand;
mod statement;
mod sweep;
mod table;
mod tail;
mod usage;

use std::process::ExitCode;

use crate::arguments::{OptionSpec, help_with};
use crate::failure::CommandFailure;
use crate::{command, launcher};
use report::stdout::put;

const USAGE: &str = "\
usage: harrier market COMMAND [OPTIONS]

  run       a whole market: reporter, engine and gateways as processes, and a broker unless --url names one
  sweep     the same at several rates: the paper's Figures 8 and 9, and its Table 1
  max       the highest rate whose p99 completion stays under a limit
  gateway   one gateway: sends random orders, takes what the engine answers
  engine    the matching engine: a book for each symbol
  reporter  the statistics reporter: writes the measurements of the others to a file
  tail      the messages of a market in words, as they pass

harrier market COMMAND --help lists the options, with examples.
";

/// Runs the command whose words (behind `harrier market`) are given.
///
/// The program that calls this must pass on `bench role …` to [`crate::main`], and know `broker`.
pub fn main(words: &[String]) -> ExitCode {
    let (command, rest) = command::split(words);
    command::run("harrier market", || match command {
        "run" | "sweep" | "max" => launcher::run_on_ranks(command, rest, |rest| match command {
            "run" => run::run(rest),
            "sweep" => sweep::run(rest),
            _ => max::run(rest),
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
pub(crate) fn sweep(words: &[String]) -> Result<(), CommandFailure> {
    sweep::run(words)
}

/// The help on a command of `harrier market`.
fn help(usage: &str, about: &str, options: &[&[OptionSpec]], examples: &[(&str, &str)]) -> String {
    help_with(usage, about, options, examples).replace("\n  harrier bench ", "\n  harrier market ")
}
