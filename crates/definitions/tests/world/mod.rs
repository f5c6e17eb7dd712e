//! A catalog whose changes are journaled, the definitions that it executes, and what of it is durable.

use catalog::{
    ApplyTo, Catalog, CatalogLimits, ConnectionSlot, Definition, ExchangeKind, Name, Password, Permission, Policy,
    SessionId, ShardId, TopicPermission, UserLimits, VhostId, VhostLimits, default_definitions,
};
use definitions::{CatalogSnapshot, JournalEntryWriter, Json, KeptSections, journal_changes, snapshot};
use proptest::prelude::*;
use std::ops::Range;
use wire::{Table, Value};

const SALT: [u8; 4] = [1, 2, 3, 4];
const EXCHANGES: [&str; 4] = ["x", "y", "z", "amq.topic"];
const QUEUES: [&str; 3] = ["p", "q", "r"];
const VHOSTS: [&str; 3] = ["/", "v", "w"];
const USERS: [&str; 3] = ["guest", "a", "b"];

/// A catalog, and the journal of what it has executed.
pub struct Journaled {
    pub catalog: Catalog,
    pub pieces: Vec<Vec<u8>>,
    snapshot: Option<CatalogSnapshot>,
    queues: u16,
}

impl Journaled {
    /// With the definitions of a new broker, journaled.
    pub fn new() -> Self {
        let catalog = Catalog::new(CatalogLimits::default());
        let mut journaled = Journaled { catalog, pieces: Vec::new(), snapshot: None, queues: 0 };
        default_definitions().into_iter().for_each(|definition| journaled.take(&Step(definition)));
        journaled.pieces.clear();
        journaled.begin_snapshot();
        while !journaled.snapshot_is_complete() {
            journaled.snapshot_step(u32::MAX);
        }
        journaled
    }

    /// Executes a definition to its end.
    pub fn take(&mut self, step: &Step) {
        self.execute(step);
        self.finish();
    }

    /// Executes a definition, which may be left unfinished. What is refused changes nothing.
    pub fn execute(&mut self, Step(definition): &Step) {
        let mut definition = self.located(definition);
        if let Definition::DeclareQueue { home, .. } = &mut definition {
            *home = ShardId(self.queues % 3);
            self.queues += 1;
        }
        let Ok(executed) = self.catalog.execute(&definition) else { return };
        if !executed.changed {
            return;
        }
        let records = journal_changes(&definition, &executed, &self.catalog, || SALT);
        if records.is_empty() {
            return;
        }
        let mut entry = JournalEntryWriter::default();
        records.iter().for_each(|record| entry.push(record));
        entry.finish(|piece| self.pieces.push(piece.to_vec()));
    }

    pub fn finish(&mut self) {
        while self.catalog.has_unfinished() {
            self.execute(&Step(Definition::Finish));
        }
    }

    pub fn begin_snapshot(&mut self) {
        self.snapshot = Some(CatalogSnapshot::default());
    }

    pub fn snapshot_step(&mut self, places: u32) {
        let Some(snapshot) = &mut self.snapshot else { return };
        let mut entry = JournalEntryWriter::default();
        let is_complete = snapshot.step(&mut self.catalog, &mut entry, places, &mut || SALT);
        entry.finish(|piece| self.pieces.push(piece.to_vec()));
        if is_complete {
            self.snapshot = None;
        }
    }

    pub fn snapshot_is_complete(&self) -> bool {
        self.snapshot.is_none()
    }

    /// Definitions of steps have the index of their vhost's name in the place of its id.
    fn located(&self, definition: &Definition) -> Definition {
        let mut definition = definition.clone();
        match &mut definition {
            Definition::DeclareExchange { vhost, .. }
            | Definition::DeleteExchange { vhost, .. }
            | Definition::BindExchange { vhost, .. }
            | Definition::UnbindExchange { vhost, .. }
            | Definition::BindQueue { vhost, .. }
            | Definition::UnbindQueue { vhost, .. }
            | Definition::DeclareQueue { vhost, .. }
            | Definition::DeleteQueue { vhost, .. } => {
                // One that is not there is refused.
                *vhost = self.catalog.vhost_by_name(VHOSTS[vhost.0 as usize]).unwrap_or(VhostId(u32::MAX));
            }
            Definition::RemoveQueue { id } => {
                let queues: Vec<_> = self.catalog.queues().map(|(id, _)| id).collect();
                if !queues.is_empty() {
                    *id = queues[id.index as usize % queues.len()];
                }
            }
            _ => {}
        }
        definition
    }
}

