//! Promises of the client, against a server on the other end of a real socket.

mod peer;

use std::time::Duration;
use wire::{ChannelNumber, DeliveryTag};

use client::{
    Answer, Client, ClientChannel, ClientError, ConnectOptions, ConsumeOptions, InterruptCheck, Publish, QueueDeclared,
    QueueOptions, Table, Url,
};

const WAIT: Duration = Duration::from_secs(20);

fn connected() -> (Client, ClientChannel, std::thread::JoinHandle<()>) {
    let (url, thread) = peer::start();
    let mut client = Client::connect(&url).expect("a connection");
    let channel = client.open_channel().expect("a channel");
    client.consume(channel, "q", &ConsumeOptions::default()).expect("a consumer");
    (client, channel, thread)
}

fn body(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number * 31 + at * 7) as u8).collect()
}

#[test]
fn messages_of_every_size_come_back_whole_and_in_order() {
    let (mut client, channel, thread) = connected();
    let sizes = [0, 1, 64, 8_183, 8_184, 8_185, 16_383, 16_384, 16_385, 70_000, 300_000, 1 << 20, 5];
    for (number, &bytes) in sizes.iter().enumerate() {
        client.publish(channel, &Publish::to("x", "key"), &body(number, bytes)).expect("published");
    }
    for (number, &bytes) in sizes.iter().enumerate() {
        let delivery = client.next_delivery(WAIT).expect("no error").expect("a delivery");
        assert_eq!(
            (delivery.delivery_tag, delivery.exchange, delivery.routing_key),
            (DeliveryTag(number as u64 + 1), &b"x"[..], &b"key"[..])
        );
        assert!(delivery.body() == body(number, bytes), "{bytes} bytes came back changed");
        assert!(delivery.shared_body().is_some() || bytes < 16_384);
    }
    assert!(client.next_delivery(Duration::ZERO).expect("no error").is_none());
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn a_handler_gets_the_same_and_may_answer() {
    let (mut client, channel, thread) = connected();
    for number in 0..1_000 {
        client.publish(channel, &Publish::to("x", "key"), &body(number, number)).expect("published");
    }
    let (mut count, mut again) = (0_usize, 0_usize);
    while again < 10 {
        client
            .dispatch(WAIT, |delivery, output| {
                if delivery.routing_key == b"again" {
                    again += 1;
                } else {
                    assert!(delivery.body() == body(count, count));
                    if count % 100 == 0 {
                        output.publish(channel, &Publish::to("x", "again"), delivery.body())?;
                    }
                    count += 1;
                }
                Ok(())
            })
            .expect("no error");
    }
    assert_eq!(count, 1_000);
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn a_sender_that_is_blocked_reads() {
    // The server does not read while it writes. 48 MiB fit no socket buffer: both would wait for ever.
    let (mut client, channel, thread) = connected();
    let text = body(1, 4_000);
    for _ in 0..12_000 {
        client.publish(channel, &Publish::to("x", "key"), &text).expect("published");
    }
    client.flush().expect("sent");
    for number in 0..12_000 {
        let delivery = client.next_delivery(WAIT).expect("no error").expect("a delivery");
        assert!(delivery.body() == text, "message {number}");
    }
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn deliveries_that_come_during_a_call_are_kept_in_order() {
    let (mut client, channel, thread) = connected();
    for number in 0..10 {
        client
            .publish(channel, &Publish::to("x", "key"), &body(number, 20_000 * (number % 2) + 10))
            .expect("published");
    }
    let declared = client.declare_queue(channel, "", &QueueOptions::default()).expect("declared");
    assert_eq!(declared, QueueDeclared { name: "amq.gen-1".to_owned(), messages: 3, consumers: 1 });
    assert!(client.get(channel, "q", true).expect("an answer").is_none());
    for number in 0..10 {
        let delivery = client.next_delivery(WAIT).expect("no error").expect("a delivery");
        assert!(delivery.body() == body(number, 20_000 * (number % 2) + 10));
    }
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn confirms_are_counted_and_refusals_named() {
    let (mut client, channel, thread) = connected();
    client.confirm_select(channel).expect("confirms");
    for number in 1..=5_000_u64 {
        let key = if number % 1_000 == 0 { "nack" } else { "return" };
        assert_eq!(client.publish(channel, &Publish::to("x", key), b"text").expect("published"), number);
        if client.outstanding(channel) >= 100 {
            client.wait_confirms(channel, 50).expect("confirms");
            assert!(client.outstanding(channel) <= 50);
        }
    }
    assert_eq!(client.wait_confirms(channel, 0).expect("confirms"), 5);
    assert_eq!(client.take_refused(channel).expect("an open channel"), [1_000, 2_000, 3_000, 4_000, 5_000]);
    assert_eq!(client.returned_count(), 4_995);
    let returned = client.take_returned().expect("a returned message");
    assert_eq!((returned.code, returned.text.as_str(), returned.body()), (312, "NO_ROUTE", &b"text"[..]));
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn what_the_server_does_not_offer_is_not_asked_for() {
    let (mut client, channel, thread) = connected();
    let why = client.bind_exchange(channel, "a", "b", "", &Table::new()).expect_err("not offered").to_string();
    assert_eq!(why, "the broker does not offer bindings between exchanges");
    assert!(matches!(
        client.unbind_exchange(channel, "a", "b", "", &Table::new()),
        Err(ClientError::NotAnnounced { .. })
    ));
    client.qos(channel, 10, false).expect("nothing was sent, so the channel is open");
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn a_channel_that_the_server_closes_says_why_and_the_connection_goes_on() {
    let (mut client, channel, thread) = connected();
    client.publish(channel, &Publish::to("x", "close-channel"), b"").expect("published");
    let why = client.next_delivery(WAIT).expect_err("the close is told").to_string();
    assert_eq!(why, "the server closed channel 1: 404 NOT_FOUND - no exchange");
    assert!(matches!(client.ack(channel, DeliveryTag(1), false), Err(ClientError::ChannelClosed { code: 404, .. })));
    let channel = client.open_channel().expect("another channel");
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    let why = client.declare_queue(channel, "q", &passive).expect_err("refused").to_string();
    assert_eq!(why, "the server closed channel 1: 404 NOT_FOUND - no queue");
    let channel = client.open_channel().expect("a third channel");
    client.qos(channel, 10, false).expect("it works");
    client.close_channel(channel).expect("closed");
    assert!(matches!(client.qos(channel, 10, false), Err(ClientError::ChannelNotOpen { channel: ChannelNumber(1) })));
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn ends_of_the_connection_say_why() {
    let (mut client, channel, _thread) = connected();
    client.publish(channel, &Publish::to("x", "close-connection"), b"").expect("published");
    let why = client.next_delivery(WAIT).expect_err("the close is told").to_string();
    assert_eq!(why, "the server closed the connection: 541 INTERNAL_ERROR - it broke");

    let (mut client, channel, thread) = connected();
    client.publish(channel, &Publish::to("x", "hang-up"), b"").expect("published");
    assert!(matches!(client.next_delivery(WAIT), Err(ClientError::Closed | ClientError::Link(_))));
    thread.join().expect("the server ends");

    let (url, _thread) = peer::start();
    let wrong = Client::connect(&url.replace("guest:guest", "guest:wrong")).expect_err("refused");
    assert!(matches!(wrong, ClientError::ConnectionClosed { code: 403, .. }), "{wrong}");
}

#[test]
fn a_cancelled_consumer_is_told() {
    let (mut client, channel, thread) = connected();
    client.publish(channel, &Publish::to("x", "cancel"), b"").expect("published");
    client.publish(channel, &Publish::to("x", "key"), b"later").expect("published");
    assert_eq!(client.next_delivery(WAIT).expect("no error").expect("a delivery").body(), b"later");
    let cancelled = client.take_cancelled().expect("the cancel");
    assert_eq!((cancelled.channel, cancelled.consumer_tag.as_str()), (channel, "consumer-1"));
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn names_that_are_too_long_are_refused_before_anything_is_sent() {
    let (mut client, channel, thread) = connected();
    let name = "n".repeat(256);
    assert!(matches!(client.publish(channel, &Publish::to(&name, ""), b""), Err(ClientError::TooLong { bytes: 256 })));
    assert!(matches!(
        client.declare_queue(channel, &name, &QueueOptions::default()),
        Err(ClientError::TooLong { bytes: 256 })
    ));
    client.qos(channel, 1, false).expect("the channel is as before");
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn a_polled_client_never_waits_and_loses_nothing() {
    let (url, thread) = peer::start();
    // Written bytes leave by `flush_now` alone.
    let options = ConnectOptions { flush_bytes: usize::MAX, ..ConnectOptions::default() };
    let mut client = Client::connect_with(&Url::parse(&url).expect("an address"), options).expect("a connection");
    let channel = client.open_channel().expect("a channel");
    client.consume(channel, "q", &ConsumeOptions::default()).expect("a consumer");
    let mut poll = mio::Poll::new().expect("a poll");
    client.register(poll.registry(), mio::Token(0)).expect("registered");
    // Far more than the sockets hold: the link takes it in pieces.
    let (count, mut came) = (3_000, 0);
    for number in 0..count {
        client.publish(channel, &Publish::to("x", "key"), &body(number, 5_000)).expect("published");
    }
    assert!(client.unsent_bytes() > count * 5_000);
    let mut events = mio::Events::with_capacity(4);
    client.flush_now().expect("sent in part");
    while came < count {
        poll.poll(&mut events, Some(WAIT)).expect("polled");
        assert!(!events.is_empty(), "{came} of {count} came, {} bytes unsent", client.unsent_bytes());
        loop {
            client.flush_now().expect("no error");
            let dispatched = client.dispatch_now(|delivery, _| {
                assert!(delivery.body() == body(came, 5_000), "message {came}");
                came += 1;
                Ok(())
            });
            if dispatched.expect("no error").drained {
                break;
            }
        }
    }
    assert_eq!(client.unsent_bytes(), 0);
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn deliveries_that_are_alike_bring_each_its_own_body() {
    let (mut client, channel, thread) = connected();
    // Of one size, so that the client knows the next by the last; every hundredth is another.
    let bytes = |number: usize| if number % 100 == 99 { 65 } else { 64 };
    for number in 0..2_000 {
        client.publish(channel, &Publish::to("x", "key"), &body(number, bytes(number))).expect("published");
    }
    let mut count = 0;
    while count < 1_000 {
        client
            .dispatch(WAIT, |delivery, _| {
                assert_eq!((delivery.channel, delivery.delivery_tag), (channel, DeliveryTag(count as u64 + 1)));
                let names = (delivery.consumer_tag, delivery.exchange, delivery.routing_key);
                assert_eq!(names, (&b"consumer-1"[..], &b"x"[..], &b"key"[..]));
                assert!(!delivery.redelivered && delivery.properties.as_bytes() == [0, 0]);
                assert!(delivery.body() == body(count, bytes(count)), "message {count}");
                count += 1;
                Ok(())
            })
            .expect("no error");
    }
    while count < 2_000 {
        let delivery = client.next_delivery(WAIT).expect("no error").expect("a delivery");
        assert_eq!((delivery.delivery_tag, delivery.routing_key), (DeliveryTag(count as u64 + 1), &b"key"[..]));
        assert!(delivery.body() == body(count, bytes(count)), "message {count}");
        count += 1;
    }
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn canned_messages_are_those_that_would_be_published() {
    // The server's frames have 8,192 bytes: the last body needs three.
    for bytes in [0, 1, 64, 8_184, 20_000] {
        let (mut client, channel, thread) = connected();
        let keys = ["one", "another"];
        let to: Vec<Publish<'_>> = keys.iter().map(|key| Publish::to("x", key)).collect();
        let to = if bytes > 8_184 { &to[..1] } else { &to };
        let template = body(7, bytes);
        let mut canned = client
            .prepare_batch(channel, to, &template, 1_000)
            .expect("names are short")
            .expect("it is no large batch");
        assert!(canned.len().is_multiple_of(to.len()) && canned.body_bytes() == bytes);
        let (rounds, mut sent) = (3, Vec::new());
        for round in 0..rounds {
            // The last batch is not whole.
            let count = if round + 1 == rounds { canned.len().div_ceil(2) } else { canned.len() };
            client
                .publish_prepared(&mut canned, count, |place, body| {
                    if let Some(first) = body.first_mut() {
                        *first = (round * 50 + place) as u8;
                    }
                })
                .expect("published");
            sent.extend((0..count).map(|place| (keys[place % to.len()], (round * 50 + place) as u8)));
        }
        for (key, first) in sent {
            let delivery = client.next_delivery(WAIT).expect("no error").expect("a delivery");
            let mut expected = template.clone();
            if let Some(byte) = expected.first_mut() {
                *byte = first;
            }
            assert_eq!(delivery.routing_key, key.as_bytes());
            assert!(delivery.body() == expected, "{bytes} bytes, key {key}");
        }
        client.close().expect("an orderly end");
        thread.join().expect("the server ends");
    }
}

#[test]
fn canned_messages_are_confirmed_one_by_one() {
    let (mut client, channel, thread) = connected();
    client.confirm_select(channel).expect("confirms");
    let mut canned =
        client.prepare_batch(channel, &[Publish::to("x", "key")], b"text", 500).expect("a name").expect("a batch");
    let many = canned.len() as u64;
    assert_eq!(client.publish_prepared(&mut canned, usize::MAX, |_, _| ()).expect("published"), many);
    assert_eq!(client.publish_prepared(&mut canned, 2, |_, _| ()).expect("published"), many + 2);
    assert_eq!(client.publish_prepared(&mut canned, 0, |_, _| ()).expect("nothing to do"), 0);
    assert_eq!(client.wait_confirms(channel, 0).expect("confirms"), 0);
    assert_eq!(client.outstanding(channel), 0);
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn a_call_that_was_begun_is_answered_later() {
    let (mut client, channel, thread) = connected();
    let declare =
        |client: &mut Client| client.begin(|client| client.declare_queue(channel, "", &QueueOptions::default()));
    declare(&mut client).expect("it asks and does not wait");
    assert!(matches!(declare(&mut client), Err(ClientError::Unanswered)), "one at a time");
    let answer = loop {
        client.dispatch_now(|_, _| Ok(())).expect("no error");
        if let Some(answer) = client.take_answer().expect("no refusal") {
            break answer;
        }
        std::thread::yield_now();
    };
    let Answer::Queue(declared) = answer else { panic!("{answer:?} is no queue") };
    assert_eq!(declared.name, "amq.gen-1");
    // From now on calls wait again.
    assert!(client.get(channel, "q", true).expect("an answer").is_none());
    client.close().expect("an orderly end");
    thread.join().expect("the server ends");
}

#[test]
fn a_wait_ends_when_its_program_wants_it_to() {
    let (url, thread) = peer::start();
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_wanted = {
        let asked = asked.clone();
        InterruptCheck::new(move || asked.load(std::sync::atomic::Ordering::Relaxed))
    };
    let options = ConnectOptions { interrupt: Some(is_wanted), ..ConnectOptions::default() };
    let mut client = Client::connect_with(&Url::parse(&url).expect("an address"), options).expect("a connection");
    client.open_channel().expect("a channel");
    asked.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(client.next_delivery(Duration::MAX), Err(ClientError::Interrupted)));
    asked.store(false, std::sync::atomic::Ordering::Relaxed);
    client.close().expect("nothing was asked, so nothing is amiss");
    thread.join().expect("the server ends");
}
