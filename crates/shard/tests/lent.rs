//! Large bodies through a broker over links that are lent memory: no byte is copied, and all memory returns however a connection ends.

mod over_verbs;

use link::AbortReason;
use over_verbs::{FAR, HEADS_BYTES_MAX, NEAR, ShardBounds, VerbsClient, VerbsHarness, body, settings};
use session::limits::{BODY_FRAME_BYTES_MAX, FRAME_BYTES_CEILING, FRAME_BYTES_MAX};
use shard::CopiedBytes;
use slab::{Pool, PoolOptions, Slice};
use splitmix::SplitMix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use verbs::sim::FabricOptions;
use verbs::{Port, PortSettings};
use wire::frame::{FRAME_BODY, FRAME_HEADER, append};
use wire::method::basic;
use wire::{ChannelNumber, ShortStr};

const THRESHOLD: usize = 16 * 1_024;

/// A message of its own content, in the publisher's memory.
fn message(publisher: &VerbsClient, number: u64, bytes: usize) -> Slice {
    publisher.pool.copy(&body(number, bytes))
}

/// Publishes one message to `amq.fanout` and waits until every consumer has it.
fn fan_out(world: &mut VerbsHarness, clients: &mut [VerbsClient], number: u64, bytes: usize) {
    let shared = message(&clients[0], number, bytes);
    clients[0].publish("amq.fanout", "", &shared);
    drop(shared);
    clients[1..].iter_mut().for_each(|consumer| consumer.expected.push_back((number, bytes)));
    let messages = clients[1].got.len() + 1;
    world.until("everybody has it", clients, |_, clients| {
        clients[1..].iter().all(|consumer| consumer.got.len() == messages)
    });
}

#[test]
fn no_byte_of_a_body_above_the_threshold_is_copied_for_one_consumer_or_32() {
    // Clients that take what the broker proposes, and such as want smaller frames.
    for (frame_bytes_max, frame) in [(FRAME_BYTES_CEILING, 1 << 20), (FRAME_BYTES_MAX, 131_064)] {
        no_byte_is_copied(frame_bytes_max, frame);
    }
}

fn no_byte_is_copied(frame_bytes_max: u32, frame: usize) {
    let small = [THRESHOLD - 1, THRESHOLD, THRESHOLD + 1, 32_767, 32_768, 100_000];
    for consumers in [1, 32] {
        let mut world = VerbsHarness::new(&FabricOptions::faultless(), &settings(), &ShardBounds::default());
        world.frame_bytes_max = frame_bytes_max;
        let mut clients = vec![world.connect()];
        clients.extend((0..consumers).map(|number| world.consumer(&format!("q{number}"), false)));
        for (number, bytes) in (0..).zip(small.into_iter().chain([frame, frame + 1, 1 << 20, 16 << 20])) {
            let before = world.ports.each_ref().map(|port| port.counters());
            let copied = world.copied();
            let offers = before.map(|counters| counters.offers);
            fan_out(&mut world, &mut clients, number, bytes);
            let after = world.ports.each_ref().map(|port| port.counters());
            let frames = bytes.div_ceil(frame) as u64;
            if bytes < THRESHOLD {
                // Sent as it is, in parts of what a receive buffer holds, and kept once.
                assert_eq!(after[FAR].placed_bytes, before[FAR].placed_bytes);
                continue;
            }
            assert_eq!(world.copied(), copied, "{bytes} bytes to {consumers} consumers");
            assert!(clients.iter().all(|client| client.copied_bytes == 0), "{bytes} bytes");
            for (end, ways) in [(FAR, 1), (NEAR, consumers as u64)] {
                let (before, after) = (before[end], after[end]);
                assert_eq!(after.placed_bytes - before.placed_bytes, ways * bytes as u64);
                assert_eq!(
                    (after.landed_bytes, after.large_sent_bytes),
                    (before.landed_bytes, before.large_sent_bytes)
                );
                // Each frame is one offer, whatever its size.
                assert_eq!(world.ports[1 - end].counters().offers - offers[1 - end], ways * frames, "{bytes} bytes");
                // Method and header, and for each frame its head and its end.
                let heads = after.copied_bytes - before.copied_bytes;
                assert!(heads <= ways * (120 + 8 * frames), "{heads} bytes of heads for {frames} frames");
            }
        }
        assert_eq!(world.copied().bytes_in, 0);
        let most = (consumers + 1) * HEADS_BYTES_MAX;
        world.until("nothing is kept but heads", &mut clients, |world, _| world.used_bytes() <= most);
        clients.iter_mut().for_each(|client| client.disconnect(None));
        world.assert_empty();
        assert_eq!(world.used_bytes(), 0);
        assert!(clients.iter().all(|client| client.pool.used_bytes() == 0), "the clients keep nothing");
    }
}

