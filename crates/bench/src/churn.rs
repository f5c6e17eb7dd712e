//! The `churn` command: the rate and latency of opening and closing connections, channels and queues.
//!
//! Each client process opens and closes one object at a time and sends no messages.

use std::collections::BTreeMap;

use report::document::{LoopMode, MeasuredRun, MeasuredSeries};

use crate::durability_case::{DurabilityCase, cases, note_durable};
use crate::limits::{CHURN_OPERATIONS_MAX, CLIENTS_MAX};
use crate::turns::{MeasuredTurns, TurnProgress};
use gauge::{LatencyHistogram, validity};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::limits::ROLE_READY_WAIT;
use harness::measure_options::{MeasureOptions, OUTPUT, TARGETS};
use harness::role_handle::RoleHandle;
use harness::role_protocol::{RoleReport, SelfUsage};
use harness::run_recorder::RunRecorder;
use harness::store_meter::StoreReading;
use harness::target::{BenchmarkTarget, TargetAddress};
use harness::target_meter::TargetMeter;
use harness::tcp::QUEUE;
use load::limits::REPORT_WAIT;
use load::role::churner::{ChurnCommand, ChurnKind, ChurnTask};

const OWN: &[OptionSpec] = &[
    option("kind", Some('k'), "KIND", "connection, channel, queue or all (default)"),
    option("clients", None, "N,…", "concurrent client processes, each with one operation at a time (default 1,4)"),
    option("seconds", None, "S", "time of each run (default 2)"),
    option(
        "iterations",
        Some('i'),
        "COUNT",
        "most operations of each client in a run (default: as many as the time allows)",
    ),
    option("runs", None, "N", "runs of each point, all brokers in turns; tables show medians (default 1)"),
    option(
        "durable",
        None,
        "",
        "also durable queues beside the exclusive ones; a broker that is started for it gets a state folder",
    ),
];

const ABOUT: &str =
    "Opens and closes connections, channels and queues, one at a time in each client, as fast as the broker
answers. An operation is one opening and one closing. For a connection it includes transport handshake, login and clean
close; queues are exclusive, declared and deleted; with --durable also durable ones, which survive a restart.";

const EXAMPLES: &[(&str, &str)] = &[
    ("churn", "all kinds, 1 and 4 clients, on this program's own broker"),
    ("churn -k queue --durable", "durable queues beside exclusive ones"),
    (
        "churn -k connection --clients 1,2,8 --seconds 5 --url amqp://guest:guest@127.0.0.1",
        "connections to a running broker",
    ),
];

/// The options of `churn` itself.
struct ChurnOptions {
    kinds: Vec<ChurnKind>,
    clients: Vec<usize>,
    command: ChurnCommand,
    durable: bool,
}

impl ChurnOptions {
    fn read(given: &ParsedOptions) -> Result<Self, UsageError> {
        let kind = given.one_of("kind", &["all", "connection", "channel", "queue"])?;
        Ok(Self {
            kinds: ChurnKind::ALL.into_iter().filter(|one| kind == "all" || kind == one.name()).collect(),
            clients: given.list("clients", &[1, 4], 1, CLIENTS_MAX)?,
            durable: given.has("durable"),
            command: ChurnCommand {
                count_max: given.number("iterations", CHURN_OPERATIONS_MAX, 1, CHURN_OPERATIONS_MAX)?,
                duration_ms_max: given.number("seconds", 2, 1, 600)? * 1_000,
            },
        })
    }

    /// A tenth of the work, which is not measured.
    fn warm_up(&self) -> ChurnCommand {
        ChurnCommand {
            count_max: (self.command.count_max / 10).max(1),
            duration_ms_max: (self.command.duration_ms_max / 10).max(1),
        }
    }
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench churn [OPTIONS]", ABOUT, &[OWN, TARGETS, QUEUE, OUTPUT], EXAMPLES)
}

/// # Errors
/// A wrong command line, a broker that fails, figures that must not be trusted.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let (setup, options) = (MeasureOptions::read(&given)?, ChurnOptions::read(&given)?);
    let targets = setup.targets()?;
    let mut record = RunRecorder::begin("churn", words, &given, &setup, &targets);
    record.note_option("kind", "all");
    record.note_option("clients", "1,4");
    record.note_option("seconds", options.command.duration_ms_max / 1_000);
    let outcome = measure(&mut record, &setup, &options, &targets);
    record.end(outcome)
}

fn measure(
    record: &mut RunRecorder,
    setup: &MeasureOptions,
    options: &ChurnOptions,
    targets: &[BenchmarkTarget],
) -> Result<(), CommandFailure> {
    let kinds = options.kinds.iter().map(|&kind| {
        // Connections and channels are nothing that survives.
        (kind, cases(targets, options.durable && kind == ChurnKind::Queue))
    });
    let kinds: Vec<_> = kinds.collect();
    let contestants: usize = kinds.iter().map(|(_, cases)| cases.len()).sum();
    let mut progress = TurnProgress::begin(contestants * options.clients.len() * setup.runs);
    for (kind, cases) in &kinds {
        let mut turns = MeasuredTurns::begin(record, setup, cases.iter().map(|case| series(*kind, case)))?;
        for &clients in &options.clients {
            let start = |case| ChurnRun::start(*kind, clients, setup, case);
            let mut churning = cases.iter().map(start).collect::<Result<Vec<_>, _>>()?;
            turns.measure(clients as f64, 0.0, &mut progress, |turn| {
                turn.show(&format!("churn of {}s, {clients} clients", kind.name()));
                churning[turn.contestant].segment(&options.warm_up())?;
                Ok([churning[turn.contestant].segment(&options.command)?])
            })?;
        }
    }
    Ok(())
}

