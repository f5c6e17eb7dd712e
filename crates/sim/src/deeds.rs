//! What clients do, drawn at random: publish, settle, ask, leave, be cut off.
//!
//! Enters: clients.  Leaves: methods in their outputs, and the model's knowledge of what was sent.
//! Owns:   the mix of deeds.
//! Never:  does what must be refused with the whole connection.

use crate::actor::{Channel, Held, Mode, Question, Settling, Standing};
use crate::limits::CHANNELS_MAX;
use crate::model::{Fate, HEADER_NAMES, Headers, Kind, Message, Settled, Target};
use crate::run::Run;
use crate::swarm::Feature;
use link::sim::{SimCut, SimSide};
use wire::method::{basic, tx};
use wire::{Method, Properties, ShortString, Table, Value};

/// Bytes a client has not sent at which it publishes no more: its broker holds it back.
const UNSENT_BYTES_MAX: usize = 200_000;

impl Run {
    /// Some clients do something.
    pub(crate) fn deeds(&mut self) {
        if self.actors.len() < self.setting.clients && self.chance.permille(100) {
            self.arrive();
        }
        for actor in 0..self.actors.len() {
            if self.chance.permille(350) && self.actors[actor].standing == Standing::Here {
                self.deed(actor);
            }
        }
    }

    fn deed(&mut self, actor: usize) {
        if self.setting.slow_clients && self.chance.permille(20) {
            self.be_slow(actor);
        }
        if self.chance.permille(if self.setting.cuts { 4 } else { 0 }) {
            return self.be_cut(actor);
        }
        if self.chance.permille(2) {
            return self.leave(actor);
        }
        let channels = self.actors[actor].channels.len();
        if channels == 0 || (channels < CHANNELS_MAX && self.chance.permille(30)) {
            return self.open_channel(actor);
        }
        let channel = self.chance.below(channels as u64) as usize;
        if !self.actors[actor].channels[channel].is_open() {
            return;
        }
        if self.chance.permille(self.setting.publish_permille) {
            for _ in 0..=self.chance.below(4) {
                self.publish(actor, channel);
            }
        } else if self.chance.permille(self.setting.settle_permille) {
            self.settle(actor, channel);
        } else if self.chance.permille(15) {
            self.close_channel(actor, channel);
        } else if self.actors[actor].channels[channel].is_free() {
            self.ask(actor, channel);
        }
    }

    fn be_slow(&mut self, actor: usize) {
        let roll = self.chance.below(4);
        let pace = self.chance.between(1, 200) as usize;
        let one = &mut self.actors[actor];
        let cable = &self.world.wires[one.wire].cable;
        match roll {
            0 => one.client.paused = true,
            1 => cable.limit_rate(SimSide::Left, Some(pace)),
            2 => cable.limit_rate(SimSide::Right, Some(pace)),
            _ => {
                one.client.paused = false;
                cable.limit_rate(SimSide::Left, None);
                cable.limit_rate(SimSide::Right, None);
            }
        }
    }

    /// From now on the connection may end at any moment, and its exclusive queues with it.
    fn doom(&mut self, actor: usize) -> u32 {
        let (uid, now) = (self.actors[actor].uid, self.model.now);
        self.tally.cuts += 1;
        self.actors[actor].cut = true;
        for queue in self.model.queues.iter_mut().filter(|queue| queue.owner == Some(uid)) {
            queue.life.may_end(now);
        }
        uid
    }

    /// The connection is cut some bytes after the broker has read what is under way.
    pub(crate) fn be_cut_soon(&mut self, actor: usize) {
        self.doom(actor);
        let one = &self.actors[actor];
        let cable = &self.world.wires[one.wire].cable;
        let bytes = one.client.out.bytes() + cable.unread_bytes(SimSide::Right);
        cable.cut_after(SimSide::Left, bytes as u64, SimCut::Reset);
    }

