//! Questions of clients: declare, bind, consume, get, and whatever else is answered.
//!
//! Enters: a channel that waits for nothing.  Leaves: a question on its way.
//! Owns:   the mix of questions.
//! Never:  asks what a sane client would not: names belong to one queue at a time.

use crate::actor::{Consumer, Mode, Pending, Question, Stage};
use crate::features::LONG_MS;
use crate::limits::{CONSUMERS_MAX, QUEUES_MAX};
use crate::model::{Binding, Exchange, HEADER_NAMES, Kind, Life, Target, VOID, Wanted};
use crate::run::Run;
use crate::swarm::{Ask, Feature};
use wire::method::{basic, channel, confirm, exchange, queue, tx};
use wire::{ShortStr, Table, TableRef, Value};

fn short(text: &str) -> ShortStr<'_> {
    ShortStr::truncated(text)
}

/// The same arguments, with whole numbers as short as they can be.
fn retyped(table: &Table) -> Table {
    let value = |value: &Value| match value {
        Value::I64(number) => match (i8::try_from(*number), i16::try_from(*number), i32::try_from(*number)) {
            (Ok(number), ..) => Value::I8(number),
            (_, Ok(number), _) => Value::I16(number),
            (.., Ok(number)) => Value::I32(number),
            _ => Value::I64(*number),
        },
        other => other.clone(),
    };
    table.iter().map(|(name, old)| (name.to_owned(), value(old))).collect()
}

impl Run {
    /// Asks something.
    pub(crate) fn ask(&mut self, actor: usize, channel: usize) {
        let now = self.model.tick();
        let living = self.usable(actor);
        let pick = if living.is_empty() { None } else { Some(living[self.chance.below(living.len() as u64) as usize]) };
        let alive = self.model.living_queues().len();
        let question = match (self.setting.switches.ask(&mut self.chance), pick) {
            (Ask::Declare, _) if alive < QUEUES_MAX => Some(self.declare(actor, channel)),
            (_, None) => Some(self.declare(actor, channel)),
            (Ask::Declare | Ask::Look, Some(queue)) => Some(self.look(actor, channel, queue)),
            (Ask::Again, Some(queue)) => self.declare_again(actor, channel, queue),
            (Ask::Delete, Some(queue)) if alive > 4 => self.delete(actor, channel, queue),
            (Ask::Delete, Some(_)) => None,
            (Ask::Purge, Some(queue)) => {
                self.say(
                    actor,
                    channel,
                    queue::Purge { queue: short(&self.model.queues[queue].name.clone()), no_wait: false },
                );
                Some(Question::Purge(queue))
            }
            (Ask::Bind, Some(queue)) => self.bind(actor, channel, queue),
            (Ask::Unbind, _) => self.unbind(actor, channel),
            (Ask::Consume, Some(queue)) => self.consume(actor, channel, queue),
            (Ask::Cancel, _) => self.cancel(actor, channel),
            (Ask::Get, Some(queue)) => Some(self.get(actor, channel, queue)),
            (Ask::Prefetch, _) => {
                let global = self.chance.permille(400);
                let prefetch_count = [0, 1, 2, 3, 10][self.chance.below(5) as usize];
                self.say(actor, channel, basic::Qos { prefetch_size: 0, prefetch_count, global });
                let count = prefetch_count.into();
                Some(if global { Question::PrefetchShared(count) } else { Question::Prefetch(count) })
            }
            (Ask::Flow, _) => {
                let active = self.chance.permille(700);
                self.say(actor, channel, channel::Flow { active });
                Some(Question::Flow(active))
            }
            (Ask::Recover, _) => self.recover(actor, channel),
            (Ask::DeclareExchange, _) => Some(self.declare_exchange(actor, channel)),
            (Ask::DeleteExchange, _) => self.delete_exchange(actor, channel),
            (Ask::Transact, _) => self.transact(actor, channel),
        };
        if let Some(question) = question {
            let one = &mut self.actors[actor].channels[channel];
            if let Question::Select(mode) = question {
                // What is said from now on is heard after the question.
                one.mode = mode;
            }
            one.pending = Some(Pending { question, asked: now, plains: one.plains.len(), settles: one.settles.len() });
        }
    }

    /// Queues that surely exist and that this client may use.
    pub(crate) fn usable(&self, actor: usize) -> Vec<usize> {
        let uid = self.actors[actor].uid;
        let mine = |&queue: &usize| self.model.queues[queue].owner.is_none_or(|owner| owner == uid);
        self.model.living_queues().into_iter().filter(mine).collect()
    }

