//! What a definition changes that survives a restart.
//!
//! Enters: a definition, its outcome, and the catalog that has executed it.  Leaves: journal records, by names.
//! Owns:   which definitions are durable: those of operators; exchanges and queues declared so; bindings between such.

use crate::journal_record::{DurableBinding, DurableExchange, DurableQueue, JournalRecord, PasswordHash, StoredUser};
use catalog::{
    Catalog, Definition, DefinitionOutcome, ExchangeDefinition, ExecutedDefinition, Name, QueueDefinition, VhostId,
};
use wire::Table;

/// What a definition has changed that survives a restart; nothing for most. `salt` is drawn for a plain password.
pub fn journal_changes(
    definition: &Definition,
    executed: &ExecutedDefinition,
    catalog: &Catalog,
    salt: impl FnOnce() -> [u8; 4],
) -> Vec<JournalRecord> {
    let mut records = match definition {
        Definition::DeclareExchange { vhost, name, .. } => declared_exchange(catalog, *vhost, name),
        Definition::DeclareQueue { .. } => declared_queue(catalog, &executed.outcome),
        Definition::BindExchange { vhost, source, destination, routing_key, arguments }
        | Definition::UnbindExchange { vhost, source, destination, routing_key, arguments } => {
            let at = Binding { vhost: *vhost, source, destination, is_to_queue: false, routing_key, arguments };
            at.record(executed, catalog)
        }
        Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, .. }
        | Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, .. } => {
            let (source, destination) = (exchange, queue);
            let at = Binding { vhost: *vhost, source, destination, is_to_queue: true, routing_key, arguments };
            at.record(executed, catalog)
        }
        Definition::NextQueueUid(uid) => vec![JournalRecord::NextQueueUid(*uid)],
        Definition::CreateVhost { name } => vec![JournalRecord::PutVhost { name: name.clone() }],
        Definition::DeleteVhost { name } => vec![JournalRecord::DeleteVhost { name: name.clone() }],
        Definition::PutUser { name, password, tags, loopback_only } => {
            let password = PasswordHash::new(password, salt);
            let user = StoredUser { password, tags: tags.clone(), loopback_only: *loopback_only };
            vec![JournalRecord::PutUser { name: name.clone(), user }]
        }
        Definition::DeleteUser { name } => vec![JournalRecord::DeleteUser { name: name.clone() }],
        Definition::SetPermission { user, vhost, permission } => {
            let (user, vhost, permission) = (user.clone(), vhost.clone(), permission.clone());
            vec![JournalRecord::SetPermission { user, vhost, permission }]
        }
        Definition::SetTopicPermission { user, vhost, exchange, permission } => {
            let (user, vhost, exchange) = (user.clone(), vhost.clone(), exchange.clone());
            vec![JournalRecord::SetTopicPermission { user, vhost, exchange, permission: permission.clone() }]
        }
        Definition::ClearTopicPermission { user, vhost, exchange } => {
            let (user, vhost, exchange) = (user.clone(), vhost.clone(), exchange.clone());
            vec![JournalRecord::ClearTopicPermission { user, vhost, exchange }]
        }
        Definition::ClearPermission { user, vhost } => {
            vec![JournalRecord::ClearPermission { user: user.clone(), vhost: vhost.clone() }]
        }
        Definition::SetPolicies { policies, operator_policies } => {
            let record = |is_operator| {
                move |policy: &catalog::Policy| JournalRecord::PutPolicy { policy: policy.clone(), is_operator }
            };
            let own = operator_policies.iter().map(record(true));
            std::iter::once(JournalRecord::ClearPolicies).chain(policies.iter().map(record(false))).chain(own).collect()
        }
        Definition::SetVhostLimits { vhost, limits } => {
            vec![JournalRecord::SetVhostLimits { vhost: vhost.clone(), limits: *limits }]
        }
        Definition::SetUserLimits { user, limits } => {
            vec![JournalRecord::SetUserLimits { user: user.clone(), limits: *limits }]
        }
        // What they remove is in the outcome.
        Definition::DeleteExchange { .. }
        | Definition::DeleteQueue { .. }
        | Definition::RemoveQueue { .. }
        | Definition::SessionGone { .. }
        | Definition::Finish => Vec::new(),
    };
    // What goes with a virtual host goes by the record of that.
    let queues = executed.queues_removed.iter().filter(|queue| queue.uid.is_some());
    records.extend(queues.filter_map(|queue| {
        let vhost = vhost_name(catalog, queue.vhost)?;
        Some(JournalRecord::DeleteQueue { vhost, name: queue.name.clone() })
    }));
    let exchanges = executed.exchanges_removed.iter().filter(|exchange| exchange.durable);
    records.extend(exchanges.filter_map(|exchange| {
        let vhost = vhost_name(catalog, exchange.vhost)?;
        Some(JournalRecord::DeleteExchange { vhost, name: exchange.name.clone() })
    }));
    records
}

