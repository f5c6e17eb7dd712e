//! Runs every scenario, size and repetition on all targets, interleaved.
//!
//! Every second run takes the targets in reverse order, so that none is always first. Rows are printed as they are measured.

use report::document::{LoopMode, MeasuredSeries, SeriesPoint};
use report::{Metric, OsuTable, ProgressLine, Yardstick, YardstickShare};

use super::benchmarks::{Benchmark, BenchmarkVariant};
use super::generator_ceiling;
use super::options::ClosedLoopOptions;
use harness::failure::CommandFailure;
use harness::launcher::stand_in_address;
use harness::measure_options::MeasureOptions;
use harness::role_protocol::{LoadSegment, TrafficShape};
use harness::role_tasks::RelayTask;
use harness::run_recorder::{RunRecorder, check_interrupted};
use harness::target::{BenchmarkTarget, TargetAddress};
use load::scenario::{RunningScenario, Scenario};

/// A benchmark in progress.
pub struct ClosedLoopRunner<'a> {
    benchmark: &'a Benchmark,
    options: &'a ClosedLoopOptions,
    setup: &'a MeasureOptions,
    targets: &'a [BenchmarkTarget],
    record: &'a mut RunRecorder,
    progress: ProgressLine,
    /// Runs done, and all runs.
    done: usize,
    all: usize,
}

impl<'a> ClosedLoopRunner<'a> {
    /// A runner for targets that are ready.
    pub fn new(
        benchmark: &'a Benchmark,
        options: &'a ClosedLoopOptions,
        setup: &'a MeasureOptions,
        targets: &'a [BenchmarkTarget],
        record: &'a mut RunRecorder,
    ) -> Self {
        let beside = usize::from(options.baseline) + 3 * usize::from(options.null) + usize::from(benchmark.is_raw);
        let all = options.variants.len() * options.sizes.len() * setup.runs * (targets.len() + beside);
        Self { benchmark, options, setup, targets, record, progress: ProgressLine::begin(), done: 0, all }
    }

    pub fn run(mut self) -> Result<(), CommandFailure> {
        let mut null = if self.options.null {
            Vec::from(BenchmarkTarget::null(&self.setup.placement.broker)?)
        } else {
            Vec::new()
        };
        null.iter_mut().try_for_each(|target| target.set_tcp(&self.setup.tcp))?;
        for (index, variant) in self.options.variants.iter().enumerate() {
            if index > 0 && self.record.output.format.is_incremental() {
                report::stdout::put("\n")?;
            }
            let relay = self.relay(&variant.scenario)?;
            let contestants: Vec<&BenchmarkTarget> = self.targets.iter().chain(&relay).chain(&null).collect();
            for target in &contestants {
                let known = &mut self.record.document.targets;
                if known.iter().all(|facts| facts.name != target.name) {
                    known.push(target.facts.clone());
                }
            }
            self.variant(variant, &contestants)?;
        }
        Ok(())
    }

    /// Starts the relay for a scenario, with the same fan-out.
    fn relay(&self, scenario: &Scenario) -> Result<Option<BenchmarkTarget>, String> {
        if !self.options.baseline && !self.benchmark.is_raw {
            return Ok(None);
        }
        let task = RelayTask {
            address: stand_in_address()?,
            spin_us: self.options.spin_us,
            consumers: scenario.consumers,
            tcp: scenario.tcp.clone(),
            tls: None,
        };
        BenchmarkTarget::relay_to(&task, &self.setup.placement.broker).map(Some)
    }

    /// The yardsticks beside the brokers, each with the metric it is compared by. The socket baseline is the yardstick of the load
    /// generator's ceilings.
    fn yardsticks(&self, contestants: &[&BenchmarkTarget]) -> Vec<Yardstick> {
        if self.benchmark.is_raw {
            return Vec::new();
        }
        let shares = |is_held: fn(&TargetAddress) -> bool, metric: &dyn Fn(&TargetAddress) -> Metric| {
            let each = contestants.iter().enumerate().filter(|(_, target)| is_held(&target.address));
            each.map(|(index, target)| YardstickShare { index, metric: metric(&target.address) }).collect::<Vec<_>>()
        };
        let of_brokers = |metric: Metric| {
            let shares = shares(|way| matches!(way, TargetAddress::Amqp(_)), &|_| metric.clone());
            (metric, shares)
        };
        let each = contestants.iter().enumerate();
        each.filter_map(|(index, target)| {
            let (metric, shares) = match &target.address {
                TargetAddress::Amqp(_) => return None,
                TargetAddress::RawRelay { .. } if self.options.shape == TrafficShape::PingPong => {
                    of_brokers(Metric::OneWayMeanUs("round_trip".to_owned()))
                }
                TargetAddress::RawRelay { .. } => of_brokers(Metric::MbPerS),
                way @ (TargetAddress::Sink(_) | TargetAddress::Source(_)) => of_brokers(generator_ceiling::metric(way)),
                TargetAddress::SocketBaseline(_) => {
                    let is_null =
                        |way: &TargetAddress| matches!(way, TargetAddress::Sink(_) | TargetAddress::Source(_));
                    (Metric::PublishedPerS, shares(is_null, &generator_ceiling::metric))
                }
            };
            Some(Yardstick { index, metric, shares })
        })
        .collect()
    }

