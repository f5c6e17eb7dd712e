//! Looks at the queues of a broker that was started again, and at their dead letters together.

use super::PATIENCE;
use super::broker::TestBroker;
use super::letter_ledger::{DeadMessage, Departure, HomeMessage, LetterLedger, PATHS};
use super::letter_traffic::{end_delivery, publish_letter};
use super::verification::{VerificationError, is_missing};
use super::wall_clock::wall_clock_us;
use client::{Client, ClientChannel, ReceivedMessage};
use gauge::clock::{Deadline, pause};
use splitmix::SplitMix64;
use std::time::Duration;
use wire::{DeliveryTag, TableRef, ValueRef};

/// Connections that have a message delayed: on each shard at least one of them, of two shards and of five.
const DELAYING_CONNECTIONS: usize = 4;
const DELAYING_CONNECTIONS_MAX: usize = 10;

/// What was taken from the queues of a path, and is not acknowledged.
#[derive(Default)]
struct TakenMessages {
    home: Vec<(HomeMessage, DeliveryTag)>,
    dead: Vec<(DeadMessage, DeliveryTag)>,
}

/// Compares all paths with the ledger, and settles a part of what is there. It may end at any call when the broker does.
pub fn verify_letters(
    broker: &impl TestBroker,
    ledger: &mut LetterLedger,
    random: &mut SplitMix64,
) -> Result<(), VerificationError> {
    if !ledger.is_declared {
        return Ok(());
    }
    let begun_us = wall_clock_us();
    let (mut client, _) = broker.try_connect()?;
    let connections = if ledger.moves_shards { DELAYING_CONNECTIONS_MAX } else { DELAYING_CONNECTIONS };
    let mut delaying = Vec::new();
    for _ in 0..connections {
        delaying.push(broker.try_connect()?);
    }
    for (path, names) in PATHS.iter().enumerate() {
        let broken = |why: String| VerificationError::Broken(format!("{} and {}: {why}", names.home, names.dead));
        let channel = client.open_channel()?;
        let mut taken = TakenMessages::default();
        let probes = match names.departure {
            Departure::Delayed => {
                let mut probes = Vec::new();
                for (client, channel) in &mut delaying {
                    probes.push(publish_probe(client, *channel, path, ledger)?);
                }
                let probe = publish_probe(&mut client, channel, path, ledger)?;
                probes.push(probe);
                probes
            }
            departure => {
                let mut home = |client: &mut Client| take_home(client, channel, path, ledger, &mut taken);
                let found = home(&mut client);
                if is_missing(&found) {
                    return Err(broken("the queue is gone".to_owned()));
                }
                found?.map_err(broken)?;
                if departure.is_automatic() {
                    vec![pass_probe(&mut client, channel, path, ledger)?]
                } else {
                    Vec::new()
                }
            }
        };
        let found = take_dead(&mut client, channel, path, &probes, ledger, &mut taken);
        if is_missing(&found) {
            return Err(broken("the dead letter queue is gone".to_owned()));
        }
        found?.map_err(broken)?;
        let (home, home_tags): (Vec<_>, Vec<_>) = taken.home.into_iter().unzip();
        let (dead, dead_tags): (Vec<_>, Vec<_>) = taken.dead.into_iter().unzip();
        ledger.compare(path, &home, &dead, begun_us).map_err(broken)?;
        for (HomeMessage { number, .. }, tag) in home.iter().zip(home_tags) {
            if names.departure == Departure::Returned {
                end_delivery(&mut client, channel, (path, *number, tag), ledger, random)?;
            } else {
                client.nack(channel, tag, false, true)?;
            }
        }
        // Half of the letters, or all, are acknowledged.
        let acknowledged = dead.len() - dead.len() / 2 * random.below(2) as usize;
        for (DeadMessage { number, .. }, tag) in dead.iter().zip(dead_tags).take(acknowledged) {
            ledger.settle_letter(*number);
            client.ack(channel, tag, false)?;
        }
        client.close_channel(channel)?;
    }
    client.close()?;
    Ok(())
}

/// Publishes a transient message by which the end of what a path has is known.
fn publish_probe(
    client: &mut Client,
    channel: ClientChannel,
    path: usize,
    ledger: &mut LetterLedger,
) -> Result<u64, VerificationError> {
    let number = ledger.publish_probe(path);
    publish_letter(client, channel, path, (1, 1), &number.to_le_bytes())?;
    client.flush()?;
    Ok(number)
}

