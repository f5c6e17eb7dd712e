//! The controller on rank 0: knows all ranks, starts roles on them, and translates the times in their reports to its own clock.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use client::Url;
use gauge::clock::{Deadline, now_ns};
use gauge::{ClockExchange, offset};

use super::VERSION;
use super::assignment::{RankAssignment, RoleClass, RoleOverrides};
use super::clock_mapping::{ClockComparison, ClockMapping};
use super::host_facts::{self, HostFacts};
use super::membership::RankMembership;
use super::rank_mailbox::{MailboxEvent, RankMailbox};
use super::rank_message::{RankMessage, RoleId};
use super::time_fields::{has_times, map_times};
use crate::interrupt;
use crate::limits::{
    BROKER_QUERY_WAIT, CHILD_END_WAIT, CLOCK_QUESTIONS, CLOCK_WAIT, KEEPALIVE_INTERVAL, RANKS_ARRIVE_WAIT,
    RANKS_LEAVE_WAIT,
};
use crate::role_process::RoleOutput;
use crate::role_protocol::RoleReport;

/// Longest time between checks for Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum age of the clock comparison that times are mapped with.
const COMPARISON_AGE_MAX: Duration = Duration::from_secs(1);

/// The controller on rank 0.
pub struct RankController {
    mailbox: RankMailbox,
    /// The address of the broker that the ranks communicate through.
    address: String,
    pub membership: RankMembership,
    /// All ranks, this one first.
    pub ranks: Vec<RankState>,
    pub assignment: RankAssignment,
    roles: BTreeMap<RoleId, RemoteRoleState>,
    roles_started: RoleId,
    questions: u64,
    clock_answer: Option<(usize, u64, u64, u64)>,
    broker_seen: Option<(u64, bool)>,
    keepalive: Deadline,
    failure: Option<String>,
    /// The rank that ended without saying why.
    lost_rank: Option<usize>,
}

pub struct RankState {
    pub host: HostFacts,
    /// The number of its host: 0 is this host.
    pub host_number: usize,
    pub clocks: ClockMapping,
    /// Whether it shares this rank's clock.
    pub one_clock: bool,
    ended: bool,
}

struct RemoteRoleState {
    kind: String,
    rank: usize,
    output: VecDeque<RoleOutput>,
    ended: bool,
}

impl RemoteRoleState {
    /// The reason in the last report, if it is a failure that has not been read yet.
    fn failure_report(&self) -> Option<String> {
        let Some(RoleOutput::Line(line)) = self.output.back() else { return None };
        match serde_json::from_str(line) {
            Ok(RoleReport::Failed { why }) => Some(why),
            _ => None,
        }
    }
}

fn describe_rank(rank: usize, ranks: &[RankState]) -> String {
    format!("rank {rank} on host {}", ranks[rank].host_number)
}

impl RankController {
    /// Waits for all ranks and compares clocks with them.
    ///
    /// # Errors
    /// Ranks that did not arrive, or that do not belong to this run.
    pub fn gather(
        membership: RankMembership,
        url: &str,
        agent: Option<usize>,
        roles: Option<&RoleOverrides>,
    ) -> Result<Self, String> {
        let address = Url::parse(url).map_err(|error| error.to_string())?.address;
        let mut mailbox = RankMailbox::open(url, &membership.name, 0)?;
        let gathered = wait_for_all(&mut mailbox, &membership, HostFacts::read(&address));
        let placed = gathered.and_then(|hosts| {
            let numbers = host_numbers(&hosts);
            let broker = hosts.iter().position(|host| host.sees_broker);
            let seen_here = hosts[0].sees_broker;
            let agent = agent.or(broker.filter(|_| !seen_here)).filter(|&rank| rank > 0);
            let broker_host = agent.or(broker).map(|rank| numbers[rank]);
            Ok((RankAssignment::assign(&numbers, broker_host, agent, roles)?, hosts, numbers))
        });
        let (assignment, hosts, numbers) = match placed {
            Ok(placed) => placed,
            Err(why) => {
                // Release the ranks that have arrived, which would otherwise wait until their timeout.
                let sent =
                    (1..membership.ranks).try_for_each(|rank| mailbox.send(rank, RankMessage::End { status: 1 }));
                return match sent.and_then(|()| mailbox.close()) {
                    Ok(()) => Err(why),
                    Err(error) => Err(format!("{why} (and the others could not be notified: {error})")),
                };
            }
        };
        let clock_mark = hosts[0].clock_mark;
        let ranks = hosts.into_iter().zip(numbers).map(|(host, host_number)| RankState {
            one_clock: host.clock_mark == clock_mark,
            host,
            host_number,
            clocks: ClockMapping::default(),
            ended: false,
        });
        let mut controller = Self {
            mailbox,
            address,
            ranks: ranks.collect(),
            assignment,
            membership,
            roles: BTreeMap::new(),
            roles_started: 0,
            questions: 0,
            clock_answer: None,
            broker_seen: None,
            keepalive: Deadline::after(KEEPALIVE_INTERVAL),
            failure: None,
            lost_rank: None,
        };
        for rank in 1..controller.ranks.len() {
            controller.mailbox.send(rank, RankMessage::Welcome)?;
        }
        for rank in 1..controller.ranks.len() {
            controller.compare_clocks(rank)?;
        }
        Ok(controller)
    }

