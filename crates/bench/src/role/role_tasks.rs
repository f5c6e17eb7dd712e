//! Tasks and commands of the roles, sent to them as lines of JSON.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::queue_feature::QueueFeature;
use crate::role_protocol::LoadSegment;
use crate::tcp::TcpOptions;

/// A publisher's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PublisherTask {
    /// Where the broker is.
    pub url: String,
    /// Exchange to publish to.
    pub exchange: String,
    /// Routing keys, used in turn.
    pub keys: Vec<String>,
    /// Direct exchange that the consumers' replies come through.
    pub reply_exchange: String,
    /// Routing key of the replies, also the name of their queue.
    pub reply_key: String,
    /// Consumers that answer each segment; with none, a call that the broker answers ends it.
    pub consumers: usize,
    /// Most messages without a confirm; zero turns confirms off.
    pub confirm_window: u64,
    /// Write a checksum into each body.
    pub checks: bool,
    /// The messages' priority, if they have one.
    pub priority: Option<u8>,
}

/// A consuming process's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ConsumerTask {
    /// Where the broker is.
    pub url: String,
    /// Exchange that the queues are bound to.
    pub exchange: String,
    /// `direct`, `fanout` or `topic`.
    pub exchange_type: String,
    /// Binding keys of each queue.
    pub binding_keys: Vec<String>,
    /// Queues are named this, a dot, and their number.
    pub queue_prefix: String,
    /// Connections, each with a queue and a consumer of its own.
    pub consumers: usize,
    /// Patterns bound to a queue that nothing reaches.
    pub decoys: Vec<String>,
    /// Acknowledge after so many messages; zero for automatic acknowledgement.
    pub ack_every: u64,
    /// Unacknowledged messages the broker may send ahead; zero for no limit.
    pub prefetch: u16,
    /// Direct exchange that replies go to.
    pub reply_exchange: String,
    /// Routing key of the replies.
    pub reply_key: String,
    /// Check sequence and checksum of each body.
    pub checks: bool,
    /// Bytes that each queue may hold, if it is told.
    pub queue_bytes: Option<u64>,
    /// What the queues do beyond queueing.
    pub feature: QueueFeature,
    /// What answers is no broker but a source: ask it for the messages of each segment.
    pub from_source: bool,
    /// The broker is the leaf of a tree: the exchange is there already, and nobody waits for replies.
    #[serde(default)]
    pub on_leaf: bool,
}

/// A binder's task: bindings that come and go while messages flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BinderTask {
    /// Where the broker is.
    pub url: String,
    /// Exchange that its queue is bound to.
    pub exchange: String,
    /// Its type.
    pub exchange_type: String,
    /// Name of its queue, which no message reaches.
    pub queue: String,
    /// Bindings that are added each second; as many are taken away.
    pub changes_per_s: u64,
}

/// What a consuming process on a leaf of a tree is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LeafCommand {
    /// Say when each consumer has had a probe; it is over when each has had the last one.
    Probe,
    /// Take the messages of a segment.
    #[serde(rename = "Take")]
    Consume(LoadSegment),
}

/// What the publisher at the root of a tree is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RootCommand {
    /// Publish one probe with this number.
    Probe(u64),
    /// Publish the messages of a segment.
    Send(LoadSegment),
}

/// The task of whoever keeps a broker of a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SupervisorTask {
    /// What the broker calls itself; empty for one that is alone.
    pub cluster_name: String,
    /// Which address of this host it listens on, or how to find it.
    pub place: ListenAddress,
    /// The user that comes from elsewhere; without one everything is on one host, and guest does.
    pub login: Option<BrokerLogin>,
    /// What its children reach it over.
    pub transport: TreeTransport,
    /// The exchange of the tree, which is declared.
    pub exchange: String,
    /// Its type.
    pub exchange_type: String,
    /// More options for the broker.
    pub options: Vec<String>,
}

/// Where a broker of a tree listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ListenAddress {
    /// On this address.
    At(IpAddr),
    /// On the address of its host that whoever listens at this one is spoken to from.
    Towards(String),
}

/// A user with a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BrokerLogin {
    pub user: String,
    pub password: String,
}

/// What a broker is reached over by those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TreeTransport {
    Tcp,
    Unix,
    Rdma,
}

impl TreeTransport {
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Unix, Self::Rdma];

    /// What the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Rdma => "rdma",
        }
    }
}

/// Where a broker of a tree listens, in its keeper's words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BrokerAddresses {
    /// For clients.
    pub url: String,
    /// For the brokers below.
    pub source: String,
}

/// A dynamic route that a broker is to pull messages through.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RouteTask {
    /// The broker above.
    pub source: String,
    /// `none` or `confirm`.
    pub ack: String,
    /// Messages under way; zero: without a limit.
    pub credit: u16,
}

/// What the keeper of a broker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorCommand {
    /// Add a route, by the program's own command.
    #[serde(rename = "Join")]
    AddRoute(RouteTask),
    /// Say whether all routes run.
    #[serde(rename = "Look")]
    RouteStatus,
    /// Begin to measure.
    Begin,
    /// End, and say what was used.
    End,
    /// End the broker, and then itself.
    Quit,
}

/// How the routes of a broker stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoutesStatus {
    /// Whether there is one and all run.
    pub run: bool,
    /// If not: what they do instead.
    pub why: String,
}

/// What a binder is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BinderCommand {
    /// Begin to change bindings.
    Begin,
    /// Stop, and say how many changes were made.
    End,
}

/// A raw publisher's or consumer's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RawSocketTask {
    /// Where the relay is.
    pub relay: SocketAddr,
    /// Consumers that answer each segment.
    pub consumers: usize,
    /// Options of its socket.
    pub tcp: TcpOptions,
    /// The relay's certificate, if it speaks TLS.
    pub certificate: Option<PathBuf>,
}

/// The sending end of one hop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SocketBaselineTask {
    /// Where the other end is.
    pub to: SocketAddr,
    /// Bytes of method and header frame of each message, on its way to a broker and from it.
    pub publish_heads_bytes: usize,
    pub deliver_heads_bytes: usize,
    /// Options of its socket.
    pub tcp: TcpOptions,
}

/// An agent's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentTask {
    /// Where the broker listens, on the agent's host.
    pub address: String,
}

/// What an agent is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AgentCommand {
    /// Begin to measure.
    Begin,
    /// End, and say what was used.
    End,
    /// Say how many bytes of memory are held now.
    #[serde(rename = "Held")]
    ResidentBytes,
}

/// The task of a null broker, or of the end of a hop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StandInTask {
    /// The address of this host that it listens on.
    pub address: IpAddr,
}

/// A relay's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RelayTask {
    /// The address of this host that it listens on.
    pub address: IpAddr,
    /// Poll this long before sleeping, in microseconds; zero sleeps at once.
    pub spin_us: u64,
    /// Consumers that each publisher's bytes go to.
    pub consumers: usize,
    /// Options of its sockets.
    pub tcp: TcpOptions,
    /// Its certificate and key, if it speaks TLS.
    pub tls: Option<TlsFiles>,
}

/// A certificate, and its key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TlsFiles {
    /// The certificate, PEM. It vouches for itself.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}
