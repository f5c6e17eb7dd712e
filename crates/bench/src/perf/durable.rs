//! The cost of a durable store: relative to the disk, to the same broker without a store, and to RabbitMQ.
//!
//! The goals are from the issue "Nothing confirmed is ever lost".

use std::path::Path;

use client::QueueOptions;
use report::Metric;
use report::document::MeasuredRun;

use super::PerfRun;
use super::broker_goals::{LARGE, SMALL, find_series, perf_contestant, ratio};
use super::confirm_runs::ConfirmRuns;
use super::declared_queues::DeclaredQueues;
use crate::limits::{
    PERF_DECLARED_QUEUES, PERF_FANOUT_MESSAGES, PERF_FLOOR_GROUPS, PERF_OPEN_RATE, PERF_OPEN_WINDOW,
    PERF_RECOVER_MEMORY_DIVISOR, PERF_RECOVER_MESSAGE_BYTES, PERF_RECOVER_WINDOW,
};
use crate::written_segment;
use gauge::RunValues;
use harness::placement::{CpuList, CpuPlacement};
use harness::role_protocol::{LoadSegment, TrafficShape};
use harness::target::BenchmarkTarget;
use load::interleaved::{PerfSeries, turns};
use load::perf_table::{GoalBound, PerfRow};
use load::scenario::{RunningScenario, Scenario, SegmentFigures};
use store::limits::{BLOCK_BYTES, GROUP_BYTES_MAX};

const KIB: usize = 1_024;
const WITH: &str = "with store";
const WITHOUT: &str = "without store";

/// Persistent messages with so many confirms in flight, and an acknowledgement for each hundred.
fn confirmed(window: u64, ack_every: u64) -> Scenario {
    Scenario { confirm_window: window, ack_every, durable: true, ..Scenario::default() }
}

pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: RunValues = values.into_iter().collect();
    values.summary().map(|summary| summary.median)
}

fn rates(all: &[PerfSeries]) -> String {
    all.iter().map(|series| format!("{} {:.0}/s", series.name, series.rate())).collect::<Vec<_>>().join(", ")
}

fn cpus(all: &[PerfSeries]) -> String {
    all.iter().map(|series| format!("{} {:.3} s/M", series.name, series.cpu())).collect::<Vec<_>>().join(", ")
}

/// The median of a value that not every run has.
fn median_of(series: &PerfSeries, metric: &Metric) -> Option<f64> {
    median(series.runs.iter().filter_map(|figures| metric.of(&figures.to_run())))
}

/// Messages in a group, groups a second and bytes a message.
fn groups(all: &[PerfSeries]) -> String {
    let Some(series) = find_series(all, WITH) else { return String::new() };
    let of = |metric: Metric| median_of(series, &metric).map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
    format!(
        "; {} messages a group, {} syncs/s, {} bytes of disk a message",
        of(Metric::StoreGroupMessages),
        of(Metric::StoreSyncsPerS),
        of(Metric::WrittenBytesPerMessage)
    )
}

/// What the disk allows, from groups written before and after a part.
struct DiskFloor {
    p50_us: f64,
    p99_us: f64,
    mb_per_s: f64,
}

impl DiskFloor {
    fn of(runs: &[MeasuredRun]) -> Option<Self> {
        let of = |metric: &Metric| median(runs.iter().filter_map(|run| metric.of(run)));
        let us = |quantile: f64| of(&Metric::LatencyUs("write".to_owned(), quantile));
        Some(Self { p50_us: us(0.5)?, p99_us: us(0.99)?, mb_per_s: of(&Metric::MbPerS)? })
    }
}

/// Messages that wait in this program's own broker when it is killed.
pub(crate) struct CrashBacklog<'a> {
    pub size_bytes: usize,
    pub count: u64,
    /// Messages without a confirm while they are published.
    pub window: u64,
    /// Where the broker's folder is made.
    pub dir: &'a Path,
    /// Options of the broker.
    pub options: &'a [String],
}

