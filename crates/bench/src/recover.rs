//! The `recover` command: kills a broker that holds confirmed messages, starts it again, and measures what comes back, and when.
//!
//! Publisher and consumer are processes of their own, as everywhere; the broker keeps its folder.

mod crash_broker;

use std::collections::BTreeMap;
use std::path::PathBuf;

use gauge::validity;
use report::document::{LoopMode, MeasuredRun, MeasuredSeries, RecoveryFigures};
use serde::de::DeserializeOwned;

use crate::limits::{
    RECOVER_ACK_EVERY, RECOVER_BYTES_DEFAULT, RECOVER_MESSAGES_DEFAULT, RECOVER_PREFETCH, RECOVER_WINDOW_DEFAULT,
    RECOVER_WINDOW_MAX,
};
use crate::perf::CrashBacklog;
use crate::turns::{MeasuredTurns, TurnProgress};
use crash_broker::{BrokerStart, CrashBroker, CrashBrokerSource};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::limits::ROLE_READY_WAIT;
use harness::measure_options::{EFFORT, MeasureOptions, OUTPUT};
use harness::placement::{CpuList, CpuPlacement};
use harness::role_handle::RoleHandle;
use harness::role_protocol::{RoleReport, sizes};
use harness::run_recorder::RunRecorder;
use harness::store_meter;
use harness::target::BenchmarkTarget;
use harness::tcp::TcpOptions;
use load::limits::REPORT_WAIT;
use load::role::recover_roles::{ConfirmedBacklog, RecoverCommand, RecoverTask, RecoveredBacklog};

const OWN: &[OptionSpec] = &[
    option("sizes", Some('m'), "MIN:MAX", "message sizes in powers of two (default 64:64)"),
    option("window", None, "N", "messages without a confirm at most (default 1000)"),
    option(
        "scripts",
        None,
        "FOLDER",
        "the broker that `start DIR PORT` and `stop DIR [--wipe]` there start and stop, as in tests/rabbitmq \
         (default: this program's own)",
    ),
    option("against-scripts", None, "FOLDER", "also the broker of these scripts, in turns; may be repeated"),
    option("broker-options", None, "OPTIONS", "additional options for this program's own broker"),
    option("dir", Some('d'), "FOLDER", "where brokers keep their files (default: the system's temporary folder)"),
    option("cpus", None, "PLACES", "processors, as in broker=0,publisher=1,consumer=1 (default any)"),
];

const ABOUT: &str = "\
Publishes persistent messages with confirms into a durable queue, kills the broker and all of its processes (SIGKILL) once
every one of them is confirmed, starts it again on the same folder, and consumes them, acknowledging. Times count from the
start of the broker (of its start script) until it accepts connections, and until a consumer that tries again every
millisecond has its first message. Lost and doubled messages make the run INVALID.";

const EXAMPLES: &[(&str, &str)] = &[
    ("recover", "a million messages of 64 B, this program's own broker"),
    ("recover -m 1K:1K -i 10000000 --dir /var/lib/harrier", "ten million of 1 KiB, on the disk of that folder"),
    ("recover -i 100000 --runs 3 --against-scripts tests/rabbitmq", "beside a private RabbitMQ, in turns"),
];

/// The options of `recover` itself.
struct RecoverOptions {
    sizes: Vec<usize>,
    iterations: Option<u64>,
    window: u64,
    sources: Vec<CrashBrokerSource>,
    dir: PathBuf,
}

impl RecoverOptions {
    fn read(given: &ParsedOptions, setup: &MeasureOptions) -> Result<Self, UsageError> {
        let scripts = |name: &str| given.texts(name).iter().map(|folder| CrashBrokerSource::Scripts(folder.into()));
        let mut sources: Vec<CrashBrokerSource> = scripts("scripts").collect();
        if sources.is_empty() {
            sources.push(CrashBrokerSource::Own { options: given.words("broker-options") });
        } else if given.has("broker-options") {
            return Err(UsageError("--broker-options is for this program's own broker, --scripts for another".into()));
        }
        sources.extend(scripts("against-scripts"));
        for source in &sources {
            if let CrashBrokerSource::Scripts(folder) = source
                && let Some(missing) =
                    ["start", "stop"].map(|name| folder.join(name)).iter().find(|file| !file.is_file())
            {
                return Err(UsageError(format!("there is no script {}", missing.display())));
            }
        }
        let dir = given.text("dir").map_or_else(std::env::temp_dir, PathBuf::from);
        if !dir.is_dir() {
            return Err(UsageError(format!("--dir: there is no folder {}", dir.display())));
        }
        Ok(Self {
            sizes: sizes(given.text("sizes").unwrap_or("64:64"), 2)?,
            iterations: setup.iterations,
            window: given.number("window", RECOVER_WINDOW_DEFAULT, 1, RECOVER_WINDOW_MAX)?,
            sources,
            dir,
        })
    }

