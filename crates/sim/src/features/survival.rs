//! What a crash of the broker leaves, as far as its store promised it: definitions, and the messages of durable queues.
//!
//! A promise is an answer that only durable data has: a publisher confirm, `commit-ok`, the answer to a definition. Beyond
//! answers, what was done before a rest is durable, because a rest is longer than the store ever waits.

use super::dead_letters::number_of;
use super::shadow_model::{
    BindingTarget, DeliveryState, Lifetime, ModelTime, PublishOutcome, SettlementProgress, ShadowModel, ShadowQueue,
};
use super::sync_losses::CrashLoss;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a message is in its queue after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// It must be: the store had promised it, and nobody has settled it.
    There,
    /// It may be: no answer says that it, or its end, is durable.
    Possible,
    /// It must not be: it is transient, was never published, or its end is durable.
    Gone,
}

/// What the broker had stored of the deliveries of a message, at the last rest.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StoredDelivery {
    /// It was handed out: it is redelivered from then on.
    pub is_marked: bool,
    /// When it was known to be settled, in simulated time.
    pub settled_us: Option<u64>,
    /// The highest delivery count that was seen.
    pub returns: u32,
}

/// What a crash leaves of a queue's messages.
#[derive(Default)]
pub struct QueueSurvival {
    /// The dead letters that the queue owed at the last rest.
    stored_copies: BTreeSet<u64>,
    /// Dead letters that the queue owes unless what they were before comes again: the broker may not have stored that it was
    /// rejected.
    alternatives: BTreeSet<u64>,
    /// Messages that came again after the last crash.
    returned: BTreeSet<u64>,
    /// Messages that were purged, and when the client knew it in simulated time: they stay away, whatever comes (decision
    /// 0039).
    purged: BTreeMap<u64, u64>,
    /// The numbers of messages that damage has taken from the queue, dead letters among them.
    damaged: BTreeSet<u64>,
    /// Messages that the last crash may have taken back: each is there if a later one of its channel is.
    doubtful: BTreeSet<u64>,
    /// When a crash may last have taken back dead letters of the queue, and not that they had left it.
    letters_lost: Option<ModelTime>,
    /// The shard on which it was when a crash last took promises back.
    crashed_on: Option<usize>,
    /// A confirm says that the queue is durable, although its declaration is not answered.
    pub is_proven: bool,
}

impl QueueSurvival {
    /// Whether the queue has been purged of a message.
    pub fn is_purged(&self, id: u64) -> bool {
        self.purged.contains_key(&id)
    }

    /// Whether a dead letter of a message that was sent then may have been taken back by a crash.
    pub fn may_have_lost_letter(&self, sent: ModelTime) -> bool {
        self.letters_lost.is_some_and(|lost| sent <= lost)
    }

    /// Purges are not stored any more.
    pub fn forget_purges(&mut self) {
        self.purged.clear();
    }

    /// Whether damage has taken a message, or a dead letter of it, from the queue.
    pub fn has_lost(&self, copy: u64) -> bool {
        self.damaged.contains(&number_of(copy))
    }

    /// These messages are lost: nothing is owed in their place.
    pub fn lose(&mut self, numbers: &BTreeSet<u64>) {
        self.damaged.extend(numbers);
        self.alternatives.retain(|&copy| !numbers.contains(&number_of(copy)));
    }
}

/// A commit that was under way on the only shard when the broker crashed: all of it is durable, or nothing.
#[derive(Clone, Default)]
pub struct InterruptedCommit {
    pub publishes: Vec<u64>,
    /// The queue and the message of each acknowledgement.
    pub acknowledged: Vec<(usize, u64)>,
    /// Of these, messages that had been promised: they are owed, unless the commit is whole.
    promised: Vec<(usize, u64)>,
}

impl InterruptedCommit {
    pub fn new(publishes: Vec<u64>, acknowledged: Vec<(usize, u64)>) -> Self {
        InterruptedCommit { publishes, acknowledged, promised: Vec::new() }
    }
}

impl ShadowQueue {
    /// Whether a crash leaves it, if it exists.
    pub fn is_stored(&self) -> bool {
        self.durable && self.owner.is_none()
    }
}

