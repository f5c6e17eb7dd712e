//! Runs on many hosts: under `mpirun` or `srun` each process is a rank, rank 0 controls and the others run roles.
//!
//! No launcher library is linked: ranks communicate through the broker that they measure.
//!
//! Read `membership` first (which rank is this), then `rank_message` (the protocol), `rank_controller` (rank 0) and
//! `rank_worker` (the others).

mod assignment;
mod clock_mapping;
mod controller_thread;
mod host_facts;
mod membership;
mod rank_controller;
mod rank_facts;
mod rank_mailbox;
mod rank_message;
mod rank_options;
mod rank_worker;
mod time_fields;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::failure::CommandFailure;
use crate::interrupt;
use crate::placement::CpuList;
use crate::role_process::RoleOutput;
use controller_thread::ask;
pub use controller_thread::has_ranks;
use rank_message::RoleId;
use rank_options::RankOptions;

pub(crate) use host_facts::is_local_address;
pub use rank_options::HELP;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commands that only read files or print help, and need no other ranks.
const WITHOUT_RANKS: [&str; 6] = ["", "help", "--help", "-h", "compare", "report"];
/// Commands that measure no broker.
const WITHOUT_BROKER: [&str; 2] = ["baseline", "floor"];
/// Commands that measure a single machine.
const ONE_MACHINE: [&str; 2] = ["perf", "scale"];

/// The exit status that rank 0 sent to this rank.
#[derive(Clone, Copy, Debug)]
pub struct RankExit {
    status: u8,
}

/// Runs a command: directly without a launcher, otherwise on rank 0, with roles on the other ranks.
///
/// # Errors
/// The command's error; `CommandFailure::Reported` if it is already printed, here or on rank 0.
pub fn run_on_ranks(
    command: &str,
    words: &[String],
    run: impl FnOnce(&[String]) -> Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    let asks_for_help = words.iter().any(|word| word == "--help" || word == "-h");
    let (options, words) = RankOptions::extract(words).map_err(CommandFailure::Usage)?;
    let membership = membership::detect(&|name| std::env::var(name).ok(), &options).map_err(CommandFailure::Usage)?;
    let Some(membership) = membership else { return run(&words) };
    if WITHOUT_RANKS.contains(&command) || asks_for_help {
        return if membership.rank == 0 { run(&words) } else { Ok(()) };
    }
    let by_rank = |why: String| format!("rank {}: {why}", membership.rank);
    if ONE_MACHINE.contains(&command) {
        return Err(CommandFailure::Usage(by_rank(format!(
            "{command} measures one machine: start it without a launcher"
        ))));
    }
    let url = rank_options::url(&words).ok_or_else(|| {
        CommandFailure::Usage(by_rank("ranks meet through the broker: --url says where it listens".to_owned()))
    })?;
    if membership.rank > 0 {
        return match rank_worker::run(&membership, url) {
            Ok(RankExit { status: 0 }) => Ok(()),
            Ok(RankExit { status }) => Err(CommandFailure::Reported(status)),
            Err(_) if interrupt::requested() => Err(CommandFailure::Reported(CommandFailure::Interrupted.status())),
            Err(why) => Err(CommandFailure::Failed(by_rank(why))),
        };
    }
    controller_thread::open(membership, url, options)?;
    // These commands measure no broker, but their ranks still communicate through one.
    let needs_no_broker = WITHOUT_BROKER.contains(&command);
    finish(if needs_no_broker { run(&rank_options::without_url(&words)) } else { run(&words) })
}

/// Ends the run on all ranks with the command's outcome. Errors are printed first: when one rank fails, launchers kill the
/// others, including this one.
fn finish(outcome: Result<(), CommandFailure>) -> Result<(), CommandFailure> {
    let failure = match outcome.map_err(CommandFailure::or_interrupted) {
        Ok(()) => None,
        Err(CommandFailure::Interrupted) => {
            let rank = ask(|controller| Ok(controller.lost_rank())).ok().flatten();
            Some(rank.map_or(CommandFailure::Interrupted, CommandFailure::Failed))
        }
        Err(failure) => Some(failure),
    };
    if let Some(failure) = &failure {
        cli::print_error_lines(&format!("harrier bench: {failure}"));
    }
    let status = failure.as_ref().map_or(0, CommandFailure::status);
    match (controller_thread::close(status), failure) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(_)) => Err(CommandFailure::Reported(status)),
        (Err(why), None) => Err(CommandFailure::Failed(why)),
        (Err(why), Some(_)) => {
            cli::print_error_lines(&format!("harrier bench: {why}"));
            Err(CommandFailure::Reported(status))
        }
    }
}

/// Fails if a rank has failed. Commands that wait for a long time without polling a role call this.
///
/// # Errors
/// The rank, and its error.
pub fn check() -> Result<(), String> {
    if has_ranks() { ask(|controller| controller.check()) } else { Ok(()) }
}