/// The name of a virtual host that is there.
pub(crate) fn vhost_name(catalog: &Catalog, vhost: VhostId) -> Option<Name> {
    Some(catalog.vhost_name(vhost)).filter(|name| !name.is_empty()).map(Name::from)
}

fn declared_exchange(catalog: &Catalog, vhost: VhostId, name: &Name) -> Vec<JournalRecord> {
    let exchange = catalog.exchange(vhost, name.as_bytes()).and_then(|id| catalog.exchange_info(id));
    exchange.and_then(|exchange| exchange_record(catalog, exchange)).into_iter().collect()
}

fn declared_queue(catalog: &Catalog, outcome: &DefinitionOutcome) -> Vec<JournalRecord> {
    let DefinitionOutcome::Queue { id, .. } = outcome else { return Vec::new() };
    catalog.queue_definition(*id).and_then(|queue| queue_record(catalog, queue)).into_iter().collect()
}

/// An exchange, if it was declared and survives a restart.
pub(crate) fn exchange_record(catalog: &Catalog, exchange: &ExchangeDefinition) -> Option<JournalRecord> {
    let is_predeclared = exchange.is_default() || exchange.name.starts_with("amq.");
    if !exchange.durable || is_predeclared {
        return None;
    }
    let ExchangeDefinition { kind, auto_delete, internal, .. } = *exchange;
    let arguments = exchange.arguments.as_deref().cloned().unwrap_or_default();
    let (vhost, name) = (vhost_name(catalog, exchange.vhost)?, exchange.name.clone());
    let exchange = DurableExchange { kind, auto_delete, internal, arguments };
    Some(JournalRecord::PutExchange { vhost, name, exchange })
}

/// A queue, if it survives a restart.
pub(crate) fn queue_record(catalog: &Catalog, queue: &QueueDefinition) -> Option<JournalRecord> {
    let QueueDefinition { uid, home, auto_delete, .. } = *queue;
    let arguments = queue.arguments.as_deref().cloned().unwrap_or_default();
    let (vhost, name) = (vhost_name(catalog, queue.vhost)?, queue.name.clone());
    let queue = DurableQueue { uid: uid?, home: home.0, auto_delete, arguments };
    Some(JournalRecord::PutQueue { vhost, name, queue })
}

/// A binding that came or went.
struct Binding<'a> {
    vhost: VhostId,
    source: &'a Name,
    destination: &'a Name,
    is_to_queue: bool,
    routing_key: &'a [u8],
    arguments: &'a Table,
}

impl Binding<'_> {
    fn record(&self, executed: &ExecutedDefinition, catalog: &Catalog) -> Vec<JournalRecord> {
        let Some(vhost) = vhost_name(catalog, self.vhost).filter(|_| self.is_durable(catalog)) else {
            return Vec::new();
        };
        let binding = DurableBinding {
            source: self.source.clone(),
            destination: self.destination.clone(),
            is_to_queue: self.is_to_queue,
            routing_key: self.routing_key.into(),
            arguments: sorted_bytes(self.arguments),
        };
        vec![match executed.outcome {
            DefinitionOutcome::Unbound { .. } => JournalRecord::DeleteBinding { vhost, binding },
            _ => JournalRecord::PutBinding { vhost, binding },
        }]
    }

    fn is_durable(&self, catalog: &Catalog) -> bool {
        let of_queue = |name: &Name| {
            let queue = catalog.queue(self.vhost, name.as_bytes()).and_then(|id| catalog.queue_definition(id));
            queue.is_some_and(QueueDefinition::is_durable)
        };
        let of_exchange = |name: &Name| {
            let exchange = catalog.exchange(self.vhost, name.as_bytes()).and_then(|id| catalog.exchange_info(id));
            // One that went with this binding has a record of its own, which takes the binding along.
            exchange.is_some_and(|exchange| exchange.durable)
        };
        let to = if self.is_to_queue { of_queue(self.destination) } else { of_exchange(self.destination) };
        to && of_exchange(self.source)
    }
}

/// The arguments of a binding, in the order in which they are compared.
pub(crate) fn sorted_bytes(arguments: &Table) -> Box<[u8]> {
    let mut entries: Vec<_> = arguments.iter().collect();
    entries.sort_by_key(|&(name, _)| name);
    let sorted: Table = entries.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    sorted.to_bytes().into()
}
