//! The consumers on one leaf of a tree of brokers, each with its own queue bound to the tree's exchange.
//!
//! A route counts as established once a probe message has reached every consumer.

use super::benchmark_consumer::{BenchmarkConsumer, connect_all, consume_segment, keep_alive, poll_of};
use crate::limits::{PROBE_BYTES, PROBE_LAST, PROBE_TURN, TREE_READY_WAIT};
use gauge::clock::Deadline;
use harness::command_reader::CommandReader;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;
use harness::role_tasks::{ConsumerTask, LeafCommand};

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let task: ConsumerTask = commands.task()?;
    let mut consumers = connect_all(&task).map_err(|error| error.to_string())?;
    let mut poll = poll_of(&mut consumers)?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(command) = commands.next_while::<LeafCommand>(|| keep_alive(&mut consumers))? {
        match command {
            LeafCommand::Probe => probe(&mut consumers, task.ack_every > 0)?,
            LeafCommand::Consume(segment) => report(&consume_segment(&mut consumers, &mut poll, &task, &segment)?)?,
        }
    }
    consumers.into_iter().try_for_each(|consumer| consumer.client.close()).map_err(|error| error.to_string())
}

/// The probes that a consumer has received.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ProbeProgress {
    None,
    Some,
    Last,
}

/// Reports when each consumer has received a probe, and then when each has received the last one. Messages arrive in order, so
/// only measured ones follow.
fn probe(consumers: &mut [BenchmarkConsumer], acks: bool) -> Result<(), String> {
    let deadline = Deadline::after(TREE_READY_WAIT);
    let mut progress = vec![ProbeProgress::None; consumers.len()];
    for (awaited, answer) in
        [(ProbeProgress::Some, RoleReport::Armed), (ProbeProgress::Last, RoleReport::Ready { port: 0 })]
    {
        while let Some(index) = progress.iter().position(|&progress| progress < awaited) {
            if deadline.passed() {
                return Err(format!("no message reached it within {} s", TREE_READY_WAIT.as_secs()));
            }
            progress[index] = progress[index].max(consumers[index].receive_probe(acks)?);
        }
        report(&answer)?;
    }
    Ok(())
}

impl BenchmarkConsumer {
    /// Receives probes for a short time.
    fn receive_probe(&mut self, acks: bool) -> Result<ProbeProgress, String> {
        let mut progress = ProbeProgress::None;
        let mut unexpected = None;
        let channel = self.channel;
        let taken = self.client.dispatch(PROBE_TURN, |delivery, output| {
            match <[u8; PROBE_BYTES]>::try_from(delivery.body()) {
                Ok(number) if u64::from_le_bytes(number) == PROBE_LAST => progress = ProbeProgress::Last,
                Ok(_) => progress = progress.max(ProbeProgress::Some),
                Err(_) => unexpected = Some(delivery.body().len()),
            }
            if acks { output.ack(channel, delivery.delivery_tag, false) } else { Ok(()) }
        });
        taken.map_err(|error| error.to_string())?;
        match unexpected {
            None => Ok(progress),
            Some(bytes) => Err(format!("a message of {bytes} bytes arrived before any was sent")),
        }
    }
}
