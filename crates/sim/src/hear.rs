//! What clients hear, and what the model learns from it.
//!
//! Enters: what a client heard.  Leaves: a wiser model, or a broken promise.
//! Owns:   which answer fits which question, and which refusal was fair.
//! Never:  accepts an end of a channel or connection that nobody caused.

use crate::actor::{Door, Pending, Question, Settling, Stage, Standing};
use crate::came::Taker;
use crate::client::{Heard, Reply};
use crate::model::{Fate, Settled, Target};
use crate::run::Run;

impl Run {
    /// A client heard something.
    pub(crate) fn hear(&mut self, actor: usize, heard: Heard) {
        self.model.tick();
        let uid = self.actors[actor].uid;
        // What had come before a silent end is heard by nobody.
        if self.actors[actor].standing == Standing::Gone {
            return;
        }
        match heard {
            Heard::Opened => {
                if self.actors[actor].standing == Standing::Arriving {
                    self.actors[actor].standing = Standing::Here;
                }
            }
            Heard::ChannelOpened(number) => {
                if let Some(channel) = self.channel(actor, number) {
                    self.actors[actor].channels[channel].door = Door::Open;
                }
            }
            Heard::ChannelRefused(number, text) => self.refused(actor, number, &text),
            Heard::ChannelClosed(number) => self.closed(actor, number),
            Heard::Deliver(number, tag, came) => {
                let Some(channel) = self.open_channel_of(actor, number, "a delivery") else { return };
                let consumers = &self.actors[actor].channels[channel].consumers;
                let named = |stage: &[Stage]| {
                    consumers.iter().position(|consumer| consumer.tag == tag && stage.contains(&consumer.stage))
                };
                let Some(at) = named(&[Stage::Active, Stage::Cancelling]) else {
                    return self.broken(format!("client {uid}: a delivery for '{tag}', which does not consume"));
                };
                let queue = consumers[at].queue;
                if !self.actors[actor].channels[channel].flow {
                    return self.broken(format!("client {uid}: a delivery on channel {number}, whose flow is stopped"));
                }
                self.came(actor, channel, queue, Taker::Consumer(at), &came);
            }
            Heard::Got(number, came) => {
                let Some(channel) = self.open_channel_of(actor, number, "get-ok") else { return };
                let Some(pending) = self.actors[actor].channels[channel].pending.take() else {
                    return self.broken(format!("client {uid}: get-ok, and nobody asked"));
                };
                let Question::Get(queue, no_ack) = pending.question else {
                    return self.broken(format!("client {uid}: get-ok after {:?}", pending.question));
                };
                self.proven(actor, channel, &pending);
                self.came(actor, channel, queue, Taker::Get { no_ack }, &came);
            }
            Heard::Returned(number, came) => {
                if let Some(channel) = self.open_channel_of(actor, number, "a return") {
                    self.returned(actor, channel, &came);
                }
            }
            Heard::Confirm(number, tag, multiple, positive) => {
                if let Some(channel) = self.open_channel_of(actor, number, "a confirm") {
                    self.confirmed(actor, channel, tag, multiple, positive);
                }
            }
            Heard::CancelledByBroker(number, tag) => {
                if let Some(channel) = self.open_channel_of(actor, number, "a cancellation") {
                    self.cancelled_by_broker(actor, channel, &tag);
                }
            }
            Heard::Reply(number, reply) => {
                let Some(channel) = self.open_channel_of(actor, number, "an answer") else { return };
                let Some(pending) = self.actors[actor].channels[channel].pending.take() else {
                    return self.broken(format!("client {uid}: {reply:?}, and nobody asked"));
                };
                self.tally.answers += 1;
                let channel_uid = self.actors[actor].channels[channel].uid;
                self.note(|_| format!("channel {channel_uid} hears {reply:?}"));
                self.proven(actor, channel, &pending);
                self.answered(actor, channel, &pending, reply);
            }
            Heard::Blocked => {
                self.note(|_| format!("client {uid} is blocked"));
                self.tally.blocked += 1;
                self.actors[actor].blocked = true;
            }
            Heard::Unblocked => {
                self.note(|_| format!("client {uid} is unblocked"));
                self.actors[actor].blocked = false;
            }
            Heard::Refused(text) => self.broken(format!("client {uid} is refused: {text}")),
            Heard::Over => {
                let one = &self.actors[actor];
                if !one.cut && one.standing != Standing::Leaving {
                    return self.broken(format!("client {uid} lost its connection, and nobody cut it"));
                }
                self.note(|_| format!("client {uid} is gone"));
                self.gone(actor);
            }
        }
    }

