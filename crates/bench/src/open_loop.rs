//! The `open` command: an open-loop benchmark that sends at intended times, whatever the broker does.
//!
//! Latency counts from the intended time, so a slow broker does not slow the load down (no coordinated omission).

use std::collections::BTreeMap;
use std::fmt;

use gauge::limits::SAMPLES_ABOVE_MIN;
use report::document::{LoopMode, MeasuredRun, MeasuredSeries, SeriesPoint};
use report::stdout::put;
use report::{Metric, OsuTable, ProgressLine, invalid_reasons_of_run};

use crate::durability_case::{DurabilityCase, cases, note_durable};
use crate::limits::PAIRS_MAX;
use harness::arguments::decimal;
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::measure_options::{MeasureOptions, OUTPUT, TARGETS};
use harness::role_protocol::sizes;
use harness::run_recorder::{RunRecorder, check_interrupted, is_broken};
use harness::target::BenchmarkTarget;
use harness::tcp::QUEUE;
use load::limits::WORKLOAD_NS_MAX;
use load::rate_search::{RATE_MAX, RATE_MIN, RateSearch};
use load::workload::message_stamp::STAMP_BYTES;
use load::workload::spec::{
    AckMode, ArrivalProcess, ConsumerGroup, PublisherGroup, QueueSource, SendRate, SizeDistribution, SymbolPopularity,
    WorkloadBinding, WorkloadExchange, WorkloadExchangeType, WorkloadSpec,
};
use load::workload::{execution, run_results, units, validation};

const OPTIONS: &[OptionSpec] = &[
    option("rate", None, "R,R,…", "messages per second of all pairs together (default 1000,2000,5000,10000)"),
    option(
        "objective",
        None,
        "pQ=TIME",
        "search for the highest rate that meets it, as in p99=1ms, p99.9=10ms, max=1s",
    ),
    option("arrivals", None, "HOW", "poisson (default) or even"),
    option("seconds", None, "S", "measured time of each rate, and of the confirmation of a search (default 5)"),
    option("warm-up", None, "S", "unmeasured time before that (default 1)"),
    option("probe-seconds", None, "S", "measured time of each probe of the search (default 2)"),
    option("sizes", Some('m'), "SIZE|MIN:MAX", "bytes of a message, at least 32 (default 64)"),
    option("pairs", None, "N", "concurrent publisher-consumer pairs (default 1)"),
    option("processes", None, "N", "processes that publishers are distributed over (default 1)"),
    option("confirms", None, "WINDOW", "publisher confirms with at most WINDOW outstanding (default: none)"),
    option("ack-every", None, "N", "one manual acknowledgement for N messages (default: automatic)"),
    option("prefetch", None, "N", "prefetch count (default: no limit)"),
    option("seed", None, "N", "the seed of random gaps (default 1)"),
    option("runs", None, "N", "runs of each rate, all brokers in turns; tables show medians (default 1)"),
    option("check", Some('c'), "", "a checksum in every message, checked on arrival"),
    option(
        "durable",
        None,
        "",
        "also with persistent messages in durable queues; a broker that is started for it gets a state folder",
    ),
];

const USAGE: &str = "harrier bench open [OPTIONS]";

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new(USAGE, "", &[OPTIONS, TARGETS, QUEUE, OUTPUT], &[])
}

/// Runs the benchmark.
///
/// # Errors
/// A usage error, a broker that fails, a generator that fell behind, no rate that meets the objective.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let options = OpenLoopOptions::read(&given)?;
    let setup = MeasureOptions::read(&given)?;
    let targets = setup.targets()?;
    let mut record = RunRecorder::begin("open", words, &given, &setup, &targets);
    options.record(&mut record);
    let mut found = Ok(());
    let outcome = match &options.objective {
        None => options.sweep(&setup, &targets, &mut record),
        Some(objective) => options.search(objective, &setup, &targets, &mut record).map(|missed| found = missed),
    };
    record.end(outcome)?;
    found
}

/// The objective of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LatencyObjective {
    quantile: f64,
    most_us: f64,
}

