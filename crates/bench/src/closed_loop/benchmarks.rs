//! Declarations of the closed-loop benchmarks: name, description, options, and the scenarios made from the paper's variables.

use std::collections::BTreeMap;

use super::options::{BASELINE, CONFIRM, CONSUMERS, DELIVERY, DURABLE, NULL, PAIRS, RAW, SIZES, TOPIC, WINDOW};
use crate::limits::{CHANGES_PER_S_MAX, PAIRS_MAX, PATTERNS_MAX, WINDOW_MESSAGES_MAX};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError};
use harness::command_spec::CommandSpec;
use harness::delivery_window::DeliveryWindow;
use harness::measure_options::{EFFORT, OUTPUT, SOCKETS, TARGETS};
use harness::role_protocol::TrafficShape;
use harness::tcp::QUEUE;
use load::limits::{CONSUMERS_MAX, KEYS_MAX};
use load::patterns::PatternMatching;
use load::scenario::{Scenario, ScenarioExchange};

/// A closed-loop benchmark.
pub struct Benchmark {
    /// Its name in documents.
    pub name: &'static str,
    /// Its command words.
    pub command: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
    /// The description in its help.
    pub about: &'static str,
    /// Example command lines with their purpose.
    pub examples: &'static [(&'static str, &'static str)],
    /// Whether it measures a relay and no broker.
    pub is_raw: bool,
    own_options: &'static [&'static [OptionSpec]],
    /// The traffic pattern.
    shape: fn(&ParsedOptions) -> TrafficShape,
    /// Makes the scenarios from the options.
    variants: fn(&ParsedOptions) -> Result<Vec<BenchmarkVariant>, UsageError>,
}

/// One scenario of a benchmark, with the parameters that distinguish it.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkVariant {
    pub parameters: BTreeMap<String, String>,
    pub scenario: Scenario,
}

