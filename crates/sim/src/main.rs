//! `harrier-sim`: runs seeds, and shows the one that fails.
//!
//! Enters: `--seed N`, `--seeds A..B` or `--seconds S`, `--federation`.  Leaves: a tally, or a failure and how to see it again.
//! Owns:   the command line, the signal.
//! Never:  decides what is right; the library does.
#![forbid(unsafe_code)]

mod many;

use many::{End, Order, Outcome, SEED, Sum};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::fmt::Display;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const USAGE: &str = "\
usage: harrier-sim --seed N [--whole]        one seed, with the end of what happened, or the whole of it
       harrier-sim --seeds A..B [--threads N] many; B is not among them
       harrier-sim --seconds S [--from A] [--threads N]
With --federation: several brokers with links between them.";

/// What a shell expects of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let get = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let number = |name: &str| get(name).map(|text| text.parse::<u64>());
    let federation = args.iter().any(|arg| arg == "--federation");
    let option = if federation { "--federation " } else { "" };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        hook(info);
        let seed = SEED.get();
        eprintln!("seed {seed} panics\nreproduce with: cargo run -p harrier-sim --release -- {option}--seed {seed}");
    }));
    let range = get("--seeds").and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = number("--threads").unwrap_or(Ok(cores as u64));
    match (number("--seed"), range, number("--seconds"), number("--from").unwrap_or(Ok(0)), threads) {
        (Some(Ok(seed)), None, None, ..) => {
            let whole = args.iter().any(|arg| arg == "--whole");
            if federation { one_of_several(seed, whole) } else { one(seed, whole) }
        }
        (None, Some(seeds), None, _, Ok(threads)) => all(federation, seeds, None, threads as usize),
        (None, None, Some(Ok(seconds)), Ok(from), Ok(threads)) => {
            all(federation, from..u64::MAX, Some(Duration::from_secs(seconds)), threads as usize)
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// One seed.
fn one(seed: u64, whole: bool) -> ExitCode {
    SEED.set(seed);
    println!("{:#?}", sim::Setting::of(seed));
    match sim::run(seed, true) {
        Ok(tally) => told(&tally),
        Err(failure) => failed(&failure.trace, &failure, whole),
    }
}

/// One seed with several brokers.
fn one_of_several(seed: u64, whole: bool) -> ExitCode {
    SEED.set(seed);
    println!("{:#?}", sim::federation::Setting::of(seed));
    match sim::federation::run(seed, true) {
        Ok(tally) => told(&tally),
        Err(failure) => failed(&failure.trace, &failure, whole),
    }
}

fn told(tally: &impl Display) -> ExitCode {
    println!("{tally}");
    ExitCode::SUCCESS
}

fn failed(trace: &[String], failure: &impl Display, whole: bool) -> ExitCode {
    let shown = trace.len().saturating_sub(sim::limits::TRACE_LINES_SHOWN);
    for line in trace[..shown].iter().filter(|_| whole) {
        println!("  {line}");
    }
    println!("{failure}");
    ExitCode::FAILURE
}

/// Many seeds of one kind or the other.
fn all(federation: bool, seeds: Range<u64>, time: Option<Duration>, threads: usize) -> ExitCode {
    fn alone(seed: u64) -> Outcome<sim::Tally> {
        Ok(sim::run(seed, false)?)
    }
    fn several(seed: u64) -> Outcome<sim::federation::Tally> {
        Ok(sim::federation::run(seed, false)?)
    }
    if federation {
        many(&Order { run: several, seeds, time, threads })
    } else {
        many(&Order { run: alone, seeds, time, threads })
    }
}

/// Many seeds, until one fails or somebody presses Ctrl-C: once to end those that run, twice to end at once.
fn many<T: Sum>(order: &Order<T>) -> ExitCode {
    let interrupted = Arc::new(AtomicBool::new(false));
    let registered = flag::register_conditional_shutdown(SIGINT, INTERRUPTED.into(), Arc::clone(&interrupted))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupted)));
    if let Err(error) = registered {
        eprintln!("Ctrl-C will end this at once: {error}");
    }
    match many::run(order, &interrupted) {
        End::Done => {
            println!("no promise broken");
            ExitCode::SUCCESS
        }
        End::Interrupted => {
            println!("interrupted; no promise broken until then");
            ExitCode::from(INTERRUPTED)
        }
        End::Broken(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}