    /// Starts a role on a suitable rank; `None` if there is none (for an agent, if this rank's host has the broker).
    pub fn start(&mut self, kind: &str, task: String, cpus: String) -> Result<Option<RoleId>, String> {
        self.check()?;
        let load = |rank: usize| self.roles.values().filter(|state| state.rank == rank && !state.ended).count();
        let Some(rank) = self.assignment.rank_for(RoleClass::of(kind), load) else { return Ok(None) };
        self.start_on(rank, kind, task, cpus).map(Some)
    }

    /// Starts a role on a given rank.
    pub fn start_on(&mut self, rank: usize, kind: &str, task: String, cpus: String) -> Result<RoleId, String> {
        if !self.has_running_roles(rank) {
            self.compare_clocks(rank)?;
        }
        self.roles_started += 1;
        let role = self.roles_started;
        self.roles.insert(role, RemoteRoleState { kind: kind.to_owned(), rank, output: VecDeque::new(), ended: false });
        let task = self.to_rank_clock(rank, task)?;
        self.send(rank, RankMessage::Start { role, kind: kind.to_owned(), task, cpus })?;
        Ok(role)
    }

    fn has_running_roles(&self, rank: usize) -> bool {
        self.roles.values().any(|state| state.rank == rank && !state.ended)
    }

    /// The rank on the host of the broker at an address, if there is one.
    pub fn rank_beside_broker(&mut self, address: &str) -> Result<Option<usize>, String> {
        if address == self.address {
            return Ok(self.assignment.agent);
        }
        for rank in 1..self.ranks.len() {
            self.questions += 1;
            let question = self.questions;
            self.send(rank, RankMessage::FindBroker { question, address: address.to_owned() })?;
            let deadline = Deadline::after(BROKER_QUERY_WAIT);
            let sees = loop {
                match self.broker_seen.take() {
                    Some((requested, sees)) if requested == question => break sees,
                    _ if deadline.passed() => {
                        return Err(format!(
                            "rank {rank} did not report whether the broker at {address} is on its host"
                        ));
                    }
                    _ => self.process_next(deadline)?,
                }
            };
            if sees {
                return Ok(Some(rank));
            }
        }
        Ok(None)
    }

    /// See [`super::stand_in_address`].
    pub fn stand_in_address(&self) -> Result<IpAddr, String> {
        if self.ranks.iter().all(|rank| rank.host_number == 0) {
            return Ok(Ipv4Addr::LOCALHOST.into());
        }
        let broker = host_facts::resolve(&self.address)?;
        let on_its_host = self.assignment.agent.is_some() || self.ranks[0].host.sees_broker;
        if on_its_host { Ok(broker.ip()) } else { host_facts::local_address_towards(broker) }
    }

    /// Sends a line to a role.
    pub fn send_command(&mut self, role: RoleId, line: String) -> Result<(), String> {
        let rank = self.rank_of(role)?;
        let line = self.to_rank_clock(rank, line)?;
        self.send(rank, RankMessage::Command { role, line })
    }

