//! What a client knows about its messages, and what of them may be there after a restart.
//!
//! Enters: what was published, confirmed, acknowledged, committed and deleted.  Leaves: a verdict on what a queue has.

use super::definition_ledger::DefinitionLedger;
use super::letter_ledger::LetterLedger;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// What is known of a message in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageState {
    /// Published, and not confirmed: it may be there.
    Open,
    /// Confirmed, or found after a restart: it is there.
    Safe,
    /// Acknowledged, and it is not known whether that is durable: it may be there.
    Acknowledged,
    /// It must not be there: transient, deleted with its queue, missing once, or acknowledged before a later message of its
    /// queue from the same connection was confirmed.
    Gone,
}

/// A message as it was published.
#[derive(Clone, Copy)]
pub struct PublishedMessage {
    bytes: usize,
    is_persistent: bool,
    /// Counts in queues with priorities.
    priority: u8,
}

/// How a message is published.
#[derive(Clone, Copy)]
pub struct PublishedAs {
    pub bytes: usize,
    pub is_persistent: bool,
    pub priority: u8,
}

/// A message as it was found.
pub struct FoundMessage {
    pub number: u64,
    pub redelivered: bool,
}

/// What is known of a queue.
#[derive(Clone, Default)]
pub struct QueueLedger {
    states: BTreeMap<u64, MessageState>,
    /// Its declaration or its deletion was not answered.
    pub may_be_gone: bool,
    /// How often it was deleted, before it was declared again.
    deletions: u64,
    /// Some message may have been handed out.
    pub was_consumed: bool,
    /// Messages with a higher priority come first.
    pub has_priorities: bool,
    /// Messages whose acknowledgements were sent by the publisher's connection, in their order.
    acknowledged: Vec<u64>,
}

/// A message of a transaction that was not answered.
#[derive(Clone)]
struct CommittedMessage {
    queue: String,
    number: u64,
    /// Acknowledged by it, and otherwise published.
    is_acknowledged: bool,
    /// Whether it was there after the restart, once its queue was looked at.
    found: Option<bool>,
}

/// What a transaction does.
#[derive(Default)]
pub struct OpenTransaction {
    pub publishes: Vec<OpenPublish>,
    /// Queues and messages.
    pub acknowledged: Vec<(String, u64)>,
}

/// A publish to several queues that awaits its confirm.
pub struct OpenPublish {
    number: u64,
    /// Its queues, and how many acknowledgements for each were sent before it.
    queues: Vec<(String, usize)>,
}

impl OpenPublish {
    pub fn number(&self) -> u64 {
        self.number
    }
}

#[derive(Clone, Default)]
pub struct Ledger {
    /// By their numbers.
    published: Vec<PublishedMessage>,
    /// Commits without an answer, the part of each shard by itself: it is whole or did nothing.
    commits: Vec<Vec<CommittedMessage>>,
    /// The queues of commits that are to be on one shard were declared over one connection.
    pub are_committed_beside: bool,
    pub letters: LetterLedger,
    pub definitions: DefinitionLedger,
    /// Durable queues that were declared, and not deleted with an answer.
    pub queues: BTreeMap<String, QueueLedger>,
    /// Queues that must not be there after a restart.
    pub passing_queues: Vec<String>,
}

/// A body that tells its number, in so many bytes.
pub fn body(number: u64, bytes: usize) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(bytes.max(8), number as u8);
    body
}

impl Ledger {
    /// A durable queue is about to be declared.
    pub fn declare(&mut self, name: &str) {
        let vacant = || QueueLedger { may_be_gone: true, ..QueueLedger::default() };
        self.queues.entry(name.to_owned()).or_insert_with(vacant);
    }

    /// Its declaration was answered.
    pub fn declared(&mut self, name: &str) {
        self.queues.get_mut(name).expect("it is declared").may_be_gone = false;
    }

    /// Enters a message that is about to be published to these queues. Returns its number.
    pub fn publish(&mut self, queues: &[String], publish: PublishedAs) -> OpenPublish {
        let PublishedAs { bytes, is_persistent, priority } = publish;
        let number = self.published.len() as u64;
        self.published.push(PublishedMessage { bytes: bytes.max(8), is_persistent, priority });
        let mut open = OpenPublish { number, queues: Vec::new() };
        for name in queues {
            let queue = self.queues.entry(name.clone()).or_default();
            queue.states.insert(number, MessageState::Open);
            open.queues.push((name.clone(), queue.acknowledged.len()));
        }
        open
    }