/// What the broker does for a body, by the counts of its device: the same, however long it is, up to a frame.
#[test]
fn a_body_of_1_mib_costs_what_one_of_64_kib_does() {
    let mut world = VerbsHarness::new(&FabricOptions::faultless(), &settings(), &ShardBounds::default());
    let mut clients = vec![world.connect(), world.consumer("q", false)];
    let mut counts = |bytes: usize| {
        let before = world.ports[FAR].counters();
        (0..20).for_each(|number| fan_out(&mut world, &mut clients, number, bytes));
        let after = world.ports[FAR].counters();
        assert_eq!(after.placed_bytes - before.placed_bytes, 20 * bytes as u64);
        let heads = after.copied_bytes - before.copied_bytes;
        [after.offers - before.offers, after.messages_received - before.messages_received, heads]
    };
    let [offers, received, heads] = counts(64 << 10);
    assert_eq!(offers, 20, "each once, to its consumer");
    let of_1_mib = counts(1 << 20);
    assert_eq!([of_1_mib[0], of_1_mib[2]], [offers, heads]);
    assert!(
        of_1_mib[1].abs_diff(received) <= 2,
        "messages, but for a credit more or less: {} and {received}",
        of_1_mib[1]
    );
    let [offers, ..] = counts(2 << 20);
    assert_eq!(offers, 40, "two frames");
}

/// The beginning of a message of this size, and of its first frame; nothing of its body.
fn beginning_of_message(bytes: usize) -> Vec<u8> {
    let (exchange, routing_key) = (ShortStr::literal("amq.fanout"), ShortStr::literal(""));
    let publish = basic::Publish { exchange, routing_key, mandatory: false, immediate: false };
    let (channel, mut begun) = (ChannelNumber(1), Vec::new());
    wire::encode_frame(channel, &publish.into(), &mut begun);
    let head = [&[0, 60, 0, 0][..], &(bytes as u64).to_be_bytes(), &[0, 0]].concat();
    append(FRAME_HEADER, channel, &head, &mut begun);
    begun.extend([&[FRAME_BODY, 0, 1][..], &(1_u32 << 20).to_be_bytes()].concat());
    begun
}

