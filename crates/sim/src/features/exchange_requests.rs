//! Requests about exchanges and bindings.

use super::requests::RequestTurn;
use super::shadow_model::{
    BindingTarget, HEADER_NAMES, HeaderMatch, Lifetime, ShadowBinding, ShadowExchange, ShadowExchangeType, VOID,
};
use super::swarm::Feature;
use crate::commands;
use crate::simulated_client::ClientRequest;
use wire::method::{exchange, queue};
use wire::{ShortStr, Table, TableRef, Value};

impl RequestTurn<'_> {
    fn living_exchanges(&self) -> Vec<usize> {
        let now = self.model.now;
        (1..self.model.exchanges.len()).filter(|&at| self.model.is_exchange(at, now, now)).collect()
    }

    pub fn bind(&mut self, queue: usize) -> Option<ClientRequest> {
        let exchanges = self.living_exchanges();
        if exchanges.is_empty() {
            return None;
        }
        let source = exchanges[self.world.chance.below(exchanges.len() as u64) as usize];
        let target = if self.settings.switches.has(Feature::Chained, &mut self.world.chance) {
            BindingTarget::Exchange(exchanges[self.world.chance.below(exchanges.len() as u64) as usize])
        } else {
            BindingTarget::Queue(queue)
        };
        let exchange_type = self.model.exchanges[source].exchange_type;
        let key = match exchange_type {
            ShadowExchangeType::Topic => self.generator().words(true),
            _ => format!("k{}", self.world.chance.below(4)),
        };
        let headers = (exchange_type == ShadowExchangeType::Headers).then(|| {
            let mut value = || [0, 0, 1, 1, 2, VOID][self.world.chance.below(6) as usize];
            let (first, others) = (value(), [value(), value()]);
            let [second, third] = others.map(|value| (self.world.chance.below(2) == 0).then_some(value));
            let (any, with_x) = (self.world.chance.below(2) == 0, self.world.chance.below(2) == 0);
            HeaderMatch { any, with_x, headers: [Some(first), second, third] }
        });
        let same = |binding: &ShadowBinding| {
            (binding.source, binding.target, &binding.key, binding.headers) == (source, target, &key, headers)
        };
        let binding = match self.model.bindings.iter().position(same) {
            Some(known) => known,
            None => {
                let binding = ShadowBinding { source, target, key, headers, lives: Vec::new(), locked: false };
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
        known.lives.push(Lifetime::requested(now));
        let life = known.lives.len() - 1;
        self.change_binding(binding, true);
        Some(ClientRequest::Bind(binding, life))
    }

    pub fn unbind(&mut self) -> Option<ClientRequest> {
        let (now, uid) = (self.model.now, self.world.clients[self.client].uid);
        let can = |binding: &ShadowBinding| {
            let there = match binding.target {
                BindingTarget::Queue(queue) => {
                    let queue = &self.model.queues[queue];
                    queue.life.surely_spans(now, now) && queue.owner.is_none_or(|owner| owner == uid)
                }
                BindingTarget::Exchange(exchange) => self.model.is_exchange(exchange, now, now),
            };
            there
                && !binding.locked
                && self.model.is_exchange(binding.source, now, now)
                && binding.lives.last().is_some_and(|life| life.surely_spans(now, now))
        };
        let candidates: Vec<usize> =
            (0..self.model.bindings.len()).filter(|&at| can(&self.model.bindings[at])).collect();
        if candidates.is_empty() {
            return None;
        }
        let binding = candidates[self.world.chance.below(candidates.len() as u64) as usize];
        let known = &mut self.model.bindings[binding];
        known.locked = true;
        let life = known.lives.len() - 1;
        known.lives[life].may_end(now);
        self.change_binding(binding, false);
        Some(ClientRequest::Unbind(binding, life))
    }

    fn change_binding(&mut self, binding: usize, binds: bool) {
        let known = &self.model.bindings[binding];
        let (key, target, source) = (known.key.clone(), known.target, known.source);
        let mut table = Table::default();
        if let Some(HeaderMatch { any, with_x, headers }) = known.headers {
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
        let (routing_key, no_wait) = (ShortStr::truncated(&key), false);
        match (target, binds) {
            (BindingTarget::Queue(_), true) => {
                self.send(queue::Bind { arguments, ..commands::bind_queue(&to, &from, &key) });
            }
            (BindingTarget::Queue(_), false) => {
                self.send(queue::Unbind { arguments, ..commands::unbind_queue(&to, &from, &key) });
            }
            (BindingTarget::Exchange(_), true) => {
                let (destination, source) = (ShortStr::truncated(&to), ShortStr::truncated(&from));
                self.send(exchange::Bind { destination, source, routing_key, no_wait, arguments });
            }
            (BindingTarget::Exchange(_), false) => {
                let (destination, source) = (ShortStr::truncated(&to), ShortStr::truncated(&from));
                self.send(exchange::Unbind { destination, source, routing_key, no_wait, arguments });
            }
        }
    }

    pub fn declare_exchange(&mut self) -> ClientRequest {
        let uid = self.world.uid();
        let (exchange_type, word) = [
            (ShadowExchangeType::Direct, "direct"),
            (ShadowExchangeType::Fanout, "fanout"),
            (ShadowExchangeType::Topic, "topic"),
            (ShadowExchangeType::Headers, "headers"),
        ][self.world.chance.below(4) as usize];
        let exchanges = self.living_exchanges();
        let alternate = (!exchanges.is_empty()
            && self.settings.switches.has(Feature::Alternates, &mut self.world.chance))
        .then(|| exchanges[self.world.chance.below(exchanges.len() as u64) as usize]);
        let auto_delete = self.settings.switches.has(Feature::ExchangeAutoDelete, &mut self.world.chance);
        let durable = self.settings.durable.is_some_and(|one| self.world.chance.permille(one.definition_permille));
        let mut table = Table::default();
        if let Some(alternate) = alternate {
            let name = self.model.exchanges[alternate].name.clone().into_bytes();
            table = table.with("alternate-exchange", Value::LongStr(name.into())).expect("a short name");
        }
        let (name, bytes) = (format!("x{uid}"), table.to_bytes());
        let arguments = TableRef::new(&bytes);
        let declare = exchange::Declare { durable, auto_delete, arguments, ..commands::declare_exchange(&name, word) };
        self.send(declare);
        let life = Lifetime::requested(self.model.now);
        self.model.exchanges.push(ShadowExchange { name, exchange_type, alternate, auto_delete, durable, life });
        ClientRequest::DeclareExchange(self.model.exchanges.len() - 1)
    }

    pub fn delete_exchange(&mut self) -> Option<ClientRequest> {
        let exchanges = self.living_exchanges();
        if exchanges.len() < 5 {
            return None;
        }
        let gone = exchanges[self.world.chance.below(exchanges.len() as u64) as usize];
        let now = self.model.now;
        self.model.exchanges[gone].life.may_end(now);
        let name = self.model.exchanges[gone].name.clone();
        self.send(commands::delete_exchange(&name));
        Some(ClientRequest::DeleteExchange(gone))
    }

    /// The name of a binding's destination.
    fn name_of(&self, target: BindingTarget) -> &str {
        match target {
            BindingTarget::Queue(queue) => &self.model.queues[queue].name,
            BindingTarget::Exchange(exchange) => &self.model.exchanges[exchange].name,
        }
    }
}
