//! Metrics: the definition, name, unit and direction of every figure that can be computed from a run.
//!
//! A quantile needs enough samples to support it.

use gauge::LatencyHistogram;

use crate::document::{MeasuredRun, RoleUsage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricDirection {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// A metric of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// Messages published per second.
    PublishedPerS,
    /// Messages delivered per second.
    DeliveredPerS,
    /// Megabytes of bodies delivered per second.
    MbPerS,
    /// Operations per second (`churn`).
    OperationsPerS,
    /// CPU microseconds of the target's processes per operation (`disk`).
    CpuUsPerOperation,
    /// Resident bytes of the target per queued message (`drain`).
    BacklogBytesPerMessage,
    /// Messages in a group of the durable store.
    StoreGroupMessages,
    /// Requests of the durable store a second that waited until they were durable.
    StoreSyncsPerS,
    /// Megabytes a second that the target caused to be written to storage.
    WrittenMbPerS,
    /// Bytes that the target caused to be written to storage, for each message.
    WrittenBytesPerMessage,
    /// Seconds from a broker's start until it accepts connections (`recover`).
    ListeningS,
    /// Seconds from a broker's start until the first delivery (`recover`).
    FirstDeliveryS,
    /// Messages lost, that came more than once, and that were flagged as redelivered (`recover`).
    LostMessages,
    DoubledMessages,
    RedeliveredMessages,
    /// Mean microseconds between published messages.
    UsPerMessage,
    /// Half the mean of a round trip in microseconds: the one-way latency of the OSU benchmarks.
    OneWayMeanUs(String),
    /// Mean of a kind of latency, in microseconds.
    LatencyMeanUs(String),
    /// A quantile (0 to 1) of a kind of latency in microseconds; 1 is the maximum.
    LatencyUs(String, f64),
    /// CPU seconds of a role per million deliveries (operations in `churn`, filled messages in `drain`).
    CpuSPerMillion(MetricRole),
    /// Processors used by a role.
    Cores(MetricRole),
    /// User-space part of that.
    UserCores(MetricRole),
    /// Kernel part of that.
    SystemCores(MetricRole),
    /// Processors used by a role in percent of one, per publisher-consumer pair or consumer, as normalised in the paper.
    CpuPercent(MetricRole),
    /// Context switches of a role per thousand deliveries.
    SwitchesPerThousand(MetricRole),
    /// Page faults of a role per thousand deliveries, minor and major.
    FaultsPerThousand(MetricRole),
    /// Peak resident memory of a role, in MiB.
    ResidentMib(MetricRole),
    /// Run-queue wait of a role in seconds per second.
    RunQueue(MetricRole),
    /// TCP segments in the interval, in both directions.
    Packets,
    /// TCP segments per delivery.
    PacketsPerMessage,
    /// Mean bytes of a TCP segment.
    PacketBytes,
    /// Mean time between TCP segments, in microseconds.
    PacketGapUs,
    /// TCP retransmits per million segments sent.
    RetransmitsPerMillion,
}

/// The processes that a metric is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricRole {
    Broker,
    Publishers,
    Consumers,
}

impl MetricRole {
    pub const ALL: [MetricRole; 3] = [MetricRole::Broker, MetricRole::Publishers, MetricRole::Consumers];

    /// Its name in column headings.
    pub fn name(self) -> &'static str {
        match self {
            MetricRole::Broker => "Broker",
            MetricRole::Publishers => "Publisher",
            MetricRole::Consumers => "Consumer",
        }
    }

    fn key(self) -> &'static str {
        match self {
            MetricRole::Broker => "broker",
            MetricRole::Publishers => "publishers",
            MetricRole::Consumers => "consumers",
        }
    }

    fn of(self, run: &MeasuredRun) -> Option<RoleUsage> {
        match self {
            MetricRole::Broker => run.broker,
            MetricRole::Publishers => run.publishers,
            MetricRole::Consumers => run.consumers,
        }
    }
}

