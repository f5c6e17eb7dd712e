//! Exchanges, bindings, virtual hosts, users, permissions, policies and limits as clients read them.

use crate::json_object::{JsonObject, empty, texts};
use crate::percent;
use crate::queue_view::{message_stats, policies, waiting};
use crate::source::Source;
use catalog::{
    BindingDestination, BindingView, ExchangeId, Password, Policy, QueueId, User, UserLimits, VhostId, VhostLimits,
};
use definitions::{Json, VhostNote, table_to_json};
use wire::Table;

/// What an exchange's name is in a path: the default exchange has none of its own.
pub const DEFAULT_EXCHANGE: &str = "amq.default";

/// An exchange, unless it is gone.
pub fn exchange(source: &dyn Source, id: ExchangeId) -> Option<Json> {
    let catalog = source.catalog();
    let exchange = catalog.exchange_info(id)?;
    let counts = source.exchange_counts(id);
    let stats =
        JsonObject::new().all_counted([("publish_in", counts.publish_in), ("publish_out", counts.publish_out)]).build();
    let object = JsonObject::new()
        .text("name", &exchange.name)
        .text("vhost", catalog.vhost_name(exchange.vhost))
        .text("type", exchange.kind.name())
        .flag("durable", exchange.durable)
        .flag("auto_delete", exchange.auto_delete)
        .flag("internal", exchange.internal)
        .put("arguments", table_to_json(exchange.arguments.as_deref()))
        .text("user_who_performed_action", "rmq-internal")
        .put("message_stats", stats);
    Some(policies(object, exchange.policy.as_deref()).build())
}

/// The name of a binding in a path, before it is escaped: its routing key, and a hash of its arguments.
pub fn properties_key(routing_key: &[u8], arguments: Option<&Table>) -> String {
    let key = percent::encode(routing_key).replace('~', "%7E");
    match arguments.filter(|arguments| !arguments.is_empty()) {
        None if key.is_empty() => "~".to_owned(),
        None => key,
        Some(arguments) => {
            // FNV-1a: any text that is the same as long as the arguments are.
            let Json::Object(mut fields) = table_to_json(Some(arguments)) else { unreachable!("a table is an object") };
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            let text = Json::Object(fields).line();
            let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            format!("{key}~{:016x}", text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step))
        }
    }
}

/// A binding, unless one of its ends is gone.
pub fn binding(source: &dyn Source, binding: &BindingView<'_>) -> Option<Json> {
    let catalog = source.catalog();
    let exchange = catalog.exchange_info(binding.source)?;
    let (destination, kind) = match binding.destination {
        BindingDestination::Queue(id) => (&catalog.queue_definition(id)?.name, "queue"),
        BindingDestination::Exchange(id) => (&catalog.exchange_info(id)?.name, "exchange"),
    };
    let object = JsonObject::new()
        .text("source", &exchange.name)
        .text("vhost", catalog.vhost_name(exchange.vhost))
        .text("destination", destination)
        .text("destination_type", kind)
        .text("routing_key", &String::from_utf8_lossy(binding.routing_key))
        .put("arguments", table_to_json(binding.arguments))
        .text("properties_key", &properties_key(binding.routing_key, binding.arguments));
    Some(object.build())
}

/// The binding that each queue has to the default exchange.
pub fn default_binding(source: &dyn Source, id: QueueId) -> Option<Json> {
    let catalog = source.catalog();
    let queue = catalog.queue_definition(id)?;
    let object = JsonObject::new()
        .text("source", "")
        .text("vhost", catalog.vhost_name(queue.vhost))
        .text("destination", &queue.name)
        .text("destination_type", "queue")
        .text("routing_key", &queue.name)
        .put("arguments", empty())
        .text("properties_key", &properties_key(queue.name.as_bytes(), None));
    Some(object.build())
}

/// A virtual host.
pub fn vhost(source: &dyn Source, id: VhostId) -> Json {
    let counts = source.vhost_counts(id);
    let name = source.catalog().vhost_name(id);
    let note = |note, default: Json| source.kept().vhost_note(name, note).cloned().unwrap_or(default);
    let description = note(VhostNote::Description, Json::text(""));
    let tags = note(VhostNote::Tags, Json::List(Vec::new()));
    let queue_type = note(VhostNote::DefaultQueueType, Json::text("classic"));
    let own = if let Json::Object(fields) = note(VhostNote::Metadata, empty()) { fields } else { Vec::new() };
    let is_own = |(key, _): &(String, Json)| key != "description" && key != "tags";
    let metadata = JsonObject::new().put("description", description.clone()).put("tags", tags.clone());
    let metadata = own.into_iter().filter(is_own).fold(metadata, |object, (key, value)| object.put(&key, value));
    let object = JsonObject::new()
        .text("name", name)
        .put("description", description)
        .put("tags", tags)
        .put("default_queue_type", queue_type)
        .put("metadata", metadata.build())
        .put("tracing", note(VhostNote::Tracing, Json::Bool(false)))
        .put("protected_from_deletion", note(VhostNote::ProtectedFromDeletion, Json::Bool(false)))
        .put("cluster_state", JsonObject::new().text(&source.facts().node, "running").build())
        .counted("recv_oct", counts.received_bytes)
        .counted("send_oct", counts.sent_bytes)
        .put("message_stats", message_stats(&counts.messages).build());
    waiting(object, &counts.waiting).build()
}

