//! Bodies of every size through the program, directly and with a token, and to many consumers at once.

use super::fixture::{CardBroker, MIB, body, connect, consume, fresh, get, next};
use client::Publish;

/// Sizes at which another path begins: a receive buffer less its header, a rendezvous, large bodies, landing blocks,
/// frames.
const THRESHOLDS: [usize; 6] = [1_024, 4_088, 16 << 10, 32 << 10, 64 << 10, 128 << 10];
const CONSUMERS: usize = 32;

fn sizes() -> Vec<usize> {
    let around = THRESHOLDS.iter().flat_map(|&size| [size - 1, size + 1]);
    (0..=20).map(|power| 1 << power).chain([4_088, 0]).chain(around).collect()
}

#[test]
fn every_size_is_published_confirmed_consumed_and_got() {
    let Some(place) = fresh() else { return };
    let broker = CardBroker::start(&place, &[]);
    let ways = [(broker.direct(), broker.direct()), (broker.upgraded(), broker.upgraded())];
    for (from, to) in &ways {
        let ((mut publisher, out), (mut consumer, back)) = (connect(from, "q"), connect(to, "q"));
        publisher.confirm_select(out).expect("confirms");
        for (at, &bytes) in sizes().iter().enumerate() {
            publisher.publish(out, &Publish::to("", "q"), &body(at, bytes)).expect("published");
            assert_eq!(publisher.wait_confirms(out, 0).expect("confirmed"), 0, "{bytes} bytes are refused");
            let got = get(&mut consumer, back, "q").unwrap_or_else(|| panic!("{bytes} bytes are not there"));
            assert!(got.body() == body(at, bytes), "{bytes} bytes came changed");
        }
        // All in flight at once.
        consume(&mut consumer, back, "q", false);
        for (at, &bytes) in sizes().iter().enumerate() {
            publisher.publish(out, &Publish::to("", "q"), &body(at, bytes)).expect("published");
        }
        publisher.flush().expect("sent");
        for (at, &bytes) in sizes().iter().enumerate() {
            let came = next(&mut consumer, &format!("{bytes} bytes"));
            assert!(came.body() == body(at, bytes), "{bytes} bytes came changed");
            consumer.ack(back, came.delivery_tag, false).expect("written");
        }
        publisher.wait_confirms(out, 0).expect("confirmed");
        publisher.close().expect("an orderly end");
        consumer.close().expect("an orderly end");
    }
    broker.end();
}

#[test]
fn one_message_goes_to_32_consumers_and_no_large_body_is_copied() {
    let Some(place) = fresh() else { return };
    let broker = CardBroker::start(&place, &["--rdma-receive-buffers", "2048"]);
    let (mut publisher, out) = connect(&broker.direct(), "q0");
    publisher.confirm_select(out).expect("confirms");
    let mut consumers: Vec<_> = (0..CONSUMERS)
        .map(|at| {
            let queue = format!("q{at}");
            let (mut client, channel) = connect(&broker.direct(), &queue);
            client.bind_queue(channel, &queue, "amq.fanout", "", &wire::Table::new()).expect("bound");
            consume(&mut client, channel, &queue, true);
            client
        })
        .collect();
    let sizes = [MIB, 100_000, 64 << 10];
    for (at, &bytes) in sizes.iter().enumerate() {
        publisher.publish(out, &Publish::to("amq.fanout", ""), &body(at, bytes)).expect("published");
        publisher.wait_confirms(out, 0).expect("confirmed");
        for client in &mut consumers {
            assert!(next(client, "a message").body() == body(at, bytes), "{bytes} bytes came changed");
            assert_eq!(client.copied_bytes(), 0, "a consumer has copied");
        }
    }
    drop((publisher, consumers));
    let log = broker.end();
    let last = log.iter().find(|line| line.contains("harrier broker has stopped")).expect("it says so");
    assert!(last.contains("body_bytes_copied_in=0 body_bytes_copied_out=0"), "{last}");
}
