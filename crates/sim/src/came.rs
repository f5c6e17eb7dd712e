//! Messages that come: every promise about a delivery is checked here.
//!
//! Enters: deliveries, gets, returns.  Leaves: broken promises, and what the channel holds.
//! Owns:   the checks of content, route, order, flags, prefetch.
//! Never:  forgives what the model does not excuse.

use crate::actor::{Held, Mode, Question, Stage, Standing};
use crate::client::Came;
use crate::letters::{Letter, number_of};
use crate::model::{Fate, Settled};
use crate::run::Run;

/// What a message came to.
#[derive(Clone, Copy)]
pub(crate) enum Taker {
    /// A consumer, by its place in the channel.
    Consumer(usize),
    /// A get.
    Get {
        /// It needs no acknowledgement.
        no_ack: bool,
    },
}

impl Run {
    /// The message that came, if it is what was published under its number, or a dead letter of that.
    pub(crate) fn identify(&mut self, queue: Option<usize>, came: &Came) -> Option<Letter> {
        let id = came.body.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
        let known = id.and_then(|id| Some((id, self.model.messages.get(&id)?.fate)));
        let Some((id, fate)) = known else {
            self.broken(format!("a message came that nobody published: {came:?}"));
            return None;
        };
        let letter = match self.understand(id, queue, came) {
            Ok(letter) => letter,
            Err(what) => {
                self.broken(format!("message {id} came changed: {what}"));
                return None;
            }
        };
        if matches!(fate, Fate::Staged | Fate::Never) {
            self.broken(format!("message {id} came, but its transaction says {fate:?}"));
            return None;
        }
        Some(letter)
    }

    /// A message came from a queue.
    pub(crate) fn came(&mut self, actor: usize, channel: usize, queue: usize, taker: Taker, came: &Came) {
        let Some(letter) = self.identify(Some(queue), came) else { return };
        let id = letter.copy;
        let now = self.model.tick();
        self.tally.delivered += 1;
        self.tally.redelivered += u64::from(came.redelivered);
        let one = &self.actors[actor].channels[channel];
        let (uid, name) = (one.uid, self.model.queues[queue].name.clone());
        let flag = if came.redelivered { "!" } else { "" };
        self.note(|_| format!("channel {uid} gets {id}{flag} from {name} as {}", came.tag));
        let one = &mut self.actors[actor].channels[channel];
        if came.tag != one.last_tag + 1 {
            let last = one.last_tag;
            return self.broken(format!("delivery tag {} after {last} on channel {uid}", came.tag));
        }
        one.last_tag = came.tag;
        if let Some(returns) = letter.returns
            && let Err(what) = self.check_returns(queue, id, returns, came.redelivered)
        {
            return self.broken(format!("message {id} came from {name}: {what}"));
        }
        if !letter.deaths.is_empty() {
            if let Err(what) = self.check_deaths(queue, &letter, came) {
                return self.broken(format!("dead letter {id} came from {name}: {what}"));
            }
        } else {
            let message = &self.model.messages[&id];
            if !self.model.reach(message, message.routed.unwrap_or(now), false).contains(&queue) {
                return self.broken(format!("message {id} came from {name}, where nothing led it"));
            }
            if self.model.is_refused_by(queue, id) {
                return self.broken(format!("message {id} came from {name}, which had refused it"));
            }
        }
        let stream = match taker {
            Taker::Consumer(at) => self.actors[actor].channels[channel].consumers[at].uid << 1,
            Taker::Get { .. } => u64::from(uid) << 1 | 1,
        };
        if let Taker::Consumer(at) = taker {
            let consumer = &self.actors[actor].channels[channel].consumers[at];
            let (consumer, active) = (consumer.uid, consumer.stage == Stage::Active);
            // What comes to one that has been cancelled, or may have been, may have been long on its way.
            if active
                && self.is_certain(uid)
                && let Some(what) = self.check_single(queue, consumer, uid)
            {
                return self.broken(what);
            }
        }
        let one = &self.actors[actor].channels[channel];
        let no_ack = match taker {
            Taker::Consumer(at) => one.consumers[at].no_ack,
            Taker::Get { no_ack } => no_ack,
        };
        // What comes before recover-ok may have gone back already, and come to others since.
        let recovering = one.pending.as_ref().is_some_and(|pending| matches!(pending.question, Question::Recover));
        if no_ack || !recovering {
            let order = self.check_order(queue, id, stream, came.redelivered);
            if let Some(what) = order.or(self.check_priority(queue, id, stream, came.redelivered)) {
                let period = self.model.messages[&number_of(id)].period;
                self.note(|_| format!("perhaps: {what}"));
                self.disorder.push((queue, period, what));
            }
            if let Some(suspicion) = self.check_seen(queue, id, came.redelivered) {
                if self.is_certain(uid) {
                    self.broken(suspicion);
                } else {
                    self.note(|_| format!("perhaps: {suspicion}"));
                    self.actors[actor].channels[channel].suspicions.push((now, suspicion));
                }
            }
        } else {
            self.model.queues[queue].disturbed = true;
            self.model.queues[queue].seen.entry(id).or_default().times += 1;
        }
        self.hold(actor, channel, queue, id, taker, came.tag);
    }

