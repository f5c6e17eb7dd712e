//! Runs on many hosts: under `mpirun` or `srun` each process is a rank, rank 0 controls and the others run roles.
//!
//! No launcher library is linked: ranks communicate through the broker that they measure.
//!
//! Read `membership` first (which rank is this), then `rank_message` (the protocol), `rank_controller` (rank 0) and
//! `rank_worker` (the others).

mod assignment;
mod clock_mapping;
mod rank_controller;
mod rank_facts;
mod host_facts;
mod rank_message;
mod membership;
mod controller_thread;
mod rank_mailbox;
mod time_fields;
mod target_meter;
mod rank_options;
mod rank_worker;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::failure::CommandFailure;
use crate::interrupt;
use crate::placement::CpuList;
use crate::process::RoleOutput;
use rank_message::RoleId;
use controller_thread::ask;
pub(crate) use controller_thread::has_ranks;
use rank_options::RankOptions;

pub use host_facts::is_local_address;
pub use target_meter::TargetMeter;
pub use rank_options::HELP;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commands that read files or explain, and so need no other rank.
const WITHOUT_RANKS: [&str; 6] = ["", "help", "--help", "-h", "compare", "report"];
/// Commands that measure no broker.
const WITHOUT_BROKER: [&str; 2] = ["baseline", "floor"];
/// Commands that are about one machine.
const ONE_MACHINE: [&str; 2] = ["perf", "scale"];

/// How a run ended, as rank 0 told this rank.
#[derive(Clone, Copy, Debug)]
pub struct RankExit {
    status: u8,
}

/// Runs a command: as it is where no launcher speaks; otherwise on rank 0, while the other ranks play.
///
/// # Errors
/// The command's; `Failure::Told` where it has been printed already, or was printed by rank 0.
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
        return Err(CommandFailure::Usage(by_rank(format!("{command} is about one machine: start it without a launcher"))));
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
    // What stands in a broker's place measures none, but its ranks meet at one.
    let needs_no_broker = WITHOUT_BROKER.contains(&command);
    finish(if needs_no_broker { run(&rank_options::without_url(&words)) } else { run(&words) })
}

/// Ends the run on all ranks with the outcome of the command on this one. What went wrong is printed first: a launcher
/// that sees one rank fail ends the others, this one included.
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
        eprintln!("harrier bench: {failure}");
    }
    let status = failure.as_ref().map_or(0, CommandFailure::status);
    match (controller_thread::close(status), failure) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(_)) => Err(CommandFailure::Reported(status)),
        (Err(why), None) => Err(CommandFailure::Failed(why)),
        (Err(why), Some(_)) => {
            eprintln!("harrier bench: {why}");
            Err(CommandFailure::Reported(status))
        }
    }
}

/// An error when a rank cannot go on; commands that wait for long without asking a role ask this.
///
/// # Errors
/// Which rank, and why.
pub fn check() -> Result<(), String> {
    if has_ranks() { ask(|controller| controller.check()) } else { Ok(()) }
}

/// Whether every time that a role reports is of one clock, to the nanosecond; otherwise, the largest difference that the
/// comparisons leave open, in nanoseconds.
///
/// # Errors
/// That difference.
pub fn one_clock() -> Result<(), u64> {
    if !has_ranks() {
        return Ok(());
    }
    ask(|controller| Ok(rank_facts::one_clock(&controller.ranks))).unwrap_or(Err(u64::MAX))
}

/// How many ranks can be given nodes of a tree, if each of them is alone on its host; `None` where some share one, or are none.
pub fn lone_ranks() -> Option<usize> {
    if !has_ranks() {
        return None;
    }
    // Who cannot be asked has no hosts; the run fails because of that.
    let hosts = ask(|controller| Ok(controller.ranks.iter().skip(1).map(|rank| rank.host_number).collect::<Vec<_>>()));
    let mut hosts = hosts.ok()?;
    let ranks = hosts.len();
    hosts.sort_unstable();
    hosts.dedup();
    (hosts.len() == ranks).then_some(ranks)
}

