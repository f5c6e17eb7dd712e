//! The beginning, the rests and the end: what must hold when nothing moves.
//!
//! Enters: a run.  Leaves: broken promises about progress, loss and memory.
//! Owns:   the drain that finds every message that is owed.
//! Never:  takes anything out of the broker but through a client, and looks at it only to compare.

use crate::actor::{Question, Stage, Standing};
use crate::letters::number_of;
use crate::run::Run;
use link::sim::SimCut;
use wire::ShortStr;
use wire::frame::HEARTBEAT_FRAME;
use wire::method::{basic, exchange, queue};

/// Rounds that a simple thing may take from one thing heard to the next: behind megabytes on a link of a few bytes it takes long.
const PATIENCE_ROUNDS: u32 = 50_000;
/// Microseconds by which a channel that has something for too long may be ended late, beside a quarter of the timeout.
const OVERDUE_SLACK_US: u64 = 60_000;

impl Run {
    /// The exchanges and queues that every run begins with.
    pub(crate) fn prepare(&mut self) {
        let Some((actor, channel)) = self.greet() else { return };
        for step in 0..7 {
            // Its consumers may already have had something for too long.
            if !self.actors.get(actor).and_then(|actor| actor.channels.get(channel)).is_some_and(|one| one.is_free()) {
                return;
            }
            self.model.tick();
            if step < 4 {
                let question = self.declare_exchange(actor, channel);
                self.pend(actor, channel, question);
            } else {
                self.ask(actor, channel);
            }
            if !self.until(|run| run.actors[actor].channels.first().is_none_or(|channel| channel.pending.is_none())) {
                return;
            }
        }
    }

    fn pend(&mut self, actor: usize, channel: usize, question: Question) {
        let one = &mut self.actors[actor].channels[channel];
        let (plains, settles) = (one.plains.len(), one.settles.len());
        let asked = self.model.now;
        one.pending = Some(crate::actor::Pending { question, asked, plains, settles });
    }

    /// A client with an open channel.
    fn greet(&mut self) -> Option<(usize, usize)> {
        let actor = self.arrive();
        self.until(|run| run.actors[actor].standing == Standing::Here).then_some(())?;
        self.open_channel(actor);
        self.until(|run| run.actors[actor].channels[0].is_open()).then_some((actor, 0))
    }

    /// Lets the world move until something is so.
    fn until(&mut self, so: impl Fn(&Run) -> bool) -> bool {
        let (mut heard, mut patience) = (self.model.now, PATIENCE_ROUNDS);
        while patience > 0 {
            if self.is_broken() {
                return false;
            }
            if so(self) {
                return true;
            }
            self.shift();
            patience -= 1;
            if self.model.now != heard {
                (heard, patience) = (self.model.now, PATIENCE_ROUNDS);
            }
        }
        let busy = self.world.busy().join("; ");
        self.broken(format!(
            "a simple thing takes for ever; {}",
            if busy.is_empty() { "nothing moves" } else { &busy }
        ));
        false
    }

    /// Whether a limit holds publishers back.
    fn is_held_back(&self) -> bool {
        let mut brokers = self.world.nodes.iter().map(|node| node.shard.broker());
        brokers.any(|broker| broker.memory_alarm() || broker.queues().any(|queue| queue.full))
    }

