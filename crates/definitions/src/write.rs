//! A catalog as a definitions file.
//!
//! Enters: a catalog.  Leaves: JSON that RabbitMQ's tools and this crate read.
//! Owns:   the order and the names of the keys.
//! Never:  writes a password as it is: a plain one is hashed first.

use crate::file::{OPERATOR_POLICY, VHOST_LIMITS};
use crate::json_table::table_to_json;
use crate::rules::MAX_QUEUE_BYTES;
use crate::{Json, KeptSections};
use catalog::{BindingDestination, Catalog, Password, QueueType, VhostId, VhostLimits};

/// What a catalog holds, as the text of a file; what was `kept` goes with it. `salt` is drawn for each plain password.
pub fn write(catalog: &Catalog, kept: &KeptSections, version: &str, salt: impl FnMut() -> [u8; 4]) -> String {
    snapshot(catalog, None, kept, version, salt).page()
}

/// The same, not yet a text. Of one virtual host alone, if `only` names it: without users and their permissions, as RabbitMQ's
/// management writes it.
pub fn snapshot(
    catalog: &Catalog,
    only: Option<VhostId>,
    kept: &KeptSections,
    version: &str,
    mut salt: impl FnMut() -> [u8; 4],
) -> Json {
    let vhost_name = |id| Json::text(catalog.vhost_name(id));
    let is_wanted = |id: VhostId| only.is_none_or(|only| only == id);
    let mut users = Vec::new();
    let (mut permissions, mut topics) = (Vec::new(), Vec::new());
    for (_, user) in catalog.users().filter(|_| only.is_none()) {
        let hashed = match user.password.secret() {
            Some(secret) => Password::sha256(secret, salt()),
            None => user.password.clone(),
        };
        let algorithm = if hashed.is_slow() { "argon2" } else { "rabbit_password_hashing_sha256" };
        let tags = user.tags.iter().map(|tag| Json::text(tag)).collect();
        users.push(object([
            ("name", Json::text(&user.name)),
            ("password_hash", Json::Text(hashed.written().unwrap_or_default())),
            ("hashing_algorithm", Json::text(algorithm)),
            ("tags", Json::List(tags)),
            (
                "limits",
                limits([
                    ("max-connections", number(user.limits.connections_max)),
                    ("max-channels", number(user.limits.channels_max)),
                ]),
            ),
        ]));
        for (vhost, name) in catalog.vhosts() {
            let Some(permission) = user.permission(vhost) else { continue };
            permissions.push(object([
                ("user", Json::text(&user.name)),
                ("vhost", Json::text(name)),
                ("configure", Json::text(&permission.configure)),
                ("write", Json::text(&permission.write)),
                ("read", Json::text(&permission.read)),
            ]));
        }
        topics.extend(user.topic_permissions().map(|(vhost, exchange, permission)| {
            object([
                ("user", Json::text(&user.name)),
                ("vhost", vhost_name(vhost)),
                ("exchange", Json::text(exchange)),
                ("write", Json::text(&permission.write)),
                ("read", Json::text(&permission.read)),
            ])
        }));
    }
    let (mut vhosts, mut parameters) = (Vec::new(), Vec::new());
    for (id, name) in catalog.vhosts().filter(|(id, _)| is_wanted(*id)) {
        let VhostLimits { connections_max, queues_max, queue_bytes_max } = catalog.vhost_limits(id);
        // RabbitMQ knows no such limit, and does not look here.
        let own = limits([(MAX_QUEUE_BYTES, queue_bytes_max)]);
        let notes = kept.vhost_notes(name).map(|(key, value)| (key.to_owned(), value.clone()));
        let fields = [("name".to_owned(), Json::text(name)), ("limits".to_owned(), own)];
        vhosts.push(Json::Object(fields.into_iter().chain(notes).collect()));
        if connections_max.is_some() || queues_max.is_some() {
            let value = limits([("max-connections", number(connections_max)), ("max-queues", number(queues_max))]);
            parameters.push(object([
                ("vhost", Json::text(name)),
                ("component", Json::text(VHOST_LIMITS)),
                ("name", Json::text("limits")),
                ("value", value),
            ]));
        }
    }
    let mut policies = Vec::new();
    let is_name_wanted = |name: &str| only.is_none_or(|only| catalog.vhost_name(only) == name);
    for (policy, is_operator) in catalog.policies().filter(|(policy, _)| is_name_wanted(&policy.vhost)) {
        let (vhost, name) = (("vhost", Json::text(&policy.vhost)), ("name", Json::text(&policy.name)));
        let pattern = ("pattern", Json::text(&policy.pattern));
        let apply_to = ("apply-to", Json::text(policy.apply_to.name()));
        let definition = ("definition", table_to_json(Some(&policy.definition)));
        let priority = ("priority", Json::Int(policy.priority));
        if is_operator {
            let value = object([pattern, apply_to, definition, priority]);
            parameters.push(object([vhost, ("component", Json::text(OPERATOR_POLICY)), name, ("value", value)]));
        } else {
            policies.push(object([vhost, name, pattern, apply_to, definition, priority]));
        }
    }
    let mut bindings = Vec::new();
    let mut exchanges = Vec::new();
    for (id, exchange) in catalog.exchanges().filter(|(_, exchange)| is_wanted(exchange.vhost)) {
        // The oldest first: where it matters which came first, it stays so.
        let from: Vec<_> = catalog.bindings_from(id).collect();
        for binding in from.iter().rev() {
            let (destination, kind) = match binding.destination {
                BindingDestination::Exchange(id) => {
                    (catalog.exchange_info(id).map(|exchange| &exchange.name), "exchange")
                }
                BindingDestination::Queue(id) => match catalog.queue_definition(id) {
                    // It goes with its queue, which is not written.
                    Some(queue) if queue.exclusive.is_some() => continue,
                    queue => (queue.map(|queue| &queue.name), "queue"),
                },
            };
            bindings.push(object([
                ("source", Json::text(&exchange.name)),
                ("vhost", vhost_name(exchange.vhost)),
                ("destination", Json::text(destination.map_or("", |name| name))),
                ("destination_type", Json::text(kind)),
                ("routing_key", Json::Text(String::from_utf8_lossy(binding.routing_key).into_owned())),
                ("arguments", table_to_json(binding.arguments)),
            ]));
        }
        if exchange.name.is_empty() || exchange.name.starts_with("amq.") {
            continue;
        }
        exchanges.push(object([
            ("name", Json::text(&exchange.name)),
            ("vhost", vhost_name(exchange.vhost)),
            ("type", Json::Text(exchange.kind.to_string())),
            ("durable", Json::Bool(exchange.durable)),
            ("auto_delete", Json::Bool(exchange.auto_delete)),
            ("internal", Json::Bool(exchange.internal)),
            ("arguments", table_to_json(exchange.arguments.as_deref())),
        ]));
    }
    // Exclusive queues go with their connections, and mean nothing elsewhere.
    let queues = catalog.queues().filter(|(_, queue)| queue.exclusive.is_none() && is_wanted(queue.vhost));
    let queues = queues.map(|(_, queue)| {
        object([
            ("name", Json::text(&queue.name)),
            ("vhost", vhost_name(queue.vhost)),
            ("type", Json::text(QueueType::of(queue.arguments.as_deref()).name())),
            ("durable", Json::Bool(queue.is_durable())),
            ("auto_delete", Json::Bool(queue.auto_delete)),
            ("arguments", table_to_json(queue.arguments.as_deref())),
        ])
    });
    let is_kept = |entry: &&Json| match entry.get("vhost") {
        Some(Json::Text(name)) => is_name_wanted(name),
        _ => true,
    };
    parameters.extend(kept.section("parameters").iter().filter(is_kept).cloned());
    let mut sections = vec![("product_name", Json::text("Harrier")), ("product_version", Json::text(version))];
    if only.is_none() {
        sections.push(("users", Json::List(users)));
    }
    sections.push(("vhosts", Json::List(vhosts)));
    if only.is_none() {
        sections.push(("permissions", Json::List(permissions)));
        sections.push(("topic_permissions", Json::List(topics)));
        sections.push(("global_parameters", Json::List(kept.section("global_parameters").to_vec())));
    }
    sections.extend([
        ("parameters", Json::List(parameters)),
        ("policies", Json::List(policies)),
        ("exchanges", Json::List(exchanges)),
        ("queues", Json::List(queues.collect())),
        ("bindings", Json::List(bindings)),
    ]);
    Json::Object(sections.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn number(limit: Option<u32>) -> Option<u64> {
    limit.map(u64::from)
}

/// Those of the limits that there are.
fn limits<const N: usize>(limits: [(&str, Option<u64>); N]) -> Json {
    let set =
        limits.into_iter().filter_map(|(key, limit)| Some((key.to_owned(), i64::try_from(limit?).unwrap_or(i64::MAX))));
    Json::Object(set.map(|(key, limit)| (key, Json::Int(limit))).collect())
}
