//! What clients draw: arguments of queues, routing keys, priorities and expirations of messages.

use super::shadow_model::{ShadowModel, ShadowQueue};
use super::swarm::{Feature, Switches};
use splitmix::SplitMix64;
use wire::{Table, Value};

/// A time that no run reaches.
pub const LONG_MS: u64 = 3_600_000;

/// The features of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTraits {
    /// The message TTL.
    pub ttl_us: Option<u64>,
    /// It expires soon when it is unused.
    pub expires_soon: bool,
    /// The length limit, in messages and in bytes of bodies.
    pub length: Option<(u64, u64)>,
    /// It refuses publishes when it is full.
    pub refuses: bool,
    /// And dead-letters them.
    pub refuses_to_dead: bool,
    /// The queue of its dead letters: one that existed before it, so that there are no cycles.
    pub dead: Option<usize>,
    /// The highest priority.
    pub priority_max: u8,
    /// It has a single active consumer.
    pub single_active: bool,
    pub delivery_limit: Option<u32>,
}

impl QueueTraits {
    /// The priority at which the queue orders a message.
    pub fn level(&self, priority: Option<u8>) -> u8 {
        priority.unwrap_or(0).min(self.priority_max)
    }
}

/// Draws queues, keys and messages for the actions of clients.
pub struct Generator<'a> {
    pub model: &'a ShadowModel,
    pub switches: Switches,
    pub chance: &'a mut SplitMix64,
}

impl Generator<'_> {
    /// The features of a new queue, and its arguments.
    pub fn queue_traits(&mut self) -> (QueueTraits, Table) {
        let switches = self.switches;
        let (mut traits, mut table) = (QueueTraits::default(), Table::new());
        let mut put = |name: &str, value: Value| {
            table = std::mem::take(&mut table).with(name, value).expect("a short name");
        };
        if switches.has(Feature::Ttl, self.chance) {
            let ms = self.draw_ms();
            traits.ttl_us = Some(ms * 1_000);
            put("x-message-ttl", Value::I64(ms as i64));
        }
        if switches.has(Feature::Expires, self.chance) {
            traits.expires_soon = self.chance.permille(700);
            let ms = if traits.expires_soon { self.chance.between(1, 200) } else { LONG_MS };
            put("x-expires", Value::I64(ms as i64));
        }
        if switches.has(Feature::Length, self.chance) {
            let (mut messages, mut bytes) = (u64::MAX, u64::MAX);
            if self.chance.permille(700) {
                messages = self.chance.below(12);
                put("x-max-length", Value::I64(messages as i64));
            } else {
                bytes = self.chance.below(3_000);
                put("x-max-length-bytes", Value::I64(bytes as i64));
            }
            traits.length = Some((messages, bytes));
            if switches.has(Feature::Refuses, self.chance) {
                traits.refuses = true;
                traits.refuses_to_dead = self.chance.permille(500);
                let word = if traits.refuses_to_dead { "reject-publish-dlx" } else { "reject-publish" };
                put("x-overflow", Value::text(word));
            }
        }
        if switches.has(Feature::Priorities, self.chance) {
            traits.priority_max = self.chance.between(1, 10) as u8;
            put("x-max-priority", Value::I64(traits.priority_max.into()));
        }
        if switches.has(Feature::SingleActive, self.chance) {
            traits.single_active = true;
            put("x-single-active-consumer", Value::Bool(true));
        }
        if switches.has(Feature::DeliveryLimit, self.chance) {
            let limit = self.chance.below(4) as u32;
            traits.delivery_limit = Some(limit);
            put("x-delivery-limit", Value::I64(limit.into()));
        }
        if switches.has(Feature::Modes, self.chance) {
            put("x-queue-mode", Value::text(if self.chance.permille(500) { "lazy" } else { "default" }));
            put("x-queue-type", Value::text("classic"));
        }
        if switches.has(Feature::DeadLetters, self.chance) {
            let chained = switches.has(Feature::Chains, self.chance);
            let now = self.model.now;
            let is_suitable = |queue: &ShadowQueue| {
                (chained || queue.traits == QueueTraits::default())
                    && queue.life.surely_spans(now, now)
                    && queue.owner.is_none()
                    && !queue.auto_delete
                    && !queue.name.starts_with("amq.")
            };
            let targets: Vec<usize> =
                (0..self.model.queues.len()).filter(|&at| is_suitable(&self.model.queues[at])).collect();
            if !targets.is_empty() {
                let target = targets[self.chance.below(targets.len() as u64) as usize];
                traits.dead = Some(target);
                put("x-dead-letter-exchange", Value::text(""));
                put("x-dead-letter-routing-key", Value::text(&self.model.queues[target].name));
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

    /// Further routing keys of a message, for `CC` and `BCC`.
    pub fn further_keys(&mut self) -> [Vec<String>; 2] {
        let living = self.model.living_queues();
        if living.is_empty() || !self.switches.has(Feature::Copies, self.chance) {
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

    /// The priority and the expiration of a message.
    pub fn priority_and_expiration(&mut self) -> (Option<u8>, Option<u64>) {
        let switches = self.switches;
        let priority =
            (switches.part(Feature::Priorities) > 0 && self.chance.permille(700)).then(|| self.chance.below(12) as u8);
        let expiration = switches.has(Feature::Expiration, self.chance).then(|| self.draw_ms());
        (priority, expiration)
    }

    /// A routing key of some words, or a pattern.
    pub fn words(&mut self, is_pattern: bool) -> String {
        let count = self.chance.between(1, 3);
        let words: Vec<&str> = (0..count)
            .map(|_| match self.chance.below(if is_pattern { 5 } else { 3 }) {
                0 => "a",
                1 => "b",
                2 => "c",
                3 => "*",
                _ => "#",
            })
            .collect();
        words.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_the_traits() {
        for seed in 0..200 {
            let (model, mut chance) = (ShadowModel::new(true), SplitMix64::new(seed));
            let switches = Switches::of(&mut chance);
            let (traits, table) = Generator { model: &model, switches, chance: &mut chance }.queue_traits();
            let has = |name: &str| table.get(name).is_some();
            assert_eq!(has("x-message-ttl"), traits.ttl_us.is_some(), "seed {seed}");
            assert_eq!(has("x-max-length") || has("x-max-length-bytes"), traits.length.is_some(), "seed {seed}");
            assert_eq!(has("x-overflow"), traits.refuses, "seed {seed}");
            assert_eq!(has("x-delivery-limit"), traits.delivery_limit.is_some(), "seed {seed}");
            assert!(!has("x-dead-letter-exchange"), "no queue can have dead letters yet; seed {seed}");
        }
    }
}
