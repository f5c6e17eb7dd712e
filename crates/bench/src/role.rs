//! The hidden side of the program: what a child process of a benchmark runs.
//!
//! Enters: the role's name, then its task and orders on standard input.  Leaves: reports on standard output.
//! Owns:   the choice of the role and the reading and writing of lines.
//! Never:  prints anything else to standard output.

mod agent;
pub(crate) mod backlog;
mod binder;
pub(crate) mod churner;
mod consumer;
mod duty;
mod launch;
mod null;
mod publisher;
mod raw;
mod relay;
mod sender;
mod taker;
pub(crate) mod task;

use std::io::{BufRead, StdinLock, Write};
use std::process::ExitCode;

use serde::de::DeserializeOwned;

use crate::plan::Report;

/// Runs a role; the arguments are those after `bench role`.
pub fn run(arguments: &[String]) -> ExitCode {
    let mut orders = Orders { lines: std::io::stdin().lock() };
    let outcome = match arguments.first().map(String::as_str) {
        Some("launch") => launch::become_program(&arguments[1..]),
        Some("agent") => agent::run(&mut orders),
        Some("null") => null::run(&mut orders),
        Some("binder") => binder::run(&mut orders),
        Some("relay") => relay::run(&mut orders),
        Some("raw-publisher") => raw::publish(&mut orders),
        Some("raw-consumer") => raw::consume(&mut orders),
        Some("publisher") => publisher::run(&mut orders),
        Some("consumer") => consumer::run(&mut orders),
        Some("churner") => churner::run(&mut orders),
        Some("filler") => backlog::fill(&mut orders),
        Some("emptier") => backlog::empty(&mut orders),
        Some("workload-publisher") => sender::run(&mut orders),
        Some("workload-consumer") => taker::run(&mut orders),
        _ => Err("roles are started by the benchmarks themselves".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if report(&Report::Failed { why: why.clone() }).is_err() {
                eprintln!("harrier bench role: {why}");
            }
            ExitCode::FAILURE
        }
    }
}

/// The lines on standard input.
pub(crate) struct Orders {
    lines: StdinLock<'static>,
}

impl Orders {
    /// The next order; `None` when the run is over.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line).map(Some).map_err(|error| format!("order not understood: {error}")),
            Err(error) => Err(format!("orders cannot be read: {error}")),
        }
    }

    /// The first line: what this role is for.
    pub(crate) fn task<T: DeserializeOwned>(&mut self) -> Result<T, String> {
        self.next()?.ok_or_else(|| "no task was given".to_owned())
    }
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
