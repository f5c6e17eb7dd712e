//! What a log of messages may and must have after a crash.

use crate::messages::{Found, Key};
use std::collections::{BTreeMap, BTreeSet};
use store::{FoundMessage, Position, QueueUid, Ticket};

/// A message was settled.
#[derive(Clone, Copy)]
struct Settled {
    /// The last ticket before it: what has it was appended before.
    behind: u64,
    /// With this ticket it is durable.
    proof: Option<u64>,
    commit: Option<usize>,
}

/// What is known of a message.
struct Known {
    id: u64,
    /// With this ticket it is durable; 0 if an earlier life left it.
    proof: Option<u64>,
    commit: Option<usize>,
    settled: Option<Settled>,
    was_delivered: bool,
    /// How often it was returned, with the tickets that prove it.
    times: Vec<(u32, Option<u64>)>,
}

/// What is known of a log.
#[derive(Default)]
pub struct Model {
    known: BTreeMap<Key, Known>,
    /// Tickets up to this one are durable.
    durable: u64,
    last_ticket: u64,
    /// What the next ticket proves.
    unproven: Vec<Key>,
    commits: usize,
    open_commit: Option<usize>,
    commit_tickets: Vec<u64>,
    /// Positions below these were handed out, by queue and level.
    delivered_end: BTreeMap<(QueueUid, u8), u64>,
    pub counts: Counts,
}

/// What happened.
#[derive(Default, Clone, Copy, Debug)]
pub struct Counts {
    pub found: u64,
    pub lost_unproven: u64,
    pub settled_returned: u64,
    pub commits_lost: u64,
    pub commits_unproven_found: u64,
    pub redelivered: u64,
}

fn is_proven(proof: Option<u64>, durable: u64) -> bool {
    proof.is_some_and(|proof| proof <= durable)
}

impl Model {
    pub fn live(&self, queue: QueueUid) -> Vec<Position> {
        let of_queue = self.known.range((queue, Position(0))..=(queue, Position(u64::MAX)));
        of_queue.filter(|(_, known)| known.settled.is_none()).map(|((_, position), _)| *position).collect()
    }

    pub fn last_ticket(&self) -> Ticket {
        Ticket(self.last_ticket)
    }

    pub fn append(&mut self, key: Key, id: u64, ticket: Ticket) {
        let proof = if self.open_commit.is_some() { None } else { Some(ticket.0) };
        let commit = self.open_commit;
        let known = Known { id, proof, commit, settled: None, was_delivered: false, times: Vec::new() };
        assert!(self.known.insert(key, known).is_none(), "no position is used twice: {key:?}");
        self.on_ticket(ticket);
        if commit.is_some() {
            self.unproven.push(key);
        }
    }

    fn on_ticket(&mut self, ticket: Ticket) {
        assert!(ticket.0 > self.last_ticket, "tickets grow");
        self.last_ticket = ticket.0;
        if self.open_commit.is_some() {
            return;
        }
        for key in std::mem::take(&mut self.unproven) {
            let Some(known) = self.known.get_mut(&key) else { continue };
            known.proof.get_or_insert(ticket.0);
            if let Some(settled) = &mut known.settled {
                settled.proof.get_or_insert(ticket.0);
            }
            for (_, proof) in &mut known.times {
                proof.get_or_insert(ticket.0);
            }
        }
    }

    pub fn settle(&mut self, queue: QueueUid, first: Position, count: u64) {
        let end = Position(first.0 + count);
        for (&key, known) in self.known.range_mut((queue, first)..(queue, end)) {
            if known.settled.is_none() {
                known.settled = Some(Settled { behind: self.last_ticket, proof: None, commit: self.open_commit });
                self.unproven.push(key);
            }
        }
    }

    pub fn mark_delivered(&mut self, (queue, position): Key) {
        let end = self.delivered_end.entry((queue, position.level())).or_default();
        *end = (*end).max(position.0 + 1);
    }

    pub fn mark_returned(&mut self, key: Key, times: u32) {
        let known = self.known.get_mut(&key).expect("a message that is there");
        known.times.push((times, None));
        self.unproven.push(key);
    }

    pub fn begin_commit(&mut self) {
        self.open_commit = Some(self.commits);
        self.commits += 1;
    }

    pub fn end_commit(&mut self, ticket: Ticket) {
        self.open_commit = None;
        self.commit_tickets.push(ticket.0);
        self.on_ticket(ticket);
    }

    pub fn drop_queue(&mut self, queue: QueueUid) {
        self.known.retain(|key, _| key.0 != queue);
    }

    pub fn on_durable(&mut self, ticket: Ticket) {
        assert!(ticket.0 > self.durable, "a ticket is told once");
        self.durable = ticket.0;
    }

    pub fn durable(&self) -> Ticket {
        Ticket(self.durable)
    }

