//! The benchmarks of the 2008 paper, sections 3.1 and 3.3: DE-SPSC and DE-PP; and the floor under both.
//!
//! Enters: a command line.  Leaves: a table in the OSU columns, JSON, the report.
//! Owns:   which columns each benchmark prints.
//! Never:  mixes warm-up into a figure.

use std::path::Path;

use serde_json::json;

use crate::arguments::{Given, Option_, help, option};
use crate::limits::{CONSUMERS_MAX, KEYS_MAX, PAIRS_MAX, PATTERNS_MAX, RUNS_MAX, SEGMENT_MESSAGES_MAX};
use crate::placement::Placement;
use crate::plan::{Counts, Segment, Shape, sizes};
use crate::scenario::{ExchangeType, Figures, Running, Scenario};
use crate::target::Target;
use gauge::Environment;
use gauge::Runs;
use report::page;
use report::table::{Table, put};

/// Options of every benchmark.
pub const COMMON: &[Option_] = &[
    option("sizes", Some('m'), "MIN:MAX", "message sizes in powers of two (default 1:1M)"),
    option("iterations", Some('i'), "COUNT", "messages of each size (default: by size)"),
    option("runs", None, "N", "runs of each size; the table shows medians (default 1)"),
    option("cpus", None, "PLACES", "processors, as in broker=0,publisher=1,consumer=1 (default any)"),
    option("columns", None, "osu|all", "the OSU columns (default), or more"),
    option("json", None, "FILE", "write everything as JSON"),
    option("report", None, "FILE", "add the table and its figure to an HTML report"),
    option("help", Some('h'), "", "this text"),
];

/// Options of benchmarks that go through a broker.
pub const BROKER: &[Option_] = &[
    option("url", None, "URL", "measure the broker at amqp://… (default: this program's own, started for the run)"),
    option("broker-command", None, "COMMAND", "start this broker instead; --listen ADDRESS is added"),
    option("broker-options", None, "OPTIONS", "more options for the broker that is started"),
    option("confirms", None, "WINDOW", "publisher confirms, at most so many outstanding (default: none)"),
    option("ack-every", None, "N", "manual acknowledgement each N messages (default: automatic)"),
    option("prefetch", None, "N", "unacknowledged messages sent ahead (default: no limit)"),
];

/// Options of streams.
pub const STREAM: &[Option_] = &[
    option("pairs", None, "N", "publisher-consumer pairs at once (default 1)"),
    option("consumers", None, "N", "fanout: consumers of each message"),
    option("patterns", None, "N", "topic: patterns bound, one of which matches"),
    option("keys", None, "N", "topic: routing keys used in turn (default 1)"),
];

/// Options of the floor.
pub const FLOOR: &[Option_] = &[
    option("ping-pong", None, "", "round trips instead of a stream"),
    option("spin", None, "US", "the relay polls so long before it sleeps (default 0)"),
];

/// Which benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// One publisher, one consumer, one direction.
    DeSpsc,
    /// Round trips between two.
    DePp,
    /// Either, through a relay instead of a broker.
    Floor,
}

impl Benchmark {
    fn name(self) -> &'static str {
        match self {
            Self::DeSpsc => "de-spsc",
            Self::DePp => "de-pp",
            Self::Floor => "floor",
        }
    }

    fn options(self) -> Vec<&'static [Option_]> {
        match self {
            Self::DeSpsc => vec![COMMON, BROKER, STREAM],
            Self::DePp => vec![COMMON, BROKER],
            Self::Floor => vec![COMMON, FLOOR],
        }
    }
}

/// What a command line asks for.
struct Asked {
    benchmark: Benchmark,
    shape: Shape,
    scenario: Scenario,
    sizes: Vec<usize>,
    iterations: Option<u64>,
    runs: usize,
    placement: Placement,
    all_columns: bool,
}

/// Runs a benchmark.
///
/// # Errors
/// A wrong command line, a target that fails, lost or doubled messages.
pub fn run(benchmark: Benchmark, words: &[String]) -> Result<(), String> {
    let options = benchmark.options();
    let given = Given::parse(words, &options)?;
    if given.has("help") {
        return put(&help(&format!("harrier bench {} [OPTIONS]", benchmark.name()), &options));
    }
    let asked = Asked::read(benchmark, &given)?;
    let target = asked.target(&given)?;
    let environment = Environment::read();
    let all = asked.measure(&target, &environment)?;
    if let Some(file) = given.text("json") {
        let text = serde_json::to_string_pretty(&asked.json(&target, &environment, &all))
            .map_err(|error| error.to_string())?;
        page::write_file(Path::new(file), &(text + "\n"))?;
    }
    if let Some(file) = given.text("report") {
        page::add(Path::new(file), &asked.section(&target, &environment, &all))?;
    }
    let complaints: Vec<String> = all.iter().flatten().filter_map(Figures::complaint).collect();
    if complaints.is_empty() { Ok(()) } else { Err(format!("INVALID: {}", complaints.join("; "))) }
}

