//! Runs of seeds on several threads, for tests.

use sim::{Mode, SeedFailure, Tally, run};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what each run holds.
#[global_allocator]
static HEAP: slab::Heap = slab::Heap;

const THREADS: usize = 4;

/// Names the seed of a panic when it is dropped.
struct PanicNotice(Mode, u64);

impl Drop for PanicNotice {
    fn drop(&mut self) {
        let PanicNotice(mode, seed) = self;
        let option = mode.option();
        eprintln!("seed {seed} panics; reproduce with: cargo run -p harrier-sim --release -- {option}--seed {seed}");
    }
}

fn run_one(mode: Mode, seed: u64) -> Result<Tally, Box<SeedFailure>> {
    let notice = PanicNotice(mode, seed);
    let outcome = run(mode, seed, false);
    std::mem::forget(notice);
    outcome
}

/// Runs the seeds from 0 on, and panics with the trace of the first that fails. Returns the sum of what happened.
pub fn run_all(mode: Mode, seeds: u64) -> Tally {
    let next = AtomicU64::new(0);
    let work = || {
        let mut sum = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return Ok(sum);
            }
            match run_one(mode, seed) {
                Ok(tally) => sum += tally,
                Err(_) => {
                    next.store(seeds, Ordering::Relaxed);
                    return Err(seed);
                }
            }
        }
    };
    let outcomes: Vec<Result<Tally, u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a seed panics, see above")).collect()
    });
    if let Some(seed) = outcomes.iter().filter_map(|outcome| outcome.err()).min() {
        panic!("{}", run(mode, seed, true).expect_err("a seed that failed fails again"));
    }
    let mut sum = Tally::default();
    outcomes.into_iter().flatten().for_each(|tally| sum += tally);
    sum
}

/// Each seed has the same result when it runs twice.
pub fn check_repeatable(mode: Mode, seeds: &[u64]) {
    for &seed in seeds {
        let [first, second] = [(); 2].map(|()| run_one(mode, seed).expect("no promise is broken"));
        assert_eq!(first, second, "seed {seed}");
    }
}