    fn channel(&self, actor: usize, number: u16) -> Option<usize> {
        self.actors[actor].channels.iter().position(|channel| channel.number == number)
    }

    fn open_channel_of(&mut self, actor: usize, number: u16, what: &str) -> Option<usize> {
        let channel = self.channel(actor, number);
        if let Some(channel) = channel.filter(|&channel| self.actors[actor].channels[channel].is_open()) {
            return Some(channel);
        }
        // A client that has said goodbye hears nothing more of its channels; its session sees to that.
        let uid = self.actors[actor].uid;
        if self.actors[actor].standing != Standing::Leaving {
            self.broken(format!("client {uid}: {what} on channel {number}, which is not open"));
        }
        None
    }

    /// An answer proves what was sent before its question.
    fn proven(&mut self, actor: usize, channel: usize, pending: &Pending) {
        let one = &mut self.actors[actor].channels[channel];
        // The broker had not ended the channel when the question came.
        let suspicion = one.suspicions.first().filter(|(noticed, _)| *noticed < pending.asked).cloned();
        let plains: Vec<u64> = one.plains.drain(..pending.plains.min(one.plains.len())).collect();
        let settles: Vec<_> = one.settles.drain(..pending.settles.min(one.settles.len())).collect();
        if let Some((_, what)) = suspicion {
            self.broken(what);
        }
        self.prove(plains, settles, false);
    }

    /// What was sent has been heard; `by_name`: the broker has said so of these very messages.
    fn prove(&mut self, safe: Vec<u64>, settles: Vec<(usize, u64, bool)>, by_name: bool) {
        for id in safe {
            self.tally.confirmed += 1;
            if let Err(what) = self.model.is_safe(id, by_name) {
                self.broken(what);
            }
        }
        for (queue, message, rejected) in settles {
            let known = &mut self.model.queues[queue];
            known.owed.remove(&message);
            known.seen.entry(message).or_default().settled = Settled::Heard;
            if rejected {
                self.model.has_died(queue, message);
            }
        }
    }

    fn confirmed(&mut self, actor: usize, channel: usize, tag: u64, multiple: bool, positive: bool) {
        let one = &mut self.actors[actor].channels[channel];
        let uid = one.uid;
        let first = one.unconfirmed.keys().next().copied().unwrap_or(u64::MAX);
        let known = one.unconfirmed.contains_key(&tag);
        let later = one.unconfirmed.split_off(&(tag + 1));
        let mut safe = std::mem::replace(&mut one.unconfirmed, later);
        if !multiple {
            // The others before it wait on.
            let kept = safe.split_off(&tag);
            let others = std::mem::replace(&mut safe, kept);
            one.unconfirmed.extend(others);
        }
        self.note(|_| format!("channel {uid} is confirmed {tag}, multiple: {multiple}"));
        if !known || first > tag {
            return self.broken(format!("channel {uid}: a confirm of {tag} that fits nothing"));
        }
        if positive {
            return self.prove(safe.into_values().collect(), Vec::new(), true);
        }
        for id in safe.into_values() {
            self.tally.declined += 1;
            if let Err(what) = self.model.is_declined(id) {
                self.broken(what);
            }
        }
    }

    fn cancelled_by_broker(&mut self, actor: usize, channel: usize, tag: &str) {
        let one = &mut self.actors[actor].channels[channel];
        let uid = one.uid;
        let found = one.consumers.iter_mut().find(|consumer| consumer.tag == tag && consumer.stage != Stage::Gone);
        let Some(consumer) = found else {
            return self.broken(format!("channel {uid}: the broker cancels '{tag}', which does not consume"));
        };
        consumer.stage = Stage::Gone;
        let (queue, consumer) = (consumer.queue, consumer.uid);
        self.note(|_| format!("channel {uid}: the broker cancels {tag}"));
        if self.model.queues[queue].life.ending.is_none() {
            let name = self.model.queues[queue].name.clone();
            self.broken(format!("channel {uid}: the broker cancels '{tag}', but nobody deleted {name}"));
        }
        self.consumer_leaves(queue, consumer);
    }

