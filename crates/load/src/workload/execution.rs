//! Executes one run of a workload on one target: starts the processes, meters the broker and collects the reports.

use std::time::Duration;

use gauge::RoleUsage;
use gauge::clock::{Deadline, now_ns, pause};
use nix::sys::resource::{Resource, getrlimit};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::declared_topology::DeclaredTopology;
use super::delivery_ledger::MessageSetSum;
use super::process_messages::{
    WorkloadCommand, WorkloadConsumerReport, WorkloadConsumerTask, WorkloadContext, WorkloadPublisherReport,
    WorkloadPublisherTask,
};
use super::spec::{QueueSource, WorkloadSpec};
use super::topology::WorkloadTopology;
use crate::limits::{BEGIN_LEAD, REPORT_WAIT, SWEEP_IDLE_WAIT};
use harness::interrupt;
use harness::launcher;
use harness::limits::ROLE_READY_WAIT;
use harness::measure_options::MeasureOptions;
use harness::placement::{CpuList, CpuPlacement, PinnedProcess};
use harness::role_handle::RoleHandle;
use harness::role_protocol::RoleReport;
use harness::store_meter::StoreReading;
use harness::target::{BenchmarkTarget, TargetAddress};
use harness::target_meter::TargetMeter;

/// Interval between polls of the processes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The outcome of one run.
pub struct WorkloadOutcome {
    /// When the measured part started and was to end.
    pub measured_from_ns: u64,
    pub end_ns: u64,
    /// The report of each publishing process, with its group.
    pub publishers: Vec<(usize, WorkloadPublisherReport)>,
    /// The reports of the consuming processes.
    pub consumers: Vec<WorkloadConsumerReport>,
    pub broker: Option<RoleUsage>,
    /// What its store has written.
    pub store: StoreReading,
}

/// Shows the progress of a run: a share of the whole and a text.
pub type ProgressCallback<'a> = dyn Fn(f64, &str) + 'a;

/// A process and its report, once it has arrived.
struct WorkloadProcess {
    role: RoleHandle,
    /// The group of a publishing process.
    group: usize,
    report: Option<RoleReport>,
}

/// The connected processes of a workload.
struct WorkloadProcesses {
    publishers: Vec<WorkloadProcess>,
    consumers: Vec<WorkloadProcess>,
    // Dropped after the processes: queues are deleted when they have no consumers any more.
    _placed: Option<PinnedProcess>,
    stage: DeclaredTopology,
}

pub fn run(
    spec: &WorkloadSpec,
    target: &BenchmarkTarget,
    setup: &MeasureOptions,
    show: &ProgressCallback<'_>,
) -> Result<WorkloadOutcome, String> {
    launcher::one_clock().map_err(|error_ns| {
        format!(
            "intended times are of one clock, and those of these hosts differ by up to {error_ns} ns: \
             run open loops and workloads with all ranks on one host"
        )
    })?;
    let TargetAddress::Amqp(url) = &target.address else { return Err("a workload needs a broker".to_owned()) };
    let run = now_ns() as u32 ^ std::process::id().rotate_left(16);
    let common = WorkloadContext {
        url: url.clone(),
        prefix: format!("hw{run:x}"),
        run,
        check: setup.checks,
        queue_bytes: setup.tcp.queue_bytes,
        spec: spec.clone(),
    };
    show(0.0, "connecting");
    let play = || {
        let mut processes = WorkloadProcesses::start(&common, target, &setup.placement)?;
        // The run itself reports its failure.
        run_processes(&common, target, &mut processes, show).inspect_err(|_| processes.stage.tolerate_missing_broker())
    };
    // Sockets are closed a moment before their process ends.
    play().map_err(|why| match target.exits_within(POLL_INTERVAL) {
        true => format!("{}: the broker ended during the run ({why})", target.name),
        false => format!("{}: {why}", target.name),
    })
}

