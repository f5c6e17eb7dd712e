//! The `drain` command: fills a queue with a backlog, then empties it, and measures both and the broker's memory.
//!
//! The queue is deleted at the end, also after a failure.

use std::collections::BTreeMap;

use report::document::{LoopMode, MeasuredRun, MeasuredSeries};

use crate::durability_case::{DurabilityCase, cases, note_durable};
use crate::limits::{BACKLOG_BYTES_DEFAULT, BACKLOG_MESSAGES_DEFAULT};
use crate::turns::{MeasuredTurns, TurnProgress};
use gauge::{Steadiness, steadiness, validity};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::limits::ROLE_READY_WAIT;
use harness::measure_options::{EFFORT, MeasureOptions, OUTPUT, TARGETS};
use harness::role_client::connect;
use harness::role_handle::RoleHandle;
use harness::role_protocol::{RoleReport, sizes};
use harness::run_recorder::RunRecorder;
use harness::store_meter::StoreReading;
use harness::target::{BenchmarkTarget, TargetAddress};
use harness::target_meter::TargetMeter;
use harness::tcp::QUEUE;
use load::limits::{CONSUMERS_MAX, REPORT_WAIT};
use load::role::drain_roles::{BacklogTask, EmptyCommand, FillCommand};

const OWN: &[OptionSpec] = &[
    option("sizes", Some('m'), "MIN:MAX", "message sizes in powers of two (default 64:64K)"),
    option("consumers", None, "N", "connections that empty the queue together (default 1)"),
    option("ack-every", None, "N", "one manual acknowledgement for N messages (default: automatic)"),
    option("prefetch", None, "N", "prefetch count (default: no limit)"),
    option(
        "durable",
        None,
        "",
        "also with persistent messages in a durable queue; a broker that is started for it gets a state folder",
    ),
];

const ABOUT: &str =
    "Fills a queue with messages while nobody consumes, then empties it. Filling ends when the queue reports that it holds
them all; emptying lasts from the first consumer's start to the last message's arrival. Held bytes are the peak growth
of the broker's processes, divided by the number of messages.";

const EXAMPLES: &[(&str, &str)] = &[
    ("drain", "64 B to 64 KiB on this program's own broker"),
    ("drain --durable -m 64:64", "with persistent messages in a durable queue beside transient ones"),
    (
        "drain -m 1K:1K -i 1000000 --consumers 4 --ack-every 100 --prefetch 1000",
        "a million messages, four consumers that acknowledge",
    ),
];

/// The options of `drain` itself.
struct DrainOptions {
    sizes: Vec<usize>,
    iterations: Option<u64>,
    consumers: usize,
    ack_every: u64,
    prefetch: u16,
    /// Persistent messages beside transient ones.
    durable: bool,
}

impl DrainOptions {
    fn read(given: &ParsedOptions, setup: &MeasureOptions) -> Result<Self, UsageError> {
        let options = Self {
            sizes: sizes(given.text("sizes").unwrap_or("64:64K"), 2)?,
            iterations: setup.iterations,
            consumers: given.number("consumers", 1, 1, CONSUMERS_MAX as u64)? as usize,
            ack_every: given.number("ack-every", 0, 1, 1 << 32)?,
            prefetch: given.number("prefetch", 0, 0, u64::from(u16::MAX))? as u16,
            durable: given.has("durable"),
        };
        if options.prefetch > 0 && options.ack_every > u64::from(options.prefetch) {
            return Err(UsageError("--ack-every must not exceed --prefetch: the consumer would stall".to_owned()));
        }
        Ok(options)
    }

    /// The number of messages of one size: the given number, or as many as fit the default bounds.
    fn count(&self, size_bytes: usize) -> u64 {
        let usual = (BACKLOG_BYTES_DEFAULT / size_bytes.max(1) as u64).clamp(100, BACKLOG_MESSAGES_DEFAULT);
        self.iterations.unwrap_or(usual)
    }
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench drain [OPTIONS]", ABOUT, &[OWN, TARGETS, EFFORT, QUEUE, OUTPUT], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// A usage error, a broker that fails or accepts no more messages, INVALID figures.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let setup = MeasureOptions::read(&given)?;
    let options = DrainOptions::read(&given, &setup)?;
    let targets = setup.targets()?;
    let mut record = RunRecorder::begin("drain", words, &given, &setup, &targets);
    record.note_option("sizes", "64:64K");
    record.note_option("consumers", options.consumers);
    record.note_option("ack-every", options.ack_every);
    record.note_option("prefetch", options.prefetch);
    let outcome = measure(&mut record, &setup, &options, &targets);
    record.end(outcome)
}

