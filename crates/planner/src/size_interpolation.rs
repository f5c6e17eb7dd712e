//! Interpolates and extrapolates costs for message sizes that were not measured: costs are linear in the bytes between
//! two sizes.

use std::fmt;

use crate::{CostSet, Estimate, MeasuredRange, SizeCosts};

/// Where the costs of a size come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostSource {
    Measured,
    /// They are interpolated between these two measured sizes.
    Between(u64, u64),
    /// They are extrapolated beyond this last measured size.
    Beyond(u64),
}

/// Why there are no costs for a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCosts {
    /// It is outside the measured sizes, from the least to the greatest.
    Beyond(u64, u64),
    /// A single size was measured, which does not determine a line.
    Single(u64),
    /// No size was measured.
    None,
}

impl fmt::Display for MissingCosts {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingCosts::Beyond(least, most) => write!(to, "messages of {least} to {most} bytes were measured"),
            MissingCosts::Single(size) => {
                write!(to, "only messages of {size} bytes were measured, which says nothing about other sizes")
            }
            MissingCosts::None => to.write_str("nothing was measured"),
        }
    }
}

impl std::error::Error for MissingCosts {}

impl CostSet {
    /// The costs of messages of this many bytes; outside the measured sizes only if `beyond` is true.
    ///
    /// # Errors
    /// The size is outside the measured ones and `beyond` is false, or a single other size was measured.
    pub fn for_size(&self, message_bytes: u64, beyond: bool) -> Result<(SizeCosts, CostSource), MissingCosts> {
        let after = self.sizes.partition_point(|costs| costs.message_bytes < message_bytes);
        if let Some(exact) = self.sizes.get(after).filter(|costs| costs.message_bytes == message_bytes) {
            return Ok((exact.clone(), CostSource::Measured));
        }
        let (less, more, resting) = match self.sizes.as_slice() {
            [] => return Err(MissingCosts::None),
            [one] => return Err(MissingCosts::Single(one.message_bytes)),
            [first, .., last] if !beyond && (after == 0 || after == self.sizes.len()) => {
                return Err(MissingCosts::Beyond(first.message_bytes, last.message_bytes));
            }
            [first, second, ..] if after == 0 => (first, second, CostSource::Beyond(first.message_bytes)),
            [.., before, last] if after == self.sizes.len() => (before, last, CostSource::Beyond(last.message_bytes)),
            sizes => {
                let (less, more) = (&sizes[after - 1], &sizes[after]);
                (less, more, CostSource::Between(less.message_bytes, more.message_bytes))
            }
        };
        Ok((interpolate(less, more, message_bytes), resting))
    }
}

/// On the line through two sizes. Outside them the interval widens with the distance.
fn interpolate(less: &SizeCosts, more: &SizeCosts, message_bytes: u64) -> SizeCosts {
    let [low, high, at] = [less.message_bytes, more.message_bytes, message_bytes].map(|bytes| bytes as f64);
    let share = (at - low) / (high - low);
    let outside = (share - 1.0).max(-share).max(0.0);
    let line = |one: f64, two: f64| one + (two - one) * share;
    let bounded = |one: Estimate, two: Estimate, least: f64| {
        let half = |of: Estimate| (of.high - of.low) / 2.0;
        let (value, half) = (line(one.value, two.value), half(one).max(half(two)) * (1.0 + outside));
        let inside = Estimate { value, low: line(one.low, two.low), high: line(one.high, two.high) };
        let found = if outside > 0.0 { Estimate { value, low: value - half, high: value + half } } else { inside };
        found.at_least(least)
    };
    let time = |one: Estimate, two: Estimate| bounded(one, two, 0.0);
    let latency = |one: Option<Estimate>, two: Option<Estimate>| Some(time(one?, two?));
    // If either has a table, both are read at the degrees of both. A time is never less than a share of what was
    // measured, so that no line makes a broker free.
    let table = |to_consumers: bool| {
        let mut degrees: Vec<u32> =
            [less, more].iter().flat_map(|costs| costs.table(to_consumers)).map(|(degree, _)| *degree).collect();
        degrees.sort_unstable();
        degrees.dedup();
        let of = |degree: u32| {
            let [one, two] = [less, more].map(|costs| costs.whole_us(to_consumers, degree));
            bounded(one, two, one.value.min(two.value) / 10.0)
        };
        degrees.into_iter().map(|degree| (degree, of(degree))).collect()
    };
    let part = |one: Estimate, two: Estimate| bounded(one, two, one.value.min(two.value) / 10.0);
    let ratio = part(less.per_level_ratio, more.per_level_ratio).at_most(1.0);
    let reach = |of: fn(&MeasuredRange) -> u32| of(&less.reach).min(of(&more.reach));
    SizeCosts {
        message_bytes,
        basis: less.basis,
        take_in_us: part(less.take_in_us, more.take_in_us),
        relay_in_us: part(less.relay_in_us, more.relay_in_us),
        copy_to_consumer_us: part(less.copy_to_consumer_us, more.copy_to_consumer_us),
        copy_to_broker_us: part(less.copy_to_broker_us, more.copy_to_broker_us),
        by_consumers: table(true),
        by_brokers: table(false),
        per_level_ratio: ratio,
        first_latency_us: latency(less.first_latency_us, more.first_latency_us),
        hop_latency_us: latency(less.hop_latency_us, more.hop_latency_us),
        copy_latency_us: latency(less.copy_latency_us, more.copy_latency_us),
        wire_bytes_per_copy: line(less.wire_bytes_per_copy, more.wire_bytes_per_copy).max(message_bytes as f64),
        reach: MeasuredRange {
            consumers: reach(|reach| reach.consumers),
            brokers: reach(|reach| reach.brokers),
            levels: reach(|reach| reach.levels),
        },
    }
}
