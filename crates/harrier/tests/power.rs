//! A broker on a machine whose power fails, and whose disk has errors: a guest, whose disk loses what was not flushed, or is the
//! kernel's device mapper's, which records what is written or fails.
//!
//! `HARRIER_GUEST` is the program that starts guests (`tests/lab/guest`); without it all of this is skipped, or fails if `LAB_MUST`
//! is set. `HARRIER_CUTS` sets the number of power cuts, `HARRIER_REPLAYS` that of a recorded disk, `HARRIER_SEED` where they
//! begin, `HARRIER_BIN` the program, which should be a release build: the guest's processor is made of software.

#[path = "durability/broker.rs"]
#[allow(dead_code, reason = "another test program uses the rest of it")]
mod broker;
#[path = "power/cached_disk.rs"]
mod cached_disk;
#[path = "durability/definition_ledger.rs"]
mod definition_ledger;
#[path = "durability/definition_traffic.rs"]
mod definition_traffic;
#[path = "power/failing.rs"]
mod failing;
#[path = "power/file_system.rs"]
mod file_system;
#[path = "power/guest_broker.rs"]
mod guest_broker;
#[path = "durability/ledger.rs"]
mod ledger;
#[path = "durability/letter_ledger.rs"]
#[allow(dead_code, reason = "another test program uses the rest of it")]
mod letter_ledger;
#[path = "durability/letter_traffic.rs"]
mod letter_traffic;
#[path = "durability/letter_verification.rs"]
mod letter_verification;
#[path = "power/mapped_disk.rs"]
mod mapped_disk;
#[path = "durability/numbered_messages.rs"]
mod numbered_messages;
#[path = "power/recorded.rs"]
mod recorded;
#[path = "durability/traffic.rs"]
#[allow(dead_code, reason = "another test program uses the rest of it")]
mod traffic;
#[path = "durability/verification.rs"]
mod verification;
#[path = "power/volatile_disk.rs"]
mod volatile_disk;
#[path = "durability/waiting.rs"]
mod waiting;
#[path = "durability/wall_clock.rs"]
mod wall_clock;
#[path = "power/write_log.rs"]
mod write_log;

use broker::{StoredBroker, TestStateFolder, harrier};
use file_system::{FileSystem, MountedCopy};
use guest_broker::GuestBroker;
use ledger::Ledger;
use splitmix::SplitMix64;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use traffic::Traffic;
use verification::verify;
use volatile_disk::{DiskFault, VolatileDisk};

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(300);

/// What ext4 takes on a large disk, and on a small one.
const EXT4: FileSystem = FileSystem::Ext4 { block_bytes: 4_096 };
const EXT4_OF_SMALL_BLOCKS: FileSystem = FileSystem::Ext4 { block_bytes: 1_024 };
/// Power cuts for each kind of blocks, unless `HARRIER_CUTS` says otherwise.
const CUTS: u64 = 10;
/// Of each life of the guest: all but the last are of a copy of its disk, which is looked at here.
const CUTS_PER_LIFE: u64 = 5;
/// Confirms that are waited for at a time.
const CONFIRMS_MAX: u64 = 60;
/// By how much a guest's clock may differ from ours.
const GUEST_CLOCK_ERROR_US: u64 = 5_000_000;
/// Writes of the guest before a copy is made.
const WRITES_MAX: u64 = 60;

fn guest_program() -> Option<OsString> {
    std::env::var_os("HARRIER_GUEST")
}

/// Whether there are guests. A test without says so.
fn has_guests() -> bool {
    if guest_program().is_some() {
        return true;
    }
    let why = "\nSKIPPED: power cuts: HARRIER_GUEST does not say which program starts guests";
    assert!(std::env::var_os("LAB_MUST").is_none(), "{why}");
    // Past the test harness, which keeps the output of tests that pass.
    writeln!(std::io::stdout(), "{why}").expect("output");
    false
}

fn number_of(variable: &str, usual: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return usual };
    text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}"))
}

/// A new folder for a disk.
fn disk_folder(name: &str) -> TestStateFolder {
    let folder = TestStateFolder::new(name);
    std::fs::create_dir(folder.root()).expect("a new folder");
    folder
}

/// What a disk writes as a whole: `HARRIER_TORN_BYTES`, or else a block of its file system.
fn torn_bytes(file_system: FileSystem) -> usize {
    number_of("HARRIER_TORN_BYTES", file_system.block_bytes() as u64) as usize
}

/// A disk with an empty file system.
fn formatted_disk(name: &str, file_system: FileSystem) -> (Arc<VolatileDisk>, TestStateFolder) {
    let folder = disk_folder(name);
    let disk = VolatileDisk::new(folder.root(), file_system.bytes(), torn_bytes(file_system));
    file_system.make(&disk.path());
    (Arc::new(disk), folder)
}

/// The state folder of a guest's disk that is mounted here.
fn state_folder(mounted: &MountedCopy) -> TestStateFolder {
    TestStateFolder::at(mounted.path().join("state"))
}

