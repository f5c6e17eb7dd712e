//! Segments, sizes and counts of a benchmark, and the reports of roles, exchanged with the controller as lines of JSON.

use serde::{Deserialize, Serialize};

use crate::limits::{MESSAGE_BYTES_MAX, SEGMENT_MESSAGES_MAX};
use gauge::{HistogramBuckets, DeliveryFaults, ProcessMeter, NetworkUsage, NetworkMeter, RoleUsage};

/// Sizes from `MIN` to `MAX`, each `factor` times the one before, both included (`MAX` is added when it is none of them).
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
    number.ok_or_else(|| format!("'{text}' is no number of bytes"))
}

/// How many messages of one size are measured and how many warm up before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCounts {
    /// Messages of the measured segment.
    pub measured: u64,
    /// Messages of the segment before it, whose figures are thrown away.
    pub warm_up: u64,
}

impl MessageCounts {
    /// So many messages, and a tenth of them to warm up.
    pub fn with_tenth(measured: u64) -> Self {
        let measured = measured.clamp(1, SEGMENT_MESSAGES_MAX);
        Self { measured, warm_up: (measured / 10).max(1) }
    }
}

/// What the roles do in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrafficShape {
    /// The publisher sends all; each consumer answers once, with a body of 0 bytes, when it has them all.
    Stream,
    /// Each message is answered with one of the same size before the next is sent.
    PingPong,
}

/// One segment: so many messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSegment {
    /// What is done.
    pub shape: TrafficShape,
    /// Size of each body.
    pub size_bytes: usize,
    /// How many messages.
    pub count: u64,
}

/// What a role's process used in a segment, as it measured itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfUsage {
    /// Processor time, memory and the like.
    pub process: RoleUsage,
    /// What its sockets sent and received, if the kernel tells.
    pub network: Option<NetworkUsage>,
}

/// A role's meters, running.
pub struct SelfMeters {
    process: ProcessMeter,
    network: NetworkMeter,
}

impl SelfMeters {
    /// Begins to measure this process.
    pub fn start() -> Self {
        Self { network: NetworkMeter::of_self(), process: ProcessMeter::of_self() }
    }

    /// Ends the measurement.
    pub fn stop(self) -> SelfUsage {
        SelfUsage { process: self.process.stop(), network: self.network.stop() }
    }
}

impl SelfUsage {
    /// Adds what another process of the same role used.
    pub fn add(&mut self, other: &Self) {
        self.process.add(&other.process);
        self.network = NetworkUsage::sum(self.network, other.network);
    }
}

/// What a role reports of itself, one line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RoleReport {
    /// Connected, declared and bound (or, the relay: listening on this port).
    Ready {
        /// Port of a relay, zero otherwise.
        port: u16,
    },
    /// The consumer has taken in its segment and is waiting for the messages.
    Armed,
    /// The publisher's figures of a segment.
    Published {
        /// When the first message was handed over, on the machine's monotonic clock.
        began_ns: u64,
        /// When the last consumer's reply was in.
        ended_ns: u64,
        /// Messages that were sent: fewer than asked for if no answer came to the last of them.
        published: u64,
        /// Round trips (empty for streams).
        latencies: HistogramBuckets,
        /// Times from publishing a message until its confirm was read (empty without confirms).
        confirms: HistogramBuckets,
        /// Messages the broker refused to confirm or returned.
        refused: u64,
        /// What the process and its sockets used meanwhile.
        used: SelfUsage,
    },
    /// The figures of one hop of plain sockets.
    #[serde(rename = "Hopped")]
    SocketBaseline {
        /// When the first byte was handed over, on the machine's monotonic clock.
        began_ns: u64,
        /// When the other end had the last.
        ended_ns: u64,
        /// As many publishes have these bytes,
        published: u64,
        /// and as many deliveries.
        delivered: u64,
        /// What the process and its sockets used meanwhile.
        used: SelfUsage,
    },
    /// The consumer's figures of a segment.
    Consumed {
        /// Messages that arrived.
        received: u64,
        /// What went wrong.
        faults: DeliveryFaults,
        /// Messages a second in each twentieth of the segment's messages.
        rates: Vec<f64>,
        /// When the last message was in.
        #[serde(default)]
        ended_ns: u64,
        /// What the process and its sockets used meanwhile.
        used: SelfUsage,
    },
    /// What a role did that has no messages of its own (the binder: bindings added and taken away).
    Worked {
        /// How many times.
        operations: u64,
    },
    /// What a role found that measures in a way of its own (open loop, workloads).
    #[serde(rename = "Found")]
    Results(serde_json::Value),
    /// A client of `churn` has opened and closed what it was told to.
    Churned {
        /// When it began.
        began_ns: u64,
        /// When the last was closed.
        ended_ns: u64,
        /// Openings, each with its closing.
        operations: u64,
        /// How long each opening took.
        opened: HistogramBuckets,
        /// How long each closing took.
        closed: HistogramBuckets,
        /// What the process and its sockets used meanwhile.
        used: SelfUsage,
    },
    /// The filling end of `drain` has filled the queue.
    Filled {
        /// When the first message was handed over.
        began_ns: u64,
        /// When the queue said that it holds them all.
        ended_ns: u64,
        /// Messages that it holds.
        held: u64,
        /// What the process and its sockets used meanwhile.
        used: SelfUsage,
    },
    /// The emptying end of `drain` has emptied it.
    Emptied {
        /// When the first consumer was started.
        began_ns: u64,
        /// When the last message arrived.
        ended_ns: u64,
        /// Messages that arrived.
        received: u64,
        /// What went wrong.
        faults: DeliveryFaults,
        /// Messages a second in each twentieth of the messages.
        rates: Vec<f64>,
        /// What the process and its sockets used meanwhile.
        used: SelfUsage,
    },
    /// The role cannot go on.
    Failed {
        /// Why.
        why: String,
    },
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
        check("x:1", "'x' is no number of bytes");
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