    /// Whether some channel waits for an answer about a queue.
    fn is_asked_about(&self, queue: usize) -> bool {
        let channels = self.actors.iter().flat_map(|actor| &actor.channels);
        channels.filter_map(|channel| channel.pending.as_ref()).any(|pending| match pending.question {
            Question::Declare(other)
            | Question::Look(other)
            | Question::Again(other, _)
            | Question::Delete(other, _)
            | Question::Purge(other)
            | Question::Get(other, _) => other == queue,
            // Rarely a reason to wait, and simple to be sure of.
            Question::Bind(..) | Question::Unbind(..) | Question::Consume(_) | Question::Cancel(_) => true,
            _ => false,
        })
    }

    fn declare(&mut self, actor: usize, channel: usize) -> Question {
        let uid = self.uid();
        // A client that fills its own exclusive queue and goes is held back by it for ever: nobody else can empty it.
        let switches = self.setting.switches;
        let exclusive = switches.has(Feature::Exclusive, &mut self.chance) && self.setting.bounds.is_roomy();
        let auto_delete = switches.has(Feature::AutoDelete, &mut self.chance);
        let server_named = switches.has(Feature::ServerNamed, &mut self.chance);
        let owner = exclusive.then(|| self.actors[actor].uid);
        // A name that is free again, perhaps.
        let ended = |queue: &usize| {
            let queue = &self.model.queues[*queue];
            // What was said to the old one has been heard.
            queue.life.ended.is_some_and(|ended| ended < self.model.rested)
                && !queue.name.starts_with("amq.")
                && queue.traits == Default::default()
                && !self.model.queues.iter().any(|other| other.name == queue.name && other.life.ended.is_none())
        };
        let free = (0..self.model.queues.len()).rev().find(|queue| ended(queue) && !self.is_asked_about(*queue));
        let name = match free {
            Some(queue) if self.setting.bounds.is_roomy() && self.chance.permille(500) => {
                self.model.queues[queue].name.clone()
            }
            _ => format!("q{uid}"),
        };
        // Dead letters name their queue, so the name of one with features is never used again.
        let plain = server_named || name != format!("q{uid}");
        let (traits, table) = if plain { Default::default() } else { self.draw_traits() };
        let queue = if server_named {
            // Its name is known when the answer comes; nobody can mean it before.
            self.model.add_queue(format!("?{uid}"), owner, auto_delete)
        } else {
            self.model.add_queue(name.clone(), owner, auto_delete)
        };
        let now = self.model.now;
        if traits.expires_soon {
            self.model.queues[queue].life.may_end(now);
        }
        let durable = self.chance.permille(300);
        let known = &mut self.model.queues[queue];
        (known.traits, known.arguments, known.durable) = (traits, table.clone(), durable);
        let name = if server_named { "" } else { &name };
        let bytes = table.to_bytes();
        let arguments = TableRef::new(&bytes);
        let declare = queue::Declare {
            queue: short(name),
            passive: false,
            durable,
            exclusive,
            auto_delete,
            no_wait: false,
            arguments,
        };
        self.say(actor, channel, declare);
        Question::Declare(queue)
    }

    fn look(&mut self, actor: usize, channel: usize, queue: usize) -> Question {
        let name = self.model.queues[queue].name.clone();
        let arguments = TableRef::EMPTY;
        let declare = queue::Declare {
            queue: short(&name),
            passive: true,
            durable: false,
            exclusive: false,
            auto_delete: false,
            no_wait: false,
            arguments,
        };
        self.say(actor, channel, declare);
        Question::Look(queue)
    }

    /// Declares a queue that is there once more: as it is, though numbers may have another width, or otherwise.
    fn declare_again(&mut self, actor: usize, channel: usize, queue: usize) -> Option<Question> {
        let (now, period) = (self.model.now, self.model.period);
        let known = &mut self.model.queues[queue];
        let is_simple = known.owner.is_none() && !known.auto_delete && !known.name.starts_with("amq.");
        // Behind those who are held back it would make a queue that somebody has deleted meanwhile.
        if !is_simple || !known.life.surely(now, now) || !self.setting.bounds.is_roomy() {
            return None;
        }
        known.redeclared = Some(period);
        let (name, mut durable, mut table) = (known.name.clone(), known.durable, retyped(&known.arguments));
        let same = self.chance.permille(600);
        if !same {
            let length = Value::I64(self.chance.between(1_000, 2_000) as i64);
            match self.chance.below(3) {
                0 => durable = !durable,
                1 => table = table.with("x-max-length", length).expect("a short name"),
                _ => table = table.with("x-message-ttl", Value::I64(LONG_MS as i64 - 1)).expect("a short name"),
            }
        }
        let bytes = table.to_bytes();
        let declare = queue::Declare {
            queue: short(&name),
            passive: false,
            durable,
            exclusive: false,
            auto_delete: false,
            no_wait: false,
            arguments: TableRef::new(&bytes),
        };
        self.say(actor, channel, declare);
        Some(Question::Again(queue, same))
    }

