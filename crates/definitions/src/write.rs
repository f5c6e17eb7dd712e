//! A catalog as a definitions file.
//!
//! Enters: a catalog.  Leaves: JSON that RabbitMQ's tools and this crate read.
//! Owns:   the order and the names of the keys.
//! Never:  writes a password as it is: a plain one is hashed first.

use crate::{File, Json};
use catalog::{Catalog, Destination, Password};
use wire::{Table, Value};

/// What a catalog holds, as the text of a file; what `file` has kept goes with it. `salt` is drawn for each plain password.
pub fn write(catalog: &Catalog, file: Option<&File>, version: &str, mut salt: impl FnMut() -> [u8; 4]) -> String {
    let vhost_name = |id| Json::text(catalog.vhost_name(id));
    let mut users = Vec::new();
    let (mut permissions, mut topics) = (Vec::new(), Vec::new());
    for (_, user) in catalog.users() {
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
            ("limits", object([])),
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
    let vhosts = catalog.vhosts().map(|(_, name)| object([("name", Json::text(name))])).collect();
    let mut bindings = Vec::new();
    let mut exchanges = Vec::new();
    for (id, exchange) in catalog.exchanges() {
        for binding in catalog.bindings_from(id) {
            let (destination, kind) = match binding.destination {
                Destination::Exchange(id) => (catalog.exchange_info(id).map(|exchange| &exchange.name), "exchange"),
                Destination::Queue(id) => (catalog.queue_definition(id).map(|queue| &queue.name), "queue"),
            };
            bindings.push(object([
                ("source", Json::text(&exchange.name)),
                ("vhost", vhost_name(exchange.vhost)),
                ("destination", Json::text(destination.map_or("", |name| name))),
                ("destination_type", Json::text(kind)),
                ("routing_key", Json::Text(String::from_utf8_lossy(binding.routing_key).into_owned())),
                ("arguments", arguments(binding.arguments)),
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
            ("arguments", arguments(exchange.arguments.as_deref())),
        ]));
    }
    // Exclusive queues go with their connections, and mean nothing elsewhere.
    let queues = catalog.queues().filter(|(_, queue)| queue.exclusive.is_none()).map(|(_, queue)| {
        object([
            ("name", Json::text(&queue.name)),
            ("vhost", vhost_name(queue.vhost)),
            ("type", Json::text("classic")),
            ("durable", Json::Bool(queue.durable)),
            ("auto_delete", Json::Bool(queue.auto_delete)),
            ("arguments", arguments(queue.arguments.as_deref())),
        ])
    });
    let kept = |section: &str| Json::List(file.map(|file| file.kept(section)).unwrap_or_default());
    let whole = object([
        ("product_name", Json::text("Harrier")),
        ("product_version", Json::text(version)),
        ("users", Json::List(users)),
        ("vhosts", Json::List(vhosts)),
        ("permissions", Json::List(permissions)),
        ("topic_permissions", Json::List(topics)),
        ("parameters", kept("parameters")),
        ("global_parameters", kept("global_parameters")),
        ("policies", kept("policies")),
        ("exchanges", Json::List(exchanges)),
        ("queues", Json::List(queues.collect())),
        ("bindings", Json::List(bindings)),
    ]);
    serde_json::to_string_pretty(&whole).expect("JSON of strings, numbers and lists can be written")
}

fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn arguments(table: Option<&Table>) -> Json {
    let fields = table.into_iter().flat_map(Table::iter);
    Json::Object(
        fields.map(|(key, value)| (String::from_utf8_lossy(key.as_bytes()).into_owned(), argument(value))).collect(),
    )
}

fn argument(value: &Value) -> Json {
    match value {
        Value::Void => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::I8(number) => Json::Int((*number).into()),
        Value::U8(number) => Json::Int((*number).into()),
        Value::I16(number) => Json::Int((*number).into()),
        Value::U16(number) => Json::Int((*number).into()),
        Value::I32(number) => Json::Int((*number).into()),
        Value::U32(number) => Json::Int((*number).into()),
        Value::I64(number) => Json::Int(*number),
        Value::Timestamp(seconds) => Json::Int(i64::try_from(*seconds).unwrap_or(i64::MAX)),
        Value::F32(number) => Json::Float((*number).into()),
        Value::F64(number) => Json::Float(*number),
        Value::Decimal(number) => Json::Float(f64::from(number.value) / 10f64.powi(number.scale.into())),
        Value::LongStr(bytes) | Value::Bytes(bytes) => Json::Text(String::from_utf8_lossy(bytes).into_owned()),
        Value::List(items) => Json::List(items.iter().map(argument).collect()),
        Value::Table(table) => arguments(Some(table)),
    }
}