fn measure(
    record: &mut RunRecorder,
    setup: &MeasureOptions,
    options: &DrainOptions,
    targets: &[BenchmarkTarget],
) -> Result<(), CommandFailure> {
    let cases = cases(targets, options.durable);
    // Two series for each case: filling, then emptying.
    let both = |case| ["fill", "empty"].map(|phase| series(phase, options, case));
    let mut turns = MeasuredTurns::begin(record, setup, cases.iter().flat_map(both))?;
    let mut backlogs = cases.iter().map(|case| DrainRun::start(options, setup, case)).collect::<Result<Vec<_>, _>>()?;
    let mut progress = TurnProgress::begin(options.sizes.len() * setup.runs * cases.len());
    for &size_bytes in &options.sizes {
        let (at, count) = (size_bytes as f64, options.count(size_bytes));
        turns.measure(at, at, &mut progress, |turn| {
            turn.show(&format!("drain of {count} messages of {size_bytes} bytes"));
            let mut both = backlogs[turn.contestant].fill_and_empty(size_bytes, count)?;
            let product = cases[turn.contestant].0.facts.product.as_deref();
            both.iter_mut().for_each(|result| result.notes.extend(setup.tcp.queue_note(product)));
            Ok(both)
        })?;
    }
    Ok(())
}

fn series(
    phase: &str,
    options: &DrainOptions,
    (target, is_durable): &DurabilityCase<'_, BenchmarkTarget>,
) -> MeasuredSeries {
    let mut parameters = BTreeMap::from([("phase".to_owned(), phase.to_owned())]);
    if phase == "empty" {
        for (name, value) in [
            ("consumers", options.consumers as u64),
            ("ack_every", options.ack_every),
            ("prefetch", u64::from(options.prefetch)),
        ] {
            parameters.insert(name.to_owned(), value.to_string());
        }
    }
    note_durable(&mut parameters, *is_durable);
    MeasuredSeries {
        benchmark: "drain".to_owned(),
        target: target.name.clone(),
        pace: LoopMode::Closed,
        parameters,
        axis: "size_bytes".to_owned(),
        points: Vec::new(),
    }
}

/// A target with the processes that fill and empty its queue.
struct DrainRun {
    filler: RoleHandle,
    emptier: RoleHandle,
    queue: LeftoverQueue,
    broker: TargetMeter,
    /// The broker's memory before the first message.
    resident_bytes_before: u64,
    _placed: Option<harness::placement::PinnedProcess>,
}

/// Deletes the queue on drop if it may still exist: a backlog must not be left on a broker that is not ours.
struct LeftoverQueue {
    url: String,
    name: String,
    may_exist: bool,
}

impl Drop for LeftoverQueue {
    fn drop(&mut self) {
        if !self.may_exist {
            return;
        }
        let deleted = connect(&self.url, "drain").and_then(|mut client| {
            let channel = client.open_channel()?;
            client.delete_queue(channel, &self.name, false, false)?;
            client.close()
        });
        if let Err(error) = deleted {
            cli::print_error(&format!("harrier bench: the queue '{}' may be left on the broker: {error}", self.name));
        }
    }
}

impl DrainRun {
    fn start(
        options: &DrainOptions,
        setup: &MeasureOptions,
        &(target, durable): &DurabilityCase<'_, BenchmarkTarget>,
    ) -> Result<Self, String> {
        let TargetAddress::Amqp(url) = &target.address else { return Err("a relay has no queues".to_owned()) };
        let mut broker = TargetMeter::of(target)?.with_store(target, durable);
        let placed = target.pin(&setup.placement)?;
        let name = format!("harrier-drain-{}-{}", std::process::id(), gauge::clock::now_ns());
        let task = BacklogTask {
            url: url.clone(),
            queue: name.clone(),
            checks: setup.checks,
            queue_bytes: setup.tcp.queue_bytes,
            consumers: options.consumers,
            ack_every: options.ack_every,
            prefetch: options.prefetch,
            durable,
        };
        let mut filler = RoleHandle::start("filler", &task, &setup.placement.publisher)?;
        filler.ready(ROLE_READY_WAIT)?;
        let mut emptier = RoleHandle::start("emptier", &task, &setup.placement.consumer)?;
        emptier.ready(ROLE_READY_WAIT)?;
        let resident_bytes_before = broker.resident_bytes()?;
        let queue = LeftoverQueue { url: url.clone(), name, may_exist: false };
        Ok(Self { filler, emptier, queue, broker, resident_bytes_before, _placed: placed })
    }

