//! Queues that do more than queue: what the model knows of times, limits, priorities and dead letters.
//!
//! Enters: declarations, dead letters.  Leaves: arguments; whether a message may be gone, and where it must be then.
//! Owns:   the reasons for which a message leaves a queue without a consumer.
//! Never:  guesses when exactly a time is over: it knows when it cannot be.

use crate::actor::Stage;
use crate::client::Came;
use crate::model::{Fate, Model, Queue};
use crate::run::Run;
use std::collections::BTreeSet;
use wire::{Properties, RawProperties, Table, Value};

/// Bits of a message's number; above them is the queue that a dead letter comes from.
const NUMBER_BITS: u32 = 40;
/// Times that no run reaches.
const LONG_MS: u64 = 3_600_000;

/// The number of the message behind a copy's.
pub(crate) fn number_of(copy: u64) -> u64 {
    copy & ((1 << NUMBER_BITS) - 1)
}

/// The queue that gave a copy up; `None` if it is the message itself.
pub(crate) fn origin_of(copy: u64) -> Option<usize> {
    (copy >> NUMBER_BITS).checked_sub(1).map(|queue| queue as usize)
}

fn copy_of(number: u64, origin: usize) -> u64 {
    number | (origin as u64 + 1) << NUMBER_BITS
}

/// What a queue of the model does beyond queueing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// How long its messages wait.
    pub ttl_us: Option<u64>,
    /// It may go when it is not used.
    pub expires_soon: bool,
    /// How many messages, and bytes of bodies, wait.
    pub length: Option<(u64, u64)>,
    /// It refuses what it has no room for.
    pub refuses: bool,
    /// And makes that a dead letter.
    pub refuses_to_dead: bool,
    /// The queue that takes its dead letters: a plain one.
    pub dead: Option<usize>,
    /// The highest priority.
    pub priority_max: u8,
    /// One consumer at a time is served.
    pub single_active: bool,
}

impl Traits {
    /// The level of a message.
    pub fn level(&self, priority: Option<u8>) -> u8 {
        priority.unwrap_or(0).min(self.priority_max)
    }
}

impl Model {
    /// A queue to which a publish may have been refused.
    pub fn may_be_declined(&self, id: u64) -> bool {
        let Some(message) = self.messages.get(&id) else { return false };
        self.reach(message, self.now, false).iter().any(|&queue| self.queues[queue].traits.refuses)
    }

    /// The broker said that a queue has no room for a message.
    pub fn is_declined(&mut self, id: u64) -> Result<(), String> {
        if !self.may_be_declined(id) {
            return Err(format!("message {id} was refused, and no queue that it goes to refuses any"));
        }
        let now = self.now;
        if let Some(message) = self.messages.get_mut(&id) {
            (message.fate, message.routed) = (Fate::Unknown, Some(now));
            message.declined = true;
        }
        Ok(())
    }

    /// Whether a queue surely refused a message: it was refused, and can go to no other that refuses.
    pub fn is_refused_by(&self, queue: usize, id: u64) -> bool {
        let message = &self.messages[&id];
        let may = || self.reach(message, message.routed.unwrap_or(self.now), false);
        message.declined
            && self.queues[queue].traits.refuses
            && may().into_iter().filter(|&other| self.queues[other].traits.refuses).collect::<BTreeSet<_>>().len() == 1
    }

    /// The broker has heard that a message of a queue is not wanted: its dead letter is owed.
    pub fn has_died(&mut self, origin: usize, id: u64) {
        // A queue that is deleted leaves no dead letters.
        if let Some(dead) = self.queues[origin].traits.dead
            && self.queues[origin].life.ending.is_none()
        {
            let copy = copy_of(id, origin);
            let queue = &mut self.queues[dead];
            if !queue.seen.contains_key(&copy) && queue.life.ending.is_none() {
                queue.owed.insert(copy);
            }
        }
    }
}

