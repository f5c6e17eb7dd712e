//! Tests of the program through the relay floor, which needs no broker: the OSU table format, and no child left behind.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The example that is the benchmarks alone; cargo builds it with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let program = test.parent().and_then(|deps| deps.parent()).expect("a target folder").join("examples/harrier_bench");
    assert!(program.is_file(), "{} is built by `cargo test`", program.display());
    program
}

/// Processes whose parent is `pid`.
fn children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn the_table_is_the_osu_benchmarks() {
    for (options, head) in [
        (&["floor"][..], "# Size                  MB/s        Messages/s"),
        (&["baseline", "sockets", "--ping-pong"][..], "# Size          Latency (us)"),
    ] {
        let output = Command::new(program()).args(options).args(["-m", "1:1K", "-i", "500"]).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(text.lines().any(|line| line.starts_with(head)), "{text}");
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().take(2).map(|word| word.parse().expect("a number")).collect())
            .collect();
        let sizes: Vec<f64> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(sizes, (0..=10).map(|power| f64::from(1 << power)).collect::<Vec<_>>());
        assert!(rows.iter().all(|row| row[1] > 0.0), "{text}");
    }
}

#[test]
fn an_interrupt_ends_every_process() {
    let mut run = Command::new(program())
        .args(["floor", "--ping-pong", "-m", "1:2", "-i", "100000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(run.stdout.take().expect("a pipe")).lines();
    // The table's head is printed when the relay is up; publisher and consumer follow.
    assert!(lines.by_ref().any(|line| line.expect("a line").starts_with("# Size")));
    while children(run.id()).len() < 3 {
        assert!(run.try_wait().expect("a child").is_none(), "it ended early");
        std::thread::yield_now();
    }
    let born = children(run.id());
    kill(Pid::from_raw(run.id() as i32), Signal::SIGINT).expect("a living process");
    assert_eq!(run.wait().expect("a child").code(), Some(130));
    for pid in born {
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "process {pid} is left");
    }
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let file = std::env::temp_dir().join(format!("harrier-bench-cut-{}.json", std::process::id()));
    let mut run = Command::new(program())
        .args(["floor", "--ping-pong", "-m", "1:2", "-i", "100000", "--json"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(run.stdout.take().expect("a pipe")).lines();
    // One size is measured; the other is on its way.
    assert!(lines.by_ref().any(|line| line.expect("a line").starts_with("1 ")));
    kill(Pid::from_raw(run.id() as i32), Signal::SIGINT).expect("a living process");
    let rest: Vec<String> = lines.map(|line| line.expect("a line")).collect();
    assert_eq!(run.wait().expect("a child").code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("# cut short: interrupted")), "{rest:?}");
    let document = report::json::read(&std::fs::read_to_string(&file).expect("the document")).expect("a document");
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!((document.cut_short.as_deref(), document.ended), (Some("interrupted"), None));
    assert_eq!(document.series[0].points.len(), 1, "what is not measured is not there");
    assert_eq!(document.series[0].points[0].runs[0].published, 100_000);
}

#[test]
fn the_document_says_what_was_done() {
    let file = std::env::temp_dir().join(format!("harrier-bench-all-{}.json", std::process::id()));
    let output = Command::new(program())
        .args([
            "baseline",
            "sockets",
            "--consumers",
            "3",
            "-m",
            "64:128",
            "-i",
            "1000",
            "--runs",
            "2",
            "--format",
            "csv",
        ])
        .arg("--json")
        .arg(&file)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = report::json::read(&std::fs::read_to_string(&file).expect("the document")).expect("a document");
    std::fs::remove_file(&file).expect("it is there");
    assert!(document.command.starts_with("harrier bench baseline sockets --consumers 3"), "{}", document.command);
    assert!(document.ended.is_some() && document.cut_short.is_none());
    assert_eq!(document.options["runs"], "2");
    assert_eq!(document.options["step"], "2", "defaults are told too");
    let series = &document.series[0];
    assert_eq!((series.benchmark.as_str(), series.axis.as_str()), ("sockets", "size_bytes"));
    assert_eq!(series.parameters["consumers"], "3");
    assert_eq!(series.points.iter().map(|point| point.at).collect::<Vec<_>>(), [64.0, 128.0]);
    for run in series.points.iter().flat_map(|point| &point.runs) {
        assert_eq!((run.published, run.delivered, run.delivered % 3), (1_000, 3_000, 0));
        assert!(run.publishers.is_some_and(|usage| usage.processes == 1));
        assert!(run.consumers.is_some_and(|usage| usage.processes == 3));
        assert!(run.broker.is_some_and(|usage| usage.processes == 1), "the relay is metered like a broker");
    }
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 5, "a head and four runs: {text}");
}

#[test]
fn wrong_command_lines_say_what_is_wrong() {
    for (words, status, expected) in [
        (&["de-spsc", "--bogus"][..], 2, "unknown option '--bogus'"),
        (&["de-pp", "--pairs", "2"][..], 2, "unknown option '--pairs'"),
        (&["de-spsc", "-m", "0:1"][..], 2, "sizes run from 1 to"),
        (&["de-spsc", "--ack-every", "10", "--prefetch", "5"][..], 2, "the consumer would stall"),
        (&["de-mpmc", "--pairs", "1,x"][..], 2, "--pairs is a number from 1 to"),
        (&["baseline", "pigeons"][..], 2, "unknown baseline 'pigeons'"),
        (&["baseline", "verbs", "--kind", "atomic"][..], 2, "--kind is one of all, send, write, read"),
        (&["networks", "--must", "pigeons"][..], 2, "--must: the networks are tcp, tcp-nagle, rsocket, verbs"),
        (&["suite", "--quick", "--full"][..], 2, "--quick or --full"),
        (&["sideways"][..], 2, "unknown command 'sideways'"),
        (&["de-spsc", "--url", "http://host"][..], 2, "expected amqp://, amqps://, amqp+rdma:// or amqp+unix:"),
        (&["de-spsc", "--url", "amqp://127.0.0.1:1"][..], 1, "127.0.0.1:1: cannot connect to the broker:"),
        (&["de-spsc", "--broker-command", "false"][..], 1, "the broker ended early"),
    ] {
        let output = Command::new(program()).args(words).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
    }
}

#[test]
fn every_command_explains_itself() {
    for command in [
        "de-spsc",
        "de-mpmc",
        "de-pp",
        "fe-spmc",
        "te-spsc",
        "confirm",
        "baseline sockets",
        "baseline verbs",
        "networks",
        "suite",
    ] {
        let output = Command::new(program()).args(command.split(' ')).arg("--help").output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && text.starts_with(&format!("usage: harrier bench {command} [OPTIONS]")));
        assert!(text.contains("\nExamples\n"), "{text}");
    }
}

