//! The fields that clients demand, with their types: those that fail on a missing key or another type.

mod support;

use definitions::Json;
use support::TestServer;

/// What a field may be: `s` text, `i` whole number, `f` number with a fraction, `b` boolean, `o` object, `l` list, `n` null.
fn is(value: Option<&Json>, kinds: &str) -> bool {
    let kind = match value {
        None => return false,
        Some(Json::Null) => 'n',
        Some(Json::Bool(_)) => 'b',
        Some(Json::Int(_)) => 'i',
        Some(Json::Float(_)) => 'f',
        Some(Json::Text(_)) => 's',
        Some(Json::List(_)) => 'l',
        Some(Json::Object(_)) => 'o',
    };
    kinds.contains(kind)
}

fn dotted<'a>(value: &'a Json, path: &str) -> Option<&'a Json> {
    path.split('.').try_fold(value, |value, part| value.get(part))
}

/// The rows of an answer: of a list, of a page, or the one object.
fn rows(answer: &Json) -> Vec<&Json> {
    match answer.get("items").unwrap_or(answer) {
        Json::List(rows) => rows.iter().collect(),
        object => vec![object],
    }
}

/// Path, and `field:kinds` for each field.
const DEMANDED: &[(&str, &str)] = &[
    (
        "/api/queues",
        "name:s vhost:s type:s durable:b auto_delete:b exclusive:b arguments:o node:s state:s policy:sn operator_policy:sn \
         effective_policy_definition:o exclusive_consumer_tag:sn single_active_consumer_tag:sn consumers:i \
         active_consumers:i consumer_utilisation:f consumer_capacity:f memory:i head_message_timestamp:in messages:i \
         messages_ready:i messages_unacknowledged:i messages_details.rate:f messages_ready_details.rate:f \
         messages_unacknowledged_details.rate:f messages_ram:i messages_persistent:i message_bytes:i \
         message_bytes_ready:i message_bytes_unacknowledged:i message_bytes_ram:i message_bytes_persistent:i \
         message_stats:o message_stats.publish:i message_stats.publish_details.rate:f message_stats.deliver_get:i \
         message_stats.deliver_get_details.rate:f slave_nodes:l synchronised_slave_nodes:l garbage_collection.fullsweep_after:i \
         garbage_collection.max_heap_size:i garbage_collection.min_bin_vheap_size:i garbage_collection.min_heap_size:i \
         garbage_collection.minor_gcs:i backing_queue_status:o leader:s members:l online:l reductions:i",
    ),
    ("/api/queues?disable_stats=true", "name:s vhost:s type:s durable:b auto_delete:b exclusive:b arguments:o"),
    (
        "/api/queues?disable_stats=true&enable_queue_totals=true",
        "name:s vhost:s type:s durable:b auto_delete:b exclusive:b arguments:o messages:i messages_ready:i \
         messages_unacknowledged:i",
    ),
    ("/api/queues/%2F/orders", "name:s consumer_details:l deliveries:l incoming:l idle_since:s"),
    ("/api/queues?page=1", "name:s vhost:s type:s durable:b auto_delete:b exclusive:b arguments:o messages:i"),
    (
        "/api/connections",
        "name:s node:s protocol:s user:s connected_at:i client_properties:o state:s vhost:s type:s host:s port:i \
         peer_host:s peer_port:i ssl:b ssl_protocol:sn ssl_cipher:sn auth_mechanism:s channels:i channel_max:i \
         frame_max:i timeout:i recv_oct:i recv_cnt:i send_oct:i send_cnt:i send_pend:i recv_oct_details.rate:f \
         send_oct_details.rate:f reductions:i garbage_collection:o user_provided_name:sn transport:s shard:i cpu_us:i held_ms:i",
    ),
    (
        "/api/channels",
        "number:i name:s connection_details.name:s connection_details.peer_host:s connection_details.peer_port:i vhost:s \
         state:s consumer_count:i confirm:b prefetch_count:i messages_unacknowledged:i messages_unconfirmed:i user:s \
         node:s transactional:b global_prefetch_count:i messages_uncommitted:i acks_uncommitted:i message_stats:o",
    ),
    (
        "/api/consumers",
        "consumer_tag:s active:b ack_required:b prefetch_count:i exclusive:b arguments:o consumer_timeout:i queue.name:s \
         queue.vhost:s channel_details.number:i channel_details.name:s channel_details.connection_name:s \
         channel_details.node:s channel_details.peer_host:s channel_details.peer_port:i channel_details.user:s \
         activity_status:s",
    ),
    (
        "/api/nodes",
        "name:s being_drained:b type:s running:b os_pid:s uptime:i processors:i run_queue:i rates_mode:s fd_used:i \
         fd_total:i sockets_used:i sockets_total:i proc_used:i proc_total:i mem_used:i mem_limit:i mem_alarm:b \
         disk_free:i disk_free_limit:i disk_free_alarm:b partitions:l enabled_plugins:l applications:l \
         exchange_types:l auth_mechanisms:l contexts:l listeners:l config_files:l log_files:l db_dir:s net_ticktime:i \
         cluster_links:l metrics_gc_queue_length:o context_switches:i gc_num:i gc_bytes_reclaimed:i io_read_count:i \
         io_read_bytes_details.rate:f io_read_avg_time:f io_write_bytes:i io_write_avg_time_details.rate:f io_sync_count:i \
         io_sync_avg_time:f mnesia_ram_tx_count:i msg_store_read_count:i queue_index_write_count:i \
         connection_created:i connection_closed:i channel_created:i queue_declared:i queue_deleted:i \
         queue_deleted_details.rate:f",
    ),
    (
        "/api/nodes/rabbit@localhost/memory",
        "memory.connection_readers:i memory.connection_writers:i memory.connection_channels:i memory.connection_other:i \
         memory.queue_procs:i memory.queue_slave_procs:i memory.plugins:i memory.other_proc:i memory.metrics:i \
         memory.mgmt_db:i memory.mnesia:i memory.other_ets:i memory.binary:i memory.msg_index:i memory.code:i \
         memory.atom:i memory.other_system:i memory.allocated_unused:i memory.reserved_unallocated:i \
         memory.quorum_queue_procs:i memory.stream_queue_procs:i memory.stream_queue_replica_reader_procs:i \
         memory.stream_queue_coordinator_procs:i memory.quorum_ets:i memory.metadata_store:i \
         memory.metadata_store_ets:i memory.total.erlang:i memory.total.rss:i memory.total.allocated:i \
         memory.strategy:s",
    ),
    (
        "/api/overview",
        "management_version:s rates_mode:s product_version:s product_name:s rabbitmq_version:s cluster_name:s \
         erlang_version:s message_stats:o message_stats.publish:i message_stats.disk_reads:i churn_rates:o \
         churn_rates.connection_created:i churn_rates.queue_deleted_details.rate:f queue_totals:o \
         queue_totals.messages:i queue_totals.messages_ready_details.rate:f object_totals:o object_totals.queues:i \
         object_totals.connections:i object_totals.channels:i object_totals.consumers:i object_totals.exchanges:i \
         statistics_db_event_queue:i node:s listeners:l contexts:l exchange_types:l cluster_tags:o node_tags:o",
    ),
    (
        "/api/exchanges",
        "name:s vhost:s type:s durable:b auto_delete:b internal:b arguments:o message_stats.publish_in:i \
         message_stats.publish_out:i message_stats.publish_in_details.rate:f",
    ),
    ("/api/bindings", "vhost:s source:s destination:s destination_type:s routing_key:s arguments:o properties_key:s"),
    (
        "/api/vhosts",
        "name:s description:s tags:l default_queue_type:s metadata:o tracing:b cluster_state:o messages:i \
         messages_ready:i messages_unacknowledged:i messages_details.rate:f recv_oct:i send_oct_details.rate:f \
         message_stats:o",
    ),
    ("/api/users", "name:s tags:l password_hash:s hashing_algorithm:s limits:o"),
    ("/api/permissions", "user:s vhost:s configure:s write:s read:s"),
    ("/api/topic-permissions", "user:s vhost:s exchange:s write:s read:s"),
    ("/api/policies", "name:s vhost:s pattern:s apply-to:s priority:i definition:o"),
    ("/api/operator-policies", "name:s vhost:s pattern:s apply-to:s priority:i definition:o"),
    ("/api/parameters", "vhost:s component:s name:s value:o"),
    ("/api/global-parameters", "name:s value:so"),
    ("/api/vhost-limits", "vhost:s value.max-queues:i"),
    ("/api/definitions", "rabbit_version:s rabbitmq_version:s users:l vhosts:l permissions:l queues:l bindings:l"),
    ("/api/auth", "enable_uaa:b oauth_enabled:b"),
    ("/api/cluster-name", "name:s"),
];

#[test]
fn each_row_of_each_list_has_what_clients_demand() {
    let server = TestServer::usual();
    for (path, fields) in DEMANDED {
        let answer = server.get("guest", path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let answer = answer.json();
        let rows = rows(&answer);
        assert!(!rows.is_empty(), "{path} has no row to look at");
        for row in rows {
            for field in fields.split_whitespace() {
                let (name, kinds) = field.rsplit_once(':').expect("a field and its kinds");
                assert!(is(dotted(row, name), kinds), "{path}: {name} is {:?}, not {kinds}", dotted(row, name));
            }
        }
    }
}

#[test]
fn a_page_has_its_seven_keys() {
    let server = TestServer::usual();
    for path in ["queues", "exchanges", "connections", "channels", "users", "vhosts", "bindings", "policies"] {
        let page = server.get("guest", &format!("/api/{path}?page=1&page_size=2")).json();
        for key in ["total_count", "item_count", "filtered_count", "page", "page_size", "page_count"] {
            assert!(is(page.get(key), "i"), "{path}: {key}");
        }
        assert!(is(page.get("items"), "l"), "{path}");
    }
}
