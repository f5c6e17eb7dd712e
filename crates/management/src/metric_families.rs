//! The families of Prometheus metrics, with RabbitMQ's names, one line each.
//!
//! Owns: which number goes by which name, so that RabbitMQ's dashboards show this broker.

use crate::live::{BrokerCounts, LiveChannel, LiveConnection};
use crate::metric_writer::MetricKind::{self, Counter, Gauge};
use crate::queue_totals::QueueTotals;
use catalog::{Catalog, ExchangeId};

/// What the samples of the whole broker are taken from.
#[derive(Clone, Debug, Default)]
pub struct MetricsSnapshot {
    pub counts: BrokerCounts,
    pub connections: u64,
    pub channels: u64,
    pub consumers: u64,
    pub queues: u64,
    pub uptime_s: f64,
}

/// Labels that a sample of the whole broker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerLabels {
    None,
    /// `protocol="amqp091"`.
    Protocol,
    /// Those of RabbitMQ's counts of dead letters.
    QueueType,
}

/// What a sample is made from.
#[derive(Clone, Copy)]
pub enum MetricSource {
    /// One sample of the whole broker.
    Broker(BrokerLabels, fn(&MetricsSnapshot) -> f64),
    /// One for each queue, labelled `vhost` and `queue`.
    Queue(fn(&QueueTotals) -> f64),
    /// One for each connection, labelled `connection`.
    Connection(fn(&LiveConnection) -> f64),
    /// One for each channel, labelled `channel`.
    Channel(fn(&LiveChannel) -> f64),
    /// One for each virtual host, labelled `vhost`: that it runs.
    Vhost,
    /// One for each exchange, labelled `vhost`, `exchange` and `type`.
    Exchange(fn(&Catalog, ExchangeId) -> f64),
}

/// A family of metrics.
#[derive(Clone, Copy)]
pub struct MetricFamily {
    /// Behind `rabbitmq_`, `rabbitmq_detailed_` or `rabbitmq_cluster_`.
    pub name: &'static str,
    pub kind: MetricKind,
    pub help: &'static str,
    /// The `family` of `/metrics/detailed` that it belongs to.
    pub group: &'static str,
    pub source: MetricSource,
}

const fn broker(
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    value: fn(&MetricsSnapshot) -> f64,
) -> MetricFamily {
    MetricFamily { name, kind, help, group: "node_metrics", source: MetricSource::Broker(BrokerLabels::None, value) }
}

const fn coarse(
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    value: fn(&MetricsSnapshot) -> f64,
) -> MetricFamily {
    MetricFamily { group: "node_coarse_metrics", ..broker(name, kind, help, value) }
}

const fn auth(name: &'static str, help: &'static str, value: fn(&MetricsSnapshot) -> f64) -> MetricFamily {
    MetricFamily { group: "auth_attempt_metrics", ..broker(name, Counter, help, value) }
}

const fn churn(name: &'static str, help: &'static str, value: fn(&MetricsSnapshot) -> f64) -> MetricFamily {
    let source = MetricSource::Broker(BrokerLabels::None, value);
    MetricFamily { name, kind: Counter, help, group: "connection_churn_metrics", source }
}

const fn global(
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    value: fn(&MetricsSnapshot) -> f64,
) -> MetricFamily {
    let source = MetricSource::Broker(BrokerLabels::Protocol, value);
    MetricFamily { name, kind, help, group: "node_metrics", source }
}

const fn io(name: &'static str, help: &'static str, value: fn(&MetricsSnapshot) -> f64) -> MetricFamily {
    let source = MetricSource::Broker(BrokerLabels::None, value);
    MetricFamily { name, kind: Counter, help, group: "node_persister_metrics", source }
}

const fn dead(name: &'static str, help: &'static str, value: fn(&MetricsSnapshot) -> f64) -> MetricFamily {
    let source = MetricSource::Broker(BrokerLabels::QueueType, value);
    MetricFamily { name, kind: Counter, help, group: "node_metrics", source }
}