/// The options of `open` itself.
struct OpenLoopOptions {
    rates: Vec<f64>,
    objective: Option<LatencyObjective>,
    arrivals: ArrivalProcess,
    seconds: f64,
    warm_up_s: f64,
    probe_s: f64,
    sizes: Vec<usize>,
    pairs: usize,
    processes: usize,
    confirms: u64,
    ack_every: u64,
    prefetch: u16,
    seed: u64,
    durable: bool,
}

impl LatencyObjective {
    fn parse(text: &str) -> Result<Self, String> {
        let (quantile, time) = text
            .split_once('=')
            .ok_or_else(|| format!("--objective is a quantile and a time, as in p99=1ms, not '{text}'"))?;
        let most_us = units::duration_ns(time)? as f64 / 1e3;
        if most_us <= 0.0 {
            return Err("--objective: the time must be longer than 0".to_owned());
        }
        Ok(Self { quantile: units::quantile(quantile)?, most_us })
    }

    /// The time at a rate until there are enough messages for the quantile; bounded, since a low rate may never get there.
    fn seconds_min(&self, rate: f64) -> f64 {
        const SECONDS_MAX: f64 = 20.0;
        // A fifth more than needed, because gaps are random.
        let messages = if self.quantile < 1.0 { 1.2 * SAMPLES_ABOVE_MIN / (1.0 - self.quantile) } else { 1.0 };
        (messages / rate).min(SECONDS_MAX)
    }

    /// The latency of a run in microseconds, and whether it meets the objective, or why that is unknown.
    fn judge(&self, run: &MeasuredRun) -> (Option<f64>, Result<(), String>) {
        let value = Metric::LatencyUs("delivery".to_owned(), self.quantile).of(run);
        if let Some(why) = invalid_reasons_of_run(run).first() {
            return (value, Err(why.clone()));
        }
        match value {
            None => (None, Err("too few messages for this quantile: probe longer (--probe-seconds)".to_owned())),
            Some(us) if us <= self.most_us => (value, Ok(())),
            Some(_) => (value, Err("above the objective".to_owned())),
        }
    }
}

impl OpenLoopOptions {
    fn read(given: &ParsedOptions) -> Result<Self, UsageError> {
        let seconds = |name: &str, usual: f64, least: f64| match given.text(name) {
            Some(text) => decimal(name, text, least, WORKLOAD_NS_MAX as f64 / 4e9),
            None => Ok(usual),
        };
        let rates = given.text("rate").unwrap_or("1000,2000,5000,10000").split(',');
        let rates =
            rates.map(|text| decimal("rate", text.trim(), RATE_MIN, RATE_MAX)).collect::<Result<Vec<_>, _>>()?;
        let objective = given.text("objective").map(LatencyObjective::parse).transpose()?;
        if objective.is_some() && given.has("rate") && rates.len() > 1 {
            return Err(UsageError("--objective searches from one --rate".to_owned()));
        }
        let options = Self {
            rates,
            objective,
            arrivals: match given.one_of("arrivals", &["poisson", "even"])? {
                "even" => ArrivalProcess::Even,
                _ => ArrivalProcess::Poisson,
            },
            seconds: seconds("seconds", 5.0, 0.1)?,
            warm_up_s: seconds("warm-up", 1.0, 0.0)?,
            probe_s: seconds("probe-seconds", 2.0, 0.1)?,
            sizes: match given.text("sizes") {
                Some(range) if range.contains(':') => sizes(range, 2)?,
                Some(size) => vec![units::bytes(size)?],
                None => vec![64],
            },
            pairs: given.number("pairs", 1, 1, PAIRS_MAX as u64)? as usize,
            processes: given.number("processes", 1, 1, PAIRS_MAX as u64)? as usize,
            confirms: given.number("confirms", 0, 1, 1 << 32)?,
            ack_every: given.number("ack-every", 0, 1, 1 << 32)?,
            prefetch: given.number("prefetch", 0, 1, u64::from(u16::MAX))? as u16,
            seed: given.number("seed", 1, 0, i64::MAX as u64)?,
            durable: given.has("durable"),
        };
        if options.processes > options.pairs {
            return Err(UsageError(format!(
                "--processes {}: there are {} publishers (--pairs)",
                options.processes, options.pairs
            )));
        }
        if options.sizes.iter().any(|&size| size < STAMP_BYTES) {
            return Err(UsageError(format!(
                "-m: a message that carries its intended time has at least {STAMP_BYTES} bytes"
            )));
        }
        for &size_bytes in &options.sizes {
            for &rate in &options.rates {
                let spec = options.spec(size_bytes, rate, options.seconds);
                let parts = validation::publishers(&spec.publishers[0], &exchanges_only(&spec))
                    .and_then(|()| validation::consumers(&spec.consumers[0], &exchanges_only(&spec)));
                parts.and_then(|()| validation::whole(&spec)).map_err(UsageError)?;
            }
        }
        Ok(options)
    }

