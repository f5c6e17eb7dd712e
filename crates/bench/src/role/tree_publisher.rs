//! The publisher at the root of a tree of brokers.
//!
//! Enters: a task; probes and segments.  Leaves: when each began and ended, what it used.
//! Owns:   the order of what it is told.
//! Never:  waits for consumers, who are at other brokers: it has done when its broker has read everything.

use super::benchmark_publisher::BenchmarkPublisher;
use super::role_tasks::RootCommand;
use super::{CommandReader, report};
use crate::role_protocol::RoleReport;

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let mut publisher = BenchmarkPublisher::connect(commands.task()?).map_err(|error| error.to_string())?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(command) = commands.next_while::<RootCommand>(|| publisher.keep_alive())? {
        match command {
            RootCommand::Probe(number) => {
                publisher.probe(number).map_err(|error| error.to_string())?;
                report(&RoleReport::Armed)?;
            }
            RootCommand::Send(segment) => report(&publisher.segment(&segment)?)?,
        }
    }
    publisher.close()
}
