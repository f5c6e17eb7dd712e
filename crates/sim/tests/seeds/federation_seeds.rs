//! Seeds with several brokers: a bounded number in every build, the same result for the same seed, and everything that can
//! happen.

use crate::runs;
use sim::{Mode, run};

/// Seeds that a test runs: as many as take some seconds, with and without optimisation.
const SEEDS: u64 = if cfg!(debug_assertions) { 40 } else { 150 };

#[test]
fn no_seed_breaks_a_promise_and_together_they_meet_everything() {
    let sum = runs::run_all(Mode::Federation, SEEDS);
    let sums = [
        sum.published / 1_000,
        sum.crossed / 1_000,
        sum.owed / 1_000,
        sum.redelivered / 10,
        sum.bindings / 100,
        sum.refused,
        sum.link_cuts / 10,
        sum.stops,
        sum.reroutes / 10,
        sum.silences,
        sum.client_cuts,
        sum.forced,
    ];
    assert!(!sums.contains(&0), "{sum:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    runs::check_repeatable(Mode::Federation, &[3, 14, 25]);
}

#[test]
fn seeds_that_have_found_something_find_nothing_any_more() {
    // A pushed route was removed and added again, and its new connection overtook the old one; a link was closed for silence
    // although this broker had not read its heartbeats; two ends with full outputs, one of bindings and one of deliveries,
    // read nothing; a search for a route came upon neither of two bindings, of which one replaced the other in the meantime;
    // what a broken pushed route had sent was carried out behind the first messages of its next connection.
    for seed in [1489, 416, 5716, 7785, 204, 2648, 215] {
        if let Err(failure) = run(Mode::Federation, seed, true) {
            panic!("{failure}");
        }
    }
}