impl DeliveryState {
    /// The broker is at rest: everything that it wants to store is durable.
    fn on_rest(&mut self, now_us: u64) {
        let is_settled = self.settled == SettlementProgress::Proven;
        self.stored = StoredDelivery {
            is_marked: self.times > 0,
            settled_us: self.stored.settled_us.or(Some(now_us)).filter(|_| is_settled),
            // A rest without a delivery takes nothing back.
            returns: self.returns.checked_ilog2().unwrap_or(0).max(self.stored.returns),
        };
    }

    /// The broker crashes, and its queue survives.
    fn on_crash(&mut self, settled_until_us: u64) {
        self.holder = None;
        self.stored.settled_us = self.stored.settled_us.filter(|&settled_us| settled_us <= settled_until_us);
        if self.settled == SettlementProgress::Proven && self.stored.settled_us.is_none() {
            self.settled = SettlementProgress::None;
        }
        if !self.stored.is_marked {
            // It may come again as if for the first time.
            self.times = 0;
        }
        // A delivery that nobody returned has no higher count when it comes again.
        self.returns = (1 << self.stored.returns) - 1;
    }
}

impl ShadowModel {
    /// Whether a message, or a dead letter of it, is in a queue when the broker starts again after a crash now.
    pub fn survival(&self, queue: usize, copy: u64) -> Survival {
        let known = &self.queues[queue];
        let message = &self.messages[&number_of(copy)];
        let is_published = !matches!(message.outcome, PublishOutcome::Staged | PublishOutcome::Never);
        if !known.is_stored() || !message.persistent || !is_published {
            return Survival::Gone;
        }
        let delivery = known.deliveries.get(&copy);
        let settled_until_us = self.settled_until_us(queue);
        let is_settled = |delivery: &DeliveryState| {
            let settled_us = delivery.stored.settled_us;
            delivery.settled == SettlementProgress::Proven && settled_us.is_some_and(|us| us <= settled_until_us)
        };
        if delivery.is_some_and(is_settled) {
            return Survival::Gone;
        }
        if known.owed.contains(&copy) && self.is_promised(queue, copy) { Survival::There } else { Survival::Possible }
    }

    /// Whether a message survives a crash in a queue that has not settled it.
    fn is_kept(&self, queue: usize, copy: u64) -> bool {
        let message = &self.messages[&number_of(copy)];
        self.is_original(copy)
            && self.queues[queue].is_stored()
            && message.persistent
            && !self.queues[queue].survival.is_purged(copy)
            && self.is_promised(queue, copy)
    }

    /// Whether the broker has said that a message is durable, or was at rest with it.
    fn is_promised(&self, queue: usize, copy: u64) -> bool {
        if !self.is_original(copy) {
            return self.queues[queue].survival.stored_copies.contains(&copy);
        }
        let message = &self.messages[&copy];
        let was_at_rest = message.routed.is_some_and(|routed| routed < self.stored);
        let outlasts = || self.loss.as_ref().is_none_or(|loss| message.accepted_us <= loss.of(queue).messages_us);
        (message.outcome == PublishOutcome::Safe && was_at_rest) || (message.accepted.is_some() && outlasts())
    }

    /// Whether the crash that is happening may have taken back a message that was confirmed.
    fn is_doubtful(&self, queue: usize, copy: u64) -> bool {
        let known = &self.queues[queue];
        self.loss.is_some()
            && self.is_original(copy)
            && known.is_stored()
            && self.messages[&copy].persistent
            && self.messages[&copy].accepted.is_some()
            && !known.survival.is_purged(copy)
    }

    /// Until when settlements of a queue count that are known to be stored.
    fn settled_until_us(&self, queue: usize) -> u64 {
        self.loss.as_ref().map_or(u64::MAX, |loss| loss.of(queue).settlements_us)
    }

    /// Whether a dead letter of one queue is behind that in another one in the same log, or no log loses anything.
    fn keeps_order(&self, origin: usize, target: usize) -> bool {
        let shard_of = |loss: &CrashLoss, queue| loss.of(queue).shard;
        self.loss
            .as_ref()
            .is_none_or(|loss| shard_of(loss, origin).is_some() && shard_of(loss, origin) == shard_of(loss, target))
    }