    fn delete(&mut self, actor: usize, channel: usize, queue: usize) -> Option<Question> {
        // One that is declared again at the same time might be made anew.
        if self.model.queues[queue].redeclared == Some(self.model.period) {
            return None;
        }
        let name = self.model.queues[queue].name.clone();
        let (if_unused, if_empty) = (self.chance.permille(300), self.chance.permille(300));
        let now = self.model.now;
        self.model.queues[queue].life.may_end(now);
        self.say(actor, channel, queue::Delete { queue: short(&name), if_unused, if_empty, no_wait: false });
        Some(Question::Delete(queue, if_unused || if_empty))
    }

    fn living_exchanges(&self) -> Vec<usize> {
        let now = self.model.now;
        (1..self.model.exchanges.len()).filter(|&at| self.model.is_exchange(at, now, now)).collect()
    }

    fn bind(&mut self, actor: usize, channel: usize, queue: usize) -> Option<Question> {
        let exchanges = self.living_exchanges();
        if exchanges.is_empty() {
            return None;
        }
        let source = exchanges[self.chance.below(exchanges.len() as u64) as usize];
        let target = if self.setting.switches.has(Feature::Chained, &mut self.chance) {
            Target::Exchange(exchanges[self.chance.below(exchanges.len() as u64) as usize])
        } else {
            Target::Queue(queue)
        };
        let kind = self.model.exchanges[source].kind;
        let key = match kind {
            Kind::Topic => self.words(true),
            _ => format!("k{}", self.chance.below(4)),
        };
        let headers = (kind == Kind::Headers).then(|| {
            let mut value = || [0, 0, 1, 1, 2, VOID][self.chance.below(6) as usize];
            let (first, others) = (value(), [value(), value()]);
            let [second, third] = others.map(|value| (self.chance.below(2) == 0).then_some(value));
            let (any, with_x) = (self.chance.below(2) == 0, self.chance.below(2) == 0);
            Wanted { any, with_x, headers: [Some(first), second, third] }
        });
        let same = |binding: &Binding| {
            (binding.source, binding.target, &binding.key, binding.headers) == (source, target, &key, headers)
        };
        let binding = match self.model.bindings.iter().position(same) {
            Some(known) => known,
            None => {
                let binding = Binding { source, target, key, headers, lives: Vec::new(), locked: false };
                self.model.bindings.push(binding);
                self.model.bindings.len() - 1
            }
        };
        let now = self.model.now;
        let known = &mut self.model.bindings[binding];
        if known.locked || known.lives.last().is_some_and(|life| life.ended.is_none()) {
            return None;
        }
        known.locked = true;
        known.lives.push(Life::asked(now));
        let life = known.lives.len() - 1;
        self.change_binding(actor, channel, binding, true);
        Some(Question::Bind(binding, life))
    }

    fn unbind(&mut self, actor: usize, channel: usize) -> Option<Question> {
        let (now, uid) = (self.model.now, self.actors[actor].uid);
        let can = |binding: &Binding| {
            let there = match binding.target {
                Target::Queue(queue) => {
                    let queue = &self.model.queues[queue];
                    queue.life.surely(now, now) && queue.owner.is_none_or(|owner| owner == uid)
                }
                Target::Exchange(exchange) => self.model.is_exchange(exchange, now, now),
            };
            there
                && !binding.locked
                && self.model.is_exchange(binding.source, now, now)
                && binding.lives.last().is_some_and(|life| life.surely(now, now))
        };
        let candidates: Vec<usize> =
            (0..self.model.bindings.len()).filter(|&at| can(&self.model.bindings[at])).collect();
        if candidates.is_empty() {
            return None;
        }
        let binding = candidates[self.chance.below(candidates.len() as u64) as usize];
        let known = &mut self.model.bindings[binding];
        known.locked = true;
        let life = known.lives.len() - 1;
        known.lives[life].may_end(now);
        self.change_binding(actor, channel, binding, false);
        Some(Question::Unbind(binding, life))
    }

