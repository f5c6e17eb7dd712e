//! Messages that are rejected, expire, find no capacity, are returned too often or are delayed, until the broker is killed.

use super::broker::TestBroker;
use super::ledger::body;
use super::letter_ledger::{DELAYING, Departure, LENGTH_MAX, LetterLedger, OpenLetter, PATHS, RETURNS_MAX, TTL_MS};
use super::wall_clock::wall_clock_us;
use client::{Client, ClientChannel, ClientError, ExchangeOptions, Publish, QueueOptions};
use splitmix::SplitMix64;
use std::collections::VecDeque;
use wire::{DeliveryTag, Properties, RawProperties, Table, Value};

/// Most publishes without a confirm.
const WINDOW: u64 = 40;
/// Messages that are published, and taken, just before a kill.
const UNDER_WAY: u64 = 12;
/// From what is long over when the broker ends to what outlives several lives.
const DELAYS_MS: [u64; 5] = [1, 40, 400, 1_500, 6_000];

fn argument(table: Table, name: &str, value: Value) -> Table {
    table.with(name, value).expect("a short name")
}

/// Publishes to a path.
pub fn publish_letter(
    client: &mut Client,
    channel: ClientChannel,
    path: usize,
    (delivery_mode, delay_ms): (u8, u64),
    bytes: &[u8],
) -> Result<u64, ClientError> {
    let path = &PATHS[path];
    let is_delayed = path.departure == Departure::Delayed;
    let headers = is_delayed.then(|| argument(Table::new(), "x-delay", Value::I64(delay_ms as i64)));
    let properties = Properties { delivery_mode: Some(delivery_mode), headers, ..Properties::default() }.to_bytes();
    let to = if is_delayed { (DELAYING, path.dead) } else { ("", path.home) };
    let to = Publish { mandatory: true, properties: RawProperties::new(&properties), ..Publish::to(to.0, to.1) };
    client.publish(channel, &to, bytes)
}

pub struct LetterTraffic {
    client: Client,
    channel: ClientChannel,
    open: VecDeque<(u64, OpenLetter)>,
    /// When a request was sent that the broker has answered since.
    answered_us: u64,
}

impl LetterTraffic {
    /// Declares all paths: what is far by a connection of its own, which is on another shard than the first one, as each new
    /// connection is on the shard that has the fewest.
    pub fn begin(broker: &impl TestBroker, ledger: &mut LetterLedger) -> Result<Self, ClientError> {
        let answered_us = wall_clock_us();
        let (mut client, channel) = broker.try_connect()?;
        let (mut far_client, far_channel) = broker.try_connect()?;
        client.confirm_select(channel)?;
        let arguments = argument(Table::new(), "x-delayed-type", Value::text("direct"));
        let delaying = ExchangeOptions { durable: true, arguments, ..ExchangeOptions::default() };
        client.declare_exchange(channel, DELAYING, "x-delayed-message", &delaying)?;
        for path in &PATHS {
            let dead = QueueOptions { durable: true, ..QueueOptions::default() };
            if path.is_near {
                client.declare_queue(channel, path.dead, &dead)?;
            } else {
                far_client.declare_queue(far_channel, path.dead, &dead)?;
            }
            if path.departure == Departure::Delayed {
                client.bind_queue(channel, path.dead, DELAYING, path.dead, &Table::new())?;
                continue;
            }
            let arguments = argument(Table::new(), "x-dead-letter-exchange", Value::text(""));
            let arguments = argument(arguments, "x-dead-letter-routing-key", Value::text(path.dead));
            let arguments = match path.departure {
                Departure::Expired => argument(arguments, "x-message-ttl", Value::I64(TTL_MS as i64)),
                Departure::Dropped => argument(arguments, "x-max-length", Value::I64(LENGTH_MAX as i64)),
                Departure::Returned => {
                    let counted = argument(arguments, "x-queue-type", Value::text("quorum"));
                    argument(counted, "x-delivery-limit", Value::I64(i64::from(RETURNS_MAX)))
                }
                Departure::Rejected | Departure::Delayed => arguments,
            };
            let home = QueueOptions { durable: true, arguments, ..QueueOptions::default() };
            client.declare_queue(channel, path.home, &home)?;
        }
        ledger.is_declared = true;
        far_client.close()?;
        Ok(LetterTraffic { client, channel, open: VecDeque::new(), answered_us })
    }

