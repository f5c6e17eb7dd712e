//! The child processes of a benchmark: `bench role NAME` reads a task and commands on standard input and writes reports to
//! standard output.

mod agent;
mod benchmark_consumer;
mod benchmark_publisher;
mod binder;
mod broker_supervisor;
pub mod churner;
pub mod drain_roles;
mod launch;
mod null_broker;
mod raw_socket;
pub mod recover_roles;
mod relay;
pub mod socket_baseline;
mod stand_in;
pub mod tls_stream;
mod tree_consumer;
mod tree_publisher;
pub mod verbs_roles;
mod worker_thread;
mod workload_consumers;
mod workload_publishers;

use std::process::ExitCode;

use harness::command_reader::CommandReader;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;

/// What a role does with its commands.
pub type RoleMain = fn(&mut CommandReader) -> Result<(), String>;

/// Runs a role; the arguments are those after `bench role`. `others` are the roles of crates above, by their names.
pub fn run(arguments: &[String], others: &[(&str, RoleMain)]) -> ExitCode {
    let mut commands = match CommandReader::open() {
        Ok(commands) => commands,
        Err(error) => {
            cli::print_error(&format!("harrier bench role: standard input: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let outcome = match arguments.first().map(String::as_str) {
        Some("launch") => launch::become_program(&arguments[1..]),
        Some("agent") => agent::run(&mut commands),
        Some("null") => null_broker::run(&mut commands),
        Some("hop-end") => socket_baseline::receive(&mut commands),
        Some("hop-publisher") => socket_baseline::send_segments(&mut commands),
        Some("binder") => binder::run(&mut commands),
        Some("relay") => relay::run(&mut commands),
        Some("raw-publisher") => raw_socket::publish(&mut commands),
        Some("raw-consumer") => raw_socket::consume(&mut commands),
        Some("publisher") => benchmark_publisher::run(&mut commands),
        Some("consumer") => benchmark_consumer::run(&mut commands),
        Some("churner") => churner::run(&mut commands),
        Some("filler") => drain_roles::fill(&mut commands),
        Some("emptier") => drain_roles::empty(&mut commands),
        Some("recover-publisher") => recover_roles::publish(&mut commands),
        Some("recover-consumer") => recover_roles::consume(&mut commands),
        Some("verbs-consumer") => verbs_roles::listen(&mut commands),
        Some("verbs-publisher") => verbs_roles::measure(&mut commands),
        Some("topology-broker") => broker_supervisor::run(&mut commands),
        Some("topology-publisher") => tree_publisher::run(&mut commands),
        Some("topology-consumer") => tree_consumer::run(&mut commands),
        Some("workload-publisher") => workload_publishers::run(&mut commands),
        Some("workload-consumer") => workload_consumers::run(&mut commands),
        other => match others.iter().find(|(name, _)| Some(*name) == other) {
            Some((_, main)) => main(&mut commands),
            None => Err("roles are started by the benchmarks themselves".to_owned()),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if launches_stranger(arguments) {
                cli::print_error(&format!("harrier bench: {why}"));
            } else if report(&RoleReport::Failed { why: why.clone() }).is_err() {
                cli::print_error(&format!("harrier bench role: {why}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Whether this was to become a program that is no role of ours, such as a broker: nobody reads reports from it.
fn launches_stranger(arguments: &[String]) -> bool {
    matches!(arguments, [role, _cpus, _parent, _program, rest @ ..]
        if role == "launch" && !matches!(rest, [first, second, ..] if first == "bench" && second == "role"))
}