impl Asked {
    fn read(benchmark: Benchmark, given: &Given) -> Result<Self, String> {
        let number = |name: &str, usual: usize, most: usize| {
            given.number(name, usual as u64, 1, most as u64).map(|number| number as usize)
        };
        let shape = match benchmark {
            Benchmark::DeSpsc => Shape::Stream,
            Benchmark::DePp => Shape::PingPong,
            Benchmark::Floor if given.has("ping-pong") => Shape::PingPong,
            Benchmark::Floor => Shape::Stream,
        };
        let (fanout, topic) = (given.has("consumers"), given.has("patterns") || given.has("keys"));
        let exchange_type = match (fanout, topic) {
            (true, true) => {
                return Err("--consumers is of fanout, --patterns and --keys are of topic exchanges".to_owned());
            }
            (true, false) => ExchangeType::Fanout,
            (false, true) => ExchangeType::Topic,
            (false, false) => ExchangeType::Direct,
        };
        let scenario = Scenario {
            exchange_type,
            pairs: number("pairs", 1, PAIRS_MAX)?,
            consumers: number("consumers", 1, CONSUMERS_MAX)?,
            patterns: number("patterns", 1, PATTERNS_MAX)?,
            keys: number("keys", 1, KEYS_MAX)?,
            confirm_window: given.number("confirms", 0, 1, 1 << 32)?,
            ack_every: given.number("ack-every", 0, 1, 1 << 32)?,
            prefetch: given.number("prefetch", 0, 0, u64::from(u16::MAX))? as u16,
        };
        if scenario.prefetch > 0 && scenario.ack_every > u64::from(scenario.prefetch) {
            return Err("--ack-every above --prefetch would wait for ever".to_owned());
        }
        Ok(Self {
            benchmark,
            shape,
            scenario,
            sizes: sizes(given.text("sizes").unwrap_or("1:1M"))?,
            iterations: match given.has("iterations") {
                true => Some(given.number("iterations", 1, 1, SEGMENT_MESSAGES_MAX)?),
                false => None,
            },
            runs: number("runs", 1, RUNS_MAX)?,
            placement: Placement::parse(given.text("cpus").unwrap_or(""))?,
            all_columns: match given.text("columns") {
                None | Some("osu") => false,
                Some("all") => true,
                Some(other) => return Err(format!("--columns is osu or all, not '{other}'")),
            },
        })
    }

    fn target(&self, given: &Given) -> Result<Target, String> {
        if self.benchmark == Benchmark::Floor {
            return Target::relay(given.number("spin", 0, 0, 1_000_000)?, &self.placement.broker);
        }
        match given.text("url") {
            Some(url) => Target::at(url),
            None => {
                let extra: Vec<String> =
                    given.text("broker-options").unwrap_or("").split_whitespace().map(str::to_owned).collect();
                Target::embedded(given.text("broker-command"), &extra, &self.placement.broker)
            }
        }
    }