/// A kind of latency in column headings.
fn label(kind: &str) -> String {
    if kind == "round_trip" {
        return "RTT".to_owned();
    }
    let mut name = kind.replace('_', " ");
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

fn percent(quantile: f64) -> f64 {
    (quantile * 1e6).round() / 1e4
}

impl Metric {
    /// Its column heading, with the unit.
    pub fn name(&self) -> String {
        match self {
            Metric::PublishedPerS => "Messages/s".to_owned(),
            Metric::DeliveredPerS => "Delivered/s".to_owned(),
            Metric::MbPerS => "MB/s".to_owned(),
            Metric::OperationsPerS => "Operations/s".to_owned(),
            Metric::CpuUsPerOperation => "CPU us/operation".to_owned(),
            Metric::BacklogBytesPerMessage => "Held bytes/msg".to_owned(),
            Metric::StoreGroupMessages => "Messages/group".to_owned(),
            Metric::StoreSyncsPerS => "Syncs/s".to_owned(),
            Metric::WrittenMbPerS => "Disk MB/s".to_owned(),
            Metric::WrittenBytesPerMessage => "Disk bytes/msg".to_owned(),
            Metric::ListeningS => "Listening (s)".to_owned(),
            Metric::FirstDeliveryS => "First message (s)".to_owned(),
            Metric::LostMessages => "Lost".to_owned(),
            Metric::DoubledMessages => "Doubled".to_owned(),
            Metric::RedeliveredMessages => "Redelivered".to_owned(),
            Metric::UsPerMessage => "us/message".to_owned(),
            Metric::OneWayMeanUs(_) => "Latency (us)".to_owned(),
            Metric::LatencyMeanUs(kind) => format!("{} mean (us)", label(kind)),
            Metric::LatencyUs(kind, quantile) if *quantile >= 1.0 => format!("{} max (us)", label(kind)),
            Metric::LatencyUs(kind, quantile) => format!("{} p{} (us)", label(kind), percent(*quantile)),
            Metric::CpuSPerMillion(role) => format!("{} CPU s/M", role.name()),
            Metric::Cores(role) => format!("{} cores", role.name()),
            Metric::UserCores(role) => format!("{} user", role.name()),
            Metric::SystemCores(role) => format!("{} system", role.name()),
            Metric::CpuPercent(role) => format!("{} CPU %", role.name()),
            Metric::SwitchesPerThousand(role) => format!("{} csw/k", role.name()),
            Metric::FaultsPerThousand(role) => format!("{} faults/k", role.name()),
            Metric::ResidentMib(role) => format!("{} MiB", role.name()),
            Metric::RunQueue(role) => format!("{} runq", role.name()),
            Metric::Packets => "Packets".to_owned(),
            Metric::PacketsPerMessage => "Packets/msg".to_owned(),
            Metric::PacketBytes => "Packet bytes".to_owned(),
            Metric::PacketGapUs => "Packet gap (us)".to_owned(),
            Metric::RetransmitsPerMillion => "Resent/M".to_owned(),
        }
    }

    /// Its key in machine-readable output, with the unit last: `round_trip_p99_us`.
    pub fn key(&self) -> String {
        match self {
            Metric::PublishedPerS => "published_per_s".to_owned(),
            Metric::DeliveredPerS => "delivered_per_s".to_owned(),
            Metric::MbPerS => "mb_per_s".to_owned(),
            Metric::OperationsPerS => "operations_per_s".to_owned(),
            Metric::CpuUsPerOperation => "operation_cpu_us".to_owned(),
            Metric::BacklogBytesPerMessage => "backlog_bytes_per_message".to_owned(),
            Metric::StoreGroupMessages => "store_group_messages".to_owned(),
            Metric::StoreSyncsPerS => "store_syncs_per_s".to_owned(),
            Metric::WrittenMbPerS => "written_mb_per_s".to_owned(),
            Metric::WrittenBytesPerMessage => "written_bytes_per_message".to_owned(),
            Metric::ListeningS => "listening_s".to_owned(),
            Metric::FirstDeliveryS => "first_delivery_s".to_owned(),
            Metric::LostMessages => "lost_messages".to_owned(),
            Metric::DoubledMessages => "doubled_messages".to_owned(),
            Metric::RedeliveredMessages => "redelivered_messages".to_owned(),
            Metric::UsPerMessage => "message_us".to_owned(),
            Metric::OneWayMeanUs(kind) => format!("{kind}_half_mean_us"),
            Metric::LatencyMeanUs(kind) => format!("{kind}_mean_us"),
            Metric::LatencyUs(kind, quantile) if *quantile >= 1.0 => format!("{kind}_max_us"),
            Metric::LatencyUs(kind, quantile) => format!("{kind}_p{}_us", percent(*quantile)),
            Metric::CpuSPerMillion(role) => format!("{}_cpu_s_per_million", role.key()),
            Metric::Cores(role) => format!("{}_cores", role.key()),
            Metric::UserCores(role) => format!("{}_user_cores", role.key()),
            Metric::SystemCores(role) => format!("{}_system_cores", role.key()),
            Metric::CpuPercent(role) => format!("{}_cpu_percent", role.key()),
            Metric::SwitchesPerThousand(role) => format!("{}_switches_per_thousand", role.key()),
            Metric::FaultsPerThousand(role) => format!("{}_faults_per_thousand", role.key()),
            Metric::ResidentMib(role) => format!("{}_resident_mib", role.key()),
            Metric::RunQueue(role) => format!("{}_run_queue", role.key()),
            Metric::Packets => "packets".to_owned(),
            Metric::PacketsPerMessage => "packets_per_message".to_owned(),
            Metric::PacketBytes => "packet_bytes".to_owned(),
            Metric::PacketGapUs => "packet_gap_us".to_owned(),
            Metric::RetransmitsPerMillion => "retransmits_per_million".to_owned(),
        }
    }

    pub fn better(&self) -> MetricDirection {
        match self {
            Metric::PublishedPerS
            | Metric::DeliveredPerS
            | Metric::MbPerS
            | Metric::OperationsPerS
            | Metric::StoreGroupMessages
            | Metric::PacketBytes
            | Metric::PacketGapUs => MetricDirection::Higher,
            _ => MetricDirection::Lower,
        }
    }

    /// Whether it is a maximum.
    pub(crate) fn is_largest(&self) -> bool {
        matches!(self, Metric::LatencyUs(_, quantile) if *quantile >= 1.0)
    }

    /// Its value in a run; `None` if the run lacks it or has too few samples.
    pub fn of(&self, run: &MeasuredRun) -> Option<f64> {
        let per_s = |count: u64| (run.elapsed_s > 0.0).then(|| count as f64 / run.elapsed_s);
        // Without deliveries, the unit of work is what was done instead: operations in `churn`, filled messages in `drain`.
        let done = [run.delivered, run.operations.unwrap_or(0), run.published].into_iter().find(|&count| count > 0);
        let per_delivery = |value: f64| done.map(|count| value / count as f64);
        let latencies = |kind: &str| {
            let mut latencies = LatencyHistogram::default();
            latencies.merge(run.latencies.get(kind)?);
            (latencies.count() > 0).then_some(latencies)
        };
        let share = |seconds: f64| (run.elapsed_s > 0.0).then(|| seconds / run.elapsed_s);
        let cores = |role: MetricRole| {
            let usage = role.of(run)?;
            share(usage.user_s + usage.system_s)
        };
        match self {
            Metric::PublishedPerS => per_s(run.published).filter(|_| run.published > 0),
            Metric::DeliveredPerS => per_s(run.delivered).filter(|_| run.delivered > 0),
            Metric::MbPerS => per_s(run.delivered_bytes).map(|bytes| bytes / 1e6).filter(|_| run.delivered > 0),
            Metric::OperationsPerS => per_s(run.operations?),
            Metric::CpuUsPerOperation => {
                let operations = run.operations.filter(|&count| count > 0)?;
                Some(run.broker?.cpu_s() * 1e6 / operations as f64)
            }
            Metric::BacklogBytesPerMessage => {
                let bytes = run.backlog_bytes?;
                (run.published > 0).then(|| bytes as f64 / run.published as f64)
            }
            Metric::StoreGroupMessages => {
                let store = run.store.filter(|store| store.groups > 0)?;
                Some(store.messages as f64 / store.groups as f64)
            }
            Metric::StoreSyncsPerS => per_s(run.store?.syncs),
            Metric::WrittenMbPerS => per_s(run.broker?.written_bytes?).map(|bytes| bytes / 1e6),
            Metric::WrittenBytesPerMessage => {
                // A message that goes to many is one.
                let messages = [run.published, run.delivered, run.operations.unwrap_or(0)];
                let messages = messages.into_iter().find(|&count| count > 0)?;
                Some(run.broker?.written_bytes? as f64 / messages as f64)
            }
            Metric::ListeningS => Some(run.recovery?.listening_s),
            Metric::FirstDeliveryS => run.recovery?.first_delivery_s,
            Metric::LostMessages => run.recovery.map(|_| run.faults.lost as f64),
            Metric::DoubledMessages => run.recovery.map(|_| run.faults.duplicates as f64),
            Metric::RedeliveredMessages => Some(run.recovery?.redelivered as f64),
            Metric::UsPerMessage => (run.published > 0).then(|| run.elapsed_s * 1e6 / run.published as f64),
            Metric::OneWayMeanUs(kind) => Some(latencies(kind)?.mean_us() / 2.0),
            Metric::LatencyMeanUs(kind) => Some(latencies(kind)?.mean_us()),
            Metric::LatencyUs(kind, quantile) => latencies(kind)?.supported_quantile_us(*quantile),
            Metric::CpuSPerMillion(role) => {
                let usage = role.of(run)?;
                per_delivery((usage.user_s + usage.system_s) * 1e6)
            }
            Metric::Cores(role) => cores(*role),
            Metric::UserCores(role) => share(role.of(run)?.user_s),
            Metric::SystemCores(role) => share(role.of(run)?.system_s),
            Metric::CpuPercent(role) => {
                let processes = f64::from(role.of(run)?.processes.max(1));
                Some(cores(*role)? * 100.0 / processes)
            }
            Metric::SwitchesPerThousand(role) => {
                let usage = role.of(run)?;
                per_delivery((usage.voluntary_switches + usage.involuntary_switches) as f64 * 1e3)
            }
            Metric::ResidentMib(role) => Some(role.of(run)?.resident_bytes as f64 / f64::from(1 << 20)),
            Metric::FaultsPerThousand(role) => {
                let usage = role.of(run)?;
                per_delivery((usage.minor_faults + usage.major_faults) as f64 * 1e3)
            }
            Metric::RunQueue(role) => share(role.of(run)?.run_queue_s),
            Metric::Packets => Some(run.network?.packets as f64),
            Metric::PacketsPerMessage => per_delivery(run.network?.packets as f64),
            Metric::PacketBytes => run.network?.packet_bytes(),
            Metric::PacketGapUs => run.network?.packet_gap_us(run.elapsed_s),
            Metric::RetransmitsPerMillion => {
                let network = run.network?;
                (network.packets > 0).then(|| network.retransmits as f64 * 1e6 / network.packets as f64)
            }
        }
    }
}
