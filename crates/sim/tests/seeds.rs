//! Seeds: a bounded set in every build, and the same run for the same seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that a test runs: as many as take some seconds, with and without optimisation. `tests/suite sim` runs 10,000.
const SEEDS: u64 = if cfg!(debug_assertions) { 100 } else { 1_000 };

/// Runs every seed, on as many threads as there are parts; shows the first that fails.
fn run_all(from: u64, seeds: u64) {
    let next = AtomicU64::new(from);
    let failure = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= from + seeds {
                            return None;
                        }
                        let panics = Announce(seed);
                        let outcome = sim::run(seed, false);
                        std::mem::forget(panics);
                        if outcome.is_err() {
                            next.store(from + seeds, Ordering::Relaxed);
                            return Some(seed);
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("a seed panics, see above")).min()
    });
    if let Some(seed) = failure {
        let failure = sim::run(seed, true).expect_err("a seed that failed fails again");
        panic!("{failure}");
    }
}

/// Names the seed of a panic.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        let seed = self.0;
        eprintln!("seed {seed} panics; reproduce with: cargo run -p harrier-sim --release -- --seed {seed}");
    }
}

#[test]
fn no_seed_breaks_a_promise() {
    run_all(0, SEEDS);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 14, 41, 100] {
        let [first, second] = [(); 2].map(|()| sim::run(seed, false).expect("no promise is broken"));
        assert_eq!(first, second, "seed {seed}");
    }
}

/// Some of it is rare, since a swarm has to switch several features on at once.
#[test]
fn the_seeds_meet_everything_that_can_happen() {
    const SEEDS_MAX: u64 = 3_000;
    let mut sum = sim::Tally::default();
    let mut missing = true;
    for seed in 0..SEEDS_MAX {
        sum += sim::run(seed, false).expect("no promise is broken");
        let sums = [
            sum.published / 1_000,
            sum.confirmed / 1_000,
            sum.declined,
            sum.redelivered / 100,
            sum.dead / 10,
            sum.chained,
            sum.worn,
            sum.overdue,
            sum.refusals / 10,
            sum.cuts / 10,
            sum.blocked,
            sum.drained / 100,
        ];
        missing = sums.contains(&0);
        if !missing {
            break;
        }
    }
    assert!(!missing, "{sum:?}");
}
