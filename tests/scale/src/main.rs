//! What many of a kind cost a broker, and what it does when nobody takes what it is given.
//!
//! Enters: names of checks, `--shards N`.  Leaves: a line each, a table, and status 1 if something did not hold.
//! Owns:   the list of checks; each has a broker of its own.
//! Never:  looks into the broker: it is a client of the finished program, and reads what /proc says of it.
#![forbid(unsafe_code)]

mod flow;
mod many;
mod pair;
mod peer;
mod program;
mod publisher;
mod report;
mod taker;
mod watch;

use report::Report;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// What a check comes to; an error is a failure that is told as it is.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A check, and the shards it has when none are asked for.
struct Check {
    name: &'static str,
    run: fn(u16, &mut Report) -> Outcome<()>,
    shards: &'static [u16],
}

const CHECKS: &[Check] = &[
    Check { name: "rest", run: many::rest, shards: &[1] },
    Check { name: "connections", run: many::connections, shards: &[1] },
    Check { name: "queues", run: many::queues, shards: &[1, 2] },
    Check { name: "bindings", run: many::bindings, shards: &[1, 2] },
    Check { name: "messages", run: many::messages, shards: &[1] },
    Check { name: "flow", run: flow::flow, shards: &[1, 2] },
    Check { name: "flow-many", run: flow::many, shards: &[1, 2] },
];

/// The time; this is a program that measures it.
#[expect(clippy::disallowed_methods, reason = "a program that measures time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Arguments that set the broker's limit for its memory in bytes, and the share of it that one queue may have.
pub fn memory_arguments(limit_bytes: u64, queue_share_percent: u8) -> Vec<String> {
    ["--memory-limit", &limit_bytes.to_string(), "--queue-memory-share", &format!("{queue_share_percent}%")]
        .map(str::to_owned)
        .into()
}

/// Looks every few milliseconds whether something has come about, for at most so long.
pub fn wait_for(what: &str, most: Duration, mut is_so: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
    let began = now();
    while !is_so()? {
        if began.elapsed() > most {
            return Err(format!("waited {} s for {what}", most.as_secs()).into());
        }
        pause(Duration::from_millis(5));
    }
    Ok(())
}

/// A moment between two looks at another process, of which nobody tells when it changes.
#[expect(clippy::disallowed_methods, reason = "between two looks at /proc and at other processes")]
pub fn pause(moment: Duration) {
    thread::sleep(moment);
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Outcome<bool> {
    let mut wanted = Vec::new();
    let mut shards = None;
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--shards" => shards = Some(arguments.next().ok_or("--shards needs a number")?.parse::<u16>()?),
            name if CHECKS.iter().any(|check| check.name == name) => wanted.push(argument),
            other => {
                let names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
                return Err(format!("no check '{other}'; there are: {}", names.join(" ")).into());
            }
        }
    }
    let files = allow_files()?;
    let mut report = Report::default();
    let began = now();
    for check in CHECKS.iter().filter(|check| wanted.is_empty() || wanted.iter().any(|name| name == check.name)) {
        if check.name == "connections" && files < 11_000 {
            println!("SKIPPED: connections needs 11,000 file descriptors, and {files} are allowed");
            continue;
        }
        let shards = shards.as_ref().map_or(check.shards, std::slice::from_ref);
        for &shards in shards {
            if let Err(error) = (check.run)(shards, &mut report) {
                report.verdict(&format!("{}-{shards}", check.name), false, &error.to_string());
            }
        }
    }
    let good = report.finish();
    println!("after {:.0} s", began.elapsed().as_secs_f64());
    Ok(good)
}

/// As many file descriptors as the system allows; the broker inherits them.
fn allow_files() -> Outcome<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })?;
    Ok(most.unwrap_or(u64::MAX))
}
