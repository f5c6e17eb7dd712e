//! The pair: a publisher and a consumer who go on beside whatever else happens.
//!
//! Enters: a URL, a queue's name, how many messages.  Leaves: how fast they went.
//! Owns:   a thread for the publisher.
//! Never:  lets a message be lost, doubled or out of order unnoticed.

use crate::Outcome;
use client::{Client, ConsumeOptions, Publish, QueueOptions};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// How long the consumer waits for the next message.
const PATIENCE: Duration = Duration::from_secs(20);
/// Round trips measured.
const ROUNDS: usize = 1_000;
const BODY_BYTES: usize = 64;

/// How a pair fared.
pub struct Pace {
    /// Messages a second.
    pub rate: f64,
    /// Half of the round trips took no longer.
    pub round_trip_p50: Duration,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} messages/s, round trip p50 {} us", self.rate, self.round_trip_p50.as_micros())
    }
}

/// The body of message `number`.
pub fn body(number: u64, bytes: &mut [u8]) {
    bytes[..8].copy_from_slice(&number.to_be_bytes());
}

/// The number in a body.
pub fn number(body: &[u8]) -> Outcome<u64> {
    Ok(u64::from_be_bytes(*body.first_chunk().ok_or("a body without its number")?))
}

/// Sends messages through a queue of their own and takes them all, then makes round trips.
pub fn run(url: &str, queue: &str, messages: u64) -> Outcome<Pace> {
    let mut consumer = Client::connect(url)?;
    let channel = consumer.open_channel()?;
    consumer.declare_queue(channel, queue, &QueueOptions { auto_delete: true, ..QueueOptions::default() })?;
    consumer.consume(channel, queue, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
    let (to, at) = (queue.to_owned(), url.to_owned());
    let began = crate::now();
    let sending = thread::spawn(move || -> Result<(), client::ClientError> {
        let mut publisher = Client::connect(&at)?;
        let channel = publisher.open_channel()?;
        let mut bytes = [0; BODY_BYTES];
        for number in 0..messages {
            body(number, &mut bytes);
            publisher.publish(channel, &Publish::to("", &to), &bytes)?;
        }
        publisher.close()
    });
    let taken = take(&mut consumer, 0, messages);
    let seconds = began.elapsed().as_secs_f64();
    sending.join().map_err(|_| "the publisher has panicked")??;
    taken?;
    let mut publisher = Client::connect(url)?;
    let publishing = publisher.open_channel()?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = crate::now();
        publisher.publish(publishing, &Publish::to("", queue), &[0; BODY_BYTES])?;
        publisher.flush()?;
        consumer.next_delivery(PATIENCE)?.ok_or("a message of the pair did not arrive")?;
        rounds.push(start.elapsed());
    }
    rounds.sort();
    consumer.close()?;
    publisher.close()?;
    Ok(Pace { rate: messages as f64 / seconds, round_trip_p50: rounds[ROUNDS / 2] })
}

/// Takes the messages numbered from `first`, so many of them, in order and each once.
pub fn take(consumer: &mut Client, first: u64, count: u64) -> Outcome<()> {
    let mut next = first;
    let mut wrong = None;
    let mut last: Instant = crate::now();
    while next < first + count && wrong.is_none() {
        let came = consumer.dispatch(Duration::from_millis(500), |delivery, _| {
            match number(delivery.body()) {
                Ok(number) if number == next => next += 1,
                Ok(number) => {
                    wrong.get_or_insert(format!("message {number} came where {next} was due"));
                }
                Err(error) => {
                    wrong.get_or_insert(error.to_string());
                }
            }
            Ok(())
        })?;
        if came.deliveries > 0 {
            last = crate::now();
        } else if last.elapsed() > PATIENCE {
            return Err(format!("nothing came after {} of {count} messages", next - first).into());
        }
    }
    wrong.map_or(Ok(()), |wrong| Err(wrong.into()))
}