    /// Delivered before means flagged; settled means never again; held by somebody means not by another.
    fn check_seen(&mut self, queue: usize, id: u64, redelivered: bool) -> Option<String> {
        let known = &mut self.model.queues[queue];
        let (name, disturbed) = (known.name.clone(), known.disturbed);
        let seen = known.seen.entry(id).or_default();
        let (times, settled, holder) = (seen.times, seen.settled, seen.holder);
        seen.times += 1;
        if times > 0 && !redelivered {
            return Some(format!("message {id} came from {name} again, without the flag"));
        }
        if redelivered && times == 0 && !disturbed {
            // A channel may have ended, and its client does not know; at the next rest it does.
            let what = format!("message {id} came from {name} flagged, but nothing ever went back");
            self.flagged.push((queue, what));
        }
        if settled == Settled::Heard {
            return Some(format!("message {id} came from {name} after it was settled"));
        }
        if let Some(holder) = holder
            && self.is_certain(holder)
        {
            return Some(format!("message {id} came from {name} while channel {holder} has it"));
        }
        None
    }

    /// What one channel published comes in its order, unless it comes again or a consumer left meanwhile, which its client
    /// may not know yet: at the next rest it does.
    fn check_order(&mut self, queue: usize, id: u64, stream: u64, redelivered: bool) -> Option<String> {
        if !self.model.is_original(id) {
            return None;
        }
        let (publisher, priority) = (self.model.messages[&id].channel, self.model.messages[&id].priority);
        let draining = self.draining;
        let known = &mut self.model.queues[queue];
        let excused = redelivered && !draining;
        let level = known.traits.level(priority);
        let newest = known.newest.entry((stream, publisher, level)).or_default();
        let (before, name) = (*newest, &known.name);
        if before > id && !excused {
            let what = format!("message {id} came from {name} behind {before} of the same channel {publisher}");
            return Some(what);
        }
        if !redelivered || draining {
            *newest = before.max(id);
        }
        None
    }

    /// The channel has it now; the prefetch counts allow that.
    fn hold(&mut self, actor: usize, channel: usize, queue: usize, message: u64, taker: Taker, tag: u64) {
        let since_us = self.world.us();
        let one = &mut self.actors[actor].channels[channel];
        let no_ack = match taker {
            Taker::Consumer(at) => one.consumers[at].no_ack,
            Taker::Get { no_ack } => no_ack,
        };
        let uid = one.uid;
        let known = &mut self.model.queues[queue];
        let seen = known.seen.entry(message).or_default();
        if no_ack {
            seen.settled = Settled::Heard;
            known.owed.remove(&message);
            return;
        }
        seen.holder = Some(uid);
        let consumer = match taker {
            Taker::Consumer(at) => Some(at),
            Taker::Get { .. } => None,
        };
        one.held.insert(tag, Held { queue, message, consumer, staged: false, since_us });
        let Some(at) = consumer else { return };
        let consumer = &mut one.consumers[at];
        consumer.held += 1;
        one.consumers_hold += 1;
        let (held, prefetch, tag) = (consumer.held, consumer.prefetch, consumer.tag.clone());
        let (all, shared) = (one.consumers_hold, one.prefetch_shared);
        let wants_less = |pending: &crate::actor::Pending| {
            matches!(pending.question, Question::PrefetchShared(_) | Question::Recover)
        };
        let changing = one.pending.as_ref().is_some_and(wants_less);
        // The settlements of a transaction count once they are committed.
        if prefetch > 0 && held > prefetch && !changing {
            return self.broken(format!("consumer {tag} of channel {uid} holds {held}, its prefetch is {prefetch}"));
        }
        if shared > 0 && all > shared && !changing {
            self.broken(format!("the consumers of channel {uid} hold {all}, its prefetch is {shared}"));
        }
    }

    /// A published message came back.
    pub(crate) fn returned(&mut self, actor: usize, channel: usize, came: &Came) {
        let Some(letter) = self.identify(None, came) else { return };
        let id = letter.copy;
        let uid = self.actors[actor].channels[channel].uid;
        self.note(|_| format!("channel {uid} gets {id} back"));
        // A dead letter comes back to nobody.
        let Some(message) = self.model.messages.get_mut(&id) else {
            return self.broken(format!("message {id} came back to channel {uid}, and is no publish of anybody"));
        };
        let (mine, mandatory, again) = (message.channel == uid, message.mandatory, message.returned);
        message.returned = true;
        if !mine || !mandatory || again || message.routed.is_some() {
            self.broken(format!("message {id} came back to channel {uid}: mandatory {mandatory}, again {again}"));
        }
    }

    /// Whether a channel surely is what the client thinks it is: nothing is under way that could have ended it.
    pub(crate) fn is_certain(&self, uid: u32) -> bool {
        let found = self.actors.iter().find_map(|actor| {
            let channel = actor.channels.iter().find(|channel| channel.uid == uid)?;
            Some((actor, channel))
        });
        found.is_some_and(|(actor, channel)| {
            actor.standing == Standing::Here
                && !actor.cut
                && channel.is_free()
                && !self.may_be_refused(channel)
                && !self.may_be_overdue(channel)
        })
    }

    /// Whether a channel may have had something for so long that the broker has ended it.
    pub(crate) fn may_be_overdue(&self, channel: &crate::actor::Channel) -> bool {
        let timeout_us = self.setting.bounds.consumer_timeout_ms * 1_000;
        timeout_us > 0 && channel.owing_since_us.is_some_and(|since_us| since_us + timeout_us <= self.world.us())
    }

    /// Whether a publish that is not proven may have met a deleted exchange.
    pub(crate) fn may_be_refused(&self, channel: &crate::actor::Channel) -> bool {
        let unproven =
            channel.plains.iter().chain(channel.unconfirmed.values()).chain(&channel.staged).chain(&channel.committing);
        let mut unproven = unproven.filter_map(|id| self.model.messages.get(id));
        unproven.any(|message| self.model.may_be_gone(message.exchange))
            || (channel.mode == Mode::Tx && channel.pending.is_some())
    }
}