    fn record(&self, record: &mut RunRecorder) {
        record.note_option("arrivals", if self.arrivals == ArrivalProcess::Even { "even" } else { "poisson" });
        record.note_option("seconds", self.seconds);
        record.note_option("warm-up", self.warm_up_s);
        record.note_option("pairs", self.pairs);
        record.note_option("seed", self.seed);
        if self.objective.is_some() {
            record.note_option("probe-seconds", self.probe_s);
        } else {
            record.note_option("rate", self.rates.iter().map(f64::to_string).collect::<Vec<_>>().join(","));
        }
    }

    /// One pair with confirms, and an acknowledgement for each 100 messages.
    fn confirmed(rate: f64, window: u64) -> Self {
        Self {
            rates: vec![rate],
            objective: None,
            arrivals: ArrivalProcess::Poisson,
            seconds: 0.0,
            warm_up_s: 1.0,
            probe_s: 0.0,
            sizes: Vec::new(),
            pairs: 1,
            processes: 1,
            confirms: window,
            ack_every: 100,
            prefetch: 0,
            seed: 1,
            durable: true,
        }
    }

    /// The workload for `rate` messages per second.
    fn spec(&self, size_bytes: usize, rate: f64, seconds: f64) -> WorkloadSpec {
        WorkloadSpec {
            name: "open".to_owned(),
            about: String::new(),
            duration_ns: ((self.warm_up_s + seconds) * 1e9) as u64,
            warm_up_ns: (self.warm_up_s * 1e9) as u64,
            drain_ns: 5_000_000_000,
            seed: self.seed,
            exchanges: vec![WorkloadExchange { name: "x".to_owned(), kind: WorkloadExchangeType::Direct }],
            queues: Vec::new(),
            publishers: vec![PublisherGroup {
                name: "publishers".to_owned(),
                count: self.pairs,
                processes: self.processes,
                exchange: 0,
                key: "{publisher}".to_owned(),
                symbols: 1,
                popularity: SymbolPopularity::Uniform,
                size: SizeDistribution::Constant(size_bytes),
                rate: SendRate::Constant(rate),
                arrivals: self.arrivals,
                mandatory: false,
                persistent: false,
                confirms: self.confirms,
                reply_exchange: None,
            }],
            consumers: vec![ConsumerGroup {
                name: "consumers".to_owned(),
                count: self.pairs,
                from: QueueSource::Own {
                    bindings: vec![WorkloadBinding { exchange: 0, key: "{consumer}".to_owned() }],
                    picks: 0,
                    picks_of: 0,
                },
                prefetch: self.prefetch,
                ack: if self.ack_every == 0 { AckMode::None } else { AckMode::Every(self.ack_every) },
                think: None,
                reject: 0.0,
                crash: 0.0,
                answer: None,
            }],
            objectives: Vec::new(),
            durable: false,
        }
    }

