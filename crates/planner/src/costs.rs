//! The costs of nodes, fitted from observations, by transport, reliability and message size.

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::limits::DEGREE_MAX;

/// The costs for one transport and one reliability between brokers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostSet {
    /// `tcp`, `unix` or `rdma`.
    pub transport: String,
    /// `none` or `confirm`.
    pub ack: String,
    /// By message size, ascending.
    pub sizes: Vec<SizeCosts>,
}

/// What the times measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Wall-clock time from one message to the next, from the rates of brokers on hosts of their own; waiting is
    /// included.
    Wall,
    /// Processor time of all threads of the broker together; rates follow from the number of cores.
    Processor,
}

/// The largest trees that were measured; costs beyond are extrapolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredRange {
    /// Consumers of a broker.
    pub consumers: u32,
    /// Brokers below a broker.
    pub brokers: u32,
    /// Levels of brokers.
    pub levels: u32,
}

/// The costs of messages of one size. Times are microseconds a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeCosts {
    pub message_bytes: u64,
    /// What the times measure.
    pub basis: Basis,
    /// Receiving a message from a publisher.
    pub take_in_us: Estimate,
    /// Receiving a message from the broker above.
    pub relay_in_us: Estimate,
    pub copy_to_consumer_us: Estimate,
    /// A copy for a broker below.
    pub copy_to_broker_us: Estimate,
    /// If the measurements do not fit a line: the whole time of a broker that receives from a publisher, by its
    /// consumers (degree, time), ascending. The line is then used only beyond the last entry.
    #[serde(default)]
    pub by_consumers: Vec<(u32, Estimate)>,
    /// The same, by the brokers below.
    #[serde(default)]
    pub by_brokers: Vec<(u32, Estimate)>,
    /// The share of a stream's rate that remains with each level of brokers beyond the second: 1 at most.
    pub per_level_ratio: Estimate,
    /// Latency of one message through one broker to one consumer, if latencies were measured.
    pub first_latency_us: Option<Estimate>,
    /// Latency of each further level.
    pub hop_latency_us: Option<Estimate>,
    /// Latency of each earlier sibling.
    pub copy_latency_us: Option<Estimate>,
    /// Bytes on the wire for one copy, with all headers.
    pub wire_bytes_per_copy: f64,
    /// The trees that these costs were measured on.
    pub reach: MeasuredRange,
}

impl CostSet {
    /// What is inconsistent, if anything.
    pub fn inconsistency(&self) -> Option<String> {
        let of = |why: &str| Some(format!("costs over {} with ack {}: {why}", self.transport, self.ack));
        if self.sizes.is_empty() {
            return of("none");
        }
        if !self.sizes.windows(2).all(|pair| pair[0].message_bytes < pair[1].message_bytes) {
            return of("the sizes do not ascend");
        }
        self.sizes.iter().find_map(|costs| of(&format!("{} bytes: {}", costs.message_bytes, costs.inconsistency()?)))
    }
}

impl SizeCosts {
    /// The time of one copy by the line: to a consumer or to a broker.
    pub fn copy_us(&self, to_consumer: bool) -> Estimate {
        if to_consumer { self.copy_to_consumer_us } else { self.copy_to_broker_us }
    }

    /// The measured times by degree, if they do not fit a line.
    pub fn table(&self, to_consumers: bool) -> &[(u32, Estimate)] {
        if to_consumers { &self.by_consumers } else { &self.by_brokers }
    }

    /// The whole time of a broker that receives from a publisher: interpolated from the table, before its first degree
    /// as at that one; without a table, by the line.
    pub fn whole_us(&self, to_consumers: bool, degree: u32) -> Estimate {
        let table = self.table(to_consumers);
        let after = table.partition_point(|(known, _)| *known < degree);
        match (after.checked_sub(1).map(|at| &table[at]), table.get(after)) {
            (_, Some((known, time))) if *known == degree => *time,
            (Some((low, less)), Some((high, more))) => {
                let share = f64::from(degree - low) / f64::from(high - low);
                less.with(*more, |less, more| less + (more - less) * share)
            }
            (None, Some((_, time))) => *time,
            (Some((last, time)), None) => time.plus(self.slope_us(to_consumers).times(f64::from(degree - last))),
            (None, None) => self.take_in_us.plus(self.copy_us(to_consumers).times(f64::from(degree))),
        }
    }

    /// The time of each copy beyond the table: at least the table's last slope, and at least the line's.
    pub(crate) fn slope_us(&self, to_consumers: bool) -> Estimate {
        let copy = self.copy_us(to_consumers);
        match self.table(to_consumers) {
            [.., (before, less), (last, more)] => {
                let step = f64::from(last - before);
                copy.max(Estimate::exact(((more.value - less.value) / step).max(0.0)))
            }
            _ => copy,
        }
    }

    fn inconsistency(&self) -> Option<&'static str> {
        let ascending = |table: &[(u32, Estimate)]| {
            table.last().is_none_or(|(degree, _)| *degree <= DEGREE_MAX)
                && table.first().is_none_or(|(degree, _)| *degree >= 1)
                && table.windows(2).all(|pair| pair[0].0 < pair[1].0)
        };
        let tables = self.by_consumers.iter().chain(&self.by_brokers).map(|(_, time)| time);
        let latencies = [&self.first_latency_us, &self.hop_latency_us, &self.copy_latency_us];
        let times = [&self.take_in_us, &self.relay_in_us, &self.copy_to_consumer_us, &self.copy_to_broker_us];
        let not_negative = |time: &Estimate| time.is_sound() && time.low >= 0.0;
        let zero = |one: &Estimate, other: &Estimate| one.value <= 0.0 && other.value <= 0.0;
        if !times.into_iter().chain(tables.clone()).chain(latencies.into_iter().flatten()).all(not_negative) {
            Some("a time is below 0, or not within its interval")
        } else if tables.into_iter().any(|time| time.low <= 0.0)
            || zero(&self.take_in_us, &self.copy_to_consumer_us)
            || zero(&self.take_in_us, &self.copy_to_broker_us)
            || zero(&self.relay_in_us, &self.copy_to_consumer_us)
            || zero(&self.relay_in_us, &self.copy_to_broker_us)
        {
            Some("a broker takes no time")
        } else if !ascending(&self.by_consumers) || !ascending(&self.by_brokers) {
            Some("the degrees of a table do not ascend, or are too high")
        } else if !self.per_level_ratio.is_sound() || self.per_level_ratio.low <= 0.0 || self.per_level_ratio.high > 1.0
        {
            Some("a level's share is not between 0 and 1")
        } else if !(self.wire_bytes_per_copy.is_finite() && self.wire_bytes_per_copy >= self.message_bytes as f64) {
            Some("a copy on the wire has fewer bytes than the message")
        } else if latencies.iter().any(|one| one.is_some() != self.first_latency_us.is_some()) {
            Some("some latencies are missing")
        } else if [self.reach.consumers, self.reach.brokers, self.reach.levels].contains(&0) {
            Some("nothing was measured")
        } else {
            None
        }
    }
}