    /// A purge that was requested then is answered, and nobody receives messages of the queue: those that were in it are gone
    /// for good, if nobody can have received and returned them.
    pub fn purge(&mut self, queue: usize, requested: ModelTime) {
        let known = &self.queues[queue];
        if known.had_unseen_deliveries || known.departed.is_some() {
            return;
        }
        let is_purged = |id: &u64| {
            let was_there = || self.messages[id].routed.is_some_and(|routed| routed < requested);
            self.is_original(*id) && !known.deliveries.contains_key(id) && was_there()
        };
        let purged: Vec<u64> = known.owed.iter().copied().filter(is_purged).collect();
        let now_us = self.now_us;
        let known = &mut self.queues[queue].survival.purged;
        purged.into_iter().for_each(|id| _ = known.entry(id).or_insert(now_us));
    }

    /// At rest, and no disk is full: what was done until now is durable.
    pub fn store_at_rest(&mut self) {
        let now_us = self.now_us;
        (self.stored, self.stored_us) = (self.now, now_us);
        for at in 0..self.queues.len() {
            let owed = self.queues[at].owed.iter().copied();
            let copies = owed.filter(|&copy| !self.is_original(copy)).collect();
            let queue = &mut self.queues[at];
            let survival = &mut queue.survival;
            survival.stored_copies = copies;
            queue.deliveries.values_mut().for_each(|delivery| delivery.on_rest(now_us));
        }
    }

    /// The broker has stopped and written everything that it had, which is what a rest says.
    pub fn store_at_stop(&mut self) {
        self.rested = self.tick();
        self.store_at_rest();
    }

    /// A commit with these settlements is answered: it is durable as a whole. The end of a message whose dead letter goes to another
    /// queue counts when that has it, on whatever shard.
    pub fn store_committed(&mut self, settles: &[(usize, u64, bool)]) {
        let now_us = self.now_us;
        self.has_committed |= !settles.is_empty();
        for &(queue, message, rejected) in settles {
            let known = &mut self.queues[queue];
            if !rejected || known.traits.dead.is_none() {
                known.deliveries.entry(message).or_default().stored.settled_us = Some(now_us);
            }
        }
    }

    /// The broker has crashed, after all channels have ended: what it had not stored is gone. `commits`: those that were under
    /// way. `loss`: what of its promises it takes back. Returns how many confirmed messages are in doubt.
    pub fn crash(&mut self, mut commits: Vec<InterruptedCommit>, loss: Option<CrashLoss>) -> u64 {
        let now = self.tick();
        self.loss = loss;
        for commit in &mut commits {
            let acknowledged = commit.acknowledged.iter().copied();
            commit.promised = acknowledged.filter(|&(queue, id)| self.is_kept(queue, id)).collect();
        }
        self.crashed = now;
        // Nothing is routed any more that was sent before.
        for message in self.messages.values_mut().filter(|message| message.outcome != PublishOutcome::Safe) {
            message.routed.get_or_insert(now);
        }
        for at in 0..self.queues.len() {
            self.crash_queue(at, now);
        }
        for at in 0..self.exchanges.len() {
            if !self.exchanges[at].durable {
                end(&mut self.exchanges[at].life, now);
            }
        }
        self.crash_bindings(now);
        let now = self.tick();
        // Whether an exchange that has lost its last binding by this is deleted is not promised.
        for at in 0..self.exchanges.len() {
            let is_automatic = self.exchanges[at].auto_delete && self.exchanges[at].life.ended.is_none();
            if is_automatic && !self.is_exchange(at, now, now) {
                self.exchanges[at].life.may_end(now);
            }
        }
        self.commits.extend(commits);
        self.loss = None;
        self.queues.iter().map(|queue| queue.survival.doubtful.len() as u64).sum()
    }

