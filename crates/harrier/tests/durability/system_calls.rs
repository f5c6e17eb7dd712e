//! A broker that is killed at each change to its files, or whose changes fail.

use super::broker::{StoredBroker, TestStateFolder};
use super::definition_traffic::{DefinitionTraffic, verify_definitions};
use super::fault_injector::{Fault, FaultyLife, TouchedCall};
use super::ledger::Ledger;
use super::traffic::Traffic;
use super::verification::{VerificationError, verify};
use super::{PATIENCE, check_store, number_of};
use client::{ClientError, QueueOptions};
use splitmix::SplitMix64;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// INTERNAL_ERROR
const INTERNAL_ERROR: u16 = 541;
/// A life without a fault ends after so many confirms.
const CONFIRMS: u64 = 300;

/// How a life has ended.
struct EndedLife {
    status: ExitStatus,
    log: String,
    /// Why the connection of a client ended that did nothing, and was open before the change that failed; unless the broker was
    /// told to end.
    bystander: Option<ClientError>,
    touched: Vec<TouchedCall>,
}

/// Starts a broker with a fault, compares it with the ledger, publishes and acknowledges until the broker ends, or has
/// confirmed enough.
fn live(
    folder: &TestStateFolder,
    life: &FaultyLife,
    ledger: &mut Ledger,
    random: &mut SplitMix64,
    round: u64,
) -> EndedLife {
    let broker = match StoredBroker::try_start_by(&life.launcher(folder), folder, &[]) {
        Ok(broker) => broker,
        Err((status, log)) => {
            // What is found at a start may leave before clients are served.
            ledger.letters.start();
            return EndedLife { status, log, bystander: None, touched: life.touched() };
        }
    };
    let start_log = broker.start_log.clone();
    let bystander = broker.try_connect();
    let is_early = life.touched().is_empty();
    let is_told = match meet(&broker, ledger, random, round) {
        Ok(()) => true,
        Err(VerificationError::Broken(why)) => panic!("round {round}: {why}"),
        Err(VerificationError::Client(error)) if life.touched().is_empty() => panic!("round {round}: {error}"),
        Err(VerificationError::Client(_)) => false,
    };
    if is_told {
        broker.tell_to_end();
    }
    // It answers the close, for which the broker waits.
    let bystander = bystander.map(|(mut client, _)| client.next_delivery(PATIENCE).expect_err("the broker ends"));
    let bystander = bystander.ok().filter(|_| !is_told && is_early);
    let (status, log) = broker.await_end();
    EndedLife { status, log: start_log + &log, bystander, touched: life.touched() }
}

fn meet(
    broker: &StoredBroker,
    ledger: &mut Ledger,
    random: &mut SplitMix64,
    round: u64,
) -> Result<(), VerificationError> {
    verify(broker, ledger, random)?;
    let mut traffic = Traffic::begin(broker, ledger, random, round)?;
    let ran = traffic.run_until(CONFIRMS);
    if ran.is_ok() {
        traffic.finish()?;
    } else {
        traffic.end();
    }
    Ok(ran?)
}

/// What a broker without faults finds after all of them.
fn verify_at_the_end(folder: &TestStateFolder, ledger: &mut Ledger) {
    check_store(folder);
    let broker = StoredBroker::start(folder, &[]);
    verify(&broker, ledger, &mut SplitMix64::new(0)).unwrap_or_else(|why| panic!("at the end: {why}"));
    broker.terminate();
}

/// The changes at which a broker is killed one after the other, in one of three ways, and the writes of segments, which are
/// most of them later. `HARRIER_KILLED_CALLS` is another number, in all three ways.
const KILLED_CALLS: u64 = 120;
/// Each life has so many writes of segments, and more.
const WRITES: u64 = 60;

type Way = fn(u64) -> Fault;
const CHANGES: [Way; 3] = [Fault::KillBefore, Fault::KillMiddle, Fault::KillAfter];
const SEGMENT_WRITES: [Way; 3] = [Fault::KillBeforeWrite, Fault::KillInWrite, Fault::KillAfterWrite];

