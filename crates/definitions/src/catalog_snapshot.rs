//! A snapshot of a catalog's durable definitions as journal records, in steps, while the catalog changes.
//!
//! Enters: the catalog, at each step.  Leaves: records.
//! Owns:   how far the snapshot has come.
//!
//! What changes between two steps is in the journal between their records, in the order in which it happened. A record of the
//! snapshot says what is at its moment, so the last one that says something of a thing is right, whichever it is.

use crate::journal_changes::{exchange_record, queue_record, sorted_bytes, vhost_name};
use crate::journal_entry::JournalEntryWriter;
use crate::journal_record::{DurableBinding, JournalRecord, PasswordHash, StoredUser};
use crate::limits::SNAPSHOT_STEP_BYTES;
use catalog::{BindingDestination, BindingView, Catalog, QueueDefinition, User, UserId, UserLimits, VhostLimits};
use wire::Table;

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Virtual hosts, their limits, and policies: there are few.
    Begin,
    /// From this id on.
    Users(u32),
    /// From this index on.
    Exchanges(u32),
    Queues(u32),
    /// Those from the exchange at this index; of the walk through them, once that is begun.
    Bindings {
        exchange: u32,
        is_begun: bool,
    },
    Done,
}

/// What is left of a step.
struct StepBudget {
    places: u32,
    bytes_end: usize,
}

impl StepBudget {
    fn has(&self, entry: &JournalEntryWriter) -> bool {
        self.places > 0 && entry.bytes() < self.bytes_end
    }
}

/// How far a snapshot has come.
#[derive(Clone, Copy, Debug)]
pub struct CatalogSnapshot(Stage);

impl Default for CatalogSnapshot {
    fn default() -> Self {
        CatalogSnapshot(Stage::Begin)
    }
}

impl CatalogSnapshot {
    /// Adds the records of one step to an entry of the journal: it looks at so many `places` of the catalog's tables. Returns
    /// whether the snapshot is complete. `salt` is drawn for each plain password.
    pub fn step(
        &mut self,
        catalog: &mut Catalog,
        entry: &mut JournalEntryWriter,
        places: u32,
        salt: &mut dyn FnMut() -> [u8; 4],
    ) -> bool {
        let mut budget = StepBudget { places, bytes_end: entry.bytes() + SNAPSHOT_STEP_BYTES };
        while budget.has(entry) && self.0 != Stage::Done {
            self.0 = self.next(catalog, entry, salt, &mut budget);
        }
        self.0 == Stage::Done
    }

    /// Does the next thing. Returns what comes after it.
    fn next(
        &self,
        catalog: &mut Catalog,
        entry: &mut JournalEntryWriter,
        salt: &mut dyn FnMut() -> [u8; 4],
        budget: &mut StepBudget,
    ) -> Stage {
        budget.places -= 1;
        match self.0 {
            Stage::Begin => {
                begin(catalog, entry);
                Stage::Users(0)
            }
            Stage::Users(id) if id < catalog.users_end() => {
                if let Some(user) = catalog.user_at(UserId(id)) {
                    put_user(catalog, user, entry, salt);
                }
                Stage::Users(id + 1)
            }
            Stage::Users(_) => Stage::Exchanges(0),
            Stage::Exchanges(index) if index < catalog.exchanges_end() => {
                let record = catalog.exchange_at(index).and_then(|(_, exchange)| exchange_record(catalog, exchange));
                record.iter().for_each(|record| entry.push(record));
                Stage::Exchanges(index + 1)
            }
            Stage::Exchanges(_) => Stage::Queues(0),
            Stage::Queues(index) if index < catalog.queues_end() => {
                let record = catalog.queue_at(index).and_then(|(_, queue)| queue_record(catalog, queue));
                record.iter().for_each(|record| entry.push(record));
                Stage::Queues(index + 1)
            }
            Stage::Queues(_) => Stage::Bindings { exchange: 0, is_begun: false },
            Stage::Bindings { exchange, is_begun: true } => match catalog.walk_on() {
                Some(place) => {
                    let view = catalog.binding_at(place).and_then(|(view, _)| view);
                    let record = view.and_then(|view| binding_record(catalog, &view));
                    record.iter().for_each(|record| entry.push(record));
                    Stage::Bindings { exchange, is_begun: true }
                }
                None => Stage::Bindings { exchange: exchange + 1, is_begun: false },
            },
            Stage::Bindings { exchange, is_begun: false } if exchange < catalog.exchanges_end() => {
                let found = catalog.exchange_at(exchange).filter(|(_, definition)| definition.durable);
                match found.map(|(id, _)| id) {
                    Some(id) => {
                        catalog.begin_binding_walk(id);
                        Stage::Bindings { exchange, is_begun: true }
                    }
                    None => Stage::Bindings { exchange: exchange + 1, is_begun: false },
                }
            }
            Stage::Bindings { .. } => {
                entry.push(&JournalRecord::NextQueueUid(catalog.next_queue_uid()));
                entry.push(&JournalRecord::SnapshotEnd);
                Stage::Done
            }
            Stage::Done => Stage::Done,
        }
    }
}

