//! Five hundred connections to one broker, and the pinned memory of an idle one. A proxy carries them on one port,
//! since as many clients would need more memory than a guest has.

use super::fixture::{CardBroker, LoggedProcess, PINNED_SLACK_BYTES, body, connect, fresh, get, try_connect};
use client::Publish;

const CONNECTIONS: usize = 500;
/// The completion queue of Soft-RoCE holds the work of 383 connections.
const SHARDS: usize = 2;
/// After this many connections, everything that is allocated once exists.
const FIRST: usize = 20;
const IDLE_BYTES_MAX: usize = 64 << 10;
/// Bytes of receive buffers promised to a connection: 16 credits of 4 KiB.
const PROMISED_BYTES: usize = 16 * 4_096;

#[test]
fn five_hundred_connections_work_and_an_idle_one_pins_little() {
    let Some(place) = fresh() else { return };
    // The clients make no calls while the others connect, which takes minutes on a busy machine, so they answer no
    // pings.
    let broker = CardBroker::sharded(&place, SHARDS, &["--login-timeout-s", "600", "--heartbeat-s", "0"]);
    let (proxy, url) = LoggedProcess::proxy(&broker.direct());
    let mut clients = Vec::new();
    let mut pinned_first = 0;
    for at in 0..CONNECTIONS {
        let queue = format!("q{at}");
        let (mut client, channel) = match try_connect(&url) {
            Ok(mut client) => {
                let channel = client.open_channel().expect("a channel");
                client.declare_queue(channel, &queue, &client::QueueOptions::default()).expect("a queue");
                (client, channel)
            }
            Err(error) => panic!("connection {at}: {error}; {}", proxy.await_line("reason=")),
        };
        client.publish(channel, &Publish::to("", &queue), &body(at, 100)).expect("published");
        client.flush().expect("sent");
        clients.push((client, channel, queue));
        if clients.len() == FIRST {
            pinned_first = broker.pinned_bytes();
        }
    }
    // Each is alive, and has its own queue.
    for (at, (client, channel, queue)) in clients.iter_mut().enumerate() {
        assert!(get(client, *channel, queue).is_some_and(|got| got.body() == body(at, 100)));
    }
    let pinned = broker.pinned_bytes();
    let growth = pinned.saturating_sub(pinned_first) / (CONNECTIONS - FIRST);
    println!(
        "{CONNECTIONS} idle connections: {pinned} bytes are pinned, {} for each; {PROMISED_BYTES} of its buffers, and {growth} that came with it",
        pinned / CONNECTIONS
    );
    assert!(PROMISED_BYTES + growth <= IDLE_BYTES_MAX, "an idle connection pins {PROMISED_BYTES} and {growth} bytes");
    // They disconnect, and there is capacity for others.
    drop(clients);
    for _ in 0..CONNECTIONS {
        broker.process.await_line("connection closed");
    }
    assert!(broker.pinned_bytes() <= pinned + PINNED_SLACK_BYTES, "more is pinned than for all of them");
    let (mut client, channel) = connect(&broker.direct(), "again");
    client.publish(channel, &Publish::to("", "again"), &body(7, 50_000)).expect("published");
    assert!(get(&mut client, channel, "again").is_some_and(|got| got.body() == body(7, 50_000)));
    client.close().expect("an orderly end");
    assert_eq!(proxy.end().0, Some(0));
    broker.end();
}