const fn queue(
    name: &'static str,
    kind: MetricKind,
    group: &'static str,
    help: &'static str,
    value: fn(&QueueTotals) -> f64,
) -> MetricFamily {
    MetricFamily { name, kind, help, group, source: MetricSource::Queue(value) }
}

const fn connection(
    name: &'static str,
    kind: MetricKind,
    group: &'static str,
    help: &'static str,
    value: fn(&LiveConnection) -> f64,
) -> MetricFamily {
    MetricFamily { name, kind, help, group, source: MetricSource::Connection(value) }
}

const fn channel(
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    value: fn(&LiveChannel) -> f64,
) -> MetricFamily {
    MetricFamily { name, kind, help, group: "channel_metrics", source: MetricSource::Channel(value) }
}

/// What a channel has done with messages: RabbitMQ tells it of each exchange and each queue that the channel has used, this
/// broker of the channel.
const fn passed(
    name: &'static str,
    group: &'static str,
    help: &'static str,
    value: fn(&LiveChannel) -> f64,
) -> MetricFamily {
    MetricFamily { name, kind: Counter, help, group, source: MetricSource::Channel(value) }
}

/// Of the whole broker: what `/metrics` has.
pub static BROKER_FAMILIES: &[MetricFamily] = &[
    broker("connections", Gauge, "Connections currently open", |of| of.connections as f64),
    broker("channels", Gauge, "Channels currently open", |of| of.channels as f64),
    broker("consumers", Gauge, "Consumers currently connected", |of| of.consumers as f64),
    broker("queues", Gauge, "Queues available", |of| of.queues as f64),
    churn("connections_opened_total", "Total number of connections opened", |of| {
        of.counts.churn.connection_created.total as f64
    }),
    churn("connections_closed_total", "Total number of connections closed", |of| {
        of.counts.churn.connection_closed.total as f64
    }),
    churn("channels_opened_total", "Total number of channels opened", |of| {
        of.counts.churn.channel_created.total as f64
    }),
    churn("channels_closed_total", "Total number of channels closed", |of| of.counts.churn.channel_closed.total as f64),
    churn("queues_declared_total", "Total number of queues declared", |of| of.counts.churn.queue_declared.total as f64),
    churn("queues_created_total", "Total number of queues created", |of| of.counts.churn.queue_created.total as f64),
    churn("queues_deleted_total", "Total number of queues deleted", |of| of.counts.churn.queue_deleted.total as f64),
    coarse("disk_space_available_bytes", Gauge, "Disk space available in bytes", |of| {
        of.counts.resources.disk_free_bytes as f64
    }),
    broker("disk_space_available_limit_bytes", Gauge, "Free disk space low watermark in bytes", |of| {
        of.counts.resources.disk_free_limit_bytes as f64
    }),
    coarse("process_open_fds", Gauge, "Open file descriptors", |of| of.counts.resources.descriptors as f64),
    broker("process_max_fds", Gauge, "Open file descriptors limit", |of| of.counts.resources.descriptors_max as f64),
    coarse("process_open_tcp_sockets", Gauge, "Open TCP sockets", |of| of.counts.resources.sockets as f64),
    broker("process_max_tcp_sockets", Gauge, "Open TCP sockets limit", |of| of.counts.resources.descriptors_max as f64),
    coarse("process_resident_memory_bytes", Gauge, "Memory used in bytes", |of| {
        of.counts.resources.memory_bytes as f64
    }),
    broker("resident_memory_limit_bytes", Gauge, "Memory high watermark in bytes", |of| {
        of.counts.resources.memory_limit_bytes as f64
    }),
    broker("erlang_uptime_seconds", Gauge, "Node uptime", |of| of.uptime_s),
    broker("alarms_memory_used_watermark", Gauge, "is 1 if the memory watermark is in effect", |of| {
        f64::from(u8::from(of.counts.has_memory_alarm))
    }),
    broker("alarms_free_disk_space_watermark", Gauge, "is 1 if the free disk space watermark is in effect", |of| {
        f64::from(u8::from(of.counts.has_disk_alarm))
    }),
    broker("alarms_file_descriptor_limit", Gauge, "is 1 if the file descriptor limit is reached", |of| {
        let resources = of.counts.resources;
        f64::from(u8::from(resources.descriptors_max != 0 && resources.descriptors >= resources.descriptors_max))
    }),
    auth("auth_attempts_total", "Total number of authorization attempts", |of| {
        of.counts.logins.iter().map(|login| login.failed + login.succeeded).sum::<u64>() as f64
    }),
    auth("auth_attempts_succeeded_total", "Total number of successful authentication attempts", |of| {
        of.counts.logins.iter().map(|login| login.succeeded).sum::<u64>() as f64
    }),
    auth("auth_attempts_failed_total", "Total number of failed authentication attempts", |of| {
        of.counts.logins.iter().map(|login| login.failed).sum::<u64>() as f64
    }),
    io("io_read_ops_total", "Total number of I/O read operations", |of| of.counts.io.reads.count.total as f64),
    io("io_read_bytes_total", "Total number of I/O bytes read", |of| of.counts.io.bytes_read.total as f64),
    io("io_read_time_seconds_total", "Total I/O read time", |of| of.counts.io.reads.us.total as f64 / 1e6),
    io("io_write_ops_total", "Total number of I/O write operations", |of| of.counts.io.writes.count.total as f64),
    io("io_write_bytes_total", "Total number of I/O bytes written", |of| of.counts.io.bytes_written.total as f64),
    io("io_write_time_seconds_total", "Total I/O write time", |of| of.counts.io.writes.us.total as f64 / 1e6),
    io("io_sync_ops_total", "Total number of I/O sync operations", |of| of.counts.io.syncs.count.total as f64),
    io("io_sync_time_seconds_total", "Total I/O sync time", |of| of.counts.io.syncs.us.total as f64 / 1e6),
    global("global_messages_received_total", Counter, "Total number of messages received from publishers", |of| {
        of.counts.global.received as f64
    }),
    global(
        "global_messages_received_confirm_total",
        Counter,
        "Total number of messages received from publishers expecting confirmations",
        |of| of.counts.global.received_confirm as f64,
    ),
    global("global_messages_routed_total", Counter, "Total number of messages routed to queues", |of| {
        of.counts.global.routed as f64
    }),
    global("global_messages_confirmed_total", Counter, "Total number of messages confirmed to publishers", |of| {
        of.counts.global.confirmed as f64
    }),
    global(
        "global_messages_unroutable_dropped_total",
        Counter,
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        |of| of.counts.global.unroutable_dropped as f64,
    ),
    global(
        "global_messages_unroutable_returned_total",
        Counter,
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        |of| of.counts.global.unroutable_returned as f64,
    ),
    global("global_messages_acknowledged_total", Counter, "Total number of messages acknowledged by consumers", |of| {
        of.counts.global.acknowledged as f64
    }),
    global("global_messages_delivered_total", Counter, "Total number of messages delivered to consumers", |of| {
        let global = &of.counts.global;
        (global.delivered_consume_auto_ack
            + global.delivered_consume_manual_ack
            + global.delivered_get_auto_ack
            + global.delivered_get_manual_ack) as f64
    }),
    global(
        "global_messages_delivered_consume_auto_ack_total",
        Counter,
        "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
        |of| of.counts.global.delivered_consume_auto_ack as f64,
    ),
    global(
        "global_messages_delivered_consume_manual_ack_total",
        Counter,
        "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
        |of| of.counts.global.delivered_consume_manual_ack as f64,
    ),
    global(
        "global_messages_delivered_get_auto_ack_total",
        Counter,
        "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
        |of| of.counts.global.delivered_get_auto_ack as f64,
    ),
    global(
        "global_messages_delivered_get_manual_ack_total",
        Counter,
        "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
        |of| of.counts.global.delivered_get_manual_ack as f64,
    ),
    global(
        "global_messages_get_empty_total",
        Counter,
        "Total number of times basic.get operations fetched no message",
        |of| of.counts.global.get_empty as f64,
    ),
    global("global_messages_redelivered_total", Counter, "Total number of messages redelivered to consumers", |of| {
        of.counts.global.redelivered as f64
    }),
    global("global_publishers", Gauge, "Publishers currently connected", |of| of.counts.global.publishers as f64),
    global("global_consumers", Gauge, "Consumers currently connected", |of| of.consumers as f64),
    dead(
        "global_messages_dead_lettered_maxlen_total",
        "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx",
        |of| of.counts.global.dead_lettered_maxlen as f64,
    ),
    dead(
        "global_messages_dead_lettered_expired_total",
        "Total number of messages dead-lettered due to message TTL exceeded",
        |of| of.counts.global.dead_lettered_expired as f64,
    ),
    dead(
        "global_messages_dead_lettered_rejected_total",
        "Total number of messages dead-lettered due to basic.reject or basic.nack",
        |of| of.counts.global.dead_lettered_rejected as f64,
    ),
    dead(
        "global_messages_dead_lettered_delivery_limit_total",
        "Total number of messages dead-lettered due to delivery-limit exceeded",
        |of| of.counts.global.dead_lettered_delivery_limit as f64,
    ),
];