    /// A message is confirmed.
    pub fn confirm(&mut self, publish: &OpenPublish) {
        let is_persistent = self.published[publish.number as usize].is_persistent;
        for (name, acknowledged_before) in &publish.queues {
            let Some(queue) = self.queues.get_mut(name) else { continue };
            let state = queue.states.get_mut(&publish.number).expect("it was published");
            if *state != MessageState::Open || !is_persistent {
                continue;
            }
            *state = MessageState::Safe;
            // It has been written, and what was acknowledged before it, too.
            for earlier in &queue.acknowledged[..*acknowledged_before] {
                queue.states.insert(*earlier, MessageState::Gone);
            }
        }
    }

    /// An acknowledgement was sent; with `by_publisher` over the connection that publishes.
    pub fn acknowledge(&mut self, queue: &str, number: u64, by_publisher: bool) {
        let Some(queue) = self.queues.get_mut(queue) else { return };
        queue.states.insert(number, MessageState::Acknowledged);
        if by_publisher {
            queue.acknowledged.push(number);
        }
    }

    /// A commit was answered: it is whole.
    pub fn commit(&mut self, transaction: &OpenTransaction) {
        transaction.publishes.iter().for_each(|publish| self.confirm(publish));
        for (queue, number) in &transaction.acknowledged {
            self.queues.get_mut(queue).expect("it is declared").states.insert(*number, MessageState::Gone);
        }
    }

    /// A commit was not answered. `shards`: the queues of each shard, in so far as that is known.
    pub fn leave_commit_open(&mut self, transaction: &OpenTransaction, shards: &[&[&str]]) {
        for (queue, number) in &transaction.acknowledged {
            self.acknowledge(queue, *number, false);
        }
        let message = |queue: &String, number, is_acknowledged| CommittedMessage {
            queue: queue.clone(),
            number,
            is_acknowledged,
            found: None,
        };
        let published = transaction
            .publishes
            .iter()
            .flat_map(|publish| publish.queues.iter().map(|(queue, _)| message(queue, publish.number, false)));
        let acknowledged = transaction.acknowledged.iter().map(|(queue, number)| message(queue, *number, true));
        let messages: Vec<_> = published.chain(acknowledged).collect();
        for queues in shards {
            let part = messages.iter().filter(|message| queues.contains(&&*message.queue)).cloned().collect();
            self.commits.push(part);
        }
    }

    /// Compares commits all of whose queues were looked at.
    pub fn check_commits(&mut self) -> Result<(), String> {
        let (known, open) = std::mem::take(&mut self.commits)
            .into_iter()
            .partition(|commit| commit.iter().all(|message| message.found.is_some()));
        self.commits = open;
        let known: Vec<Vec<CommittedMessage>> = known;
        for commit in known {
            let is_done = |message: &CommittedMessage| message.found != Some(message.is_acknowledged);
            if commit.iter().any(is_done) && !commit.iter().all(is_done) {
                let told = commit.iter().map(|message| {
                    let CommittedMessage { queue, number, is_acknowledged, found } = message;
                    let step = if *is_acknowledged { "acknowledged in" } else { "published to" };
                    let there = if *found == Some(true) { "there" } else { "not there" };
                    format!("{number}, {step} {queue}, is {there}")
                });
                return Err(format!("a part of a commit was done: {}", told.collect::<Vec<_>>().join("; ")));
            }
        }
        Ok(())
    }