/// Succeeds if the times in all reports are from one clock; otherwise the error is the largest remaining difference in
/// nanoseconds.
///
/// # Errors
/// That difference.
pub fn one_clock() -> Result<(), u64> {
    if !has_ranks() {
        return Ok(());
    }
    ask(|controller| Ok(rank_facts::one_clock(&controller.ranks))).unwrap_or(Err(u64::MAX))
}

/// The number of ranks that can run nodes of a tree; `None` if ranks share a host or there are none.
pub fn lone_ranks() -> Option<usize> {
    if !has_ranks() {
        return None;
    }
    // If the controller has failed, the run fails with its error.
    let hosts = ask(|controller| Ok(controller.ranks.iter().skip(1).map(|rank| rank.host_number).collect::<Vec<_>>()));
    let mut hosts = hosts.ok()?;
    let ranks = hosts.len();
    hosts.sort_unstable();
    hosts.dedup();
    (hosts.len() == ranks).then_some(ranks)
}

/// Facts for the document of a run with ranks: the launcher, hosts, roles, clock comparisons. Empty without ranks.
pub fn facts() -> Vec<(String, String)> {
    let facts = |controller: &mut rank_controller::RankController| {
        Ok(rank_facts::of(&controller.membership, &controller.ranks, &controller.assignment))
    };
    // If ranks have failed, the run fails with their error.
    if has_ranks() { ask(facts).unwrap_or_default() } else { Vec::new() }
}

/// Describes on one line which ranks run the roles; `None` without ranks.
pub fn placement() -> Option<String> {
    let placement = |controller: &mut rank_controller::RankController| {
        Ok(rank_facts::placement(&controller.membership, &controller.ranks, &controller.assignment))
    };
    has_ranks().then(|| ask(placement).ok()).flatten()
}

/// The rank on the host of the broker at an address.
///
/// # Errors
/// The controller has ended, or cannot tell.
pub(crate) fn rank_beside_broker(address: &str) -> Result<Option<usize>, String> {
    let address = address.to_owned();
    ask(move |controller| controller.rank_beside_broker(&address))
}

/// The local address that a host at `host:port` can reach this one by.
///
/// # Errors
/// An address that cannot be resolved or reached.
pub fn address_towards(other: &str) -> Result<IpAddr, String> {
    host_facts::local_address_towards(host_facts::resolve(other)?)
}

/// The number of ranks: 0 without a launcher.
///
/// # Errors
/// The controller has ended.
pub fn ranks() -> Result<usize, String> {
    if has_ranks() { ask(|controller| Ok(controller.ranks.len())) } else { Ok(0) }
}

/// The address where a stand-in for a broker (a relay, a null broker) listens so that all roles reach it: the broker's address
/// if it runs on the broker's host, otherwise this host's address towards the broker.
///
/// # Errors
/// An address that cannot be resolved or reached.
pub fn stand_in_address() -> Result<IpAddr, String> {
    if !has_ranks() {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    ask(|controller| controller.stand_in_address())
}

/// A role run by another rank; stopped when dropped.
pub struct RemoteRole {
    role: RoleId,
}

impl RemoteRole {
    /// Starts a role on a suitable rank; `None` without ranks, or if only this rank is suitable.
    pub fn start(kind: &str, task: &str, cpus: &CpuList) -> Result<Option<Self>, String> {
        if !has_ranks() {
            return Ok(None);
        }
        let (kind, task, cpus) = (kind.to_owned(), task.to_owned(), cpus.to_string());
        let role = ask(move |controller| controller.start(&kind, task, cpus))?;
        Ok(role.map(|role| Self { role }))
    }

    /// Starts a role on a given rank.
    pub fn start_on(rank: usize, kind: &str, task: &str) -> Result<Self, String> {
        let (kind, task, cpus) = (kind.to_owned(), task.to_owned(), CpuList::default().to_string());
        ask(move |controller| controller.start_on(rank, &kind, task, cpus)).map(|role| Self { role })
    }

    pub(crate) fn send_line(&mut self, line: &str) -> Result<(), String> {
        let (role, line) = (self.role, line.to_owned());
        ask(move |controller| controller.send_command(role, line))
    }

    /// Waits for the role's next line; `None` on timeout.
    pub(crate) fn next_output(&mut self, wait: Duration) -> Result<Option<RoleOutput>, String> {
        let role = self.role;
        ask(move |controller| controller.next_output(role, wait))
    }

    /// Describes the rank and host that run it.
    pub(crate) fn location(&self) -> String {
        let role = self.role;
        ask(move |controller| Ok(controller.describe_role(role))).unwrap_or_default()
    }
}

impl Drop for RemoteRole {
    fn drop(&mut self) {
        let role = self.role;
        // If a role cannot be stopped, the controller is aborted and its next call fails with the reason.
        let _told_later = ask(move |controller| controller.stop(role).inspect_err(|why| controller.abort(why)));
    }
}
