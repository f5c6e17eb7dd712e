//! A worker rank: runs roles for rank 0, each in a child process of its own.
//!
//! Roles never run in this process, so the code that is measured shares no thread with this communication.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use client::Url;
use gauge::clock::{Deadline, now_ns, pause};
use mio::{Events, Poll, Token, Waker};

use super::host_facts::{HostFacts, listens_here};
use super::membership::RankMembership;
use super::rank_mailbox::{MailboxEvent, RankMailbox};
use super::rank_message::{RankMessage, RoleId};
use super::{RankExit, VERSION};
use crate::interrupt;
use crate::limits::{KEEPALIVE_INTERVAL, RANKS_ARRIVE_WAIT, RANKS_LEAVE_WAIT};
use crate::placement::CpuList;
use crate::role_process::{RoleOutput, RoleProcess};

/// Longest time between checks for Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(200);
const MAILBOX_TOKEN: Token = Token(0);
const ROLES_TOKEN: Token = Token(1);

struct RankWorker {
    mailbox: RankMailbox,
    roles: BTreeMap<RoleId, RoleProcess>,
    outputs: Receiver<(RoleId, RoleOutput)>,
    output_sender: Sender<(RoleId, RoleOutput)>,
    waker: Arc<Waker>,
}

/// Serves rank 0 until it ends the run, and returns the exit status.
///
/// # Errors
/// The failure of this rank, reported to rank 0 if that is possible.
pub fn run(membership: &RankMembership, url: &str) -> Result<RankExit, String> {
    let mut mailbox = RankMailbox::open(url, &membership.name, membership.rank)?;
    if let Some(over) = join(&mut mailbox, membership, url)? {
        return Ok(over);
    }
    let mut poll = Poll::new().map_err(|error| error.to_string())?;
    let waker = Arc::new(Waker::new(poll.registry(), ROLES_TOKEN).map_err(|error| error.to_string())?);
    mailbox.register(poll.registry(), MAILBOX_TOKEN)?;
    let (output_sender, output) = channel();
    let mut worker = RankWorker { mailbox, roles: BTreeMap::new(), outputs: output, output_sender, waker };
    match worker.serve(&mut poll) {
        Ok(over) => {
            worker.roles.clear();
            worker.mailbox.send(0, RankMessage::Left)?;
            worker.mailbox.close()?;
            Ok(over)
        }
        Err(WorkerError::Disconnected(why)) => Err(why),
        Err(WorkerError::Failed(why)) => worker.fail(why),
    }
}

/// Why a worker ends before rank 0 ends the run.
enum WorkerError {
    /// The connection is lost, so rank 0 cannot be notified.
    Disconnected(String),
    /// Rank 0 can be notified.
    Failed(String),
}

/// Announces this rank to rank 0 and waits until all ranks are ready.
fn join(mailbox: &mut RankMailbox, membership: &RankMembership, url: &str) -> Result<Option<RankExit>, String> {
    let address = Url::parse(url).map_err(|error| error.to_string())?.address;
    let host = Box::new(HostFacts::read(&address));
    let arrived = || RankMessage::Arrived { ranks: membership.ranks, version: VERSION.to_owned(), host: host.clone() };
    let deadline = Deadline::after(RANKS_ARRIVE_WAIT);
    mailbox.send(0, arrived())?;
    let mut came_back = false;
    while !deadline.passed() {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        match mailbox.receive(INTERRUPT_CHECK_INTERVAL)? {
            Some(MailboxEvent::Message(0, RankMessage::Welcome)) => return Ok(None),
            Some(MailboxEvent::Message(0, RankMessage::End { status })) => return Ok(Some(RankExit { status })),
            Some(MailboxEvent::Message(from, message)) => {
                return Err(format!("rank {from} sent {message:?} before all ranks were ready"));
            }
            Some(MailboxEvent::RankGone(_)) => {
                // Rank 0 has no mailbox yet.
                came_back = true;
                pause(Duration::from_millis(20));
                mailbox.send(0, arrived())?;
            }
            None => came_back = false,
        }
    }
    let who = if came_back { "rank 0 did not arrive" } else { "rank 0 did not say that all ranks are here" };
    Err(format!("{who} within {} s", RANKS_ARRIVE_WAIT.as_secs()))
}

