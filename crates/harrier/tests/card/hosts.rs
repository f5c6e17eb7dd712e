//! Two machines, each with one of these tests and a broker: `tests/lab/run` connects two guests by a cable and switches
//! the first off under load. The first is a broker's machine and a client's to the second.

use super::fixture::{
    CardBroker, LoggedProcess, MIB, PATIENCE, PINNED_SLACK_BYTES, SILENCE, TCP_PORTS_BEYOND, body, connect, consume,
    get, lab, next, now, number, try_connect,
};
use client::{Client, Publish};
use std::io::Write as _;
use std::time::Duration;

const PORT: u16 = 7_474;
const PEER: &str = "CARD_HOSTS_PEER";
const QUEUE: &str = "hosts";
const MESSAGES: usize = 12;
const SIZES: [usize; 4] = [1, 4_000, 50_000, MIB];
/// A machine that is gone is noticed by what is sent to it, at the latest by a ping.
const NOTICES: [&str; 2] = [SILENCE, "30"];
/// A machine that is gone must be noticed within this time: the device's retries take 2 to 8 s on a quiet machine.
const DETECTION_MAX: Duration = Duration::from_secs(40);

/// A local and a remote address, for the machine of this test.
fn places(is_second: bool) -> Option<(String, Option<String>)> {
    let here = lab()?;
    let peer = std::env::var(PEER).ok();
    (peer.is_some() == is_second).then(|| (format!("{here}:{PORT}"), peer.map(|peer| format!("{peer}:{PORT}"))))
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("standard output");
}

/// A client of the remote broker, once it listens and is reachable.
fn reach(url: &str) -> Client {
    let deadline = now() + PATIENCE;
    loop {
        match try_connect(url) {
            Ok(client) => return client,
            Err(error) => assert!(now() < deadline, "{url}: {error}"),
        }
    }
}

/// Runs a broker, and is a client of the other's: consumes, and acknowledges nothing.
#[test]
fn the_first_goes() {
    let Some((place, _)) = places(false) else { return };
    let Some((host, _)) = place.rsplit_once('.') else { panic!("{place} is no address") };
    let broker = CardBroker::start(&place, &NOTICES);
    say("the first broker is ready");
    // The other end of the cable.
    let other = format!("amqp+rdma://{host}.2:{PORT}");
    let mut client = reach(&other);
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, QUEUE, &client::QueueOptions::default()).expect("a queue");
    consume(&mut client, channel, QUEUE, false);
    loop {
        number(next(&mut client, "a message").body());
        assert!(broker.pinned_bytes() > 0);
    }
}

#[test]
fn the_second_stays() {
    let Some((place, Some(there))) = places(true) else { return };
    let broker = CardBroker::start(&place, &NOTICES);
    let pinned = broker.pinned_bytes();
    // An endless stream for the other machine, part of which stays in flight.
    let (mut local, own) = connect(&broker.tcp(), QUEUE);
    for number in 0..MESSAGES {
        local.publish(own, &Publish::to("", QUEUE), &body(number, MIB)).expect("published");
    }
    local.flush().expect("sent");
    // Who shall be lost is there before it may go.
    let passive = client::QueueOptions { passive: true, ..client::QueueOptions::default() };
    let deadline = now() + PATIENCE;
    while local.declare_queue(own, QUEUE, &passive).expect("the queue").consumers == 0 {
        assert!(now() < deadline, "the other machine consumes nothing");
        std::thread::yield_now();
    }
    // Both routes to a remote broker, with all sizes.
    let direct = format!("amqp+rdma://{there}");
    drop(reach(&direct));
    for url in [direct.clone(), format!("{direct}/%2F?via=tcp:{}", PORT + TCP_PORTS_BEYOND)] {
        let (mut client, channel) = connect(&url, "there");
        client.confirm_select(channel).expect("confirms");
        for (at, bytes) in SIZES.into_iter().enumerate() {
            client.publish(channel, &Publish::to("", "there"), &body(at, bytes)).expect("published");
            assert_eq!(client.wait_confirms(channel, 0).expect("confirmed"), 0);
            assert!(
                get(&mut client, channel, "there").is_some_and(|got| got.body() == body(at, bytes)),
                "{bytes} bytes"
            );
        }
        client.close().expect("an orderly end");
    }
    // A TCP client through a proxy on its own host.
    let (proxy, by_proxy) = LoggedProcess::proxy(&direct);
    let (mut carried, channel) = connect(&by_proxy, "carried");
    for (at, bytes) in SIZES.into_iter().enumerate() {
        carried.publish(channel, &Publish::to("", "carried"), &body(at, bytes)).expect("published");
        let got = get(&mut carried, channel, "carried").expect("a message");
        assert!(got.body() == body(at, bytes), "{bytes} bytes");
    }
    consume(&mut carried, channel, "carried", true);
    let (mut publisher, out) = connect(&direct, "load");
    publisher.confirm_select(out).expect("confirms");
    let mut begun = None;
    let told = (0..).find_map(|at| {
        let sent = publisher
            .publish(out, &Publish::to("", "load"), &body(at, MIB))
            .and_then(|_| publisher.wait_confirms(out, 4))
            .and_then(|_| publisher.purge_queue(out, "load"));
        if at == 8 {
            // Everything is in flight: now the first machine may go.
            say("a broker and its client are connected");
            begun = Some(now());
        }
        sent.err()
    });
    let took = now() - begun.expect("it was connected");
    say(&format!("a publisher: {}, after {took:?}", told.expect("an error")));
    assert!(took < DETECTION_MAX, "it took {took:?}");
    drop(publisher);
    // The carried client loses its connection as well: its end of the proxy is closed.
    let told = carried.next_delivery(PATIENCE).expect_err("the broker is gone");
    say(&format!("a client of the proxy: {told}; {}", proxy.await_line("connection ended")));
    assert_eq!(proxy.end().0, Some(0));
    // This broker's client is gone as well, and its messages are requeued.
    say(&broker.process.await_line("connection lost"));
    consume(&mut local, own, QUEUE, false);
    for at in 0..MESSAGES {
        let message = next(&mut local, "what the other machine had");
        assert_eq!(number(message.body()), at);
        assert!(at > 0 || message.redelivered, "nobody is told that it was delivered before");
        local.ack(own, message.delivery_tag, false).expect("written");
    }
    local.close().expect("an orderly end");
    let after = broker.pinned_bytes();
    say(&format!("pinned before: {pinned}, and after: {after}"));
    assert!(after <= pinned + PINNED_SLACK_BYTES, "what the other machine held is not given back");
    let log = broker.end();
    assert!(!log.iter().any(|line| line.contains(" ERROR ")), "{log:#?}");
}