    /// The number of messages of one size: the given number, or as many as fit the default bounds.
    fn count(&self, size_bytes: usize) -> u64 {
        let usual = (RECOVER_BYTES_DEFAULT / size_bytes.max(1) as u64).clamp(100, RECOVER_MESSAGES_DEFAULT);
        self.iterations.unwrap_or(usual)
    }
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench recover [OPTIONS]", ABOUT, &[OWN, EFFORT, OUTPUT], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// A usage error, a broker that cannot be started, killed or reached again, lost or doubled messages.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let setup = MeasureOptions::read(&given)?;
    let options = RecoverOptions::read(&given, &setup)?;
    setup.output.prepare()?;
    let targets = options.sources.iter().map(|source| identify(source, &options, &setup));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    let mut record = RunRecorder::begin("recover", words, &given, &setup, &targets);
    record.note_option("sizes", "64:64");
    record.note_option("window", options.window);
    let outcome = measure(&mut record, &setup, &options, &targets);
    record.end(outcome)
}

/// Starts a broker once to learn what it is.
fn identify(
    source: &CrashBrokerSource,
    options: &RecoverOptions,
    setup: &MeasureOptions,
) -> Result<BenchmarkTarget, String> {
    let mut broker = CrashBroker::new(source.clone(), &options.dir, setup.placement.broker.clone())?;
    broker.start_first()?;
    let mut target = BenchmarkTarget::at(&broker.url())?;
    target.identify(&TcpOptions::default(), false)?;
    let product = target.facts.product.as_deref().and_then(|product| product.split_whitespace().next());
    let name = product.map_or_else(|| target.name.clone(), str::to_lowercase);
    target.rename(&name);
    // The broker ends here, and each run has one of its own.
    Ok(target)
}

fn measure(
    record: &mut RunRecorder,
    setup: &MeasureOptions,
    options: &RecoverOptions,
    targets: &[BenchmarkTarget],
) -> Result<(), CommandFailure> {
    let both = |target| ["fill", "recover"].map(|phase| series(phase, options.window, target));
    let mut turns = MeasuredTurns::begin(record, setup, targets.iter().flat_map(both))?;
    let mut progress = TurnProgress::begin(options.sizes.len() * setup.runs * targets.len());
    for &size_bytes in &options.sizes {
        let (at, count) = (size_bytes as f64, options.count(size_bytes));
        turns.measure(at, at, &mut progress, |turn| {
            let name = &targets[turn.contestant].name;
            let show = |doing: &str| turn.show(&format!("{name}: {doing} {count} messages of {size_bytes} bytes"));
            let source = options.sources[turn.contestant].clone();
            let crash = CrashRun { size_bytes, count, window: options.window, checks: setup.checks };
            let mut broker = CrashBroker::new(source, &options.dir, setup.placement.broker.clone())?;
            let both = crash.measure(&mut broker, &setup.placement, &show);
            Ok(both.map_err(|why| format!("{name}: {why}"))?)
        })?;
    }
    Ok(())
}

fn series(phase: &str, window: u64, target: &BenchmarkTarget) -> MeasuredSeries {
    let mut parameters = BTreeMap::from([("phase".to_owned(), phase.to_owned())]);
    if phase == "fill" {
        parameters.insert("window".to_owned(), window.to_string());
        parameters.insert("durable".to_owned(), "yes".to_owned());
    }
    MeasuredSeries {
        benchmark: "recover".to_owned(),
        target: target.name.clone(),
        pace: LoopMode::Closed,
        parameters,
        axis: "size_bytes".to_owned(),
        points: Vec::new(),
    }
}

/// Measures a backlog of this program's own broker.
///
/// # Errors
/// A broker that cannot be started, killed or reached again.
pub(crate) fn measure_own(backlog: &CrashBacklog<'_>) -> Result<[MeasuredRun; 2], String> {
    let CrashBacklog { size_bytes, count, window, dir, options } = *backlog;
    let source = CrashBrokerSource::Own { options: options.to_vec() };
    let mut broker = CrashBroker::new(source, dir, CpuList::default())?;
    CrashRun { size_bytes, count, window, checks: false }.measure(&mut broker, &CpuPlacement::default(), &|_| ())
}

/// One backlog that outlives its broker.
struct CrashRun {
    size_bytes: usize,
    count: u64,
    window: u64,
    checks: bool,
}

impl CrashRun {
    /// Fills a queue, kills the broker, starts it again and drains the queue.
    fn measure(
        &self,
        broker: &mut CrashBroker,
        placement: &CpuPlacement,
        show: &dyn Fn(&str),
    ) -> Result<[MeasuredRun; 2], String> {
        show("publishing");
        broker.start_first()?;
        let task = RecoverTask {
            url: broker.url(),
            queue: format!("harrier-recover-{}", std::process::id()),
            size_bytes: self.size_bytes,
            count: self.count,
            window: self.window,
            ack_every: RECOVER_ACK_EVERY,
            prefetch: RECOVER_PREFETCH,
            checks: self.checks,
        };
        let filled = self.fill(broker, &task, placement)?;
        show("restarting with");
        let mut consumer = RoleHandle::start("recover-consumer", &task, &placement.consumer)?;
        consumer.ready(ROLE_READY_WAIT)?;
        broker.kill()?;
        let began_ns = broker.start()?;
        consumer.send_command(&RecoverCommand::Begin)?;
        let start = broker.await_listening(began_ns)?;
        show("consuming");
        let found: RecoveredBacklog = results(&mut consumer)?;
        Ok([filled, self.recovered(broker, start, &found)])
    }