/// What of a catalog survives a restart, as text: what an export says of it, in an order that does not depend on ids, and what
/// an export does not say.
pub fn durable_part(catalog: &Catalog) -> String {
    let Json::Object(sections) = snapshot(catalog, None, &KeptSections::default(), "0", || SALT) else {
        panic!("an export is an object")
    };
    let text = |entry: &Json, key: &str| match entry.get(key) {
        Some(Json::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let is_durable = |vhost: &str, name: &str, kind: &str| {
        let vhost = catalog.vhost_by_name(vhost).expect("there");
        let queue = || Some(catalog.queue_definition(catalog.queue(vhost, name.as_bytes())?)?.is_durable());
        let exchange = || Some(catalog.exchange_info(catalog.exchange(vhost, name.as_bytes())?)?.durable);
        (if kind == "queue" { queue() } else { exchange() }).unwrap_or(false)
    };
    let mut lines = Vec::new();
    for (section, entries) in sections {
        let Json::List(entries) = entries else { continue };
        let mut kept: Vec<&Json> = entries
            .iter()
            .filter(|entry| match &*section {
                "exchanges" | "queues" => entry.get("durable") == Some(&Json::Bool(true)),
                "bindings" => {
                    let vhost = text(entry, "vhost");
                    let destination = (text(entry, "destination"), text(entry, "destination_type"));
                    is_durable(&vhost, &text(entry, "source"), "exchange")
                        && is_durable(&vhost, &destination.0, &destination.1)
                }
                _ => true,
            })
            .collect();
        match &*section {
            // The order of those from one exchange counts.
            "bindings" => kept.sort_by_key(|entry| (text(entry, "vhost"), text(entry, "source"))),
            _ => kept.sort_by_key(|entry| (*entry).clone().page()),
        }
        lines.extend(kept.into_iter().map(|entry| format!("{section}: {}", entry.clone().page())));
    }
    let mut queues: Vec<String> = catalog
        .queues()
        .filter_map(|(_, queue)| {
            let vhost = catalog.vhost_name(queue.vhost);
            Some(format!("{vhost} {}: {} at {}", queue.name, queue.uid?.number(), queue.home.0))
        })
        .collect();
    queues.sort();
    lines.extend(queues);
    let mut users: Vec<String> =
        catalog.users().map(|(_, user)| format!("{}: {}", user.name, user.loopback_only)).collect();
    users.sort();
    lines.extend(users);
    lines.push(format!("next queue: {}", catalog.next_queue_uid().number()));
    lines.join("\n")
}

/// A definition to execute, with the index of a vhost's name in the place of its id.
#[derive(Clone, Debug)]
pub struct Step(pub Definition);

fn name(text: &str) -> Name {
    Name::from(text)
}

fn declare_queue(vhost: u32, queue: &str, durable: bool, exclusive: Option<SessionId>, arguments: Table) -> Step {
    let (server_named, auto_delete) = (false, false);
    let (vhost, name, home) = (VhostId(vhost), name(queue), ShardId(0));
    Step(Definition::DeclareQueue { vhost, name, server_named, durable, exclusive, auto_delete, arguments, home })
}

fn declare_exchange(vhost: u32, exchange: &str, kind: ExchangeKind, durable: bool, auto_delete: bool) -> Step {
    let (vhost, name, internal, arguments) = (VhostId(vhost), name(exchange), false, Table::new());
    Step(Definition::DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments })
}

impl Step {
    pub fn vhost(vhost: &str) -> Step {
        Step(Definition::CreateVhost { name: name(vhost) })
    }

    pub fn queue(queue: &str) -> Step {
        declare_queue(0, queue, true, None, Table::new())
    }

    pub fn transient_queue(queue: &str) -> Step {
        declare_queue(0, queue, false, None, Table::new())
    }

    pub fn delete_queue(queue: &str) -> Step {
        Step(Definition::DeleteQueue { vhost: VhostId(0), name: name(queue), session: None })
    }

    pub fn auto_delete_exchange(exchange: &str) -> Step {
        declare_exchange(0, exchange, ExchangeKind::Fanout, true, true)
    }

    pub fn transient_exchange(exchange: &str) -> Step {
        declare_exchange(0, exchange, ExchangeKind::Fanout, false, false)
    }

    pub fn bind(exchange: &str, queue: &str) -> Step {
        bind_queue(0, exchange, queue, "", Table::new(), true)
    }

    pub fn unbind(exchange: &str, queue: &str) -> Step {
        bind_queue(0, exchange, queue, "", Table::new(), false)
    }

    pub fn queues_max(vhost: &str, queues_max: u32) -> Step {
        let limits = VhostLimits { queues_max: Some(queues_max), ..VhostLimits::default() };
        Step(Definition::SetVhostLimits { vhost: name(vhost), limits })
    }

    pub fn policy(policy: &str) -> Step {
        let definition = Table::new().with("max-length", Value::I64(1)).expect("short");
        let (vhost, name, pattern, apply_to) = (name("/"), name(policy), "".into(), ApplyTo::All);
        let policy = Policy { vhost, name, pattern, apply_to, priority: 0, definition };
        Step(Definition::SetPolicies { policies: [policy].into(), operator_policies: [].into() })
    }

    /// Something of each kind in a vhost, for a user.
    pub fn all_in_vhost(vhost: &str, user: &str) -> Vec<Step> {
        let index = VHOSTS.iter().position(|known| *known == vhost).expect("a known vhost") as u32;
        let (user, exchange, vhost) = (name(user), name("amq.topic"), name(vhost));
        let limits = VhostLimits { queues_max: Some(5), ..VhostLimits::default() };
        let permission = TopicPermission { write: "a".to_owned(), read: "b".to_owned() };
        let (pattern, apply_to, definition) = ("".into(), ApplyTo::All, Table::new());
        let definition = definition.with("max-length", Value::I64(1)).expect("short");
        let policy = Policy { vhost: vhost.clone(), name: name("p"), pattern, apply_to, priority: 0, definition };
        vec![
            Step(Definition::SetPolicies { policies: [policy].into(), operator_policies: [].into() }),
            Step(Definition::SetVhostLimits { vhost: vhost.clone(), limits }),
            Step(Definition::SetPermission { user: user.clone(), vhost: vhost.clone(), permission: Permission::all() }),
            Step(Definition::SetTopicPermission { user, vhost, exchange, permission }),
            declare_exchange(index, "x", ExchangeKind::Fanout, true, false),
            declare_queue(index, "q", true, None, Table::new()),
            bind_queue(index, "x", "q", "", Table::new(), true),
        ]
    }

    pub fn user(user: &str, secret: &str) -> Step {
        let (name, password, tags) = (name(user), Password::plain(secret), vec![name("administrator"), name("t")]);
        Step(Definition::PutUser { name, password, tags, loopback_only: secret.len() == 2 })
    }
}

fn bind_queue(vhost: u32, exchange: &str, queue: &str, key: &str, arguments: Table, binds: bool) -> Step {
    let (vhost, exchange, queue) = (VhostId(vhost), name(exchange), name(queue));
    let (routing_key, session) = (key.as_bytes().into(), None);
    Step(match binds {
        true => Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session },
        false => Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session },
    })
}

