//! Flow control: publishers that never stop, and consumers that never read, or never acknowledge, or are not there.
//!
//! Enters: a broker with a small limit.  Leaves: whether its memory stayed below it, and what came of the messages.
//! Owns:   the ways in which nobody takes what is published.
//! Never:  lets a confirmed message be lost, doubled or out of order unnoticed.

use crate::peer::Peer;
use crate::program::Program;
use crate::publisher::Publisher;
use crate::report::{Report, mib};
use crate::taker::{Acks, Taker};
use crate::watch::Watch;
use crate::{Outcome, memory_arguments, now, pair, wait_for};
use std::fmt;
use std::time::Duration;
use wire::method::basic;
use wire::{ChannelNumber, DeliveryTag};

/// The broker's limit.
const LIMIT_BYTES: u64 = 256 << 20;
/// One queue's share of it in percent.
const SHARE_PERCENT: u8 = 50;
/// What the process may hold at most: a tenth above its limit.
const RESIDENT_BYTES_MAX: u64 = LIMIT_BYTES / 10 * 11;
/// Messages of the pair that goes on meanwhile.
const PAIR_MESSAGES: u64 = 200_000;
/// The longest wait for anything.
const MOST: Duration = Duration::from_secs(120);
/// How long a held publisher is watched: longer than it would live if heartbeats were expected of it.
const HELD: Duration = Duration::from_secs(3);
/// How long its socket must take nothing.
const SILENCE: Duration = Duration::from_millis(500);

/// Who does not take messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// Nobody consumes; then somebody does, with acknowledgements.
    Nobody,
    /// The same, and then the queue is purged.
    NobodyPurged,
    /// A consumer that does not read its socket; then it does.
    Deaf,
    /// A consumer that reads and does not acknowledge; then it does.
    Hoarder,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lack::Nobody => "nobody",
            Lack::NobodyPurged => "purged",
            Lack::Deaf => "deaf",
            Lack::Hoarder => "hoarder",
        })
    }
}

/// Every way, with small and with large bodies.
pub fn flow(shards: u16, report: &mut Report) -> Outcome<()> {
    for lack in [Lack::Nobody, Lack::NobodyPurged, Lack::Deaf, Lack::Hoarder] {
        for body_bytes in [64, 65_536] {
            let name = format!("flow-{lack}-{body_bytes}-on-{shards}");
            match one_queue(shards, lack, body_bytes, report, &name) {
                Ok(figures) => report.verdict(&name, true, &figures),
                Err(error) => report.verdict(&name, false, &error.to_string()),
            }
        }
    }
    Ok(())
}

/// More queues than the memory has room for, each within its share: the broker's own limit holds.
pub fn many(shards: u16, report: &mut Report) -> Outcome<()> {
    let name = format!("flow-many-queues-on-{shards}");
    let figures = many_queues(shards, report, &name)?;
    report.verdict(&name, true, &figures);
    Ok(())
}

