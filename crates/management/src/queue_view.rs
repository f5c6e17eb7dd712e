//! A queue as clients read it: what it was declared to be, and its numbers.

use crate::json_object::{JsonObject, empty, iso_time};
use crate::live::{MessageCounts, QueueCounts, WaitingMessages};
use crate::source::Source;
use catalog::{EffectivePolicy, QueueDefinition, QueueId, QueueType, SessionId};
use definitions::{Json, table_to_json};

/// How much of a queue is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueDetail {
    /// `disable_stats=true`: what it was declared to be.
    Declared,
    /// With `enable_queue_totals=true`: also how many messages wait.
    Totals,
    #[default]
    Full,
}

/// The numbers of messages that wait, with their rates.
pub fn waiting(object: JsonObject, waiting: &WaitingMessages) -> JsonObject {
    object
        .int("messages", waiting.total())
        .rate("messages", waiting.ready_rate + waiting.unacknowledged_rate)
        .int("messages_ready", waiting.ready)
        .rate("messages_ready", waiting.ready_rate)
        .int("messages_unacknowledged", waiting.unacknowledged)
        .rate("messages_unacknowledged", waiting.unacknowledged_rate)
}

/// `message_stats`.
pub fn message_stats(counts: &MessageCounts) -> JsonObject {
    JsonObject::new().all_counted(counts.named())
}

/// The policies that an object is under.
pub fn policies(object: JsonObject, policy: Option<&EffectivePolicy>) -> JsonObject {
    object
        .maybe_text("policy", policy.and_then(|policy| policy.policy.as_deref()))
        .maybe_text("operator_policy", policy.and_then(|policy| policy.operator_policy.as_deref()))
        .put("effective_policy_definition", policy.map_or_else(empty, |policy| table_to_json(Some(&policy.definition))))
}

/// The connection that has the queue to itself.
fn owner(source: &dyn Source, session: Option<SessionId>) -> JsonObject {
    let Some(owner) = session.and_then(|session| source.queue_owner(session)) else { return JsonObject::new() };
    let details = JsonObject::new()
        .text("name", &owner.connection)
        .text("peer_host", &owner.peer_host)
        .int("peer_port", owner.peer_port);
    JsonObject::new().put("owner_pid_details", details.build())
}

/// A queue, unless it is gone.
pub fn queue(source: &dyn Source, id: QueueId, detail: QueueDetail) -> Option<Json> {
    let catalog = source.catalog();
    let queue = catalog.queue_definition(id)?;
    let object = JsonObject::new()
        .text("name", &queue.name)
        .text("vhost", catalog.vhost_name(queue.vhost))
        .text("type", QueueType::of(queue.arguments.as_deref()).name())
        .flag("durable", queue.is_durable())
        .flag("auto_delete", queue.auto_delete)
        .flag("exclusive", queue.exclusive.is_some())
        .put("arguments", table_to_json(queue.arguments.as_deref()))
        .text("node", &source.facts().node)
        .with(owner(source, queue.exclusive));
    match detail {
        QueueDetail::Declared => Some(object.build()),
        QueueDetail::Totals => {
            let counts = source.queue_counts(id);
            let waiting = counts.waiting;
            let object = object
                .text("state", state(&counts))
                .maybe_text("policy", queue.policy.as_deref().and_then(|policy| policy.policy.as_deref()))
                .int("messages", waiting.total())
                .int("messages_ready", waiting.ready)
                .int("messages_unacknowledged", waiting.unacknowledged);
            Some(object.build())
        }
        QueueDetail::Full => Some(with_counts(object, source, queue, &source.queue_counts(id)).build()),
    }
}

fn state(counts: &QueueCounts) -> &'static str {
    match (counts.is_closed, counts.idle_since_ms) {
        (true, _) => "down",
        (false, Some(_)) => "idle",
        (false, None) => "running",
    }
}

/// What Erlang would say of a queue's memory: clients demand the keys.
fn garbage_collection() -> Json {
    const KEYS: [&str; 5] = ["fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"];
    KEYS.into_iter().fold(JsonObject::new(), |object, key| object.int(key, 0)).build()
}

fn with_counts(object: JsonObject, source: &dyn Source, queue: &QueueDefinition, counts: &QueueCounts) -> JsonObject {
    let node = &*source.facts().node;
    let object = policies(waiting(object, &counts.waiting), queue.policy.as_deref())
        .text("state", state(counts))
        .int("messages_ram", counts.messages_ram)
        .int("messages_ready_ram", counts.messages_ram.saturating_sub(counts.waiting.unacknowledged))
        .int("messages_unacknowledged_ram", counts.waiting.unacknowledged)
        .int("messages_paged_out", counts.messages_paged_out)
        .int("message_bytes_paged_out", counts.paged_out_bytes)
        .int("messages_persistent", counts.messages_persistent)
        .int("message_bytes", counts.ready_bytes + counts.unacknowledged_bytes)
        .int("message_bytes_ready", counts.ready_bytes)
        .int("message_bytes_unacknowledged", counts.unacknowledged_bytes)
        .int("message_bytes_ram", counts.ram_bytes)
        .int("message_bytes_persistent", counts.persistent_bytes)
        .int("consumers", counts.consumers)
        .int("active_consumers", counts.consumers)
        .put("consumer_utilisation", Json::Float(counts.consumer_capacity))
        .put("consumer_capacity", Json::Float(counts.consumer_capacity))
        .int("memory", counts.memory)
        .int("reductions", 0)
        .rate("reductions", 0.0)
        .maybe_text("exclusive_consumer_tag", counts.exclusive_consumer_tag.as_deref())
        .maybe_text("single_active_consumer_tag", counts.single_active_consumer_tag.as_deref())
        .put("head_message_timestamp", counts.head_message_timestamp.map_or(Json::Null, |at| Json::Int(at as i64)))
        .put("message_stats", message_stats(&counts.messages).build())
        .put("slave_nodes", Json::List(Vec::new()))
        .put("synchronised_slave_nodes", Json::List(Vec::new()))
        .put("recoverable_slaves", Json::List(Vec::new()))
        .text("leader", node)
        .put("members", Json::List(vec![Json::text(node)]))
        .put("online", Json::List(vec![Json::text(node)]))
        .put("garbage_collection", garbage_collection())
        .put("backing_queue_status", empty());
    match counts.idle_since_ms {
        Some(at) => object.text("idle_since", &iso_time(at)),
        None => object,
    }
}