    fn change_binding(&mut self, actor: usize, channel: usize, binding: usize, binds: bool) {
        let known = &self.model.bindings[binding];
        let (key, target, source) = (known.key.clone(), known.target, known.source);
        let mut table = Table::default();
        if let Some(Wanted { any, with_x, headers }) = known.headers {
            let how = match (any, with_x) {
                (false, false) => "all",
                (true, false) => "any",
                (false, true) => "all-with-x",
                (true, true) => "any-with-x",
            };
            table = table.with("x-match", Value::text(how)).expect("a short name");
            for (name, value) in HEADER_NAMES.into_iter().zip(headers) {
                if let Some(value) = value {
                    let value = if value == VOID { Value::Void } else { Value::I32(value.into()) };
                    table = table.with(name, value).expect("a short name");
                }
            }
        }
        let bytes = table.to_bytes();
        let arguments = TableRef::new(&bytes);
        let (from, to) = (self.model.exchanges[source].name.clone(), self.name_of(target).to_owned());
        let (routing_key, no_wait) = (short(&key), false);
        match (target, binds) {
            (Target::Queue(_), true) => {
                let (queue, exchange) = (short(&to), short(&from));
                self.say(actor, channel, queue::Bind { queue, exchange, routing_key, no_wait, arguments });
            }
            (Target::Queue(_), false) => {
                let (queue, exchange) = (short(&to), short(&from));
                self.say(actor, channel, queue::Unbind { queue, exchange, routing_key, arguments });
            }
            (Target::Exchange(_), true) => {
                let (destination, source) = (short(&to), short(&from));
                self.say(actor, channel, exchange::Bind { destination, source, routing_key, no_wait, arguments });
            }
            (Target::Exchange(_), false) => {
                let (destination, source) = (short(&to), short(&from));
                self.say(actor, channel, exchange::Unbind { destination, source, routing_key, no_wait, arguments });
            }
        }
    }

    fn get(&mut self, actor: usize, channel: usize, queue: usize) -> Question {
        let no_ack = self.setting.switches.has(Feature::NoAck, &mut self.chance);
        let name = self.model.queues[queue].name.clone();
        self.say(actor, channel, basic::Get { queue: short(&name), no_ack });
        self.may_owe(actor, channel, no_ack);
        if self.setting.cuts && self.actors.len() > 1 && self.chance.permille(40) {
            // The message meets nobody when it comes.
            self.be_cut_soon(actor);
        }
        Question::Get(queue, no_ack)
    }

    /// A channel asks for messages.
    fn may_owe(&mut self, actor: usize, channel: usize, no_ack: bool) {
        let now_us = self.world.us();
        if !no_ack {
            self.actors[actor].channels[channel].owing_since_us.get_or_insert(now_us);
        }
    }

    pub(crate) fn consume(&mut self, actor: usize, channel: usize, queue: usize) -> Option<Question> {
        let active = self.actors[actor].channels[channel].consumers.iter().filter(|one| one.stage != Stage::Gone);
        if active.count() >= CONSUMERS_MAX {
            return None;
        }
        let uid = self.uid();
        let switches = self.setting.switches;
        let no_ack = switches.has(Feature::NoAck, &mut self.chance);
        let exclusive = switches.has(Feature::Alone, &mut self.chance) && self.setting.bounds.is_roomy();
        let tag = if self.chance.permille(200) { String::new() } else { format!("c{uid}") };
        let name = self.model.queues[queue].name.clone();
        let table = if switches.has(Feature::ConsumerPriorities, &mut self.chance) {
            let priority = Value::I32(self.chance.below(3) as i32);
            Table::default().with("x-priority", priority).expect("a short name")
        } else {
            Table::default()
        };
        let now = self.model.now;
        let known = &mut self.model.queues[queue];
        known.contested |= exclusive;
        if known.auto_delete {
            // From now on it may go at any time: whoever consumes may be cut off and not know it.
            known.life.may_end(now);
        }
        let bytes = table.to_bytes();
        let (queue_name, consumer_tag, arguments) = (short(&name), short(&tag), TableRef::new(&bytes));
        let consume = basic::Consume {
            queue: queue_name,
            consumer_tag,
            no_local: false,
            no_ack,
            exclusive,
            no_wait: false,
            arguments,
        };
        self.say(actor, channel, consume);
        self.may_owe(actor, channel, no_ack);
        let one = &mut self.actors[actor].channels[channel];
        let prefetch = one.prefetch;
        let stage = Stage::Asked;
        one.consumers.push(Consumer { uid, tag, queue, no_ack, exclusive, prefetch, held: 0, stage });
        Some(Question::Consume(one.consumers.len() - 1))
    }

