//! What a program counts and knows beside the definitions: numbers, connections, channels, consumers, the node.
//!
//! Owns: the form in which a source gives them. All numbers are whole but rates, which are a second's.

use crate::io_counts::IoCounts;
use crate::object_sums::ObjectSums;
use crate::rated_count::RatedCount;
use catalog::{QueueId, VhostId};
use definitions::Json;

/// What happened to messages (RabbitMQ's `message_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MessageCounts {
    pub publish: RatedCount,
    pub confirm: RatedCount,
    pub deliver: RatedCount,
    pub deliver_no_ack: RatedCount,
    pub get: RatedCount,
    pub get_no_ack: RatedCount,
    pub get_empty: RatedCount,
    pub redeliver: RatedCount,
    pub ack: RatedCount,
    pub return_unroutable: RatedCount,
    pub drop_unroutable: RatedCount,
}

impl MessageCounts {
    /// With their names, the sum of all deliveries included.
    pub fn named(&self) -> [(&'static str, RatedCount); 12] {
        let parts = [self.deliver, self.deliver_no_ack, self.get, self.get_no_ack];
        let deliver_get = RatedCount {
            total: parts.iter().map(|part| part.total).sum(),
            rate: parts.iter().map(|part| part.rate).sum(),
        };
        [
            ("publish", self.publish),
            ("confirm", self.confirm),
            ("deliver", self.deliver),
            ("deliver_no_ack", self.deliver_no_ack),
            ("get", self.get),
            ("get_no_ack", self.get_no_ack),
            ("get_empty", self.get_empty),
            ("deliver_get", deliver_get),
            ("redeliver", self.redeliver),
            ("ack", self.ack),
            ("return_unroutable", self.return_unroutable),
            ("drop_unroutable", self.drop_unroutable),
        ]
    }
}

/// Messages that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WaitingMessages {
    pub ready: u64,
    pub ready_rate: f64,
    pub unacknowledged: u64,
    pub unacknowledged_rate: f64,
}

impl WaitingMessages {
    pub fn total(&self) -> u64 {
        self.ready + self.unacknowledged
    }
}

/// What a queue's home counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueCounts {
    pub waiting: WaitingMessages,
    /// Of the messages, those in memory, and those that survive a restart.
    pub messages_ram: u64,
    pub messages_persistent: u64,
    /// Of those that wait, those that are on the disk alone, and bytes of their bodies.
    pub messages_paged_out: u64,
    pub paged_out_bytes: u64,
    /// Bytes of bodies.
    pub ready_bytes: u64,
    pub unacknowledged_bytes: u64,
    pub ram_bytes: u64,
    pub persistent_bytes: u64,
    pub consumers: u64,
    /// Bytes that the queue takes with its messages.
    pub memory: u64,
    /// The share of time in which a consumer could have taken a message.
    pub consumer_capacity: f64,
    pub messages: MessageCounts,
    /// Milliseconds since the epoch at which it was last used, if it is not in use now.
    pub idle_since_ms: Option<u64>,
    /// Seconds since the epoch, of the message at the head.
    pub head_message_timestamp: Option<u64>,
    pub exclusive_consumer_tag: Option<String>,
    pub single_active_consumer_tag: Option<String>,
    /// The store cannot read its messages.
    pub is_closed: bool,
}

/// What went into an exchange and out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExchangeCounts {
    pub publish_in: RatedCount,
    pub publish_out: RatedCount,
}

/// The numbers of a virtual host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VhostCounts {
    pub waiting: WaitingMessages,
    pub messages: MessageCounts,
    pub received_bytes: RatedCount,
    pub sent_bytes: RatedCount,
}

/// What came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChurnCounts {
    pub connection_created: RatedCount,
    pub connection_closed: RatedCount,
    pub channel_created: RatedCount,
    pub channel_closed: RatedCount,
    pub queue_declared: RatedCount,
    pub queue_created: RatedCount,
    pub queue_deleted: RatedCount,
}

impl ChurnCounts {
    pub fn named(&self) -> [(&'static str, RatedCount); 7] {
        [
            ("connection_created", self.connection_created),
            ("connection_closed", self.connection_closed),
            ("channel_created", self.channel_created),
            ("channel_closed", self.channel_closed),
            ("queue_declared", self.queue_declared),
            ("queue_created", self.queue_created),
            ("queue_deleted", self.queue_deleted),
        ]
    }
}

/// Logins of one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginCounts {
    /// `amqp091`, `http`.
    pub protocol: &'static str,
    pub failed: u64,
    pub succeeded: u64,
}

