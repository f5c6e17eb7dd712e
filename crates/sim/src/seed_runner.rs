//! Runs many seeds on several threads, with progress on a terminal, until one fails or Ctrl-C is pressed.

use sim::{Mode, SeedFailure, Tally};
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the line on the terminal is written.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

thread_local! {
    /// The seed that this thread runs, for the message of a panic.
    pub static SEED: Cell<u64> = const { Cell::new(0) };
}

/// Which seeds are to be run, and how.
pub struct SeedPlan {
    pub mode: Mode,
    pub seeds: Range<u64>,
    /// How long seeds may be started.
    pub time: Option<Duration>,
    /// How many run at once.
    pub threads: usize,
    /// A seed that fails does not end the run.
    pub keeps_going: bool,
}

/// How a number of runs ended.
pub enum RunsEnd {
    /// Every seed ran.
    Done,
    /// Ctrl-C was pressed.
    Interrupted,
    /// Seeds failed.
    Failed {
        /// The one with the lowest number.
        first: Box<SeedFailure>,
        /// All of them, ascending.
        seeds: Vec<u64>,
    },
}

/// What the threads share.
struct SharedRuns {
    mode: Mode,
    next: AtomicU64,
    end: u64,
    stopped: Arc<AtomicBool>,
    keeps_going: bool,
    sums: Mutex<(u64, Tally)>,
}

impl SharedRuns {
    fn next_seed(&self) -> Option<u64> {
        let may_start = !self.stopped.load(Ordering::Relaxed);
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|&seed| may_start && seed < self.end)
    }

    fn sums(&self) -> (u64, Tally) {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, failures: &Sender<Box<SeedFailure>>) {
        while let Some(seed) = self.next_seed() {
            SEED.set(seed);
            match sim::run(self.mode, seed, false) {
                Ok(tally) => {
                    let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
                    sums.0 += 1;
                    sums.1 += tally;
                }
                Err(failure) => {
                    if !self.keeps_going {
                        // The other threads finish their seeds, and one of those may be smaller.
                        self.stopped.store(true, Ordering::Relaxed);
                    }
                    self.sums.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
                    // There is no receiver only if the program is ending anyway.
                    let _unreceived = failures.send(failure);
                }
            }
        }
    }
}

/// Runs seeds. `interrupted` becomes true when no more are to be started.
#[expect(clippy::disallowed_methods, reason = "a program may say how long it runs")]
pub fn run_seeds(plan: &SeedPlan, interrupted: &Arc<AtomicBool>) -> RunsEnd {
    let start = Instant::now();
    let runs = SharedRuns {
        mode: plan.mode,
        next: AtomicU64::new(plan.seeds.start),
        end: plan.seeds.end,
        stopped: Arc::clone(interrupted),
        keeps_going: plan.keeps_going,
        sums: Mutex::new((0, Tally::default())),
    };
    let shown = std::io::stderr().is_terminal();
    let mut first: Option<Box<SeedFailure>> = None;
    let mut seeds = Vec::new();
    std::thread::scope(|scope| {
        let (sender, failures) = channel();
        for _ in 0..plan.threads.max(1) {
            let (sender, runs) = (sender.clone(), &runs);
            scope.spawn(move || runs.run(&sender));
        }
        drop(sender);
        loop {
            match failures.recv_timeout(PROGRESS_EVERY) {
                Ok(failure) => {
                    let seed = failure.settings.seed;
                    seeds.push(seed);
                    if plan.keeps_going {
                        let clear = if shown { "\r\x1b[K" } else { "" };
                        println!("{clear}seed {seed} fails: {}", failure.violation);
                    }
                    if first.as_ref().is_none_or(|first| seed < first.settings.seed) {
                        first = Some(failure);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if plan.time.is_some_and(|time| start.elapsed() >= time) {
                runs.stopped.store(true, Ordering::Relaxed);
            }
            if shown {
                show_progress(plan, runs.sums().0, start.elapsed());
            }
        }
    });
    if shown {
        eprint!("\r\x1b[K");
    }
    let (count, sums) = runs.sums();
    let (start_seed, seconds) = (plan.seeds.start, start.elapsed().as_secs_f64());
    let each_ms = seconds * 1e3 * plan.threads as f64 / count.max(1) as f64;
    println!(
        "{count} seeds from {start_seed} on {} threads in {seconds:.1} s, {each_ms:.1} ms each: {sums}",
        plan.threads
    );
    match first {
        Some(first) => {
            seeds.sort_unstable();
            RunsEnd::Failed { first, seeds }
        }
        None if count == plan.seeds.end.saturating_sub(start_seed)
            || plan.time.is_some_and(|time| start.elapsed() >= time) =>
        {
            RunsEnd::Done
        }
        None => RunsEnd::Interrupted,
    }
}

/// Writes one line over itself.
fn show_progress(plan: &SeedPlan, runs: u64, elapsed: Duration) {
    let rate = runs as f64 / elapsed.as_secs_f64().max(1e-3);
    let all = plan.seeds.end - plan.seeds.start;
    let by_count_s = (all - runs.min(all)) as f64 / rate.max(1e-3);
    let left_s = match plan.time {
        Some(time) => time.saturating_sub(elapsed).as_secs_f64().min(by_count_s),
        None => by_count_s,
    };
    let left_s = left_s as u64;
    let (hours, minutes, seconds) = (left_s / 3_600, left_s / 60 % 60, left_s % 60);
    let of = if plan.time.is_some() { String::new() } else { format!(" of {all}") };
    let mut to = std::io::stderr();
    let line = format!("\r{runs}{of} seeds, {rate:.0} a second, {hours}:{minutes:02}:{seconds:02} left\x1b[K");
    // A terminal that cannot be written to is no reason to stop.
    let _unshown = to.write_all(line.as_bytes()).and_then(|()| to.flush());
}