/// Devices hold memory that they are lent, whether or not anything arrives. What exceeds the share of its user is copied.
#[test]
fn a_user_is_lent_its_share_of_memory_and_what_exceeds_it_arrives_all_the_same() {
    const SHARE: usize = (120 << 20) / 4;
    const BODY: usize = 8 << 20;
    const FRAME: usize = 1 << 20;
    let bounds = ShardBounds { memory_bytes_max: 128 << 20, ..ShardBounds::default() };
    let mut world = VerbsHarness::new(&FabricOptions::faultless(), &settings(), &bounds);
    let mut clients: Vec<_> = (0..20).map(|_| world.connect()).collect();
    let mut honest = vec![world.connect(), world.consumer("q", false)];
    // First nothing of any body arrives, and no device is asked to write; then a little of each, and it is.
    for (begun, lent_bytes_min) in [(beginning_of_message(BODY), 0), (vec![7; 100], SHARE - BODY)] {
        clients.iter_mut().for_each(|client| client.send_bytes(&begun));
        world.until("sent", &mut clients, |_, clients| clients.iter().all(|client| client.unsent_bytes() == 0));
        (0..100).for_each(|_| world.step());
        assert!(!world.shard.broker().memory_alarm(), "what has not arrived holds publishers");
        if lent_bytes_min > 0 {
            // What is not lent gets memory for one frame.
            let bytes_max = SHARE + (clients.len() + honest.len()) * FRAME + HEADS_BYTES_MAX;
            let bytes = world.used_bytes();
            assert!((lent_bytes_min..bytes_max).contains(&bytes), "{bytes} bytes are used");
        }
        fan_out(&mut world, &mut honest, 0, FRAME);
    }
    // The same user has nothing left for a message of this size, which arrives in smaller pieces or is copied.
    let bytes = 16 << 20;
    let copied = world.copied().bytes_in;
    fan_out(&mut world, &mut honest, 1, bytes);
    assert!(world.copied().bytes_in > copied, "it is copied");
    clients.iter_mut().for_each(|client| client.disconnect(Some(AbortReason::Operator)));
    world.until("the others have gone", &mut honest, |world, _| world.shard.connections() == 2);
    let copied = world.copied().bytes_in;
    fan_out(&mut world, &mut honest, 2, bytes);
    assert_eq!(world.copied().bytes_in, copied, "what was lent to others is free for it");
    honest.iter_mut().for_each(|client| client.disconnect(None));
    world.assert_empty();
    assert_eq!(world.used_bytes(), 0);
}

#[test]
fn a_cable_and_rdma_mix_and_each_copies_what_it_must() {
    for (from_cable, to_cable) in [(true, false), (false, true)] {
        let mut world = VerbsHarness::new(&FabricOptions::faultless(), &settings(), &ShardBounds::default());
        let publisher = if from_cable { world.connect_by_cable() } else { world.connect() };
        let mut clients = vec![publisher, world.consumer("one", to_cable), world.consumer("two", !to_cable)];
        for (number, bytes) in (0..).zip([10, 5_000, THRESHOLD, 60_000, 1 << 20, 3 << 20]) {
            fan_out(&mut world, &mut clients, number, bytes);
        }
        let CopiedBytes { bytes_in, bytes_out } = world.copied();
        assert!(bytes_out <= 2 * 5_000 + 2 * THRESHOLD as u64, "large ones go out by reference: {bytes_out}");
        if !from_cable {
            assert_eq!(bytes_in, 0, "nothing in between copies what RDMA brings");
        }
        let far = world.ports[FAR].counters();
        assert_eq!((far.landed_bytes, far.large_sent_bytes), (0, 0));
        clients.iter_mut().for_each(|client| client.disconnect(None));
        world.assert_empty();
        assert_eq!(world.used_bytes(), 0);
    }
}

#[test]
fn more_than_may_be_offered_is_copied_and_counted() {
    // Two consumers' worth for what three want, and never two at once on one connection.
    let settings = PortSettings { granted_bytes_max: 150_000, granted_bytes_total_max: 300_000, ..settings() };
    let mut world = VerbsHarness::new(&FabricOptions::faultless(), &settings, &ShardBounds::default());
    let mut clients = vec![world.connect()];
    clients.extend((0..6).map(|number| world.consumer(&format!("q{number}"), false)));
    for number in 0..4 {
        fan_out(&mut world, &mut clients, number, 400_000);
    }
    let far = world.ports[FAR].counters();
    assert!(far.large_sent_bytes > 0 && far.offered_bytes > 0, "{far:?}");
    let copied: u64 = clients.iter().map(|client| client.copied_bytes).sum();
    // The end of such a part is no large one any more.
    let (least, most) = (far.large_sent_bytes, 6 * 4 * 400_000 - far.offered_bytes);
    assert!((least..=most).contains(&copied), "{copied} of {least} to {most} that were sent and not offered");
    assert_eq!(world.copied(), CopiedBytes::default(), "and none of it the broker");
    clients.iter_mut().for_each(|client| client.disconnect(None));
    world.assert_empty();
}

