//! Requests of clients: declare, bind, consume, get, and all others that the broker answers.
//!
//! A name belongs to one queue at a time: clients do not declare a second queue of a name that is in use.

use super::feature_settings::FeatureSettings;
use super::queue_arguments::{Generator, LONG_MS};
use super::shadow_model::{ModelTime, PublishOutcome, ShadowModel};
use super::swarm::{Feature, RequestChoice};
use crate::commands;
use crate::faults::Faults;
use crate::limits::{CONSUMERS_MAX, QUEUES_MAX};
use crate::simulated_client::{ChannelConsumer, ClientRequest, ConsumerState, PublishMode};
use crate::world::SimulatedWorld;
use wire::method::{basic, channel, confirm, queue, tx};
use wire::{Method, ShortStr, Table, TableRef, Value};

fn short(text: &str) -> ShortStr<'_> {
    ShortStr::truncated(text)
}

/// The same arguments, with every whole number in its shortest type.
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

/// Whether a channel waits for an answer about a queue.
fn has_pending_request(world: &SimulatedWorld, queue: usize) -> bool {
    let channels = world.clients.iter().flat_map(|client| &client.channels);
    channels.filter_map(|channel| channel.pending.as_ref()).any(|pending| match pending.request {
        ClientRequest::Declare(other)
        | ClientRequest::DeclarePassive(other)
        | ClientRequest::Redeclare(other, _)
        | ClientRequest::Delete(other, _)
        | ClientRequest::Purge(other)
        | ClientRequest::Get(other, _) => other == queue,
        // These may concern the queue; waiting for all of them is simple and rare.
        ClientRequest::Bind(..) | ClientRequest::Unbind(..) | ClientRequest::Consume(_) | ClientRequest::Cancel(_) => {
            true
        }
        _ => false,
    })
}

/// A client's turn to send a request on a channel that waits for no answer.
pub struct RequestTurn<'a> {
    pub world: &'a mut SimulatedWorld,
    pub model: &'a mut ShadowModel,
    pub settings: &'a FeatureSettings,
    pub client: usize,
    pub channel: usize,
}

