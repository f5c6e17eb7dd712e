//! Many connections on one thread: every client is registered with one poll, and answers are written from within
//! the handler. Each of ten clients sends the next one a token, a thousand rounds: `polled [URL]`.

use std::time::Duration;

use client::{Client, ClientChannel, ClientError, ConsumeOptions, Publish, QueueOptions};
use mio::{Events, Poll, Token};

const CLIENTS: usize = 10;
const ROUNDS: u64 = 1_000;

fn main() -> Result<(), ClientError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2F".to_owned());
    let mut poll = Poll::new()?;
    let mut clients: Vec<(Client, ClientChannel, String)> = Vec::new();
    for index in 0..CLIENTS {
        let mut client = Client::connect(&url)?;
        let channel = client.open_channel()?;
        let queue =
            client.declare_queue(channel, "", &QueueOptions { exclusive: true, ..QueueOptions::default() })?.name;
        client.consume(channel, &queue, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
        client.register(poll.registry(), Token(index))?;
        clients.push((client, channel, queue));
    }
    let queues: Vec<String> = clients.iter().map(|(_, _, queue)| queue.clone()).collect();
    let (first, channel, _) = &mut clients[0];
    first.publish(*channel, &Publish::to("", &queues[1]), &1_u64.to_le_bytes())?;
    first.flush()?;

    let mut events = Events::with_capacity(64);
    let (mut hops, wanted) = (0_u64, ROUNDS * CLIENTS as u64);
    while hops < wanted {
        poll.poll(&mut events, Some(Duration::from_secs(10)))?;
        for event in &events {
            let next = &queues[(event.token().0 + 1) % CLIENTS];
            let (client, channel, _) = &mut clients[event.token().0];
            // An edge is followed until the link is drained.
            while !client
                .dispatch(Duration::ZERO, |delivery, output| {
                    hops += 1;
                    if hops < wanted {
                        output.publish(*channel, &Publish::to("", next), delivery.body())?;
                    }
                    Ok(())
                })?
                .drained
            {}
        }
    }
    println!("{hops} hops");
    clients.into_iter().try_for_each(|(client, _, _)| client.close())
}
