//! The broker and its node as clients read them.

use crate::changes::names::{cluster_name, cluster_tags};
use crate::json_object::{JsonObject, empty, texts};
use crate::live::{BrokerCounts, ListenerFacts};
use crate::queue_view::{message_stats, waiting};
use crate::rated_count::RatedCount;
use crate::source::Source;
use crate::viewer::Viewer;
use definitions::Json;

/// The version of RabbitMQ whose API this is; the AMQP greeting has the same.
pub const RABBITMQ_VERSION: &str = "3.10.8";
/// What RabbitMQ 3.10 runs on, for clients that read it.
pub const ERLANG_VERSION: &str = "25.0";
/// Of the name that the broker goes by.
pub const PRODUCT_NAME: &str = "Harrier";

const EXCHANGE_TYPES: [&str; 7] =
    ["direct", "fanout", "headers", "topic", "x-consistent-hash", "x-delayed-message", "x-federation-upstream"];

/// Counters of RabbitMQ's nodes that mean nothing here, each with its `_details`.
pub const NODE_ZEROS: [&str; 13] = [
    "context_switches",
    "gc_num",
    "gc_bytes_reclaimed",
    "io_seek_count",
    "io_seek_avg_time",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
    "metrics_gc_queue_length_total",
];

/// What RabbitMQ's memory is divided into. What this broker has is put where it fits best.
const MEMORY_ZEROS: [&str; 24] = [
    "connection_other",
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "queue_procs",
    "queue_slave_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "metadata_store",
    "metadata_store_ets",
    "other_ets",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "reserved_unallocated",
];

fn listener(node: &str, of: &ListenerFacts) -> JsonObject {
    JsonObject::new()
        .text("node", node)
        .text("protocol", of.protocol)
        .text("ip_address", &of.ip_address)
        .int("port", of.port)
        .put("socket_opts", empty())
}

fn listeners(source: &dyn Source) -> Json {
    let facts = source.facts();
    Json::List(facts.listeners.iter().map(|of| listener(&facts.node, of).build()).collect())
}

fn contexts(source: &dyn Source) -> Json {
    let facts = source.facts();
    let http = facts.listeners.iter().filter(|of| of.protocol.starts_with("http"));
    let context = |of: &ListenerFacts| {
        JsonObject::new()
            .text("description", "RabbitMQ Management")
            .text("path", "/")
            .text("node", &facts.node)
            .text("ip", &of.ip_address)
            .text("port", &of.port.to_string())
            .text("protocol", of.protocol)
            .flag("ssl", of.protocol.starts_with("https"))
            .text("cowboy_opts", "[]")
            .put("ssl_opts", Json::List(Vec::new()))
            .build()
    };
    Json::List(http.map(context).collect())
}

fn exchange_types() -> Json {
    let kind = |name: &str| {
        JsonObject::new()
            .text("name", name)
            .text("description", "")
            .text("internal_purpose", "")
            .flag("enabled", true)
            .build()
    };
    Json::List(EXCHANGE_TYPES.into_iter().map(kind).collect())
}

/// The overview. What a user without `monitoring` sees of the node is its name.
pub fn overview(source: &dyn Source, sees_others: bool) -> Json {
    let (facts, counts, catalog) = (source.facts(), source.counts(), source.catalog());
    let stats = message_stats(&counts.messages)
        .all_counted([("disk_reads", counts.disk_reads), ("disk_writes", counts.disk_writes)]);
    let objects = JsonObject::new()
        .int("channels", source.channels().len() as u64)
        .int("connections", source.connections().len() as u64)
        .int("consumers", source.consumers().len() as u64)
        .int("exchanges", catalog.exchanges_count() as u64)
        .int("queues", catalog.queues_count() as u64);
    let object = JsonObject::new()
        .text("management_version", RABBITMQ_VERSION)
        .text("rates_mode", "basic")
        .put("sample_retention_policies", retention())
        .put("exchange_types", exchange_types())
        .text("product_version", &facts.product_version)
        .text("product_name", PRODUCT_NAME)
        .text("rabbitmq_version", RABBITMQ_VERSION)
        .text("cluster_name", cluster_name(source))
        .text("erlang_version", ERLANG_VERSION)
        .text("erlang_full_version", &format!("{PRODUCT_NAME} {}", facts.product_version))
        .text("release_series_support_status", "supported")
        .flag("disable_stats", false)
        .flag("is_op_policy_updating_enabled", true)
        .flag("enable_queue_totals", false)
        .put("message_stats", stats.build())
        .put("churn_rates", JsonObject::new().all_counted(counts.churn.named()).build())
        .put("queue_totals", waiting(JsonObject::new(), &counts.waiting).build())
        .put("object_totals", objects.build())
        .int("statistics_db_event_queue", 0)
        .text("node", &facts.node)
        .put("cluster_tags", cluster_tags(source))
        .put("node_tags", empty())
        .text("default_queue_type", "classic");
    let (listeners, contexts) = match sees_others {
        true => (listeners(source), contexts(source)),
        false => (Json::List(Vec::new()), Json::List(Vec::new())),
    };
    object.put("listeners", listeners).put("contexts", contexts).build()
}