fn kill_at_changes(name: &str, ways: [Way; 3], number_of_change: fn(u64) -> u64) {
    let folder = TestStateFolder::new(name);
    let mut ledger = Ledger::default();
    let mut random = SplitMix64::new(number_of("HARRIER_SEED", 1));
    let faults: Vec<Fault> = match number_of("HARRIER_KILLED_CALLS", 0) {
        0 => (0..KILLED_CALLS).map(|kill| ways[kill as usize % 3](number_of_change(kill))).collect(),
        calls => (0..calls).flat_map(|kill| ways.map(|way| way(number_of_change(kill)))).collect(),
    };
    let (mut killed, lives) = (0, faults.len());
    for (round, fault) in (1..).zip(faults) {
        let Some(life) = FaultyLife::new(&folder, fault) else { return };
        let EndedLife { status, log, touched, .. } = live(&folder, &life, &mut ledger, &mut random, round);
        println!("{round}: {fault:?}: {status}, {touched:?}");
        match &touched[..] {
            [] => assert!(status.success(), "{fault:?}: {status}: {log}"),
            [_] => assert_eq!(status.signal(), Some(9), "{fault:?}: {status}: {log}"),
            more => panic!("{fault:?} is one: {more:?}"),
        }
        killed += touched.len();
    }
    // In some lives there are fewer changes.
    assert!(killed * 2 >= lives, "{killed} kills in {lives} lives");
    verify_at_the_end(&folder, &mut ledger);
}

#[test]
fn what_was_confirmed_survives_a_kill_at_each_change_to_a_file() {
    kill_at_changes("killed-calls", CHANGES, |kill| 1 + kill);
}

#[test]
fn what_was_confirmed_survives_a_kill_at_each_write_of_a_segment() {
    kill_at_changes("killed-writes", SEGMENT_WRITES, |kill| 1 + kill * 7 % WRITES);
}

/// About as many as a life has that begins with a start and ends with changed configurations.
const RELOAD_WRITES: u64 = 12;

/// Users that a configuration takes away do not come back after `the configuration was reloaded`, nor do others change.
#[test]
fn a_configuration_that_was_reloaded_survives_a_kill_at_each_write() {
    let folder = TestStateFolder::new("killed-reloads");
    let (mut ledger, mut random) = (Ledger::default(), SplitMix64::new(number_of("HARRIER_SEED", 1)));
    let mut killed = 0;
    for number in 1..=RELOAD_WRITES {
        let Some(life) = FaultyLife::new(&folder, Fault::KillBeforeWrite(number)) else { return };
        let Ok(broker) = StoredBroker::try_start_by(&life.launcher(&folder), &folder, &[]) else {
            killed += 1;
            continue;
        };
        let mut reload = || -> Result<(), VerificationError> {
            verify_definitions(&broker, &mut ledger.definitions)?;
            let (mut client, channel) = broker.try_connect()?;
            let name = "kept.queue";
            client.declare_queue(channel, name, &QueueOptions { durable: true, ..QueueOptions::default() })?;
            let at = (&mut client, channel);
            DefinitionTraffic::begin(&broker, at, &mut ledger.definitions, &mut random, (number, name))?;
            Ok(())
        };
        match reload() {
            Err(VerificationError::Broken(why)) => panic!("write {number}: {why}"),
            Err(VerificationError::Client(error)) if life.touched().is_empty() => panic!("write {number}: {error}"),
            Err(VerificationError::Client(_)) => killed += 1,
            Ok(()) => broker.kill(),
        }
    }
    assert!(killed * 2 >= RELOAD_WRITES, "{killed} kills");
    let broker = StoredBroker::start(&folder, &[]);
    verify_definitions(&broker, &mut ledger.definitions).unwrap_or_else(|why| panic!("at the end: {why}"));
    broker.terminate();
}

/// Every how many changes one fails. `HARRIER_FAILED_CALLS=1` is each.
const FAILED_CALLS_STEP: u64 = 7;

