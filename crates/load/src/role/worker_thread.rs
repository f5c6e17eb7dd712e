//! The threads of a role that receives commands while it works: one reads commands, one works, one meters.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use gauge::clock::{now_ns, pause};
use mio::{Poll, Token, Waker};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use crate::workload::process_messages::WorkloadCommand;
use harness::command_reader::CommandReader;
use harness::role_protocol::report;
use harness::role_protocol::{RoleReport, SelfMeters, SelfUsage};

/// The poll token of a command.
pub(super) const COMMAND_TOKEN: Token = Token(usize::MAX);
/// The poll token of the worker's timer.
pub(super) const TIMER_TOKEN: Token = Token(usize::MAX - 1);

/// What the worker thread receives.
pub(super) struct WorkerContext {
    /// Polls the worker's connections and the waker.
    pub poll: Poll,
    commands: Receiver<WorkloadCommand>,
    /// Whether the commands have ended.
    pub disconnected: bool,
}

impl WorkerContext {
    /// The next command, if one has arrived.
    pub(super) fn next_command(&mut self) -> Option<WorkloadCommand> {
        match self.commands.try_recv() {
            Ok(command) => Some(command),
            Err(std::sync::mpsc::TryRecvError::Empty) => None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                self.disconnected = true;
                None
            }
        }
    }

    /// Waits for the first command.
    pub(super) fn first_command(&mut self) -> Result<WorkloadCommand, String> {
        self.commands.recv().map_err(|_| "the run ended before it began".to_owned())
    }
}

/// Runs `work` on a thread of its own and passes it commands until they end.
pub(super) fn run(
    commands: &mut CommandReader,
    work: impl FnOnce(WorkerContext) -> Result<(), String> + Send,
) -> Result<(), String> {
    raise_limit()?;
    let poll = Poll::new().map_err(|error| format!("no poll: {error}"))?;
    let waker = Waker::new(poll.registry(), COMMAND_TOKEN).map_err(|error| format!("no bell: {error}"))?;
    let (sender, inbox) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The command thread is blocked on standard input, so a failure is reported from here.
            if let Err(why) = work(WorkerContext { poll, commands: inbox, disconnected: false })
                && report(&RoleReport::Failed { why: why.clone() }).is_err()
            {
                cli::print_error(&format!("harrier bench role: {why}"));
            }
        });
        let outcome = forward_commands(commands, &sender, &waker);
        drop(sender);
        outcome.and(waker.wake().map_err(|error| format!("no bell: {error}")))
    })
}

/// Raises the soft limit on open files to the hard limit.
fn raise_limit() -> Result<(), String> {
    let (_soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("the limit of open files: {error}"))?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|error| format!("the limit of open files: {error}"))
}

fn forward_commands(
    commands: &mut CommandReader,
    sender: &Sender<WorkloadCommand>,
    waker: &Waker,
) -> Result<(), String> {
    while let Some(command) = commands.next_command::<WorkloadCommand>()? {
        if sender.send(command).is_err() {
            return Ok(());
        }
        waker.wake().map_err(|error| format!("no bell: {error}"))?;
    }
    Ok(())
}

pub(super) fn report_results<T: Serialize>(what: &T) -> Result<(), String> {
    report(&RoleReport::Results(serde_json::to_value(what).map_err(|error| error.to_string())?))
}

/// Meters this process over an interval on a thread of its own: reading the counters takes milliseconds, which a paced sender
/// cannot spare.
pub(super) struct ScheduledMeter(std::thread::JoinHandle<SelfUsage>);

impl ScheduledMeter {
    /// The interval in times of the monotonic clock.
    pub(super) fn between(from_ns: u64, to_ns: u64) -> Self {
        Self(std::thread::spawn(move || {
            pause(Duration::from_nanos(from_ns.saturating_sub(now_ns())));
            let meters = SelfMeters::start();
            pause(Duration::from_nanos(to_ns.saturating_sub(now_ns())));
            let mut used = meters.stop();
            // One thread works; the others wait.
            used.process.cores_max = 1.0;
            used
        }))
    }

    /// Waits for the end of the interval and returns the usage.
    pub(super) fn finish(self) -> Result<SelfUsage, String> {
        self.0.join().map_err(|_| "the meter failed".to_owned())
    }
}
