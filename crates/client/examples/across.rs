//! Messages from one broker to another: `across PUBLISH_URL CONSUME_URL EXCHANGE MESSAGES BYTES`, where the exchange is
//! federated. One publisher with confirms, one consumer with its own queue; ends when all have come, with what it took.

use std::time::{Duration, Instant};

use client::{Client, ClientError, ConsumeOptions, Publish, QueueOptions, Table};

/// Publishes that are not confirmed, at most.
const OUTSTANDING_MAX: u64 = 2000;
/// How long everything may take.
const PATIENCE: Duration = Duration::from_secs(300);

#[expect(clippy::disallowed_methods, reason = "a program that measures time")]
fn main() -> Result<(), ClientError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, exchange, messages, bytes] = &words[..] else {
        eprintln!("usage: across PUBLISH_URL CONSUME_URL EXCHANGE MESSAGES BYTES");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (messages, bytes) = (number(messages), number(bytes) as usize);
    let mut consumer = Client::connect(to)?;
    let channel = consumer.open_channel()?;
    let queue = consumer.declare_queue(channel, "", &QueueOptions { exclusive: true, ..QueueOptions::default() })?.name;
    consumer.bind_queue(channel, &queue, exchange, "", &Table::new())?;
    consumer.consume(channel, &queue, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
    let mut publisher = Client::connect(from)?;
    let out = publisher.open_channel()?;
    publisher.confirm_select(out)?;
    // Until the binding has arrived at the source, what is published there comes to nobody.
    let began = Instant::now();
    loop {
        publisher.publish(out, &Publish::to(exchange, ""), b"?")?;
        publisher.wait_confirms(out, 0)?;
        if consumer.next_delivery(Duration::from_millis(100))?.is_some() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "nothing comes across");
    }
    let body = vec![b'x'; bytes];
    let consuming = messages;
    let start = Instant::now();
    let publishing = std::thread::spawn({
        let (from, exchange) = (from.clone(), exchange.clone());
        move || {
            let mut publisher = Client::connect(&from)?;
            let out = publisher.open_channel()?;
            publisher.confirm_select(out)?;
            for _ in 0..messages {
                publisher.publish(out, &Publish::to(&exchange, ""), &body)?;
                publisher.wait_confirms(out, OUTSTANDING_MAX)?;
            }
            publisher.wait_confirms(out, 0)?;
            publisher.close()
        }
    });
    let mut count = 0;
    while count < consuming {
        let mut came = 0;
        consumer.dispatch(Duration::from_secs(30), |delivery, _| {
            came += u64::from(delivery.body() != b"?" || bytes == 1);
            Ok(())
        })?;
        count += came;
        assert!(start.elapsed() < PATIENCE, "{count} of {consuming} came");
    }
    println!("{:.3}", start.elapsed().as_secs_f64());
    publishing.join().expect("the publisher's thread ends")?;
    publisher.close()?;
    consumer.close()
}