#[test]
fn a_publisher_whose_broker_is_short_of_memory_keeps_its_connection_however_long_that_takes() {
    // What the broker allows its consumers is over many times; what the client allows its broker has no end.
    let settings = PortSettings { fetch_max: Duration::from_millis(50), ..settings() };
    let bounds = ShardBounds { memory_bytes_max: 6 << 20, ..ShardBounds::default() };
    let mut world = VerbsHarness::new(&FabricOptions::faultless(), &settings, &bounds);
    let mut publisher = world.connect();
    publisher.declare("q");
    let mut clients = vec![publisher];
    let mut messages = 0;
    // It publishes on until nothing moves any more.
    let mut rounds_without = 0;
    while rounds_without < 1_000 {
        rounds_without += 1;
        if clients[0].unsent_bytes() < 2_000_000 {
            let shared = message(&clients[0], messages, 500_000);
            clients[0].publish("", "q", &shared);
            messages += 1;
            rounds_without = 0;
        }
        assert!(messages < 2_000, "it is never held back");
        world.step();
        clients.iter_mut().for_each(VerbsClient::poll);
    }
    assert!(world.shard.broker().memory_alarm());
    assert!(world.ports[NEAR].usage().granted_bytes > 0, "a body is offered to a broker that does not read");
    let used = world.used_bytes();
    for _ in 0..30_000 {
        world.step();
        clients.iter_mut().for_each(VerbsClient::poll);
    }
    assert!(!clients[0].is_over, "{:?}", clients[0].error);
    assert!(clients[0].unsent_bytes() > 0 && world.ports[NEAR].usage().granted_bytes > 0, "it waits");
    assert_eq!(world.used_bytes(), used, "and the broker takes no more");
    // A consumer drains the queue.
    let mut consumer = world.consumer("q", false);
    consumer.expected = (0..messages).map(|number| (number, 500_000)).collect();
    clients.push(consumer);
    world.until("the rest", &mut clients, |_, clients| clients[1].got.len() == messages as usize);
    assert_eq!(world.copied(), CopiedBytes::default());
    clients.iter_mut().for_each(|client| client.disconnect(None));
    world.assert_empty();
}

/// A consumer that stops reading in the middle of anything, longer than the broker's patience: it is given up, and what it
/// was offered returns.
#[test]
fn a_consumer_that_stops_reading_is_disconnected() {
    let settings = PortSettings { fetch_max: Duration::from_millis(50), ..settings() };
    let mut world = VerbsHarness::new(&FabricOptions::faultless(), &settings, &ShardBounds::default());
    let mut clients = vec![world.connect(), world.consumer("q", false)];
    clients[1].is_paused = true;
    for number in 0..4 {
        let shared = message(&clients[0], number, 500_000);
        clients[0].publish("", "q", &shared);
    }
    world.until("an offer", &mut clients, |world, _| world.ports[FAR].usage().granted_bytes > 0);
    world.until("its end", &mut clients, |world, _| world.shard.connections() == 1);
    clients[1].is_paused = false;
    world.until("it hears so", &mut clients, |_, clients| clients[1].is_over);
    clients[0].disconnect(None);
    world.assert_empty();
}

/// PortSettings of every kind under which a large body may be offered.
fn any_settings(chance: &mut SplitMix64) -> PortSettings {
    PortSettings {
        receive_buffer_bytes: 1 << chance.between(9, 12),
        credits: chance.between(12, 40) as u16,
        rendezvous_threshold_bytes: chance.between(500, 40_000) as u32,
        rendezvous_max: chance.between(0, 8) as u16,
        granted_bytes_max: chance.between(10_000, 1 << 20) as usize,
        corked: chance.below(2) == 0,
        landing_blocks: 2,
        landing_bytes: chance.between(1_000, 60_000) as usize,
        ..settings()
    }
}