    fn be_cut(&mut self, actor: usize) {
        let uid = self.doom(actor);
        let cable = self.world.wires[self.actors[actor].wire].cable.clone();
        let bytes = self.chance.below(2_000);
        let how = self.chance.below(6);
        self.note(|_| format!("client {uid} is cut ({how}), perhaps after {bytes} bytes"));
        match how {
            // In the middle of whatever comes next; the client notices like everybody else.
            0 => cable.cut_after(SimSide::Left, bytes, SimCut::Reset),
            1 => cable.cut_after(SimSide::Right, bytes, SimCut::Reset),
            2 => {
                self.note(|_| format!("client {uid} drops its link"));
                self.actors[actor].client.vanish();
                self.gone(actor);
            }
            3 if self.setting.bounds.heartbeat_s > 0 => {
                self.note(|_| format!("client {uid} is cut off in silence"));
                cable.cut(SimCut::Silence);
                self.actors[actor].client.paused = true;
                self.gone(actor);
            }
            4 => {
                self.note(|_| format!("client {uid} vanishes"));
                cable.cut(SimCut::Vanish(SimSide::Left));
                self.actors[actor].client.vanish();
                self.gone(actor);
            }
            _ => {
                self.note(|_| format!("client {uid} is reset"));
                cable.cut(SimCut::Reset);
            }
        }
    }

    pub(crate) fn leave(&mut self, actor: usize) {
        let uid = self.actors[actor].uid;
        self.note(|_| format!("client {uid} closes its connection"));
        self.actors[actor].client.close(&self.pool);
        self.actors[actor].standing = Standing::Leaving;
        self.forget_channels(actor);
    }

    pub(crate) fn open_channel(&mut self, actor: usize) {
        let uid = self.uid() as u32;
        if let Some(number) = self.actors[actor].client.open_channel(&self.pool) {
            self.actors[actor].channels.push(Channel::new(number, uid));
            let client = self.actors[actor].uid;
            self.note(|_| format!("client {client} opens channel {number} ({uid})"));
        }
    }

    fn close_channel(&mut self, actor: usize, channel: usize) {
        let number = self.actors[actor].channels[channel].number;
        let uid = self.actors[actor].channels[channel].uid;
        self.note(|_| format!("channel {uid} is closed"));
        self.actors[actor].client.close_channel(number, &self.pool);
        self.depart(actor, channel, true);
    }

