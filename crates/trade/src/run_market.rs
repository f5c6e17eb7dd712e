//! `harrier market run`: runs a whole market, once or several times, on one broker or several in turn.
//!
//! A run in which an order was not answered exactly once fails.

use std::collections::BTreeMap;
use std::path::PathBuf;

use report::document::{LoopMode, MeasuredSeries, SeriesPoint};
use report::page::PageSection;
use report::stdout::put;

use super::market_figures::MarketFigures;
use super::market_options::{MarketLoad, TRADING, rate};
use super::market_table::{head, row};
use super::running_market::{MarketRun, trade};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::launcher::has_ranks;
use harness::measure_options::{MeasureOptions, OUTPUT, TARGETS};
use harness::placement::CpuPlacement;
use harness::run_recorder::{RunRecorder, check_interrupted};
use harness::target::BenchmarkTarget;

const OWN: &[OptionSpec] = &[
    option("rate", None, "R", "orders a second of all gateways together, or max: as fast as possible (default 8000)"),
    option("runs", None, "N", "runs, interleaved over all brokers (default 1)"),
    option("file", None, "FILE", "file for the reporter's measurements, a line of JSON each (of the last run)"),
    option("kill-engine-after", None, "S", "kill the engine after S seconds and start another one (with --confirms)"),
];

/// How brokers take turns.
pub(super) const TURNS: &[OptionSpec] = &[option(
    "pause-others",
    None,
    "",
    "stop (SIGSTOP) the brokers that are not being measured: an idle broker may use processor time",
)];

const ABOUT: &str = "\
Starts the reporter, the matching engine and the gateways as processes, and a broker unless --url names one; sends orders at a fixed rate
that does not wait for answers, and prints the results: orders a second as sent and as received by the engine, confirmations and quotes a
second as sent by the engine and as received by the gateways, the time from when an order was due until it was answered, and the
processors that broker, gateways and engine used. Every order must be answered exactly once; if one is not, or a measurement did not
reach the reporter, the status is 3.";

const EXAMPLES: &[(&str, &str)] = &[
    ("run", "100,000 orders at 8,000 a second, the paper's highest rate"),
    ("run --rate 400000 --orders 4000000 --file measurements.jsonl", "far above it, with a file of all measurements"),
    ("run --rate max --against amqp://127.0.0.1:5673", "two brokers, interleaved, as fast as possible"),
    ("run --confirms --kill-engine-after 1 --orders 40000", "nothing is lost or duplicated when the engine is killed"),
];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier market run [OPTIONS]", ABOUT, &[OWN, TURNS, TRADING, TARGETS, OUTPUT], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a program or broker that failed, figures that must not be trusted.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let (load, setup) = (MarketLoad::read(&given, 100_000)?, MeasureOptions::read(&given)?);
    let rate = rate(given.text("rate").unwrap_or("8000"))?;
    let kill_engine_s = given.has("kill-engine-after").then(|| given.decimal("kill-engine-after", 1.0, 0.0, 3_600.0));
    let kill_engine_s = kill_engine_s.transpose()?;
    if kill_engine_s.is_some() && !load.confirms {
        return Err(
            UsageError("--kill-engine-after: without --confirms a killed engine loses its orders".to_owned()).into()
        );
    }
    if kill_engine_s.is_some() && has_ranks() {
        return Err(UsageError(
            "--kill-engine-after: under a launcher the engine is another rank's process".to_owned(),
        )
        .into());
    }
    let file = given.text("file").map(PathBuf::from);
    let mut market = MarketBench::begin("run", words, &given, setup, load)?;
    let outcome = market.print_header().and_then(|()| {
        for _run in 0..market.setup.runs {
            for target in 0..market.targets.len() {
                let run = MarketRun { load: &market.load.clone(), rate, file: file.as_deref(), kill_engine_s };
                let figures = market.measure(&run, target)?;
                market.add_run(rate, target, None, &figures);
                market.show_row(rate, &market.targets[target].name, &figures)?;
                market.show(&format!("# {}\n", figures.describe()))?;
            }
        }
        Ok(())
    });
    market.finish(outcome)
}

/// State that the measuring commands share: brokers, a load, a record.
pub(super) struct MarketBench {
    pub load: MarketLoad,
    pub setup: MeasureOptions,
    pub targets: Vec<BenchmarkTarget>,
    /// Length of the longest broker name in rows.
    pub letters: usize,
    /// Whether brokers are stopped while another one is measured.
    pauses: bool,
    record: RunRecorder,
    sections: Vec<PageSection>,
    /// Why an order or a sample was lost in any run, recorded or not.
    losses: Vec<String>,
}