    /// Compares what was found after a crash, and goes on from there.
    pub fn check(&mut self, seed: u64, found: &Found) {
        for (key, (id, _)) in &found.messages {
            let known = self.known.get(key).unwrap_or_else(|| panic!("seed {seed}: {key:?} was never appended"));
            assert_eq!(known.id, *id, "seed {seed}: {key:?} is another message");
        }
        let durable = self.durable;
        // What a settlement proves that is found to have happened: all that was appended before it.
        let mut behind = 0;
        let mut applied = BTreeSet::new();
        let mut lost = BTreeSet::new();
        for (key, known) in &self.known {
            let is_found = found.messages.contains_key(key);
            let was_durable = is_proven(known.proof, durable);
            match known.settled {
                None if was_durable => assert!(is_found, "seed {seed}: {key:?} was durable and is gone ({durable})"),
                None => {
                    let commits = if is_found { &mut applied } else { &mut lost };
                    commits.extend(known.commit);
                    self.counts.lost_unproven += u64::from(!is_found);
                }
                Some(settled) => {
                    let is_proven = is_proven(settled.proof, durable);
                    assert!(!(is_found && is_proven), "seed {seed}: {key:?} was settled and is back");
                    if was_durable && !is_found {
                        behind = behind.max(settled.behind);
                        applied.extend(settled.commit);
                    } else if is_found {
                        self.counts.settled_returned += 1;
                        lost.extend(settled.commit);
                        applied.extend(known.commit);
                    }
                }
            }
        }
        for (key, known) in &self.known {
            let was_before = is_proven(known.proof, behind);
            let is_gone = known.settled.is_none() && !found.messages.contains_key(key);
            assert!(!(was_before && is_gone), "seed {seed}: {key:?} is gone, and what was settled behind it, too");
        }
        for commit in &applied {
            assert!(!lost.contains(commit), "seed {seed}: commit {commit} was found in part");
        }
        for (commit, &proof) in self.commit_tickets.iter().enumerate() {
            self.counts.commits_lost += u64::from(lost.contains(&commit));
            assert!(proof > durable || !lost.contains(&commit), "seed {seed}: commit {commit} was durable");
            self.counts.commits_unproven_found += u64::from(proof > durable && applied.contains(&commit));
        }
        for (key, (_, message)) in &found.messages {
            self.check_history(seed, *key, message.was_delivered, message.times_returned);
        }
        self.go_on(found);
    }

    /// Compares what was fetched with what is alive. What a commit settled that is not durable may be there or not.
    pub fn check_fetched(
        &self,
        seed: u64,
        queue: QueueUid,
        is_wanted: impl Fn(&Position) -> bool,
        must_be: impl Fn(&Position) -> bool,
        fetched: impl Iterator<Item = (Position, u64, FoundMessage)>,
    ) {
        let mut last = None;
        let mut found = BTreeSet::new();
        for (position, id, message) in fetched {
            assert!(last.is_none_or(|last| last < position), "seed {seed}: {position:?} is out of order");
            last = Some(position);
            let known = self.known.get(&(queue, position));
            let known = known.unwrap_or_else(|| panic!("seed {seed}: {position:?} was never appended"));
            assert!(is_wanted(&position) && known.id == id, "seed {seed}: {position:?} is not wanted");
            let is_alive = known.settled.is_none_or(|settled| settled.commit.is_some());
            assert!(is_alive, "seed {seed}: {position:?} of {queue:?} was settled and is fetched");
            let times = known.times.last().map_or(0, |&(times, _)| times);
            assert!(message.times_returned == times || known.settled.is_some(), "seed {seed}: {position:?}");
            found.insert(position);
        }
        for position in self.live(queue).iter().filter(|position| must_be(position)) {
            assert!(found.contains(position), "seed {seed}: {position:?} of {queue:?} is alive and not fetched");
        }
    }

    fn check_history(&self, seed: u64, key: Key, was_delivered: bool, times_returned: u32) {
        let known = &self.known[&key];
        let delivered_end = self.delivered_end.get(&(key.0, key.1.level())).copied().unwrap_or(0);
        assert!(was_delivered || !known.was_delivered, "seed {seed}: {key:?} was handed out in an earlier life");
        assert!(!was_delivered || key.1.0 < delivered_end, "seed {seed}: {key:?} was never handed out");
        let proven = known.times.iter().rposition(|&(_, proof)| is_proven(proof, self.durable));
        let is_known = known.times[proven.unwrap_or(0)..].iter().any(|&(times, _)| times == times_returned);
        let is_unwritten = proven.is_none() && times_returned == 0;
        assert!(is_known || is_unwritten, "seed {seed}: {key:?} was returned {times_returned} times");
    }

    /// The next life begins with what was found.
    fn go_on(&mut self, found: &Found) {
        self.known.retain(|key, _| found.messages.contains_key(key));
        for (key, known) in &mut self.known {
            let message = found.messages[key].1;
            self.counts.found += 1;
            self.counts.redelivered += u64::from(message.was_delivered);
            known.was_delivered = message.was_delivered;
            (known.proof, known.commit, known.settled) = (Some(0), None, None);
            known.times = vec![(message.times_returned, Some(0))];
        }
        self.unproven.clear();
        self.commit_tickets.clear();
        (self.durable, self.last_ticket, self.commits, self.open_commit) = (0, 0, 0, None);
    }
}