fn series(kind: ChurnKind, (target, is_durable): &DurabilityCase<'_, BenchmarkTarget>) -> MeasuredSeries {
    let mut parameters = BTreeMap::from([("kind".to_owned(), kind.name().to_owned())]);
    note_durable(&mut parameters, *is_durable);
    MeasuredSeries {
        benchmark: "churn".to_owned(),
        target: target.name.clone(),
        pace: LoopMode::Closed,
        parameters,
        axis: "clients".to_owned(),
        points: Vec::new(),
    }
}

/// The running clients of one target.
struct ChurnRun {
    clients: Vec<RoleHandle>,
    broker: TargetMeter,
    _placed: Option<harness::placement::PinnedProcess>,
}

impl ChurnRun {
    fn start(
        kind: ChurnKind,
        clients: usize,
        setup: &MeasureOptions,
        &(target, durable): &DurabilityCase<'_, BenchmarkTarget>,
    ) -> Result<Self, String> {
        let TargetAddress::Amqp(url) = &target.address else { return Err("a relay has nothing to open".to_owned()) };
        let broker = TargetMeter::of(target)?.with_store(target, durable);
        let mut churning =
            Self { clients: Vec::with_capacity(clients), broker, _placed: target.pin(&setup.placement)? };
        let run = format!("harrier-churn-{}-{}", std::process::id(), gauge::clock::now_ns());
        for index in 0..clients {
            let task = ChurnTask {
                url: url.clone(),
                kind,
                queue_prefix: format!("{run}.{index}."),
                queue_bytes: setup.tcp.queue_bytes,
                durable,
            };
            let mut role = RoleHandle::start("churner", &task, &setup.placement.publisher)?;
            role.ready(ROLE_READY_WAIT)?;
            churning.clients.push(role);
        }
        Ok(churning)
    }

    /// Runs one segment on all clients concurrently.
    fn segment(&mut self, order: &ChurnCommand) -> Result<MeasuredRun, String> {
        self.broker.begin_sampling()?;
        for client in &mut self.clients {
            client.send_command(order)?;
        }
        let (mut first_ns, mut last_ns, mut operations) = (u64::MAX, 0, 0);
        let (mut opens, mut closes, mut sum) =
            (LatencyHistogram::default(), LatencyHistogram::default(), SelfUsage::default());
        let mut unseen = false;
        for client in &mut self.clients {
            match client.report(REPORT_WAIT)? {
                RoleReport::Churned { began_ns, ended_ns, operations: count, opened, closed, used } => {
                    first_ns = first_ns.min(began_ns);
                    last_ns = last_ns.max(ended_ns);
                    operations += count;
                    opens.merge(&opened);
                    closes.merge(&closed);
                    unseen |= used.network.is_none();
                    sum.add(&used);
                }
                other => return Err(format!("a client answered {other:?} instead of its results")),
            }
        }
        let broker = self.broker.end()?;
        let StoreReading { usage: store, note } = self.broker.store();
        let elapsed_s = last_ns.saturating_sub(first_ns).max(1) as f64 / 1e9;
        let mut run = MeasuredRun {
            elapsed_s,
            operations: Some(operations),
            latencies: BTreeMap::from([("open".to_owned(), opens.buckets()), ("close".to_owned(), closes.buckets())]),
            broker,
            store,
            notes: note.into_iter().collect(),
            publishers: sum.process.known(),
            network: if unseen { None } else { sum.network },
            ..MeasuredRun::default()
        };
        run.invalid.extend(validity::client_was_full("clients", &sum.process));
        run.notes.extend(validity::client_was_starved("clients", &sum.process, elapsed_s));
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<ChurnOptions, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ChurnOptions::read(&ParsedOptions::parse(&words, &[OWN, TARGETS, QUEUE, OUTPUT])?)
    }

    #[test]
    fn options_are_parsed() {
        let usual = options("").expect("nothing is wrong");
        assert_eq!((usual.kinds, usual.clients), (ChurnKind::ALL.to_vec(), vec![1, 4]));
        assert_eq!(usual.command.duration_ms_max, 2_000);
        let few = options("-k queue --clients 2 -i 50 --seconds 9").expect("nothing is wrong");
        assert_eq!((&few.kinds, &few.clients), (&vec![ChurnKind::Queue], &vec![2]));
        assert_eq!(few.command, ChurnCommand { count_max: 50, duration_ms_max: 9_000 });
        assert_eq!(few.warm_up(), ChurnCommand { count_max: 5, duration_ms_max: 900 });
    }

    #[test]
    fn unknown_values_are_refused() {
        for (line, expected) in [
            ("-k exchange", "--kind is one of all, connection, channel, queue, not 'exchange'"),
            ("--clients 0", "--clients is a number from 1 to"),
            ("--seconds 0", "--seconds is a number from 1 to 600, not '0'"),
        ] {
            let why = options(line).map(|_| String::new()).unwrap_or_else(|wrong| wrong.0);
            assert!(why.starts_with(expected), "{line}: {why}");
        }
    }
}
