//! The publisher at the root of a tree of brokers.
//!
//! A segment ends when the root broker has read all of it: the consumers are at other brokers and send no replies.

use super::benchmark_publisher::BenchmarkPublisher;
use harness::command_reader::CommandReader;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;
use harness::role_tasks::RootCommand;

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