impl MarketBench {
    /// Starts the brokers, or connects to them.
    ///
    /// # Errors
    /// A broker is not available, or a file cannot be written.
    pub(super) fn begin(
        command: &str,
        words: &[String],
        given: &ParsedOptions,
        setup: MeasureOptions,
        load: MarketLoad,
    ) -> Result<Self, CommandFailure> {
        setup.output.prepare()?;
        let pauses = given.has("pause-others");
        let targets = setup.targets()?;
        if pauses {
            targets.iter().try_for_each(|target| target.pause().map(drop))?;
        }
        let mut record = RunRecorder::begin(&format!("market {command}"), words, given, &setup, &targets);
        record.document.command = record.document.command.replacen("harrier bench ", "harrier ", 1);
        for (name, value) in parameters(&load) {
            record.note_option(&name, value);
        }
        let letters = targets.iter().map(|target| target.name.len()).max().unwrap_or(0);
        Ok(Self { load, setup, targets, letters, pauses, record, sections: Vec::new(), losses: Vec::new() })
    }

    /// Prints the load and the header of the table.
    pub(super) fn print_header(&self) -> Result<(), CommandFailure> {
        let about = format!("# {}: {}\n", self.record.document.command, self.load.describe());
        self.show(&format!("{about}# {}\n{}", self.record.document.environment.line(), head(self.letters)))
    }

    /// Prints text, unless another format was requested.
    pub(super) fn show(&self, text: &str) -> Result<(), CommandFailure> {
        if self.setup.output.format.is_incremental() { Ok(put(text)?) } else { Ok(()) }
    }

    /// Prints a row.
    pub(super) fn show_row(
        &self,
        rate: Option<f64>,
        broker: &str,
        figures: &MarketFigures,
    ) -> Result<(), CommandFailure> {
        self.show(&row(rate, broker, self.letters, figures))
    }

    /// Runs a market once on a target.
    pub(super) fn measure(&mut self, run: &MarketRun<'_>, target: usize) -> Result<MarketFigures, CommandFailure> {
        check_interrupted()?;
        let others = self.targets.iter().enumerate().filter(|&(index, _)| self.pauses && index != target);
        let _paused = others.map(|(_, other)| other.pause()).collect::<Result<Vec<_>, _>>()?;
        let target = &self.targets[target];
        let _placed = target.pin(&self.setup.placement)?;
        let outcome = trade(run, target, &self.setup.placement)?;
        let figures = MarketFigures::of(outcome, run.load, run.rate);
        self.losses.extend(figures.losses());
        Ok(figures)
    }

    /// Adds a run to the document; `place` if there are several placements.
    pub(super) fn add_run(
        &mut self,
        rate: Option<f64>,
        target: usize,
        place: Option<&CpuPlacement>,
        figures: &MarketFigures,
    ) {
        let mut parameters = parameters(figures.load());
        parameters.extend(place.map(|place| ("cpus".to_owned(), place.to_string())));
        // Runs of equal length at different rates differ in orders, and are points of the same curve.
        parameters.remove("orders");
        let (pace, axis, at) = match rate {
            Some(rate) => (LoopMode::Open, "rate_per_s", rate),
            None => (LoopMode::Closed, "window", figures.load().window as f64),
        };
        parameters.insert("rate".to_owned(), if rate.is_some() { "set" } else { "max" }.to_owned());
        let name = self.targets[target].name.clone();
        let all = &mut self.record.document.series;
        let found = all.iter().position(|one| one.target == name && one.axis == axis && one.parameters == parameters);
        let index = found.unwrap_or_else(|| {
            let benchmark = "order".to_owned();
            all.push(MeasuredSeries {
                benchmark,
                target: name,
                pace,
                parameters,
                axis: axis.to_owned(),
                points: Vec::new(),
            });
            all.len() - 1
        });
        let points = &mut all[index].points;
        let run = figures.to_run();
        match points.iter_mut().find(|point| point.at == at) {
            Some(point) => point.runs.push(run),
            None => points.push(SeriesPoint { at, size_bytes: market::ORDER_BYTES as f64, runs: vec![run] }),
        }
    }

    /// Adds a table to the page.
    pub(super) fn section(&mut self, section: PageSection) {
        self.sections.push(section);
    }

    /// Ends the record.
    pub(super) fn finish(self, outcome: Result<(), CommandFailure>) -> Result<(), CommandFailure> {
        let whole = outcome.is_ok();
        let incremental = self.setup.output.format.is_incremental();
        self.record.end_with(outcome, &self.sections)?;
        if let Some(why) = self.losses.first() {
            return Err(CommandFailure::Invalid(why.clone()));
        }
        if whole && incremental {
            put("# every order was answered exactly once, and every measurement reached the reporter\n")?;
        }
        Ok(())
    }
}

fn parameters(load: &MarketLoad) -> BTreeMap<String, String> {
    let confirms = if load.confirms { "yes" } else { "no" };
    BTreeMap::from(
        [
            ("orders", load.orders.to_string()),
            ("gateways", load.gateways.to_string()),
            ("symbols", load.symbols.to_string()),
            ("matching", load.matching().to_string()),
            ("seed", load.seed.to_string()),
            ("confirms", confirms.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    )
}