impl LoginCounts {
    /// One more.
    pub fn count(&mut self, is_right: bool) {
        let count = if is_right { &mut self.succeeded } else { &mut self.failed };
        *count += 1;
    }
}

/// What the process has and may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeResources {
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    pub disk_free_bytes: u64,
    pub disk_free_limit_bytes: u64,
    pub descriptors: u64,
    pub descriptors_max: u64,
    pub sockets: u64,
    pub threads: u64,
    pub threads_max: u64,
    /// Of the memory, that of messages.
    pub message_bytes: u64,
}

/// How what the process has changes, a second: less is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeResourceRates {
    pub memory_bytes: f64,
    pub disk_free_bytes: f64,
    pub descriptors: f64,
    pub sockets: f64,
    pub threads: f64,
}

/// What RabbitMQ's global counters count, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalCounts {
    pub received: u64,
    /// Of these, on channels with confirms.
    pub received_confirm: u64,
    pub routed: u64,
    pub confirmed: u64,
    pub unroutable_dropped: u64,
    pub unroutable_returned: u64,
    pub acknowledged: u64,
    pub delivered_consume_auto_ack: u64,
    pub delivered_consume_manual_ack: u64,
    pub delivered_get_auto_ack: u64,
    pub delivered_get_manual_ack: u64,
    pub get_empty: u64,
    pub redelivered: u64,
    pub dead_lettered_maxlen: u64,
    pub dead_lettered_expired: u64,
    pub dead_lettered_rejected: u64,
    pub dead_lettered_delivery_limit: u64,
    /// Channels that have published.
    pub publishers: u64,
    /// Bodies of received messages by size: the largest of each class, and how many; then how many are larger, and the bytes of all.
    pub body_sizes: Vec<(u64, u64)>,
    pub larger_bodies: u64,
    pub body_bytes: u64,
}

/// The whole broker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrokerCounts {
    pub waiting: WaitingMessages,
    pub messages: MessageCounts,
    /// Bytes of the bodies of messages that wait.
    pub ready_bytes: u64,
    pub unacknowledged_bytes: u64,
    /// Bytes that all queues take with their messages.
    pub queue_memory_bytes: u64,
    /// Messages that were read back from disks, and that were written to them.
    pub disk_reads: RatedCount,
    pub disk_writes: RatedCount,
    pub io: IoCounts,
    pub sums: ObjectSums,
    pub churn: ChurnCounts,
    pub global: GlobalCounts,
    pub logins: Vec<LoginCounts>,
    pub resources: NodeResources,
    pub resource_rates: NodeResourceRates,
    pub has_memory_alarm: bool,
    pub has_disk_alarm: bool,
    /// The broker ends when its clients have left.
    pub is_draining: bool,
}

/// Where the broker listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerFacts {
    /// `amqp`, `amqp/ssl`, `http`, `http/prometheus`, and with TLS `https`, `https/prometheus`.
    pub protocol: &'static str,
    pub ip_address: String,
    pub port: u16,
    /// Seconds since the epoch at which its certificate expires, if it has one.
    pub certificate_expires_s: Option<u64>,
}

/// What does not change while the broker runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerFacts {
    /// `rabbit@HOST`.
    pub node: String,
    pub cluster_name: String,
    pub product_version: String,
    pub listeners: Vec<ListenerFacts>,
    /// Milliseconds since the epoch.
    pub started_ms: u64,
    pub process_id: u32,
    pub processors: u32,
    pub config_files: Vec<String>,
    pub log_files: Vec<String>,
    pub state_folder: String,
    /// Of the state folder, as long as there is one; for `rabbitmq_identity_info`.
    pub cluster_id: String,
    /// On which queues are spread that are declared here.
    pub shards: u16,
    /// Users who may come from this machine only, once there are such.
    pub loopback_users: Vec<String>,
}

