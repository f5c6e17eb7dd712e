//! `harrier topology`: the commands that start, measure, plan and simulate trees of brokers, with the experiments of
//! the 2009 paper.
//!
//! Read `live_tree` first (how a tree is started and a segment is measured on it), then `tree_environment` (where its
//! nodes run). What a tree is, is defined in the crate `topology`; routes are added with `harrier route`.
#![forbid(unsafe_code)]

mod broker_resources;
mod calibrate;
mod calibration_sweeps;
mod experiment;
mod federation_goals;
mod interleaved_runs;
mod limited_links;
mod limits;
mod live_tree;
mod namespaces;
mod observation_set;
mod paper_report;
mod plan_command;
mod plan_output;
mod prediction_verdict;
mod profile_files;
mod run_command;
mod simulate;
mod tree_enumeration;
mod tree_environment;
mod tree_layout;
mod tree_list;
mod tree_measurement;
mod tree_options;
mod tree_record;
mod tree_segment_figures;
mod verify;

use planner::paper;
use std::process::ExitCode;

use harness::command_spec::{CommandSpec, tool};
use harness::failure::CommandFailure;
use harness::{command, launcher};
use report::stdout::put;

const BEHIND: &str = "harrier topology COMMAND --help lists the options, with examples.";

/// The tool as declared.
pub fn command() -> cli::Command {
    let commands = [
        (
            "run",
            "start a tree of brokers, as in B-2B-4B-16C, measure it, and stop it (-: the tree that plan recommends)",
            run_command::declared(),
        ),
        (
            "experiment",
            "an experiment of the 2009 paper: multi-level, consumer-fanout, federated-fanout, sixteen-consumers",
            experiment::declared(),
        ),
        ("figures", "the figures of federation that have goals, in one table", federation_goals::declared()),
        ("calibrate", "measure the costs of a broker by three sweeps, and write a profile", calibrate::declared()),
        (
            "plan",
            "recommend a tree for a number of consumers, name its bottleneck, print its routes",
            plan_command::declared(),
        ),
        (
            "verify",
            "compare predictions of a profile with measurements (-: of the trees that plan prints)",
            verify::declared(),
        ),
        (
            "simulate",
            "simulate a tree: rates, latencies, queues, failures, beyond what can be run here",
            simulate::declared(),
        ),
        (
            "clean",
            "remove network namespaces that dead runs have left behind",
            CommandSpec::new("harrier topology clean", "", &[], &[]),
        ),
    ];
    tool("topology", "run trees of brokers, and measure them", commands).after_help(BEHIND)
}

/// Runs the command whose arguments (after `harrier topology`) are given.
///
/// The calling program must pass `bench role …` on to [`load::role::run`], and must provide `broker` and `route`.
pub fn main(words: &[String]) -> ExitCode {
    let (name, rest) = command::split(words);
    command::run("harrier topology", || match name {
        "run" | "experiment" | "figures" | "calibrate" | "verify" => {
            launcher::run_on_ranks(name, rest, |rest| match name {
                "run" => run_command::run(rest),
                "calibrate" => calibrate::run(rest),
                "verify" => verify::run(rest),
                _ if launcher::has_ranks() => Err(CommandFailure::Usage(format!(
                    "{name} runs on one host only: under a launcher, run each tree by itself"
                ))),
                "experiment" => experiment::run(rest),
                _ => federation_goals::run(rest),
            })
        }
        "plan" => plan_command::run(rest),
        "simulate" => simulate::run(rest),
        "clean" => clean(rest),
        "help" | "--help" | "-h" => Ok(put(&cli::help(&command()))?),
        "" => Err(CommandFailure::Usage(cli::help(&command()))),
        other => Err(CommandFailure::Usage(format!("unknown command '{other}'\n{}", cli::help(&command())))),
    })
}

fn clean(words: &[String]) -> Result<(), CommandFailure> {
    match words {
        [] => {}
        [word] if ["--help", "-h"].contains(&word.as_str()) => return Ok(put(&cli::help(&command()))?),
        [word, ..] => return Err(CommandFailure::Usage(format!("clean takes no arguments, not '{word}'"))),
    }
    let removed = namespaces::clean()?;
    Ok(put(&format!("removed {removed} namespaces\n"))?)
}