/// Whether a broker that ended because a change failed said so as it must.
fn check_failed_end(ended: &EndedLife, error: &str) -> Result<(), &'static str> {
    let EndedLife { status, log, bystander, .. } = ended;
    if status.code() != Some(1) {
        return Err("its status is not 1");
    }
    if !log.contains(error) {
        return Err("it does not name the error");
    }
    if log.matches("\"level\":\"ERROR\"").count() > 1 {
        return Err("it names the error more than once");
    }
    match bystander {
        None | Some(ClientError::ConnectionClosed { code: INTERNAL_ERROR, .. }) => Ok(()),
        Some(_) => Err("its connections do not end with 541"),
    }
}

/// Whether a broker went on without a footer, and said so: the next start reads the segment. Footers that go with their segments
/// are none of these.
fn is_without_footer(ended: &EndedLife, error: &str) -> bool {
    let is_of_footers = |call: &TouchedCall| call.file.ends_with(".foot");
    let is_said = ended.log.contains("the next start takes longer") && ended.log.contains(error);
    ended.touched.iter().all(is_of_footers) && ended.status.success() && is_said
}

/// Lets every n-th change fail, each in a life of its own, until a life has fewer changes.
fn fail_changes(folder: &TestStateFolder, fault: fn(u64) -> Fault, mut check: impl FnMut(u64, &EndedLife)) {
    let mut ledger = Ledger::default();
    let mut random = SplitMix64::new(number_of("HARRIER_SEED", 1));
    let step = number_of("HARRIER_FAILED_CALLS", FAILED_CALLS_STEP);
    let mut round = 0;
    loop {
        let number = 1 + round * step;
        round += 1;
        let Some(life) = FaultyLife::new(folder, fault(number)) else { return };
        let ended = live(folder, &life, &mut ledger, &mut random, round);
        let EndedLife { status, log, bystander, touched } = &ended;
        println!("{round}: {status}, {touched:?}, {bystander:?}");
        if touched.is_empty() {
            assert!(status.success(), "change {number} and all before it: {status}: {log}");
            break;
        }
        check(number, &ended);
    }
    assert!(round > 5, "{round} changes were enough");
    verify_at_the_end(folder, &mut ledger);
}

#[test]
fn a_broker_whose_disk_fails_says_so_once_and_ends_and_what_was_confirmed_is_there() {
    let folder = TestStateFolder::new("failed-calls");
    fail_changes(&folder, Fault::InputOutput, |number, ended| {
        if is_without_footer(ended, "Input/output error") {
            return;
        }
        let checked = check_failed_end(ended, "Input/output error");
        let EndedLife { status, log, bystander, touched } = ended;
        checked.unwrap_or_else(|why| panic!("change {number}, {touched:?}: {why}: {status}, {bystander:?}: {log}"));
    });
}

#[test]
fn a_change_without_space_ends_the_broker_or_is_made_later_and_what_was_confirmed_is_there() {
    let folder = TestStateFolder::new("refused-calls");
    fail_changes(&folder, Fault::NoSpace, |number, ended| {
        let EndedLife { status, log, bystander, touched } = ended;
        if !status.success() {
            let checked = check_failed_end(ended, "No space left on device");
            checked.unwrap_or_else(|why| panic!("change {number}, {touched:?}: {why}: {status}, {bystander:?}: {log}"));
        }
    });
}

#[test]
fn writes_that_the_system_cuts_short_are_completed() {
    let folder = TestStateFolder::new("short-writes");
    let mut ledger = Ledger::default();
    let mut random = SplitMix64::new(number_of("HARRIER_SEED", 1));
    for round in 1..=3 {
        let Some(life) = FaultyLife::new(&folder, Fault::ShortWrites(1)) else { return };
        let ended = live(&folder, &life, &mut ledger, &mut random, round);
        assert!(ended.status.success(), "{}: {}", ended.status, ended.log);
        let is_of_a_log = |call: &TouchedCall| call.name == "pwrite" && call.file.ends_with(".seg");
        assert!(ended.touched.iter().any(is_of_a_log), "{:?}", ended.touched);
    }
    verify_at_the_end(&folder, &mut ledger);
}
