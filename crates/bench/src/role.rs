//! The child processes of a benchmark: `bench role NAME` reads a task and commands on standard input and writes reports to
//! standard output.

mod agent;
mod benchmark_consumer;
mod benchmark_publisher;
mod binder;
mod broker_supervisor;
pub(crate) mod churner;
mod command_reader;
pub(crate) mod drain_roles;
mod launch;
mod null_broker;
mod raw_socket;
pub(crate) mod recover_roles;
mod relay;
pub(crate) mod role_tasks;
pub(crate) mod socket_baseline;
mod stand_in;
pub(crate) mod tls_stream;
mod tree_consumer;
mod tree_publisher;
pub(crate) mod verbs_roles;
mod worker_thread;
mod workload_consumers;
mod workload_publishers;

use std::io::Write;
use std::process::ExitCode;

use crate::role_protocol::RoleReport;
pub(crate) use command_reader::CommandReader;

/// Runs a role; the arguments are those after `bench role`.
pub fn run(arguments: &[String]) -> ExitCode {
    let mut commands = match CommandReader::open() {
        Ok(commands) => commands,
        Err(error) => {
            eprintln!("harrier bench role: standard input: {error}");
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
        Some("market-gateway") => crate::trade::market_roles::gateway(&mut commands),
        Some("market-engine") => crate::trade::market_roles::engine(&mut commands),
        Some("market-reporter") => crate::trade::market_roles::reporter(&mut commands),
        _ => Err("roles are started by the benchmarks themselves".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if launches_stranger(arguments) {
                eprintln!("harrier bench: {why}");
            } else if report(&RoleReport::Failed { why: why.clone() }).is_err() {
                eprintln!("harrier bench role: {why}");
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

/// Writes one report.
pub(crate) fn report(report: &RoleReport) -> Result<(), String> {
    let mut line = serde_json::to_string(report).map_err(|error| error.to_string())?;
    line.push('\n');
    let mut output = std::io::stdout().lock();
    output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| format!("the reports cannot be written: {error}"))
}

/// Connects to the broker under the role's name.
pub(crate) fn connect(url: &str, role: &str) -> client::Result<client::Client> {
    let options =
        client::ConnectOptions { name: Some(format!("harrier bench {role}")), ..client::ConnectOptions::default() };
    client::Client::connect_with(&client::Url::parse(url)?, options)
}