fn run_processes(
    common: &WorkloadContext,
    target: &BenchmarkTarget,
    processes: &mut WorkloadProcesses,
    show: &ProgressCallback<'_>,
) -> Result<WorkloadOutcome, String> {
    let spec = &common.spec;
    let mut meter = TargetMeter::of(target)?.with_store(target, spec.durable);
    let begin_ns = now_ns() + BEGIN_LEAD.as_nanos() as u64;
    processes.send_command(&WorkloadCommand::Begin { begin_ns })?;
    let (measured_from_ns, end_ns) = (begin_ns + spec.warm_up_ns, begin_ns + spec.duration_ns);
    let broker = meter_until_end(&mut meter, processes, (begin_ns, measured_from_ns, end_ns), show)?;
    let store = meter.store();
    show(1.0, "waiting for the last messages");
    let wait = REPORT_WAIT + Duration::from_nanos(spec.drain_ns);
    processes.await_reports(wait, |processes| &mut processes.publishers)?;
    let mut sent = Vec::with_capacity(processes.publishers.len());
    for process in &mut processes.publishers {
        sent.push((process.group, collect::<WorkloadPublisherReport>(process)?));
    }
    let mut expected = vec![MessageSetSum::default(); sent.first().map_or(0, |(_, sent)| sent.expected.len())];
    for (_, sent) in &sent {
        expected.iter_mut().zip(&sent.expected).for_each(|(sum, one)| sum.merge(*one));
    }
    for process in &mut processes.consumers {
        process.role.send_command(&WorkloadCommand::Expect { queues: expected.clone() })?;
    }
    // After the drain time, consumers read what is left without thinking, as long as anything arrives.
    processes.await_reports(wait + SWEEP_IDLE_WAIT + Duration::from_nanos(spec.duration_ns), |processes| {
        &mut processes.consumers
    })?;
    let taken = processes.consumers.iter_mut().map(collect::<WorkloadConsumerReport>).collect::<Result<Vec<_>, _>>()?;
    Ok(WorkloadOutcome { measured_from_ns, end_ns, publishers: sent, consumers: taken, broker, store })
}

fn collect<T: DeserializeOwned>(process: &mut WorkloadProcess) -> Result<T, String> {
    match process.report.take() {
        Some(RoleReport::Results(value)) => {
            serde_json::from_value(value).map_err(|error| format!("invalid report: {error}"))
        }
        other => Err(format!("a role of the workload answered {other:?} instead of its results")),
    }
}

/// Waits until the end and meters the broker after the warm-up. A failed role ends the run at once.
fn meter_until_end(
    broker: &mut TargetMeter,
    processes: &mut WorkloadProcesses,
    (begin_ns, measured_from_ns, end_ns): (u64, u64, u64),
    show: &ProgressCallback<'_>,
) -> Result<Option<RoleUsage>, String> {
    let mut until = |time_ns: u64| -> Result<bool, String> {
        let share = now_ns().saturating_sub(begin_ns) as f64 / (end_ns - begin_ns).max(1) as f64;
        show(share.min(1.0), "running");
        processes.poll_reports()?;
        let left = Duration::from_nanos(time_ns.saturating_sub(now_ns()));
        pause(left.min(POLL_INTERVAL));
        Ok(left <= POLL_INTERVAL)
    };
    while !until(measured_from_ns)? {}
    broker.begin()?;
    while !until(end_ns)? {
        broker.sample();
    }
    broker.end()
}

impl WorkloadProcess {
    fn start<T: Serialize>(kind: &str, task: &T, cpus: &CpuList, group: usize) -> Result<Self, String> {
        Ok(Self { role: RoleHandle::start(kind, task, cpus)?, group, report: None })
    }
}