    fn answered(&mut self, actor: usize, channel: usize, pending: &Pending, reply: Reply) {
        let now = self.model.now;
        let one = &mut self.actors[actor].channels[channel];
        let uid = one.uid;
        match (&pending.question, reply) {
            (&Question::Declare(queue), Reply::QueueDeclared(name)) => {
                let known = &mut self.model.queues[queue];
                if known.name.starts_with('?') {
                    known.name = name;
                } else if known.name != name {
                    self.broken(format!("'{name}' is declared, not the queue that was asked for"));
                    return;
                }
                let doomed = self.actors[actor].cut && self.model.queues[queue].owner.is_some();
                let life = &mut self.model.queues[queue].life;
                life.made = Some(now);
                if doomed {
                    life.may_end(now);
                }
            }
            (Question::Look(_), Reply::QueueDeclared(..)) => {}
            (&Question::Again(queue, same), Reply::QueueDeclared(name)) => {
                let known = &self.model.queues[queue];
                if known.name != name || !same {
                    let what = format!("{} is declared otherwise, and the answer is declare-ok for {name}", known.name);
                    self.broken(what);
                }
            }
            (&Question::Delete(queue, _), Reply::Other("queue.delete-ok")) => {
                self.model.queues[queue].life.ended = Some(now);
            }
            (&Question::Purge(queue), Reply::Purged) => {
                let newest = self.model.newest();
                let known = &mut self.model.queues[queue];
                known.forgiven = known.forgiven.max(newest);
            }
            (&Question::Bind(binding, life), Reply::Other("queue.bind-ok" | "exchange.bind-ok")) => {
                let binding = &mut self.model.bindings[binding];
                binding.lives[life].made = Some(now);
                binding.locked = false;
            }
            (&Question::Unbind(binding, life), Reply::Other("queue.unbind-ok" | "exchange.unbind-ok")) => {
                let binding = &mut self.model.bindings[binding];
                binding.lives[life].ended = Some(now);
                binding.locked = false;
            }
            (&Question::DeclareExchange(exchange), Reply::Other("exchange.declare-ok")) => {
                self.model.exchanges[exchange].life.made = Some(now);
            }
            (&Question::DeleteExchange(exchange), Reply::Other("exchange.delete-ok")) => {
                self.model.exchanges[exchange].life.ended = Some(now);
            }
            (&Question::Consume(at), Reply::Consuming(tag)) => {
                let consumer = &mut one.consumers[at];
                if !consumer.tag.is_empty() && consumer.tag != tag {
                    return self.broken(format!("consume-ok for '{tag}', not for the tag that was asked for"));
                }
                consumer.tag = tag;
                consumer.stage = Stage::Active;
                // An answer that is heard late may be of a consumer that has been overdue since, and is gone.
                let may_be_gone = self.setting.bounds.consumer_timeout_ms > 0 && !consumer.no_ack;
                let (queue, consumer, exclusive) = (consumer.queue, consumer.uid, consumer.exclusive);
                self.consumes(queue, consumer, uid, exclusive, may_be_gone);
            }
            (&Question::Cancel(at), Reply::Cancelled(tag)) => {
                if one.consumers[at].tag != tag {
                    return self.broken(format!("cancel-ok for '{tag}', not for the tag that was asked for"));
                }
                one.consumers[at].stage = Stage::Gone;
            }
            (Question::Get(..), Reply::Empty) => {}
            (&Question::Prefetch(count), Reply::Other("basic.qos-ok")) => one.prefetch = count,
            (&Question::PrefetchShared(count), Reply::Other("basic.qos-ok")) => one.prefetch_shared = count,
            (&Question::Flow(active), Reply::Other("channel.flow-ok")) => one.flow = active,
            (Question::Recover, Reply::Other("basic.recover-ok")) => {
                // Whatever came before the answer goes back; what it causes comes after it.
                for tag in one.held.keys().copied().collect::<Vec<_>>() {
                    self.settled(actor, channel, tag, Settling::Requeue);
                }
            }
            (Question::Select(_), Reply::Other("confirm.select-ok" | "tx.select-ok")) => {}
            (Question::Commit, Reply::Other("tx.commit-ok")) => {
                let safe = std::mem::take(&mut one.committing);
                self.prove(safe, Vec::new(), true);
            }
            (Question::Rollback, Reply::Other("tx.rollback-ok")) => {}
            (question, reply) => self.broken(format!("channel {uid}: {reply:?} answers {question:?}")),
        }
    }