    /// Publishes some messages, and takes some.
    pub fn step(&mut self, ledger: &mut LetterLedger, random: &mut SplitMix64) -> Result<(), ClientError> {
        self.publish(ledger, random)?;
        if self.client.outstanding(self.channel) >= WINDOW {
            self.client.wait_confirms(self.channel, WINDOW / 2)?;
        }
        if random.one_in(2) {
            self.take(ledger, random)?;
        }
        self.note_confirms(ledger);
        self.client.flush()
    }

    fn publish(&mut self, ledger: &mut LetterLedger, random: &mut SplitMix64) -> Result<(), ClientError> {
        let path = random.below(PATHS.len() as u64) as usize;
        let bytes = if random.one_in(30) { 70_000 } else { random.below(300) as usize };
        let delay_ms = DELAYS_MS[random.below(DELAYS_MS.len() as u64) as usize];
        let open = ledger.publish(path, bytes, delay_ms, self.answered_us);
        let body = body(open.number(), bytes);
        let tag = publish_letter(&mut self.client, self.channel, path, (2, delay_ms), &body)?;
        self.open.push_back((tag, open));
        Ok(())
    }

    /// Takes a message, and rejects, returns or acknowledges it.
    fn take(&mut self, ledger: &mut LetterLedger, random: &mut SplitMix64) -> Result<(), ClientError> {
        let path = loop {
            let path = random.below(PATHS.len() as u64) as usize;
            if matches!(PATHS[path].departure, Departure::Rejected | Departure::Returned) {
                break path;
            }
        };
        let begun_us = wall_clock_us();
        let message = self.client.get(self.channel, PATHS[path].home, false)?;
        self.answered_us = begun_us;
        let Some(message) = message else { return Ok(()) };
        let number = ledger.number_of(path, message.body()).expect("what was published");
        ledger.take(number);
        end_delivery(&mut self.client, self.channel, (path, number, message.delivery_tag), ledger, random)
    }

    /// Lets as much as possible be under way.
    pub fn leave_under_way(&mut self, ledger: &mut LetterLedger, random: &mut SplitMix64) -> Result<(), ClientError> {
        for _ in 0..UNDER_WAY {
            self.publish(ledger, random)?;
            self.take(ledger, random)?;
        }
        self.client.flush()
    }

    fn note_confirms(&mut self, ledger: &mut LetterLedger) {
        let confirmed = self.client.confirmed_up_to(self.channel);
        let now_us = wall_clock_us();
        while let Some((_, publish)) = self.open.pop_front_if(|(tag, _)| *tag <= confirmed) {
            ledger.confirm(&publish, now_us);
        }
    }

    /// Waits until everything is confirmed.
    pub fn finish(mut self, ledger: &mut LetterLedger) -> Result<(), ClientError> {
        let refused = self.client.wait_confirms(self.channel, 0)?;
        assert_eq!(refused, 0, "nothing is refused");
        self.note_confirms(ledger);
        Ok(())
    }

    /// The broker has ended: what it had confirmed before counts.
    pub fn end(mut self, ledger: &mut LetterLedger) {
        // The connection ends behind the last confirm.
        let ended = self.client.wait_confirms(self.channel, 0);
        assert!(ended.is_err() || self.open.len() as u64 <= WINDOW + UNDER_WAY, "the broker has ended");
        self.note_confirms(ledger);
        let refused = self.client.take_refused(self.channel).unwrap_or_default();
        assert!(refused.is_empty(), "nothing is refused: {refused:?}");
        assert_eq!(self.client.returned_count(), 0, "each key is bound");
    }
}

/// Rejects, returns or acknowledges a message that was taken at home.
pub fn end_delivery(
    client: &mut Client,
    channel: ClientChannel,
    (path, number, tag): (usize, u64, DeliveryTag),
    ledger: &mut LetterLedger,
    random: &mut SplitMix64,
) -> Result<(), ClientError> {
    let is_counted = PATHS[path].departure == Departure::Returned;
    match random.below(10) {
        0 => {
            ledger.settle(number);
            client.ack(channel, tag, false)
        }
        1 => {
            ledger.give_back(number);
            client.nack(channel, tag, false, true)
        }
        2..7 if is_counted => {
            ledger.give_back(number);
            client.nack(channel, tag, false, true)
        }
        _ => {
            ledger.reject(number);
            client.reject(channel, tag, false)
        }
    }
}