    /// The queue is about to be purged over the connection that publishes: as if all of it were acknowledged.
    pub fn purge(&mut self, name: &str) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        for (number, state) in queue.states.iter_mut().filter(|(_, state)| **state != MessageState::Gone) {
            *state = MessageState::Acknowledged;
            queue.acknowledged.push(*number);
        }
    }

    /// The queue is about to be deleted, with everything in it.
    pub fn delete(&mut self, queue: &str) {
        let Some(queue) = self.queues.get_mut(queue) else { return };
        queue.may_be_gone = true;
        queue.deletions += 1;
        for state in queue.states.values_mut().filter(|state| **state != MessageState::Gone) {
            *state = MessageState::Acknowledged;
        }
    }

    /// The queue was purged or deleted, and that was answered: of what was in it nothing may come back.
    pub fn empty(&mut self, queue: &str) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.states.values_mut().for_each(|state| *state = MessageState::Gone);
        }
    }

    /// Which message a body is.
    pub fn number_of(&self, bytes: &[u8]) -> Result<u64, String> {
        let number =
            bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or("a body of fewer than 8 bytes")?;
        let published = self.published.get(number as usize).ok_or("a body that nobody published")?;
        if bytes == body(number, published.bytes) { Ok(number) } else { Err(format!("message {number} has changed")) }
    }

    /// What is known at a moment between two: what was certain before, and what may have happened up to `self`.
    pub fn since(mut self, before: &Ledger) -> Ledger {
        // What was deleted since then may be there, with any part of what it had.
        for (name, earlier) in
            before.queues.iter().filter(|(name, _)| !self.queues.contains_key(*name)).collect::<Vec<_>>()
        {
            let mut queue = earlier.clone();
            queue.may_be_gone = true;
            self.commits.retain(|commit| commit.iter().all(|message| message.queue != *name));
            for state in queue.states.values_mut().filter(|state| **state != MessageState::Gone) {
                *state = MessageState::Acknowledged;
            }
            self.queues.insert(name.clone(), queue);
            self.passing_queues.retain(|passing| passing != name);
        }
        for (name, queue) in &mut self.queues {
            let earlier = before.queues.get(name);
            queue.was_consumed |= earlier.is_some_and(|earlier| earlier.was_consumed);
            let deletions = queue.deletions;
            queue.may_be_gone |= earlier.is_none_or(|earlier| earlier.may_be_gone || earlier.deletions != deletions);
            for (number, state) in &mut queue.states {
                let earlier = earlier.and_then(|earlier| earlier.states.get(number));
                *state = match (earlier, *state) {
                    (Some(earlier), state) if *earlier == state => state,
                    (None | Some(MessageState::Open), MessageState::Safe) => MessageState::Open,
                    (_, state @ (MessageState::Open | MessageState::Safe)) => state,
                    // Settled since then.
                    (_, MessageState::Acknowledged | MessageState::Gone) => MessageState::Acknowledged,
                };
            }
        }
        // A commit is judged by messages that were certainly there for it to acknowledge.
        let was_safe = |message: &CommittedMessage| {
            let queue = before.queues.get(&message.queue);
            queue.and_then(|queue| queue.states.get(&message.number)) == Some(&MessageState::Safe)
        };
        self.commits.retain(|commit| commit.iter().filter(|message| message.is_acknowledged).all(was_safe));
        self.letters = self.letters.since(&before.letters);
        self.definitions = self.definitions.since(&before.definitions);
        self
    }

    /// Compares what a queue has after a restart with what it must and may have, and goes on from there. `was_consumed`: before
    /// these were taken.
    pub fn settle(&mut self, name: &str, found: &[FoundMessage], was_consumed: bool) -> Result<(), String> {
        let Ledger { published, queues, commits, .. } = self;
        let queue = queues.get_mut(name).ok_or("a queue that nobody declared")?;
        let place = |found: &FoundMessage| {
            let priority = published.get(found.number as usize).map_or(0, |published| published.priority);
            (Reverse(if queue.has_priorities { priority } else { 0 }), found.number)
        };
        for pair in found.windows(2) {
            if place(&pair[1]) <= place(&pair[0]) {
                return Err(format!("message {} comes behind message {}", pair[1].number, pair[0].number));
            }
        }
        for FoundMessage { number, redelivered } in found {
            let state = queue.states.get(number);
            let Some(state) = state.filter(|_| published[*number as usize].is_persistent) else {
                return Err(format!("message {number} is there, and is transient or was never in this queue"));
            };
            match state {
                MessageState::Gone => return Err(format!("message {number} is there again")),
                _ if *redelivered && !was_consumed => {
                    return Err(format!("message {number} is marked as redelivered, and nobody had it"));
                }
                _ => {}
            }
        }
        let numbers: HashSet<u64> = found.iter().map(|found| found.number).collect();
        let is_there = |number| numbers.contains(&number);
        let missing: Vec<u64> = (queue.states.iter())
            .filter(|(number, state)| **state == MessageState::Safe && !is_there(**number))
            .map(|(number, _)| *number)
            .collect();
        if !missing.is_empty() {
            let last = found.last().map(|found| found.number);
            return Err(format!("messages {missing:?} were confirmed and are lost; the last one there is {last:?}"));
        }
        let of_queue = commits.iter_mut().flatten().filter(|message| message.queue == name && message.found.is_none());
        for message in of_queue {
            message.found = Some(is_there(message.number));
        }
        queue.states.values_mut().for_each(|state| *state = MessageState::Gone);
        queue.states.extend(found.iter().map(|found| (found.number, MessageState::Safe)));
        queue.acknowledged.clear();
        Ok(())
    }
}