fn retention() -> Json {
    let seconds = |seconds: &[i64]| Json::List(seconds.iter().map(|second| Json::Int(*second)).collect());
    JsonObject::new()
        .put("global", seconds(&[600, 3_600, 28_800, 86_400]))
        .put("basic", seconds(&[600, 3_600]))
        .put("detailed", seconds(&[600]))
        .build()
}

/// The node.
pub fn node(source: &dyn Source) -> Json {
    let (facts, counts) = (source.facts(), source.counts());
    let (resources, rates) = (counts.resources, counts.resource_rates);
    let application =
        JsonObject::new().text("name", "rabbit").text("description", "RabbitMQ").text("version", RABBITMQ_VERSION);
    let mechanism =
        |name: &str| JsonObject::new().text("name", name).text("description", "").flag("enabled", true).build();
    let object = JsonObject::new()
        .text("name", &facts.node)
        .text("type", "disc")
        .flag("running", true)
        .flag("being_drained", counts.is_draining)
        .text("os_pid", &facts.process_id.to_string())
        .int("uptime", source.now_ms().saturating_sub(facts.started_ms))
        .int("processors", facts.processors)
        .int("run_queue", 0)
        .text("rates_mode", "basic")
        .int("fd_used", resources.descriptors)
        .rate("fd_used", rates.descriptors)
        .int("fd_total", resources.descriptors_max)
        .int("sockets_used", resources.sockets)
        .rate("sockets_used", rates.sockets)
        .int("sockets_total", resources.descriptors_max)
        .int("proc_used", resources.threads)
        .rate("proc_used", rates.threads)
        .int("proc_total", resources.threads_max)
        .int("mem_used", resources.memory_bytes)
        .rate("mem_used", rates.memory_bytes)
        .int("mem_limit", resources.memory_limit_bytes)
        .flag("mem_alarm", counts.has_memory_alarm)
        .text("mem_calculation_strategy", "rss")
        .int("disk_free", resources.disk_free_bytes)
        .rate("disk_free", rates.disk_free_bytes)
        .int("disk_free_limit", resources.disk_free_limit_bytes)
        .flag("disk_free_alarm", counts.has_disk_alarm)
        .put("partitions", Json::List(Vec::new()))
        .put("enabled_plugins", texts(["rabbitmq_management", "rabbitmq_prometheus"]))
        .put("applications", Json::List(vec![application.build()]))
        .put("exchange_types", exchange_types())
        .put("auth_mechanisms", Json::List(["PLAIN", "AMQPLAIN", "EXTERNAL"].map(mechanism).into()))
        .put("contexts", contexts(source))
        .put("listeners", listeners(source))
        .put("config_files", texts(facts.config_files.iter().map(String::as_str)))
        .put("log_files", texts(facts.log_files.iter().map(String::as_str)))
        .text("db_dir", &facts.state_folder)
        .int("net_ticktime", 60)
        .put("cluster_links", Json::List(Vec::new()))
        .put("metrics_gc_queue_length", empty())
        .put("ra_open_file_metrics", empty())
        .all_counted(counts.io.named())
        .all_counted(counts.churn.named());
    // How these change is not known.
    let averages = counts.io.averages_ms().into_iter();
    let object = averages.fold(object, |object, (key, ms)| object.put(key, Json::Float(ms)).rate(key, 0.0));
    let zeros = NODE_ZEROS.into_iter().map(|key| (key, RatedCount::default()));
    object.all_counted(zeros).build()
}

/// `nodes/N/memory`.
pub fn memory(source: &dyn Source) -> Json {
    let resources = source.counts().resources;
    let total = JsonObject::new()
        .int("erlang", resources.memory_bytes)
        .int("rss", resources.memory_bytes)
        .int("allocated", resources.memory_bytes);
    let memory = JsonObject::new()
        .int("binary", resources.message_bytes)
        .int("other_proc", resources.memory_bytes.saturating_sub(resources.message_bytes))
        .int("allocated_unused", 0)
        .zeros(MEMORY_ZEROS)
        .text("strategy", "rss")
        .put("total", total.build());
    JsonObject::new().put("memory", memory.build()).build()
}

/// Who asks.
pub fn whoami(source: &dyn Source, viewer: &Viewer) -> Json {
    let tags = source.catalog().user_at(viewer.user).map(|user| &user.tags[..]).unwrap_or_default();
    JsonObject::new().text("name", &viewer.name).put("tags", texts(tags.iter().map(|tag| &**tag))).build()
}

/// Logins by protocol.
pub fn auth_attempts(counts: &BrokerCounts) -> Json {
    let entries = counts.logins.iter().map(|of| {
        JsonObject::new()
            .text("protocol", of.protocol)
            .int("auth_attempts", of.failed + of.succeeded)
            .int("auth_attempts_failed", of.failed)
            .int("auth_attempts_succeeded", of.succeeded)
            .build()
    });
    Json::List(entries.collect())
}
