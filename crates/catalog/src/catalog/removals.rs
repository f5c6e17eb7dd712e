//! Removals: what is deleted goes in steps.
//!
//! Enters: queues, exchanges, sessions and vhosts that are to go.  Leaves: tables without them, and the queues that went.
//! Owns:   what is still to be removed.
//!
//! From the first step on nothing finds what is being removed and no message goes there: it is hidden, by name and by id.
//! Its place stays in use while its bindings are removed, some with each definition. All replicas execute the same
//! definitions and so the same steps ([decision 0033](../../../../docs/decisions/0033-definitions-in-steps.md)).

use super::*;
use crate::{
    binding::BindingTarget,
    exchange::{ExchangeDefinition, ExchangeKind, RoutingTable},
    heap::boxed_table,
    ids::VhostId,
    limits::{ARGUMENT_BYTES_A_STEP, DEFINITION_STEPS_MAX, REMOVAL_STEPS},
    queue::QueueDefinition,
};

/// Places of a table that are looked at in one step.
const PLACES_A_STEP: u32 = 16;

/// What is being removed. Queues and exchanges are hidden.
#[derive(Clone)]
pub(super) enum Removal {
    Queue(u32),
    Exchange(u32),
    /// The exclusive queues of a session, each hidden when its turn comes.
    Session(SessionId),
    /// What is in a vhost, in the order of the tables: from here on.
    Vhost {
        id: VhostId,
        next_queue: u32,
        next_exchange: u32,
    },
}

impl Catalog {
    /// Whether bindings that lead there lead nowhere.
    #[inline]
    pub(super) fn is_leaving(&self, target: BindingTarget) -> bool {
        match target.as_exchange() {
            Some(index) => self.exchanges.0.at(index).leaving,
            None => self.queues.table.at(target.index()).leaving,
        }
    }

    /// Hides a queue, and leaves its bindings to be removed.
    pub(super) fn begin_queue_removal(&mut self, index: u32) -> RemovedQueue {
        let id = self.queues.id(index);
        self.queues.hide(index);
        self.removals.push(Removal::Queue(index));
        let definition = &self.queues.table.at(index).definition;
        self.vhosts.at_mut(definition.vhost).queues -= 1;
        let QueueDefinition { home, vhost, uid, .. } = *definition;
        RemovedQueue { id, home, vhost, name: definition.name.clone(), uid }
    }

    /// Hides an exchange, and leaves its bindings to be removed.
    pub(super) fn begin_exchange_removal(&mut self, index: u32, executed: &mut ExecutedDefinition) {
        self.note_exchange_gone(index);
        self.exchanges.hide(index);
        self.removals.push(Removal::Exchange(index));
        let version = self.next_version();
        let exchange = self.exchanges.0.at(index);
        let ExchangeDefinition { vhost, durable, .. } = exchange.definition;
        let name = exchange.definition.name.clone();
        executed.exchanges_removed.push(RemovedExchange { vhost, name, durable });
        self.upstreams -= u32::from(exchange.definition.kind == ExchangeKind::FederationUpstream);
        let vhost = self.vhosts.at_mut(exchange.definition.vhost);
        // It may be the alternate of others.
        if vhost.alternates != 0 {
            vhost.version = version;
        }
        vhost.alternates -= u32::from(exchange.alternate.is_some());
    }

    /// Goes on with removals, the last one begun first, until only `left` of them are there or the steps of one definition
    /// are taken. Answers with the steps.
    pub(super) fn remove(&mut self, left: usize, executed: &mut ExecutedDefinition) -> u64 {
        let mut steps = 0;
        while self.removals.len() > left && steps < DEFINITION_STEPS_MAX {
            steps += self.remove_one(executed);
            self.removals_without_routes = self.removals_without_routes.min(self.removals.len());
        }
        self.work += steps;
        executed.unfinished = self.removals.len() > left;
        if executed.unfinished {
            self.forget_routes_to_leaving();
        }
        steps
    }

    /// Remembered routes may lead to what is hidden and still bound. Those that are found from now on do not. As each thing may
    /// draw the next with it, there may be very many of them: each is looked at once.
    fn forget_routes_to_leaving(&mut self) {
        let version = self.next_version();
        let hidden = &self.removals[self.removals_without_routes..];
        self.work += hidden.len() as u64;
        for removal in hidden {
            let vhost = match *removal {
                Removal::Queue(index) => self.queues.table.at(index).definition.vhost,
                Removal::Exchange(index) => self.exchanges.0.at(index).definition.vhost,
                Removal::Session(_) => continue,
                Removal::Vhost { id, .. } => id,
            };
            self.vhosts.at_mut(vhost).version = version;
        }
        self.removals_without_routes = self.removals.len();
    }