    /// Waits for the next line of a role, with times converted to this rank's clock; `None` on timeout.
    pub fn next_output(&mut self, role: RoleId, wait: Duration) -> Result<Option<RoleOutput>, String> {
        let deadline = Deadline::after(wait);
        let rank = self.rank_of(role)?;
        loop {
            let state = self.roles.get_mut(&role).ok_or("the role has been stopped")?;
            match state.output.pop_front() {
                Some(RoleOutput::Line(line)) if !self.ranks[rank].one_clock && has_times(&line) => {
                    let age_ns = self.ranks[rank].clocks.last().map_or(u64::MAX, |last| now_ns() - last.at_ns);
                    if age_ns > COMPARISON_AGE_MAX.as_nanos() as u64 {
                        self.compare_clocks(rank)?;
                    }
                    let clocks = &self.ranks[rank].clocks;
                    return map_times(&line, &|time_ns| clocks.to_own(time_ns))
                        .map(|line| Some(RoleOutput::Line(line)));
                }
                Some(output) => return Ok(Some(output)),
                None if state.ended => return Ok(Some(RoleOutput::Ended(None))),
                None if deadline.passed() => return self.check().map(|()| None),
                None => self.process_next(deadline)?,
            }
        }
    }

    /// Stops a role and waits until it has ended.
    pub fn stop(&mut self, role: RoleId) -> Result<(), String> {
        let rank = self.rank_of(role)?;
        let outcome = self.stop_and_wait(role, rank);
        self.roles.remove(&role);
        outcome?;
        if !self.has_running_roles(rank) {
            self.compare_clocks(rank)?;
        }
        Ok(())
    }

    fn stop_and_wait(&mut self, role: RoleId, rank: usize) -> Result<(), String> {
        self.send(rank, RankMessage::Stop { role })?;
        let deadline = Deadline::after(CHILD_END_WAIT * 2);
        // If its process has already ended, the rank reports its end twice and the first report counts.
        while self.roles.get(&role).is_some_and(|state| !state.ended) {
            if deadline.passed() {
                return Err(format!("rank {rank} did not end its role"));
            }
            self.process_next(deadline)?;
        }
        Ok(())
    }

    /// Compares clocks with a rank now.
    pub fn compare_clocks(&mut self, rank: usize) -> Result<(), String> {
        let mut exchanges = Vec::with_capacity(CLOCK_QUESTIONS);
        for _ in 0..CLOCK_QUESTIONS {
            self.questions += 1;
            let question = self.questions;
            let request_sent_ns = now_ns();
            self.send(rank, RankMessage::Clock { question })?;
            let deadline = Deadline::after(CLOCK_WAIT);
            let (answered_ns, received_ns) = loop {
                match self.clock_answer.take() {
                    Some((from, requested, answered_ns, received_ns)) if from == rank && requested == question => {
                        break (answered_ns, received_ns);
                    }
                    _ if deadline.passed() => {
                        return Err(format!("rank {rank} did not report its clock within {} s", CLOCK_WAIT.as_secs()));
                    }
                    _ => self.process_next(deadline)?,
                }
            };
            exchanges.push(ClockExchange {
                request_sent_ns,
                request_received_ns: answered_ns,
                reply_sent_ns: answered_ns,
                reply_received_ns: received_ns,
            });
        }
        let offset = offset(&exchanges).ok_or_else(|| format!("the clock of rank {rank} cannot be compared"))?;
        let rank = &mut self.ranks[rank];
        // Whatever the kernel claims: a shared clock has no offset.
        rank.one_clock &= offset.offset_ns.unsigned_abs() <= offset.error_ns;
        rank.clocks.add(ClockComparison { at_ns: now_ns(), offset });
        Ok(())
    }

    fn to_rank_clock(&self, rank: usize, line: String) -> Result<String, String> {
        let rank = &self.ranks[rank];
        if rank.one_clock || !has_times(&line) {
            return Ok(line);
        }
        map_times(&line, &|time_ns| rank.clocks.to_other(time_ns))
    }

