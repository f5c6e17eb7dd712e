//! Tests of the workload format by example: the value of each key, and the error for each mistake.

use super::*;

const SMALL: &str = r##"about = "x"
duration = "10s"

[[exchanges]]
name = "x"
type = "topic"

[[queues]]
name = "q"
bindings = [{ exchange = "x", key = "#" }]

[[publishers]]
name = "p"
exchange = "x"
key = "a.b"
size = 64
rate = 100

[[consumers]]
name = "c"
queue = "q"
"##;

fn small() -> WorkloadSpec {
    parse("small", "small.toml", SMALL).unwrap_or_else(|why| panic!("{why}"))
}

/// The small workload with a line instead of another one must be refused with this message.
fn refuse(line: &str, instead: &str, expected: &str) {
    assert!(SMALL.contains(line), "{line}");
    let text = SMALL.replacen(line, instead, 1);
    let why = parse("small", "small.toml", &text).expect_err(instead);
    assert!(why == expected || (expected.ends_with('…') && why.starts_with(expected.trim_end_matches('…'))), "{why}");
}

/// The small workload with a line instead of another one.
fn take(line: &str, instead: &str) -> WorkloadSpec {
    assert!(SMALL.contains(line), "{line}");
    parse("small", "small.toml", &SMALL.replacen(line, instead, 1)).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn defaults() {
    let spec = small();
    assert_eq!((spec.duration_ns, spec.warm_up_ns, spec.drain_ns, spec.seed), (10_000_000_000, 0, 5_000_000_000, 1));
    let publishers = &spec.publishers[0];
    assert_eq!((publishers.count, publishers.processes, publishers.symbols, publishers.confirms), (1, 1, 1, 0));
    assert_eq!((publishers.arrivals, publishers.mandatory), (ArrivalProcess::Poisson, false));
    let consumers = &spec.consumers[0];
    assert_eq!((consumers.ack, consumers.prefetch, consumers.think), (AckMode::None, 0, None));
}

#[test]
fn every_form_of_a_value() {
    let size = |text: &str| take("size = 64", &format!("size = {text}")).publishers.remove(0).size;
    assert_eq!(size("\"16KiB\""), SizeDistribution::Constant(16 << 10));
    assert_eq!(size("{ least = 64, most = \"1MiB\" }"), SizeDistribution::Uniform { least: 64, most: 1 << 20 });
    let lognormal = SizeDistribution::LogNormal { median: 200, sigma: 0.5, least: 64, most: 4_096 };
    assert_eq!(size("{ median = 200, sigma = 0.5, least = 64, most = 4096 }"), lognormal);
    assert_eq!(size("{ list = [[64, 0.8], [\"1KiB\", 1]] }"), SizeDistribution::List(vec![(64, 0.8), (1_024, 1.0)]));
    let rate = |text: &str| take("rate = 100", &format!("rate = {text}")).publishers.remove(0).rate;
    assert_eq!(rate("0.5"), SendRate::Constant(0.5));
    let bursts = SendRate::Bursts { high: 500.0, low: 0.0, on_ns: 1_000_000_000, off_ns: 3_000_000 };
    assert_eq!(rate("{ burst = 500, idle = 0, on = \"1s\", off = \"3ms\" }"), bursts);
    let opening = SendRate::Opening { peak: 900.0, base: 100.0, half_life_ns: 2_000_000_000 };
    assert_eq!(rate("{ opening = 900, settles_to = 100, half_life = \"2s\" }"), opening);
    let think = |text: &str| take("queue = \"q\"", &format!("queue = \"q\"\nthink = {text}")).consumers.remove(0).think;
    assert_eq!(think("\"5ms\""), Some(ThinkTime::Constant { ns: 5_000_000 }));
    assert_eq!(think("{ mean = \"5us\" }"), Some(ThinkTime::Exponential { mean_ns: 5_000 }));
    assert_eq!(think("{ least = \"0s\", most = \"5us\" }"), Some(ThinkTime::Uniform { least_ns: 0, most_ns: 5_000 }));
    let lognormal = ThinkTime::LogNormal { median_ns: 5_000, sigma: 1.0, most_ns: 9_000 };
    assert_eq!(think("{ median = \"5us\", sigma = 1, most = \"9us\" }"), Some(lognormal));
    let troubled =
        take("queue = \"q\"", "queue = \"q\"\nack = { every = 5 }\nprefetch = 5\nreject = \"2%\"\ncrash = 0.01");
    let consumers = &troubled.consumers[0];
    assert_eq!((consumers.ack, consumers.reject, consumers.crash), (AckMode::Every(5), 0.02, 0.01));
}

#[test]
fn unknown_keys_and_wrong_types() {
    refuse(
        "rate = 100",
        "rate = 100\nrates = 5",
        "small.toml:18: publishers[0]: unknown key 'rates'; there are name, count, processes, exchange, key, symbols, \
         popularity, size, rate, arrivals, mandatory, persistent, confirms, replies",
    );
    refuse("about = \"x\"", "abuot = \"x\"", "small.toml:1: unknown key 'abuot'; there are about, duration, warm_up…");
    refuse("about = \"x\"", "", "small.toml:1: 'about' is missing");
    refuse("about = \"x\"", "about = 5", "small.toml:1: about: expected a text in quotes, not a whole number");
    refuse(
        "duration = \"10s\"",
        "duration = 10",
        "small.toml:2: duration: expected a duration with its unit, as in \"250ms\", not a whole number",
    );
    refuse(
        "duration = \"10s\"",
        "duration = \"10h\"",
        "small.toml:2: duration: '10h' is not a duration: expected a number and us, ms, s or min, as in '250ms'",
    );
    refuse(
        "duration = \"10s\"",
        "duration = \"61min\"",
        "small.toml:2: duration: a workload runs longer than 0 and at most 3600 s",
    );
    refuse(
        "duration = \"10s\"",
        "duration = \"10s\"\nwarm_up = \"10s\"",
        "small.toml:3: warm_up: the warm-up is part of the duration, and shorter",
    );
    refuse(
        "size = 64",
        "size = \"64KB\"",
        "small.toml:16: publishers[0].size: '64KB' is not a size: expected a whole number and B, KiB or MiB, as in '16KiB'",
    );
    refuse("size = 64", "size = { median = 64 }", "small.toml:16: publishers[0].size: 'sigma' is missing");
    refuse(
        "size = 64",
        "size = { mean = 64 }",
        "small.toml:16: publishers[0].size: expected { least, most } (uniform)…",
    );
    refuse(
        "rate = 100",
        "rate = -1",
        "small.toml:17: publishers[0].rate: expected a number from 0.001 to 10000000, not -1",
    );
    refuse("rate = 100", "rate = { burst = 5 }", "small.toml:17: publishers[0].rate: 'idle' is missing");
    refuse(
        "type = \"topic\"",
        "type = \"headers\"",
        "small.toml:6: exchanges[0].type: 'headers' is none of direct, fanout, topic",
    );
    refuse(
        "name = \"q\"",
        "name = \"Q 1\"",
        "small.toml:9: queues[0].name: a name has 1 to 40 of the letters a-z, 0-9 and -",
    );
    refuse("[[queues]]", "[queues]", "small.toml:8: queues: expected a list, not a table");
    refuse("rate = 100", "rate = 100 100", "small.toml:17: this is not TOML…");
}

#[test]
fn what_does_not_fit_together() {
    refuse(
        "exchange = \"x\"\nkey",
        "exchange = \"y\"\nkey",
        "small.toml:14: publishers[0].exchange: there is no exchange 'y' under [[exchanges]], only: x",
    );
    refuse(
        "queue = \"q\"",
        "queue = \"r\"",
        "small.toml:21: consumers[0].queue: there is no queue 'r' under [[queues]]",
    );
    refuse(
        "queue = \"q\"",
        "",
        "small.toml:19: consumers[0]: expected either 'queue' (a shared one) or 'bindings' (of queues of their own)",
    );
    refuse("key = \"a.b\"", "", "small.toml:12: publishers[0]: 'key' is missing (only a fanout exchange needs none)");
    refuse(
        "key = \"a.b\"",
        "key = \"a.*\"",
        "small.toml:15: publishers[0].key: '*' and '#' are for bindings, not for routing keys",
    );
    refuse(
        "key = \"a.b\"",
        "key = \"a.{symbl}\"",
        "small.toml:15: publishers[0].key: '{symbl}' is not a placeholder here; there are {symbol}, {publisher}",
    );
    refuse(
        "key = \"a.b\"",
        "key = \"a.{symbol}\"",
        "small.toml:12: publishers[0]: '{symbol}' in the key needs 'symbols', how many there are",
    );
    refuse(
        "rate = 100",
        "rate = 100\nsymbols = 5",
        "small.toml:12: publishers[0]: 'symbols' without '{symbol}' in the key: all messages would have the same",
    );
    refuse(
        "size = 64",
        "size = 16",
        "small.toml:12: publishers[0]: bodies of less than 32 bytes cannot carry what tells a message and its time; 'size' is too small",
    );
    refuse(
        "size = 64",
        "size = { least = 100, most = 64 }",
        "small.toml:16: publishers[0].size: 'least' is more than 'most'",
    );
    refuse("name = \"c\"", "name = \"p\"", "small.toml:19: consumers[0]: there are two groups 'p'");
    refuse(
        "queue = \"q\"",
        "queue = \"q\"\nreject = 0.1",
        "small.toml:19: consumers[0]: 'reject' and 'crash' need acknowledgements: ack = \"each\" or { every = N }",
    );
    refuse(
        "queue = \"q\"",
        "queue = \"q\"\nack = { every = 10 }\nprefetch = 5",
        "small.toml:19: consumers[0]: ack every 10 must not exceed prefetch 5: the consumer would stall",
    );
    refuse(
        "queue = \"q\"",
        "queue = \"q\"\nprefetch = 5",
        "small.toml:19: consumers[0]: 'prefetch' means nothing without acknowledgements…",
    );
    refuse(
        "queue = \"q\"",
        "bindings = [{ exchange = \"x\", key = \"{pick}\" }]",
        "small.toml:19: consumers[0]: '{pick}' in a key needs 'picks' and 'picks_of'",
    );
    refuse(
        "queue = \"q\"",
        "bindings = [{ exchange = \"x\" }]",
        "small.toml:1: queue 'q' has no consumers: lost messages could not be detected",
    );
    refuse(
        "rate = 100",
        "rate = 100\nreplies = \"x\"",
        "small.toml:1: 'p' waits for replies through 'x', where no consumers 'answer'",
    );
    refuse(
        "rate = 100",
        "rate = 10000000\ncount = 10000",
        "small.toml:18: publishers[0].count: expected a whole number from 1 to 4096, not 10000",
    );
}

#[test]
fn objectives_are_of_groups_that_have_the_figure() {
    let objective = |text: &str| {
        let text = format!("{SMALL}\n[[objectives]]\n{text}\n");
        parse("small", "small.toml", &text).map(|mut spec| spec.objectives.remove(0))
    };
    let latency = "latency = \"delivery\"\nquantile = \"p99\"\nat_most = \"1ms\"";
    let expected = ObjectiveGoal::Latency { kind: "delivery".to_owned(), quantile: 0.99, most_us: 1_000.0 };
    assert_eq!(objective(latency), Ok(WorkloadObjective { group: None, goal: expected }));
    assert_eq!(
        objective("group = \"c\"\nat_least = 5").map(|one| one.goal),
        Ok(ObjectiveGoal::Rate { least_per_s: 5.0 })
    );
    for (text, expected) in [
        ("group = \"d\"\nat_least = 5", "there is no group 'd', only: p, c"),
        ("group = \"p\"\nat_least = 5", "'at_least' counts deliveries, which publishers have none of"),
        (
            "latency = \"done\"\nquantile = \"p99\"\nat_most = \"1ms\"",
            "the latency 'done' is measured at consumers with 'think'",
        ),
        (
            "latency = \"delivery\"\nquantile = \"99\"\nat_most = \"1ms\"",
            "'99' is not a quantile: expected p50, p99, p99.9, max",
        ),
        ("quantile = \"p99\"", "expected { latency, quantile, at_most } or { at_least }"),
    ] {
        let why = objective(text).expect_err(text);
        assert!(why.ends_with(expected), "{why}");
    }
}

#[test]
fn an_empty_file_is_told_what_it_needs() {
    let why = parse("empty", "empty.toml", "").expect_err("nothing is in it");
    assert_eq!(why, "empty.toml:1: a workload needs at least one of [[publishers]] and one of [[consumers]]");
}

#[test]
fn limits_are_named() {
    let why = |changes: &[(&str, &str)]| {
        let text = changes.iter().fold(SMALL.to_owned(), |text, (from, to)| text.replacen(from, to, 1));
        parse("small", "small.toml", &text).expect_err("over a limit")
    };
    let (fast, long) = (("rate = 100", "rate = 1000000"), ("duration = \"10s\"", "duration = \"30min\""));
    assert_eq!(why(&[fast, long]), "small.toml:1: about 1800000000 messages; at most 100000000");
    let many = ("queue = \"q\"", "queue = \"q\"\ncount = 4096");
    assert_eq!(why(&[many]), "small.toml:1: 4097 connections; at most 4096");
    let own = "bindings = [{ exchange = \"x\", key = \"{pick}\" }]\npicks = 1000\npicks_of = 1000\ncount = 300";
    let shared = ("queue = \"q\"", "queue = \"q\"\n[[consumers]]\nname = \"d\"\n");
    let why_own = why(&[shared, ("name = \"d\"\n", &format!("name = \"d\"\n{own}"))]);
    assert_eq!(why_own, "small.toml:1: 300001 bindings; at most 200000");
    let keys = ("key = \"a.b\"", "key = \"{publisher}.{symbol}\"\ncount = 2000\nsymbols = 1000");
    assert_eq!(why(&[keys]), "small.toml:12: publishers[0]: 2000 x 1000 routing keys; at most 1000000");
}