impl Run {
    /// What a new queue does beyond queueing, and the arguments that say so.
    pub(crate) fn draw_traits(&mut self) -> (Traits, Table) {
        let switches = self.setting.features;
        let (mut traits, mut table) = (Traits::default(), Table::new());
        let mut put = |name: &str, value: Value| {
            table = std::mem::take(&mut table).with(name, value).expect("a short name");
        };
        if self.chance.permille(switches.ttl) {
            let ms = self.draw_ms();
            traits.ttl_us = Some(ms * 1_000);
            put("x-message-ttl", Value::I64(ms as i64));
        }
        if self.chance.permille(switches.expires) {
            traits.expires_soon = self.chance.permille(700);
            let ms = if traits.expires_soon { self.chance.between(1, 200) } else { LONG_MS };
            put("x-expires", Value::I64(ms as i64));
        }
        if self.chance.permille(switches.length) {
            let (mut messages, mut bytes) = (u64::MAX, u64::MAX);
            if self.chance.permille(700) {
                messages = self.chance.below(12);
                put("x-max-length", Value::I64(messages as i64));
            } else {
                bytes = self.chance.below(3_000);
                put("x-max-length-bytes", Value::I64(bytes as i64));
            }
            traits.length = Some((messages, bytes));
            match self.chance.below(3) {
                0 => {
                    traits.refuses = true;
                    put("x-overflow", Value::text("reject-publish"));
                }
                1 => {
                    (traits.refuses, traits.refuses_to_dead) = (true, true);
                    put("x-overflow", Value::text("reject-publish-dlx"));
                }
                _ => {}
            }
        }
        if self.chance.permille(switches.priorities) {
            traits.priority_max = self.chance.between(1, 10) as u8;
            put("x-max-priority", Value::I64(traits.priority_max.into()));
        }
        if self.chance.permille(switches.single_active) {
            traits.single_active = true;
            put("x-single-active-consumer", Value::Bool(true));
        }
        let now = self.model.now;
        let plain = |queue: &Queue| {
            queue.traits == Traits::default()
                && queue.life.surely(now, now)
                && queue.owner.is_none()
                && !queue.auto_delete
                && !queue.name.starts_with("amq.")
        };
        let graves: Vec<usize> = (0..self.model.queues.len()).filter(|&at| plain(&self.model.queues[at])).collect();
        if !graves.is_empty() && self.chance.permille(switches.dead_letters) {
            let grave = graves[self.chance.below(graves.len() as u64) as usize];
            traits.dead = Some(grave);
            put("x-dead-letter-exchange", Value::text(""));
            put("x-dead-letter-routing-key", Value::text(&self.model.queues[grave].name));
        }
        (traits, table)
    }

    fn draw_ms(&mut self) -> u64 {
        match self.chance.below(4) {
            0 => 0,
            1 | 2 => self.chance.between(1, 100),
            _ => LONG_MS,
        }
    }

    /// Further routing keys of a message, by `CC` and `BCC`.
    pub(crate) fn draw_copies(&mut self) -> [Vec<String>; 2] {
        let living = self.model.living_queues();
        if living.is_empty() || !self.chance.permille(self.setting.features.copies) {
            return Default::default();
        }
        [(); 2].map(|()| {
            let count = self.chance.below(3);
            (0..count)
                .map(|_| match self.chance.below(3) {
                    0 => format!("k{}", self.chance.below(4)),
                    1 => self.words(false),
                    _ => {
                        let queue = living[self.chance.below(living.len() as u64) as usize];
                        self.model.queues[queue].name.clone()
                    }
                })
                .collect()
        })
    }

