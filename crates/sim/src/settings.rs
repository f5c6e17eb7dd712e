//! The settings of a run, drawn from its seed before it begins.
//!
//! Three kinds of runs share one world. A run of [`Mode::Features`] has one broker and clients that use every feature of
//! queues; in one of [`Mode::Durable`] that broker has a store, and crashes; a run of [`Mode::Federation`] has several
//! brokers with links between them. All are drawn in a fixed order, because the results of known seeds depend on it.

use crate::broker_limits::BrokerLimits;
use crate::features::{DurableSettings, FeatureSettings};
use crate::federation::FederationSettings;
use std::fmt::{self, Display, Formatter};

/// What a run exercises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One broker; clients use every feature of its queues.
    Features,
    /// The same with a durable store, whose broker crashes and starts again.
    Durable,
    /// Several brokers, joined by federation links.
    Federation,
}

impl Mode {
    /// The option of the command line that selects it, with a space behind it.
    pub fn option(self) -> &'static str {
        match self {
            Mode::Features => "",
            Mode::Durable => "--durable ",
            Mode::Federation => "--federation ",
        }
    }
}

/// The order of turns within a step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOrder {
    /// Client by client: its connection, then the client; then the shards.
    ByClient,
    /// All connections; then broker by broker: its clients, then its shards.
    ByBroker,
}

/// How the world moves.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Who moves when within a step.
    pub order: TurnOrder,
    /// Most microseconds of a step.
    pub step_us_max: u64,
    /// How often a connection moves in a step.
    pub cable_permille: u32,
    /// How often a client, or all clients of a broker, move in a step.
    pub client_permille: u32,
    /// Bytes that one direction of a connection holds at least.
    pub window_bytes_min: usize,
    /// Microseconds that pass in a round in which nothing moves.
    pub quiet_step_us: u64,
    /// Simulated seconds after which a world that does not come to rest has failed.
    pub rest_s_max: u64,
}

/// Which faults a run has.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultSettings {
    /// Connections of clients are cut.
    pub client_cuts: bool,
    /// Connections between brokers are cut, and dials fail.
    pub link_cuts: bool,
    /// Connections become silent: nothing passes, and no end is told. Heartbeats detect it.
    pub silences: bool,
    /// Connections are slow, and clients stop reading now and then.
    pub slow: bool,
    /// Brokers refuse logins of other brokers now and then.
    pub refusals: bool,
    /// Brokers stop and come back.
    pub stops: bool,
    /// Routes are removed and added under load.
    pub reroutes: bool,
}

/// What is drawn for one mode alone.
#[derive(Clone, Debug)]
pub enum WorkloadSettings {
    /// For [`Mode::Features`].
    Features(FeatureSettings),
    /// For [`Mode::Federation`].
    Federation(FederationSettings),
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    /// The number of shards of each broker.
    pub shards: Vec<u16>,
    /// The limits of every broker, and what connections are like.
    pub limits: BrokerLimits,
    /// How the world moves.
    pub schedule: Schedule,
    pub faults: FaultSettings,
    /// What clients do.
    pub workload: WorkloadSettings,
}

impl Settings {
    /// The settings of a seed.
    pub fn of(mode: Mode, seed: u64) -> Self {
        match mode {
            Mode::Features => FeatureSettings::draw(seed),
            Mode::Durable => FeatureSettings::draw_durable(seed),
            Mode::Federation => FederationSettings::draw(seed),
        }
    }

    /// What the run exercises.
    pub fn mode(&self) -> Mode {
        match self.workload {
            WorkloadSettings::Features(FeatureSettings { durable: Some(_), .. }) => Mode::Durable,
            WorkloadSettings::Features(_) => Mode::Features,
            WorkloadSettings::Federation(_) => Mode::Federation,
        }
    }

    /// What a store adds, if brokers have one.
    pub fn durable(&self) -> Option<DurableSettings> {
        match &self.workload {
            WorkloadSettings::Features(features) => features.durable,
            WorkloadSettings::Federation(_) => None,
        }
    }

    /// The cluster name of a broker.
    pub(crate) fn broker_name(&self, broker: usize) -> String {
        match self.workload {
            WorkloadSettings::Features(_) => "harrier".to_owned(),
            WorkloadSettings::Federation(_) => format!("b{broker}"),
        }
    }
}

impl Display for Settings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.workload {
            WorkloadSettings::Features(features) => {
                let timeout_ms = self.limits.consumer_timeout_ms;
                let (clients, steps) = (features.clients, features.steps);
                let shards = self.shards.iter().sum::<u16>();
                writeln!(f, "{shards} shards, {clients} clients, {steps} steps, consumer timeout {timeout_ms} ms")?;
                if let Some(durable) = &features.durable {
                    writeln!(f, "{durable}")?;
                }
                write!(f, "switches: {}", features.switches)
            }
            WorkloadSettings::Federation(federation) => {
                let FederationSettings { shape, exchanges, routes, hops_max, .. } = federation;
                let shards = &self.shards;
                write!(
                    f,
                    "{shape:?} of brokers with {shards:?} shards, exchanges {exchanges:?}, at most {hops_max} hops"
                )?;
                routes.iter().try_for_each(|route| write!(f, "\n  {route}"))
            }
        }
    }
}