/// Measures filling and recovering such a backlog (`recover`).
pub(crate) type CrashMeasurement = fn(&CrashBacklog<'_>) -> Result<[MeasuredRun; 2], String>;

impl PerfRun {
    pub(super) fn durable(&mut self) -> Result<(), String> {
        let (with, without) = (self.with_store()?, self.without_store()?);
        self.confirmed_small(&with, &without)?;
        self.confirmed_larger(&with)?;
        self.confirm_latency(&with, &without)?;
        self.unconfirmed(&with)?;
        self.written_by_fanout(&with)?;
        drop((with, without));
        self.declared_queues()?;
        self.recovered(SMALL, (2.0, 1.0))?;
        self.recovered(KIB, (5.0, 2.0))
    }

    /// A fresh broker with a store.
    fn with_store(&self) -> Result<BenchmarkTarget, String> {
        let (command, options) = (self.broker_command.as_deref(), &self.broker_options);
        let mut target = BenchmarkTarget::embedded_with_state(command, options, &CpuList::default(), &self.dir)?;
        WITH.clone_into(&mut target.name);
        Ok(target)
    }

    /// A fresh broker without one.
    fn without_store(&self) -> Result<BenchmarkTarget, String> {
        let none = ["--state", "none"].map(str::to_owned);
        let options: Vec<String> = none.into_iter().chain(self.broker_options.iter().cloned()).collect();
        self.broker(WITHOUT, Some(&options))
    }

    fn floor(&self, bytes: usize) -> Result<MeasuredRun, String> {
        written_segment::floor(&self.dir, bytes, PERF_FLOOR_GROUPS)
    }

    fn confirmed_small(&mut self, with: &BenchmarkTarget, without: &BenchmarkTarget) -> Result<(), String> {
        let anywhere = CpuPlacement::default();
        let all = self.with_rabbit(|perf, rabbit| {
            let scenario = confirmed(1_000, 100);
            let mut contestants = vec![
                perf_contestant(WITH, with, scenario.clone()),
                perf_contestant(WITHOUT, without, scenario.clone()),
            ];
            contestants.extend(rabbit.map(|rabbit| perf_contestant("rabbitmq", rabbit, scenario)));
            perf.compared(&contestants, TrafficShape::Stream, SMALL, &anywhere)
        })?;
        self.row_with_aim(
            "durable, 64 B, confirms (1,000), acks each 100: rate, times RabbitMQ's durable classic queue",
            GoalBound::AtLeast(20.0),
            40.0,
            ratio(&all, WITH, "rabbitmq", PerfSeries::rate),
            rates(&all) + &groups(&all),
        );
        self.row_with_aim(
            "the same: broker CPU, times that without store",
            GoalBound::AtMost(1.8),
            1.4,
            ratio(&all, WITH, WITHOUT, PerfSeries::cpu),
            cpus(&all),
        );
        self.record_series("durable, 64 B, 1,000 in flight", all);
        let scenario = confirmed(20_000, 100);
        let contestants = [perf_contestant(WITH, with, scenario.clone()), perf_contestant(WITHOUT, without, scenario)];
        let all = self.compared(&contestants, TrafficShape::Stream, SMALL, &anywhere)?;
        self.row_with_aim(
            "durable, 64 B, 20,000 in flight: broker CPU, times that without store",
            GoalBound::AtMost(1.25),
            1.1,
            ratio(&all, WITH, WITHOUT, PerfSeries::cpu),
            format!("{}; {}{}", cpus(&all), rates(&all), groups(&all)),
        );
        self.record_series("durable, 64 B, 20,000 in flight", all);
        Ok(())
    }

    fn confirmed_larger(&mut self, with: &BenchmarkTarget) -> Result<(), String> {
        let anywhere = CpuPlacement::default();
        let all = self.with_rabbit(|perf, rabbit| {
            let mut contestants = vec![perf_contestant(WITH, with, confirmed(1_000, 100))];
            contestants.extend(rabbit.map(|rabbit| perf_contestant("rabbitmq", rabbit, confirmed(1_000, 100))));
            perf.compared(&contestants, TrafficShape::Stream, KIB, &anywhere)
        })?;
        self.row_with_aim(
            "durable, 1 KiB, confirms (1,000), acks each 100: rate, times RabbitMQ's",
            GoalBound::AtLeast(15.0),
            30.0,
            ratio(&all, WITH, "rabbitmq", PerfSeries::rate),
            rates(&all) + &groups(&all),
        );
        self.record_series("durable, 1 KiB, 1,000 in flight", all);
        let mut floors = vec![self.floor(GROUP_BYTES_MAX)?];
        let relay = BenchmarkTarget::relay(0, &CpuList::default())?;
        let contestants =
            [perf_contestant(WITH, with, confirmed(100, 10)), perf_contestant("relay", &relay, Scenario::default())];
        let all = self.compared(&contestants, TrafficShape::Stream, LARGE, &anywhere)?;
        floors.push(self.floor(GROUP_BYTES_MAX)?);
        let rate = |name: &str| find_series(&all, name).map(|series| series.median(SegmentFigures::mb_per_s));
        let floor = DiskFloor::of(&floors).map(|floor| floor.mb_per_s);
        let (stored, relayed) = (rate(WITH), rate("relay"));
        let least = floor.zip(relayed).map(|(floor, relayed)| floor.min(relayed));
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0} MB/s"));
        self.row_with_aim(
            "durable, 64 KiB, 100 in flight: MB/s, times the lesser of the disk's (1 MiB groups) and the relay's",
            GoalBound::AtLeast(0.5),
            0.7,
            stored.zip(least).map(|(stored, least)| stored / least),
            format!("{}, disk {}, relay {}{}", shown(stored), shown(floor), shown(relayed), groups(&all)),
        );
        self.record_series("durable, 64 KiB, 100 in flight", all);
        Ok(())
    }

    fn confirm_latency(&mut self, with: &BenchmarkTarget, without: &BenchmarkTarget) -> Result<(), String> {
        let mut floors = vec![self.floor(BLOCK_BYTES)?];
        let contestants =
            [perf_contestant(WITH, with, confirmed(1, 1)), perf_contestant(WITHOUT, without, confirmed(1, 1))];
        let all = self.compared(&contestants, TrafficShape::Stream, SMALL, &CpuPlacement::default())?;
        floors.push(self.floor(BLOCK_BYTES)?);
        let p50 = |name: &str| Some(find_series(&all, name)?.median(|figures| figures.confirms.quantile_us(0.5)));
        let floor = DiskFloor::of(&floors);
        self.confirm_row("durable, 64 B, one in flight", "p50", (1.8, 1.4), (p50(WITH), p50(WITHOUT)), {
            floor.as_ref().map(|floor| floor.p50_us)
        });
        self.record_series("durable, 64 B, one in flight", all);
        self.open_loop_latency(with, without)
    }

    /// (confirm with a store - confirm without) / what the disk alone takes.
    fn confirm_row(
        &mut self,
        what: &str,
        quantile: &str,
        (goal, aim): (f64, f64),
        (with_us, without_us): (Option<f64>, Option<f64>),
        floor_us: Option<f64>,
    ) {
        let us = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0} us"));
        let value = with_us.zip(without_us).zip(floor_us);
        self.row_with_aim(
            &format!("{what}: confirm {quantile}, less that without store, times the disk's"),
            GoalBound::AtMost(goal),
            aim,
            value.map(|((with_us, without_us), floor_us)| (with_us - without_us) / floor_us),
            format!("{WITH} {}, {WITHOUT} {}, disk {}", us(with_us), us(without_us), us(floor_us)),
        );
    }

    fn open_loop_latency(&mut self, with: &BenchmarkTarget, without: &BenchmarkTarget) -> Result<(), String> {
        let confirms = ConfirmRuns::new(PERF_OPEN_RATE, self.effort.seconds, PERF_OPEN_WINDOW)?;
        let (mut floors, mut p99s_us, mut problems) =
            (vec![self.floor(BLOCK_BYTES)?], [Vec::new(), Vec::new()], Vec::new());
        for run in 0..self.effort.runs {
            for index in turns(run, 2) {
                let target = [with, without][index];
                let of_run = confirms.run(target)?;
                p99s_us[index].extend(of_run.p99_us);
                problems.extend(of_run.invalid.into_iter().map(|why| format!("{}: {why}", target.name)));
            }
            floors.push(self.floor(BLOCK_BYTES)?);
        }
        let [with_us, without_us] = p99s_us.map(median);
        let floor_us = DiskFloor::of(&floors).map(|floor| floor.p99_us);
        let what = "durable, 64 B, 100,000 messages/s in open loop";
        self.confirm_row(what, "p99", (4.0, 2.5), (with_us, without_us), floor_us);
        if let (Some(row), Some(why)) = (self.record.rows.last_mut(), problems.first()) {
            row.add_detail(&format!("INVALID: {why}"));
        }
        Ok(())
    }

    /// Without confirms, and with consumers that keep up, little is written.
    fn unconfirmed(&mut self, with: &BenchmarkTarget) -> Result<(), String> {
        let scenario = |durable: bool| Scenario { ack_every: 100, durable, ..Scenario::default() };
        let contestants =
            [perf_contestant(WITH, with, scenario(true)), perf_contestant("transient", with, scenario(false))];
        let all = self.compared(&contestants, TrafficShape::Stream, SMALL, &CpuPlacement::default())?;
        self.row_with_aim(
            "durable, 64 B without confirms, acks each 100: rate, times transient messages'",
            GoalBound::AtLeast(0.85),
            0.95,
            ratio(&all, WITH, "transient", PerfSeries::rate),
            format!("{}; {}{}", rates(&all), cpus(&all), groups(&all)),
        );
        self.record_series("durable, 64 B, without confirms", all);
        Ok(())
    }

    /// Consumers acknowledge at the end only, so that everything is written.
    fn written_by_fanout(&mut self, with: &BenchmarkTarget) -> Result<(), String> {
        let mut bytes = [Vec::new(), Vec::new()];
        for _run in 0..self.effort.runs {
            for (bytes, consumers) in bytes.iter_mut().zip([1, 32]) {
                let scenario = Scenario {
                    confirm_window: 1_000,
                    ack_every: 2 * PERF_FANOUT_MESSAGES,
                    durable: true,
                    ..Scenario::fanout(consumers)
                };
                let mut running = RunningScenario::start(&scenario, with, &CpuPlacement::default())?;
                let count = PERF_FANOUT_MESSAGES;
                let segment = LoadSegment { shape: TrafficShape::Stream, size_bytes: KIB, count };
                let figures = running.segment(&segment)?;
                bytes.extend(figures.store.usage.map(|usage| usage.bytes as f64 / figures.published as f64));
            }
        }
        let [one, many] = bytes.map(median);
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
        self.row_with_aim(
            "durable, 1 KiB to 32 queues: bytes written, times one queue's",
            GoalBound::AtMost(1.2),
            1.1,
            many.zip(one).map(|(many, one)| many / one),
            format!("{} bytes a message to 32 queues, {} to one", shown(many), shown(one)),
        );
        Ok(())
    }

    fn declared_queues(&mut self) -> Result<(), String> {
        let mut seconds = [Vec::new(), Vec::new()];
        for run in 0..self.effort.runs {
            for index in turns(run, 2) {
                let target = if index == 0 { self.with_store()? } else { self.without_store()? };
                let durable = QueueOptions { durable: true, ..QueueOptions::default() };
                let declared = DeclaredQueues::declare(&target, PERF_DECLARED_QUEUES, &durable)?;
                seconds[index].push(declared.seconds);
                declared.close()?;
            }
        }
        let [with_s, without_s] = seconds.map(median);
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2} s"));
        self.row_with_aim(
            "100,000 durable queues declared by one client (no-wait): time, times that without store",
            GoalBound::AtMost(1.5),
            1.2,
            with_s.zip(without_s).map(|(with_s, without_s)| with_s / without_s),
            format!("{WITH} {}, {WITHOUT} {}", shown(with_s), shown(without_s)),
        );
        Ok(())
    }

    /// A broker that is killed with messages waiting.
    fn recovered(&mut self, size_bytes: usize, (goal_s, aim_s): (f64, f64)) -> Result<(), String> {
        /// The number of messages that the goal is for.
        const GOAL_MESSAGES: u64 = 10_000_000;
        let memory_bytes = self.record.environment.memory_mib << 20;
        let fitting = memory_bytes / PERF_RECOVER_MEMORY_DIVISOR / (size_bytes as u64 + PERF_RECOVER_MESSAGE_BYTES);
        let count = self.recover_messages.min(fitting.max(1));
        let (dir, options) = (&self.dir, &self.broker_options);
        let backlog = CrashBacklog { size_bytes, count, window: PERF_RECOVER_WINDOW, dir, options };
        let what = format!("killed with {count} x {size_bytes} B waiting: s from the start to the first delivery");
        let [filled, recovered] = match (self.measure_crash)(&backlog) {
            Ok(runs) => runs,
            // A backlog may be larger than what the broker takes here.
            Err(why) => {
                self.record.rows.push(PerfRow::new(&what, GoalBound::AtMost(goal_s), None, why));
                return Ok(());
            }
        };
        let first_s = Metric::FirstDeliveryS.of(&recovered);
        let shown = |metric: Metric, run: &MeasuredRun| {
            metric.of(run).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
        };
        let detail = format!(
            "filled at {} msg/s, listens after {} s, drained at {} msg/s; lost {}, doubled {}, redelivered {}",
            shown(Metric::PublishedPerS, &filled),
            shown(Metric::ListeningS, &recovered),
            shown(Metric::DeliveredPerS, &recovered),
            recovered.faults.lost,
            recovered.faults.duplicates,
            shown(Metric::RedeliveredMessages, &recovered)
        );
        if count == GOAL_MESSAGES {
            self.row_with_aim(&what, GoalBound::AtMost(goal_s), aim_s, first_s, detail);
        } else {
            self.row(&what, GoalBound::Nothing, first_s, detail);
        }
        Ok(())
    }
}
