//! A disk of the kernel's device mapper that fails: with its target `flakey` writes fail or are lost, with `error` reads fail.

use super::broker::{StoredBroker, TestBroker, TestStateFolder, harrier};
use super::file_system::MountedCopy;
use super::guest_broker::{GuestBroker, GuestDisk};
use super::mapped_disk::{MappedDisk, MappedFault, WRITTEN_BEHIND};
use super::numbered_messages::{consume, is_not_found, number_of, publish};
use super::traffic::Traffic;
use super::{EXT4, disk_folder, guest_ledger, has_guests, state_folder, verify_copy};
use client::QueueOptions;
use splitmix::SplitMix64;
use std::sync::Arc;

/// Where the segments of messages are in the guest.
const SEGMENTS: &str = "/disk/state/log/*.seg";
/// Before something fails.
const CONFIRMS: u64 = 100;
/// A broker that goes on for so long has not noticed that writes fail in every other second.
const CONFIRMS_MAX: u64 = 5_000;
/// A broker that has little memory, and reads nothing before it is wanted.
const LITTLE_MEMORY: &str = "--memory-limit 32MiB --store-scrub-interval-s 0";
/// Messages of which a shard keeps a part in memory.
const MESSAGES: u32 = 1_600;

fn mapped_disk(name: &str, options: &'static str) -> (Arc<MappedDisk>, TestStateFolder) {
    let folder = disk_folder(name);
    (Arc::new(MappedDisk::new(folder.root(), EXT4, options)), folder)
}

/// The broker ends because its disk has failed, and tells it once.
fn assert_told_once(broker: GuestBroker) {
    let (status, log) = broker.wait();
    assert_eq!(status.code(), Some(1), "{log}");
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("\"level\":\"ERROR\"")).collect();
    assert!(matches!(*errors, [error] if error.contains("/disk/state/")), "one, which names the file: {log}");
    println!("{}", errors[0]);
}

/// Whether a start is refused with the place of the damage.
fn names_damage(log: &str) -> bool {
    log.contains("segment ") && log.contains(" is damaged at block ")
}

#[test]
fn writes_that_fail_in_the_kernel_end_the_broker_and_nothing_is_lost() {
    if !has_guests() {
        return;
    }
    let (disk, _folder) = mapped_disk("write-errors", "");
    let (mut ledger, mut random) = (guest_ledger(), SplitMix64::new(1));
    let broker = GuestBroker::start(&disk);
    let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, 0).expect("a broker that runs");
    traffic.run_until(CONFIRMS).expect("a broker that runs");
    disk.map(&disk.whole(), MappedFault::WriteErrors);
    let commit = traffic.fail_at_a_commit();
    assert!(commit.contains("541"), "{commit}");
    assert_told_once(broker);
    println!("{}", traffic.end());
    verify_copy(&disk.path(), EXT4, ledger, &mut random).unwrap_or_else(|why| panic!("after the error: {why}"));
}

/// Whoever tried again would succeed. What the first try has left on the disk is not known then.
#[test]
fn an_error_that_passes_ends_the_broker_as_well() {
    if !has_guests() {
        return;
    }
    let (disk, _folder) = mapped_disk("passing-errors", "");
    let (mut ledger, mut random) = (guest_ledger(), SplitMix64::new(2));
    let broker = GuestBroker::start(&disk);
    let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, 0).expect("a broker that runs");
    traffic.run_until(CONFIRMS).expect("a broker that runs");
    // The file system has no errors, and goes on.
    disk.map(&disk.extents(SEGMENTS), MappedFault::WriteErrorsEveryOtherSecond);
    let error = traffic.run_until(CONFIRMS_MAX).expect_err("it ends");
    println!("{error}");
    assert_told_once(broker);
    println!("{}", traffic.end());
    let mounted = MountedCopy::new(&disk.path(), EXT4).expect("a file system");
    assert!(mounted.path().join(WRITTEN_BEHIND).exists(), "the disk takes writes again");
    drop(mounted);
    verify_copy(&disk.path(), EXT4, ledger, &mut random).unwrap_or_else(|why| panic!("after the error: {why}"));
}

/// What the disk has lost since a moment nobody can know: it looks as if nothing had been written. All that is older is there.
#[test]
fn a_disk_that_loses_all_writes_until_its_power_fails_has_what_it_had_before() {
    if !has_guests() {
        return;
    }
    let (disk, _folder) = mapped_disk("lost-writes", "");
    let (mut ledger, mut random) = (guest_ledger(), SplitMix64::new(3));
    let broker = GuestBroker::start(&disk);
    let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, 0).expect("a broker that runs");
    traffic.run_until(CONFIRMS).expect("a broker that runs");
    let before = traffic.ledger().clone();
    disk.map(&disk.whole(), MappedFault::LosesWrites);
    traffic.run_until(2 * CONFIRMS).expect("it cannot know");
    traffic.kill_at_a_commit(broker);
    println!("{}", traffic.end());
    let copy = disk.folder().join("copy");
    std::fs::copy(disk.path(), &copy).expect("space for a copy");
    let lost = verify_copy(&copy, EXT4, ledger.clone(), &mut random).expect_err("writes were lost");
    assert!(lost.contains("were confirmed and are lost"), "{lost}");
    let ledger = ledger.since(&before);
    verify_copy(&disk.path(), EXT4, ledger, &mut random).unwrap_or_else(|why| panic!("what was before: {why}"));
}

