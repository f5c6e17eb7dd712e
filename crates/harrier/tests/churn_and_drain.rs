//! `harrier bench churn` and `drain` against a real broker: the requested work is done, and the document adds up.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Statuses of completed runs: valid, or INVALID (as in a debug build, or for a client without a processor of its own).
const MADE: [Option<i32>; 2] = [Some(0), Some(3)];

fn harrier(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harrier"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HARRIER_")) {
        command.env_remove(name);
    }
    command.arg("bench").args(words).stdin(Stdio::null()).output().expect("the program runs")
}

/// Runs a benchmark, and returns its table and its document.
fn measured(name: &str, words: &[&str]) -> (String, Value) {
    let file: PathBuf = std::env::temp_dir().join(format!("harrier-{name}-{}.json", std::process::id()));
    let path = file.to_string_lossy().into_owned();
    let output = harrier(&[words, &["--json", &path]].concat());
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(MADE.contains(&output.status.code()), "{words:?}: {}\n{out}{errors}", output.status);
    let text = std::fs::read_to_string(&file).expect("the document was written");
    std::fs::remove_file(&file).expect("it is ours");
    let document: Value = serde_json::from_str(&text).expect("a document");
    assert_eq!(document["cut_short"], Value::Null, "{out}");
    (out.into_owned(), document)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// The runs of a series with their positions on the axis.
fn runs(series: &Value) -> Vec<(u64, &Value)> {
    let points = array(&series["points"]).iter();
    points
        .flat_map(|point| {
            let at = point["at"].as_f64().expect("a place") as u64;
            array(&point["runs"]).iter().map(move |run| (at, run))
        })
        .collect()
}

/// The number of latencies of one kind.
fn count(run: &Value, kind: &str) -> u64 {
    array(&run["latencies"][kind]).iter().map(|bucket| bucket[1].as_u64().expect("a count")).sum()
}

#[test]
fn churn_opens_and_closes_what_it_was_told_to() {
    let words = ["churn", "-i", "20", "--clients", "1,2", "--seconds", "60", "--runs", "2", "--nagle"];
    let (table, document) = measured("churn", &words);
    assert!(table.contains("# Clients       Operations/s     Open p50 (us)"), "{table}");
    let kinds: Vec<&str> =
        array(&document["series"]).iter().filter_map(|series| series["parameters"]["kind"].as_str()).collect();
    assert_eq!(kinds, ["connection", "channel", "queue"]);
    for series in array(&document["series"]) {
        let runs = runs(series);
        assert_eq!(runs.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 1, 2, 2]);
        for (clients, run) in runs {
            assert_eq!(run["operations"].as_u64(), Some(20 * clients), "{run}");
            assert_eq!((count(run, "open"), count(run, "close")), (20 * clients, 20 * clients));
            assert_eq!(run["publishers"]["processes"].as_u64(), Some(clients));
            assert!(run["broker"]["resident_bytes"].as_u64() > Some(0), "the broker was metered: {run}");
            // Opening and closing are two requests and two replies; closed sockets are not counted.
            let packets = run["network"]["packets"].as_u64();
            let expected = if series["parameters"]["kind"] == "connection" { None } else { Some(4 * 20 * clients) };
            assert!(packets >= expected && packets.is_some() == expected.is_some(), "{packets:?} of {expected:?}");
        }
    }
    let tcp = &document["targets"][0]["tcp"];
    assert_eq!((tcp["client_nodelay"].as_str(), tcp["nodelay"].as_str()), (Some("false"), Some("false")), "{tcp}");
    assert_eq!(
        tcp["congestion_control"], document["environment"]["congestion_control"],
        "what the socket was found with"
    );
    assert_eq!(document["options"]["nagle"].as_str(), Some("yes"));
}

#[test]
fn drain_gets_everything_back() {
    let deliveries = [&["--consumers", "1"][..], &["--consumers", "3", "--ack-every", "10", "--prefetch", "100"][..]];
    for (index, delivery) in deliveries.iter().enumerate() {
        let words = [&["drain", "-m", "2:32", "-i", "3000", "-c", "-f"][..], delivery].concat();
        let (table, document) = measured(&format!("drain-{index}"), &words);
        assert!(table.contains("Held bytes/msg"), "{table}");
        let [fill, empty] = array(&document["series"]) else { panic!("two phases: {table}") };
        let (fills, empties) = (runs(fill), runs(empty));
        assert_eq!((fills.len(), empties.len()), (5, 5));
        for ((size, fill), (_, empty)) in fills.iter().zip(&empties) {
            assert_eq!((fill["published"].as_u64(), fill["delivered"].as_u64()), (Some(3_000), Some(0)));
            assert!(fill["backlog_bytes"].is_u64() && fill["publishers"].is_object(), "{fill}");
            assert_eq!(empty["delivered"].as_u64(), Some(3_000), "{empty}");
            assert_eq!(empty["delivered_bytes"].as_u64(), Some(3_000 * size));
            assert_eq!(array(&empty["rates"]).len(), 20);
            let faults = empty["faults"].as_object().expect("counts");
            assert!(faults.values().all(|count| count.as_u64() == Some(0)), "{size} bytes: {faults:?}");
        }
    }
}

#[test]
fn a_backlog_of_large_bodies_is_held_in_full() {
    let (_, document) = measured("drain-large", &["drain", "-m", "64K:64K", "-i", "400", "-c"]);
    let fill = runs(&document["series"][0]);
    let held = fill[0].1["backlog_bytes"].as_u64().expect("the broker is on this machine");
    assert!(held >= 400 * 65_536 * 9 / 10, "{held} bytes held of {}", 400 * 65_536);
}

#[test]
fn what_cannot_be_is_said_at_once() {
    for (words, status, expected) in [
        (&["churn", "-k", "exchange"][..], 2, "--kind is one of all, connection, channel, queue"),
        (&["drain", "--congestion", "none-such"], 2, "--congestion: this kernel has no 'none-such'"),
        (&["drain", "--ack-every", "9", "--prefetch", "3"], 2, "--ack-every must not exceed --prefetch"),
        (&["churn", "--nagle", "--url", "amqp+unix:/nowhere.sock"], 1, "--nagle and --congestion are TCP options"),
        (&["drain", "--url", "amqp://127.0.0.1:1"], 1, "127.0.0.1:1: cannot connect to the broker"),
    ] {
        let output = harrier(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {errors}");
        assert!(errors.contains(expected), "{words:?}: {errors}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}
