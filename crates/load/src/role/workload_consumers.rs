//! The consumer role of a workload: many connections on one thread, each consuming as its group does.
//!
//! A busy consumer reads nothing: its messages wait in the socket and then in the broker.

mod workload_consumer;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use gauge::clock::now_ns;
use mio::unix::SourceFd;
use mio::{Events, Interest, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use self::workload_consumer::WorkloadConsumer;
use super::worker_thread::{self, ScheduledMeter, TIMER_TOKEN, WorkerContext};
use crate::limits::{IDLE_POLL_INTERVAL, SWEEP_IDLE_WAIT};
use crate::workload::delivery_ledger::{DeliveryLedger, MessageSetSum};
use crate::workload::process_messages::{
    ConsumerGroupReport, WorkloadCommand, WorkloadConsumerReport, WorkloadConsumerTask,
};
use crate::workload::topology::WorkloadTopology;
use harness::command_reader::CommandReader;

/// State shared by all consumers of the process.
struct ConsumerContext {
    task: WorkloadConsumerTask,
    /// One for each queue of the workload; only those consumed here are used.
    ledgers: Vec<DeliveryLedger>,
    groups: BTreeMap<usize, ConsumerGroupReport>,
    measured_from_ns: u64,
    end_ns: u64,
    /// All publishers have finished: outstanding deliveries are acknowledged.
    closing: bool,
    /// The drain time is over: think times no longer apply.
    sweeping: bool,
    last_ns: u64,
}

struct WorkloadConsumerProcess {
    context: ConsumerContext,
    consumers: Vec<WorkloadConsumer>,
    queues: Vec<usize>,
    /// When busy consumers finish, the earliest first.
    busy: BinaryHeap<Reverse<(u64, usize)>>,
    timer: TimerFd,
    worker: WorkerContext,
}

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let task: WorkloadConsumerTask = commands.task()?;
    worker_thread::run(commands, move |worker| WorkloadConsumerProcess::connect(task, worker)?.run())
}