    fn columns(&self) -> Vec<&'static str> {
        let mut columns = match self.shape {
            Shape::Stream => vec!["MB/s", "Messages/s"],
            Shape::PingPong => vec!["Latency (us)"],
        };
        if self.all_columns {
            match self.shape {
                Shape::Stream => columns.extend(["us/message", "Delivered/s"]),
                Shape::PingPong => {
                    columns.extend(["RTT p50 (us)", "RTT p99 (us)", "RTT p99.9 (us)", "RTT max (us)", "Messages/s"])
                }
            }
            columns.extend(["Broker CPU s/M", "Publisher CPU s/M", "Consumer CPU s/M"]);
        }
        columns
    }

    /// The values of one segment in the order of all columns.
    fn values(&self, figures: &Figures) -> Vec<Option<f64>> {
        let mut values = match self.shape {
            Shape::Stream => vec![Some(figures.mb_per_s()), Some(figures.published_per_s())],
            // As the OSU benchmarks: one way, half the round trip.
            Shape::PingPong => vec![Some(figures.latencies.mean_us() / 2.0)],
        };
        if self.all_columns {
            match self.shape {
                Shape::Stream => {
                    values.extend([Some(1e6 / figures.published_per_s()), Some(figures.delivered_per_s())])
                }
                Shape::PingPong => {
                    let quantile = |share: f64| Some(figures.latencies.quantile_us(share));
                    values.extend([
                        quantile(0.5),
                        quantile(0.99),
                        quantile(0.999),
                        Some(figures.latencies.max_us()),
                        Some(figures.published_per_s()),
                    ]);
                }
            }
            values.push(figures.broker_cpu_s_per_million());
            values.push(Some(figures.cpu_s_per_million(figures.publishers)));
            values.push(Some(figures.cpu_s_per_million(figures.consumers)));
        }
        values
    }

    fn counts(&self, size_bytes: usize) -> Counts {
        match self.shape {
            Shape::Stream => Counts::stream(size_bytes, self.iterations),
            Shape::PingPong => Counts::ping_pong(size_bytes, self.iterations),
        }
    }

    /// Runs every size; the outer vector has one entry a size, the inner one a run.
    fn measure(&self, target: &Target, environment: &Environment) -> Result<Vec<Vec<Figures>>, String> {
        let title = format!("harrier bench {}: {}, closed loop", self.benchmark.name(), target.name);
        let table =
            Table::begin(&[title, environment.line(), format!("placement: {}", self.placement)], &self.columns())?;
        let mut running = Running::start(&self.scenario, target, &self.placement)?;
        let mut all = Vec::with_capacity(self.sizes.len());
        for &size_bytes in &self.sizes {
            let counts = self.counts(size_bytes);
            let segment = Segment { shape: self.shape, size_bytes, count: counts.measured };
            let mut runs = Vec::with_capacity(self.runs);
            for run in 1..=self.runs {
                table
                    .progress(&format!("{size_bytes} bytes, run {run} of {}: {} messages", self.runs, counts.measured));
                running.segment(&Segment { count: counts.warm_up, ..segment })?;
                runs.push(running.segment(&segment)?);
            }
            table.row(size_bytes, &self.medians(&runs))?;
            all.push(runs);
        }
        Ok(all)
    }

    fn medians(&self, runs: &[Figures]) -> Vec<Option<f64>> {
        let rows: Vec<Vec<Option<f64>>> = runs.iter().map(|figures| self.values(figures)).collect();
        (0..rows.first().map_or(0, Vec::len))
            .map(|column| rows.iter().filter_map(|row| row[column]).collect::<Runs>().median())
            .collect()
    }

    fn json(&self, target: &Target, environment: &Environment, all: &[Vec<Figures>]) -> serde_json::Value {
        let sizes: Vec<_> = all.iter().map(|runs| runs.iter().map(figures_json).collect::<Vec<_>>()).collect();
        json!({
            "benchmark": self.benchmark.name(),
            "loop": "closed",
            "target": target.name,
            "environment": environment,
            "placement": self.placement.to_string(),
            "scenario": self.scenario,
            "sizes": sizes,
        })
    }

    fn section(&self, target: &Target, environment: &Environment, all: &[Vec<Figures>]) -> page::Section {
        let wide = Self {
            all_columns: true,
            scenario: self.scenario.clone(),
            sizes: Vec::new(),
            placement: self.placement.clone(),
            ..*self
        };
        let points = |value: &dyn Fn(&Figures) -> f64| -> Vec<(f64, f64)> {
            all.iter()
                .filter_map(|runs| {
                    let size = runs.first()?.segment.size_bytes as f64;
                    runs.iter().map(value).collect::<Runs>().median().map(|median| (size, median))
                })
                .collect()
        };
        let figures = match self.shape {
            Shape::Stream => vec![
                page::Figure {
                    title: "Messages a second".to_owned(),
                    lines: vec![(target.name.clone(), points(&Figures::published_per_s))],
                },
                page::Figure {
                    title: "MB a second".to_owned(),
                    lines: vec![(target.name.clone(), points(&Figures::mb_per_s))],
                },
            ],
            Shape::PingPong => vec![page::Figure {
                title: "Round trip, us".to_owned(),
                lines: vec![
                    ("median".to_owned(), points(&|figures| figures.latencies.quantile_us(0.5))),
                    ("99 %".to_owned(), points(&|figures| figures.latencies.quantile_us(0.99))),
                ],
            }],
        };
        page::Section {
            name: self.benchmark.name().to_owned(),
            facts: vec![
                target.name.clone(),
                environment.line(),
                format!("placement: {}; {} runs, medians", self.placement, self.runs),
            ],
            columns: std::iter::once("Size").chain(wide.columns()).map(str::to_owned).collect(),
            rows: all
                .iter()
                .filter_map(|runs| Some((runs.first()?.segment.size_bytes, runs)))
                .map(|(size, runs)| {
                    std::iter::once(size.to_string()).chain(wide.medians(runs).into_iter().map(page::number)).collect()
                })
                .collect(),
            figures,
        }
    }
}

/// One segment as JSON.
pub fn figures_json(figures: &Figures) -> serde_json::Value {
    json!({
        "segment": figures.segment,
        "published": figures.published,
        "delivered": figures.delivered,
        "elapsed_s": figures.elapsed_s,
        "published_per_s": figures.published_per_s(),
        "delivered_per_s": figures.delivered_per_s(),
        "mb_per_s": figures.mb_per_s(),
        "broker": figures.broker,
        "broker_cpu_s_per_million": figures.broker_cpu_s_per_million(),
        "publishers": figures.publishers,
        "consumers": figures.consumers,
        "faults": figures.faults,
        "refused": figures.refused,
        "latency_ns_buckets": figures.latencies.buckets(),
    })
}
