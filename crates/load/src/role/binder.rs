//! The binder role: adds and removes bindings at a fixed rate while messages flow.
//!
//! Changes that the broker delayed are not made up for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use client::{Client, ClientChannel, ExchangeOptions, QueueOptions, Table};

use gauge::clock::{now_ns, pause};
use harness::command_reader::CommandReader;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;
use harness::role_tasks::{BinderCommand, BinderTask};

/// Starts a period of changes; the flag ends it.
type StopFlag = Arc<AtomicBool>;

struct Binder {
    client: Client,
    channel: ClientChannel,
    task: BinderTask,
}

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let task: BinderTask = commands.task()?;
    let (begin, begins) = channel::<StopFlag>();
    let (result_sender, results) = channel::<Result<u64, String>>();
    // A connection belongs to the thread that opened it.
    let thread = std::thread::spawn(move || change_at_rate(task, &begins, &result_sender));
    let answer = || results.recv().map_err(|_| "the binder's thread is gone".to_owned())?;
    answer()?;
    report(&RoleReport::Ready { port: 0 })?;
    while let Some(command) = commands.next_command::<BinderCommand>()? {
        if command == BinderCommand::End {
            return Err("received `End` before `Begin`".to_owned());
        }
        let ended = StopFlag::default();
        // If the thread has ended, its result says why.
        let _receiver_gone = begin.send(Arc::clone(&ended));
        // The next command is `End`; end of input counts as well.
        let next = commands.next_command::<BinderCommand>();
        ended.store(true, Ordering::Release);
        let operations = answer()?;
        if next?.is_none() {
            break;
        }
        report(&RoleReport::Worked { operations })?;
    }
    drop(begin);
    thread.join().map_err(|_| "the binder's thread panicked".to_owned())
}

/// Connects, and then changes bindings whenever requested; the first result is that of connecting.
fn change_at_rate(task: BinderTask, begins: &Receiver<StopFlag>, result_sender: &Sender<Result<u64, String>>) {
    let mut binder = match Binder::connect(task) {
        Ok(binder) => binder,
        Err(error) => {
            // Sending fails only if the process ends.
            let _receiver_gone = result_sender.send(Err(error.to_string()));
            return;
        }
    };
    let mut answer = Ok(0);
    while result_sender.send(answer).is_ok() {
        let Ok(ended) = begins.recv() else { break };
        answer = binder.change(&ended).map_err(|error| error.to_string());
    }
    if let Err(error) = binder.client.close() {
        cli::print_error(&format!("harrier bench: the binder's connection: {error}"));
    }
}

impl Binder {
    fn connect(task: BinderTask) -> client::Result<Self> {
        let mut client = harness::role_client::connect(&task.url, "binder")?;
        let channel = client.open_channel()?;
        let auto_delete = ExchangeOptions { auto_delete: true, ..ExchangeOptions::default() };
        client.declare_exchange(channel, &task.exchange, &task.exchange_type, &auto_delete)?;
        client.declare_queue(channel, &task.queue, &QueueOptions { exclusive: true, ..QueueOptions::default() })?;
        Ok(Self { client, channel, task })
    }

    /// Adds and removes a binding at the requested rate until stopped. Both calls are synchronous, so a slow broker gets fewer
    /// of them.
    fn change(&mut self, ended: &AtomicBool) -> client::Result<u64> {
        let Self { client, channel, task } = self;
        let gap_ns = 1_000_000_000 / task.changes_per_s.max(1);
        let (mut operations, mut due_ns, mut number) = (0, now_ns(), 0_u64);
        while !ended.load(Ordering::Acquire) {
            let pattern = format!("stock.*.c{number}");
            client.bind_queue(*channel, &task.queue, &task.exchange, &pattern, &Table::new())?;
            client.unbind_queue(*channel, &task.queue, &task.exchange, &pattern, &Table::new())?;
            operations += 2;
            number += 1;
            due_ns = due_ns.max(now_ns().saturating_sub(gap_ns)) + gap_ns;
            let early_ns = due_ns.saturating_sub(now_ns());
            if early_ns > 0 {
                pause(Duration::from_nanos(early_ns.min(100_000_000)));
            }
        }
        Ok(operations)
    }
}