    /// Measures one backlog: filling and emptying.
    fn fill_and_empty(&mut self, size_bytes: usize, count: u64) -> Result<[MeasuredRun; 2], String> {
        let left_over = self.broker.resident_bytes()?.saturating_sub(self.resident_bytes_before);
        self.queue.may_exist = true;
        let (mut filled, held) = self.fill(size_bytes, count)?;
        filled.backlog_bytes =
            filled.broker.map(|usage| usage.resident_bytes.saturating_sub(self.resident_bytes_before));
        if let Some(bytes) = filled.backlog_bytes.filter(|&bytes| left_over * 10 > bytes) {
            filled.notes.push(format!(
                "before it, the broker still held {} MiB more than at its first start; held bytes ({} MiB in all) are that much too high at most",
                left_over >> 20,
                bytes >> 20
            ));
        }
        let mut emptied = self.empty(size_bytes, count, held)?;
        self.filler.send_command(&FillCommand::Delete)?;
        match self.filler.report(REPORT_WAIT)? {
            RoleReport::Worked { operations: 0 } => {}
            RoleReport::Worked { operations: left } => {
                emptied.invalid.push(format!("{left} messages were still in the queue when it was deleted"));
            }
            other => return Err(format!("the filler answered {other:?} instead of deleting the queue")),
        }
        self.queue.may_exist = false;
        Ok([filled, emptied])
    }

    fn fill(&mut self, size_bytes: usize, count: u64) -> Result<(MeasuredRun, u64), String> {
        self.broker.begin_sampling()?;
        self.filler.send_command(&FillCommand::Fill { size_bytes, count })?;
        let RoleReport::Filled { began_ns, ended_ns, held, used } = self.filler.report(REPORT_WAIT)? else {
            return Err("the filler did not report its results".to_owned());
        };
        let elapsed_s = ended_ns.saturating_sub(began_ns).max(1) as f64 / 1e9;
        let broker = self.broker.end()?;
        let StoreReading { usage: store, note } = self.broker.store();
        let mut run = MeasuredRun {
            elapsed_s,
            published: count,
            broker,
            store,
            notes: note.into_iter().collect(),
            publishers: used.process.known(),
            network: used.network,
            ..MeasuredRun::default()
        };
        run.invalid.extend(validity::client_was_full("publishers", &used.process));
        run.notes.extend(validity::client_was_starved("publishers", &used.process, elapsed_s));
        Ok((run, held))
    }

    fn empty(&mut self, size_bytes: usize, count: u64, held: u64) -> Result<MeasuredRun, String> {
        self.broker.begin_sampling()?;
        self.emptier.send_command(&EmptyCommand { size_bytes, count, held })?;
        let RoleReport::Emptied { began_ns, ended_ns, received, faults, rates, used } =
            self.emptier.report(REPORT_WAIT)?
        else {
            return Err("the emptier did not report its results".to_owned());
        };
        let elapsed_s = ended_ns.saturating_sub(began_ns).max(1) as f64 / 1e9;
        let broker = self.broker.end()?;
        let StoreReading { usage: store, note } = self.broker.store();
        let mut run = MeasuredRun {
            elapsed_s,
            delivered: received,
            delivered_bytes: received * size_bytes as u64,
            faults,
            broker,
            store,
            notes: note.into_iter().collect(),
            consumers: used.process.known(),
            network: used.network,
            ..MeasuredRun::default()
        };
        run.invalid.extend(validity::faulty(&faults, 0));
        run.invalid.extend(validity::client_was_full("consumers", &used.process));
        run.notes.extend(validity::client_was_starved("consumers", &used.process, elapsed_s));
        run.notes.extend(steadiness(&rates).as_ref().and_then(Steadiness::note));
        run.rates = rates;
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<DrainOptions, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let given = ParsedOptions::parse(&words, &[OWN, TARGETS, EFFORT, QUEUE, OUTPUT])?;
        DrainOptions::read(&given, &MeasureOptions::read(&given)?)
    }

    #[test]
    fn options_are_parsed() {
        let usual = options("").expect("nothing is wrong");
        assert_eq!((usual.sizes.first(), usual.sizes.last()), (Some(&64), Some(&65_536)));
        assert_eq!(
            (usual.count(1), usual.count(64 << 10), usual.count(128 << 20)),
            (BACKLOG_MESSAGES_DEFAULT, 4_096, 100)
        );
        assert_eq!(options("-i 7").map(|options| options.count(64)).ok(), Some(7));
    }

    #[test]
    fn invalid_options_are_refused() {
        for (line, expected) in [
            ("--ack-every 10 --prefetch 5", "--ack-every must not exceed --prefetch: the consumer would stall"),
            ("--consumers 0", "--consumers is a number from 1 to"),
            ("-m 0:1", "sizes run from 1 to"),
        ] {
            let why = options(line).map(|_| String::new()).unwrap_or_else(|wrong| wrong.0);
            assert!(why.starts_with(expected), "{line}: {why}");
        }
    }
}
