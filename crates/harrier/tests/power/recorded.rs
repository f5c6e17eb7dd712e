//! A disk that everything is recorded of: what it may have had at any moment is mounted here, and a broker started on it.

use super::cached_disk::CachedDisk;
use super::file_system::FileSystem;
use super::guest_broker::{GuestBroker, GuestDisk};
use super::ledger::Ledger;
use super::mapped_disk::MappedDisk;
use super::traffic::Traffic;
use super::verification::verify;
use super::write_log::WriteLog;
use super::{EXT4, disk_folder, guest_ledger, has_guests, number_of, torn_bytes, verify_copy};
use splitmix::SplitMix64;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// For what is written in a recording, several times over.
const LOG_BYTES: u64 = 1 << 30;
/// Replays of a recording, unless `HARRIER_REPLAYS` says otherwise.
const REPLAYS: u64 = 14;
const REPLAYS_OF_XFS: u64 = 6;
/// Marks of a broker's life.
const MARKS: u64 = 6;
/// Confirms between two of them, at most.
const CONFIRMS_MAX: u64 = 60;
/// Shards of the brokers, one after another: the second one writes the store of the first one anew.
const SHARDS: [u16; 3] = [2, 3, 2];

/// What was known at each mark.
#[derive(Default)]
struct MarkedLedgers(Vec<Ledger>);

impl MarkedLedgers {
    /// Nothing is under way: what is known now is what is known at the mark.
    fn mark(&mut self, disk: &MappedDisk, ledger: &Ledger) {
        self.0.push(ledger.clone());
        disk.mark(&self.0.len().to_string());
    }
}

/// Records brokers at work, each of which is killed.
fn record(disk: &Arc<MappedDisk>, seed: u64) -> MarkedLedgers {
    let mut ledgers = MarkedLedgers::default();
    let mut ledger = guest_ledger();
    let mut random = SplitMix64::new(seed);
    let mut broker = GuestBroker::start(disk);
    for (round, next_shards) in (0..).zip(SHARDS.into_iter().map(Some).skip(1).chain([None])) {
        verify(&broker, &mut ledger, &mut random).unwrap_or_else(|why| panic!("in round {round}: {why}"));
        ledgers.mark(disk, &ledger);
        let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, round).expect("a broker that runs");
        ledgers.mark(disk, traffic.ledger());
        let mut confirms = 0;
        for _ in 1..MARKS {
            confirms += 1 + SplitMix64::new(seed ^ confirms).below(CONFIRMS_MAX);
            traffic.run_until(confirms).expect("a broker that runs");
            ledgers.mark(disk, traffic.ledger());
        }
        disk.kill_broker(next_shards);
        println!("round {round}: {}", traffic.end());
        if next_shards.is_some() {
            assert!(broker.await_ready(), "it starts again");
        }
    }
    // What was confirmed since the last mark is certain only at the end.
    ledgers.0.push(ledger);
    broker.wait();
    ledgers
}

/// Replays a log up to each of some entries, and compares what a broker finds then. Returns what was wrong.
fn replay(
    log: &WriteLog,
    disk: &mut CachedDisk,
    folder: &Path,
    file_system: FileSystem,
    ledgers: &[Ledger],
    seeds: std::ops::Range<u64>,
) -> Vec<String> {
    let marks: Vec<usize> = (1..ledgers.len()).map(|number| log.mark(&number.to_string())).collect();
    let begin = |number: usize| if number == 0 { 0 } else { marks[number - 1] + 1 };
    let end = |number: usize| marks.get(number).copied().unwrap_or(log.len());
    // Between marks that are near each other as often as between others, and often right behind a mark: there what was confirmed
    // has had no time to be written.
    let mut cuts: Vec<(usize, usize, u64)> = seeds
        .map(|seed| {
            let mut random = SplitMix64::new(!seed);
            let between = random.below(ledgers.len() as u64) as usize;
            let entries = if random.one_in(2) { 1 } else { (end(between) - begin(between)).max(1) };
            (begin(between) + random.below(entries as u64) as usize, between, seed)
        })
        .collect();
    cuts.sort_unstable();
    let nothing = guest_ledger();
    let (mut replayed, mut wrong) = (0, Vec::new());
    for (cut, between, seed) in cuts {
        (replayed..cut).for_each(|entry| log.replay(entry, disk));
        replayed = cut;
        let mut random = SplitMix64::new(seed);
        let copy = folder.join("copy");
        let mut copied = disk.copy(&copy);
        // The entry was under way, and all before it were done.
        if cut < log.len() {
            log.replay_without_end(cut, &mut copied);
        }
        let lost = copied.lose_unflushed(&mut random);
        let before = between.checked_sub(1).map_or(&nothing, |number| &ledgers[number]);
        let ledger = ledgers[between].clone().since(before);
        let told = format!("seed {seed}: entry {cut} of {}, behind mark {between}, {lost}", log.len());
        match verify_copy(&copy, file_system, ledger, &mut random) {
            Ok(()) => {
                println!("{told}");
                std::fs::remove_file(copy).expect("it is there");
            }
            Err(why) => {
                println!("{told}: {why}");
                std::fs::rename(&copy, copy.with_extension(seed.to_string())).expect("it is there");
                wrong.push(format!("{told}: {why}"));
            }
        }
    }
    wrong
}

fn survive_replays(name: &str, file_system: FileSystem, replays: u64) {
    if !has_guests() {
        return;
    }
    let first = number_of("HARRIER_SEED", 1);
    let folder = disk_folder(name);
    let disk = Arc::new(MappedDisk::recorded(folder.root(), file_system, LOG_BYTES));
    let empty = File::options().read(true).write(true).open(disk.path()).expect("a disk");
    let replayed = folder.path("replayed");
    let mut replayed = CachedDisk::new(empty, torn_bytes(file_system)).copy(&replayed);
    let ledgers = record(&disk, first);
    let log = WriteLog::open(&disk.log_path());
    println!("{} entries: {}", log.len(), log.told());
    let seeds = first..first + number_of("HARRIER_REPLAYS", replays);
    let wrong = replay(&log, &mut replayed, disk.folder(), file_system, &ledgers.0, seeds);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A broker, a second one that writes its store anew for another number of shards, and a third one that does so once more.
#[test]
fn what_was_confirmed_is_there_at_each_entry_of_a_recorded_disk() {
    survive_replays("recorded", EXT4, REPLAYS);
}

#[test]
fn what_was_confirmed_is_there_at_each_entry_of_a_recorded_disk_with_xfs() {
    survive_replays("recorded-xfs", FileSystem::Xfs, REPLAYS_OF_XFS);
}