/// Starts a broker here with a copy of the guest's disk as it is after a power cut, and compares.
fn verify_copy(
    copy: &Path,
    file_system: FileSystem,
    mut ledger: Ledger,
    random: &mut SplitMix64,
) -> Result<(), String> {
    let mounted = MountedCopy::new(copy, file_system)?;
    let folder = state_folder(&mounted);
    // A first start may have been cut before there was a store.
    if folder.path("store.toml").exists() {
        let check = harrier().args(["store", "check"]).arg(folder.root()).output().expect("it runs");
        if !check.status.success() {
            return Err(String::from_utf8_lossy(&check.stderr).into_owned());
        }
    }
    // Publishers are not held, although the disk is small.
    let broker = StoredBroker::try_start(&folder, &["--disk-free-limit", "1MiB"])
        .map_err(|(status, log)| format!("{status}: {log}"))?;
    verify(&broker, &mut ledger, random).map_err(|why| why.to_string())?;
    broker.kill();
    Ok(())
}

#[test]
fn what_was_confirmed_survives_each_power_cut() {
    survive_power_cuts("power", EXT4);
}

/// Blocks of the file system that are smaller than those of the store: a group may lie in several places, and what the file system
/// changes in place is torn within a page.
#[test]
fn what_was_confirmed_survives_each_power_cut_with_blocks_of_1_kib() {
    survive_power_cuts("power-1k", EXT4_OF_SMALL_BLOCKS);
}

/// A ledger of a broker in a guest, whose clock is set by the second.
fn guest_ledger() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.letters.clock_error_us = GUEST_CLOCK_ERROR_US;
    ledger
}

fn survive_power_cuts(name: &str, file_system: FileSystem) {
    if !has_guests() {
        return;
    }
    let (first, cuts) = (number_of("HARRIER_SEED", 1), number_of("HARRIER_CUTS", CUTS));
    let (disk, folder) = formatted_disk(name, file_system);
    let mut ledger = guest_ledger();
    let mut seed = first;
    while seed < first + cuts {
        let mut random = SplitMix64::new(seed);
        let broker = GuestBroker::start(&disk);
        verify(&broker, &mut ledger, &mut random).unwrap_or_else(|why| panic!("before cut {seed}: {why}"));
        let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, seed).expect("a broker that runs");
        let last = (seed + CUTS_PER_LIFE).min(first + cuts) - 1;
        let mut confirms = 0;
        for seed in seed..last {
            let mut random = SplitMix64::new(!seed);
            let before = traffic.ledger().clone();
            let copy = folder.path("copy");
            disk.copy_behind(random.below(WRITES_MAX), &copy, SplitMix64::new(seed));
            let told = loop {
                confirms += 1 + random.below(CONFIRMS_MAX);
                traffic.run_until(confirms).expect("a broker that runs");
                if let Some(told) = disk.take_copied() {
                    break told;
                }
            };
            let ledger = traffic.ledger().clone().since(&before);
            verify_copy(&copy, file_system, ledger, &mut random)
                .unwrap_or_else(|why| panic!("a copy at {seed}, {told}: {why}"));
            std::fs::remove_file(copy).expect("it is there");
            println!("seed {seed}: a copy, {told}");
        }
        seed = last;
        let mut random = SplitMix64::new(!seed);
        traffic.run_until(confirms + random.below(CONFIRMS_MAX)).expect("a broker that runs");
        disk.fail_power_behind(random.below(3));
        traffic.kill_at_a_commit(broker);
        let told = disk.cut(&mut random);
        // What the next start finds stays in the folder if that fails.
        std::fs::copy(disk.path(), folder.path("disk.cut")).expect("space for a copy");
        println!("seed {seed}: {}, {told}", traffic.end());
        seed += 1;
    }
    let broker = GuestBroker::start(&disk);
    verify(&broker, &mut ledger, &mut SplitMix64::new(0)).unwrap_or_else(|why| panic!("at the end: {why}"));
}

#[test]
fn an_error_of_the_disk_ends_the_broker_and_loses_nothing() {
    if !has_guests() {
        return;
    }
    let (disk, _folder) = formatted_disk("errors", EXT4);
    let (mut ledger, mut random) = (guest_ledger(), SplitMix64::new(1));
    let broker = GuestBroker::start(&disk);
    let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, 0).expect("a broker that runs");
    traffic.run_until(100).expect("a broker that runs");
    disk.set_fault(DiskFault::WriteErrors);
    let commit = traffic.fail_at_a_commit();
    assert!(commit.contains("541"), "{commit}");
    let (status, log) = broker.wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("/disk/state/"), "it names the file: {log}");
    println!("{commit}; {}", traffic.end());
    disk.set_fault(DiskFault::None);
    disk.cut(&mut random);
    let broker = GuestBroker::start(&disk);
    verify(&broker, &mut ledger, &mut SplitMix64::new(0)).unwrap_or_else(|why| panic!("after the error: {why}"));
}

#[test]
fn a_disk_that_lost_a_write_is_found_to_be_damaged() {
    if !has_guests() {
        return;
    }
    let (disk, _folder) = formatted_disk("lost", EXT4);
    let (mut ledger, mut random) = (guest_ledger(), SplitMix64::new(2));
    let broker = GuestBroker::start(&disk);
    let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, 0).expect("a broker that runs");
    traffic.run_until(100).expect("a broker that runs");
    // The first bytes of a frame.
    disk.set_fault(DiskFault::LosesWriteOf(*b"HRRF"));
    traffic.run_until(400).expect("a broker that runs");
    assert_eq!(disk.lost_writes(), 1);
    traffic.kill_at_a_commit(broker);
    traffic.end();
    disk.cut(&mut random);
    let (status, log) = GuestBroker::try_start(&disk).err().expect("the damage is noticed");
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("segment") && log.contains("block"), "it says where: {log}");
}