/// One queue that nobody empties.
fn one_queue(shards: u16, lack: Lack, body_bytes: usize, report: &mut Report, name: &str) -> Outcome<String> {
    let program = Program::start(shards, &memory_arguments(LIMIT_BYTES, SHARE_PERCENT))?;
    let mut owner = Peer::with_channel(program.address, 0)?;
    owner.declare("q", false)?;
    let watch = Watch::start(&program);
    let mut deaf = None;
    let mut hoarding = None;
    match lack {
        Lack::Deaf => deaf = Some(Taker::start(program.address, "q", Acks::Automatic)?),
        Lack::Hoarder => hoarding = Some(Taker::start(program.address, "q", Acks::Never)?.read(0)),
        Lack::Nobody | Lack::NobodyPurged => {}
    }
    let publisher = Publisher::start(program.address, "q", body_bytes)?;
    publisher.wait_blocked(MOST)?;
    // What was delivered and is not acknowledged counts for the whole broker, and holds all publishers back.
    let beside = match lack {
        Lack::Hoarder => "none".to_owned(),
        _ => pair::run(&program.url(), "pair", PAIR_MESSAGES)?.to_string(),
    };
    // A consumer that has not read for a moment, and lets the queue fill its share, holds the publisher back as well, and
    // lets it go on: only with nothing left to take does the broker's own limit hold.
    wait_for("the publisher to be held for good", MOST, || {
        publisher.wait_silent(SILENCE, MOST)?;
        Ok(lack != Lack::Hoarder || owner.counts("q")?.0 == 0)
    })?;
    let held = publisher.sent_bytes();
    let began = now();
    wait_for("time to pass", HELD * 2, || Ok(began.elapsed() >= HELD))?;
    publisher.check()?;
    let crept = publisher.sent_bytes() - held;
    report.verdict(&format!("{name}-held"), crept == 0, &format!("{} taken, then {crept} bytes more", mib(held)));

    let began = now();
    let mut first = 0;
    if lack == Lack::NobodyPurged {
        first = u64::from(owner.purge("q")?);
    }
    let (published, unblocked) = if let Some(reading) = hoarding {
        let taken = reading.taken();
        let (mut peer, taken) = reading.finish(taken)?;
        peer.send(ChannelNumber(1), basic::Ack { delivery_tag: DeliveryTag(taken), multiple: true })?;
        publisher.wait_unblocked(MOST)?;
        let unblocked = began.elapsed();
        // What came to it after that is put back, in order, when it goes; one who came before would see the gap.
        drop(peer);
        wait_for("the consumer to be gone", MOST, || Ok(owner.counts("q")?.1 == 0))?;
        let reading = Taker::start(program.address, "q", Acks::Each(1000))?.read(taken);
        let published = publisher.finish(MOST)?;
        reading.finish(published)?;
        (published, unblocked)
    } else {
        let reading = match deaf {
            Some(taker) => taker.read(first),
            None => Taker::start(program.address, "q", Acks::Each(100))?.read(first),
        };
        publisher.wait_unblocked(MOST)?;
        let unblocked = began.elapsed();
        let published = publisher.finish(MOST)?;
        reading.finish(published)?;
        (published, unblocked)
    };
    // All acknowledgements are carried out before this is answered, or soon after on another shard.
    wait_for("the queue to be empty", MOST, || Ok(owner.declare("q", true)? == 0))?;
    publisher.close()?;
    let most = watch.finish()?;
    memory(most, report, name);
    program.stop()?;
    Ok(format!(
        "{published} confirmed messages taken in order; unblocked after {} ms; a pair beside it: {beside}",
        unblocked.as_millis()
    ))
}

fn many_queues(shards: u16, report: &mut Report, name: &str) -> Outcome<String> {
    const QUEUES: usize = 4;
    let program = Program::start(shards, &memory_arguments(LIMIT_BYTES, SHARE_PERCENT))?;
    let mut owners = Vec::new();
    let mut publishers = Vec::new();
    let watch = Watch::start(&program);
    for number in 0..QUEUES {
        // Each declares its own: on several shards they spread.
        let mut owner = Peer::with_channel(program.address, 0)?;
        owner.declare(&format!("q{number}"), false)?;
        owners.push(owner);
    }
    for number in 0..QUEUES {
        let body_bytes = [64, 1024, 16_384, 65_536][number % 4];
        publishers.push(Publisher::start(program.address, &format!("q{number}"), body_bytes)?);
    }
    for publisher in &publishers {
        publisher.wait_blocked(MOST)?;
    }
    for publisher in &publishers {
        publisher.wait_silent(SILENCE, MOST)?;
    }
    let mut readings = Vec::new();
    for number in 0..QUEUES {
        readings.push(Taker::start(program.address, &format!("q{number}"), Acks::Each(100))?.read(0));
    }
    for publisher in &publishers {
        publisher.wait_unblocked(MOST)?;
    }
    let mut all = 0;
    for (publisher, reading) in publishers.iter().zip(readings) {
        let published = publisher.finish(MOST)?;
        reading.finish(published)?;
        all += published;
    }
    for publisher in publishers {
        publisher.close()?;
    }
    let most = watch.finish()?;
    memory(most, report, name);
    program.stop()?;
    Ok(format!("{all} confirmed messages of {QUEUES} queues taken in order"))
}

/// Holds the most memory that was seen against what is allowed.
fn memory(most: u64, report: &mut Report, name: &str) {
    report.verdict(
        &format!("{name}-memory"),
        most <= RESIDENT_BYTES_MAX,
        &format!("{} at most, {} are allowed", mib(most), mib(RESIDENT_BYTES_MAX)),
    );
}