    fn consumes(&mut self, queue: usize, consumer: u64, channel: u32, exclusive: bool, may_be_gone: bool) {
        let active = if may_be_gone { Vec::new() } else { self.model.queues[queue].active.clone() };
        let name = self.model.queues[queue].name.clone();
        for (_, other, alone) in active {
            if (alone || exclusive) && self.is_certain(other) && self.model.queues[queue].life.ending.is_none() {
                let what =
                    format!("channel {channel} consumes from {name} beside channel {other}; exclusive: {exclusive}");
                return self.broken(what);
            }
        }
        self.model.queues[queue].active.push((consumer, channel, exclusive));
    }

    /// The broker closed a channel: was that fair?
    fn refused(&mut self, actor: usize, number: u16, text: &str) {
        let Some(channel) = self.channel(actor, number) else { return };
        let now = self.model.now;
        let pending = self.actors[actor].channels[channel].pending.take();
        let uid = self.actors[actor].channels[channel].uid;
        let asked = pending.as_ref().map(|pending| pending.question.clone());
        self.note(|_| format!("channel {uid} is refused: {text}; it asked {asked:?}"));
        self.tally.refusals += 1;
        // A publish to an exchange that somebody deleted.
        let mut gone = (0..self.model.exchanges.len()).filter(|&at| self.model.may_be_gone(at));
        let by_publish = gone.any(|at| text.contains(&format!("no exchange '{}'", self.model.exchanges[at].name)));
        let timed_out =
            text.contains("delivery acknowledgement") && self.may_be_overdue(&self.actors[actor].channels[channel]);
        self.tally.overdue += u64::from(timed_out);
        // What the channel asked has nothing to do with that, and may have been done or not.
        let by_publish = by_publish || timed_out;
        let fair = by_publish || pending.as_ref().is_some_and(|pending| self.is_fair(actor, channel, pending));
        if !fair {
            return self.broken(format!("channel {uid} is refused: {text}; it asked {asked:?}"));
        }
        if let Some(pending) = &pending
            && !by_publish
        {
            match pending.question {
                Question::Delete(queue, true) => {
                    let known = &mut self.model.queues[queue];
                    // Others may end it too, and their reasons were not written down.
                    let alone = known.life.ending == Some(pending.asked) && !known.auto_delete && known.owner.is_none();
                    if alone {
                        known.life.ending = None;
                    }
                }
                Question::Bind(binding, life) => {
                    let binding = &mut self.model.bindings[binding];
                    binding.lives[life].ended = Some(now);
                    binding.locked = false;
                }
                Question::Consume(at) => {
                    let consumer = &mut self.actors[actor].channels[channel].consumers[at];
                    consumer.stage = Stage::Gone;
                    let (queue, consumer) = (consumer.queue, consumer.uid);
                    self.model.queues[queue].active.retain(|&(other, ..)| other != consumer);
                }
                _ => {}
            }
        } else if let Some(pending) = pending {
            self.actors[actor].channels[channel].pending = Some(pending);
        }
        self.depart(actor, channel, false);
    }

    fn is_fair(&self, actor: usize, channel: usize, pending: &Pending) -> bool {
        let ending = |target: Target| match target {
            Target::Queue(queue) => self.model.queues[queue].life.ending.is_some(),
            Target::Exchange(exchange) => self.model.may_be_gone(exchange),
        };
        match pending.question {
            Question::Again(queue, same) => !same || ending(Target::Queue(queue)),
            Question::Look(queue) | Question::Purge(queue) | Question::Get(queue, _) => ending(Target::Queue(queue)),
            Question::Delete(queue, conditional) => {
                conditional || self.model.queues[queue].life.ending != Some(pending.asked)
            }
            Question::Bind(binding, _) | Question::Unbind(binding, _) => {
                let binding = &self.model.bindings[binding];
                ending(binding.target) || ending(Target::Exchange(binding.source))
            }
            Question::Consume(at) => {
                let queue = self.actors[actor].channels[channel].consumers[at].queue;
                ending(Target::Queue(queue)) || self.model.queues[queue].contested
            }
            // Auto-delete: it may have gone between the change and the answer.
            Question::Declare(queue) => ending(Target::Queue(queue)),
            // A queue may have refused one of them.
            Question::Commit => {
                self.actors[actor].channels[channel].committing.iter().any(|&id| self.model.may_be_declined(id))
            }
            _ => false,
        }
    }