fn bind_exchange(vhost: u32, source: &str, destination: &str, key: &str, binds: bool) -> Step {
    let (vhost, source, destination) = (VhostId(vhost), name(source), name(destination));
    let (routing_key, arguments) = (key.as_bytes().into(), Table::new());
    Step(match binds {
        true => Definition::BindExchange { vhost, source, destination, routing_key, arguments },
        false => Definition::UnbindExchange { vhost, source, destination, routing_key, arguments },
    })
}

fn session(serial: u32) -> SessionId {
    SessionId { shard: ShardId(0), slot: ConnectionSlot::new(serial), serial }
}

/// Most is in the first vhost.
fn vhost() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0u32), 1 => Just(1u32), 1 => Just(2u32)]
}

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(names)
}

/// Arguments of a binding, in either order.
fn arguments() -> impl Strategy<Value = Table> {
    let with = |names: &[&str]| {
        let entries = names.iter().map(|name| (*name, Value::I32(name.len() as i32)));
        entries.fold(Table::new(), |table, (name, value)| table.with(name, value).expect("short"))
    };
    prop::sample::select(vec![with(&[]), with(&["b"]), with(&["b", "a"]), with(&["a", "b"])])
}

fn policy() -> impl Strategy<Value = Policy> {
    (0..2usize, one_of(&["p", "q"]), 0..3i64, 0..4u32).prop_map(|(vhost, policy, priority, size)| {
        let definition = Table::new().with("max-length", Value::I64(priority + 1)).expect("short");
        let large = Value::text(&"h".repeat(30_000 * size as usize));
        // RabbitMQ's keys without effect may say anything, at any length.
        let definition = if size > 1 { definition.with("ha-params", large).expect("short") } else { definition };
        let (vhost, name, pattern) = (name(VHOSTS[vhost]), name(policy), "^q".into());
        Policy { vhost, name, pattern, apply_to: ApplyTo::Queues, priority, definition }
    })
}