    fn series(
        &self,
        size_bytes: usize,
        (target, is_durable): DurabilityCase<'_, BenchmarkTarget>,
        phase: Option<&str>,
    ) -> MeasuredSeries {
        let mut parameters = BTreeMap::new();
        note_durable(&mut parameters, is_durable);
        let mut note = |name: &str, value: String| _ = parameters.insert(name.to_owned(), value);
        note("pairs", self.pairs.to_string());
        note("arrivals", if self.arrivals == ArrivalProcess::Even { "even" } else { "poisson" }.to_owned());
        note("size_bytes", size_bytes.to_string());
        if self.confirms > 0 {
            note("confirms", self.confirms.to_string());
        }
        if self.ack_every > 0 {
            note("ack_every", self.ack_every.to_string());
        }
        if let Some(phase) = phase {
            note("phase", phase.to_owned());
        }
        MeasuredSeries {
            benchmark: "open".to_owned(),
            target: target.name.clone(),
            pace: LoopMode::Open,
            parameters,
            axis: "rate_per_s".to_owned(),
            points: Vec::new(),
        }
    }

    fn measure(
        &self,
        (size_bytes, rate, seconds): (usize, f64, f64),
        (target, is_durable): DurabilityCase<'_, BenchmarkTarget>,
        setup: &MeasureOptions,
        record: &RunRecorder,
    ) -> Result<MeasuredRun, CommandFailure> {
        check_interrupted()?;
        let spec = self.spec(size_bytes, rate, seconds);
        let spec = if is_durable { spec.durable() } else { spec };
        let progress = ProgressLine::begin();
        let show = |share: f64, doing: &str| progress.show(share, &format!("{}: {rate:.0}/s, {doing}", target.name));
        let outcome = execution::run(&spec, target, setup, &show);
        progress.clear();
        let mut all = run_results::runs(&spec, &outcome?, &record.document.environment).swap_remove(0);
        all.notes.extend(setup.tcp.queue_note(target.facts.product.as_deref()));
        Ok(all)
    }

    /// Measures every rate on every target, interleaved.
    fn sweep(
        &self,
        setup: &MeasureOptions,
        targets: &[BenchmarkTarget],
        record: &mut RunRecorder,
    ) -> Result<(), CommandFailure> {
        let cases = cases(targets, self.durable);
        for &size_bytes in &self.sizes {
            let first = record.document.series.len();
            let empty: Vec<MeasuredSeries> = cases.iter().map(|case| self.series(size_bytes, *case, None)).collect();
            let table = match record.output.format.is_incremental() {
                true => {
                    let series: Vec<&MeasuredSeries> = empty.iter().collect();
                    Some(OsuTable::begin(&record.document, &series, record.output.full)?)
                }
                false => None,
            };
            record.document.series.extend(empty);
            for &rate in &self.rates {
                let all = &mut record.document.series[first..];
                all.iter_mut().for_each(|series| series.points.push(point(rate, size_bytes, Vec::new())));
                for _run in 0..setup.runs {
                    for (at, case) in cases.iter().enumerate() {
                        let run = self.measure((size_bytes, rate, self.seconds), *case, setup, record)?;
                        if let Some(point) = record.document.series[first + at].points.last_mut() {
                            point.runs.push(run);
                        }
                    }
                }
                if let Some(table) = &table {
                    let series = &record.document.series[first..];
                    table.row(&series.iter().filter_map(|series| series.points.last()).collect::<Vec<_>>())?;
                }
            }
        }
        Ok(())
    }

    /// Searches for the highest rate of each target that meets the objective; the inner failure means that there is none.
    fn search(
        &self,
        objective: &LatencyObjective,
        setup: &MeasureOptions,
        targets: &[BenchmarkTarget],
        record: &mut RunRecorder,
    ) -> Result<Result<(), CommandFailure>, CommandFailure> {
        let mut missed = Ok(());
        for &size_bytes in &self.sizes {
            for case in cases(targets, self.durable) {
                let target = case.0;
                let (probes, above) = self.probe(objective, size_bytes, case, setup, record)?;
                match self.confirm(objective, size_bytes, (case, probes, above), setup, record)? {
                    Some((rate, above)) => {
                        // If the generator fell behind, the broker may well handle more.
                        let found = format!("the highest rate that keeps it is {rate:.0}/s; {above}");
                        let last = record.document.series.last_mut().and_then(|series| series.points.last_mut());
                        if let Some(run) = last.and_then(|point| point.runs.last_mut()) {
                            run.notes.push(found.clone());
                        }
                        print_line(record, &format!("{}: {found}", target.name))?;
                    }
                    None => {
                        missed = Err(CommandFailure::Missed(format!(
                            "{}: kept at no rate from {RATE_MIN}/s on",
                            target.name
                        )));
                    }
                }
            }
        }
        Ok(missed)
    }

