//! Fits costs to observations of the paper's three sweeps: chains of brokers, consumers of one broker, and brokers
//! below a root with a consumer each.
//!
//! Other trees are not used, so that a plan can be verified against them.
//!
//! **Own hosts.** The time of a message is the inverse of the rate. `B-kC` gives the time of a broker with k consumers,
//! `B-bB-bC` that of a root with b brokers, and chains give the loss of each level beyond the second. Rates cannot
//! distinguish receiving from a publisher and from a broker; both get the same cost.
//!
//! **One host.** All nodes share the cores, so rates say nothing about a single node. The processor time of each broker
//! does, and every level of every tree is a row of the regression, which distinguishes both ways of receiving. Levels
//! then cost no rate beyond the brokers' own times.

use std::collections::BTreeMap;
use std::fmt;
use topology::Tree;

use crate::estimate::median;
use crate::limits::{ESTIMATED_HEADER_BYTES, LINE_ERROR_MAX, OBSERVATIONS_MAX, SEGMENT_BYTES};
use crate::regression::{self, RegressionRow};
use crate::{Basis, CostSet, Estimate, MeasuredRange, Observation, Sharing, SizeCosts};

/// Why costs cannot be fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitError(String);

impl fmt::Display for FitError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for FitError {}

/// The sweep that a tree belongs to, with its number of consumers, of brokers below the root, or of levels. A broker
/// with one consumer is also the first chain, and the chain of two is also the first root with brokers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CalibrationSweep {
    Consumers(u32),
    Brokers(u32),
    Chain(u32),
}

fn sweep(tree: &Tree) -> Option<CalibrationSweep> {
    match *tree.levels() {
        [_] => Some(CalibrationSweep::Consumers(tree.consumers())),
        [_, brokers] if brokers == tree.consumers() => Some(CalibrationSweep::Brokers(brokers)),
        ref levels if levels.iter().all(|&count| count == 1) && tree.consumers() == 1 => {
            Some(CalibrationSweep::Chain(levels.len() as u32))
        }
        _ => None,
    }
}

/// All measurements of one tree at one size.
#[derive(Default)]
struct TreeMeasurements {
    time_us: Vec<f64>,
    latency_us: Vec<f64>,
    cpu_us: Vec<Vec<f64>>,
}

#[derive(Default)]
struct SizeMeasurements {
    trees: BTreeMap<CalibrationSweep, TreeMeasurements>,
    wire_bytes: Vec<f64>,
}

/// The four costs of the model, in this order.
type CostVector = [Estimate; 4];
const TAKE_IN: usize = 0;
const RELAY_IN: usize = 1;
const TO_CONSUMER: usize = 2;
const TO_BROKER: usize = 3;

/// Fits costs to observations, and ignores trees that belong to no sweep.
///
/// # Errors
/// An observation is invalid, or a sweep is missing.
pub fn fit(observations: &[Observation], sharing: Sharing) -> Result<Vec<CostSet>, FitError> {
    if observations.len() > OBSERVATIONS_MAX {
        return Err(FitError(format!("more than {OBSERVATIONS_MAX} observations")));
    }
    if let Some(complaint) = observations.iter().find_map(Observation::inconsistency) {
        return Err(FitError(complaint));
    }
    let mut sets: BTreeMap<(&str, &str), BTreeMap<u64, SizeMeasurements>> = BTreeMap::new();
    for observed in observations {
        let Some(sweep) = sweep(&observed.tree) else { continue };
        let sizes = sets.entry((&observed.transport, &observed.ack)).or_default();
        let cells = sizes.entry(observed.message_bytes).or_default();
        cells.wire_bytes.extend(observed.wire_bytes_per_copy);
        let cell = cells.trees.entry(sweep).or_default();
        cell.time_us.extend(observed.streams_per_s.iter().map(|rate| 1e6 / rate));
        cell.latency_us.extend(&observed.latency_us);
        cell.cpu_us.resize(observed.tree.levels().len(), Vec::new());
        cell.cpu_us.iter_mut().zip(&observed.broker_cpu_us).for_each(|(all, runs)| all.extend(runs));
    }
    if sets.is_empty() {
        return Err(FitError("no trees of a sweep were measured".to_owned()));
    }
    let fitted = sets.into_iter().map(|((transport, ack), sizes)| {
        let sizes = sizes.into_iter().map(|(bytes, cells)| {
            let told = |FitError(why)| FitError(format!("{bytes} bytes over {transport} with ack {ack}: {why}"));
            cells.costs(bytes, sharing).map_err(told)
        });
        Ok(CostSet {
            transport: transport.to_owned(),
            ack: ack.to_owned(),
            sizes: sizes.collect::<Result<_, FitError>>()?,
        })
    });
    fitted.collect()
}