/// A user. A password that is kept as it is is hashed with a salt that the key makes of it, so that the answer stays the same.
pub fn user(user: &User, key: &[u8; 32]) -> Json {
    let hashed = match user.password.secret() {
        Some(secret) => {
            let mark = user.password.mark(secret, key);
            Password::sha256(secret, [mark[0], mark[1], mark[2], mark[3]])
        }
        None => user.password.clone(),
    };
    let algorithm = if hashed.is_slow() { "harrier_argon2" } else { "rabbit_password_hashing_sha256" };
    JsonObject::new()
        .text("name", &user.name)
        .text("password_hash", &hashed.written().unwrap_or_default())
        .text("hashing_algorithm", algorithm)
        .put("tags", texts(user.tags.iter().map(|tag| &**tag)))
        .put("limits", user_limits(&user.limits))
        .build()
}

fn limits<const N: usize>(limits: [(&str, Option<u64>); N]) -> Json {
    let set = limits.into_iter().filter_map(|(key, limit)| Some((key, limit?)));
    set.fold(JsonObject::new(), |object, (key, limit)| object.int(key, limit)).build()
}

/// Those of a user's limits that there are.
pub fn user_limits(of: &UserLimits) -> Json {
    limits([("max-connections", of.connections_max.map(u64::from)), ("max-channels", of.channels_max.map(u64::from))])
}

/// Those of a virtual host's limits that there are.
pub fn vhost_limits(of: &VhostLimits) -> Json {
    limits([
        ("max-connections", of.connections_max.map(u64::from)),
        ("max-queues", of.queues_max.map(u64::from)),
        ("max-queue-bytes", of.queue_bytes_max),
    ])
}

/// The permissions of a user.
pub fn permissions<'a>(source: &'a dyn Source, user: &'a User) -> impl Iterator<Item = (VhostId, Json)> + 'a {
    user.permissions().map(|(vhost, permission)| {
        let object = JsonObject::new()
            .text("user", &user.name)
            .text("vhost", source.catalog().vhost_name(vhost))
            .text("configure", &permission.configure)
            .text("write", &permission.write)
            .text("read", &permission.read);
        (vhost, object.build())
    })
}

/// The topic permissions of a user.
pub fn topic_permissions<'a>(source: &'a dyn Source, user: &'a User) -> impl Iterator<Item = (VhostId, Json)> + 'a {
    user.topic_permissions().map(|(vhost, exchange, permission)| {
        let object = JsonObject::new()
            .text("user", &user.name)
            .text("vhost", source.catalog().vhost_name(vhost))
            .text("exchange", exchange)
            .text("write", &permission.write)
            .text("read", &permission.read);
        (vhost, object.build())
    })
}

/// A policy.
pub fn policy(policy: &Policy) -> Json {
    JsonObject::new()
        .text("vhost", &policy.vhost)
        .text("name", &policy.name)
        .text("pattern", &policy.pattern)
        .text("apply-to", policy.apply_to.name())
        .put("definition", table_to_json(Some(&policy.definition)))
        .put("priority", Json::Int(policy.priority))
        .build()
}

/// A policy of the operator as the parameter that it is to RabbitMQ.
pub fn operator_policy_parameter(policy: &Policy) -> Json {
    let value = JsonObject::new()
        .text("pattern", &policy.pattern)
        .text("apply-to", policy.apply_to.name())
        .put("definition", table_to_json(Some(&policy.definition)))
        .put("priority", Json::Int(policy.priority));
    parameter(&policy.vhost, "operator_policy", &policy.name, value.build())
}

/// The limits of a virtual host as the parameter that they are to RabbitMQ.
pub fn limits_parameter(vhost: &str, of: &VhostLimits) -> Json {
    parameter(vhost, "vhost-limits", "limits", vhost_limits(of))
}

fn parameter(vhost: &str, component: &str, name: &str, value: Json) -> Json {
    JsonObject::new().text("vhost", vhost).text("component", component).text("name", name).put("value", value).build()
}
