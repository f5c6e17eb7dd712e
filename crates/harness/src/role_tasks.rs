//! Tasks and commands of the roles, sent to them as lines of JSON.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::delivery_window::DeliveryWindow;
use crate::queue_feature::QueueFeature;
use crate::role_protocol::LoadSegment;
use crate::tcp::TcpOptions;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublisherTask {
    pub url: String,
    pub exchange: String,
    /// Routing keys, used in turn.
    pub keys: Vec<String>,
    /// Direct exchange for the consumers' replies.
    pub reply_exchange: String,
    /// Routing key of the replies, also the name of the reply queue.
    pub reply_key: String,
    /// Consumers that reply to each segment; without any, a synchronous call to the broker ends the segment.
    pub consumers: usize,
    /// Maximum number of unconfirmed messages; zero turns confirms off.
    pub confirm_window: u64,
    /// Maximum number of messages that the consumer has not received.
    #[serde(default)]
    pub window: DeliveryWindow,
    /// Whether each body carries a checksum.
    pub checks: bool,
    /// Priority of the messages, if any.
    pub priority: Option<u8>,
    /// Messages are persistent.
    pub persistent: bool,
}

/// The task of a consuming process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConsumerTask {
    pub url: String,
    /// Exchange that the queues are bound to.
    pub exchange: String,
    /// `direct`, `fanout` or `topic`.
    pub exchange_type: String,
    /// Binding keys of each queue.
    pub binding_keys: Vec<String>,
    /// Queues are named by this prefix, a dot and a number.
    pub queue_prefix: String,
    /// Number of connections, each with its own queue and consumer.
    pub consumers: usize,
    /// Patterns bound to a queue that no message reaches.
    pub decoys: Vec<String>,
    /// Acknowledge after this many messages; zero means automatic acknowledgement.
    pub ack_every: u64,
    /// Prefetch count; zero means no limit.
    pub prefetch: u16,
    /// Direct exchange for the replies.
    pub reply_exchange: String,
    /// Routing key of the replies.
    pub reply_key: String,
    /// Maximum number of messages that are published and not received: the consumer grants more.
    #[serde(default)]
    pub window: DeliveryWindow,
    /// Whether sequence number and checksum of each body are checked.
    pub checks: bool,
    /// `x-max-length-bytes` of each queue, if any.
    pub queue_bytes: Option<u64>,
    pub feature: QueueFeature,
    /// Queues are durable, and so not exclusive; they go with their consumers.
    pub durable: bool,
    /// The target is a source, not a broker: request the messages of each segment from it.
    pub from_source: bool,
    /// The broker is a leaf of a tree: the exchange exists already, and no replies are sent.
    #[serde(default)]
    pub on_leaf: bool,
}

/// The task of a binder, which adds and removes bindings while messages flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BinderTask {
    pub url: String,
    pub exchange: String,
    pub exchange_type: String,
    /// A queue that no message reaches.
    pub queue: String,
    /// Bindings added per second; as many are removed.
    pub changes_per_s: u64,
}

/// Commands to a consuming process on a leaf of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeafCommand {
    /// Reports when each consumer has received a probe; ends when each has received the last one.
    Probe,
    /// Consume the messages of a segment.
    #[serde(rename = "Take")]
    Consume(LoadSegment),
}

/// Commands to the publisher at the root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootCommand {
    /// Publish one probe with this number.
    Probe(u64),
    /// Publish the messages of a segment.
    Send(LoadSegment),
}

/// The task of the supervisor of a broker in a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SupervisorTask {
    /// The broker's cluster name; empty for a single broker.
    pub cluster_name: String,
    /// The local address to listen on, or how to determine it.
    pub place: ListenAddress,
    /// The user for remote clients; without one, everything is on one host and uses guest.
    pub login: Option<BrokerLogin>,
    /// The transport of connections from its children.
    pub transport: TreeTransport,
    /// The tree's exchange, which is declared.
    pub exchange: String,
    pub exchange_type: String,
    /// Additional options of the broker.
    pub options: Vec<String>,
}

/// The address that a broker of a tree listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListenAddress {
    At(IpAddr),
    /// The local address that is used to reach this address.
    Towards(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerLogin {
    pub user: String,
    pub password: String,
}

/// The transport between a broker and its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeTransport {
    Tcp,
    Unix,
    Rdma,
}

impl TreeTransport {
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Unix, Self::Rdma];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Rdma => "rdma",
        }
    }
}

/// Addresses of a running broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BrokerAddresses {
    /// For clients.
    pub url: String,
    /// For the brokers below.
    pub source: String,
}

/// A dynamic route for a broker that pulls messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RouteTask {
    /// The source broker's URL.
    pub source: String,
    /// `none` or `confirm`.
    pub ack: String,
    /// Messages in flight; zero means no limit.
    pub credit: u16,
}

/// Commands to a broker's supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SupervisorCommand {
    /// Adds a route with `harrier route`.
    #[serde(rename = "Join")]
    AddRoute(RouteTask),
    /// Reports whether all routes are running.
    #[serde(rename = "Look")]
    RouteStatus,
    /// Starts measuring.
    Begin,
    /// Stops measuring and reports the usage.
    End,
    /// Stops the broker, then the supervisor.
    Quit,
}

/// The state of a broker's routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutesStatus {
    /// Whether there is a route and all are running.
    pub run: bool,
    /// If not, the reason.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinderCommand {
    /// Starts changing bindings.
    Begin,
    /// Stops, and reports the number of changes.
    End,
}

/// The task of a raw publisher or consumer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawSocketTask {
    pub relay: SocketAddr,
    /// Consumers that reply to each segment.
    pub consumers: usize,
    /// As of a publisher and a consumer of AMQP.
    #[serde(default)]
    pub window: DeliveryWindow,
    pub tcp: TcpOptions,
    /// The relay's certificate, if it uses TLS.
    pub certificate: Option<PathBuf>,
}

/// The task of the sending side of the socket baseline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SocketBaselineTask {
    /// The receiving side's address.
    pub to: SocketAddr,
    /// Bytes of each message's method and header frames on the way to a broker and from it.
    pub publish_heads_bytes: usize,
    pub deliver_heads_bytes: usize,
    pub tcp: TcpOptions,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentTask {
    /// The broker's address on the agent's host.
    pub address: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentCommand {
    /// Starts measuring.
    Begin,
    /// Stops measuring and reports the usage.
    End,
    /// Reports the current resident memory in bytes.
    #[serde(rename = "Held")]
    ResidentBytes,
}

/// The task of a null broker or of the receiving side of the socket baseline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandInTask {
    /// The local address to listen on.
    pub address: IpAddr,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RelayTask {
    /// The local address to listen on.
    pub address: IpAddr,
    /// Time to poll before sleeping, in microseconds; zero sleeps at once.
    pub spin_us: u64,
    /// Consumers that each publisher's bytes are copied to.
    pub consumers: usize,
    pub tcp: TcpOptions,
    /// Its certificate and key, if it uses TLS.
    pub tls: Option<TlsFiles>,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TlsFiles {
    /// Self-signed.
    pub certificate: PathBuf,
    pub key: PathBuf,
}