    fn cancel(&mut self, actor: usize, channel: usize) -> Option<Question> {
        let consumers = &self.actors[actor].channels[channel].consumers;
        let active: Vec<usize> = (0..consumers.len()).filter(|&at| consumers[at].stage == Stage::Active).collect();
        if active.is_empty() {
            return None;
        }
        let at = active[self.chance.below(active.len() as u64) as usize];
        let (tag, queue, uid) = (consumers[at].tag.clone(), consumers[at].queue, consumers[at].uid);
        self.say(actor, channel, basic::Cancel { consumer_tag: short(&tag), no_wait: false });
        self.actors[actor].channels[channel].consumers[at].stage = Stage::Cancelling;
        self.consumer_leaves(queue, uid);
        // What waited for it at its shard goes back, unflagged, behind what others were given meanwhile.
        self.model.queues[queue].departed = Some(self.leaving_period());
        Some(Question::Cancel(at))
    }

    /// A consumer leaves its queue, or is about to.
    pub(crate) fn consumer_leaves(&mut self, queue: usize, uid: u64) {
        let now = self.model.now;
        let queue = &mut self.model.queues[queue];
        queue.active.retain(|&(other, ..)| other != uid);
        if queue.auto_delete {
            queue.life.may_end(now);
        }
    }

    fn recover(&mut self, actor: usize, channel: usize) -> Option<Question> {
        if self.actors[actor].channels[channel].mode == Mode::Tx {
            return None;
        }
        self.say(actor, channel, basic::Recover { requeue: true });
        Some(Question::Recover)
    }

    pub(crate) fn declare_exchange(&mut self, actor: usize, channel: usize) -> Question {
        let uid = self.uid();
        let (kind, word) =
            [(Kind::Direct, "direct"), (Kind::Fanout, "fanout"), (Kind::Topic, "topic"), (Kind::Headers, "headers")]
                [self.chance.below(4) as usize];
        let exchanges = self.living_exchanges();
        let alternate = (!exchanges.is_empty() && self.setting.switches.has(Feature::Alternates, &mut self.chance))
            .then(|| exchanges[self.chance.below(exchanges.len() as u64) as usize]);
        let auto_delete = self.setting.switches.has(Feature::ExchangeAutoDelete, &mut self.chance);
        let mut table = Table::default();
        if let Some(alternate) = alternate {
            let name = self.model.exchanges[alternate].name.clone().into_bytes();
            table = table.with("alternate-exchange", Value::LongStr(name.into())).expect("a short name");
        }
        let (name, bytes) = (format!("x{uid}"), table.to_bytes());
        let declare = exchange::Declare {
            exchange: short(&name),
            kind: short(word),
            passive: false,
            durable: false,
            auto_delete,
            internal: false,
            no_wait: false,
            arguments: TableRef::new(&bytes),
        };
        self.say(actor, channel, declare);
        let life = Life::asked(self.model.now);
        self.model.exchanges.push(Exchange { name, kind, alternate, auto_delete, life });
        Question::DeclareExchange(self.model.exchanges.len() - 1)
    }

    fn delete_exchange(&mut self, actor: usize, channel: usize) -> Option<Question> {
        let exchanges = self.living_exchanges();
        if exchanges.len() < 5 {
            return None;
        }
        let gone = exchanges[self.chance.below(exchanges.len() as u64) as usize];
        let now = self.model.now;
        self.model.exchanges[gone].life.may_end(now);
        let name = self.model.exchanges[gone].name.clone();
        self.say(actor, channel, exchange::Delete { exchange: short(&name), if_unused: false, no_wait: false });
        Some(Question::DeleteExchange(gone))
    }

    fn transact(&mut self, actor: usize, channel: usize) -> Option<Question> {
        let one = &self.actors[actor].channels[channel];
        match one.mode {
            Mode::Tx if self.chance.permille(800) => {
                self.commit(actor, channel);
                Some(Question::Commit)
            }
            Mode::Tx => {
                self.rollback(actor, channel);
                Some(Question::Rollback)
            }
            // What was published plainly and is not proven would be proven by confirms of others.
            Mode::Plain if self.setting.switches.has(Feature::Confirms, &mut self.chance) => {
                self.say(actor, channel, confirm::Select { no_wait: false });
                Some(Question::Select(Mode::Confirm))
            }
            Mode::Plain if self.setting.switches.has(Feature::Transactions, &mut self.chance) => {
                self.say(actor, channel, tx::Select {});
                Some(Question::Select(Mode::Tx))
            }
            _ => None,
        }
    }
}
