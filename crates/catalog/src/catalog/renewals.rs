//! Renewals: what exists is put under rules that have changed, in steps.
//!
//! Enters: that policies, or the limits of a vhost, are others.  Leaves: the queues that do something else now.
//! Owns:   which queues and exchanges are yet to be held against them.
//!
//! What is declared in the meantime is under the new rules at once. All replicas execute the same definitions and so the same
//! steps, as with [removals](super::removals).

use super::exchanges::alternate_of;
use super::*;
use crate::{
    ids::VhostId,
    limits::{DEFINITION_STEPS_MAX, RENEWAL_STEPS},
    named::Named,
};
use std::collections::BTreeSet;

/// How far a renewal has come, in the order of the tables.
#[derive(Clone, Default)]
pub(super) struct Renewal {
    next_queue: u32,
    next_exchange: u32,
    /// The vhosts that begin or end to count the bytes of their queues.
    recounted: BTreeSet<VhostId>,
}

impl Catalog {
    /// Whether definitions are not finished: [`Definition::Finish`] goes on with them.
    pub fn has_unfinished(&self) -> bool {
        !self.removals.is_empty() || self.renewal.is_some()
    }

    /// Policies have changed, or whether a vhost counts the bytes of its queues. A renewal that is under way begins anew.
    pub(super) fn begin_renewal(&mut self, recounted: Option<VhostId>) {
        let before = self.renewal.take().unwrap_or_default();
        let recounted = before.recounted.into_iter().chain(recounted).collect();
        self.renewal = Some(Renewal { recounted, ..Renewal::default() });
    }

    /// Goes on with a renewal until the steps of one definition are taken, of which some may have been.
    pub(super) fn renew(&mut self, mut steps: u64, executed: &mut ExecutedDefinition) {
        let Some(mut renewal) = self.renewal.take() else { return };
        let before = steps;
        while steps < DEFINITION_STEPS_MAX {
            if renewal.next_queue < self.queues.table.end() {
                steps += self.renew_queue(renewal.next_queue, &renewal.recounted, executed);
                renewal.next_queue += 1;
            } else if renewal.next_exchange < self.exchanges.0.end() {
                steps += self.renew_exchange(renewal.next_exchange);
                renewal.next_exchange += 1;
            } else {
                self.work += steps - before;
                return;
            }
        }
        self.work += steps - before;
        self.renewal = Some(renewal);
        executed.unfinished = true;
    }

    /// Holds the queue at an index, if there is one, against the policies of its vhost. Answers with the steps.
    fn renew_queue(&mut self, index: u32, recounted: &BTreeSet<VhostId>, executed: &mut ExecutedDefinition) -> u64 {
        let Some(queue) = self.queues.table.get_mut(index).filter(|queue| !queue.leaving) else { return 1 };
        let definition = &mut queue.definition;
        let policies = &mut self.vhosts.at_mut(definition.vhost).policies;
        let steps = 1 + policies.steps(&definition.name);
        let policy = policies.of_queue(&definition.name, definition.arguments.as_deref());
        let is_recounted = recounted.contains(&definition.vhost);
        if policy.is_none() && definition.policy.is_none() && !is_recounted {
            return steps;
        }
        let before = definition.features();
        definition.policy = policy;
        if is_recounted || definition.features() != before {
            executed.queues_changed.push(QueueId { index, serial: queue.serial });
        }
        steps + RENEWAL_STEPS
    }

    /// Holds the exchange at an index, if there is one, against the policies of its vhost: it may have another alternate now.
    /// Answers with the steps.
    fn renew_exchange(&mut self, index: u32) -> u64 {
        let version = self.next_version();
        let Some(exchange) = self.exchanges.0.get_mut(index).filter(|exchange| !exchange.leaving) else { return 1 };
        let vhost = self.vhosts.at_mut(exchange.definition.vhost);
        let steps = 1 + vhost.policies.steps(&exchange.definition.name);
        exchange.definition.policy = vhost.policies.of_exchange(&exchange.definition.name);
        let alternate = alternate_of(&exchange.definition);
        if alternate == exchange.alternate {
            return steps;
        }
        vhost.alternates += u32::from(alternate.is_some());
        vhost.alternates -= u32::from(exchange.alternate.is_some());
        vhost.version = version;
        exchange.version = version;
        let before = exchange.heap_bytes();
        exchange.alternate = alternate;
        let now = exchange.heap_bytes();
        self.exchanges.0.recount(before, now);
        steps + RENEWAL_STEPS
    }
}