    /// Nothing moves: nobody may be waiting, and every shard must know the same.
    pub(crate) fn check_rest(&mut self) {
        self.model.tick();
        let held_back = self.is_held_back();
        let mut complaint = None;
        let mut complain = |what: String| complaint = complaint.take().or(Some(what));
        for actor in &self.actors {
            let uid = actor.uid;
            if actor.blocked && !held_back && actor.standing == Standing::Here {
                complain(format!("at rest: client {uid} is held back, and nothing is full"));
            }
            // One that has said goodbye hears no more that it is held back.
            if held_back && (actor.blocked || actor.standing == Standing::Leaving) {
                continue;
            }
            if actor.standing != Standing::Here {
                complain(format!("at rest: client {uid} is still {:?}", actor.standing));
            }
            if !actor.client.out.is_empty() {
                complain(format!("at rest: client {uid} could not send {} bytes", actor.client.out.bytes()));
            }
            for channel in &actor.channels {
                let number = channel.uid;
                if let Some(pending) = &channel.pending {
                    complain(format!("at rest: channel {number} waits for an answer to {:?}", pending.question));
                }
                if !channel.is_open() {
                    complain(format!("at rest: channel {number} is still {:?}", channel.door));
                }
                if let Some((_, what)) = channel.suspicions.first() {
                    complain(what.clone());
                }
                let timeout_us = self.setting.bounds.consumer_timeout_ms * 1_000;
                let now_us = self.world.us();
                // What a transaction settles is not waited for, committed or not, as in RabbitMQ.
                let late = |held: &&crate::actor::Held| {
                    timeout_us > 0 && !held.staged && held.since_us + timeout_us / 8 * 10 + OVERDUE_SLACK_US < now_us
                };
                if let Some(held) = channel.held.values().find(late).filter(|_| !actor.cut) {
                    let since_us = now_us - held.since_us;
                    complain(format!("at rest: channel {number} has message {} since {since_us} us", held.message));
                }
                if let Some(first) = channel.unconfirmed.keys().next() {
                    complain(format!("at rest: channel {number} waits for confirm {first}"));
                }
            }
        }
        for (shard, node) in self.world.nodes.iter().enumerate() {
            // A heartbeat may be on its way at any moment.
            let heartbeats =
                if self.setting.bounds.heartbeat_s > 0 { node.shard.connections() * HEARTBEAT_FRAME.len() } else { 0 };
            let bytes = node.shard.effects().output_bytes().saturating_sub(heartbeats);
            // One that is held back is not missed when it falls silent, as in RabbitMQ.
            if bytes > 0 && !held_back {
                complain(format!("at rest: shard {shard} has {bytes} bytes that it does not send"));
            }
        }
        self.check_deliveries(&mut complain);
        self.check_limits(&mut complain);
        self.check_replicas(&mut complain);
        let draining = self.draining;
        for (queue, period, what) in &self.disorder {
            if draining || self.model.queues[*queue].departed.is_none_or(|departed| departed < *period) {
                complain(what.clone());
            }
        }
        for (queue, what) in &self.flagged {
            if !self.model.queues[*queue].disturbed {
                complain(what.clone());
            }
        }
        if let Some(what) = complaint {
            self.broken(what);
        }
        self.disorder.clear();
        self.flagged.clear();
    }

    /// A queue with messages has no consumer that could take one.
    fn check_deliveries(&self, complain: &mut impl FnMut(String)) {
        let queues = self.world.nodes.iter().flat_map(|node| node.shard.broker().queues());
        for queue in queues.filter(|queue| !queue.ready.is_empty()) {
            let mut idle = 0;
            let mut free = None;
            // Of those who are held back the broker does not hear what they have settled.
            for (blocked, channel) in
                self.actors.iter().flat_map(|actor| actor.channels.iter().map(|c| (actor.blocked, c)))
            {
                let shared = channel.prefetch_shared;
                for consumer in &channel.consumers {
                    let room = consumer.no_ack
                        || (consumer.prefetch == 0 || consumer.held < consumer.prefetch)
                            && (shared == 0 || channel.consumers_hold < shared);
                    if self.model.queues[consumer.queue].name != *queue.name || consumer.stage != Stage::Active {
                        continue;
                    }
                    if channel.flow && room && !blocked {
                        idle += 1;
                        free = Some(&consumer.tag);
                    }
                }
            }
            // Where one at a time is served it may be any one, also one that fell silent and is not missed.
            if let Some(tag) = free.filter(|_| idle == queue.consumers.len() || !queue.is_single_active()) {
                let (name, messages) = (&queue.name, queue.ready.len());
                complain(format!("at rest: {name} has {messages} messages, and {tag} is not given one"));
            }
        }
    }

    /// Every shard knows what was answered.
    fn check_replicas(&self, complain: &mut impl FnMut(String)) {
        let now = self.model.now;
        for (shard, node) in self.world.nodes.iter().enumerate() {
            let catalog = node.shard.broker().catalog();
            let Some(vhost) = catalog.vhost_by_name("/") else {
                complain(format!("shard {shard} has no virtual host"));
                continue;
            };
            for queue in &self.model.queues {
                let there = catalog.queue(vhost, queue.name.as_bytes()).is_some();
                let again =
                    self.model.queues.iter().any(|other| other.name == queue.name && other.life.ended.is_none());
                if (queue.life.surely(now, now) && !there) || (queue.life.ended.is_some() && there && !again) {
                    complain(format!("at rest: queue {} on shard {shard}: {there}", queue.name));
                }
            }
            for (at, exchange) in self.model.exchanges.iter().enumerate() {
                let there = catalog.exchange(vhost, exchange.name.as_bytes()).is_some();
                let gone = exchange.life.ended.is_some() || self.model.is_kept(at) == Some(false);
                if (self.model.is_exchange(at, now, now) && !there) || (gone && there) {
                    complain(format!("at rest: exchange {} on shard {shard}: {there}", exchange.name));
                }
            }
        }
    }