    fn fill(
        &self,
        broker: &mut CrashBroker,
        task: &RecoverTask,
        placement: &CpuPlacement,
    ) -> Result<MeasuredRun, String> {
        let mut publisher = RoleHandle::start("recover-publisher", task, &placement.publisher)?;
        publisher.ready(ROLE_READY_WAIT)?;
        publisher.send_command(&RecoverCommand::Begin)?;
        let filled: ConfirmedBacklog = results(&mut publisher)?;
        let elapsed_s = filled.ended_ns.saturating_sub(filled.began_ns).max(1) as f64 / 1e9;
        // The broker has done nothing else since its start.
        let store = store_meter::counts(&task.url);
        let mut run = MeasuredRun {
            elapsed_s,
            published: self.count,
            refused: filled.refused,
            broker: broker.usage(),
            store: store.as_ref().ok().copied().flatten(),
            publishers: filled.used.process.known(),
            network: filled.used.network,
            ..MeasuredRun::default()
        };
        run.invalid.extend(validity::faulty(&run.faults, filled.refused));
        run.invalid.extend(validity::client_was_full("publishers", &filled.used.process));
        run.notes.extend(store.err().map(|why| format!("the store's counts are unknown: {why}")));
        run.notes.extend(validity::client_was_starved("publishers", &filled.used.process, elapsed_s));
        Ok(run)
    }

    fn recovered(&self, broker: &mut CrashBroker, start: BrokerStart, found: &RecoveredBacklog) -> MeasuredRun {
        let drain_ns = found.last_ns.saturating_sub(found.first_ns.unwrap_or(found.last_ns));
        let elapsed_s = drain_ns.max(1) as f64 / 1e9;
        let since_start_s = |ns: u64| ns.saturating_sub(start.began_ns) as f64 / 1e9;
        let mut run = MeasuredRun {
            elapsed_s,
            delivered: found.received,
            delivered_bytes: found.received * self.size_bytes as u64,
            faults: found.faults,
            broker: broker.usage(),
            recovery: Some(RecoveryFigures {
                listening_s: start.listening_s,
                first_delivery_s: found.first_ns.map(since_start_s),
                redelivered: found.redelivered,
            }),
            consumers: found.used.process.known(),
            network: found.used.network,
            ..MeasuredRun::default()
        };
        run.invalid.extend(validity::faulty(&found.faults, 0));
        run.notes.extend(validity::client_was_starved("consumers", &found.used.process, elapsed_s));
        run
    }
}

fn results<T: DeserializeOwned>(role: &mut RoleHandle) -> Result<T, String> {
    match role.report(REPORT_WAIT)? {
        RoleReport::Results(value) => serde_json::from_value(value).map_err(|error| format!("invalid report: {error}")),
        other => Err(format!("a role answered {other:?} instead of its results")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<RecoverOptions, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let given = ParsedOptions::parse(&words, &[OWN, EFFORT, OUTPUT])?;
        let setup = MeasureOptions::read(&given)?;
        RecoverOptions::read(&given, &setup).map_err(String::from)
    }

    #[test]
    fn options_are_parsed() {
        let usual = options("").expect("nothing is wrong");
        assert_eq!(usual.sources, [CrashBrokerSource::Own { options: Vec::new() }]);
        assert_eq!((usual.count(64), usual.count(1 << 20), usual.window), (1_000_000, 1_024, 1_000));
        let few = options("-m 64:128 -i 7 --window 3 --broker-options --shards=1").expect("nothing is wrong");
        assert_eq!((few.count(64), few.window, few.sizes), (7, 3, vec![64, 128]));
        assert_eq!(few.sources, [CrashBrokerSource::Own { options: vec!["--shards=1".to_owned()] }]);
    }

    #[test]
    fn what_cannot_be_started_is_refused_before_anything_is() {
        for (line, expected) in [
            ("--scripts /no/such", "there is no script /no/such/start"),
            ("--against-scripts /no/such", "there is no script /no/such/start"),
            ("--dir /no/such", "--dir: there is no folder /no/such"),
            ("--window 0", "--window is a number from 1 to 1000000, not '0'"),
            (
                "--scripts x --broker-options y",
                "--broker-options is for this program's own broker, --scripts for another",
            ),
        ] {
            assert_eq!(options(line).map(|_| ()), Err(expected.to_owned()), "{line}");
        }
    }
}