/// Has a probe follow the letters of everything that has left a queue: it is rejected there.
fn pass_probe(
    client: &mut Client,
    channel: ClientChannel,
    path: usize,
    ledger: &mut LetterLedger,
) -> Result<u64, VerificationError> {
    let number = publish_probe(client, channel, path, ledger)?;
    // A request of the same channel follows it. It may have expired by then, which is as good.
    if let Some(probe) = client.get(channel, PATHS[path].home, false)? {
        assert_eq!(probe.body(), number.to_le_bytes(), "everything else was taken");
        client.reject(channel, probe.delivery_tag, false)?;
        client.flush()?;
    }
    Ok(number)
}

/// Takes everything at home.
fn take_home(
    client: &mut Client,
    channel: ClientChannel,
    path: usize,
    ledger: &mut LetterLedger,
    taken: &mut TakenMessages,
) -> Result<Result<(), String>, client::ClientError> {
    while let Some(message) = client.get(channel, PATHS[path].home, false)? {
        let number = match ledger.number_of(path, message.body()) {
            Ok(number) => number,
            Err(why) => return Ok(Err(why)),
        };
        let headers = message.properties().headers();
        let returns = headers.and_then(|headers| headers.get("x-delivery-count")).map_or(0, |count| match count {
            ValueRef::I32(count) => u32::try_from(count).unwrap_or(u32::MAX),
            ValueRef::I64(count) => u32::try_from(count).unwrap_or(u32::MAX),
            _ => u32::MAX,
        });
        ledger.take(number);
        taken.home.push((HomeMessage { number, returns }, message.delivery_tag));
    }
    Ok(Ok(()))
}

/// Takes all letters of a path, until each probe has come, behind which no further ones come.
fn take_dead(
    client: &mut Client,
    channel: ClientChannel,
    path: usize,
    probes: &[u64],
    ledger: &LetterLedger,
    taken: &mut TakenMessages,
) -> Result<Result<(), String>, client::ClientError> {
    let deadline = Deadline::after(PATIENCE);
    let mut awaited = probes.to_vec();
    loop {
        let Some(message) = client.get(channel, PATHS[path].dead, false)? else {
            if awaited.is_empty() {
                return Ok(Ok(()));
            }
            if deadline.passed() {
                return Ok(Err("a probe does not come".to_owned()));
            }
            pause(Duration::from_millis(1));
            continue;
        };
        let found_us = wall_clock_us();
        let number = match ledger.number_of(path, message.body()) {
            Ok(number) => number,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(index) = awaited.iter().position(|probe| *probe == number) {
            awaited.swap_remove(index);
            client.ack(channel, message.delivery_tag, false)?;
            continue;
        }
        match death_of(path, &message) {
            Ok(reason) => taken.dead.push((DeadMessage { number, reason, found_us }, message.delivery_tag)),
            Err(why) => return Ok(Err(format!("message {number}: {why}"))),
        }
    }
}

/// The reason in the history of a dead letter, if it is one; the history must be that of one death, in its queue.
fn death_of(path: usize, message: &ReceivedMessage) -> Result<Option<String>, String> {
    let (home, departure) = (PATHS[path].home, PATHS[path].departure);
    let headers = message.properties().headers().unwrap_or_default();
    let Some(ValueRef::List(deaths)) = headers.get("x-death") else {
        let is_none = departure == Departure::Delayed;
        return if is_none { Ok(None) } else { Err("a letter without a history".to_owned()) };
    };
    let deaths: Vec<_> = deaths.iter().map_while(Result::ok).collect();
    let [ValueRef::Table(death)] = deaths[..] else { return Err(format!("a history of {} deaths", deaths.len())) };
    let text = |table: TableRef<'_>, name: &str| match table.get(name) {
        Some(ValueRef::LongStr(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => "(none)".to_owned(),
    };
    let reason = text(death, "reason");
    let keys = match death.get("routing-keys") {
        Some(ValueRef::List(keys)) => keys.iter().map_while(Result::ok).collect(),
        _ => Vec::new(),
    };
    let is_right = departure.reasons().contains(&&*reason)
        && text(death, "queue") == home
        && text(death, "exchange").is_empty()
        && matches!(death.get("count"), Some(ValueRef::I64(1)))
        && matches!(death.get("time"), Some(ValueRef::Timestamp(_)))
        && matches!(keys[..], [ValueRef::LongStr(key)] if key == home.as_bytes())
        && text(headers, "x-first-death-queue") == home
        && text(headers, "x-first-death-reason") == reason
        && text(headers, "x-first-death-exchange").is_empty();
    if is_right { Ok(Some(reason)) } else { Err(format!("a history that is wrong: {:?}", headers.to_table())) }
}