    /// A consumer of a queue that serves one at a time got a message: whoever got the one before must be gone.
    pub(crate) fn check_single(&mut self, queue: usize, consumer: u64, channel: u32) -> Option<String> {
        let known = &mut self.model.queues[queue];
        let before = known.served.replace((consumer, channel));
        let (other, its_channel) = before.filter(|&(other, _)| known.traits.single_active && other != consumer)?;
        let name = known.name.clone();
        let mut channels = self.actors.iter().flat_map(|actor| &actor.channels);
        let channels = channels.find(|one| one.uid == its_channel)?;
        let active = channels.consumers.iter().any(|one| one.uid == other && one.stage == Stage::Active);
        (active && self.is_certain(its_channel))
            .then(|| format!("consumer {consumer} got a message of {name}, where consumer {other} is the active one"))
    }

    /// The priority of a message, and how long it may wait.
    pub(crate) fn priority_and_expiration(&mut self) -> (Option<u8>, Option<u64>) {
        let switches = self.setting.features;
        let priority = (switches.priorities > 0 && self.chance.permille(700)).then(|| self.chance.below(12) as u8);
        let expiration = self.chance.permille(switches.expiration).then(|| self.draw_ms());
        (priority, expiration)
    }

    /// What came is a dead letter of a message: answers the number of the copy.
    pub(crate) fn dead_letter(&self, id: u64, came: &Came) -> Result<u64, String> {
        let message = &self.model.messages[&id];
        let properties = RawProperties::new(&came.properties).to_properties().map_err(|error| error.to_string())?;
        let mut headers = properties.headers.clone().unwrap_or_default();
        let events = headers.remove("x-death");
        let event = events.as_ref().and_then(Value::as_list).and_then(|list| list.iter().next()?.as_table());
        let Some(event) = event else { return Err("it has no death in its headers".into()) };
        let word = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or("?");
        let origin = self.model.queues.iter().position(|queue| queue.name == word("queue"));
        let origin = origin.ok_or_else(|| format!("it died in '{}', which is no queue", word("queue")))?;
        let before = RawProperties::new(&message.properties).to_properties().map_err(|error| error.to_string())?;
        let exchange = &self.model.exchanges[message.exchange].name;
        for which in ["first", "last"] {
            for (name, value) in [("queue", word("queue")), ("reason", word("reason")), ("exchange", exchange)] {
                let header = headers.remove(&format!("x-{which}-death-{name}"));
                if header.as_ref().and_then(Value::as_str) != Some(value) {
                    return Err(format!("x-{which}-death-{name} is {header:?}"));
                }
            }
        }
        // Its letters have a key of their own, so the others are taken off.
        if headers.remove("CC").is_some() {
            return Err("it has further routing keys".into());
        }
        let mut before = before;
        if let Some(table) = &mut before.headers {
            table.remove("CC");
        }
        if before.headers.as_ref().is_some_and(Table::is_empty) {
            before.headers = None;
        }
        let kept = Properties { headers: (!headers.is_empty()).then_some(headers), ..properties };
        if kept != (Properties { expiration: None, ..before.clone() }) {
            return Err(format!("its properties became {kept:?}"));
        }
        let expected_keys: Vec<Value> =
            std::iter::once(&message.key).chain(&message.copies[0]).map(|key| Value::text(key)).collect();
        let keys = event.get("routing-keys").and_then(Value::as_list).map(|keys| keys.iter().collect::<Vec<_>>());
        let expiration = before.expiration.as_ref().map(|text| Value::LongStr(text.as_bytes().into()));
        let fits = event.get("count").and_then(Value::as_i64) == Some(1)
            && word("exchange") == exchange
            && keys == Some(expected_keys.iter().collect())
            && event.get("original-expiration") == expiration.as_ref();
        if !fits || came.body != crate::deeds::body_of(id, message.body_bytes) {
            return Err(format!("its death says {event:?}"));
        }
        Ok(copy_of(id, origin))
    }

