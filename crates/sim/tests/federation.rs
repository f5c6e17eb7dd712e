//! Seeds of several brokers: a bounded set in every build, the same run for the same seed, and everything that can happen.

use sim::federation::{Tally, run};
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that a test runs: as many as take some seconds, with and without optimisation.
const SEEDS: u64 = if cfg!(debug_assertions) { 40 } else { 150 };

#[test]
fn no_seed_breaks_a_promise_and_together_they_meet_everything() {
    let next = AtomicU64::new(0);
    let outcomes = std::thread::scope(|scope| {
        let work = || {
            let mut sum = Tally::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= SEEDS {
                    return Ok(sum);
                }
                let panics = Announce(seed);
                let outcome = run(seed, false);
                std::mem::forget(panics);
                match outcome {
                    Ok(tally) => sum += tally,
                    Err(_) => {
                        next.store(SEEDS, Ordering::Relaxed);
                        return Err(seed);
                    }
                }
            }
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a seed panics, see above")).collect::<Vec<_>>()
    });
    let mut sum = Tally::default();
    for outcome in outcomes {
        match outcome {
            Ok(tally) => sum += tally,
            Err(seed) => panic!("{}", run(seed, true).expect_err("a seed that failed fails again")),
        }
    }
    let sums = [
        sum.published / 1_000,
        sum.crossed / 1_000,
        sum.owed / 1_000,
        sum.again / 10,
        sum.bindings / 100,
        sum.refused,
        sum.cuts / 10,
        sum.stops,
        sum.reroutes / 10,
        sum.silences,
        sum.client_cuts,
        sum.forced,
    ];
    assert!(!sums.contains(&0), "{sum:?}");
}

/// Names the seed of a panic.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        let seed = self.0;
        eprintln!(
            "seed {seed} panics; reproduce with: cargo run -p harrier-sim --release -- --federation --seed {seed}"
        );
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 14, 25] {
        let [first, second] = [(); 2].map(|()| run(seed, false).expect("no promise is broken"));
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn seeds_that_have_found_something_find_nothing_any_more() {
    // A pushed route was removed and added again, and its new connection overtook the old one; a link was given up for silence
    // while this broker had not read its heartbeats; two ends with full outputs, one of bindings and one of deliveries, read nothing.
    for seed in [1489, 416, 5716, 7785] {
        if let Err(failure) = run(seed, true) {
            panic!("{failure}");
        }
    }
}
