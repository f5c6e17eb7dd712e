//! The publisher role of a workload: many connections on one thread, each message sent at its intended time.
//!
//! A publisher waits for nothing before it sends the next message, except for a confirm window if the workload has one.

mod workload_publisher;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use gauge::clock::now_ns;
use mio::unix::SourceFd;
use mio::{Events, Interest, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use self::workload_publisher::{SendReadiness, WorkloadPublisher};
use super::worker_thread::{self, ScheduledMeter, TIMER_TOKEN, WorkerContext};
use crate::limits::{IDLE_POLL_INTERVAL, SENDS_PER_TURN_MAX};
use crate::workload::delivery_ledger::MessageSetSum;
use crate::workload::message_stamp::pattern;
use crate::workload::pacer::{PacerAction, SendPacer};
use crate::workload::process_messages::{WorkloadCommand, WorkloadPublisherReport, WorkloadPublisherTask};
use crate::workload::random;
use crate::workload::random::SymbolDistribution;
use crate::workload::topology::{RoutingKeys, WorkloadTopology};
use harness::command_reader::CommandReader;

/// State shared by all publishers of the process.
struct PublisherContext {
    task: WorkloadPublisherTask,
    keys: RoutingKeys,
    symbols: SymbolDistribution,
    exchange: String,
    /// The fill pattern of bodies, as long as the largest one.
    pattern: Vec<u8>,
    begin_ns: u64,
    end_ns: u64,
    measured_from_ns: u64,
}

struct WorkloadPublisherProcess {
    context: PublisherContext,
    publishers: Vec<WorkloadPublisher>,
    /// Publishers waiting for their next send time, the earliest first.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Publishers with unflushed messages.
    written: Vec<usize>,
    results: WorkloadPublisherReport,
    pacer: SendPacer,
    timer: TimerFd,
    worker: WorkerContext,
    /// Whether answers or confirms are expected.
    expects_replies: bool,
    /// When all publishers were last polled.
    checked_ns: u64,
    /// The report is sent; further input is discarded.
    finished: bool,
}

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let task: WorkloadPublisherTask = commands.task()?;
    worker_thread::run(commands, move |worker| WorkloadPublisherProcess::connect(task, worker)?.run())
}

impl WorkloadPublisherProcess {
    fn connect(task: WorkloadPublisherTask, worker: WorkerContext) -> Result<Self, String> {
        let spec = &task.common.spec;
        let group = &spec.publishers[task.group];
        let topology = WorkloadTopology::of(spec);
        let keys = RoutingKeys::of(spec, &topology, task.group, task.from, task.to);
        if group.reply_exchange.is_some()
            && let Some((key, count)) = keys.without_one_answer(&topology)
        {
            return Err(format!("a request with the key '{key}' reaches {count} queues that answer, instead of one"));
        }
        let context = PublisherContext {
            keys,
            symbols: SymbolDistribution::new(group.popularity, group.symbols)?,
            exchange: task.common.exchange(group.exchange),
            pattern: pattern(random::size_max(&group.size)),
            begin_ns: 0,
            end_ns: 0,
            measured_from_ns: 0,
            task,
        };
        let expected = vec![MessageSetSum::default(); topology.queues.len()];
        let results = WorkloadPublisherReport { expected, ..WorkloadPublisherReport::default() };
        let group = &context.task.common.spec.publishers[context.task.group];
        let share = (context.task.to - context.task.from) as f64 / group.count as f64;
        let pacer = SendPacer::for_rate(group.rate.peak() * share);
        let expects_replies = group.reply_exchange.is_some() || group.confirms > 0;
        let mut publishers = Vec::with_capacity(context.task.to - context.task.from);
        for number in context.task.from..context.task.to {
            let token = Token(publishers.len());
            publishers.push(
                WorkloadPublisher::connect(&context.task, number, worker.poll.registry(), token)
                    .map_err(|error| error.to_string())?,
            );
        }
        let timer = timer().map_err(|error| format!("no timer: {error}"))?;
        worker
            .poll
            .registry()
            .register(&mut SourceFd(&timer.as_fd().as_raw_fd()), TIMER_TOKEN, Interest::READABLE)
            .map_err(|error| format!("no timer: {error}"))?;
        harness::role_protocol::report(&harness::role_protocol::RoleReport::Ready { port: 0 })?;
        Ok(Self {
            context,
            publishers,
            due: BinaryHeap::new(),
            written: Vec::new(),
            results,
            pacer,
            timer,
            worker,
            expects_replies,
            checked_ns: now_ns(),
            finished: false,
        })
    }

