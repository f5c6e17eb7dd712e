//! Runs of confirms in open loop, each of which says how late the slowest hundredth was and why it does not count.

use gauge::HostEnvironment;
use report::{Metric, invalid_reasons_of_run};

use super::broker_goals::SMALL;
use crate::open_loop::confirmed_spec;
use harness::arguments::ParsedOptions;
use harness::measure_options::{EFFORT, MeasureOptions, OUTPUT, TARGETS};
use harness::target::BenchmarkTarget;
use load::workload::spec::WorkloadSpec;
use load::workload::{execution, run_results};

/// A run of them.
pub(super) struct ConfirmRun {
    pub p99_us: Option<f64>,
    /// Why it is INVALID; empty if it is valid.
    pub invalid: Vec<String>,
}

/// What all runs have in common.
pub(super) struct ConfirmRuns {
    setup: MeasureOptions,
    spec: WorkloadSpec,
    environment: HostEnvironment,
}

impl ConfirmRuns {
    /// So many small messages a second for so long, of which so many may be without a confirm.
    pub fn new(rate: f64, seconds: f64, window: u64) -> Result<Self, String> {
        let usual = ParsedOptions::parse(&[], &[TARGETS, EFFORT, OUTPUT])?;
        Ok(Self {
            setup: MeasureOptions::read(&usual)?,
            spec: confirmed_spec(SMALL, rate, seconds, window),
            environment: HostEnvironment::read(),
        })
    }

    pub fn run(&self, target: &BenchmarkTarget) -> Result<ConfirmRun, String> {
        let outcome = execution::run(&self.spec, target, &self.setup, &|_, _| ())?;
        let run = run_results::runs(&self.spec, &outcome, &self.environment).swap_remove(0);
        let p99_us = Metric::LatencyUs("confirm".to_owned(), 0.99).of(&run);
        Ok(ConfirmRun { p99_us, invalid: invalid_reasons_of_run(&run) })
    }
}
