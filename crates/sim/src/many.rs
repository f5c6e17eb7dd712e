//! Many seeds at once, on all cores: progress while they run, the first broken promise, an end at Ctrl-C.
//!
//! Enters: seeds, for how long, on how many threads.  Leaves: sums, or the failure of the smallest seed that has one.
//! Owns:   the threads, the clock, the line on the terminal.
//! Never:  decides what is right: the library does.

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
    /// The seed that runs, for the message of a panic.
    pub static SEED: Cell<u64> = const { Cell::new(0) };
}

/// What runs are summed up in.
pub trait Sum: Copy + Default + std::ops::AddAssign + std::fmt::Display + Send {}

impl<T: Copy + Default + std::ops::AddAssign + std::fmt::Display + Send> Sum for T {}

/// What a run comes to: its sum, or the failure.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What is to be run.
pub struct Order<T> {
    /// One of them.
    pub run: fn(u64) -> Outcome<T>,
    /// The seeds.
    pub seeds: Range<u64>,
    /// How long they may be begun.
    pub time: Option<Duration>,
    /// How many run at once.
    pub threads: usize,
}

/// What came of it.
pub enum End {
    /// Everything ran.
    Done,
    /// Somebody pressed Ctrl-C.
    Interrupted,
    /// A promise was broken.
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

/// What the threads share.
struct Work<T> {
    run: fn(u64) -> Outcome<T>,
    next: AtomicU64,
    end: u64,
    stopped: Arc<AtomicBool>,
    sums: Mutex<(u64, T)>,
}

impl<T: Sum> Work<T> {
    fn take(&self) -> Option<u64> {
        let go = !self.stopped.load(Ordering::Relaxed);
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|&seed| go && seed < self.end)
    }

    fn sums(&self) -> (u64, T) {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, failures: &Sender<(u64, Box<dyn std::error::Error + Send + Sync>)>) {
        while let Some(seed) = self.take() {
            SEED.set(seed);
            match (self.run)(seed) {
                Ok(tally) => {
                    let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
                    sums.0 += 1;
                    sums.1 += tally;
                }
                Err(failure) => {
                    // The others end the seeds they have begun, and one of those may be smaller.
                    self.stopped.store(true, Ordering::Relaxed);
                    // Nobody listens only if the program is ending anyway.
                    let _unheard = failures.send((seed, failure));
                }
            }
        }
    }
}

/// Runs them. `interrupted` becomes true when no more are to be begun.
#[expect(clippy::disallowed_methods, reason = "a program may say how long it runs")]
pub fn run<T: Sum>(order: &Order<T>, interrupted: &Arc<AtomicBool>) -> End {
    let start = Instant::now();
    let work = Work {
        run: order.run,
        next: AtomicU64::new(order.seeds.start),
        end: order.seeds.end,
        stopped: Arc::clone(interrupted),
        sums: Mutex::new((0, T::default())),
    };
    let shown = std::io::stderr().is_terminal();
    let mut broken: Option<(u64, Box<dyn std::error::Error + Send + Sync>)> = None;
    std::thread::scope(|scope| {
        let (sender, failures) = channel();
        for _ in 0..order.threads.max(1) {
            let (sender, work) = (sender.clone(), &work);
            scope.spawn(move || work.run(&sender));
        }
        drop(sender);
        loop {
            match failures.recv_timeout(PROGRESS_EVERY) {
                Ok(failure) => {
                    if broken.as_ref().is_none_or(|before| failure.0 < before.0) {
                        broken = Some(failure);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if order.time.is_some_and(|time| start.elapsed() >= time) {
                work.stopped.store(true, Ordering::Relaxed);
            }
            if shown {
                progress(order, work.sums().0, start.elapsed());
            }
        }
    });
    if shown {
        eprint!("\r\x1b[K");
    }
    let (runs, sums) = work.sums();
    let (first, seconds) = (order.seeds.start, start.elapsed().as_secs_f64());
    let each_ms = seconds * 1e3 * order.threads as f64 / runs.max(1) as f64;
    println!("{runs} seeds from {first} on {} threads in {seconds:.1} s, {each_ms:.1} ms each: {sums}", order.threads);
    match broken {
        Some((_, failure)) => End::Broken(failure),
        None if runs == order.seeds.end.saturating_sub(first)
            || order.time.is_some_and(|time| start.elapsed() >= time) =>
        {
            End::Done
        }
        None => End::Interrupted,
    }
}

/// One line, written over itself.
fn progress<T>(order: &Order<T>, runs: u64, elapsed: Duration) {
    let rate = runs as f64 / elapsed.as_secs_f64().max(1e-3);
    let all = order.seeds.end - order.seeds.start;
    let by_count_s = (all - runs.min(all)) as f64 / rate.max(1e-3);
    let left_s = match order.time {
        Some(time) => time.saturating_sub(elapsed).as_secs_f64().min(by_count_s),
        None => by_count_s,
    };
    let left_s = left_s as u64;
    let (hours, minutes, seconds) = (left_s / 3_600, left_s / 60 % 60, left_s % 60);
    let of = if order.time.is_some() { String::new() } else { format!(" of {all}") };
    let mut to = std::io::stderr();
    let line = format!("\r{runs}{of} seeds, {rate:.0} a second, {hours}:{minutes:02}:{seconds:02} left\x1b[K");
    // A terminal that takes nothing more is no reason to stop.
    let _unshown = to.write_all(line.as_bytes()).and_then(|()| to.flush());
}