    fn probe(
        &self,
        objective: &LatencyObjective,
        size_bytes: usize,
        case: DurabilityCase<'_, BenchmarkTarget>,
        setup: &MeasureOptions,
        record: &mut RunRecorder,
    ) -> Result<(RateSearch, LowestMissedRate), CommandFailure> {
        let mut above = LowestMissedRate::default();
        let guess = self.rates.first().copied().unwrap_or(RATE_MIN);
        let mut search = RateSearch::from(guess);
        let series = self.series(size_bytes, case, Some("probe"));
        let at = record.document.series.len();
        record.document.series.push(series);
        while let Some(rate) = search.rate() {
            let seconds = self.probe_s.max(objective.seconds_min(rate));
            let mut run = self.measure((size_bytes, rate, seconds), case, setup, record)?;
            let (value, met) = objective.judge(&run);
            print_line(record, &probe_line(case.0, rate, value, &met))?;
            above.observe(rate, &met);
            search.observe(met.is_ok());
            if !is_broken(&run) {
                // A probe above the maximum rate is an expected failure, not an INVALID figure.
                let why = std::mem::take(&mut run.invalid);
                run.notes.extend(why.into_iter().map(|why| format!("not kept: {why}")));
            }
            let points = &mut record.document.series[at].points;
            points.push(point(rate, size_bytes, vec![run]));
            points.sort_by(|one, other| one.at.total_cmp(&other.at));
        }
        Ok((search, above))
    }

    /// Confirms the result of a search with a longer run, and steps down while it misses the objective.
    fn confirm(
        &self,
        objective: &LatencyObjective,
        size_bytes: usize,
        (case, mut search, mut above): (DurabilityCase<'_, BenchmarkTarget>, RateSearch, LowestMissedRate),
        setup: &MeasureOptions,
        record: &mut RunRecorder,
    ) -> Result<Option<(f64, LowestMissedRate)>, CommandFailure> {
        const STEPS_MAX: usize = 5;
        let mut rate = search.best();
        for _step in 0..STEPS_MAX {
            let Some(trying) = rate else { return Ok(None) };
            let mut runs = Vec::with_capacity(setup.runs);
            let mut all_kept = true;
            for _run in 0..setup.runs {
                let seconds = self.seconds.max(objective.seconds_min(trying));
                let run = self.measure((size_bytes, trying, seconds), case, setup, record)?;
                let (value, met) = objective.judge(&run);
                print_line(record, &format!("confirming: {}", probe_line(case.0, trying, value, &met)))?;
                above.observe(trying, &met);
                all_kept &= met.is_ok();
                runs.push(run);
            }
            if all_kept {
                let mut series = self.series(size_bytes, case, None);
                series.points.push(point(trying, size_bytes, runs));
                if record.output.format.is_incremental() {
                    let table = OsuTable::begin(&record.document, &[&series], record.output.full)?;
                    table.row(&[&series.points[0]])?;
                }
                record.document.series.push(series);
                return Ok(Some((trying, above)));
            }
            rate = search.step_down();
        }
        Ok(None)
    }
}

/// The lowest rate that missed the objective, and why.
#[derive(Clone, Debug, Default)]
struct LowestMissedRate(Option<(f64, String)>);

impl LowestMissedRate {
    fn observe(&mut self, rate: f64, met: &Result<(), String>) {
        if let Err(why) = met
            && self.0.as_ref().is_none_or(|(lowest, _)| rate <= *lowest)
        {
            self.0 = Some((rate, why.clone()));
        }
    }
}

impl fmt::Display for LowestMissedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((rate, why)) => write!(f, "{rate:.0}/s did not: {why}"),
            None => write!(f, "no higher rate was tried"),
        }
    }
}

