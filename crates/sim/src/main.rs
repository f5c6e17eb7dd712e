//! `harrier-sim`: runs seeds of the simulation, and shows the trace of one that fails.
#![forbid(unsafe_code)]

mod seed_runner;

use seed_runner::{RunsEnd, SEED, SeedPlan};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use sim::Mode;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Counts what each run holds.
#[global_allocator]
static HEAP: slab::Heap = slab::Heap;

const USAGE: &str = "\
usage: harrier-sim --seed N [--whole]          run one seed; if it fails, show the end of its trace, or all of it
       harrier-sim --seeds A..B [--threads N] [--keep-going]
                                               run the seeds from A to B, without B
       harrier-sim --seconds S [--from A] [--threads N] [--keep-going]
                                               run seeds from A (0) for S seconds
With --federation: several brokers, joined by links. With --durable: one broker with a store, which crashes.
A seed that fails ends the run, and is shown. With --keep-going the others are run all the same, each that fails is named at
once, and all of them at the end, with the first one shown. A panic ends the run in any case, and names its seed.
The status is 0 if no seed fails, 1 if one does, 2 if the arguments are not understood, 130 after Ctrl-C.";

/// The exit status that a shell expects of a program that Ctrl-C stopped.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let get = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let number = |name: &str| get(name).map(|text| text.parse::<u64>());
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let mode = match (has("--federation"), has("--durable")) {
        (false, false) => Mode::Features,
        (false, true) => Mode::Durable,
        (true, false) => Mode::Federation,
        (true, true) => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        hook(info);
        let seed = SEED.get();
        eprintln!(
            "seed {seed} panics\nreproduce with: cargo run -p harrier-sim --release -- {}--seed {seed}",
            mode.option()
        );
    }));
    let range = get("--seeds").and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    if has("--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let keeps_going = has("--keep-going");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = number("--threads").unwrap_or(Ok(cores as u64));
    match (number("--seed"), range, number("--seconds"), number("--from").unwrap_or(Ok(0)), threads) {
        (Some(Ok(seed)), None, None, ..) => run_one(mode, seed, has("--whole")),
        (None, Some(seeds), None, _, Ok(threads)) => {
            run_many(&SeedPlan { mode, seeds, time: None, threads: threads as usize, keeps_going })
        }
        (None, None, Some(Ok(seconds)), Ok(from), Ok(threads)) => {
            let (seeds, time) = (from..u64::MAX, Some(Duration::from_secs(seconds)));
            run_many(&SeedPlan { mode, seeds, time, threads: threads as usize, keeps_going })
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs one seed with a trace.
fn run_one(mode: Mode, seed: u64, shows_all: bool) -> ExitCode {
    SEED.set(seed);
    println!("{:#?}", sim::Settings::of(mode, seed));
    match sim::run(mode, seed, true) {
        Ok(tally) => {
            println!("{tally}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let shown = failure.trace.len().saturating_sub(sim::limits::TRACE_LINES_SHOWN);
            for line in failure.trace[..shown].iter().filter(|_| shows_all) {
                println!("  {line}");
            }
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs many seeds, until one fails or Ctrl-C is pressed: once to finish the seeds that run, twice to stop at once.
fn run_many(plan: &SeedPlan) -> ExitCode {
    let interrupted = Arc::new(AtomicBool::new(false));
    let registered = flag::register_conditional_shutdown(SIGINT, INTERRUPTED.into(), Arc::clone(&interrupted))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupted)));
    if let Err(error) = registered {
        eprintln!("Ctrl-C will stop this at once: {error}");
    }
    match seed_runner::run_seeds(plan, &interrupted) {
        RunsEnd::Done => {
            println!("no promise broken");
            ExitCode::SUCCESS
        }
        RunsEnd::Interrupted => {
            println!("interrupted; no promise broken until then");
            ExitCode::from(INTERRUPTED)
        }
        RunsEnd::Failed { first, seeds } => {
            println!("{first}");
            if seeds.len() > 1 {
                let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
                println!("{} seeds fail: {}", seeds.len(), seeds.join(" "));
            }
            ExitCode::FAILURE
        }
    }
}
