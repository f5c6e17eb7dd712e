//! Large bodies are not copied, work goes out in batches, and a round rings one doorbell a link.

mod world;

use link::{Link, ReceiveOutcome};
use slab::{BlockMut, Gather, Slice};
use verbs::PortSettings;
use verbs::sim::FabricOptions;
use world::{SimVerbsLink, TestWorld, bytes, settings};

const HEAD: &[u8] = b"a head of some bytes";

/// Receives a head by `receive`, then a body into lent memory.
struct BodyReceiver {
    link: SimVerbsLink,
    head: Vec<u8>,
    body: Option<BlockMut>,
    is_lent: bool,
}

impl BodyReceiver {
    fn new(link: SimVerbsLink) -> BodyReceiver {
        BodyReceiver { link, head: Vec::new(), body: None, is_lent: false }
    }

    fn turn(&mut self, world: &TestWorld, body_bytes: usize) -> bool {
        let mut scratch = [0; HEAD.len()];
        let room = HEAD.len() - self.head.len();
        if room == 0 && !self.is_lent {
            self.link.lend(world.pool.block(body_bytes), 0..body_bytes).expect("it takes memory");
            self.is_lent = true;
        }
        match self.link.receive(&mut [], &mut scratch[..room]).expect("open") {
            ReceiveOutcome::Bytes { bytes, .. } if room > 0 => self.head.extend_from_slice(&scratch[..bytes]),
            ReceiveOutcome::Bytes { .. } => {
                let filled = self.link.take_filled().expect("all of it is there");
                assert_eq!(filled.copied_bytes, 0, "all of it was fetched");
                self.body = Some(filled.memory);
            }
            ReceiveOutcome::Idle => {}
            ReceiveOutcome::Closed => panic!("nobody closed"),
        }
        self.body.is_some()
    }
}

fn message(world: &TestWorld, body: &Slice) -> Gather {
    let mut out = Gather::new();
    out.extend(&world.pool, HEAD);
    out.push(body.clone());
    out
}

fn send_all(world: &TestWorld, link: &mut SimVerbsLink, mut out: Gather) {
    world.until("the message is taken", || {
        link.send(&mut out).expect("open");
        out.is_empty()
    });
}

#[test]
fn a_large_body_goes_from_a_publisher_to_32_consumers_without_a_copy() {
    let cases = [(false, 16 * 1_024, 32), (false, 1 << 20, 32), (true, 100_000, 32), (true, 20 << 20, 2)];
    for (corked, body_bytes, consumer_count) in cases {
        let settings = PortSettings {
            corked,
            receive_buffers: 64 * 16,
            granted_bytes_max: 64 << 20,
            fetch_max: std::time::Duration::from_secs(60),
            ..settings()
        };
        // The broker is the second port.
        let world = TestWorld::new(&FabricOptions::faultless(), &[settings.clone(), settings]);
        let (mut publisher, broker_in) = world.connect();
        let consumers: Vec<_> = (0..consumer_count).map(|_| world.connect()).collect();
        let body = world.pool.copy(&bytes(0, body_bytes));
        send_all(&world, &mut publisher, message(&world, &body));
        let mut broker_in = BodyReceiver::new(broker_in);
        world.until("the body is at the broker", || broker_in.turn(&world, body_bytes));
        let kept = broker_in.body.take().expect("just received").freeze();
        assert!(kept[..] == body[..], "the bytes differ");
        let mut receivers = Vec::new();
        for (near, mut far) in consumers {
            send_all(&world, &mut far, message(&world, &kept));
            receivers.push((BodyReceiver::new(near), far));
        }
        world.until("the body is with everyone", || {
            receivers.iter_mut().fold(true, |all, (receiver, _)| receiver.turn(&world, body_bytes) && all)
        });
        assert!(receivers.iter().all(|(receiver, _)| receiver.body.as_deref() == Some(&body[..])));
        let (clients, broker) = (world.ports[0].counters(), world.ports[1].counters());
        assert_eq!(broker.placed_bytes, body_bytes as u64);
        assert_eq!(clients.placed_bytes, (consumer_count * body_bytes) as u64);
        for counters in [clients, broker] {
            assert_eq!((counters.landed_bytes, counters.large_sent_bytes), (0, 0), "copied above the threshold");
        }
        assert_eq!(broker.copied_bytes, HEAD.len() as u64, "only heads are copied");
        assert_eq!(clients.copied_bytes, (consumer_count * HEAD.len()) as u64);
    }
}

#[test]
fn a_round_of_sends_rings_the_device_once() {
    let settings = PortSettings { corked: true, credits: 40, ..settings() };
    let world = TestWorld::new(&FabricOptions::faultless(), &[settings.clone(), settings]);
    let (mut near, mut far) = world.connect();
    world.steps(3);
    let before = [0, 1].map(|at| world.ports[at].counters());
    const ROUNDS: u64 = 200;
    let mut received = 0;
    for round in 0..ROUNDS {
        for piece in 0..5 {
            // Small enough to go within the work itself.
            let mut out = Gather::new();
            out.extend(&world.pool, &bytes((round * 5 + piece) as usize * 20, 20));
            near.send(&mut out).expect("open");
            assert!(out.is_empty(), "the credits of a round suffice");
        }
        world.step();
        world.step();
        received += world::drain(&mut far).expect("open").0.len();
    }
    assert_eq!(received, ROUNDS as usize * 100);
    let after = [0, 1].map(|at| world.ports[at].counters());
    assert_eq!(after[0].doorbells - before[0].doorbells, ROUNDS, "one a round");
    assert!(after[1].doorbells - before[1].doorbells <= ROUNDS, "credits go together");
    let signalled = after[0].signalled - before[0].signalled;
    assert!(signalled <= ROUNDS * 5 / 16 + 2, "one completion in sixteen: {signalled}");
}

#[test]
fn an_idle_connection_lives_on_pings() {
    let world = TestWorld::new(&FabricOptions::faultless(), &[settings(), settings()]);
    let (mut near, mut far) = world.connect();
    let sent = |at: usize| world.ports[at].counters().messages_sent;
    // Thirty times the silence that ends a connection.
    world.steps(30 * 2_400);
    assert!(sent(0) + sent(1) > 60 && sent(0) + sent(1) < 1_000, "{} and {}", sent(0), sent(1));
    let mut out = Gather::new();
    out.extend(&world.pool, b"still here");
    near.send(&mut out).expect("open");
    world.steps(3);
    assert_eq!(world::drain(&mut far).expect("open").0, b"still here");
}

#[test]
fn a_refused_client_is_told_why() {
    let closed = PortSettings { accepts_direct: false, ..settings() };
    let world = TestWorld::new(&FabricOptions::faultless(), &[settings(), closed]);
    for (address, expect) in [("1", "a token is needed"), ("nowhere", "nobody listens there")] {
        let mut near = world.ports[0].connect(address, None).expect("there is room");
        let mut end = None;
        world.until("an end", || {
            end = near.receive(&mut [], &mut [0; 1]).err().map(|error| error.to_string());
            end.is_some()
        });
        assert!(end.as_deref().is_some_and(|end| end.contains(expect)), "{end:?}");
    }
    let token = verbs::RdmaToken([9; 16]);
    assert!(world.ports[1].expect_token(token));
    let _near = world.ports[0].connect("1", Some(token)).expect("there is room");
    world.until("an accepted link", || world.ports[1].accept().is_some_and(|far| far.token() == Some(token)));
}
