//! The threads of a role that receives commands while it works: one reads commands, one works, one meters.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use gauge::clock::{now_ns, pause};
use mio::{Poll, Token, Waker};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use super::{CommandReader, report};
use crate::role_protocol::{SelfMeters, RoleReport, SelfUsage};
use crate::workload::process_messages::WorkloadCommand;

/// The poll event of an order.
pub(super) const COMMAND_TOKEN: Token = Token(usize::MAX);
/// The poll event of the worker's timer.
pub(super) const TIMER_TOKEN: Token = Token(usize::MAX - 1);

/// What a worker is given.
pub(super) struct WorkerContext {
    /// Polls the worker's connections, and the bell.
    pub poll: Poll,
    commands: Receiver<WorkloadCommand>,
    /// Whether nobody gives orders any more.
    pub disconnected: bool,
}

impl WorkerContext {
    /// The next order, if one has come.
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

    /// Waits for the first order.
    pub(super) fn first_command(&mut self) -> Result<WorkloadCommand, String> {
        self.commands.recv().map_err(|_| "the run ended before it began".to_owned())
    }
}

/// Works on `task` with `work` until there are no more orders; `work` runs on a thread of its own.
pub(super) fn run(commands: &mut CommandReader, work: impl FnOnce(WorkerContext) -> Result<(), String> + Send) -> Result<(), String> {
    raise_limit()?;
    let poll = Poll::new().map_err(|error| format!("no poll: {error}"))?;
    let waker = Waker::new(poll.registry(), COMMAND_TOKEN).map_err(|error| format!("no bell: {error}"))?;
    let (sender, inbox) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The other thread waits for orders: a failure must be told from here, and it ends with the orders.
            if let Err(why) = work(WorkerContext { poll, commands: inbox, disconnected: false })
                && report(&RoleReport::Failed { why: why.clone() }).is_err()
            {
                eprintln!("harrier bench role: {why}");
            }
        });
        let outcome = forward_commands(commands, &sender, &waker);
        drop(sender);
        outcome.and(waker.wake().map_err(|error| format!("no bell: {error}")))
    })
}

/// As many open files as this process may have.
fn raise_limit() -> Result<(), String> {
    let (_soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("the limit of open files: {error}"))?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|error| format!("the limit of open files: {error}"))
}

fn forward_commands(commands: &mut CommandReader, sender: &Sender<WorkloadCommand>, waker: &Waker) -> Result<(), String> {
    while let Some(command) = commands.next::<WorkloadCommand>()? {
        if sender.send(command).is_err() {
            return Ok(());
        }
        waker.wake().map_err(|error| format!("no bell: {error}"))?;
    }
    Ok(())
}

/// Reports what a worker found.
pub(super) fn report_results<T: Serialize>(what: &T) -> Result<(), String> {
    report(&RoleReport::Results(serde_json::to_value(what).map_err(|error| error.to_string())?))
}

/// Meters this process from one time to another, on a thread of its own: reading takes milliseconds that a paced sender
/// does not have.
pub(super) struct ScheduledMeter(std::thread::JoinHandle<SelfUsage>);

impl ScheduledMeter {
    /// Begins and ends at these times of the monotonic clock.
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

    /// What was used; waits for the end of the time.
    pub(super) fn finish(self) -> Result<SelfUsage, String> {
        self.0.join().map_err(|_| "the meter failed".to_owned())
    }
}