#[test]
fn a_disk_that_lost_writes_and_goes_on_is_found_to_be_damaged() {
    if !has_guests() {
        return;
    }
    let (disk, _folder) = mapped_disk("lost-between", "");
    let (mut ledger, mut random) = (guest_ledger(), SplitMix64::new(4));
    let broker = GuestBroker::start(&disk);
    let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, 0).expect("a broker that runs");
    traffic.run_until(CONFIRMS).expect("a broker that runs");
    disk.map(&disk.extents(SEGMENTS), MappedFault::LosesWrites);
    traffic.run_until(2 * CONFIRMS).expect("it cannot know");
    disk.heal();
    traffic.run_until(3 * CONFIRMS).expect("it cannot know");
    traffic.kill_at_a_commit(broker);
    println!("{}", traffic.end());
    let mounted = MountedCopy::new(&disk.path(), EXT4).expect("a file system");
    let folder = state_folder(&mounted);
    let check = harrier().args(["store", "check"]).arg(folder.root()).output().expect("it runs");
    let told = String::from_utf8_lossy(&check.stderr).into_owned() + &String::from_utf8_lossy(&check.stdout);
    assert!(!check.status.success() && names_damage(&told), "{told}");
    let (status, log) = StoredBroker::try_start(&folder, &[]).err().expect("the damage is noticed");
    assert!(status.code() == Some(1) && names_damage(&log), "{status}: {log}");
    println!("{}", log.lines().find(|line| names_damage(line)).unwrap_or_default());
}

#[test]
fn reads_that_fail_close_a_queue_and_refuse_a_start_with_the_place() {
    if !has_guests() {
        return;
    }
    let (disk, _folder) = mapped_disk("read-errors", LITTLE_MEMORY);
    let mut broker = GuestBroker::start(&disk);
    let (mut client, channel) = broker.try_connect().expect("a broker that runs");
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.confirm_select(channel).expect("confirms");
    for (queue, messages) in [("damaged", MESSAGES), ("healthy", 0)] {
        client.declare_queue(channel, queue, &durable).expect("a queue");
        assert_eq!(publish(&mut client, channel, queue, messages), 0);
    }
    // The log that has most of them: its segment in the middle is on pages.
    let segments = disk.run(&format!("ls {SEGMENTS}"));
    let of_log = |log: &str| segments.iter().filter(|path| path.contains(&format!("/{log}-"))).collect::<Vec<_>>();
    let segments = [of_log("00"), of_log("01")].into_iter().max_by_key(Vec::len).expect("two logs");
    let unreadable = segments[segments.len() / 2];
    disk.map(&disk.extents(unreadable), MappedFault::Errors);

    let (taken, is_cancelled) = consume(&mut client, "damaged", MESSAGES);
    assert!(is_cancelled && taken > 0 && taken < MESSAGES, "{taken} messages; {unreadable} of {segments:?}");
    assert_eq!(publish(&mut client, channel, "damaged", 3), 3, "it is closed");
    let other = client.open_channel().expect("a channel");
    assert!(is_not_found(client.get(other, "damaged", true)));
    assert_eq!(publish(&mut client, channel, "healthy", 1), 0);
    assert_eq!(consume(&mut client, "healthy", 1), (1, false));
    client.close().expect("closed");

    disk.kill_broker(Some(2));
    assert!(!broker.await_ready(), "it cannot read all that is alive");
    let (status, log) = broker.wait_with_log();
    let closed = log.lines().find(|line| line.contains("a queue is closed")).expect("it is logged");
    assert!(names_damage(closed) && closed.contains("\"queue\":\"damaged\""), "{closed}");
    assert_eq!(status.code(), Some(1), "{log}");
    let refused = log.lines().last().expect("it says why");
    assert!(refused.contains(unreadable.as_str()), "it names the file: {log}");
    println!("{closed}\n{refused}");

    // The disk reads again, and nothing is missing.
    let mounted = MountedCopy::new(&disk.path(), EXT4).expect("a file system");
    let folder = state_folder(&mounted);
    let broker = StoredBroker::start(&folder, &[]);
    let (mut client, channel) = broker.connect();
    let mut there = Vec::new();
    while let Some(message) = client.get(channel, "damaged", true).expect("it is open") {
        there.push(number_of(message.body()));
    }
    // Acknowledgements in the last moment may be lost.
    let begun = there.first().copied().expect("there are some");
    assert!(begun <= taken && there == (begun..MESSAGES).collect::<Vec<_>>(), "{begun} of {taken}: {there:?}");
    client.close().expect("closed");
    broker.terminate();
}