fn begin(catalog: &Catalog, entry: &mut JournalEntryWriter) {
    entry.push(&JournalRecord::SnapshotBegin);
    // The configuration may have put others in the place of those that were journaled.
    entry.push(&JournalRecord::ClearPolicies);
    for (id, name) in catalog.vhosts() {
        entry.push(&JournalRecord::PutVhost { name: name.clone() });
        let limits = catalog.vhost_limits(id);
        if limits != VhostLimits::default() {
            entry.push(&JournalRecord::SetVhostLimits { vhost: name.clone(), limits });
        }
    }
    for (policy, is_operator) in catalog.policies() {
        entry.push(&JournalRecord::PutPolicy { policy: policy.clone(), is_operator });
    }
}

fn put_user(catalog: &Catalog, user: &User, entry: &mut JournalEntryWriter, salt: &mut dyn FnMut() -> [u8; 4]) {
    let name = &user.name;
    let password = PasswordHash::new(&user.password, salt);
    let stored = StoredUser { password, tags: user.tags.clone(), loopback_only: user.loopback_only };
    entry.push(&JournalRecord::PutUser { name: name.clone(), user: stored });
    if user.limits != UserLimits::default() {
        entry.push(&JournalRecord::SetUserLimits { user: name.clone(), limits: user.limits });
    }
    for (vhost, permission) in user.permissions() {
        if let Some(vhost) = vhost_name(catalog, vhost) {
            let permission = permission.clone();
            entry.push(&JournalRecord::SetPermission { user: name.clone(), vhost, permission });
        }
    }
    for (vhost, exchange, permission) in user.topic_permissions() {
        if let Some(vhost) = vhost_name(catalog, vhost) {
            let (exchange, permission) = (exchange.clone(), permission.clone());
            entry.push(&JournalRecord::SetTopicPermission { user: name.clone(), vhost, exchange, permission });
        }
    }
}

fn binding_record(catalog: &Catalog, view: &BindingView<'_>) -> Option<JournalRecord> {
    let source = catalog.exchange_info(view.source)?;
    let (destination, is_to_queue) = match view.destination {
        BindingDestination::Queue(id) => {
            let queue = catalog.queue_definition(id).filter(|queue| QueueDefinition::is_durable(queue))?;
            (queue.name.clone(), true)
        }
        BindingDestination::Exchange(id) => {
            let exchange = catalog.exchange_info(id).filter(|exchange| exchange.durable)?;
            (exchange.name.clone(), false)
        }
    };
    let arguments = view.arguments.map_or_else(|| sorted_bytes(&Table::new()), sorted_bytes);
    let routing_key = view.routing_key.into();
    let binding = DurableBinding { source: source.name.clone(), destination, is_to_queue, routing_key, arguments };
    Some(JournalRecord::PutOlderBinding { vhost: vhost_name(catalog, source.vhost)?, binding })
}