    fn rank_of(&self, role: RoleId) -> Result<usize, String> {
        self.roles.get(&role).map(|state| state.rank).ok_or_else(|| "the role has been stopped".to_owned())
    }

    /// Describes the rank and host that run a role.
    pub fn describe_role(&self, role: RoleId) -> String {
        self.roles.get(&role).map_or_else(String::new, |state| describe_rank(state.rank, &self.ranks))
    }

    fn send(&mut self, rank: usize, message: RankMessage) -> Result<(), String> {
        self.check()?;
        self.mailbox.send(rank, message)
    }

    /// Fails if a rank has failed or this process was interrupted.
    pub fn check(&self) -> Result<(), String> {
        match &self.failure {
            _ if interrupt::requested() => Err(interrupt::MESSAGE.to_owned()),
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// Processes one message, if one arrives in time, and sends keep-alives.
    fn process_next(&mut self, deadline: Deadline) -> Result<(), String> {
        self.check()?;
        if self.keepalive.passed() {
            self.send_keepalives()?;
        }
        if let Some(event) = self.mailbox.receive(deadline.left().min(INTERRUPT_CHECK_INTERVAL))? {
            self.handle(event);
        }
        self.check()
    }

    /// Processes the messages that arrived while the command was busy elsewhere.
    pub fn process_pending(&mut self) {
        let mut look = || -> Result<(), String> {
            if self.keepalive.passed() {
                self.send_keepalives()?;
            }
            while let Some(event) = self.mailbox.receive(Duration::ZERO)? {
                self.handle(event);
            }
            Ok(())
        };
        if let Err(why) = look() {
            self.abort(&why);
        }
    }

    fn send_keepalives(&mut self) -> Result<(), String> {
        self.keepalive = Deadline::after(KEEPALIVE_INTERVAL);
        for rank in 1..self.ranks.len() {
            if !self.ranks[rank].ended {
                self.mailbox.send(rank, RankMessage::KeepAlive)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: MailboxEvent) {
        let received_ns = now_ns();
        let (from, message) = match event {
            MailboxEvent::RankGone(rank) => {
                if let Some(state) = self.ranks.get_mut(rank).filter(|state| !state.ended) {
                    state.ended = true;
                    self.lost_rank.get_or_insert(rank);
                    self.failure.get_or_insert(format!("rank {rank} ended"));
                }
                return;
            }
            MailboxEvent::Message(from, message) => (from, message),
        };
        match message {
            RankMessage::Report { role, line } => self.record_output(role, RoleOutput::Line(line)),
            RankMessage::Ended { role, why } => self.record_output(role, RoleOutput::Ended(why)),
            RankMessage::Time { question, now_ns } => self.clock_answer = Some((from, question, now_ns, received_ns)),
            RankMessage::BrokerSeen { question, sees } => self.broker_seen = Some((question, sees)),
            RankMessage::KeepAlive => {}
            RankMessage::Failed { why } => {
                self.failure.get_or_insert(format!("rank {from}: {why}"));
            }
            RankMessage::Left => {
                if let Some(rank) = self.ranks.get_mut(from) {
                    rank.ended = true;
                }
            }
            other => {
                self.failure.get_or_insert(format!("rank {from} sent {other:?}, which only rank 0 sends"));
            }
        }
    }

    /// Records a line of a role; output of a stopped role is dropped. A failed role fails the run at once, even while another
    /// role is being waited for, because that one would wait for the failed role.
    fn record_output(&mut self, role: RoleId, output: RoleOutput) {
        let Some(state) = self.roles.get_mut(&role) else { return };
        if let RoleOutput::Ended(why) = &output {
            state.ended = true;
            if let Some(why) = why {
                let why = state.failure_report().unwrap_or_else(|| why.clone());
                let place = describe_rank(state.rank, &self.ranks);
                self.failure.get_or_insert(format!("{} ({place}): {why}", state.kind));
            }
        }
        state.output.push_back(output);
    }

    /// Fails the run with this reason.
    pub fn abort(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| why.to_owned());
    }

    /// After an interruption, the rank that ended first, if any: launchers interrupt the other ranks then.
    pub fn lost_rank(&mut self) -> Option<String> {
        const LISTEN: Duration = Duration::from_millis(300);
        let deadline = Deadline::after(LISTEN);
        let mut connected = self.send_keepalives().is_ok();
        while connected && self.lost_rank.is_none() && !deadline.passed() {
            match self.mailbox.receive(deadline.left()) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => {}
                Err(_) => connected = false,
            }
        }
        self.lost_rank.map(|rank| format!("rank {rank} ended"))
    }

    /// Ends the run on all ranks and waits until they have left.
    ///
    /// # Errors
    /// Ranks that did not leave, or a lost connection.
    pub fn end(&mut self, status: u8) -> Result<(), String> {
        for rank in 1..self.ranks.len() {
            if !self.ranks[rank].ended {
                self.mailbox.send(rank, RankMessage::End { status })?;
            }
        }
        let deadline = Deadline::after(RANKS_LEAVE_WAIT);
        while let Some(remaining) = self.ranks.iter().skip(1).position(|rank| !rank.ended) {
            if deadline.passed() {
                return Err(format!("rank {} did not leave within {} s", remaining + 1, RANKS_LEAVE_WAIT.as_secs()));
            }
            if let Some(event) = self.mailbox.receive(INTERRUPT_CHECK_INTERVAL)? {
                self.handle(event);
            }
        }
        Ok(())
    }

    /// Closes the connection in order.
    pub fn close(self) -> Result<(), String> {
        self.mailbox.close()
    }
}

/// Numbers hosts in the order of their first ranks.
fn host_numbers(hosts: &[HostFacts]) -> Vec<usize> {
    let mut marks = Vec::new();
    hosts
        .iter()
        .map(|host| {
            marks.iter().position(|&mark| mark == host.host_mark).unwrap_or_else(|| {
                marks.push(host.host_mark);
                marks.len() - 1
            })
        })
        .collect()
}

/// Waits for the hosts of all ranks; this rank's is the first.
fn wait_for_all(
    mailbox: &mut RankMailbox,
    membership: &RankMembership,
    own: HostFacts,
) -> Result<Vec<HostFacts>, String> {
    let mut hosts: Vec<Option<HostFacts>> = vec![None; membership.ranks];
    hosts[0] = Some(own);
    let deadline = Deadline::after(RANKS_ARRIVE_WAIT);
    while hosts.iter().any(Option::is_none) {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        if deadline.passed() {
            return Err(missing(&hosts));
        }
        match mailbox.receive(INTERRUPT_CHECK_INTERVAL)? {
            None => {}
            Some(MailboxEvent::Message(from, RankMessage::Arrived { ranks, version, host })) => {
                if ranks != membership.ranks || from == 0 || from >= ranks {
                    let expected = membership.ranks;
                    return Err(format!("rank {from} was started with {ranks} ranks, rank 0 with {expected}"));
                }
                if version != VERSION {
                    return Err(format!("rank {from} runs version {version} of this program, rank 0 {VERSION}"));
                }
                hosts[from] = Some(*host);
            }
            // The rank has its mailbox already, so it will arrive.
            Some(MailboxEvent::Message(_, RankMessage::KeepAlive)) => {}
            Some(MailboxEvent::Message(from, RankMessage::Failed { why })) => {
                return Err(format!("rank {from}: {why}"));
            }
            Some(MailboxEvent::Message(from, message)) => {
                return Err(format!("rank {from} sent {message:?} before all ranks were ready"));
            }
            Some(MailboxEvent::RankGone(rank)) => return Err(format!("rank {rank} ended")),
        }
    }
    Ok(hosts.into_iter().flatten().collect())
}

/// Lists the ranks that have not arrived.
fn missing(hosts: &[Option<HostFacts>]) -> String {
    let absent: Vec<String> =
        hosts.iter().enumerate().filter(|(_, host)| host.is_none()).map(|(rank, _)| rank.to_string()).collect();
    let ranks = if absent.len() == 1 { "rank" } else { "ranks" };
    format!("{ranks} {} did not arrive within {} s", absent.join(", "), RANKS_ARRIVE_WAIT.as_secs())
}