fn broker_step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(vec![ExchangeKind::Fanout, ExchangeKind::Topic, ExchangeKind::ConsistentHash]);
    let key = || one_of(&["1", "2"]);
    prop_oneof![
        4 => (vhost(), one_of(&EXCHANGES[..3]), kind, prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(vhost, exchange, kind, durable, auto_delete)| {
                declare_exchange(vhost, exchange, kind, durable, auto_delete)
            }),
        4 => (vhost(), one_of(&QUEUES), prop::bool::weighted(0.8), prop::option::weighted(0.2, 0..2u32))
            .prop_map(|(vhost, queue, durable, serial)| {
                let arguments = Table::new().with("x-max-length", Value::I32(9)).expect("short");
                let arguments = if queue == "p" { arguments } else { Table::new() };
                declare_queue(vhost, queue, durable, serial.map(session), arguments)
            }),
        8 => (vhost(), one_of(&EXCHANGES), one_of(&QUEUES), key(), arguments(), prop::bool::weighted(0.7))
            .prop_map(|(vhost, exchange, queue, key, arguments, binds)| {
                bind_queue(vhost, exchange, queue, key, arguments, binds)
            }),
        4 => (vhost(), one_of(&EXCHANGES), one_of(&EXCHANGES), key(), prop::bool::weighted(0.7))
            .prop_map(|(vhost, source, destination, key, binds)| bind_exchange(vhost, source, destination, key, binds)),
        2 => (vhost(), one_of(&EXCHANGES[..3]), any::<bool>()).prop_map(|(vhost, exchange, if_unused)| {
            Step(Definition::DeleteExchange { vhost: VhostId(vhost), name: name(exchange), if_unused })
        }),
        2 => (vhost(), one_of(&QUEUES)).prop_map(|(vhost, queue)| {
            Step(Definition::DeleteQueue { vhost: VhostId(vhost), name: name(queue), session: None })
        }),
        1 => (0..8u32).prop_map(|index| {
            Step(Definition::RemoveQueue { id: catalog::QueueId { index, serial: 0 } })
        }),
        1 => (0..2u32).prop_map(|serial| Step(Definition::SessionGone { session: session(serial) })),
    ]
}

fn operator_step() -> impl Strategy<Value = Step> {
    let vhost_name = || one_of(&VHOSTS).prop_map(name);
    let user = || one_of(&USERS).prop_map(name);
    let pattern = || one_of(&["", ".*", "^a"]).prop_map(str::to_owned);
    prop_oneof![
        4 => vhost_name().prop_map(|name| Step(Definition::CreateVhost { name })),
        1 => vhost_name().prop_map(|name| Step(Definition::DeleteVhost { name })),
        3 => (one_of(&USERS), one_of(&["s", "se", "sec"])).prop_map(|(user, secret)| Step::user(user, secret)),
        1 => user().prop_map(|name| Step(Definition::DeleteUser { name })),
        2 => (user(), prop::option::of(0..4u32)).prop_map(|(user, most)| {
            let limits = UserLimits { connections_max: most, channels_max: Some(7) };
            Step(Definition::SetUserLimits { user, limits })
        }),
        2 => (vhost_name(), prop::option::of(0..4u32), prop::option::of(any::<u64>())).prop_map(|(vhost, most, bytes)| {
            let limits = VhostLimits { connections_max: None, queues_max: most, queue_bytes_max: bytes };
            Step(Definition::SetVhostLimits { vhost, limits })
        }),
        3 => (user(), vhost_name(), pattern(), pattern()).prop_map(|(user, vhost, configure, write)| {
            let permission = Permission { configure, write, read: String::new() };
            Step(Definition::SetPermission { user, vhost, permission })
        }),
        1 => (user(), vhost_name()).prop_map(|(user, vhost)| Step(Definition::ClearPermission { user, vhost })),
        2 => (user(), vhost_name(), pattern(), pattern()).prop_map(|(user, vhost, write, read)| {
            let permission = TopicPermission { write, read };
            Step(Definition::SetTopicPermission { user, vhost, exchange: name("amq.topic"), permission })
        }),
        1 => (user(), vhost_name()).prop_map(|(user, vhost)| {
            Step(Definition::ClearTopicPermission { user, vhost, exchange: name("amq.topic") })
        }),
        2 => (prop::collection::vec(policy(), 0..3), prop::collection::vec(policy(), 0..2)).prop_map(|(policies, own)| {
            // The operator's say nothing but numbers.
            let number_only = |policy: Policy| Policy {
                definition: Table::new().with("max-length", Value::I64(3)).expect("short"),
                ..policy
            };
            let operator_policies = own.into_iter().map(number_only).collect();
            Step(Definition::SetPolicies { policies: policies.into(), operator_policies })
        }),
    ]
}

/// Any definition.
pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![4 => broker_step(), 1 => operator_step()]
}

pub fn steps(count: Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), count)
}