    /// The end: everybody goes, everything that is owed is found, and nothing is left.
    pub(crate) fn finish(&mut self) {
        if self.is_broken() {
            return;
        }
        if !self.setting.drain_beside {
            self.all_go();
            self.rest();
            // Those who are held back go once there is room; their messages may still come.
            self.draining = self.actors.is_empty() && self.setting.bounds.is_roomy();
        }
        if self.drain().is_none() {
            return;
        }
        // By its number, not by its place: while others go, places change.
        let uid = self.drainer;
        self.rest();
        if self.is_broken() {
            return;
        }
        for actor in (0..self.actors.len()).rev() {
            if Some(self.actors[actor].uid) != uid && self.actors[actor].standing == Standing::Here {
                self.go(actor);
            }
        }
        // Those that were somebody's alone are free now.
        self.rest();
        if let Some(actor) = uid.and_then(|uid| self.actor_of(uid)) {
            self.consume_all(actor, 0);
        }
        self.drain_on(uid);
        if self.is_held_back() {
            // Connections that publish and consume hold what would have to be settled: they are not heard, and nobody
            // else can free that memory. RabbitMQ stands still in the same way.
            self.note(|_| "held back for good".into());
            self.tally.held_for_good = 1;
            return;
        }
        self.check_owed();
        self.tear_down(uid);
    }

    fn all_go(&mut self) {
        for actor in 0..self.actors.len() {
            if self.actors[actor].standing == Standing::Here {
                self.go(actor);
            }
        }
    }

    fn go(&mut self, actor: usize) {
        self.model.tick();
        if self.setting.cuts && self.chance.permille(400) {
            let uid = self.actors[actor].uid;
            self.note(|_| format!("client {uid} is reset at the end"));
            self.world.wires[self.actors[actor].wire].cable.cut(SimCut::Reset);
            self.actors[actor].cut = true;
        } else {
            self.leave(actor);
        }
    }

    /// A client that takes everything: one consumer on every queue that is there.
    fn drain(&mut self) -> Option<usize> {
        let (actor, channel) = self.greet()?;
        let uid = self.actors[actor].uid;
        self.note(|_| format!("client {uid} drains"));
        self.drainer = Some(uid);
        self.consume_all(actor, channel);
        self.drain_on(Some(uid));
        (!self.is_broken()).then(|| self.actor_of(uid)).flatten()
    }

    pub(crate) fn actor_of(&self, uid: u32) -> Option<usize> {
        self.actors.iter().position(|actor| actor.uid == uid)
    }

    fn consume_all(&mut self, actor: usize, channel: usize) {
        let uid = self.actors[actor].uid;
        for queue in 0..self.model.queues.len() {
            let active = self.actor_of(uid).is_some_and(|actor| {
                let mut consumers = self.actors[actor].channels.iter().flat_map(|channel| &channel.consumers);
                consumers.any(|consumer| consumer.queue == queue && consumer.stage == Stage::Active)
            });
            if active || !self.is_there(queue) {
                continue;
            }
            let Some(actor) = self.actor_of(uid) else { return };
            self.model.tick();
            // It settles only when nothing moves any more, which may be too late.
            let no_ack = self.setting.bounds.consumer_timeout_ms > 0;
            let number = self.uid();
            let (name, tag) = (self.model.queues[queue].name.clone(), format!("d{number}"));
            let consume = basic::Consume {
                queue: ShortStr::truncated(&name),
                consumer_tag: ShortStr::truncated(&tag),
                no_local: false,
                no_ack,
                exclusive: false,
                no_wait: false,
                arguments: wire::TableRef::EMPTY,
            };
            self.say(actor, channel, consume);
            let consumer = crate::actor::Consumer {
                uid: number,
                tag,
                queue,
                no_ack,
                exclusive: false,
                prefetch: 0,
                held: 0,
                stage: Stage::Asked,
            };
            let consumers = &mut self.actors[actor].channels[channel].consumers;
            consumers.push(consumer);
            let at = consumers.len() - 1;
            self.pend(actor, channel, Question::Consume(at));
            let answered = |run: &Run| match run.actor_of(uid) {
                Some(actor) => run.actors[actor].channels.first().is_none_or(|channel| channel.pending.is_none()),
                None => true,
            };
            if !self.until(answered) {
                return;
            }
            // Refused: an exclusive consumer of somebody who is still here. Its channel is gone, the drain needs another.
            let Some(actor) = self.actor_of(uid) else { return };
            if self.actors[actor].channels.is_empty() {
                self.open_channel(actor);
                let open = |run: &Run| match run.actor_of(uid) {
                    Some(actor) => run.actors[actor].channels.first().is_some_and(|channel| channel.is_open()),
                    None => true,
                };
                if !self.until(open) {
                    return;
                }
            }
        }
    }