/// Answers whether a message of the publisher never came whole, and how many bytes were fetched into lent memory.
fn run_of(seed: u64) -> (bool, u64) {
    let mut chance = SplitMix64::new(seed);
    let settings = any_settings(&mut chance);
    let options = FabricOptions { grants_max: usize::MAX, ..FabricOptions::slow(seed) };
    let mut world = VerbsHarness::new(&options, &settings, &ShardBounds::default());
    world.frame_bytes_max = [FRAME_BYTES_CEILING, FRAME_BYTES_MAX, 300_000][chance.below(3) as usize];
    let mut clients = vec![world.connect()];
    let consumers = chance.between(1, 3) as usize;
    clients.extend((0..consumers).map(|number| world.consumer(&format!("q{number}"), false)));
    let messages = chance.between(1, 6);
    for number in 0..messages {
        let most = [2_000, 60_000, 300_000, 1 << 20][chance.below(4) as usize];
        let bytes = chance.between(0, most) as usize;
        let shared = message(&clients[0], number, bytes);
        clients[0].publish("amq.fanout", "", &shared);
        clients[1..].iter_mut().for_each(|consumer| consumer.expected.push_back((number, bytes)));
    }
    // Nobody, the publisher or a consumer disconnects at some moment, in one of two ways.
    let any = chance.below(clients.len() as u64 + 1) as usize;
    let who = if chance.below(2) == 0 { 0 } else { any };
    let whole = |clients: &[VerbsClient]| {
        let consumers = clients[1..].iter().filter(|client| !client.is_over);
        consumers.clone().all(|consumer| consumer.got.len() == messages as usize)
    };
    let most = [40, 400][chance.below(2) as usize];
    let mut left = chance.below(most);
    for step in 0.. {
        assert!(step < 100_000, "it stands still");
        world.step();
        // Any of them may sleep for a while.
        clients.iter_mut().filter(|_| chance.below(4) > 0).for_each(VerbsClient::poll);
        if left == 0 && who < clients.len() {
            let why = [None, Some(AbortReason::Operator)][chance.below(2) as usize];
            clients[who].disconnect(why);
            break;
        }
        left = left.saturating_sub(1);
        if whole(&clients) {
            break;
        }
    }
    let published = if clients[0].is_over { None } else { Some(messages as usize) };
    if let Some(messages) = published {
        world.until("the rest", &mut clients, |_, clients| {
            clients[1..].iter().all(|consumer| consumer.is_over || consumer.got.len() == messages)
        });
    } else {
        // Messages that had arrived whole are delivered to every consumer, others to none.
        world.until("rest", &mut clients, |world, _| world.shard.connections() == consumers);
        (0..1_000).for_each(|_| {
            world.step();
            clients.iter_mut().for_each(VerbsClient::poll);
        });
        let least = clients[1..].iter().map(|consumer| consumer.got.len()).min();
        assert!(clients[1..].iter().all(|consumer| Some(consumer.got.len()) == least), "some got more than others");
        let used = world.used_bytes();
        assert!(used <= consumers * HEADS_BYTES_MAX, "a partial message is still held: {used} bytes");
    }
    assert!(clients.iter().all(|client| client.error.is_none()), "nothing is broken");
    let was_cut = clients[0].is_over && clients[1..].iter().all(|consumer| consumer.got.len() < messages as usize);
    let placed_bytes = world.ports.iter().map(|port| port.counters().placed_bytes).sum();
    clients.iter_mut().for_each(|client| client.disconnect(None));
    world.assert_empty();
    (0..10).for_each(|_| world.step());
    drop(clients);
    // Messages for consumers that have disconnected wait in their queues; nothing else does.
    let queued = world.queued();
    assert!(world.used_bytes() == 0 || queued > 0, "{} bytes in use, {queued} messages queued", world.used_bytes());
    (was_cut, placed_bytes)
}

#[test]
fn clients_over_rdma_and_by_cable_negotiate_their_own_frame_sizes() {
    let mut world = VerbsHarness::new(&FabricOptions::faultless(), &settings(), &ShardBounds::default());
    let of_cable = world.connect_by_cable().frame_bytes_max;
    assert_eq!((world.connect().frame_bytes_max, of_cable), (BODY_FRAME_BYTES_MAX, FRAME_BYTES_MAX));
    world.frame_bytes_max = 200_000;
    assert_eq!(world.connect().frame_bytes_max, 200_000, "the lower of both");
}