    /// Removes one thing of what is to go. Answers with the steps that it counts for.
    fn remove_one(&mut self, executed: &mut ExecutedDefinition) -> u64 {
        match self.removals.last_mut() {
            None => 0,
            Some(&mut Removal::Queue(index)) => match self.queues.table.at(index).into.first() {
                Some(binding) => self.remove_binding_of_leaving(binding, executed),
                None => {
                    self.removals.pop();
                    let queue = self.queues.table.remove(index);
                    removal_steps(queue.definition.arguments.as_deref())
                }
            },
            Some(&mut Removal::Exchange(index)) => {
                let exchange = self.exchanges.0.at(index);
                match exchange.from.first().or(exchange.into.first()) {
                    Some(binding) => self.remove_binding_of_leaving(binding, executed),
                    None => self.finish_exchange_removal(index),
                }
            }
            Some(&mut Removal::Session(session)) => match self.queues.of_session(session) {
                Some(index) => {
                    executed.queues_removed.push(self.begin_queue_removal(index));
                    REMOVAL_STEPS
                }
                None => {
                    self.removals.pop();
                    1
                }
            },
            Some(Removal::Vhost { id, next_queue, next_exchange }) => {
                let id = *id;
                let (first_queue, first_exchange) = (*next_queue, *next_exchange);
                if first_queue < self.queues.table.end() {
                    let end = first_queue + PLACES_A_STEP;
                    let found = (first_queue..end).find(|&index| self.queues.table.has(index, id));
                    *next_queue = found.map_or(end, |index| index + 1);
                    if let Some(index) = found {
                        executed.queues_removed.push(self.begin_queue_removal(index));
                        return REMOVAL_STEPS;
                    }
                } else if first_exchange < self.exchanges.0.end() {
                    let end = first_exchange + PLACES_A_STEP;
                    let found = (first_exchange..end).find(|&index| self.exchanges.0.has(index, id));
                    *next_exchange = found.map_or(end, |index| index + 1);
                    if let Some(index) = found {
                        self.begin_exchange_removal(index, executed);
                        return REMOVAL_STEPS;
                    }
                } else {
                    return self.finish_vhost_removal(id);
                }
                1
            }
        }
    }

    /// A vhost in which nothing is left goes. If something is left whose removal was begun before, its own is put below that.
    fn finish_vhost_removal(&mut self, id: VhostId) -> u64 {
        let Some(last) = self.removals.len().checked_sub(1) else { unreachable!("it is the last removal") };
        let is_in_it = |removal: &Removal| match *removal {
            Removal::Queue(index) => self.queues.table.at(index).definition.vhost == id,
            Removal::Exchange(index) => self.exchanges.0.at(index).definition.vhost == id,
            // Its exclusive queues in this vhost are gone.
            Removal::Session(_) => false,
            Removal::Vhost { .. } => false,
        };
        let Some(first) = self.removals[..last].iter().position(is_in_it) else {
            self.removals.pop();
            self.vhosts.remove(id);
            return 1 + last as u64;
        };
        self.removals[first..].rotate_right(1);
        self.removals_without_routes = self.removals_without_routes.min(first);
        1 + last as u64
    }

    fn remove_binding_of_leaving(&mut self, binding: u32, executed: &mut ExecutedDefinition) -> u64 {
        let before = self.work;
        let source = self.remove_binding(binding);
        let steps = self.work - before;
        let Some(source) = source else { return steps };
        self.begin_exchange_removal(source, executed);
        steps + REMOVAL_STEPS
    }

    fn finish_exchange_removal(&mut self, index: u32) -> u64 {
        self.removals.pop();
        let exchange = self.exchanges.0.remove(index);
        if exchange.root != u32::MAX {
            self.topics.prune(exchange.root);
        }
        if let RoutingTable::ConsistentHash(ring) = &exchange.matching {
            self.rings_bytes -= ring.bytes();
        }
        removal_steps(exchange.definition.arguments.as_deref())
    }
}

fn removal_steps(arguments: Option<&wire::Table>) -> u64 {
    REMOVAL_STEPS + (boxed_table(arguments) / ARGUMENT_BYTES_A_STEP) as u64
}
