//! Copies of a state folder, made while the broker works.

use super::broker::{StoredBroker, TestStateFolder, harrier};
use super::check_store;
use super::ledger::Ledger;
use super::traffic::Traffic;
use super::verification::verify;
use client::{Publish, QueueOptions};
use splitmix::SplitMix64;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use wire::{Properties, RawProperties};

/// Copies that are made while one broker works.
const BACKUPS: u64 = 4;

fn back_up(broker: &StoredBroker, to: &TestStateFolder) -> std::process::Output {
    let url = format!("--url={}", broker.url());
    harrier().args(["store", "backup", &url]).arg(to.path("")).output().expect("it runs")
}

#[test]
fn a_backup_has_what_was_confirmed_before_and_goes_on_by_itself() {
    let folder = TestStateFolder::new("backed-up");
    let mut ledger = Ledger::default();
    let mut random = SplitMix64::new(7);
    let broker = StoredBroker::start(&folder, &[]);
    verify(&broker, &mut ledger, &mut random).unwrap_or_else(|why| panic!("{why}"));
    let mut traffic = Traffic::begin(&broker, &mut ledger, &mut random, 0).expect("a broker that runs");
    let mut confirms = 0;
    for number in 0..BACKUPS {
        // Between two of them segments are filled, and given back.
        confirms += 1_000;
        traffic.run_until(confirms).expect("a broker that runs");
        let backup = TestStateFolder::new(&format!("backup-{number}"));
        let made = back_up(&broker, &backup);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        println!("{}", String::from_utf8_lossy(&made.stdout).trim_end());
        let mut ledger = traffic.ledger().clone();
        confirms += 500;
        traffic.run_until(confirms).expect("a broker that runs");
        check_store(&backup);
        let copy = StoredBroker::start(&backup, &[]);
        verify(&copy, &mut ledger, &mut SplitMix64::new(number)).unwrap_or_else(|why| panic!("{number}: {why}"));
        copy.terminate();
    }
    traffic.kill_at_a_commit(broker);
    traffic.end();
    // What was linked is still its own.
    check_store(&folder);
    let broker = StoredBroker::start(&folder, &[]);
    verify(&broker, &mut ledger, &mut random).unwrap_or_else(|why| panic!("at the end: {why}"));
    broker.terminate();
}

#[test]
fn a_backup_that_cannot_be_made_is_told_and_leaves_nothing() {
    let folder = TestStateFolder::new("not-backed-up");
    let broker = StoredBroker::start(&folder, &[]);
    // There is something to link as soon as this is answered.
    let (mut client, channel) = broker.connect();
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.declare_queue(channel, "kept", &durable).expect("a queue");
    client.confirm_select(channel).expect("confirms");
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", "kept") };
    client.publish(channel, &to, b"kept").expect("published");
    client.wait_confirms(channel, 0).expect("confirmed");
    client.close().expect("closed");
    let check = |to: &TestStateFolder, expect: &str| {
        let refused = back_up(&broker, to);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), text.contains(expect)), (Some(1), true), "{text}");
    };
    check(&folder, "cannot be made: File exists");
    // The file system of memory is another one than the state folder's.
    let memory = Path::new("/dev/shm").join(format!("harrier-backup-{}", std::process::id()));
    if std::env::temp_dir().starts_with("/dev/shm") || !memory.parent().is_some_and(|folder| folder.is_dir()) {
        println!("SKIPPED: backups on another file system: there is none beside the state folder's");
    } else {
        let to = ManuallyDrop::new(TestStateFolder::at(memory.clone()));
        check(&to, "a backup is made on the file system of the state folder");
        assert!(!memory.exists(), "a part of a backup is none");
    }
    broker.terminate();
    let none = ManuallyDrop::new(TestStateFolder::at(PathBuf::from("none")));
    let broker = StoredBroker::start(&none, &[]);
    let to = ManuallyDrop::new(TestStateFolder::new("of-nothing"));
    let refused = back_up(&broker, &to);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("this broker has no store"), "{refused:?}");
    broker.kill();
}