    fn variant(&mut self, variant: &BenchmarkVariant, contestants: &[&BenchmarkTarget]) -> Result<(), CommandFailure> {
        let first = self.record.document.series.len();
        for target in contestants {
            self.record.document.series.push(MeasuredSeries {
                benchmark: self.benchmark.name.to_owned(),
                target: target.name.clone(),
                pace: LoopMode::Closed,
                parameters: variant.parameters.clone(),
                axis: "size_bytes".to_owned(),
                points: Vec::new(),
            });
        }
        let shown = &self.record.output;
        let table = if shown.format.is_incremental() {
            let series: Vec<&MeasuredSeries> = self.record.document.series[first..].iter().collect();
            let yardsticks = self.yardsticks(contestants);
            Some(OsuTable::begin_beside(&self.record.document, &series, yardsticks, shown.full)?)
        } else {
            None
        };
        let mut running = Vec::with_capacity(contestants.len());
        for target in contestants {
            check_interrupted()?;
            let started = RunningScenario::start(&variant.scenario, target, &self.setup.placement)
                .map_err(|why| format!("{}: {why}", target.name))?;
            running.push((target.name.clone(), started));
        }
        for &size_bytes in &self.options.sizes {
            self.progress(&format!("{size_bytes} bytes, trial"));
            self.size(size_bytes, first, contestants, &mut running)?;
            self.progress.clear();
            let series = &mut self.record.document.series[first..];
            let mut points: Vec<&mut SeriesPoint> =
                series.iter_mut().filter_map(|series| series.points.last_mut()).collect();
            let near = generator_ceiling::near_ceiling_warnings(contestants, &points);
            for (index, why) in &near {
                if let Some(run) = points.get_mut(*index).and_then(|point| point.runs.last_mut()) {
                    run.notes.push(why.clone());
                }
            }
            if let Some(table) = &table {
                let points: Vec<&SeriesPoint> = points.iter().map(|point| &**point).collect();
                table.row(&points)?;
                near.iter().try_for_each(|(_, why)| report::stdout::put(&format!("# {size_bytes}: {why}\n")))?;
            }
        }
        Ok(())
    }

    fn size(
        &mut self,
        size_bytes: usize,
        first: usize,
        contestants: &[&BenchmarkTarget],
        running: &mut [(String, RunningScenario)],
    ) -> Result<(), CommandFailure> {
        let shape = self.options.shape;
        let counts = self.options.length.counts(running, shape, size_bytes)?;
        let segment = LoadSegment { shape, size_bytes, count: counts.measured };
        for series in &mut self.record.document.series[first..] {
            series.points.push(SeriesPoint { at: size_bytes as f64, size_bytes: size_bytes as f64, runs: Vec::new() });
        }
        for run in 0..self.setup.runs {
            for position in 0..contestants.len() {
                check_interrupted()?;
                let index = if run % 2 == 0 { position } else { contestants.len() - 1 - position };
                let (name, running) = &mut running[index];
                self.progress(&format!("{size_bytes} bytes, run {} of {}, {name}", run + 1, self.setup.runs));
                let measured = running
                    .segment(&LoadSegment { count: counts.warm_up, ..segment })
                    .and_then(|_| running.segment(&segment))
                    .map_err(|why| format!("{name}, {size_bytes} bytes: {why}"))?;
                let mut run = measured.to_run();
                if matches!(contestants[index].address, TargetAddress::Amqp(_)) {
                    run.notes.extend(self.setup.tcp.queue_note(contestants[index].facts.product.as_deref()));
                } else {
                    // The clients themselves are measured here, so full clients are expected.
                    let faulty = measured.invalid_reason().is_some();
                    let kept = usize::from(faulty);
                    run.notes.extend(run.invalid.drain(kept..));
                }
                if let Some(point) = self.record.document.series[first + index].points.last_mut() {
                    point.runs.push(run);
                }
                self.done += 1;
            }
        }
        Ok(())
    }

    fn progress(&self, what: &str) {
        let share = self.done as f64 / self.all.max(1) as f64;
        self.progress.show(share, &format!("{}: {what}", self.benchmark.name));
    }
}