#[test]
fn a_connection_cut_anywhere_delivers_whole_messages_and_returns_all_memory() {
    let (mut cut, mut placed_bytes) = (0, 0);
    for seed in 0..300 {
        let named = FailedSeed(seed);
        let (was_cut, placed) = run_of(seed);
        std::mem::forget(named);
        cut += u64::from(was_cut);
        placed_bytes += placed;
    }
    assert!(cut >= 20 && placed_bytes > 10 << 20, "{cut} were cut, {placed_bytes} bytes were fetched");
}

/// The client itself, which waits, with the broker on a thread of its own.
#[test]
fn the_client_publishes_from_its_memory_and_receives_into_it() {
    // Time is what both threads make of it.
    let long = Duration::from_secs(1_000_000);
    let settings =
        PortSettings { set_up_max: long, ping_after: long, silent_max: 2 * long, read_max: long, ..settings() };
    let (tell, told) = std::sync::mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, of_broker) = (Arc::clone(&stop), settings.clone());
    let broker = std::thread::spawn(move || {
        let mut world = VerbsHarness::new(&FabricOptions::faultless(), &of_broker, &ShardBounds::default());
        tell.send(world.fabric.clone()).expect("somebody listens");
        while !stopped.load(Ordering::Acquire) {
            world.step();
            std::thread::yield_now();
        }
        (world.copied(), world.ports[FAR].counters())
    });
    let fabric = told.recv().expect("a fabric");
    let port = Port::open(fabric.device(), &Pool::new(PoolOptions::default()), settings).expect("sound settings");
    let link = Box::new(port.connect("broker", None).expect("there is room"));
    let url = client::Url::parse("amqp://guest:guest@broker/%2F").expect("a URL");
    let mut client = client::Client::over(link, &url, client::ConnectOptions::default()).expect("a connection");
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, "q", &client::QueueOptions::default()).expect("a queue");
    client.consume(channel, "q", &client::ConsumeOptions::default()).expect("a consumer");
    assert_eq!(client.tuning().frame_bytes_max, BODY_FRAME_BYTES_MAX, "it takes what is proposed");
    // A batch of canned messages is one piece of memory: its bodies would be read in the wrong place, and copied.
    let to = [client::Publish::to("", "q")];
    let mut is_canned = |bytes| client.prepare_batch(channel, &to, &body(0, bytes), 128 << 10).expect("open").is_some();
    assert_eq!([THRESHOLD - 1, THRESHOLD, 1 << 20].map(&mut is_canned), [true, false, false]);
    let mut bytes_in_all = 0;
    for (number, bytes) in (0..).zip([THRESHOLD, 100_000, 131_065, 1 << 20, (1 << 20) + 1, 5 << 20]) {
        let mut block = client.block(bytes);
        block.copy_from_slice(&body(number, bytes));
        client.publish_shared(channel, &client::Publish::to("", "q"), &block.freeze()).expect("published");
        let delivery = client.next_delivery(Duration::from_secs(60)).expect("no error").expect("a delivery");
        assert!(delivery.body() == body(number, bytes) && delivery.shared_body().is_some(), "{bytes} bytes");
        bytes_in_all += bytes as u64;
    }
    assert_eq!(client.copied_bytes(), 0);
    client.close().expect("an orderly end");
    stop.store(true, Ordering::Release);
    let (copied, far) = broker.join().expect("a broker");
    assert_eq!(copied, CopiedBytes::default());
    for counters in [far, port.counters()] {
        assert_eq!((counters.placed_bytes, counters.landed_bytes, counters.large_sent_bytes), (bytes_in_all, 0, 0));
    }
}

/// A panic names the seed.
struct FailedSeed(u64);

impl Drop for FailedSeed {
    fn drop(&mut self) {
        println!("seed {} failed", self.0);
    }
}
