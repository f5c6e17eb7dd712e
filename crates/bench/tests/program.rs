//! Promises of the program: the OSU table as old parsers know it, and no child left behind. Through the floor, which
//! needs no broker.

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
    for (options, columns) in [(&["floor"][..], 3), (&["floor", "--ping-pong"][..], 2)] {
        let output = Command::new(program()).args(options).args(["-m", "1:1K", "-i", "500"]).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().expect("a number")).collect())
            .collect();
        let sizes: Vec<f64> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(sizes, (0..=10).map(|power| f64::from(1 << power)).collect::<Vec<_>>());
        assert!(rows.iter().all(|row| row.len() == columns && row[1..].iter().all(|&value| value > 0.0)), "{text}");
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
fn wrong_command_lines_say_what_is_wrong() {
    for (words, expected) in [
        (&["de-spsc", "--bogus"][..], "unknown option '--bogus'"),
        (&["de-pp", "--pairs", "2"][..], "unknown option '--pairs'"),
        (&["de-spsc", "-m", "0:1"][..], "sizes run from 1 to"),
        (&["de-spsc", "--ack-every", "10", "--prefetch", "5"][..], "would wait for ever"),
        (&["sideways"][..], "unknown command 'sideways'"),
        (&["de-spsc", "--broker-command", "false"][..], "the broker ended early"),
    ] {
        let output = Command::new(program()).args(words).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{words:?}: {text}");
    }
}