/// The workload of one pair with persistent messages, confirms in such a window, and an acknowledgement for each 100.
pub(crate) fn confirmed_spec(size_bytes: usize, rate: f64, seconds: f64, window: u64) -> WorkloadSpec {
    OpenLoopOptions::confirmed(rate, window).spec(size_bytes, rate, seconds).durable()
}

/// A workload with exchanges only, for validating its groups one by one.
fn exchanges_only(spec: &WorkloadSpec) -> WorkloadSpec {
    WorkloadSpec { publishers: Vec::new(), consumers: Vec::new(), ..spec.clone() }
}

fn point(rate: f64, size_bytes: usize, runs: Vec<MeasuredRun>) -> SeriesPoint {
    SeriesPoint { at: rate, size_bytes: size_bytes as f64, runs }
}

fn probe_line(target: &BenchmarkTarget, rate: f64, value: Option<f64>, met: &Result<(), String>) -> String {
    let value = value.map_or_else(|| "-".to_owned(), |us| units::shown_ns((us * 1e3) as u64));
    let met = met.as_ref().map_or_else(|why| format!("not kept: {why}"), |()| "kept".to_owned());
    format!("{}: {rate:.0}/s, {value}: {met}", target.name)
}

/// Prints a line beside the table, unless the output is a document.
fn print_line(record: &RunRecorder, line: &str) -> Result<(), String> {
    if record.output.format.is_incremental() { put(&format!("# {line}\n")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<OpenLoopOptions, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        OpenLoopOptions::read(&ParsedOptions::parse(&words, &[OPTIONS])?)
    }

    #[test]
    fn invalid_options_are_refused() {
        for (line, expected) in [
            ("-m 16", "-m: a message that carries its intended time has at least 32 bytes"),
            ("--rate 1,2", "--rate is a number from 10 to 8000000, not '1'"),
            ("--rate x", "--rate is a number from 10 to 8000000, not 'x'"),
            ("--objective 1ms", "--objective is a quantile and a time, as in p99=1ms, not '1ms'"),
            ("--objective p99=1", "'1' is not a duration: expected a number and us, ms, s or min, as in '250ms'"),
            ("--objective p99=0ms", "--objective: the time must be longer than 0"),
            ("--objective p99=1ms --rate 100,200", "--objective searches from one --rate"),
            ("--arrivals often", "--arrivals is one of poisson, even, not 'often'"),
            ("--processes 2", "--processes 2: there are 1 publishers (--pairs)"),
            ("--ack-every 10 --prefetch 5", "ack every 10 must not exceed prefetch 5: the consumer would stall"),
        ] {
            assert_eq!(options(line).err().map(|wrong| wrong.0).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn defaults() {
        let options = options("").expect("nothing is wrong");
        assert_eq!((options.sizes.as_slice(), options.pairs, options.rates.len()), (&[64][..], 1, 4));
        let spec = options.spec(64, 1_000.0, 5.0);
        assert_eq!((spec.duration_ns, spec.warm_up_ns), (6_000_000_000, 1_000_000_000));
    }

    #[test]
    fn the_lowest_missed_rate_is_reported() {
        let mut above = LowestMissedRate::default();
        assert_eq!(above.to_string(), "no higher rate was tried");
        for (rate, met) in [(400.0, Err("a")), (100.0, Ok(())), (200.0, Err("b")), (300.0, Err("c"))] {
            above.observe(rate, &met.map_err(str::to_owned));
        }
        assert_eq!(above.to_string(), "200/s did not: b");
    }

    #[test]
    fn objectives() {
        assert_eq!(LatencyObjective::parse("p99.9=10ms").map(|one| one.most_us), Ok(10_000.0));
        assert_eq!(LatencyObjective::parse("max=1s"), Ok(LatencyObjective { quantile: 1.0, most_us: 1e6 }));
        let p99 = LatencyObjective::parse("p99=1ms").expect("it is one");
        assert!((p99.seconds_min(1_000.0) - 1.2).abs() < 1e-6 && p99.seconds_min(10.0) <= 20.0);
    }
}
