//! A broker process that is killed and started again in the same state folder: what it confirmed is there, once and in
//! order, what was acknowledged or transient is not, and damage is named.
//!
//! `HARRIER_KILLS` sets the number of kills, `HARRIER_SEED` where they begin, `HARRIER_BIN` another program.

#[path = "durability/broker.rs"]
#[expect(dead_code, reason = "shared with the tests of backlogs")]
mod broker;
#[path = "durability/flips.rs"]
mod flips;
#[path = "durability/ledger.rs"]
mod ledger;
#[path = "durability/random.rs"]
mod random;
#[path = "durability/traffic.rs"]
mod traffic;
#[path = "durability/verification.rs"]
mod verification;

use broker::{StoredBroker, TestStateFolder, harrier};
use ledger::Ledger;
use random::SeededRandom;
use std::time::Duration;
use traffic::Traffic;
use verification::verify;

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Kills, unless `HARRIER_KILLS` says otherwise.
const KILLS: u64 = 10;
/// A round is killed after at most so many confirms.
const CONFIRMS_MAX: u64 = 600;

fn number_of(variable: &str, usual: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return usual };
    text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}"))
}

/// A kill damages nothing.
fn check_store(folder: &TestStateFolder) {
    let check = harrier().args(["store", "check"]).arg(folder.path("")).output().expect("it runs");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn what_was_confirmed_survives_each_kill() {
    let first = number_of("HARRIER_SEED", 1);
    let folder = TestStateFolder::new("kills");
    let mut ledger = Ledger::default();
    for seed in first..first + number_of("HARRIER_KILLS", KILLS) {
        let mut random = SeededRandom::new(seed);
        if random.one_in(3) {
            StoredBroker::kill_at_start(&folder, 1 + random.below(3) as usize);
        }
        let broker = StoredBroker::start(&folder, &[]);
        verify(&broker, &mut ledger, &mut random).unwrap_or_else(|why| panic!("before kill {seed}: {why}"));
        // More often few than many: the first writes of a life are the ones that differ.
        let confirms = random.below(CONFIRMS_MAX).min(random.below(CONFIRMS_MAX));
        let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, seed);
        traffic.run_until(confirms);
        traffic.kill_at_a_commit(broker);
        let told = traffic.end();
        check_store(&folder);
        println!("seed {seed}: killed after {confirms} confirms, {told}");
    }
    let broker = StoredBroker::start(&folder, &[]);
    verify(&broker, &mut ledger, &mut SeededRandom::new(0)).unwrap_or_else(|why| panic!("at the end: {why}"));
    broker.terminate();
}
