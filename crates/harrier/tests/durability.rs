//! A broker process that is killed and started again in the same state folder, or whose disk fails or fills up: what it
//! confirmed is there, once and in order, what was acknowledged or transient is not, and damage is named.
//!
//! `HARRIER_KILLS` sets the number of kills, `HARRIER_SEED` where they begin, `HARRIER_BIN` another program;
//! `HARRIER_KILLED_CALLS`, `HARRIER_FAILED_CALLS` and `HARRIER_FLIPS` are explained where they are used.

#[path = "durability/backup.rs"]
mod backup;
#[path = "durability/broker.rs"]
#[allow(dead_code, reason = "another test program uses the rest of it")]
mod broker;
#[path = "durability/definition_ledger.rs"]
mod definition_ledger;
#[path = "durability/definition_traffic.rs"]
mod definition_traffic;
#[path = "durability/fault_injector.rs"]
mod fault_injector;
#[path = "durability/flips.rs"]
mod flips;
#[path = "durability/formats.rs"]
mod formats;
#[path = "durability/full_disk.rs"]
mod full_disk;
#[path = "durability/ledger.rs"]
#[allow(dead_code, reason = "another test program uses the rest of it")]
mod ledger;
#[path = "durability/letter_ledger.rs"]
#[allow(dead_code, reason = "another test program uses the rest of it")]
mod letter_ledger;
#[path = "durability/letter_traffic.rs"]
mod letter_traffic;
#[path = "durability/letter_verification.rs"]
mod letter_verification;
#[path = "durability/live_damage.rs"]
mod live_damage;
#[path = "durability/numbered_messages.rs"]
mod numbered_messages;
#[path = "durability/random_flips.rs"]
mod random_flips;
#[path = "durability/shards.rs"]
mod shards;
#[path = "durability/system_calls.rs"]
mod system_calls;
#[path = "durability/traffic.rs"]
#[allow(dead_code, reason = "another test program uses the rest of it")]
mod traffic;
#[path = "durability/verification.rs"]
mod verification;
#[path = "durability/waiting.rs"]
mod waiting;
#[path = "durability/wall_clock.rs"]
mod wall_clock;
#[path = "durability/whole_folder.rs"]
mod whole_folder;

use broker::{StoredBroker, TestStateFolder, harrier};
use ledger::Ledger;
use splitmix::SplitMix64;
use std::time::Duration;
use traffic::Traffic;
use verification::verify;
use waiting::wait_until;

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Kills, unless `HARRIER_KILLS` says otherwise.
const KILLS: u64 = 10;
/// A round is killed after at most so many confirms.
const CONFIRMS_MAX: u64 = 600;

/// A number from the environment.
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
    survive_kills("kills", &[], KILLS);
}

/// Whoever is killed has written what was confirmed, and its disk has not synced it.
#[test]
fn what_was_confirmed_before_it_is_synced_survives_each_kill() {
    survive_kills("kills-later", &["--store-sync", "200ms", "--store-group-us", "300"], KILLS / 2);
}

fn survive_kills(name: &str, options: &[&str], kills: u64) {
    let first = number_of("HARRIER_SEED", 1);
    let folder = TestStateFolder::new(name);
    let mut ledger = Ledger::default();
    for seed in first..first + number_of("HARRIER_KILLS", kills) {
        let mut random = SplitMix64::new(seed);
        if random.one_in(3) {
            ledger.letters.start();
            StoredBroker::kill_at_start(&folder, 1 + random.below(3) as usize);
        }
        let broker = StoredBroker::start(&folder, options);
        verify(&broker, &mut ledger, &mut random).unwrap_or_else(|why| panic!("before kill {seed}: {why}"));
        // More often few than many: the first writes of a life are the ones that differ.
        let confirms = random.below(CONFIRMS_MAX).min(random.below(CONFIRMS_MAX));
        let traffic = Traffic::begin(&broker, &mut ledger, &mut random, seed);
        let mut traffic = traffic.expect("a broker that runs");
        traffic.run_until(confirms).expect("a broker that runs");
        traffic.kill_at_a_commit(broker);
        let told = traffic.end();
        check_store(&folder);
        println!("seed {seed}: killed after {confirms} confirms, {told}");
    }
    let broker = StoredBroker::start(&folder, &[]);
    verify(&broker, &mut ledger, &mut SplitMix64::new(0)).unwrap_or_else(|why| panic!("at the end: {why}"));
    broker.terminate();
}
