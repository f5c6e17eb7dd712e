//! Runs on many hosts: under `mpirun` or `srun` each process of the job is a rank, and the roles are played on all of them.
//!
//! Enters: the launcher's variables, the command line.  Leaves: the command, run on rank 0 with roles on the other ranks.
//! Owns:   rank 0's conversation with the others while a command runs.
//! Never:  links a library of a launcher: ranks meet through the broker that they measure.
//!
//! Begin with `membership` (which rank am I), then `letter` (what ranks say), `controller` (rank 0), `worker` (the others).

mod assignment;
mod clocks;
mod controller;
mod facts;
mod host;
mod letter;
mod membership;
mod post;
mod times;
mod wishes;
mod worker;

use std::cell::RefCell;
use std::time::Duration;

use crate::failure::Failure;
use crate::interrupt;
use crate::placement::Cpus;
use crate::process::Heard;
use controller::Controller;
use letter::RoleNumber;
use wishes::Wishes;

pub use wishes::HELP;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commands that read files or explain, and so need no other rank.
const WITHOUT_RANKS: [&str; 6] = ["", "help", "--help", "-h", "compare", "report"];
/// Commands that are about one machine.
const ONE_MACHINE: [&str; 2] = ["perf", "scale"];

thread_local! {
    static CONTROLLER: RefCell<Option<Controller>> = const { RefCell::new(None) };
}

/// How a run ended, as rank 0 told this rank.
#[derive(Clone, Copy, Debug)]
pub struct Over {
    status: u8,
}

/// Runs a command: as it is where no launcher speaks; otherwise on rank 0, while the other ranks play.
///
/// # Errors
/// The command's; [`Failure::Told`] where it has been printed already, or was printed by rank 0.
pub fn within(
    command: &str,
    words: &[String],
    run: impl FnOnce(&[String]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let asks_for_help = words.iter().any(|word| word == "--help" || word == "-h");
    let (wishes, words) = Wishes::take(words).map_err(Failure::Usage)?;
    let membership = membership::detect(&|name| std::env::var(name).ok(), &wishes).map_err(Failure::Usage)?;
    let Some(membership) = membership else { return run(&words) };
    if WITHOUT_RANKS.contains(&command) || asks_for_help {
        return if membership.rank == 0 { run(&words) } else { Ok(()) };
    }
    let by_rank = |why: String| format!("rank {}: {why}", membership.rank);
    if ONE_MACHINE.contains(&command) {
        return Err(Failure::Usage(by_rank(format!("{command} is about one machine: start it without a launcher"))));
    }
    let url = wishes::url(&words).ok_or_else(|| {
        Failure::Usage(by_rank("ranks meet through the broker: --url says where it listens".to_owned()))
    })?;
    if membership.rank > 0 {
        return match worker::play(&membership, url) {
            Ok(Over { status: 0 }) => Ok(()),
            Ok(Over { status }) => Err(Failure::Told(status)),
            Err(_) if interrupt::requested() => Err(Failure::Told(Failure::Interrupted.status())),
            Err(why) => Err(Failure::Failed(by_rank(why))),
        };
    }
    let controller = Controller::gather(membership, url, wishes.agent, wishes.roles.as_ref())?;
    eprintln!("harrier bench: {}", facts::placement(&controller.membership, &controller.ranks, &controller.seats));
    CONTROLLER.set(Some(controller));
    leave(run(&words))
}

/// Ends the run on all ranks with the outcome of the command on this one. What went wrong is printed first: a launcher
/// that sees one rank fail ends the others, this one included.
fn leave(outcome: Result<(), Failure>) -> Result<(), Failure> {
    let Some(mut controller) = CONTROLLER.take() else { return outcome };
    let failure = outcome.err().map(|failure| match failure.or_interrupted() {
        Failure::Interrupted => controller.who_ended().map_or(Failure::Interrupted, Failure::Failed),
        other => other,
    });
    if let Some(failure) = &failure {
        eprintln!("harrier bench: {failure}");
    }
    let status = failure.as_ref().map_or(0, Failure::status);
    match (controller.end(status), failure) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(_)) => Err(Failure::Told(status)),
        (Err(why), None) => Err(Failure::Failed(why)),
        (Err(why), Some(_)) => {
            eprintln!("harrier bench: {why}");
            Err(Failure::Told(status))
        }
    }
}

fn with<T>(act: impl FnOnce(&mut Controller) -> Result<T, String>) -> Result<T, String> {
    CONTROLLER.with_borrow_mut(|controller| match controller {
        Some(controller) => act(controller),
        None => Err("this thread has no ranks".to_owned()),
    })
}

/// Whether roles are played on other ranks.
pub fn has_ranks() -> bool {
    CONTROLLER.with_borrow(Option::is_some)
}

/// Whether every time that a role reports is of the same clock, to the nanosecond; otherwise, the largest difference that
/// the comparisons leave open, in nanoseconds.
pub fn one_clock() -> Result<(), u64> {
    CONTROLLER.with_borrow(|controller| match controller {
        Some(controller) => facts::one_clock(&controller.ranks),
        None => Ok(()),
    })
}

/// What belongs into the document of a run with ranks: the launcher, each host, who played what, how the clocks compare.
/// Empty without ranks.
pub fn facts() -> Vec<(String, String)> {
    CONTROLLER.with_borrow(|controller| {
        controller
            .as_ref()
            .map_or_else(Vec::new, |controller| facts::of(&controller.membership, &controller.ranks, &controller.seats))
    })
}

/// Where the roles are played, as one line; `None` without ranks.
pub fn placement() -> Option<String> {
    CONTROLLER.with_borrow(|controller| {
        controller
            .as_ref()
            .map(|controller| facts::placement(&controller.membership, &controller.ranks, &controller.seats))
    })
}

/// A role that another rank plays; ended when dropped.
pub struct Away {
    role: RoleNumber,
}

impl Away {
    /// Has a suited rank play it; `None` without ranks, and where no rank is suited but this one.
    pub fn start(kind: &str, task: &str, cpus: &Cpus) -> Result<Option<Self>, String> {
        if !has_ranks() {
            return Ok(None);
        }
        let role = with(|controller| controller.start(kind, task.to_owned(), cpus.to_string()))?;
        Ok(role.map(|role| Self { role }))
    }

    /// One more line for it.
    pub fn say(&mut self, line: &str) -> Result<(), String> {
        with(|controller| controller.order(self.role, line.to_owned()))
    }

    /// Its next line; `None` if none comes in time.
    pub fn hear(&mut self, wait: Duration) -> Result<Option<Heard>, String> {
        with(|controller| controller.hear(self.role, wait))
    }

    /// Where it is played, in words.
    pub fn place(&self) -> String {
        let place = with(|controller| Ok(controller.place_of(self.role)));
        place.ok().flatten().map_or_else(String::new, |(rank, host)| format!("rank {rank} on host {host}"))
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        // What keeps a role from ending keeps the run from going on, and the next call on it tells.
        let _told_later = with(|controller| controller.stop(self.role).inspect_err(|why| controller.give_up(why)));
    }
}