    /// Sends a method on a channel.
    pub(crate) fn say<'a>(&mut self, actor: usize, channel: usize, method: impl Into<Method<'a>>) {
        let number = self.actors[actor].channels[channel].number;
        let method = method.into();
        let uid = self.actors[actor].channels[channel].uid;
        self.note(|_| format!("channel {uid} says {method:?}"));
        self.actors[actor].client.say(number, method, &self.pool);
    }

    fn publish(&mut self, actor: usize, channel: usize) {
        if self.actors[actor].client.out.bytes() > UNSENT_BYTES_MAX {
            return;
        }
        let now = self.model.tick();
        let living = self.model.living_queues();
        let exchange = if self.chance.permille(400) {
            0
        } else {
            let there = |at: &usize| self.model.is_exchange(*at, now, now);
            let candidates: Vec<usize> = (1..self.model.exchanges.len()).filter(there).collect();
            if candidates.is_empty() { 0 } else { candidates[self.chance.below(candidates.len() as u64) as usize] }
        };
        let key = match self.model.exchanges[exchange].kind {
            Kind::Default if !living.is_empty() => {
                let queue = living[self.chance.below(living.len() as u64) as usize];
                self.model.queues[queue].name.clone()
            }
            Kind::Topic => self.words(false),
            _ => format!("k{}", self.chance.below(4)),
        };
        let headers: Headers = [(); 3].map(|()| (self.chance.below(3) > 0).then(|| self.chance.below(3) as u8));
        let mandatory = self.setting.switches.has(Feature::Mandatory, &mut self.chance);
        let body_bytes = match self.chance.below(100) {
            0..80 => self.chance.between(8, 120),
            80..95 => self.chance.between(8, 2_500),
            95..98 => self.chance.between(3_000, 9_000),
            _ if self.setting.large_bodies => self.chance.between(9_000, 70_000),
            _ => 8,
        } as usize;
        let (priority, expiration_ms) = self.priority_and_expiration();
        let copies = self.draw_copies();
        let delivery_mode = self.chance.permille(500).then_some(2);
        let with = |copies: &[&[String]], bare: bool| {
            properties(headers, copies, bare, delivery_mode, priority, expiration_ms)
        };
        // Blind copies do not travel; the table they stood in does, though it be empty.
        let sent = with(&[&copies[0], &copies[1]], false);
        let properties = with(&[&copies[0]], !copies[1].is_empty());
        let id = self.model.newest() + 1;
        let one = &mut self.actors[actor].channels[channel];
        let fate = if one.mode == Mode::Tx { Fate::Staged } else { Fate::Open };
        let (uid, number) = (one.uid, one.number);
        match one.mode {
            Mode::Plain => one.plains.push(id),
            Mode::Confirm => {
                one.published += 1;
                one.unconfirmed.insert(one.published, id);
            }
            Mode::Tx => one.staged.push(id),
        }
        let name = self.model.exchanges[exchange].name.clone();
        self.note(|_| format!("channel {uid} publishes {id} to '{name}' by '{key}', {headers:?}, {body_bytes} bytes"));
        let body = body_of(id, body_bytes);
        self.actors[actor].client.publish(number, &name, &key, mandatory, &sent, &body, &self.pool);
        self.tally.published += 1;
        let period = self.model.period;
        let message = Message {
            channel: uid,
            exchange,
            key,
            copies,
            headers,
            properties,
            body_bytes,
            mandatory,
            sent: now,
            routed: None,
            accepted: None,
            fate,
            returned: false,
            period,
            declined: false,
            priority,
            expiration_us: expiration_ms.map(|ms| ms * 1_000),
            sent_us: self.world.us(),
        };
        self.model.messages.insert(id, message);
    }

    /// A key of some words, or a pattern.
    pub(crate) fn words(&mut self, pattern: bool) -> String {
        let count = self.chance.between(1, 3);
        let words: Vec<&str> = (0..count)
            .map(|_| match self.chance.below(if pattern { 5 } else { 3 }) {
                0 => "a",
                1 => "b",
                2 => "c",
                3 => "*",
                _ => "#",
            })
            .collect();
        words.join(".")
    }

    /// Settles something that the channel holds.
    pub(crate) fn settle(&mut self, actor: usize, channel: usize) {
        let one = &self.actors[actor].channels[channel];
        // While a recovery is under way nobody knows what is held.
        if one.pending.as_ref().is_some_and(|pending| matches!(pending.question, Question::Recover)) {
            return;
        }
        let free: Vec<u64> = one.held.iter().filter(|(_, held)| !held.staged).map(|(&tag, _)| tag).collect();
        if free.is_empty() {
            return;
        }
        let tag = free[self.chance.below(free.len() as u64) as usize];
        let switches = self.setting.switches;
        let multiple = switches.has(Feature::Multiple, &mut self.chance);
        let requeue = switches.has(Feature::Requeue, &mut self.chance);
        let tags: Vec<u64> =
            if multiple { free.into_iter().filter(|&other| other <= tag).collect() } else { vec![tag] };
        self.model.tick();
        let refusal = if requeue { Settling::Requeue } else { Settling::Rejected };
        let settling = match self.chance.below(3) {
            0 if !multiple => {
                self.say(actor, channel, basic::Reject { delivery_tag: tag, requeue });
                refusal
            }
            1 if !requeue => {
                self.say(actor, channel, basic::Ack { delivery_tag: tag, multiple });
                Settling::Done
            }
            _ => {
                self.say(actor, channel, basic::Nack { delivery_tag: tag, multiple, requeue });
                refusal
            }
        };
        let one = &mut self.actors[actor].channels[channel];
        if one.mode == Mode::Tx {
            for tag in tags {
                if let Some(held) = one.held.get_mut(&tag) {
                    held.staged = true;
                    one.staged_settles.push((tag, settling));
                }
            }
            return;
        }
        for tag in tags {
            self.settled(actor, channel, tag, settling);
        }
    }

    /// A delivery leaves the channel.
    pub(crate) fn settled(&mut self, actor: usize, channel: usize, tag: u64, settling: Settling) {
        let one = &mut self.actors[actor].channels[channel];
        let Some(Held { queue, message, consumer, .. }) = one.held.remove(&tag) else { return };
        if let Some(consumer) = consumer {
            one.consumers[consumer].held -= 1;
            one.consumers_hold -= 1;
        }
        let known = &mut self.model.queues[queue];
        let seen = known.seen.entry(message).or_default();
        seen.holder = None;
        match settling {
            Settling::Requeue => known.disturbed = true,
            Settling::Done | Settling::Rejected => {
                let rejected = settling == Settling::Rejected;
                seen.settled = Settled::Said;
                seen.rejected |= rejected;
                known.owed.remove(&message);
                one.settles.push((queue, message, rejected));
            }
        }
    }

    /// Commits what was staged.
    pub(crate) fn commit(&mut self, actor: usize, channel: usize) {
        let (now, now_us) = (self.model.tick(), self.world.us());
        let one = &mut self.actors[actor].channels[channel];
        let (staged, settles) = (std::mem::take(&mut one.staged), std::mem::take(&mut one.staged_settles));
        for &id in &staged {
            if let Some(message) = self.model.messages.get_mut(&id) {
                (message.fate, message.sent, message.sent_us) = (Fate::Open, now, now_us);
            }
        }
        one.committing = staged;
        self.say(actor, channel, tx::Commit {});
        for (tag, settling) in settles {
            self.settled(actor, channel, tag, settling);
        }
    }

    /// Drops what was staged.
    pub(crate) fn rollback(&mut self, actor: usize, channel: usize) {
        let one = &mut self.actors[actor].channels[channel];
        one.staged_settles.clear();
        for held in one.held.values_mut() {
            held.staged = false;
        }
        for id in std::mem::take(&mut one.staged) {
            if let Some(message) = self.model.messages.get_mut(&id) {
                message.fate = Fate::Never;
            }
        }
        self.say(actor, channel, tx::Rollback {});
    }

    /// The target of a binding as the broker knows it.
    pub(crate) fn name_of(&self, target: Target) -> &str {
        match target {
            Target::Queue(queue) => &self.model.queues[queue].name,
            Target::Exchange(exchange) => &self.model.exchanges[exchange].name,
        }
    }
}