impl RequestTurn<'_> {
    /// Sends a request that is drawn by its weight.
    pub fn send_any(&mut self) {
        let now = self.model.tick();
        let living = self.usable();
        let queue =
            if living.is_empty() { None } else { Some(living[self.world.chance.below(living.len() as u64) as usize]) };
        let alive = self.model.living_queues().len();
        let request = match (self.settings.switches.draw_request(&mut self.world.chance), queue) {
            (RequestChoice::Declare, _) if alive < QUEUES_MAX => Some(self.declare()),
            (_, None) => Some(self.declare()),
            (RequestChoice::Declare | RequestChoice::DeclarePassive, Some(queue)) => Some(self.declare_passive(queue)),
            (RequestChoice::Redeclare, Some(queue)) => self.redeclare(queue),
            (RequestChoice::Delete, Some(queue)) if alive > 4 => self.delete(queue),
            (RequestChoice::Delete, Some(_)) => None,
            (RequestChoice::Purge, Some(queue)) => {
                self.send(queue::Purge { queue: short(&self.model.queues[queue].name.clone()), no_wait: false });
                Some(ClientRequest::Purge(queue))
            }
            (RequestChoice::Bind, Some(queue)) => self.bind(queue),
            (RequestChoice::Unbind, _) => self.unbind(),
            (RequestChoice::Consume, Some(queue)) => self.consume(queue),
            (RequestChoice::Cancel, _) => self.cancel(),
            (RequestChoice::Get, Some(queue)) => Some(self.get(queue)),
            (RequestChoice::Prefetch, _) => {
                let global = self.world.chance.permille(400);
                let prefetch_count = [0, 1, 2, 3, 10][self.world.chance.below(5) as usize];
                self.send(basic::Qos { prefetch_size: 0, prefetch_count, global });
                let count = prefetch_count.into();
                Some(if global { ClientRequest::PrefetchShared(count) } else { ClientRequest::Prefetch(count) })
            }
            (RequestChoice::Flow, _) => {
                let active = self.world.chance.permille(700);
                self.send(channel::Flow { active });
                Some(ClientRequest::Flow(active))
            }
            (RequestChoice::Recover, _) => self.recover(),
            (RequestChoice::DeclareExchange, _) => Some(self.declare_exchange()),
            (RequestChoice::DeleteExchange, _) => self.delete_exchange(),
            (RequestChoice::Transact, _) => self.transact(),
        };
        if let Some(request) = request {
            self.await_reply(request, now);
        }
    }

    /// Sends `exchange.declare`.
    pub fn send_exchange_declare(&mut self) {
        let now = self.model.now;
        let request = self.declare_exchange();
        self.await_reply(request, now);
    }

    /// The channel waits for the answer to a request.
    fn await_reply(&mut self, request: ClientRequest, now: ModelTime) {
        let channel = &mut self.world.clients[self.client].channels[self.channel];
        if let ClientRequest::Select(mode) = request {
            // The broker receives everything that follows after the request.
            channel.mode = mode;
        }
        channel.await_reply(request, now);
    }

    pub(super) fn send<'a>(&mut self, method: impl Into<Method<'a>>) {
        self.world.send(self.client, self.channel, method);
    }

    pub(super) fn generator(&mut self) -> Generator<'_> {
        Generator { model: self.model, switches: self.settings.switches, chance: &mut self.world.chance }
    }

    /// Queues that exist and that this client may use.
    fn usable(&self) -> Vec<usize> {
        let uid = self.world.clients[self.client].uid;
        let mine = |&queue: &usize| self.model.queues[queue].owner.is_none_or(|owner| owner == uid);
        self.model.living_queues().into_iter().filter(mine).collect()
    }

    fn declare(&mut self) -> ClientRequest {
        let uid = self.world.uid();
        // A client that fills its own exclusive queue and closes is blocked by it for ever: nobody else can empty it.
        let switches = self.settings.switches;
        let exclusive =
            switches.has(Feature::Exclusive, &mut self.world.chance) && self.world.settings.limits.is_ample();
        let auto_delete = switches.has(Feature::AutoDelete, &mut self.world.chance);
        let server_named = switches.has(Feature::ServerNamed, &mut self.world.chance);
        let owner = exclusive.then(|| self.world.clients[self.client].uid);
        // Perhaps a name that is free again.
        let ended = |queue: &usize| {
            let queue = &self.model.queues[*queue];
            // The broker has received everything that was sent to the old one.
            queue.life.ended.is_some_and(|ended| ended < self.model.rested)
                && !queue.name.starts_with("amq.")
                && queue.traits == Default::default()
                && !self.model.queues.iter().any(|other| other.name == queue.name && other.life.ended.is_none())
        };
        let free =
            (0..self.model.queues.len()).rev().find(|queue| ended(queue) && !has_pending_request(self.world, *queue));
        let name = match free {
            Some(queue) if self.world.settings.limits.is_ample() && self.world.chance.permille(500) => {
                self.model.queues[queue].name.clone()
            }
            _ => format!("q{uid}"),
        };
        // Dead letters name their queue, so the name of one with features is never used again.
        let plain = server_named || name != format!("q{uid}");
        let (traits, table) = if plain { Default::default() } else { self.generator().queue_traits() };
        let queue = if server_named {
            // The answer has its name; no client can use it before.
            self.model.add_queue(format!("?{uid}"), owner, auto_delete)
        } else {
            self.model.add_queue(name.clone(), owner, auto_delete)
        };
        let now = self.model.now;
        if traits.expires_soon {
            self.model.queues[queue].life.may_end(now);
        }
        let durable =
            self.world.chance.permille(self.settings.durable.map_or(300, |durable| durable.definition_permille));
        let known = &mut self.model.queues[queue];
        (known.traits, known.arguments, known.durable) = (traits, table.clone(), durable);
        let name = if server_named { "" } else { &name };
        let bytes = table.to_bytes();
        let arguments = TableRef::new(&bytes);
        let declare = queue::Declare { durable, exclusive, auto_delete, arguments, ..commands::declare_queue(name) };
        self.send(declare);
        ClientRequest::Declare(queue)
    }

    fn declare_passive(&mut self, queue: usize) -> ClientRequest {
        let name = self.model.queues[queue].name.clone();
        self.send(queue::Declare { passive: true, ..commands::declare_queue(&name) });
        ClientRequest::DeclarePassive(queue)
    }

    /// Declares an existing queue again: with equal arguments, although numbers may have another type, or with others.
    fn redeclare(&mut self, queue: usize) -> Option<ClientRequest> {
        let (now, period) = (self.model.now, self.model.period);
        let known = &mut self.model.queues[queue];
        let is_simple = known.owner.is_none() && !known.auto_delete && !known.name.starts_with("amq.");
        // On a blocked connection the request would create a queue that another client has deleted meanwhile.
        if !is_simple || !known.life.surely_spans(now, now) || !self.world.settings.limits.is_ample() {
            return None;
        }
        known.redeclared = Some(period);
        let (name, mut durable, mut table) = (known.name.clone(), known.durable, retyped(&known.arguments));
        let same = self.world.chance.permille(600);
        if !same {
            let length = Value::I64(self.world.chance.between(1_000, 2_000) as i64);
            match self.world.chance.below(3) {
                0 => durable = !durable,
                1 => table = table.with("x-max-length", length).expect("a short name"),
                _ => table = table.with("x-message-ttl", Value::I64(LONG_MS as i64 - 1)).expect("a short name"),
            }
        }
        let bytes = table.to_bytes();
        let arguments = TableRef::new(&bytes);
        let declare = queue::Declare { durable, arguments, ..commands::declare_queue(&name) };
        self.send(declare);
        Some(ClientRequest::Redeclare(queue, same))
    }

    fn delete(&mut self, queue: usize) -> Option<ClientRequest> {
        // A redeclaration at the same time might create it again.
        if self.model.queues[queue].redeclared == Some(self.model.period) {
            return None;
        }
        let name = self.model.queues[queue].name.clone();
        let (if_unused, if_empty) = (self.world.chance.permille(300), self.world.chance.permille(300));
        let now = self.model.now;
        self.model.queues[queue].life.may_end(now);
        self.send(queue::Delete { if_unused, if_empty, ..commands::delete_queue(&name) });
        Some(ClientRequest::Delete(queue, if_unused || if_empty))
    }

    fn get(&mut self, queue: usize) -> ClientRequest {
        let no_ack = self.settings.switches.has(Feature::NoAck, &mut self.world.chance);
        let name = self.model.queues[queue].name.clone();
        self.send(basic::Get { queue: short(&name), no_ack });
        self.may_owe(no_ack);
        if self.world.settings.faults.client_cuts && self.world.clients.len() > 1 && self.world.chance.permille(40) {
            // The delivery finds no client.
            let client = &mut self.world.clients[self.client];
            self.world.tally.client_cuts += 1;
            self.model.end_owned_queues(client.uid);
            Faults::cut_client_after_output(client);
        }
        ClientRequest::Get(queue, no_ack)
    }

    /// The channel requests messages.
    fn may_owe(&mut self, no_ack: bool) {
        let now_us = self.world.clock.us();
        if !no_ack {
            self.world.clients[self.client].channels[self.channel].owing_since_us.get_or_insert(now_us);
        }
    }

    pub fn consume(&mut self, queue: usize) -> Option<ClientRequest> {
        let active = self.world.clients[self.client].channels[self.channel]
            .consumers
            .iter()
            .filter(|one| one.state != ConsumerState::Gone);
        if active.count() >= CONSUMERS_MAX {
            return None;
        }
        let uid = self.world.uid();
        let switches = self.settings.switches;
        let no_ack = switches.has(Feature::NoAck, &mut self.world.chance);
        let exclusive =
            switches.has(Feature::ExclusiveConsumers, &mut self.world.chance) && self.world.settings.limits.is_ample();
        let tag = if self.world.chance.permille(200) { String::new() } else { format!("c{uid}") };
        let name = self.model.queues[queue].name.clone();
        let table = if switches.has(Feature::ConsumerPriorities, &mut self.world.chance) {
            let priority = Value::I32(self.world.chance.below(3) as i32);
            Table::default().with("x-priority", priority).expect("a short name")
        } else {
            Table::default()
        };
        let now = self.model.now;
        let known = &mut self.model.queues[queue];
        known.contested |= exclusive;
        if known.auto_delete {
            // From now on it may be deleted at any time: its consumer may be cut and not know it.
            known.life.may_end(now);
        }
        let bytes = table.to_bytes();
        let arguments = TableRef::new(&bytes);
        let consume = basic::Consume { exclusive, arguments, ..commands::consume(&name, &tag, no_ack) };
        self.send(consume);
        self.may_owe(no_ack);
        let one = &mut self.world.clients[self.client].channels[self.channel];
        let prefetch = one.prefetch;
        let state = ConsumerState::Requested;
        one.consumers.push(ChannelConsumer { uid, tag, queue, no_ack, exclusive, prefetch, unsettled: 0, state });
        Some(ClientRequest::Consume(one.consumers.len() - 1))
    }

    fn cancel(&mut self) -> Option<ClientRequest> {
        let consumers = &self.world.clients[self.client].channels[self.channel].consumers;
        let active: Vec<usize> =
            (0..consumers.len()).filter(|&at| consumers[at].state == ConsumerState::Active).collect();
        if active.is_empty() {
            return None;
        }
        let at = active[self.world.chance.below(active.len() as u64) as usize];
        let (tag, queue, uid) = (consumers[at].tag.clone(), consumers[at].queue, consumers[at].uid);
        self.send(basic::Cancel { consumer_tag: short(&tag), no_wait: false });
        self.world.clients[self.client].channels[self.channel].consumers[at].state = ConsumerState::Cancelling;
        self.model.consumer_leaves(queue, uid);
        // Messages that its shard has kept for it are requeued without the flag, behind deliveries to others.
        self.model.queues[queue].departed = Some(self.model.leaving_period());
        Some(ClientRequest::Cancel(at))
    }

    fn recover(&mut self) -> Option<ClientRequest> {
        if self.world.clients[self.client].channels[self.channel].mode == PublishMode::Tx {
            return None;
        }
        self.send(basic::Recover { requeue: true });
        Some(ClientRequest::Recover)
    }

    fn transact(&mut self) -> Option<ClientRequest> {
        let one = &self.world.clients[self.client].channels[self.channel];
        match one.mode {
            PublishMode::Tx if self.world.chance.permille(800) => {
                self.commit();
                Some(ClientRequest::Commit)
            }
            PublishMode::Tx => {
                self.rollback();
                Some(ClientRequest::Rollback)
            }
            // Confirms of later messages would prove unproven publishes before the selection.
            PublishMode::Plain if self.settings.switches.has(Feature::Confirms, &mut self.world.chance) => {
                self.send(confirm::Select { no_wait: false });
                Some(ClientRequest::Select(PublishMode::Confirm))
            }
            PublishMode::Plain if self.settings.switches.has(Feature::Transactions, &mut self.world.chance) => {
                self.send(tx::Select {});
                Some(ClientRequest::Select(PublishMode::Tx))
            }
            _ => None,
        }
    }

    /// Commits the open transaction.
    fn commit(&mut self) {
        let (now, now_us) = (self.model.tick(), self.world.clock.us());
        let one = &mut self.world.clients[self.client].channels[self.channel];
        let (staged, settlements) = (std::mem::take(&mut one.staged), std::mem::take(&mut one.staged_settlements));
        for &id in &staged {
            if let Some(message) = self.model.messages.get_mut(&id) {
                (message.outcome, message.sent, message.sent_us) = (PublishOutcome::Open, now, now_us);
            }
        }
        one.committing = staged;
        for (tag, settlement) in settlements {
            self.model.settle(one, tag, settlement);
        }
        self.send(tx::Commit {});
    }

    /// Rolls the open transaction back.
    fn rollback(&mut self) {
        let one = &mut self.world.clients[self.client].channels[self.channel];
        one.staged_settlements.clear();
        for delivery in one.unsettled.values_mut() {
            delivery.staged = false;
        }
        for id in std::mem::take(&mut one.staged) {
            if let Some(message) = self.model.messages.get_mut(&id) {
                message.outcome = PublishOutcome::Never;
            }
        }
        self.send(tx::Rollback {});
    }
}