    /// A dead letter came from a queue: its own queue had a reason to give it up, and sends its letters there.
    pub(crate) fn check_death(&mut self, queue: usize, origin: usize, copy: u64, came: &Came) -> Result<(), String> {
        self.tally.dead += 1;
        let id = number_of(copy);
        let (known, message) = (&self.model.queues[origin], &self.model.messages[&id]);
        // A name may have a new queue by now.
        let grave = known.traits.dead.map(|dead| &self.model.queues[dead].name);
        if grave != Some(&self.model.queues[queue].name) || came.routing_key != self.model.queues[queue].name.as_bytes()
        {
            return Err(format!("the letters of {} do not go there", known.name));
        }
        if !self.model.reach(message, message.routed.unwrap_or(self.model.now), false).contains(&origin) {
            return Err(format!("nothing led it to {}", known.name));
        }
        let headers = RawProperties::new(&came.properties).headers().and_then(|headers| headers.to_table().ok());
        let headers = headers.unwrap_or_default();
        let reason = headers.get("x-first-death-reason").and_then(Value::as_str).unwrap_or("?").to_owned();
        let seen = known.seen.get(&id);
        let fair = match &*reason {
            "expired" => self.may_have_expired(known, id),
            "maxlen" => known.traits.length.is_some() && (!known.traits.refuses || known.traits.refuses_to_dead),
            "rejected" => seen.is_some_and(|seen| seen.rejected),
            _ => false,
        };
        if !fair {
            return Err(format!("its reason '{reason}' is none in {}", known.name));
        }
        if let Some(seen) = seen {
            if seen.settled == crate::model::Settled::Heard && !seen.rejected {
                return Err(format!("it was settled in {}", known.name));
            }
            if let Some(holder) = seen.holder.filter(|&holder| self.is_certain(holder)) {
                return Err(format!("channel {holder} has it from {}", known.name));
            }
        }
        Ok(())
    }

    /// Whether the time of a message in a queue may be over.
    fn may_have_expired(&self, queue: &Queue, id: u64) -> bool {
        let message = &self.model.messages[&id];
        let life_us = queue.traits.ttl_us.into_iter().chain(message.expiration_us).min();
        life_us.is_some_and(|life_us| message.sent_us + life_us <= self.world.us())
    }

    /// Whether a queue need not have delivered a message: it had a reason to give it up, and if its dead letters go
    /// somewhere, it is there.
    pub(crate) fn is_excused(&self, queue: &Queue, copy: u64) -> bool {
        let id = number_of(copy);
        let expired = match origin_of(copy) {
            // A dead letter has no expiration any more, and where it goes is plain.
            Some(_) => false,
            None => self.may_have_expired(queue, id),
        };
        let crowded = queue.traits.length.is_some() && !queue.traits.refuses;
        if !expired && !crowded {
            return false;
        }
        let Some(dead) = queue.traits.dead else { return true };
        let grave = &self.model.queues[dead];
        let origin = self.model.queues.iter().position(|other| std::ptr::eq(other, queue));
        let arrived = origin.is_some_and(|origin| grave.seen.contains_key(&copy_of(id, origin)));
        arrived || grave.life.ending.is_some() || grave.leaky || grave.forgiven > 0
    }

    /// At rest: limits hold, and nothing is there whose time is over.
    pub(crate) fn check_limits(&self, complain: &mut impl FnMut(String)) {
        let now_us = self.world.us();
        for queue in self.world.nodes.iter().flat_map(|node| node.shard.broker().queues()) {
            let Some(known) = self.model.queues.iter().rev().find(|known| *known.name == *queue.name) else { continue };
            let (name, ready) = (&queue.name, &queue.ready);
            let (messages, bytes) = known.traits.length.unwrap_or((u64::MAX, u64::MAX));
            // What comes back is not refused.
            if !known.traits.refuses && (ready.len() as u64 > messages || ready.body_bytes() > bytes) {
                complain(format!("at rest: {name} has {} messages of {} bytes", ready.len(), ready.body_bytes()));
            }
            let over_us = ready.front().map_or(0, |head| now_us.saturating_sub(queue.deadline_us(head)));
            if over_us > 1_000 {
                complain(format!("at rest: the time of the first message of {name} is over since {over_us} us"));
            }
        }
    }
}