/// An open connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveConnection {
    /// `HOST:PORT -> HOST:PORT`.
    pub name: String,
    pub user: String,
    pub vhost: String,
    /// `running`, `blocked`, `blocking`, `flow`.
    pub state: &'static str,
    pub host: String,
    pub port: u16,
    pub peer_host: String,
    pub peer_port: u16,
    /// `tcp`, `tls`, `unix`, `rdma`.
    pub transport: &'static str,
    pub auth_mechanism: String,
    pub connected_at_ms: u64,
    pub channels: u32,
    pub channel_max: u32,
    pub frame_max: u32,
    pub heartbeat_s: u32,
    pub received_bytes: RatedCount,
    pub sent_bytes: RatedCount,
    pub received_packets: u64,
    pub sent_packets: u64,
    /// Bytes that wait to be sent.
    pub pending_bytes: u64,
    /// Why it does not move, in words, and the queue that it waits for.
    pub hold: Option<&'static str>,
    pub held_by: Option<QueueId>,
    /// How long its commands were held back before, and since when they are now.
    pub held_ms: u64,
    pub held_since_ms: Option<u64>,
    /// What it took of its shard's thread, in microseconds: an estimate from samples.
    pub worked_us: u64,
    /// What TLS has agreed on, over TLS.
    pub tls: Option<LiveTls>,
    pub shard: u32,
    /// Credits and rendezvous by their names, as of when it was last told; none if it is not over RDMA.
    pub rdma: Vec<(&'static str, u64)>,
    /// An object.
    pub client_properties: Option<Json>,
}

/// The TLS of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTls {
    /// `tlsv1.2` or `tlsv1.3`.
    pub protocol: &'static str,
    pub key_exchange: &'static str,
    pub cipher: &'static str,
    pub hash: &'static str,
    /// The certificate that the client has shown.
    pub certificate: Option<LiveCertificate>,
}

/// A client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveCertificate {
    pub subject: String,
    pub issuer: String,
    /// Its first and last second, since 1970.
    pub validity_s: (i64, i64),
}

/// The connection that has an exclusive queue to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueOwner {
    pub connection: String,
    pub peer_host: String,
    pub peer_port: u16,
}

/// An open channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveChannel {
    pub connection: String,
    pub peer_host: String,
    pub peer_port: u16,
    pub number: u16,
    pub user: String,
    pub vhost: String,
    pub consumers: u64,
    pub has_confirms: bool,
    pub is_transactional: bool,
    pub prefetch_count: u64,
    pub global_prefetch_count: u64,
    pub unacknowledged: u64,
    pub unconfirmed: u64,
    pub uncommitted: u64,
    pub acks_uncommitted: u64,
    pub idle_since_ms: Option<u64>,
    pub messages: MessageCounts,
}

impl LiveChannel {
    /// As RabbitMQ names a channel.
    pub fn name(&self) -> String {
        format!("{} ({})", self.connection, self.number)
    }
}

/// A consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveConsumer {
    pub vhost: VhostId,
    pub queue: QueueId,
    pub tag: String,
    pub is_active: bool,
    /// `up`, `single_active`, `waiting`.
    pub activity: &'static str,
    pub needs_ack: bool,
    pub prefetch_count: u64,
    pub is_exclusive: bool,
    /// An object.
    pub arguments: Option<Json>,
    /// Where it consumes.
    pub connection: String,
    pub channel: u16,
    pub peer_host: String,
    pub peer_port: u16,
    pub user: String,
}

/// A link over which messages come from another broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveFederationLink {
    pub id: String,
    /// Messages go from here to the other broker.
    pub is_outgoing: bool,
    /// The transport of the connection: `tcp`, `tls`, `unix`, `rdma`, `rsocket`; empty while there is none.
    pub transport: &'static str,
    pub vhost: String,
    /// Without a login.
    pub uri: String,
    /// `running`, `starting`, `error`.
    pub status: &'static str,
    /// The name of the upstream.
    pub upstream: String,
    /// The exchange here, and the one there; or the queues.
    pub is_of_queue: bool,
    pub exchange: String,
    pub upstream_exchange: String,
    pub local_connection: String,
    pub error: Option<String>,
    /// When it came into its status.
    pub since_ms: u64,
    /// Forwarded since the start, and bytes of their bodies.
    pub messages: u64,
    pub bytes: u64,
    /// Duplicates.
    pub dropped: u64,
    pub unacknowledged: u64,
    /// Messages that wait at the source, as far as it has told.
    pub lag: Option<u64>,
}