impl WorkloadProcesses {
    fn start(common: &WorkloadContext, target: &BenchmarkTarget, placement: &CpuPlacement) -> Result<Self, String> {
        let spec = &common.spec;
        check_descriptors(spec)?;
        let topology = WorkloadTopology::of(spec);
        let placed = target.pin(placement)?;
        let stage = DeclaredTopology::create(common, &topology)?;
        let mut processes = Self { publishers: Vec::new(), consumers: Vec::new(), _placed: placed, stage };
        for groups in processes_of_consumers(spec) {
            let task = WorkloadConsumerTask { common: common.clone(), groups };
            processes.consumers.push(WorkloadProcess::start("workload-consumer", &task, &placement.consumer, 0)?);
        }
        for process in &mut processes.consumers {
            process.role.ready(ROLE_READY_WAIT)?;
        }
        for (group, publishers) in spec.publishers.iter().enumerate() {
            for process in 0..publishers.processes {
                let bound = |process: usize| publishers.count * process / publishers.processes;
                let task = WorkloadPublisherTask {
                    common: common.clone(),
                    group,
                    from: bound(process),
                    to: bound(process + 1),
                };
                processes.publishers.push(WorkloadProcess::start(
                    "workload-publisher",
                    &task,
                    &placement.publisher,
                    group,
                )?);
            }
        }
        for process in &mut processes.publishers {
            process.role.ready(ROLE_READY_WAIT)?;
        }
        Ok(processes)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut WorkloadProcess> {
        self.publishers.iter_mut().chain(&mut self.consumers)
    }

    fn send_command(&mut self, order: &WorkloadCommand) -> Result<(), String> {
        self.all().try_for_each(|process| process.role.send_command(order))
    }

    /// Collects reports; a failed role is an error.
    fn poll_reports(&mut self) -> Result<(), String> {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        for process in self.all().filter(|process| process.report.is_none()) {
            process.report = process.role.report_within(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Waits until some of the roles have reported; fails if another one fails meanwhile.
    fn await_reports(
        &mut self,
        wait: Duration,
        of: impl Fn(&mut Self) -> &mut Vec<WorkloadProcess>,
    ) -> Result<(), String> {
        let deadline = Deadline::after(wait);
        loop {
            self.poll_reports()?;
            let Some(process) = of(self).iter_mut().find(|process| process.report.is_none()) else { return Ok(()) };
            if deadline.passed() {
                return Err(format!("no report of the workload's processes within {} s", wait.as_secs()));
            }
            process.report = process.role.report_within(POLL_INTERVAL)?;
        }
    }
}

/// One process per group of consumers. Groups with a shared queue share a process, which can then tell duplicates from requeued
/// messages.
fn processes_of_consumers(spec: &WorkloadSpec) -> Vec<Vec<usize>> {
    let mut processes: Vec<Vec<usize>> = Vec::new();
    for (group, consumers) in spec.consumers.iter().enumerate() {
        let with = match consumers.from {
            QueueSource::Shared(_) => processes
                .iter()
                .position(|groups| groups.iter().any(|&other| spec.consumers[other].from == consumers.from)),
            QueueSource::Own { .. } => None,
        };
        match with {
            Some(process) => processes[process].push(group),
            None => processes.push(vec![group]),
        }
    }
    processes
}

/// Checks that every process may open as many connections as it needs.
fn check_descriptors(spec: &WorkloadSpec) -> Result<(), String> {
    const OTHERS: usize = 64;
    let most = spec
        .publishers
        .iter()
        .map(|group| group.count.div_ceil(group.processes))
        .chain(processes_of_consumers(spec).iter().map(|groups| groups.iter().map(|&g| spec.consumers[g].count).sum()))
        .max()
        .unwrap_or(0);
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("the limit of open files: {error}"))?;
    if (most + OTHERS) as u64 > hard {
        return Err(format!(
            "one process of this workload has {most} connections, and the limit of open files is {hard}: raise it (ulimit -Hn), \
             or spread publishers over 'processes'"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::shipped;

    #[test]
    fn groups_that_share_a_queue_share_a_process() {
        let (_, mut spec) = shipped::all().into_iter().find(|(name, _)| *name == "task-queue").expect("it is shipped");
        let mut other = spec.consumers[0].clone();
        "slow-workers".clone_into(&mut other.name);
        spec.consumers.push(other);
        assert_eq!(processes_of_consumers(&spec), [[0, 1]]);
        let (_, spec) = shipped::all().into_iter().find(|(name, _)| *name == "market-data").expect("it is shipped");
        assert_eq!(processes_of_consumers(&spec), [[0], [1], [2], [3]]);
    }

    #[test]
    fn too_few_descriptors_are_reported_before_the_start() {
        let (_, mut spec) = shipped::all().remove(0);
        assert_eq!(check_descriptors(&spec), Ok(()));
        spec.publishers[0].count = 1 << 30;
        let why = check_descriptors(&spec).expect_err("nobody has that many");
        assert!(why.contains("ulimit"), "{why}");
    }
}