/// All benchmarks in the order of the listing.
pub static ALL: &[Benchmark] = &[
    Benchmark {
        name: "de-spsc",
        command: "de-spsc",
        summary: "one publisher, one consumer through a direct exchange, by size",
        about: "\
One publisher sends a fixed number of messages of a size to one consumer through a direct exchange, as fast as the
broker accepts them. The consumer answers with an empty message after the last one, which stops the publisher's clock.
(The paper's DE-SPSC.)",
        examples: &[
            ("de-spsc", "this program's own broker, sizes from 1 B to 1 MiB"),
            ("de-spsc -m 64:64K --runs 5 --url amqp://host --against amqp://other", "two brokers in turns, with the ratio"),
            ("de-spsc --baseline -f", "all columns, and the broker's share of the raw-socket rate"),
            ("de-spsc --null -m 1:1M", "the load generator's own ceiling beside the broker's rate"),
            ("de-spsc --window 16,64,512 -m 64K:64K --baseline", "how deep the pipe is, beside the same through a relay"),
        ],
        is_raw: false,
        own_options: &[WINDOW, SIZES, DELIVERY, BASELINE, NULL],
        shape: |_| TrafficShape::Stream,
        variants: |given| {
            let scenario = delivery(given, Scenario::default())?;
            windows(given, vec![BenchmarkVariant::new(scenario, &[])])
        },
    },
    Benchmark {
        name: "de-mpmc",
        command: "de-mpmc",
        summary: "1, 2, 4, 8 publisher-consumer pairs through one direct exchange, by size",
        about: "\
Several publisher-consumer pairs use one direct exchange concurrently; each pair does what de-spsc does. Rates are those
of all pairs together, from the first message of the first pair to the last answer of the last. (The paper's DE-MPMC.)",
        examples: &[
            ("de-mpmc", "1, 2, 4 and 8 pairs"),
            ("de-mpmc --pairs 16,32 -m 64:64", "many pairs at one size"),
        ],
        is_raw: false,
        own_options: &[PAIRS, WINDOW, SIZES, DELIVERY, BASELINE, NULL],
        shape: |_| TrafficShape::Stream,
        variants: |given| {
            let pairs = given.list("pairs", &[1, 2, 4, 8], 1, PAIRS_MAX)?;
            let scenario = delivery(given, Scenario::default())?;
            let variant =
                |&pairs: &usize| BenchmarkVariant::new(Scenario { pairs, ..scenario.clone() }, &[("pairs", pairs.to_string())]);
            windows(given, pairs.iter().map(variant).collect())
        },
    },
    Benchmark {
        name: "de-pp",
        command: "de-pp",
        summary: "round trips between two through a direct exchange, by size",
        about: "\
The publisher sends one message and waits until the consumer has sent one of the same size back, through the same direct
exchange; then it sends the next. Each round trip is timed; the first column is half their mean, as the OSU benchmarks
print it, the others are quantiles of whole round trips. (The paper's DE-PP.)",
        examples: &[
            ("de-pp", "this program's own broker"),
            ("de-pp --cpus broker=0,publisher=1,consumer=1", "each wait crosses processors in the same way"),
            ("de-pp --baseline --runs 5", "with round trips of raw sockets through a relay for comparison"),
        ],
        is_raw: false,
        own_options: &[SIZES, BASELINE],
        shape: |_| TrafficShape::PingPong,
        variants: |_| Ok(vec![BenchmarkVariant::new(Scenario::default(), &[])]),
    },
    Benchmark {
        name: "fe-spmc",
        command: "fe-spmc",
        summary: "one publisher to 1, 2, 4, … 32 consumers through a fanout exchange, by size",
        about: "\
One publisher sends a fixed number of messages of a size to a fanout exchange; each goes to every consumer.
Consumers have queues of their own and answer after the last message. MB/s and Delivered/s count every delivery, Messages/s counts what
was published. (The paper's FE-SPMC.)",
        examples: &[
            ("fe-spmc", "1, 2, 4, 8, 16 and 32 consumers"),
            ("fe-spmc --consumers 256 -m 64:1K", "a wide fan-out"),
        ],
        is_raw: false,
        own_options: &[CONSUMERS, SIZES, DELIVERY, BASELINE, NULL],
        shape: |_| TrafficShape::Stream,
        variants: |given| {
            let consumers = given.list("consumers", &[1, 2, 4, 8, 16, 32], 1, CONSUMERS_MAX)?;
            let processes = given.number("processes", 1, 1, CONSUMERS_MAX as u64)? as usize;
            let fanout = Scenario { exchange_type: ScenarioExchange::Fanout, processes, ..Scenario::default() };
            let scenario = delivery(given, fanout)?;
            let variant = |&consumers: &usize| {
                BenchmarkVariant::new(Scenario { consumers, ..scenario.clone() }, &[("consumers", consumers.to_string())])
            };
            Ok(consumers.iter().map(variant).collect())
        },
    },
    Benchmark {
        name: "te-spsc",
        command: "te-spsc",
        summary: "through a topic exchange with 1, 4, 16, … 1,024 patterns, one of which matches, by size",
        about: "\
One publisher, one consumer through a topic exchange to which many patterns are bound; one of them matches (--match one).
The others are bound to a queue that no message reaches, and nearly match. --match all: all match and are
bound to the consumer's queue. --match wildcards: nearly every word of a pattern is a wildcard. --changing N: while messages
flow, N bindings are added and taken away each second. (The paper's TE-SPSC.)",
        examples: &[
            ("te-spsc", "1 to 1,024 patterns, one routing key"),
            ("te-spsc --patterns 1024 --keys 1000", "a thousand routing keys in turn, so that caching one key does not help"),
            ("te-spsc --patterns 1024 --changing 1000", "bindings that come and go under load"),
        ],
        is_raw: false,
        own_options: &[TOPIC, SIZES, DELIVERY, BASELINE, NULL],
        shape: |_| TrafficShape::Stream,
        variants: topics,
    },
    Benchmark {
        name: "confirm",
        command: "confirm",
        summary: "publisher confirms and consumer acknowledgements, by size",
        about: "\
Like de-spsc, but every message is confirmed to its publisher, with at most a window of unconfirmed messages, and
acknowledged by its consumer. The table also shows the confirm latency: from publishing a message to reading its confirm.",
        examples: &[
            ("confirm", "a window of 1,000, an acknowledgement for each 100"),
            ("confirm --window 1 -m 64:64", "each message waits for its confirm"),
        ],
        is_raw: false,
        own_options: &[CONFIRM, SIZES, BASELINE],
        shape: |_| TrafficShape::Stream,
        variants: |given| {
            let scenario = Scenario {
                confirm_window: given.number("window", 1_000, 1, 1 << 32)?,
                ack_every: given.number("ack-every", 100, 1, 1 << 32)?,
                prefetch: given.number("prefetch", 0, 0, u64::from(u16::MAX))? as u16,
                ..Scenario::default()
            };
            check_prefetch(&scenario)?;
            let parameters = [("window", scenario.confirm_window), ("ack_every", scenario.ack_every)];
            let parameters = parameters.map(|(name, value)| (name, value.to_string()));
            Ok(vec![BenchmarkVariant::new(scenario, &parameters)])
        },
    },
    Benchmark {
        name: "sockets",
        command: "baseline sockets",
        summary: "raw sockets through a relay that knows no AMQP: what the network allows, by size",
        about: "\
The same publishers and consumers without AMQP: a relay in the broker's place copies bytes between the connections. Its
rate is the upper bound for a broker on this network, and the difference is the cost of the protocol.",
        examples: &[
            ("baseline sockets", "a stream from one socket to another"),
            ("baseline sockets --ping-pong", "round trips"),
            ("baseline sockets --consumers 32", "a fan-out"),
        ],
        is_raw: true,
        own_options: &[RAW, SIZES],
        shape: |given| if given.has("ping-pong") { TrafficShape::PingPong } else { TrafficShape::Stream },
        variants: |given| {
            let scenario = Scenario {
                pairs: given.number("pairs", 1, 1, PAIRS_MAX as u64)? as usize,
                consumers: given.number("consumers", 1, 1, CONSUMERS_MAX as u64)? as usize,
                ..Scenario::default()
            };
            if given.has("ping-pong") && scenario.consumers > 1 {
                return Err(UsageError("--ping-pong has one consumer, so --consumers is not allowed".to_owned()));
            }
            let shape = if given.has("ping-pong") { "ping-pong" } else { "stream" };
            let mut parameters = vec![("shape", shape.to_owned())];
            for (name, value) in [("pairs", scenario.pairs), ("consumers", scenario.consumers)] {
                if value > 1 {
                    parameters.push((name, value.to_string()));
                }
            }
            Ok(vec![BenchmarkVariant::new(scenario, &parameters)])
        },
    },
];

/// Finds a benchmark by its command words.
pub fn find(word: &str) -> Option<&'static Benchmark> {
    ALL.iter().find(|benchmark| benchmark.command == word)
}

impl Benchmark {
    /// The command as declared.
    pub fn declared(&self) -> CommandSpec {
        let usage = format!("harrier bench {} [OPTIONS]", self.command);
        CommandSpec::new(usage, self.about, &self.options(), self.examples)
    }

    /// All options that it takes.
    pub fn options(&self) -> Vec<&'static [OptionSpec]> {
        let shared: &[&[OptionSpec]] =
            if self.is_raw { &[SOCKETS, EFFORT, OUTPUT] } else { &[DURABLE, TARGETS, QUEUE, EFFORT, OUTPUT] };
        self.own_options.iter().chain(shared).copied().collect()
    }

    pub fn shape(&self, given: &ParsedOptions) -> TrafficShape {
        (self.shape)(given)
    }

    /// The scenarios for these options.
    pub fn variants(&self, given: &ParsedOptions) -> Result<Vec<BenchmarkVariant>, UsageError> {
        let variants = (self.variants)(given)?;
        if !given.has("durable") {
            return Ok(variants);
        }
        Ok(variants.into_iter().flat_map(|variant| [variant.clone(), variant.durable()]).collect())
    }
}

impl BenchmarkVariant {
    fn new(scenario: Scenario, parameters: &[(&str, String)]) -> Self {
        let mut parameters: BTreeMap<String, String> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let more = [
            ("confirms", scenario.confirm_window),
            ("ack_every", scenario.ack_every),
            ("prefetch", u64::from(scenario.prefetch)),
            ("processes", scenario.processes as u64 - 1),
        ];
        for (name, value) in more {
            if value > 0 && !(name == "confirms" && parameters.contains_key("window")) {
                let value = if name == "processes" { value + 1 } else { value };
                parameters.insert(name.to_owned(), value.to_string());
            }
        }
        Self { parameters, scenario }
    }

    /// The same with persistent messages in durable queues.
    fn durable(mut self) -> Self {
        self.scenario.durable = true;
        self.parameters.insert("durable".to_owned(), "yes".to_owned());
        self
    }
}

/// Sets confirms and acknowledgements from the options; the default has none.
fn delivery(given: &ParsedOptions, scenario: Scenario) -> Result<Scenario, UsageError> {
    let scenario = Scenario {
        confirm_window: given.number("confirms", 0, 1, 1 << 32)?,
        ack_every: given.number("ack-every", 0, 1, 1 << 32)?,
        prefetch: given.number("prefetch", 0, 0, u64::from(u16::MAX))? as u16,
        ..scenario
    };
    check_prefetch(&scenario).map(|()| scenario)
}

/// The same with each of the given windows.
fn windows(given: &ParsedOptions, variants: Vec<BenchmarkVariant>) -> Result<Vec<BenchmarkVariant>, UsageError> {
    let windows = given.list("window", &[], 1, WINDOW_MESSAGES_MAX)?;
    if windows.is_empty() {
        return Ok(variants);
    }
    for other in ["confirms", "null"] {
        if given.has(other) {
            return Err(UsageError(format!("--window and --{other} exclude each other")));
        }
    }
    let with = |variant: &BenchmarkVariant| {
        let variant = variant.clone();
        windows.iter().map(move |&window| {
            let mut variant = variant.clone();
            variant.scenario.window = DeliveryWindow { messages: window as u64 };
            variant.parameters.insert("window".to_owned(), window.to_string());
            variant
        })
    };
    Ok(variants.iter().flat_map(with).collect())
}

fn check_prefetch(scenario: &Scenario) -> Result<(), UsageError> {
    if scenario.prefetch > 0 && scenario.ack_every > u64::from(scenario.prefetch) {
        return Err(UsageError("--ack-every must not exceed --prefetch: the consumer would stall".to_owned()));
    }
    if scenario.prefetch > 0 && scenario.ack_every == 0 {
        return Err(UsageError("--prefetch has no effect without --ack-every".to_owned()));
    }
    Ok(())
}

fn topics(given: &ParsedOptions) -> Result<Vec<BenchmarkVariant>, UsageError> {
    let counts = given.list("patterns", &[1, 4, 16, 64, 256, 1_024], 1, PATTERNS_MAX)?;
    let matching = PatternMatching::named(given.one_of("match", PatternMatching::NAMES)?);
    let scenario = Scenario {
        exchange_type: ScenarioExchange::Topic,
        keys: given.number("keys", 1, 1, KEYS_MAX as u64)? as usize,
        matching,
        changes_per_s: given.number("changing", 0, 1, CHANGES_PER_S_MAX as u64)?,
        ..Scenario::default()
    };
    let scenario = delivery(given, scenario)?;
    let variant = |&patterns: &usize| {
        let mut parameters = vec![("patterns", patterns.to_string())];
        if matching != PatternMatching::One {
            parameters.push(("match", matching.name().to_owned()));
        }
        for (name, value) in [("keys", scenario.keys as u64 - 1), ("changing", scenario.changes_per_s)] {
            if value > 0 {
                parameters.push((name, if name == "keys" { scenario.keys.to_string() } else { value.to_string() }));
            }
        }
        BenchmarkVariant::new(Scenario { patterns, ..scenario.clone() }, &parameters)
    };
    Ok(counts.iter().map(variant).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(command: &str, line: &str) -> String {
        let benchmark = find(command).expect("a benchmark");
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let variants = ParsedOptions::parse(&words, &benchmark.options()).and_then(|given| benchmark.variants(&given));
        let one = |variant: &BenchmarkVariant| {
            let parameters = variant.parameters.iter().map(|(name, value)| format!("{name}={value}"));
            parameters.collect::<Vec<_>>().join(",")
        };
        variants.map_or_else(|wrong| wrong.0, |all| all.iter().map(one).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn durable_rows_are_beside_transient_ones() {
        assert_eq!(shown("de-spsc", "--durable"), " durable=yes");
        assert_eq!(
            shown("confirm", "--durable --window 7"),
            "ack_every=100,window=7 ack_every=100,durable=yes,window=7"
        );
        assert_eq!(
            shown("te-spsc", "--patterns 1,2 --durable"),
            "patterns=1 durable=yes,patterns=1 patterns=2 durable=yes,patterns=2"
        );
    }

    #[test]
    fn the_papers_variables() {
        assert_eq!(shown("de-spsc", ""), "");
        assert_eq!(shown("de-mpmc", ""), "pairs=1 pairs=2 pairs=4 pairs=8");
        assert_eq!(shown("fe-spmc", "--consumers 2,32"), "consumers=2 consumers=32");
        assert_eq!(shown("fe-spmc", "--consumers 32 --processes 4"), "consumers=32,processes=4");
        assert_eq!(shown("te-spsc", ""), "patterns=1 patterns=4 patterns=16 patterns=64 patterns=256 patterns=1024");
        assert_eq!(
            shown("te-spsc", "--patterns 8 --match all --keys 3 --changing 100"),
            "changing=100,keys=3,match=all,patterns=8"
        );
        assert_eq!(shown("confirm", ""), "ack_every=100,window=1000");
        assert_eq!(shown("de-spsc", "--confirms 10 --ack-every 5 --prefetch 7"), "ack_every=5,confirms=10,prefetch=7");
        assert_eq!(shown("de-spsc", "--window 16,512"), "window=16 window=512");
        assert_eq!(
            shown("de-mpmc", "--pairs 1,2 --window 3,4"),
            "pairs=1,window=3 pairs=1,window=4 pairs=2,window=3 pairs=2,window=4"
        );
        assert_eq!(shown("baseline sockets", "--ping-pong"), "shape=ping-pong");
        assert_eq!(shown("baseline sockets", "--pairs 2"), "pairs=2,shape=stream");
    }

    #[test]
    fn contradictory_options_are_refused() {
        assert_eq!(
            shown("de-spsc", "--ack-every 10 --prefetch 5"),
            "--ack-every must not exceed --prefetch: the consumer would stall"
        );
        assert_eq!(shown("de-spsc", "--window 5 --confirms 5"), "--window and --confirms exclude each other");
        assert_eq!(shown("de-mpmc", "--window 5 --null"), "--window and --null exclude each other");
        assert_eq!(shown("fe-spmc", "--window 5"), "unknown option '--window'");
        assert_eq!(shown("de-spsc", "--prefetch 5"), "--prefetch has no effect without --ack-every");
        assert_eq!(shown("de-pp", "--pairs 2"), "unknown option '--pairs'");
        assert_eq!(shown("te-spsc", "--match some"), "--match is one of one, all, wildcards, not 'some'");
        assert_eq!(shown("baseline sockets", "--url x"), "unknown option '--url'");
    }

    #[test]
    fn every_benchmark_explains_itself() {
        for benchmark in ALL {
            let names: Vec<&str> =
                benchmark.options().iter().flat_map(|part| part.iter()).map(|one| one.name).collect();
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len(), "{}: an option twice", benchmark.name);
            assert!(!benchmark.examples.is_empty() && benchmark.summary.len() < 100);
            for (command, _) in benchmark.examples {
                let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                let own = &words[benchmark.command.split(' ').count()..];
                assert!(command.starts_with(benchmark.command), "{command}");
                ParsedOptions::parse(own, &benchmark.options())
                    .and_then(|given| benchmark.variants(&given))
                    .unwrap_or_else(|wrong| panic!("{command}: {wrong}"));
            }
        }
    }
}
