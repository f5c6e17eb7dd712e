//! The broker's settings: the one declaration, and the configuration made from it.
//!
//! Enters: checked values.  Leaves: a [`BrokerConfig`] with a typed field for each.
//! Owns:   every name, range, default and sentence of help.

use crate::accounts::{PermissionConfig, TopicPermissionConfig, UserConfig, VhostConfig};
use crate::field::{
    ClientCertificates, IdleProcessors, LogFormat, LogLevel, LoginFrom, MemoryLimit, RdmaPoll, RdmaToken, SanType,
    SettingField, StoreSync, TlsVersion,
};
use crate::limits::{
    CONSUMER_TIMEOUT_MS_MAX, DISK_FREE_LIMIT_LEAST_DEFAULT, DISK_FREE_LIMIT_MOST, FRAME_BYTES_LEAST, FRAME_BYTES_MOST,
    MESSAGE_BYTES_MOST, RDMA_CREDITS_LEAST, RDMA_CREDITS_MOST, RDMA_RECEIVE_BUFFER_BYTES_LEAST,
    RDMA_RECEIVE_BUFFER_BYTES_MOST, SEGMENT_BYTES_LEAST, SEGMENT_BYTES_MOST, SHARDS_MAX, SPIN_US_MAX,
    STORE_GROUP_US_MAX, STORE_SCRUB_INTERVAL_S_MAX, STORE_SCRUB_RATE_LEAST, STORE_SCRUB_RATE_MOST, STORE_SYNC_US_LEAST,
    STORE_SYNC_US_MOST, TIME_S_MAX,
};
use crate::machine::Machine;
use crate::origin::{ConfigError, ConfigFault, Origin};
use crate::policies::PolicyConfig;
use crate::setting::{Setting, SettingKind, SettingValue};
use std::path::Path;
use std::sync::Arc;

/// The word for no state folder.
const NO_FOLDER: &str = "none";

