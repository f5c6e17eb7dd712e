//! Segments, sizes and counts of a benchmark, and the reports of roles, exchanged with the controller as lines of JSON.

use serde::{Deserialize, Serialize};
use std::io::Write;

use crate::limits::{MESSAGE_BYTES_MAX, SEGMENT_MESSAGES_MAX};
use gauge::{DeliveryFaults, HistogramBuckets, NetworkMeter, NetworkUsage, ProcessMeter, RoleUsage};

/// Sizes from `MIN` to `MAX` inclusive, each `factor` times the previous one (`MAX` is added if it is not among them).
pub fn sizes(range: &str, factor: usize) -> Result<Vec<usize>, String> {
    let (low, high) = match range.split_once(':') {
        Some((low, high)) => (low, high),
        None => ("1", range),
    };
    let (low, high) = (bytes(low)?, bytes(high)?);
    if low == 0 || high < low || high > MESSAGE_BYTES_MAX {
        return Err(format!("sizes run from 1 to {MESSAGE_BYTES_MAX} bytes, as in 1:1M"));
    }
    let mut sizes: Vec<usize> =
        std::iter::successors(Some(low), |size| size.checked_mul(factor)).take_while(|&size| size <= high).collect();
    if sizes.last() != Some(&high) {
        sizes.push(high);
    }
    Ok(sizes)
}

/// Parses a number of bytes: `64`, `64K`, `1M` (powers of 1,024).
pub fn bytes(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| format!("'{text}' is not a number of bytes"))
}

/// The number of measured and warm-up messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCounts {
    /// Messages of the measured segment.
    pub measured: u64,
    /// Messages of the preceding segment, which is not measured.
    pub warm_up: u64,
}

impl MessageCounts {
    /// A number of messages, plus a tenth of it as warm-up.
    pub fn with_tenth(measured: u64) -> Self {
        let measured = measured.clamp(1, SEGMENT_MESSAGES_MAX);
        Self { measured, warm_up: (measured / 10).max(1) }
    }
}

/// The traffic pattern of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrafficShape {
    /// The publisher sends all messages; each consumer sends one empty reply after the last one.
    Stream,
    /// Each message is answered with one of the same size before the next one is sent.
    PingPong,
}

/// One segment: a number of messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSegment {
    pub shape: TrafficShape,
    pub size_bytes: usize,
    pub count: u64,
}

/// Resource usage of a role's process in a segment, measured by the process itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfUsage {
    pub process: RoleUsage,
    /// Its sockets' traffic, if the kernel reports it.
    pub network: Option<NetworkUsage>,
}

/// Running meters of this process.
pub struct SelfMeters {
    process: ProcessMeter,
    network: NetworkMeter,
}

impl SelfMeters {
    pub fn start() -> Self {
        Self { network: NetworkMeter::of_self(), process: ProcessMeter::of_self() }
    }

    pub fn stop(self) -> SelfUsage {
        SelfUsage { process: self.process.stop(), network: self.network.stop() }
    }
}

impl SelfUsage {
    /// Adds the usage of another process of the same role.
    pub fn add(&mut self, other: &Self) {
        self.process.add(&other.process);
        self.network = NetworkUsage::sum(self.network, other.network);
    }
}

/// A report of a role: one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RoleReport {
    /// Connected, declared and bound; a relay listens on this port.
    Ready {
        /// The port of a relay, otherwise zero.
        port: u16,
    },
    /// The consumer is ready for the messages of a segment.
    Armed,
    /// Results of the publisher for a segment.
    Published {
        /// When the first message was sent, on the machine's monotonic clock.
        began_ns: u64,
        /// When the last consumer's reply was received.
        ended_ns: u64,
        /// Messages sent: fewer than requested if the last one was not answered.
        published: u64,
        /// Round trips (empty for streams).
        latencies: HistogramBuckets,
        /// Confirm latencies (empty without confirms).
        confirms: HistogramBuckets,
        /// Messages that the broker rejected or returned.
        refused: u64,
        used: SelfUsage,
    },
    /// Results of the socket baseline.
    #[serde(rename = "Hopped")]
    SocketBaseline {
        /// When the first byte was sent, on the machine's monotonic clock.
        began_ns: u64,
        /// When the other side had received the last byte.
        ended_ns: u64,
        /// The number of publishes with this many bytes.
        published: u64,
        /// The number of deliveries with this many bytes.
        delivered: u64,
        used: SelfUsage,
    },
    /// Results of the consumer for a segment.
    Consumed {
        received: u64,
        faults: DeliveryFaults,
        /// Messages per second in each twentieth of the segment's messages.
        rates: Vec<f64>,
        /// When the last message arrived.
        #[serde(default)]
        ended_ns: u64,
        used: SelfUsage,
    },
    /// Work of a role without messages of its own (the binder: bindings added and removed).
    Worked {
        operations: u64,
    },
    /// Results in a format of the role's own (open loop, workloads).
    #[serde(rename = "Found")]
    Results(serde_json::Value),
    /// Results of a `churn` client.
    Churned {
        began_ns: u64,
        ended_ns: u64,
        /// Each operation is one opening and one closing.
        operations: u64,
        /// Latency of opening.
        opened: HistogramBuckets,
        /// Latency of closing.
        closed: HistogramBuckets,
        used: SelfUsage,
    },
    /// The queue of `drain` is filled.
    Filled {
        /// When the first message was sent.
        began_ns: u64,
        /// When the queue reported that it holds all messages.
        ended_ns: u64,
        /// Messages in the queue.
        held: u64,
        used: SelfUsage,
    },
    /// The queue of `drain` is empty.
    Emptied {
        began_ns: u64,
        ended_ns: u64,
        received: u64,
        faults: DeliveryFaults,
        /// Messages per second in each twentieth of the messages.
        rates: Vec<f64>,
        used: SelfUsage,
    },
    Failed {
        why: String,
    },
}

/// Writes one report.
pub fn report(report: &RoleReport) -> Result<(), String> {
    let mut line = serde_json::to_string(report).map_err(|error| error.to_string())?;
    line.push('\n');
    let mut output = std::io::stdout().lock();
    output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| format!("the reports cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &str, expected: &str) {
        let shown = sizes(range, 2).map_or_else(|error| error, |sizes| format!("{sizes:?}"));
        assert_eq!(shown, expected, "{range}");
    }

    #[test]
    fn ranges_of_sizes() {
        check("1:8", "[1, 2, 4, 8]");
        check("64:64", "[64]");
        check("4", "[1, 2, 4]");
        check("1K:3K", "[1024, 2048, 3072]");
        check("x:1", "'x' is not a number of bytes");
        check("0:1", "sizes run from 1 to 134217728 bytes, as in 1:1M");
        assert_eq!(sizes("1:1M", 2).map(|sizes| sizes.len()), Ok(21));
        assert_eq!(sizes("1:1M", 16), Ok(vec![1, 16, 256, 4_096, 65_536, 1 << 20]));
        assert_eq!(sizes("1:40", 8), Ok(vec![1, 8, 40]));
    }

    #[test]
    fn counts_are_bounded() {
        assert_eq!(MessageCounts::with_tenth(2_000_000), MessageCounts { measured: 2_000_000, warm_up: 200_000 });
        assert_eq!(MessageCounts::with_tenth(7), MessageCounts { measured: 7, warm_up: 1 });
        assert_eq!(MessageCounts::with_tenth(u64::MAX).measured, SEGMENT_MESSAGES_MAX);
    }
}