/// Estimated bytes on the wire for one copy of a message, where they were not measured: what a broker writes for it in
/// TCP on an Ethernet.
pub fn estimated_wire_bytes(message_bytes: u64) -> f64 {
    let (whole, filled) = SEGMENT_BYTES;
    (message_bytes as f64 + ESTIMATED_HEADER_BYTES) * whole / filled
}

impl SizeMeasurements {
    fn costs(&self, message_bytes: u64, sharing: Sharing) -> Result<SizeCosts, FitError> {
        let basis = match sharing {
            Sharing::OwnHosts => Basis::Wall,
            Sharing::OneHost => Basis::Processor,
        };
        let reach = self.reach()?;
        let rows = self.rows(basis)?;
        let fitted: CostVector = regression::fit(&rows).ok_or_else(|| {
            FitError(
                "the costs cannot be separated: measure more consumers of one broker, and more brokers below one"
                    .to_owned(),
            )
        })?;
        let is_line = rows.iter().all(|row| (row.fitted(&fitted) / row.sum.value - 1.0).abs() <= LINE_ERROR_MAX);
        let table = |of: fn(&CalibrationSweep) -> Option<u32>| -> Vec<(u32, Estimate)> {
            if is_line { Vec::new() } else { self.table(basis, of) }
        };
        let relay_in_us = match basis {
            Basis::Wall => fitted[TAKE_IN],
            Basis::Processor => fitted[RELAY_IN],
        };
        let [first, hop, copy] = self.latencies().map_or([None; 3], |fitted| fitted.map(Some));
        let wire =
            if self.wire_bytes.is_empty() { estimated_wire_bytes(message_bytes) } else { median(&self.wire_bytes) };
        Ok(SizeCosts {
            message_bytes,
            basis,
            take_in_us: fitted[TAKE_IN],
            relay_in_us,
            copy_to_consumer_us: fitted[TO_CONSUMER],
            copy_to_broker_us: fitted[TO_BROKER],
            by_consumers: table(|sweep| match sweep {
                CalibrationSweep::Consumers(count) => Some(*count),
                _ => None,
            }),
            by_brokers: table(|sweep| match sweep {
                CalibrationSweep::Brokers(count) => Some(*count),
                _ => None,
            }),
            per_level_ratio: match basis {
                Basis::Wall => self.per_level_ratio(),
                Basis::Processor => Estimate::exact(1.0),
            },
            first_latency_us: first,
            hop_latency_us: hop,
            copy_latency_us: copy,
            wire_bytes_per_copy: wire,
            reach,
        })
    }

    /// The largest trees that were measured.
    fn reach(&self) -> Result<MeasuredRange, FitError> {
        let most = |of: fn(&CalibrationSweep) -> Option<u32>| self.trees.keys().filter_map(of).max();
        let consumers = most(|sweep| if let CalibrationSweep::Consumers(count) = sweep { Some(*count) } else { None });
        let brokers = most(|sweep| if let CalibrationSweep::Brokers(count) = sweep { Some(*count) } else { None });
        let chain = most(|sweep| if let CalibrationSweep::Chain(levels) = sweep { Some(*levels) } else { None });
        match (consumers, brokers) {
            (Some(consumers @ 2..), Some(brokers)) => {
                Ok(MeasuredRange { consumers, brokers, levels: chain.unwrap_or(2) })
            }
            (_, Some(_)) => Err(FitError("no broker with several consumers was measured".to_owned())),
            _ => Err(FitError("no brokers below a broker were measured, as in B-B-C or B-2B-2C".to_owned())),
        }
    }