/// What belongs into the document of a run with ranks: the launcher, each host, who plays what, how the clocks compare.
/// Empty without ranks.
pub fn facts() -> Vec<(String, String)> {
    let facts = |controller: &mut rank_controller::RankController| {
        Ok(rank_facts::of(&controller.membership, &controller.ranks, &controller.assignment))
    };
    // Ranks that are gone leave the document without them, and the run fails because of them.
    if has_ranks() { ask(facts).unwrap_or_default() } else { Vec::new() }
}

/// Where the roles are played, as one line; `None` without ranks.
pub fn placement() -> Option<String> {
    let placement = |controller: &mut rank_controller::RankController| {
        Ok(rank_facts::placement(&controller.membership, &controller.ranks, &controller.assignment))
    };
    has_ranks().then(|| ask(placement).ok()).flatten()
}

/// The rank that sees the processes of the broker at an address.
fn rank_beside_broker(address: &str) -> Result<Option<usize>, String> {
    let address = address.to_owned();
    ask(move |controller| controller.rank_beside_broker(&address))
}

/// The address of this host that others reach it by, if they are where `host:port` is.
///
/// # Errors
/// An address that leads nowhere.
pub fn address_towards(other: &str) -> Result<IpAddr, String> {
    host_facts::own_address_towards(host_facts::resolve(other)?)
}

/// How many ranks there are: 0 without a launcher.
///
/// # Errors
/// The conversation with them has ended.
pub fn ranks() -> Result<usize, String> {
    if has_ranks() { ask(|controller| Ok(controller.ranks.len())) } else { Ok(0) }
}

/// Where a stand-in for a broker (a relay, a null broker) listens so that every role reaches it: on the broker's address
/// where it is played on the broker's host, otherwise on the one that this host speaks to the broker from.
///
/// # Errors
/// An address that leads nowhere.
pub fn stand_in_address() -> Result<IpAddr, String> {
    if !has_ranks() {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    ask(|controller| controller.stand_in_address())
}

/// A role that another rank plays; ended when dropped.
pub struct RemoteRole {
    role: RoleId,
}

impl RemoteRole {
    /// Has a suited rank play it; `None` without ranks, and where no rank is suited but this one.
    pub fn start(kind: &str, task: &str, cpus: &CpuList) -> Result<Option<Self>, String> {
        if !has_ranks() {
            return Ok(None);
        }
        let (kind, task, cpus) = (kind.to_owned(), task.to_owned(), cpus.to_string());
        let role = ask(move |controller| controller.start(&kind, task, cpus))?;
        Ok(role.map(|role| Self { role }))
    }

    /// Has a rank play it, whatever it is suited for.
    pub fn start_on(rank: usize, kind: &str, task: &str) -> Result<Self, String> {
        let (kind, task, cpus) = (kind.to_owned(), task.to_owned(), CpuList::default().to_string());
        ask(move |controller| controller.start_on(rank, &kind, task, cpus)).map(|role| Self { role })
    }

    /// One more line for it.
    pub fn send_line(&mut self, line: &str) -> Result<(), String> {
        let (role, line) = (self.role, line.to_owned());
        ask(move |controller| controller.send_command(role, line))
    }

    /// Its next line; `None` if none comes in time.
    pub fn next_output(&mut self, wait: Duration) -> Result<Option<RoleOutput>, String> {
        let role = self.role;
        ask(move |controller| controller.next_output(role, wait))
    }

    /// Where it is played, in words.
    pub fn location(&self) -> String {
        let role = self.role;
        ask(move |controller| Ok(controller.describe_role(role))).unwrap_or_default()
    }
}

impl Drop for RemoteRole {
    fn drop(&mut self) {
        let role = self.role;
        // What keeps a role from ending keeps the run from going on, and the next call on the ranks tells.
        let _told_later = ask(move |controller| controller.stop(role).inspect_err(|why| controller.abort(why)));
    }
}
