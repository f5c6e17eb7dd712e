//! Queues that do more than queue: their arguments, and what the model knows of limits, priorities and single consumers.
//!
//! Enters: declarations, deliveries.  Leaves: arguments; broken promises about who is served, and in which order.
//! Owns:   what each feature means for a queue that lives.
//! Never:  says what becomes of a message that leaves without a consumer: `letters` does.

use crate::actor::Stage;
use crate::letters::number_of;
use crate::model::Queue;
use crate::run::Run;
use crate::swarm::Feature;
use wire::{Table, Value};

/// Times that no run reaches.
pub(crate) const LONG_MS: u64 = 3_600_000;

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
    /// The queue that takes its dead letters: one that was there before it, so that no letter goes round.
    pub dead: Option<usize>,
    /// The highest priority.
    pub priority_max: u8,
    /// One consumer at a time is served.
    pub single_active: bool,
    /// How often a message may come back.
    pub delivery_limit: Option<u32>,
}

impl Traits {
    /// The level of a message.
    pub fn level(&self, priority: Option<u8>) -> u8 {
        priority.unwrap_or(0).min(self.priority_max)
    }
}

impl Run {
    /// What a new queue does beyond queueing, and the arguments that say so.
    pub(crate) fn draw_traits(&mut self) -> (Traits, Table) {
        let switches = self.setting.switches;
        let (mut traits, mut table) = (Traits::default(), Table::new());
        let mut put = |name: &str, value: Value| {
            table = std::mem::take(&mut table).with(name, value).expect("a short name");
        };
        if switches.has(Feature::Ttl, &mut self.chance) {
            let ms = self.draw_ms();
            traits.ttl_us = Some(ms * 1_000);
            put("x-message-ttl", Value::I64(ms as i64));
        }
        if switches.has(Feature::Expires, &mut self.chance) {
            traits.expires_soon = self.chance.permille(700);
            let ms = if traits.expires_soon { self.chance.between(1, 200) } else { LONG_MS };
            put("x-expires", Value::I64(ms as i64));
        }
        if switches.has(Feature::Length, &mut self.chance) {
            let (mut messages, mut bytes) = (u64::MAX, u64::MAX);
            if self.chance.permille(700) {
                messages = self.chance.below(12);
                put("x-max-length", Value::I64(messages as i64));
            } else {
                bytes = self.chance.below(3_000);
                put("x-max-length-bytes", Value::I64(bytes as i64));
            }
            traits.length = Some((messages, bytes));
            if switches.has(Feature::Refuses, &mut self.chance) {
                traits.refuses = true;
                traits.refuses_to_dead = self.chance.permille(500);
                let word = if traits.refuses_to_dead { "reject-publish-dlx" } else { "reject-publish" };
                put("x-overflow", Value::text(word));
            }
        }
        if switches.has(Feature::Priorities, &mut self.chance) {
            traits.priority_max = self.chance.between(1, 10) as u8;
            put("x-max-priority", Value::I64(traits.priority_max.into()));
        }
        if switches.has(Feature::SingleActive, &mut self.chance) {
            traits.single_active = true;
            put("x-single-active-consumer", Value::Bool(true));
        }
        if switches.has(Feature::DeliveryLimit, &mut self.chance) {
            let limit = self.chance.below(4) as u32;
            traits.delivery_limit = Some(limit);
            put("x-delivery-limit", Value::I64(limit.into()));
        }
        if switches.has(Feature::Modes, &mut self.chance) {
            put("x-queue-mode", Value::text(if self.chance.permille(500) { "lazy" } else { "default" }));
            put("x-queue-type", Value::text("classic"));
        }
        if switches.has(Feature::DeadLetters, &mut self.chance) {
            let chained = switches.has(Feature::Chains, &mut self.chance);
            let now = self.model.now;
            let takes = |queue: &Queue| {
                (chained || queue.traits == Traits::default())
                    && queue.life.surely(now, now)
                    && queue.owner.is_none()
                    && !queue.auto_delete
                    && !queue.name.starts_with("amq.")
            };
            let graves: Vec<usize> = (0..self.model.queues.len()).filter(|&at| takes(&self.model.queues[at])).collect();
            if !graves.is_empty() {
                let grave = graves[self.chance.below(graves.len() as u64) as usize];
                traits.dead = Some(grave);
                put("x-dead-letter-exchange", Value::text(""));
                put("x-dead-letter-routing-key", Value::text(&self.model.queues[grave].name));
            }
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
        if living.is_empty() || !self.setting.switches.has(Feature::Copies, &mut self.chance) {
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

    /// A message came to a consumer or channel behind one of a lower priority, which was published when this one waited
    /// already. While only the drain takes messages, priorities never rise.
    pub(crate) fn check_priority(&mut self, queue: usize, copy: u64, stream: u64, redelivered: bool) -> Option<String> {
        let message = &self.model.messages[&number_of(copy)];
        // A dead letter waits from some moment that nobody is told.
        let (original, sent, accepted) = (self.model.is_original(copy), message.sent, message.accepted);
        let (draining, priority) = (self.draining, message.priority);
        let takes_letters = self.model.queues.iter().any(|other| other.traits.dead == Some(queue));
        let known = &mut self.model.queues[queue];
        if known.traits.priority_max == 0 {
            return None;
        }
        let level = known.traits.level(priority);
        let lower = known.sent_below.range((stream, 0)..(stream, level)).map(|(&(_, level), &sent)| (level, sent));
        let overtaken = lower.max_by_key(|&(_, sent)| sent);
        let newest = known.sent_below.entry((stream, level)).or_default();
        *newest = (*newest).max(if original { sent } else { 0 });
        let (low, low_sent) = overtaken?;
        let waited = original && !redelivered && accepted.is_some_and(|accepted| accepted < low_sent);
        let still = draining && !takes_letters;
        (still || waited).then(|| {
            let name = &known.name;
            format!("message {copy} of priority {level} came from {name} behind one of priority {low} that is newer")
        })
    }

    /// The priority of a message, and how long it may wait.
    pub(crate) fn priority_and_expiration(&mut self) -> (Option<u8>, Option<u64>) {
        let switches = self.setting.switches;
        let priority =
            (switches.part(Feature::Priorities) > 0 && self.chance.permille(700)).then(|| self.chance.below(12) as u8);
        let expiration = switches.has(Feature::Expiration, &mut self.chance).then(|| self.draw_ms());
        (priority, expiration)
    }

    /// At rest: limits hold, and nothing is there whose time is over.
    pub(crate) fn check_limits(&self, complain: &mut impl FnMut(String)) {
        let now_us = self.world.us();
        for queue in self.world.nodes.iter().flat_map(|node| node.shard.broker().queues()) {
            let Some(known) = self.model.queues.iter().rev().find(|known| *known.name == *queue.name) else { continue };
            let (name, ready) = (&queue.name, &queue.ready);
            let (messages, bytes) = known.traits.length.unwrap_or((u64::MAX, u64::MAX));
            // What comes back is not refused.
            let came_back = known.disturbed || known.departed.is_some();
            if !(known.traits.refuses && came_back) && (ready.len() as u64 > messages || ready.body_bytes() > bytes) {
                complain(format!("at rest: {name} has {} messages of {} bytes", ready.len(), ready.body_bytes()));
            }
            let over_us = ready.front().map_or(0, |head| now_us.saturating_sub(queue.deadline_us(head)));
            if over_us > 1_000 {
                complain(format!("at rest: the time of the first message of {name} is over since {over_us} us"));
            }
        }
    }
}