impl WorkloadConsumerProcess {
    fn connect(task: WorkloadConsumerTask, worker: WorkerContext) -> Result<Self, String> {
        let topology = WorkloadTopology::of(&task.common.spec);
        let mut consumers = Vec::new();
        let mut queues = Vec::new();
        for &group in &task.groups {
            for number in 0..task.common.spec.consumers[group].count {
                let token = Token(consumers.len());
                let consumer =
                    WorkloadConsumer::connect(&task.common, &topology, (group, number), worker.poll.registry(), token)
                        .map_err(|error| error.to_string())?;
                queues.push(consumer.queue());
                consumers.push(consumer);
            }
        }
        queues.sort_unstable();
        queues.dedup();
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)
            .map_err(|error| format!("no timer: {error}"))?;
        worker
            .poll
            .registry()
            .register(&mut SourceFd(&timer.as_fd().as_raw_fd()), TIMER_TOKEN, Interest::READABLE)
            .map_err(|error| format!("no timer: {error}"))?;
        let streams = task.common.spec.streams();
        let context = ConsumerContext {
            ledgers: (0..topology.queues.len())
                .map(|queue| {
                    if queues.binary_search(&queue).is_ok() {
                        DeliveryLedger::new(streams)
                    } else {
                        DeliveryLedger::default()
                    }
                })
                .collect(),
            groups: task.groups.iter().map(|&group| (group, ConsumerGroupReport::default())).collect(),
            measured_from_ns: 0,
            end_ns: 0,
            closing: false,
            sweeping: false,
            last_ns: 0,
            task,
        };
        harness::role_protocol::report(&harness::role_protocol::RoleReport::Ready { port: 0 })?;
        Ok(Self { context, consumers, queues, busy: BinaryHeap::new(), timer, worker })
    }

    fn run(mut self) -> Result<(), String> {
        let WorkloadCommand::Begin { begin_ns } = self.worker.first_command()? else {
            return Err("received `Expect` before `Begin`".to_owned());
        };
        let spec = &self.context.task.common.spec;
        let (duration_ns, drain_ns) = (spec.duration_ns, spec.drain_ns);
        self.context.measured_from_ns = begin_ns + spec.warm_up_ns;
        self.context.end_ns = begin_ns + duration_ns;
        let metering = ScheduledMeter::between(self.context.measured_from_ns, self.context.end_ns);
        let mut events = Events::with_capacity(1_024);
        let mut expected: Option<Vec<MessageSetSum>> = None;
        let mut sweep_at_ns = u64::MAX;
        let mut checked_ns = now_ns();
        // There is no edge for data that arrived before the consumers were registered.
        self.process_all()?;
        loop {
            if let Some(expected) = &expected {
                let time_ns = now_ns();
                if self.is_complete(expected) {
                    break;
                }
                if time_ns >= sweep_at_ns && !self.context.sweeping {
                    self.context.sweeping = true;
                    self.context.last_ns = time_ns;
                    self.process_all()?;
                }
                if self.context.sweeping && time_ns > self.context.last_ns + SWEEP_IDLE_WAIT.as_nanos() as u64 {
                    break;
                }
            }
            if self.worker.disconnected {
                return Ok(());
            }
            let wake_ns = self.busy.peek().map_or(u64::MAX, |Reverse((until_ns, _))| *until_ns).min(sweep_at_ns);
            if wake_ns < u64::MAX {
                self.wake_at(wake_ns)?;
            }
            match self.worker.poll.poll(&mut events, Some(IDLE_POLL_INTERVAL)) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other.map_err(|error| format!("the poll failed: {error}"))?,
            }
            for event in &events {
                match event.token() {
                    TIMER_TOKEN => {}
                    worker_thread::COMMAND_TOKEN => {
                        while let Some(command) = self.worker.next_command() {
                            if let WorkloadCommand::Expect { queues } = command {
                                expected = Some(queues);
                                self.context.closing = true;
                                sweep_at_ns = now_ns().max(self.context.end_ns) + drain_ns;
                            }
                        }
                        self.process_all()?;
                    }
                    Token(index) => self.process(index)?,
                }
            }
            self.finish_work()?;
            let time_ns = now_ns();
            if time_ns.saturating_sub(checked_ns) > IDLE_POLL_INTERVAL.as_nanos() as u64 {
                checked_ns = time_ns;
                for consumer in &mut self.consumers {
                    consumer.keep_alive(&self.context).map_err(|error| error.to_string())?;
                }
                self.process_all()?;
            }
        }
        self.report(&expected.unwrap_or_default(), metering)
    }

    fn process_all(&mut self) -> Result<(), String> {
        (0..self.consumers.len()).try_for_each(|index| self.process(index))
    }

    fn process(&mut self, index: usize) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        if let Some(until_ns) = consumer.process(&mut self.context).map_err(|error| error.to_string())? {
            self.busy.push(Reverse((until_ns, index)));
        }
        Ok(())
    }

    /// Consumers whose think time is over finish their message and take the next one.
    fn finish_work(&mut self) -> Result<(), String> {
        while let Some(&Reverse((until_ns, index))) = self.busy.peek() {
            if until_ns > now_ns() && !self.context.sweeping {
                break;
            }
            self.busy.pop();
            self.consumers[index].finish(&mut self.context).map_err(|error| error.to_string())?;
            self.process(index)?;
        }
        Ok(())
    }

    fn is_complete(&self, expected: &[MessageSetSum]) -> bool {
        self.queues.iter().all(|&queue| self.context.ledgers[queue].done_count() >= expected[queue].count)
    }

    fn wake_at(&self, until_ns: u64) -> Result<(), String> {
        let at = TimeSpec::from_duration(Duration::from_nanos(until_ns.max(1)));
        self.timer
            .set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            .map_err(|error| format!("the timer cannot be set: {error}"))
    }

    fn report(self, expected: &[MessageSetSum], metering: ScheduledMeter) -> Result<(), String> {
        let census = |queue: usize| expected.get(queue).copied().unwrap_or_default();
        let ledgers = &self.context.ledgers;
        let taken = WorkloadConsumerReport {
            groups: self.context.groups,
            faults: self.queues.iter().map(|&queue| (queue, ledgers[queue].faults(census(queue)))).collect(),
            redelivered: self.queues.iter().map(|&queue| ledgers[queue].redelivered()).sum(),
            last_ns: self.context.last_ns,
            used: metering.finish()?,
        };
        worker_thread::report_results(&taken)?;
        self.consumers.into_iter().try_for_each(WorkloadConsumer::close).map_err(|error| error.to_string())
    }
}