    /// Whether a queue is really there, for anybody to use.
    fn is_there(&self, queue: usize) -> bool {
        let known = &self.model.queues[queue];
        let catalog = self.world.nodes[0].shard.broker().catalog();
        let found = catalog.vhost_by_name("/").and_then(|vhost| catalog.queue(vhost, known.name.as_bytes()));
        let definition = found.and_then(|id| catalog.queue_definition(id));
        let newest = self.model.queues[queue + 1..].iter().all(|other| other.name != known.name);
        newest && definition.is_some_and(|definition| definition.exclusive.is_none())
    }

    /// The drainer settles what it has until nothing comes any more.
    fn drain_on(&mut self, uid: Option<u32>) {
        for _ in 0..PATIENCE_ROUNDS {
            self.rest();
            if self.is_broken() {
                return;
            }
            let Some(actor) = uid.and_then(|uid| self.actor_of(uid)) else { return };
            let mut settled = false;
            for channel in 0..self.actors[actor].channels.len() {
                let Some((&last, _)) = self.actors[actor].channels[channel].held.last_key_value() else { continue };
                settled = true;
                self.model.tick();
                let tags: Vec<u64> = self.actors[actor].channels[channel].held.keys().copied().collect();
                self.say(actor, channel, basic::Ack { delivery_tag: last, multiple: true });
                for tag in tags {
                    self.tally.drained += 1;
                    self.settled(actor, channel, tag, crate::actor::Settling::Done);
                }
            }
            if !settled {
                return;
            }
        }
    }

    /// What the broker answered for and nobody took must have been found by now.
    fn check_owed(&mut self) {
        let now = self.model.now;
        let mut missing = Vec::new();
        for (at, queue) in self.model.queues.iter().enumerate() {
            if queue.life.surely(now, now) && queue.owner.is_none() && !queue.leaky {
                let owed = queue.owed.iter().filter(|&&id| number_of(id) > queue.forgiven);
                missing.extend(owed.map(|&id| (at, id)));
            }
        }
        if let Some((at, id)) = missing.into_iter().find(|&(at, id)| !self.is_excused(at, id)) {
            self.broken(format!("message {id} is lost: {} never delivered it", self.model.queues[at].name));
        }
    }

    /// Everything is deleted and closed: what is left is a leak.
    fn tear_down(&mut self, uid: Option<u32>) {
        if self.is_broken() {
            return;
        }
        let Some(actor) = uid.and_then(|uid| self.actor_of(uid)) else { return };
        // Those too whose names nobody has heard.
        let queues = self.world.nodes.iter().flat_map(|node| node.shard.broker().queues());
        let queues: Vec<String> = queues.map(|queue| queue.name.to_string()).collect();
        let exchanges: Vec<String> = self.model.exchanges[1..].iter().map(|exchange| exchange.name.clone()).collect();
        let now = self.model.tick();
        for queue in &mut self.model.queues {
            queue.life.may_end(now);
        }
        for exchange in &mut self.model.exchanges {
            exchange.life.may_end(now);
        }
        for name in &queues {
            let queue = ShortStr::truncated(name);
            self.say(actor, 0, queue::Delete { queue, if_unused: false, if_empty: false, no_wait: true });
        }
        for name in &exchanges {
            let exchange = ShortStr::truncated(name);
            self.say(actor, 0, exchange::Delete { exchange, if_unused: false, no_wait: true });
        }
        self.rest();
        if let Some(actor) = uid.and_then(|uid| self.actor_of(uid)) {
            self.leave(actor);
        }
        self.rest();
        self.check_baseline();
    }

    fn check_baseline(&mut self) {
        let mut left = Vec::new();
        if self.world.household.connections() > 0 {
            left.push(format!("{} connections counted", self.world.household.connections()));
        }
        left.extend(self.world.left());
        if self.pool.used_bytes() > 0 {
            left.push(format!("{} bytes of the clients' memory", self.pool.used_bytes()));
        }
        if !left.is_empty() && !self.is_broken() {
            self.broken(format!("everybody has gone, and left: {}", left.join(", ")));
        }
    }
}
