//! `harrier bench workload` and `open` against a real broker: the seed determines what is sent, nothing is lost, and
//! requested faults happen without harm. No time is asserted.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Statuses of completed runs: valid, or INVALID or missed (as in a debug build, or on a busy machine).
const MADE: [Option<i32>; 2] = [Some(0), Some(3)];

fn harrier(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harrier"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HARRIER_")) {
        command.env_remove(name);
    }
    command.arg("bench").args(words).stdin(Stdio::null()).output().expect("the program runs")
}

/// A temporary file, removed on drop.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("harrier-{}-{name}", std::process::id())))
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // A test that failed before it wrote the file has reported that already.
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// Runs a benchmark, and returns its document.
fn measured(name: &str, words: &[&str]) -> Value {
    let file = TempFile::new(&format!("{name}.json"));
    let output = harrier(&[words, &["--json", &file.path()]].concat());
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(MADE.contains(&output.status.code()), "{words:?}: {}\n{out}{errors}", output.status);
    let text = std::fs::read_to_string(&file.0).expect("the document was written");
    let document: Value = serde_json::from_str(&text).expect("a document");
    assert_eq!(document["cut_short"], Value::Null, "{out}");
    document
}

/// The only run at a position of the first series.
fn run_at(document: &Value, point: usize) -> &Value {
    let run = &document["series"][0]["points"][point]["runs"][0];
    assert!(run.is_object(), "{document}");
    run
}