    /// The measurements as sums of the four costs.
    fn rows(&self, basis: Basis) -> Result<Vec<RegressionRow<4>>, FitError> {
        let mut rows = Vec::new();
        for (sweep, cell) in &self.trees {
            let mut add = |factors: [f64; 4], runs: &[f64]| {
                rows.extend(Estimate::of(runs).map(|sum| RegressionRow { factors, sum }));
            };
            match (basis, *sweep) {
                (Basis::Wall, CalibrationSweep::Consumers(count)) => {
                    add([1.0, 0.0, f64::from(count), 0.0], &cell.time_us)
                }
                (Basis::Wall, CalibrationSweep::Brokers(count)) => {
                    add([1.0, 0.0, 0.0, f64::from(count)], &cell.time_us)
                }
                (Basis::Wall, CalibrationSweep::Chain(_)) => {}
                (Basis::Processor, sweep) => {
                    if cell.cpu_us.iter().any(Vec::is_empty) {
                        return Err(FitError(
                            "a tree's processor times are missing: on one host they are the costs, and rates are not"
                                .to_owned(),
                        ));
                    }
                    let last = cell.cpu_us.len() - 1;
                    for (level, runs) in cell.cpu_us.iter().enumerate() {
                        let mut factors = [0.0; 4];
                        factors[if level == 0 { TAKE_IN } else { RELAY_IN }] = 1.0;
                        match sweep {
                            CalibrationSweep::Consumers(count) => factors[TO_CONSUMER] = f64::from(count),
                            CalibrationSweep::Brokers(count) if level == 0 => factors[TO_BROKER] = f64::from(count),
                            _ if level == last => factors[TO_CONSUMER] = 1.0,
                            _ => factors[TO_BROKER] = 1.0,
                        }
                        add(factors, runs);
                    }
                }
            }
        }
        Ok(rows)
    }

    /// The whole time of a broker that receives from a publisher, by its degree.
    fn table(&self, basis: Basis, of: fn(&CalibrationSweep) -> Option<u32>) -> Vec<(u32, Estimate)> {
        let measured = self.trees.iter().filter_map(|(sweep, cell)| {
            let runs = match basis {
                Basis::Wall => &cell.time_us,
                Basis::Processor => cell.cpu_us.first()?,
            };
            Some((of(sweep)?, positive(Estimate::of(runs)?)))
        });
        measured.collect()
    }

    /// The share of its rate that a chain keeps with each further broker, from two on: with one broker, publisher and
    /// consumers are at the same node, which is another kind of node. The logarithm of the rate is fitted to a line; a
    /// chain that becomes faster is noise.
    fn per_level_ratio(&self) -> Estimate {
        let points = self.trees.iter().filter_map(|(sweep, cell)| {
            let levels = match sweep {
                CalibrationSweep::Brokers(1) => 2,
                CalibrationSweep::Chain(levels) => *levels,
                _ => return None,
            };
            Some((f64::from(levels), positive(Estimate::of(&cell.time_us)?).map(f64::ln)))
        });
        let slope = regression::slope(&points.collect::<Vec<_>>());
        slope.map_or(Estimate::exact(1.0), |slope| slope.map(|slope| (-slope).exp()).at_most(1.0))
    }

    /// Latency of one broker, of each further level, and of each earlier sibling.
    fn latencies(&self) -> Option<[Estimate; 3]> {
        let rows = self.trees.iter().filter_map(|(sweep, cell)| {
            let (levels, siblings) = match *sweep {
                CalibrationSweep::Consumers(count) => (1, count - 1),
                CalibrationSweep::Brokers(count) => (2, count - 1),
                CalibrationSweep::Chain(levels) => (levels, 0),
            };
            let sum = positive(Estimate::of(&cell.latency_us)?);
            Some(RegressionRow { factors: [1.0, f64::from(levels - 1), f64::from(siblings)], sum })
        });
        let rows: Vec<RegressionRow<3>> = rows.collect();
        let has = |at: usize| rows.iter().any(|row| row.factors[at] > 0.0);
        if has(1) && has(2) { regression::fit(&rows) } else { None }
    }
}

/// With a lower end above 0.
fn positive(time: Estimate) -> Estimate {
    Estimate { low: time.low.max(time.value / 1e3), ..time }
}
