//! The metrics: what can be read off a run, with name, unit and direction.
//!
//! Enters: a run.  Leaves: one number, if the run has it.
//! Owns:   the definition of every figure that is shown anywhere.
//! Never:  a quantile that the number of samples cannot bear.

use gauge::Latencies;

use crate::document::{RoleUsage, Run};

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// A figure of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// Messages published a second.
    PublishedPerS,
    /// Messages delivered a second.
    DeliveredPerS,
    /// Bodies delivered, in millions of bytes a second.
    MbPerS,
    /// Operations a second (`churn`).
    OperationsPerS,
    /// Mean of a kind of latency, in microseconds.
    LatencyMeanUs(String),
    /// A quantile (0 to 1) of a kind of latency, in microseconds; 1 is the largest.
    LatencyUs(String, f64),
    /// Processor seconds of a role for a million deliveries.
    CpuSPerMillion(Role),
    /// Processors that a role used.
    Cores(Role),
    /// Processors that a role used, in percent of one, for each publisher-consumer pair or consumer: the paper normalises so.
    CpuPercent(Role),
    /// Context switches of a role for a thousand deliveries.
    SwitchesPerThousand(Role),
    /// Most resident memory of a role, in MiB.
    ResidentMib(Role),
    /// Seconds a second in which a role waited for a processor.
    RunQueue(Role),
    /// TCP segments for each delivery.
    PacketsPerMessage,
    /// Mean bytes of a TCP segment.
    PacketBytes,
    /// Mean time between TCP segments, in microseconds.
    PacketGapUs,
}

/// Whose processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The target.
    Broker,
    /// All publishers.
    Publishers,
    /// All consumers.
    Consumers,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Broker => "Broker",
            Role::Publishers => "Publisher",
            Role::Consumers => "Consumer",
        }
    }

    fn of(self, run: &Run) -> Option<RoleUsage> {
        match self {
            Role::Broker => run.broker,
            Role::Publishers => run.publishers,
            Role::Consumers => run.consumers,
        }
    }
}

/// Samples above a quantile that it takes to name it.
const SAMPLES_ABOVE_MIN: f64 = 10.0;

impl Metric {
    /// Its name with the unit, as columns are headed.
    pub fn name(&self) -> String {
        match self {
            Metric::PublishedPerS => "Messages/s".to_owned(),
            Metric::DeliveredPerS => "Delivered/s".to_owned(),
            Metric::MbPerS => "MB/s".to_owned(),
            Metric::OperationsPerS => "Operations/s".to_owned(),
            Metric::LatencyMeanUs(_) => "Latency (us)".to_owned(),
            Metric::LatencyUs(_, quantile) if *quantile >= 1.0 => "max (us)".to_owned(),
            Metric::LatencyUs(_, quantile) => {
                format!("p{} (us)", (quantile * 1e6).round() / 1e4)
            }
            Metric::CpuSPerMillion(role) => format!("{} CPU s/M", role.name()),
            Metric::Cores(role) => format!("{} cores", role.name()),
            Metric::CpuPercent(role) => format!("{} CPU %", role.name()),
            Metric::SwitchesPerThousand(role) => format!("{} csw/k", role.name()),
            Metric::ResidentMib(role) => format!("{} MiB", role.name()),
            Metric::RunQueue(role) => format!("{} runq", role.name()),
            Metric::PacketsPerMessage => "Packets/msg".to_owned(),
            Metric::PacketBytes => "Packet bytes".to_owned(),
            Metric::PacketGapUs => "Packet gap (us)".to_owned(),
        }
    }

    /// Which way is good.
    pub fn better(&self) -> Better {
        match self {
            Metric::PublishedPerS
            | Metric::DeliveredPerS
            | Metric::MbPerS
            | Metric::OperationsPerS
            | Metric::PacketBytes
            | Metric::PacketGapUs => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// Its value in a run; `None` if the run does not have it, or not enough samples for it.
    pub fn of(&self, run: &Run) -> Option<f64> {
        let per_s = |count: u64| (run.elapsed_s > 0.0).then(|| count as f64 / run.elapsed_s);
        let per_delivery = |value: f64| (run.delivered > 0).then(|| value / run.delivered as f64);
        let latencies = |kind: &str| {
            let mut latencies = Latencies::default();
            latencies.merge(run.latencies.get(kind)?);
            (latencies.count() > 0).then_some(latencies)
        };
        let cores = |role: Role| {
            let usage = role.of(run)?;
            (run.elapsed_s > 0.0).then(|| (usage.user_s + usage.system_s) / run.elapsed_s)
        };
        match self {
            Metric::PublishedPerS => per_s(run.published).filter(|_| run.published > 0),
            Metric::DeliveredPerS => per_s(run.delivered).filter(|_| run.delivered > 0),
            Metric::MbPerS => per_s(run.delivered_bytes).map(|bytes| bytes / 1e6).filter(|_| run.delivered > 0),
            Metric::OperationsPerS => per_s(run.operations?),
            Metric::LatencyMeanUs(kind) => Some(latencies(kind)?.mean_us()),
            Metric::LatencyUs(kind, quantile) => {
                let latencies = latencies(kind)?;
                if *quantile >= 1.0 {
                    return Some(latencies.max_us());
                }
                let above = latencies.count() as f64 * (1.0 - quantile);
                (above >= SAMPLES_ABOVE_MIN).then(|| latencies.quantile_us(*quantile))
            }
            Metric::CpuSPerMillion(role) => {
                let usage = role.of(run)?;
                per_delivery((usage.user_s + usage.system_s) * 1e6)
            }
            Metric::Cores(role) => cores(*role),
            Metric::CpuPercent(role) => {
                let processes = f64::from(role.of(run)?.processes.max(1));
                Some(cores(*role)? * 100.0 / processes)
            }
            Metric::SwitchesPerThousand(role) => {
                let usage = role.of(run)?;
                per_delivery((usage.voluntary_switches + usage.involuntary_switches) as f64 * 1e3)
            }
            Metric::ResidentMib(role) => Some(role.of(run)?.resident_bytes as f64 / f64::from(1 << 20)),
            Metric::RunQueue(role) => Some(role.of(run)?.run_queue_s / run.elapsed_s),
            Metric::PacketsPerMessage => per_delivery(run.network?.packets as f64),
            Metric::PacketBytes => {
                let network = run.network?;
                (network.packets > 0).then(|| network.bytes as f64 / network.packets as f64)
            }
            Metric::PacketGapUs => {
                let network = run.network?;
                (network.packets > 0).then(|| run.elapsed_s * 1e6 / network.packets as f64)
            }
        }
    }
}