    fn crash_queue(&mut self, at: usize, now: ModelTime) {
        let (owed, lost): (BTreeSet<u64>, BTreeSet<u64>) =
            self.queues[at].owed.iter().partition(|&&copy| self.survival(at, copy) == Survival::There);
        let alternatives = self.queues[at].survival.alternatives.iter().copied();
        let alternatives = alternatives.filter(|&copy| self.is_pending(at, copy) && self.is_letter_kept(at, copy));
        let new = lost.iter().copied().filter(|&copy| self.has_alternative(at, copy));
        let alternatives = alternatives.chain(new).collect();
        let doubtful = lost.into_iter().filter(|&copy| self.is_doubtful(at, copy)).collect();
        let settled_until_us = self.settled_until_us(at);
        let shard = self.loss.as_ref().and_then(|loss| loss.of(at).shard);
        let loses_letters = self.queues[at].traits.dead.is_some_and(|dead| !self.keeps_order(at, dead));
        let queue = &mut self.queues[at];
        (queue.owed, queue.survival.alternatives) = (owed, alternatives);
        (queue.survival.doubtful, queue.survival.crashed_on) = (doubtful, shard);
        queue.survival.letters_lost =
            queue.survival.letters_lost.filter(|_| !loses_letters).or(loses_letters.then_some(now));
        queue.survival.purged.retain(|_, purged_us| *purged_us <= settled_until_us);
        queue.survival.stored_copies.clear();
        queue.survival.returned.clear();
        if !queue.is_stored() {
            return end(&mut queue.life, now);
        }
        queue.deliveries.values_mut().for_each(|delivery| delivery.on_crash(settled_until_us));
        // Deliveries that nobody received, and returns that were not stored.
        queue.disturbed = true;
        queue.had_unseen_deliveries = true;
    }

    /// Whether a dead letter that is not stored leaves its message where it was, for a promise to hold.
    fn has_alternative(&self, target: usize, copy: u64) -> bool {
        let Some((message, origin)) = self.paths.before(copy) else { return false };
        self.is_original(message)
            && self.keeps_order(origin, target)
            && self.queues[target].is_stored()
            && self.queues[origin].is_stored()
            && self.messages[&message].persistent
            && self.is_promised(origin, message)
    }

    /// Whether a dead letter that left its queue is where it went, or still there.
    fn is_letter_kept(&self, target: usize, copy: u64) -> bool {
        self.paths.before(copy).is_some_and(|(_, origin)| self.keeps_order(origin, target))
    }

    /// Whether neither a dead letter nor, since the last crash, the message that it was has been delivered.
    fn is_pending(&self, target: usize, copy: u64) -> bool {
        let before = self.paths.before(copy);
        !self.queues[target].deliveries.contains_key(&copy)
            && before.is_some_and(|(message, origin)| !self.queues[origin].survival.returned.contains(&message))
    }

    /// Dead letters that their queues owe unless what they were before has come again, which it has not: the queue and the dead
    /// letter, with the queue and the message that it was.
    pub fn pending_alternatives(&self) -> Vec<[(usize, u64); 2]> {
        let queues = self.queues.iter().enumerate();
        let all = queues.flat_map(|(at, queue)| queue.survival.alternatives.iter().map(move |&copy| (at, copy)));
        let pending = all.filter(|&(at, copy)| self.is_pending(at, copy));
        let pairs = pending.filter_map(|(at, copy)| {
            let (message, origin) = self.paths.before(copy)?;
            // What damage took cannot come again, and its dead letter may not have been stored.
            let is_lost = self.queues[origin].survival.has_lost(message);
            (!is_lost).then_some([(at, copy), (origin, message)])
        });
        pairs.collect()
    }

    /// A binding is as durable as its ends.
    fn crash_bindings(&mut self, now: ModelTime) {
        for binding in &mut self.bindings {
            let is_stored = match binding.target {
                BindingTarget::Queue(queue) => self.queues[queue].is_stored(),
                BindingTarget::Exchange(exchange) => self.exchanges[exchange].durable,
            };
            if is_stored && self.exchanges[binding.source].durable {
                continue;
            }
            // Whatever was under way, it does not exist now.
            binding.locked = false;
            if let Some(life) = binding.lives.last_mut() {
                end(life, now);
            }
        }
    }

    /// A message was sent before the last crash: what the broker did not store of its deliveries may happen again, its
    /// dead-lettering as well.
    pub fn is_before_crash(&self, copy: u64) -> bool {
        self.messages[&number_of(copy)].sent <= self.crashed
    }

    /// Whether a queue may have a dead letter twice: the queue before it may dead-letter again what it had not stored as
    /// dead-lettered, at least once.
    pub fn may_be_doubled(&self, copy: u64) -> bool {
        !self.is_original(copy) && self.is_before_crash(copy)
    }