impl RankWorker {
    fn serve(&mut self, poll: &mut Poll) -> Result<RankExit, WorkerError> {
        let mut events = Events::with_capacity(16);
        let mut keepalive = Deadline::after(KEEPALIVE_INTERVAL);
        loop {
            if interrupt::requested() {
                return Err(WorkerError::Failed(interrupt::MESSAGE.to_owned()));
            }
            while let Ok((role, output)) = self.outputs.try_recv() {
                self.forward_output(role, output).map_err(WorkerError::Disconnected)?;
            }
            if keepalive.passed() {
                self.mailbox.send(0, RankMessage::KeepAlive).map_err(WorkerError::Disconnected)?;
                keepalive = Deadline::after(KEEPALIVE_INTERVAL);
            }
            // Messages last: sending may have buffered some, and no edge would announce them.
            while let Some(event) = self.mailbox.receive(Duration::ZERO).map_err(WorkerError::Disconnected)? {
                match event {
                    MailboxEvent::RankGone(rank) => {
                        return Err(WorkerError::Disconnected(format!("rank {rank} ended")));
                    }
                    MailboxEvent::Message(0, RankMessage::End { status }) => return Ok(RankExit { status }),
                    MailboxEvent::Message(0, message) => self.execute(message)?,
                    MailboxEvent::Message(from, message) => {
                        return Err(WorkerError::Failed(format!(
                            "rank {from} is not the controller, but sent {message:?}"
                        )));
                    }
                }
            }
            match poll.poll(&mut events, Some(INTERRUPT_CHECK_INTERVAL)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    return Err(WorkerError::Failed(error.to_string()));
                }
                _ => {}
            }
        }
    }

    fn execute(&mut self, message: RankMessage) -> Result<(), WorkerError> {
        match message {
            RankMessage::Clock { question } => {
                self.mailbox
                    .send(0, RankMessage::Time { question, now_ns: now_ns() })
                    .map_err(WorkerError::Disconnected)?;
            }
            RankMessage::FindBroker { question, address } => {
                self.mailbox
                    .send(0, RankMessage::BrokerSeen { question, sees: listens_here(&address) })
                    .map_err(WorkerError::Disconnected)?;
            }
            RankMessage::Start { role, kind, task, cpus } => {
                if let Err(why) = self.start(role, &kind, &task, &cpus) {
                    self.mailbox
                        .send(0, RankMessage::Ended { role, why: Some(why) })
                        .map_err(WorkerError::Disconnected)?;
                }
            }
            RankMessage::Command { role, line } => {
                // A role that has ended accepts no input; its exit status is the better explanation.
                if let Some(process) = self.roles.get_mut(&role)
                    && let Err(why) = process.send_line(&line)
                {
                    let why = process.failure().unwrap_or(why);
                    self.mailbox
                        .send(0, RankMessage::Ended { role, why: Some(why) })
                        .map_err(WorkerError::Disconnected)?;
                }
            }
            RankMessage::Stop { role } => {
                drop(self.roles.remove(&role));
                self.mailbox.send(0, RankMessage::Ended { role, why: None }).map_err(WorkerError::Disconnected)?;
            }
            RankMessage::KeepAlive => {}
            other => return Err(WorkerError::Failed(format!("rank 0 sent {other:?} to a worker rank"))),
        }
        Ok(())
    }

    fn start(&mut self, role: RoleId, kind: &str, task: &str, cpus: &str) -> Result<(), String> {
        // Messages may start roles and nothing else.
        if kind == "launch" || !kind.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
            return Err(format!("'{kind}' is not a role"));
        }
        let cpus = if cpus == "any" { CpuList::default() } else { CpuList::parse(cpus)? };
        let (output_sender, waker) = (self.output_sender.clone(), Arc::clone(&self.waker));
        let mut process = RoleProcess::start(kind, &cpus, move |output| {
            // If the receiver or the poll is gone, the worker has ended, and the reader thread ends too.
            output_sender.send((role, output)).is_ok() && waker.wake().is_ok()
        })?;
        process.send_line(task)?;
        self.roles.insert(role, process);
        Ok(())
    }

    fn forward_output(&mut self, role: RoleId, output: RoleOutput) -> Result<(), String> {
        match (output, self.roles.get_mut(&role)) {
            (RoleOutput::Line(line), _) => self.mailbox.send(0, RankMessage::Report { role, line }),
            (RoleOutput::Ended(_), _) if interrupt::requested() => Ok(()),
            (RoleOutput::Ended(why), Some(process)) => {
                let why = why.or_else(|| process.failure());
                self.mailbox.send(0, RankMessage::Ended { role, why })
            }
            // The end of a stopped role is already reported; after Ctrl-C the end of this rank is reported instead.
            (RoleOutput::Ended(_), None) => Ok(()),
        }
    }

    /// Reports the failure to rank 0 and waits until it has saved its results: a launcher that sees a rank fail kills the
    /// others.
    fn fail(mut self, why: String) -> Result<RankExit, String> {
        self.roles.clear();
        self.mailbox.send(0, RankMessage::Failed { why: why.clone() })?;
        let deadline = Deadline::after(RANKS_LEAVE_WAIT);
        while !deadline.passed() {
            match self.mailbox.receive(INTERRUPT_CHECK_INTERVAL)? {
                Some(MailboxEvent::Message(0, RankMessage::End { status })) => {
                    self.mailbox.send(0, RankMessage::Left)?;
                    self.mailbox.close()?;
                    return Ok(RankExit { status });
                }
                Some(MailboxEvent::RankGone(_)) => break,
                _ => {}
            }
        }
        Err(why)
    }
}