    /// The client's own close is answered: everything it had said on the channel was heard.
    fn closed(&mut self, actor: usize, number: u16) {
        let Some(channel) = self.channel(actor, number) else { return };
        let one = self.actors[actor].channels.remove(channel);
        let uid = one.uid;
        self.note(|_| format!("channel {uid} has closed"));
        let doubtful = one.doubtful || self.may_be_refused(&one) || self.may_be_overdue(&one);
        let safe: Vec<u64> = one.plains.into_iter().chain(one.unconfirmed.into_values()).collect();
        for id in &safe {
            // It may have come back when nobody listened any more.
            if let Some(message) = self.model.messages.get_mut(id) {
                message.mandatory = false;
                if doubtful {
                    message.fate = Fate::Unknown;
                }
            }
        }
        if !doubtful {
            self.prove(safe, one.settles, false);
        }
    }

    /// A channel ends without its broker's word: what it was told and what it holds is uncertain.
    pub(crate) fn depart(&mut self, actor: usize, channel: usize, is_closing: bool) {
        let now = self.model.now;
        let period = self.leaving_period();
        let roomy = self.setting.bounds.is_roomy();
        let one = &mut self.actors[actor].channels[channel];
        let consumers = std::mem::take(&mut one.consumers);
        let held = std::mem::take(&mut one.held);
        let pending = one.pending.take();
        let staged = std::mem::take(&mut one.staged);
        let mut unknown = std::mem::take(&mut one.committing);
        one.doubtful = pending.is_some() || !staged.is_empty() || !unknown.is_empty();
        if is_closing {
            one.door = Door::Closing;
        } else {
            unknown.append(&mut one.plains);
            unknown.extend(std::mem::take(&mut one.unconfirmed).into_values());
            one.door = Door::Gone;
        }
        for consumer in consumers.iter().filter(|consumer| consumer.stage != Stage::Gone) {
            self.consumer_leaves(consumer.queue, consumer.uid);
            let queue = &mut self.model.queues[consumer.queue];
            queue.departed = Some(period);
            queue.disturbed = true;
            queue.blind = true;
            if consumer.no_ack {
                queue.leak(roomy);
            }
        }
        // What it settled last may not have been heard.
        for &(queue, ..) in &self.actors[actor].channels[channel].settles {
            self.model.queues[queue].disturbed = true;
        }
        for held in held.values() {
            let queue = &mut self.model.queues[held.queue];
            queue.disturbed = true;
            queue.seen.entry(held.message).or_default().holder = None;
        }
        for id in staged {
            if let Some(message) = self.model.messages.get_mut(&id) {
                message.fate = Fate::Never;
            }
        }
        for id in unknown {
            if let Some(message) = self.model.messages.get_mut(&id) {
                message.fate = Fate::Unknown;
            }
        }
        match pending.map(|pending| pending.question) {
            Some(Question::Declare(queue)) => self.model.queues[queue].life.may_end(now),
            Some(Question::DeclareExchange(exchange)) => self.model.exchanges[exchange].life.may_end(now),
            Some(Question::Purge(queue)) => self.model.queues[queue].leak(roomy),
            Some(Question::Get(queue, no_ack)) => {
                let queue = &mut self.model.queues[queue];
                if no_ack {
                    queue.leak(roomy);
                }
                queue.departed = Some(period);
                queue.disturbed = true;
                queue.blind = true;
            }
            _ => {}
        }
        if !is_closing {
            self.actors[actor].channels.remove(channel);
        }
    }

    /// The last period in which somebody who leaves now may be noticed to have left: one that is held back is not noticed
    /// before it is heard again.
    pub(crate) fn leaving_period(&self) -> u32 {
        if self.setting.bounds.is_roomy() { self.model.period } else { u32::MAX }
    }

    /// All channels end with their connection, and so do the queues it owns.
    pub(crate) fn forget_channels(&mut self, actor: usize) {
        while !self.actors[actor].channels.is_empty() {
            self.depart(actor, 0, false);
        }
        let (now, uid) = (self.model.now, self.actors[actor].uid);
        for queue in self.model.queues.iter_mut().filter(|queue| queue.owner == Some(uid)) {
            queue.life.may_end(now);
        }
    }

    /// A connection is gone.
    pub(crate) fn gone(&mut self, actor: usize) {
        self.model.tick();
        self.forget_channels(actor);
        self.actors[actor].standing = Standing::Gone;
    }
}
