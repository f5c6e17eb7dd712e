//! Seeds whose broker has a store and crashes: a bounded number in every build, the same result for the same seed, and
//! everything that can happen.

use crate::runs;
use sim::Mode;

/// Seeds that a test runs: as many as take some seconds, with and without optimisation. `tests/suite sim` runs more.
const SEEDS: u64 = if cfg!(debug_assertions) { 100 } else { 1_000 };

#[test]
fn no_crash_breaks_a_promise_and_together_the_seeds_meet_everything() {
    let sum = runs::run_all(Mode::Durable, SEEDS);
    let sums = [
        sum.published / 1_000,
        sum.confirmed / 1_000,
        sum.crashes / 100,
        sum.recovered / 1_000,
        sum.redelivered / 100,
        sum.dead / 10,
        sum.client_cuts / 10,
        sum.drained / 100,
        sum.clean_stops / 10,
        sum.relaxed_ends / 10,
        sum.doubtful / 10,
        sum.full_disks / 5,
        sum.full_spills / 5,
        sum.damages / 5,
        sum.refused_starts / 5,
        sum.lossy_starts,
        sum.reshardings / 5,
        sum.spoiled_footers / 20,
        sum.flips / 5,
        sum.moved / 100,
        sum.runs_moving / 5,
    ];
    assert!(!sums.contains(&0), "{sum:?}");
    // Each place that was damaged is named, or it is known why nothing has to name it; and each reason occurs.
    let outcomes = sum.outcomes;
    assert_eq!((outcomes.sum(), outcomes.silent), (sum.damages + sum.flips, 0), "{outcomes}");
    let met = [outcomes.named_by_start, outcomes.cut_off, outcomes.padding];
    assert!(!met.contains(&0), "{outcomes}");
    let (named, cut_off) = (outcomes.named_by_scrub + outcomes.named_by_start, outcomes.cut_off);
    assert!(named > cut_off, "most damage can be told from torn writes: {outcomes}");
    // Most lives end before a scrub has gone through a log twice. Of what is damaged in others it names most: the rest is given
    // back first, or lies where writes go astray or reads fail, where nothing is certain.
    let passed = sum.flips - sum.flips_unpassed;
    assert!(sum.flips_named * 2 >= passed, "{} of {passed} damaged frames were named: {sum:?}", sum.flips_named);
    // A spill disk is asked for little, few runs go on until a disk fails, and few lives until a scrub has found something.
    let found = [sum.flips_named / 2, sum.journal_reports, outcomes.named_by_scrub, outcomes.given_back];
    let rare = [&[sum.disk_failures / 2, sum.spill_failures], &found[..]].concat();
    assert!(SEEDS < 1_000 || !rare.contains(&0), "{sum:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    runs::check_repeatable(Mode::Durable, &[4, 15, 42]);
}

#[test]
fn seeds_that_have_found_something_find_nothing_any_more() {
    // A publisher whose first route took more than a turn while others were blocked was never read again; a queue whose pages
    // came nine at a time waited for ever; what was torn counted where damage was in front of it; a page whose messages were
    // settled before they were read held up all others; a purge that found nothing did not wait for the one that had taken the
    // messages; a client of the model was known by its place among others; a store that was written anew did not say which
    // messages had been delivered; a confirm of what may be gone at once proved a queue; a message had been returned, and was not
    // flagged, as damage had taken what said that it was delivered; a scrub named frames that
    // were not damaged (45), and was to name what lies elsewhere or cannot be read (1579, 2071); the end of a log was not told in a
    // segment that had lost its header (4384); a rest was taken for durable while a disk stayed full (16075); what was sent ahead
    // to a consumer came back in one step (51859); a page waited for a slow read of the scrub (55113).
    for seed in
        [1376, 858, 9667, 11228, 4326, 5266, 262, 29272, 35772, 22027, 45, 1579, 2071, 4384, 16075, 51859, 55113]
    {
        if let Err(failure) = sim::run(Mode::Durable, seed, true) {
            panic!("{failure}");
        }
    }
}