    fn run(mut self) -> Result<(), String> {
        let WorkloadCommand::Begin { begin_ns } = self.worker.first_command()? else {
            return Err("received `Expect` before `Begin`".to_owned());
        };
        let spec = &self.context.task.common.spec;
        self.context.begin_ns = begin_ns;
        self.context.end_ns = begin_ns + spec.duration_ns;
        self.context.measured_from_ns = begin_ns + spec.warm_up_ns;
        let give_up_ns = self.context.end_ns + spec.drain_ns;
        let metering = ScheduledMeter::between(self.context.measured_from_ns, self.context.end_ns);
        for (index, publisher) in self.publishers.iter_mut().enumerate() {
            if let Some(due_ns) = publisher.plan(&self.context) {
                self.due.push(Reverse((due_ns, index)));
            }
        }
        let mut events = Events::with_capacity(1_024);
        loop {
            let mut time_ns = now_ns();
            time_ns = self.send_due(time_ns)?;
            if self.is_finished() || time_ns >= give_up_ns || self.worker.disconnected {
                break;
            }
            let next_ns = self.due.peek().map_or(give_up_ns, |Reverse((due_ns, _))| *due_ns).min(give_up_ns);
            let timeout = match self.pacer.step(time_ns, next_ns) {
                // With replies expected, poll for them while spinning, since an unread one would look older than it is.
                PacerAction::Spin if !self.expects_replies => continue,
                PacerAction::Spin | PacerAction::Send => Duration::ZERO,
                PacerAction::Sleep(until_ns) => {
                    self.wake_at(until_ns)?;
                    IDLE_POLL_INTERVAL
                }
            };
            match self.worker.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other.map_err(|error| format!("the poll failed: {error}"))?,
            }
            self.process_events(&events)?;
        }
        self.finish(metering)
    }

    /// Sends every due message that fits, flushes, and returns the time afterwards.
    fn send_due(&mut self, mut time_ns: u64) -> Result<u64, String> {
        let mut count = 0;
        while let Some(&Reverse((due_ns, index))) = self.due.peek() {
            if due_ns > time_ns || count == SENDS_PER_TURN_MAX {
                break;
            }
            count += 1;
            let publisher = &mut self.publishers[index];
            if publisher.readiness(&self.context) == SendReadiness::None {
                publisher.stall(time_ns);
                self.due.pop();
                continue;
            }
            if publisher.is_clean() {
                self.written.push(index);
            }
            time_ns = now_ns();
            publisher.send(&self.context, time_ns, &mut self.results).map_err(|error| error.to_string())?;
            let next = publisher.plan(&self.context);
            if let Some(mut top) = self.due.peek_mut() {
                match next {
                    Some(next_ns) => *top = Reverse((next_ns, index)),
                    None => _ = std::collections::binary_heap::PeekMut::pop(top),
                }
            }
        }
        for index in self.written.drain(..) {
            self.publishers[index].flush().map_err(|error| error.to_string())?;
        }
        Ok(if count > 0 { now_ns() } else { time_ns })
    }

    /// Handles the events of the poll.
    fn process_events(&mut self, events: &Events) -> Result<(), String> {
        for event in events {
            match event.token() {
                TIMER_TOKEN => {}
                worker_thread::COMMAND_TOKEN => while self.worker.next_command().is_some() {},
                Token(index) => self.process(index)?,
            }
        }
        let time_ns = now_ns();
        if time_ns.saturating_sub(self.checked_ns) > IDLE_POLL_INTERVAL.as_nanos() as u64 {
            self.checked_ns = time_ns;
            // Sends heartbeats for idle publishers.
            for index in 0..self.publishers.len() {
                self.process(index)?;
            }
        }
        Ok(())
    }

    fn process(&mut self, index: usize) -> Result<(), String> {
        let publisher = &mut self.publishers[index];
        publisher.process(&self.context, &mut self.results).map_err(|error| error.to_string())?;
        if !self.finished && publisher.is_stalled() && publisher.readiness(&self.context) != SendReadiness::None {
            let due_ns = publisher.resume(now_ns(), &mut self.results);
            self.due.push(Reverse((due_ns, index)));
        }
        Ok(())
    }

    fn wake_at(&self, until_ns: u64) -> Result<(), String> {
        let at = TimeSpec::from_duration(Duration::from_nanos(until_ns.max(1)));
        self.timer
            .set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            .map_err(|error| format!("the timer cannot be set: {error}"))
    }

    fn is_finished(&self) -> bool {
        self.due.is_empty() && self.publishers.iter().all(WorkloadPublisher::is_finished)
    }

    fn finish(mut self, metering: ScheduledMeter) -> Result<(), String> {
        let time_ns = now_ns();
        for publisher in &mut self.publishers {
            publisher.end(&self.context, time_ns, &mut self.results).map_err(|error| error.to_string())?;
        }
        let used = metering.finish()?;
        let sent = WorkloadPublisherReport { used, ..std::mem::take(&mut self.results) };
        worker_thread::report_results(&sent)?;
        self.finished = true;
        // Connections stay open until the consumers have finished, because exclusive queues are deleted with them.
        let mut events = Events::with_capacity(64);
        while !self.worker.disconnected {
            match self.worker.poll.poll(&mut events, Some(IDLE_POLL_INTERVAL)) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => other.map_err(|error| format!("the poll failed: {error}"))?,
            }
            self.process_events(&events)?;
            while self.worker.next_command().is_some() {}
        }
        for publisher in self.publishers {
            publisher.close().map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn timer() -> nix::Result<TimerFd> {
    TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)
}