#[test]
fn a_disk_is_measured_with_few_groups_and_left_as_it_was() {
    let dir = std::env::temp_dir().join(format!("harrier-bench-disk-test-{}", std::process::id()));
    std::fs::create_dir(&dir).expect("a folder");
    let measure = |dir: &std::path::Path, words: &[&str]| {
        let output = Command::new(program()).arg("disk").arg("--dir").arg(dir).args(words).output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let document = dir.join("disk.json");
    let words = ["--bytes", "4096,1048576", "--groups", "30", "--json", &document.to_string_lossy()];
    let (status, text, errors) = measure(&dir, &words);
    // A build without optimisation says that its figures mean nothing.
    assert_eq!(status, Some(if cfg!(debug_assertions) { 3 } else { 0 }), "{text}{errors}");
    let heads = ["Operations/s", "Write p50 (us)", "Write p99 (us)", "MB/s", "CPU us/operation"];
    let head = text.lines().find(|line| line.starts_with("# Size")).expect("a table");
    assert!(heads.iter().all(|name| head.contains(name)), "{text}");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().filter(|word| *word != "*").collect())
        .collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["4096", "1048576"], "{text}");
    // Thirty groups do not support a 99th percentile.
    assert!(rows.iter().all(|row| row.len() == 6 && row[3] == "-"), "{text}");
    let written = report::json::read(&std::fs::read_to_string(&document).expect("the document")).expect("a document");
    std::fs::remove_file(&document).expect("it is there");
    let points = &written.series[0].points;
    assert_eq!(points.iter().map(|point| point.runs[0].operations).collect::<Vec<_>>(), [Some(30); 2]);
    assert_eq!(points[1].runs[0].delivered_bytes, 30 << 20);
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0, "the segment is removed");
    std::fs::remove_dir(&dir).expect("it is empty");
    let (status, _, errors) = measure(&dir, &[]);
    assert_eq!((status, errors), (Some(2), format!("harrier bench: --dir: there is no folder {}\n", dir.display())));
}
