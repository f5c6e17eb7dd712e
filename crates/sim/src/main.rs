//! `harrier-sim`: runs seeds, and shows the one that fails.
//!
//! Enters: `--seed N`, `--seeds A..B` or `--seconds S`.  Leaves: a tally, or a failure and how to see it again.
//! Owns:   the command line, the clock of `--seconds`.
//! Never:  decides what is right; the library does.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "harrier-sim --seed N [--whole] | --seeds A..B | --seconds S [--from N]";

/// The seed that runs, for the message of a panic.
static SEED: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let get = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let number = |name: &str| get(name).map(|text| text.parse::<u64>());
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        hook(info);
        let seed = SEED.load(Ordering::Relaxed);
        eprintln!("seed {seed} panics\nreproduce with: cargo run -p harrier-sim --release -- --seed {seed}");
    }));
    let range = get("--seeds").and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    match (number("--seed"), range, number("--seconds"), number("--from").unwrap_or(Ok(0))) {
        (Some(Ok(seed)), None, None, _) => one(seed, args.iter().any(|arg| arg == "--whole")),
        (None, Some(range), None, _) => many(range, None),
        (None, None, Some(Ok(seconds)), Ok(from)) => many(from..u64::MAX, Some(Duration::from_secs(seconds))),
        _ => {
            eprintln!("usage: {USAGE}");
            ExitCode::from(2)
        }
    }
}

/// One seed, with the end of what happened, or the whole of it.
fn one(seed: u64, whole: bool) -> ExitCode {
    SEED.store(seed, Ordering::Relaxed);
    println!("{:?}", sim::Setting::of(seed));
    match sim::run(seed, true) {
        Ok(tally) => {
            println!("{tally:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let shown = failure.trace.len().saturating_sub(sim::limits::TRACE_LINES_SHOWN);
            for line in failure.trace[..shown].iter().filter(|_| whole) {
                println!("  {line}");
            }
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a program may say how long it runs")]
fn many(seeds: std::ops::Range<u64>, time: Option<Duration>) -> ExitCode {
    let start = Instant::now();
    let first = seeds.start;
    let mut runs = 0u64;
    let (mut published, mut delivered, mut cuts) = (0, 0, 0);
    let (mut declined, mut dead) = (0, 0);
    for seed in seeds {
        if time.is_some_and(|time| start.elapsed() >= time) {
            break;
        }
        SEED.store(seed, Ordering::Relaxed);
        match sim::run(seed, false) {
            Ok(tally) => {
                runs += 1;
                published += tally.published;
                delivered += tally.delivered;
                cuts += tally.cuts;
                declined += tally.declined;
                dead += tally.dead;
            }
            Err(failure) => {
                println!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{runs} runs from seed {first} in {seconds:.1} s: {published} published, {declined} of them refused, \
         {delivered} delivered, {dead} of them dead letters, {cuts} cuts; no promise broken"
    );
    ExitCode::SUCCESS
}