macro_rules! settings {
    ($($section:literal { $(
        $(#[doc = $help:literal])+
        $name:ident: $type:ty = $default:literal, $kind:expr;
    )+ })+) => {
        /// All settings of a broker. Each field is a setting of that name; what it means is in `docs/configuration.md`.
        #[allow(rustdoc::broken_intra_doc_links, reason = "the help is plain text: [::1] is an address")]
        #[derive(Clone, Debug)]
        pub struct BrokerConfig {
            $($( $(#[doc = $help])+ pub $name: $type, )+)+
            /// `[[vhost]]`: virtual hosts; `/` if the file names none.
            pub vhosts: Vec<VhostConfig>,
            /// `[[user]]`: users; `guest` with password `guest` if the file names none.
            pub users: Vec<UserConfig>,
            /// `[[permission]]`: who may do what where; everything for the default user, if the file names neither.
            pub permissions: Vec<PermissionConfig>,
            /// `[[topic_permission]]`: who may use which routing keys.
            pub topic_permissions: Vec<TopicPermissionConfig>,
            /// `[[policy]]`: what holds for many queues or exchanges.
            pub policies: Vec<PolicyConfig>,
            /// `[[operator_policy]]`: the same, merged with the others.
            pub operator_policies: Vec<PolicyConfig>,
            /// The file that was read, if one was.
            pub file: Option<Arc<Path>>,
            /// What is odd but no fault, in sentences for the log.
            pub warnings: Vec<String>,
            pub(crate) values: Vec<(SettingValue, Origin)>,
        }

        /// Every setting, in the order of the help and of the printed configuration.
        pub static SETTINGS: &[Setting] = &[ $($(
            Setting {
                section: $section,
                name: stringify!($name),
                kind: $kind,
                default: $default,
                help: concat!($($help),+),
            },
        )+)+ ];

        // A value in its range fits the type of its field.
        $($( const _: () = assert!($kind.most() <= <$type as SettingField>::MOST); )+)+

        impl BrokerConfig {
            /// From one value a setting, in the order of [`SETTINGS`].
            pub(crate) fn new(values: Vec<(SettingValue, Origin)>) -> Self {
                let mut next = values.iter();
                $($( let $name = <$type as SettingField>::from_value(next.next().map(|(value, _)| value)); )+)+
                BrokerConfig {
                    $($( $name, )+)+
                    vhosts: vec![],
                    users: vec![],
                    permissions: vec![],
                    topic_permissions: vec![],
                    policies: vec![],
                    operator_policies: vec![],
                    file: None,
                    warnings: vec![],
                    values,
                }
            }
        }
    };
}

settings! {
    "Listening" {
        /// Where clients connect: an address with its port (127.0.0.1:5672, [::1]:5672, localhost:5672), the
        /// same with TLS (tls://0.0.0.0:5671; the port may be left out), the address of an RDMA device
        /// (amqp+rdma://10.0.0.1:5672; the port may be left out) or the same with rsockets
        /// (amqp+rsocket://10.0.0.1:5672), or the path of a Unix socket (unix:/run/harrier.sock). Port 0 lets the system choose one, but not for RDMA.
        listen: Vec<String> = "127.0.0.1:5672", SettingKind::List { item: "ADDRESS", least: 1 };
        /// Connections the system holds ready until the broker accepts them.
        backlog: u32 = "1024", SettingKind::number(1, 65535);
        /// TCP congestion control of client connections, such as cubic or bbr; the system's choice if empty.
        tcp_congestion: Option<String> = "", SettingKind::Text;
        /// Whether TCP sends what is small at once. false: it waits until what was sent before has arrived (Nagle),
        /// which makes packets fewer and latencies longer.
        tcp_nodelay: bool = "true", SettingKind::Flag;
        /// Bytes the system holds for sending to one client. 0: it sizes that itself. It may allow less
        /// (net.core.wmem_max), and reports twice as much, its own overhead included.
        send_buffer_bytes: u32 = "0", SettingKind::Bytes { least: 0, most: 1 << 30 };
        /// Bytes the system holds of what one client sent. 0: it sizes that itself. It may allow less
        /// (net.core.rmem_max).
        receive_buffer_bytes: u32 = "0", SettingKind::Bytes { least: 0, most: 1 << 30 };
        /// Client connections at one time; one more is closed at once.
        connections_max: u32 = "65536", SettingKind::number(1, 16_000_000);
        /// The time a client has to log in.
        login_timeout_s: u32 = "10", SettingKind::Number { unit: "seconds", least: 1, most: TIME_S_MAX };
        /// Users that can log in from loopback and Unix sockets only, whether they exist or not.
        loopback_users: Vec<String> = "guest", SettingKind::List { item: "USER", least: 0 };
    }
    "TLS" {
        /// Files of certificates for addresses with TLS, PEM, each with the chain behind it. A client gets the first
        /// that has the host name it asks for, else the first of all. They are read again at SIGHUP.
        tls_certificates: Vec<String> = "", SettingKind::List { item: "FILE", least: 0 };
        /// Files of the certificates' private keys, PEM and not encrypted, in the same order.
        tls_keys: Vec<String> = "", SettingKind::List { item: "FILE", least: 0 };
        /// The least version of TLS that a client may have. The most is 1.3.
        tls_version_min: TlsVersion = "1.2", SettingKind::Choice(&["1.2", "1.3"]);
        /// Whether clients are asked for certificates: none; optional, and one that is shown must be sound; or required.
        /// A client with one may log in by it (SASL EXTERNAL).
        tls_client_certificates: ClientCertificates = "none", SettingKind::Choice(&["none", "optional", "required"]);
        /// A file of the certificates that vouch for those of clients, PEM.
        tls_client_ca: Option<String> = "", SettingKind::Text;
        /// A file of revocation lists (CRLs), PEM: clients whose certificates are in them are refused. With it, each
        /// authority that vouches for a client needs a list, or its clients are refused. It is read again at SIGHUP.
        tls_client_crl: Option<String> = "", SettingKind::Text;
        /// What of a client's certificate is the name of its user, as in RabbitMQ's ssl_cert_login_from: the subject as
        /// text (CN=orders,O=Example), its common name, or an alternative name.
        tls_login_from: LoginFrom = "distinguished_name",
            SettingKind::Choice(&["distinguished_name", "common_name", "subject_alternative_name"]);
        /// Which alternative names count: of hosts, mail, URIs or IP addresses.
        tls_login_san_type: SanType = "dns", SettingKind::Choice(&["dns", "email", "uri", "ip"]);
        /// Which of the alternative names of that type it is, counted from 0.
        tls_login_san_index: u8 = "0", SettingKind::number(0, 255);
    }
    "Management" {
        /// Where the management API is served over HTTP: addresses with their ports, and https:// in front for TLS. It is RabbitMQ's,
        /// for its tools, and asks for a user with a tag of the management. none: nowhere. If the default address cannot be bound, the broker starts without it.
        management_listen: Vec<String> = "127.0.0.1:15672", SettingKind::List { item: "ADDRESS", least: 1 };
        /// Where Prometheus metrics are served over HTTP, without a login: /metrics, /metrics/per-object and
        /// /metrics/detailed. An address of management_listen serves both. none: nowhere. If the default address cannot be bound, the
        /// broker starts without them.
        metrics_listen: Vec<String> = "127.0.0.1:15692", SettingKind::List { item: "ADDRESS", least: 1 };
        /// What stands in front of every path of the API, such as /broker, for proxies that pass a part of their paths on.
        management_path_prefix: Option<String> = "", SettingKind::Text;
        /// Files of certificates for https addresses of the API and of metrics, PEM, each with the chain behind it; without them,
        /// those of tls_certificates. They are read again at SIGHUP.
        management_tls_certificates: Vec<String> = "", SettingKind::List { item: "FILE", least: 0 };
        /// Files of these certificates' private keys, PEM and not encrypted, in the same order.
        management_tls_keys: Vec<String> = "", SettingKind::List { item: "FILE", least: 0 };
        /// Names by which clients of the API may call this host, beside its addresses and localhost; * for any name. Requests to other names
        /// are refused, so that no web page can use a browser's login under a name of its own.
        management_hosts: Vec<String> = "", SettingKind::List { item: "NAME", least: 0 };
    }
    "RDMA" {
        /// Whether a client over RDMA must show a token, which it is given once it has logged in by TCP or TLS. require:
        /// it must; allow: others may come directly as well, and log in over RDMA, where passwords are as readable as
        /// over plain TCP.
        rdma_token: RdmaToken = "require", SettingKind::Choice(&["require", "allow"]);
        /// How a thread that has nothing to do waits while it has connections over RDMA. busy: it never sleeps; adaptive:
        /// it looks a while before it sleeps, as long as that pays; event: it sleeps at once, until the device wakes it.
        rdma_poll: RdmaPoll = "adaptive", SettingKind::Choice(&["busy", "adaptive", "event"]);
        /// Messages that a client may send before it is told that there is room for more. This times the bytes of a
        /// receive buffer is what an idle connection holds.
        rdma_credits: u16 = "16", SettingKind::number(RDMA_CREDITS_LEAST, RDMA_CREDITS_MOST);
        /// Bytes of a receive buffer. Nothing longer is sent as one message, but for bodies that the receiver reads.
        rdma_receive_buffer_bytes: u32 = "4096",
            SettingKind::Bytes { least: RDMA_RECEIVE_BUFFER_BYTES_LEAST, most: RDMA_RECEIVE_BUFFER_BYTES_MOST };
        /// Receive buffers of each thread and address. Connections for whose credits there are none left are refused.
        rdma_receive_buffers: u32 = "8192", SettingKind::number(1, 1 << 24);
        /// Bodies of at least so many bytes are read by their receiver instead of being sent, unless the client's own
        /// threshold is higher.
        rdma_rendezvous_bytes_min: u32 = "16384", SettingKind::Bytes { least: 1, most: 1 << 31 };
        /// Bodies that a client may have offered for reading at one time.
        rdma_rendezvous_max: u16 = "8", SettingKind::number(0, 65535);
        /// The largest frame proposed to clients over RDMA, its 8 bytes of overhead included, if it is more than
        /// frame_bytes_max: a body is read frame by frame, and what a frame costs hardly depends on its size. Only bodies
        /// may use it; methods and headers keep to frame_bytes_max.
        rdma_frame_bytes_max: u32 = "1048584", SettingKind::Bytes { least: FRAME_BYTES_LEAST, most: FRAME_BYTES_MOST };
        /// Bytes of bodies that one client may read at one time.
        rdma_granted_bytes_max: u64 = "33554432", SettingKind::Bytes { least: 1, most: 1 << 40 };
        /// Bytes of bodies that all clients of a thread and address may read at one time. Beyond it bodies are sent.
        rdma_granted_bytes_total_max: u64 = "1073741824", SettingKind::Bytes { least: 1, most: 1 << 40 };
        /// How long a client may take to read a body that it is offered: a consumer that reads nothing for longer loses its connection.
        rdma_fetch_timeout_s: u32 = "1800", SettingKind::Number { unit: "seconds", least: 1, most: TIME_S_MAX };
        /// After so long without a word a client is given up. After a third of it, it is asked for one.
        rdma_silence_s: u32 = "30", SettingKind::Number { unit: "seconds", least: 1, most: TIME_S_MAX };
    }
    "Threads" {
        /// Threads, each with its own connections and queues. 0: one less than there
        /// are cores, and at least one: the system and what else runs here want theirs.
        shards: u16 = "0", SettingKind::number(0, SHARDS_MAX);
        /// Whether a connection moves to the thread that has the queue which it uses, so that its messages do not pass from one thread
        /// to another. It moves when it first consumes from or gets a message of a queue there, or has published some thousand small
        /// messages nearly all of which went there; not while it has consumers or exclusive queues, and not over RDMA.
        connections_follow_queues: bool = "false", SettingKind::Flag;
        /// How long a thread that has nothing to do looks for work before it sleeps, as long as that pays: once waits
        /// are longer it sleeps at once. It lowers latency and costs CPU. 0: not at all.
        spin_us: u32 = "0", SettingKind::Number { unit: "microseconds", least: 0, most: SPIN_US_MAX };
        /// What the machine's processors may do, all of them, when they have nothing to do while messages flow. sleep: what
        /// the system thinks fit; doze: no sleep that takes longer than 2 microseconds to end; poll: they stay awake, which
        /// on a virtual machine takes most from a latency, and a processor's power or its host's time. It needs
        /// /dev/cpu_dma_latency, which usually is root's.
        idle_processors: IdleProcessors = "sleep", SettingKind::Choice(&["sleep", "doze", "poll"]);
        /// The time connections have to end when the broker stops.
        drain_timeout_s: u32 = "10", SettingKind::Number { unit: "seconds", least: 0, most: TIME_S_MAX };
    }
    "What a connection may use" {
        /// The largest frame proposed to clients, its 8 bytes of overhead included.
        frame_bytes_max: u32 = "131072", SettingKind::Bytes { least: FRAME_BYTES_LEAST, most: FRAME_BYTES_MOST };
        /// Channels of a connection, as proposed to clients. 0: as many as the protocol has numbers for.
        channel_max: u16 = "2047", SettingKind::number(0, 65535);
        /// The time between heartbeats proposed to clients. 0: none.
        heartbeat_s: u16 = "60", SettingKind::Number { unit: "seconds", least: 0, most: 65535 };
        /// The largest body of a message; publishing a larger one closes the channel.
        message_bytes_max: u64 = "134217728", SettingKind::Bytes { least: 1, most: MESSAGE_BYTES_MOST };
        /// Bytes that may wait to be sent to one connection. Over it, the connection's consumers take nothing more
        /// until it has read.
        session_output_bytes_max: u32 = "524288", SettingKind::Bytes { least: 4096, most: 1 << 30 };
    }
    "Memory" {
        /// What the broker may hold before it stops reading from publishers: a share of the machine's memory, or
        /// of the control group's if that is less; or bytes.
        memory_limit: MemoryLimit = "40%", SettingKind::Memory;
        /// The share of the memory limit that one queue may hold before its publishers are held back.
        queue_memory_share: u8 = "50%", SettingKind::Percent;
    }
    "Definitions" {
        /// A definitions file to begin with, as RabbitMQ and harrier definitions export write it (JSON): users, virtual
        /// hosts, permissions, policies, limits, exchanges, queues, bindings. Beside it counts what the configuration file has; the
        /// default user is there only if the definitions have no users.
        definitions: Option<String> = "", SettingKind::Text;
        /// Virtual hosts.
        vhosts_max: u32 = "4096", SettingKind::number(1, 1_000_000);
        /// Users.
        users_max: u32 = "100000", SettingKind::number(1, 10_000_000);
        /// Exchanges of all virtual hosts, those that every virtual host begins with included.
        exchanges_max: u32 = "1000000", SettingKind::number(7, 100_000_000);
        /// Queues of all virtual hosts.
        queues_max: u32 = "2000000", SettingKind::number(0, 100_000_000);
        /// Bindings of all virtual hosts, those of the default exchange not counted.
        bindings_max: u32 = "16000000", SettingKind::number(0, 1_000_000_000);
        /// Routing keys whose queues each thread remembers.
        cached_routes_max: u32 = "65536", SettingKind::number(0, 100_000_000);
        /// Bytes of these keys and routes, for each thread.
        cached_route_bytes_max: u64 = "16777216", SettingKind::Bytes { least: 0, most: 1 << 40 };
        /// Names whose permission each thread remembers.
        cached_permissions_max: u32 = "16384", SettingKind::number(0, 100_000_000);
    }
    "Durability" {
        /// The folder in which the broker keeps what outlives it: durable exchanges, queues and bindings, users and policies,
        /// the persistent messages of durable queues, who it is (cluster_name) and its durable links and routes to other brokers,
        /// with their passwords: its files can be read by their owner alone. It is made if it is not there, and belongs to one
        /// broker at a time. none: everything is kept in memory and ends with the broker. If it is empty, a service has
        /// /var/lib/harrier, where a service is a broker that runs as root, or the folder that its systemd unit names with
        /// StateDirectory; any other user has $XDG_STATE_HOME/harrier, or ~/.local/state/harrier without that variable.
        state: Option<String> = "", SettingKind::Text;
        /// What a confirm of a persistent message, and the answer to a commit, wait for. always: the message is on the disk, and
        /// survives a power failure. A time such as 10ms: the message was written, and survives the end of the broker; the disk is
        /// synced so long after a write, so that a power failure or a crash of the system loses what was confirmed in that time
        /// and while the disk was synced. never: nothing; what was confirmed last is lost if the broker is killed, too, up to what
        /// it had not written. Definitions are always on the disk before they are answered.
        store_sync: StoreSync = "always", SettingKind::ChoiceOrTime {
            words: &["always", "never"], least_us: STORE_SYNC_US_LEAST, most_us: STORE_SYNC_US_MOST
        };
        /// How long messages that a confirm waits for are held back, so that one write has more of them. Nothing is lost by it:
        /// confirms come later by as much, and the disk has fewer writes. 0: they are written as soon as the write before is done,
        /// or while publishers send as many again as were confirmed, up to as long after it as it took.
        store_group_us: u64 = "0", SettingKind::Number { unit: "microseconds", least: 0, most: STORE_GROUP_US_MAX };
        /// Bytes of the files that messages are written to. They are written through once, and used again and again.
        segment_bytes: u64 = "67108864", SettingKind::Bytes { least: SEGMENT_BYTES_LEAST, most: SEGMENT_BYTES_MOST };
        /// With less free space than this on the disk of the state folder, publishers are held back until there is more. 0: 1 GiB,
        /// or four segments for each thread if that is more.
        disk_free_limit: u64 = "0", SettingKind::Bytes { least: 0, most: DISK_FREE_LIMIT_MOST };
        /// How often the files that messages were written to are read while the broker runs, to find out whether the disk still
        /// has what it was given. What is damaged is logged. 0: never.
        store_scrub_interval_s: u32 = "604800", SettingKind::Number { unit: "seconds", least: 0, most: STORE_SCRUB_INTERVAL_S_MAX };
        /// How many bytes are read for that in a second, at most. It reads when nothing waits to be written, and after a second in any case.
        store_scrub_rate: u64 = "2097152", SettingKind::Bytes { least: STORE_SCRUB_RATE_LEAST, most: STORE_SCRUB_RATE_MOST };
        /// Whether a broker starts whose files are damaged, without the messages that cannot be read; it logs which they are, and
        /// writes the files anew without them, so that the next start needs no leave. Otherwise it says what is damaged, and does
        /// not start.
        store_lose_damaged: bool = "false", SettingKind::Flag;
    }
    "Federation" {
        /// The name by which other brokers know this one; no two that are joined may have the same. If it is empty, it is the
        /// one kept in the state folder, or else harrier@HOST and six letters by chance: with a folder once and for
        /// all, without one at each start.
        cluster_name: Option<String> = "", SettingKind::Text;
    }
    "Queues" {
        /// How long a delivery may wait for its acknowledgement before its channel is closed (406). 0: for ever.
        consumer_timeout_ms: u64 = "0", SettingKind::Number { unit: "milliseconds", least: 0, most: CONSUMER_TIMEOUT_MS_MAX };
        /// Whether queues declared as quorum or stream are taken for classic ones, with the arguments of those types, whatever else
        /// they are declared to be. Otherwise a quorum queue must be durable and neither exclusive nor auto-delete, and a stream is
        /// refused (406).
        queue_types_as_classic: bool = "false", SettingKind::Flag;
    }
    "Log" {
        /// The least important events that are logged.
        log_level: LogLevel = "info", SettingKind::Choice(&["error", "warn", "info", "debug", "trace"]);
        /// How each event is written to standard error: a line for people, or an object of JSON.
        log_format: LogFormat = "text", SettingKind::Choice(&["text", "json"]);
    }
}

impl BrokerConfig {
    /// The folder of what outlives the broker, if there is one.
    pub fn state_folder(&self) -> Option<&str> {
        self.state.as_deref().filter(|folder| *folder != NO_FOLDER)
    }

    /// The free space on the disk below which publishers are held back, for so many shards.
    pub fn disk_free_limit_bytes(&self, shards: u16) -> u64 {
        match self.disk_free_limit {
            0 => DISK_FREE_LIMIT_LEAST_DEFAULT.max(self.segment_bytes * 4 * u64::from(shards)),
            bytes => bytes,
        }
    }

    /// Where a setting's value came from. Panics if there is no such setting.
    pub fn origin(&self, name: &str) -> &Origin {
        let at = SETTINGS.iter().position(|setting| setting.name == name).expect("a declared setting");
        &self.values[at].1
    }

    /// The settings that have other values in another configuration.
    pub fn settings_changed(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.values.iter().zip(&other.values);
        let changed =
            SETTINGS.iter().zip(pairs).filter(|(_, ((mine, _), (theirs, _)))| mine.to_toml() != theirs.to_toml());
        changed.map(|(setting, _)| setting.name).collect()
    }

    /// An error about a setting that its user finds, told where it was set.
    pub fn fault(&self, name: &str, why: impl Into<String>) -> ConfigError {
        ConfigFault::new(self.origin(name).clone(), name, why).into()
    }

    /// The threads to run.
    pub fn shard_count(&self, machine: &Machine) -> u16 {
        match self.shards {
            0 => u16::try_from(machine.cores.saturating_sub(1).clamp(1, SHARDS_MAX as usize)).unwrap_or(1),
            shards => shards,
        }
    }

    /// The memory limit in bytes.
    ///
    /// # Errors
    /// A share of a machine whose memory is not known.
    pub fn memory_limit_bytes(&self, machine: &Machine) -> Result<u64, ConfigError> {
        match (self.memory_limit, machine.memory_bytes) {
            (MemoryLimit::Bytes(bytes), _) => Ok(bytes),
            (MemoryLimit::Percent(percent), Some(all)) => Ok(all / 100 * u64::from(percent)),
            (MemoryLimit::Percent(_), None) => {
                Err(self.fault("memory_limit", "the machine does not tell its memory; give the limit in bytes"))
            }
        }
    }

    /// What one queue may hold in bytes, of a memory limit in bytes.
    pub fn queue_limit_bytes(&self, memory_limit_bytes: u64) -> u64 {
        memory_limit_bytes / 100 * u64::from(self.queue_memory_share)
    }
}
