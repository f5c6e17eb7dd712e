//! How fast one thread publishes and another consumes: `rate [URL] [MESSAGES] [BYTES]`. Uses automatic
//! acknowledgements and nothing else; `harrier bench` measures with care.

use std::time::{Duration, Instant};

use client::{Client, ClientError, ConsumeOptions, Publish, QueueOptions};

#[expect(clippy::disallowed_methods, reason = "a program that measures time")]
fn main() -> Result<(), ClientError> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2F".to_owned());
    let mut number = |usual: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (messages, bytes) = (number(200_000), number(64) as usize);

    let mut consumer = Client::connect(&url)?;
    let channel = consumer.open_channel()?;
    let queue =
        consumer.declare_queue(channel, "", &QueueOptions { auto_delete: true, ..QueueOptions::default() })?.name;
    consumer.consume(channel, &queue, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
    let publisher = std::thread::spawn(move || {
        let mut publisher = Client::connect(&url)?;
        let channel = publisher.open_channel()?;
        let body = vec![b'x'; bytes];
        let start = Instant::now();
        for _ in 0..messages {
            publisher.publish(channel, &Publish::to("", &queue), &body)?;
        }
        publisher.flush()?;
        println!("published {:.0}/s", messages as f64 / start.elapsed().as_secs_f64());
        publisher.close()
    });
    let start = Instant::now();
    let mut count = 0;
    while count < messages {
        let came = consumer.dispatch(Duration::from_secs(10), |_, _| Ok(()))?.deliveries;
        if came == 0 {
            println!("nothing came for ten seconds");
            break;
        }
        count += came;
    }
    println!("consumed {:.0}/s", count as f64 / start.elapsed().as_secs_f64());
    match publisher.join() {
        Ok(outcome) => outcome?,
        Err(_) => println!("the publisher failed"),
    }
    consumer.close()
}