    /// A queue has delivered a message. `Err` names a violation of what the crash before leaves.
    pub fn check_survival(&mut self, queue: usize, copy: u64) -> Result<(), String> {
        if !self.is_before_crash(copy) {
            return Ok(());
        }
        let name = &self.queues[queue].name;
        if !self.messages[&number_of(copy)].persistent {
            return Err(format!("transient message {copy} was delivered by {name} after a crash"));
        }
        if !self.is_original(copy) || !self.queues[queue].survival.returned.insert(copy) {
            return Ok(());
        }
        self.decide_doubts(queue, copy);
        self.decide_commits(queue, copy)
    }

    /// A message came again: what its channel had published before it to queues of the same log is there, too.
    fn decide_doubts(&mut self, queue: usize, copy: u64) {
        let (channel, messages) = (self.messages[&copy].channel, &self.messages);
        let shard = self.queues[queue].survival.crashed_on;
        self.queues[queue].survival.doubtful.remove(&copy);
        for (at, known) in self.queues.iter_mut().enumerate() {
            if at != queue && (shard.is_none() || known.survival.crashed_on != shard) {
                continue;
            }
            let survival = &mut known.survival;
            let before = survival.doubtful.range(..copy).filter(|id| messages[id].channel == channel);
            let before: Vec<u64> = before.copied().collect();
            for id in before {
                survival.doubtful.remove(&id);
                known.owed.insert(id);
            }
        }
    }

    /// A message that came again says whether a commit was whole that had published or acknowledged it.
    fn decide_commits(&mut self, queue: usize, copy: u64) -> Result<(), String> {
        let is_published = |commit: &InterruptedCommit| commit.publishes.contains(&copy);
        let is_acknowledged = |commit: &InterruptedCommit| commit.acknowledged.contains(&(queue, copy));
        let Some(at) = self.commits.iter().position(|commit| is_published(commit) || is_acknowledged(commit)) else {
            return Ok(());
        };
        let commit = self.commits.remove(at);
        if !is_published(&commit) {
            // It was not executed: nobody receives what it published, and what it acknowledged is still there.
            for id in &commit.publishes {
                self.messages.get_mut(id).into_iter().for_each(|message| message.outcome = PublishOutcome::Never);
            }
            for (queue, id) in commit.promised {
                let known = &mut self.queues[queue];
                if !known.survival.returned.contains(&id) {
                    known.owed.insert(id);
                }
            }
            return Ok(());
        }
        let crashed = self.crashed;
        for &(queue, id) in &commit.acknowledged {
            let known = &mut self.queues[queue];
            if known.survival.returned.contains(&id) {
                let name = &known.name;
                return Err(format!("commit in part: message {copy} was published, and {id} of {name} came again"));
            }
            let delivery = known.deliveries.entry(id).or_default();
            (delivery.settled, delivery.stored.settled_us) = (SettlementProgress::Proven, Some(0));
        }
        for id in commit.publishes {
            for queue in self.surely_published(id, crashed) {
                self.queues[queue].owed.insert(id);
            }
        }
        Ok(())
    }

    /// The queues that a message of a whole commit must be in.
    fn surely_published(&self, id: u64, crashed: ModelTime) -> Vec<usize> {
        let message = &self.messages[&id];
        let queues = if message.persistent { self.routes(message, crashed, true) } else { BTreeSet::new() };
        let is_owed = |queue: &usize| {
            let known = &self.queues[*queue];
            known.is_stored() && !known.traits.refuses && !known.deliveries.contains_key(&id)
        };
        queues.into_iter().filter(is_owed).collect()
    }

    /// Of each commit that may have been whole or not executed, something that must come in either case: a message that it published
    /// and one that it acknowledged, with their queues. Neither has come.
    pub fn undecided_commits(&self) -> Vec<[(usize, u64); 2]> {
        let mut pairs = Vec::new();
        for commit in &self.commits {
            let published = commit
                .publishes
                .iter()
                .flat_map(|&id| self.surely_published(id, self.crashed).into_iter().map(move |queue| (queue, id)));
            let published: Vec<_> = published.collect();
            pairs.extend(published.iter().flat_map(|&one| commit.promised.iter().map(move |&other| [one, other])));
        }
        pairs
    }
}

/// It does not exist from now on.
fn end(life: &mut Lifetime, now: ModelTime) {
    life.may_end(now);
    life.ended.get_or_insert(now);
}

#[cfg(test)]
mod tests;