fn notes(run: &Value) -> Vec<&str> {
    run["notes"].as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

fn digest(document: &Value) -> String {
    let notes = notes(run_at(document, 0));
    notes.iter().find(|note| note.contains("digest")).expect("what was sent is noted").to_string()
}

/// Asserts that nothing was lost, duplicated, out of order, stray, damaged or refused.
fn assert_whole(document: &Value) {
    let run = run_at(document, 0);
    for fault in ["lost", "duplicates", "reordered", "strays", "damaged"] {
        assert_eq!(run["faults"][fault].as_u64(), Some(0), "{fault}: {run}");
    }
    assert_eq!(run["refused"].as_u64(), Some(0), "{run}");
    assert!(run["delivered"].as_u64() > Some(0), "{run}");
}

/// The number of latencies of a kind.
fn count(run: &Value, kind: &str) -> u64 {
    let buckets = run["latencies"][kind].as_array();
    buckets.map_or(0, |buckets| buckets.iter().map(|bucket| bucket[1].as_u64().expect("a count")).sum())
}

#[test]
fn the_same_seed_sends_the_same_and_another_one_does_not() {
    let run = |seed: &str| {
        let words = ["workload", "order-entry", "--scale", "0.05", "--seconds", "1", "-c", "--seed", seed];
        let document = measured(&format!("order-entry-{seed}"), &words);
        assert_whole(&document);
        let requests = run_at(&document, 1)["published"].as_u64().expect("a count");
        assert_eq!(count(run_at(&document, 0), "round_trip"), requests, "each order is confirmed once");
        digest(&document)
    };
    let first = run("7");
    assert_eq!(first, run("7"));
    assert_ne!(first, run("8"));
}

const TROUBLE: &str = r##"
about = "workers that put back and fail, keys that lead nowhere, a subscriber that is slow"
duration = "1s"
drain = "20s"

[[exchanges]]
name = "x"
type = "topic"

[[queues]]
name = "work"
bindings = [{ exchange = "x", key = "a.*" }, { exchange = "x", key = "#.0" }]

[[publishers]]
name = "p"
count = 3
exchange = "x"
key = "a.{symbol}"
symbols = 5
size = { least = 32, most = "40KiB" }
rate = 300
mandatory = true
confirms = 50

[[publishers]]
name = "nowhere"
exchange = "x"
key = "b.{symbol}"
symbols = 2
size = 64
rate = 100
mandatory = true

[[consumers]]
name = "workers"
count = 4
queue = "work"
prefetch = 5
ack = { every = 3 }
reject = "10%"
crash = "2%"

[[consumers]]
name = "thinkers"
count = 2
queue = "work"
prefetch = 2
ack = "each"
think = { mean = "2ms" }
reject = "10%"
crash = "2%"

[[consumers]]
name = "slow"
bindings = [{ exchange = "x", key = "a.{pick}" }]
picks = 3
picks_of = 5
think = "1ms"
"##;

#[test]
fn trouble_that_is_asked_for_happens_and_loses_nothing() {
    let file = TempFile::new("trouble.toml");
    std::fs::write(&file.0, TROUBLE).expect("a file");
    let document = measured("trouble", &["workload", &file.path(), "-c"]);
    assert_whole(&document);
    let all = notes(run_at(&document, 0)).join("; ");
    assert!(all.contains("messages had a key that no queue is bound to"), "{all}");
    assert!(all.contains("deliveries were redeliveries"), "{all}");
    let groups: Vec<String> = (3..5).map(|group| notes(run_at(&document, group)).join("; ")).collect();
    let told = groups.join("; ");
    assert!(told.contains("messages put back") && told.contains("channels closed"), "{told}");
    // The slow consumer took three of five symbols, one message at a time, and was done with each.
    let slow = run_at(&document, 5);
    assert_eq!(slow["delivered"].as_u64(), Some(count(slow, "done")), "{slow}");
}

#[test]
fn open_measures_from_the_intended_time() {
    let words = [
        "open",
        "--rate",
        "200,400",
        "--seconds",
        "0.5",
        "--warm-up",
        "0.1",
        "--pairs",
        "2",
        "--arrivals",
        "even",
        "-c",
    ];
    let document = measured("open", &words);
    assert_eq!(document["series"][0]["axis"].as_str(), Some("rate_per_s"));
    assert_eq!(document["series"][0]["pace"].as_str(), Some("open"));
    for (point, rate) in [(0, 200), (1, 400)] {
        let run = run_at(&document, point);
        let sent = run["published"].as_u64().expect("a count");
        // Half a second at even intervals, each of the two publishers off by up to one.
        assert!(sent.abs_diff(rate / 2) <= 2, "{sent} at {rate}/s");
        assert_eq!(
            (run["delivered"].as_u64(), count(run, "delivery"), count(run, "lateness")),
            (Some(sent), sent, sent)
        );
        // Latency from the intended time is that from the actual time plus the lateness.
        let largest = |kind: &str| run["latencies"][kind].as_array().and_then(|all| all.last()?[0].as_u64());
        assert!(largest("delivery") >= largest("lateness"), "{run}");
    }
    assert_whole(&document);
}

#[test]
fn a_search_tells_each_probe_and_ends() {
    // Nothing arrives within a microsecond, so each rate fails, down to the lowest.
    let words = ["open", "--objective", "p50=1us", "--rate", "500", "--probe-seconds", "0.1", "--warm-up", "0"];
    let output = harrier(&words);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{out}{errors}");
    assert_eq!(out.lines().filter(|line| line.contains("not kept: ")).count(), 7, "{out}{errors}");
    assert!(errors.contains("kept at no rate from 10/s on"), "{errors}");
}

#[test]
fn mistakes_are_told_with_their_place() {
    let check = |words: &[&str], status: i32, said: &str| {
        let output = harrier(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(status) && errors.contains(said),
            "{words:?}: {}\n{errors}",
            output.status
        );
    };
    let file = TempFile::new("wrong.toml");
    std::fs::write(&file.0, TROUBLE.replace("rate = 300", "rates = 300")).expect("a file");
    check(&["workload", &file.path()], 2, ".toml:21: publishers[0]: unknown key 'rates'; there are name, count");
    check(&["workload", "no-such-workload"], 2, "market-data");
    check(&["workload", "./no-such-file.toml"], 2, "no-such-file.toml");
    check(&["workload"], 2, "NAME|FILE");
    check(&["workload", "telemetry", "--scale", "0"], 2, "--scale is a number from 0.001 to 1000");
    check(&["workload", "telemetry", "--url", "amqp://127.0.0.1:1"], 1, "127.0.0.1:1");
    check(&["open", "-m", "16"], 2, "at least 32 bytes");
}