/// Properties in wire form, with further routing keys in `CC` and `BCC`.
fn properties(
    headers: Headers,
    copies: &[&[String]],
    bare: bool,
    delivery_mode: Option<u8>,
    priority: Option<u8>,
    expiration_ms: Option<u64>,
) -> Vec<u8> {
    let mut table = Table::default();
    let mut put = |name: &str, value: Value| {
        table = std::mem::take(&mut table).with(name, value).expect("a short name");
    };
    for (name, value) in HEADER_NAMES.into_iter().zip(headers) {
        if let Some(value) = value {
            put(name, Value::I32(value.into()));
        }
    }
    for (name, keys) in ["CC", "BCC"].into_iter().zip(copies).filter(|(_, keys)| !keys.is_empty()) {
        put(name, Value::List(keys.iter().map(|key| Value::text(key)).collect()));
    }
    let headers = (bare || !table.is_empty()).then_some(table);
    let expiration = expiration_ms.map(|ms| ShortString::try_from(&*ms.to_string()).expect("a short number"));
    Properties { headers, delivery_mode, priority, expiration, ..Properties::default() }.to_bytes()
}

/// The body of a message: its number, then bytes that follow from it.
pub(crate) fn body_of(id: u64, bytes: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes);
    body.extend_from_slice(&id.to_be_bytes());
    body.extend((8..bytes).map(|at| (id as usize).wrapping_mul(131).wrapping_add(at * 7) as u8));
    body
}