/// What is told of definitions, to those who ask for it: the names of all nodes together, of which there is one.
pub static CLUSTER_FAMILIES: &[MetricFamily] = &[
    MetricFamily {
        name: "vhost_status",
        kind: Gauge,
        help: "Whether a given vhost is running",
        group: "vhost_status",
        source: MetricSource::Vhost,
    },
    MetricFamily {
        name: "exchange_name",
        kind: Gauge,
        help: "Enumerates exchanges without any additional info. A cheaper alternative to `exchange_bindings`",
        group: "exchange_names",
        source: MetricSource::Exchange(|_, _| 1.0),
    },
    MetricFamily {
        name: "exchange_bindings",
        kind: Gauge,
        help: "Number of bindings for an exchange",
        group: "exchange_bindings",
        source: MetricSource::Exchange(|catalog, id| catalog.bindings_from(id).count() as f64),
    },
];

const CHANNEL_EXCHANGE: &str = "channel_exchange_metrics";
const CHANNEL_QUEUE: &str = "channel_queue_metrics";

/// Sums over all queues and channels in `/metrics`, and each object's own in `/metrics/per-object`.
pub static OBJECT_FAMILIES: &[MetricFamily] = &[
    queue("queue_messages_ready", Gauge, "queue_coarse_metrics", "Messages ready to be delivered to consumers", |of| {
        of.ready as f64
    }),
    queue(
        "queue_messages_unacked",
        Gauge,
        "queue_coarse_metrics",
        "Messages delivered to consumers but not yet acknowledged",
        |of| of.unacknowledged as f64,
    ),
    queue("queue_messages", Gauge, "queue_coarse_metrics", "Sum of ready and unacknowledged messages", |of| {
        (of.ready + of.unacknowledged) as f64
    }),
    queue("queue_consumers", Gauge, "queue_consumer_count", "Consumers on a queue", |of| of.consumers as f64),
    queue("queue_messages_bytes", Gauge, "queue_metrics", "Size in bytes of ready and unacknowledged messages", |of| {
        (of.ready_bytes + of.unacknowledged_bytes) as f64
    }),
    queue("queue_messages_ready_bytes", Gauge, "queue_metrics", "Size in bytes of ready messages", |of| {
        of.ready_bytes as f64
    }),
    queue(
        "queue_messages_published_total",
        Counter,
        "channel_queue_exchange_metrics",
        "Total number of messages published to queues",
        |of| of.published as f64,
    ),
    queue("queue_process_memory_bytes", Gauge, "queue_metrics", "Memory in bytes used by the queue", |of| {
        of.memory as f64
    }),
    connection(
        "connection_incoming_bytes_total",
        Counter,
        "connection_coarse_metrics",
        "Total number of bytes received on a connection",
        |of| of.received_bytes.total as f64,
    ),
    connection(
        "connection_outgoing_bytes_total",
        Counter,
        "connection_coarse_metrics",
        "Total number of bytes sent on a connection",
        |of| of.sent_bytes.total as f64,
    ),
    connection(
        "connection_pending_packets",
        Gauge,
        "connection_metrics",
        "Number of packets waiting to be sent on a connection",
        |of| f64::from(u8::from(of.pending_bytes > 0)),
    ),
    channel("channel_consumers", Gauge, "Consumers on a channel", |of| of.consumers as f64),
    channel("channel_messages_unacked", Gauge, "Delivered but not yet acknowledged messages", |of| {
        of.unacknowledged as f64
    }),
    channel("channel_messages_unconfirmed", Gauge, "Published but not yet confirmed messages", |of| {
        of.unconfirmed as f64
    }),
    channel("channel_prefetch", Gauge, "Total limit of unacknowledged messages for all consumers on a channel", |of| {
        of.global_prefetch_count as f64
    }),
    channel("channel_messages_uncommitted", Gauge, "Messages received in a transaction but not yet committed", |of| {
        of.uncommitted as f64
    }),
    channel("channel_acks_uncommitted", Gauge, "Message acknowledgements in a transaction not yet committed", |of| {
        of.acks_uncommitted as f64
    }),
    channel("consumer_prefetch", Gauge, "Limit of unacknowledged messages for each consumer", |of| {
        of.prefetch_count as f64
    }),
    passed(
        "channel_messages_published_total",
        CHANNEL_EXCHANGE,
        "Total number of messages published into an exchange on a channel",
        |of| of.messages.publish.total as f64,
    ),
    passed(
        "channel_messages_confirmed_total",
        CHANNEL_EXCHANGE,
        "Total number of messages published into an exchange and confirmed on the channel",
        |of| of.messages.confirm.total as f64,
    ),
    passed(
        "channel_messages_unroutable_returned_total",
        CHANNEL_EXCHANGE,
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        |of| of.messages.return_unroutable.total as f64,
    ),
    passed(
        "channel_messages_unroutable_dropped_total",
        CHANNEL_EXCHANGE,
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        |of| of.messages.drop_unroutable.total as f64,
    ),
    passed(
        "channel_get_ack_total",
        CHANNEL_QUEUE,
        "Total number of messages fetched with basic.get in manual acknowledgement mode",
        |of| of.messages.get.total as f64,
    ),
    passed(
        "channel_get_total",
        CHANNEL_QUEUE,
        "Total number of messages fetched with basic.get in automatic acknowledgement mode",
        |of| of.messages.get_no_ack.total as f64,
    ),
    passed(
        "channel_messages_delivered_ack_total",
        CHANNEL_QUEUE,
        "Total number of messages delivered to consumers in manual acknowledgement mode",
        |of| of.messages.deliver.total as f64,
    ),
    passed(
        "channel_messages_delivered_total",
        CHANNEL_QUEUE,
        "Total number of messages delivered to consumers in automatic acknowledgement mode",
        |of| of.messages.deliver_no_ack.total as f64,
    ),
    passed(
        "channel_messages_redelivered_total",
        CHANNEL_QUEUE,
        "Total number of messages redelivered to consumers",
        |of| of.messages.redeliver.total as f64,
    ),
    passed("channel_messages_acked_total", CHANNEL_QUEUE, "Total number of messages acknowledged by consumers", |of| {
        of.messages.ack.total as f64
    }),
    passed(
        "channel_get_empty_total",
        CHANNEL_QUEUE,
        "Total number of times basic.get operations fetched no message",
        |of| of.messages.get_empty.total as f64,
    ),
    connection(
        "connection_incoming_packets_total",
        Counter,
        "connection_metrics",
        "Total number of packets received on a connection",
        |of| of.received_packets as f64,
    ),
    connection(
        "connection_outgoing_packets_total",
        Counter,
        "connection_metrics",
        "Total number of packets sent on a connection",
        |of| of.sent_packets as f64,
    ),
    connection("connection_channels", Gauge, "connection_metrics", "Channels on a connection", |of| {
        f64::from(of.channels)
    }),
];
