//! The hidden side of the program: what a child process of a benchmark runs.
//!
//! Enters: the role's name, then its task and orders on standard input.  Leaves: reports on standard output.
//! Owns:   the choice of the role and the writing of reports.
//! Never:  prints anything else to standard output.

mod agent;
pub(crate) mod backlog;
mod binder;
pub(crate) mod churner;
mod consumer;
mod duty;
pub(crate) mod hop;
mod keeper;
mod launch;
mod leaf;
mod null;
mod orders;
mod publisher;
mod raw;
mod relay;
mod root;
pub(crate) mod secured;
mod sender;
mod stand_in;
mod taker;
pub(crate) mod task;
pub(crate) mod verbs;

use std::io::Write;
use std::process::ExitCode;

use crate::plan::Report;
pub(crate) use orders::Orders;

/// Runs a role; the arguments are those after `bench role`.
pub fn run(arguments: &[String]) -> ExitCode {
    let mut orders = match Orders::open() {
        Ok(orders) => orders,
        Err(error) => {
            eprintln!("harrier bench role: standard input: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = match arguments.first().map(String::as_str) {
        Some("launch") => launch::become_program(&arguments[1..]),
        Some("agent") => agent::run(&mut orders),
        Some("null") => null::run(&mut orders),
        Some("hop-end") => hop::end(&mut orders),
        Some("hop-publisher") => hop::publish(&mut orders),
        Some("binder") => binder::run(&mut orders),
        Some("relay") => relay::run(&mut orders),
        Some("raw-publisher") => raw::publish(&mut orders),
        Some("raw-consumer") => raw::consume(&mut orders),
        Some("publisher") => publisher::run(&mut orders),
        Some("consumer") => consumer::run(&mut orders),
        Some("churner") => churner::run(&mut orders),
        Some("filler") => backlog::fill(&mut orders),
        Some("emptier") => backlog::empty(&mut orders),
        Some("verbs-consumer") => verbs::listen(&mut orders),
        Some("verbs-publisher") => verbs::measure(&mut orders),
        Some("topology-broker") => keeper::run(&mut orders),
        Some("topology-publisher") => root::run(&mut orders),
        Some("topology-consumer") => leaf::run(&mut orders),
        Some("workload-publisher") => sender::run(&mut orders),
        Some("workload-consumer") => taker::run(&mut orders),
        Some("market-gateway") => crate::trade::market_roles::gateway(&mut orders),
        Some("market-engine") => crate::trade::market_roles::engine(&mut orders),
        Some("market-reporter") => crate::trade::market_roles::reporter(&mut orders),
        _ => Err("roles are started by the benchmarks themselves".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if launches_stranger(arguments) {
                eprintln!("harrier bench: {why}");
            } else if report(&Report::Failed { why: why.clone() }).is_err() {
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
pub(crate) fn report(report: &Report) -> Result<(), String> {
    let mut line = serde_json::to_string(report).map_err(|error| error.to_string())?;
    line.push('\n');
    let mut output = std::io::stdout().lock();
    output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| format!("nobody takes the reports: {error}"))
}

/// Connects to the broker under the role's name.
pub(crate) fn connect(url: &str, role: &str) -> client::Result<client::Client> {
    let options = client::Options { name: Some(format!("harrier bench {role}")), ..client::Options::default() };
    client::Client::connect_with(&client::Url::parse(url)?, options)
}
