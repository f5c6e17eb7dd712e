//! A shard over a simulated link: what a reactor's edges alone must keep going.

use broker::{Broker, BrokerOptions};
use catalog::{Catalog, Definition, Limits, Name, Password, Permission, ShardId};
use link::sim::{Cable, Side, SimLink, SimOptions, pair};
use link::{Link, Received};
use session::{BodyOut, Event, Greeting, Inbound, Outbound, PublishHead, SessionLimits};
use shard::{Bell, Desk, Doorbell, Household, Mail, Shard, ShardOptions, Work};
use slab::{Pool, PoolOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::method::{basic, connection, queue};
use wire::{Method, ShortStr, Table, TableRef};

struct NoBell;

impl Bell for NoBell {
    fn ring(&self) {}
}

#[expect(clippy::disallowed_methods, reason = "simulated time needs some instant to count from")]
fn some_instant() -> Instant {
    Instant::now()
}

/// A shard alone, whose connections may have so many bytes waiting.
fn shard(output_bytes_max: usize) -> Shard {
    let mail = Mail::connect(&[Doorbell::new(Box::new(NoBell))]).pop().expect("mail for one");
    let household = Arc::new(Household::new(1, 1 << 30, 10));
    household.place_connection().expect("there is room for ten");
    let mut catalog = Catalog::new(Limits::default());
    let (vhost, user) = (Name::from("/"), Name::from("guest"));
    let password = Password::plain("guest");
    for definition in [
        Definition::CreateVhost { name: vhost.clone() },
        Definition::PutUser { name: user.clone(), password, tags: vec![], loopback_only: true },
        Definition::SetPermission { user, vhost, permission: Permission::all() },
    ] {
        catalog.execute(&definition).expect("a fresh catalog takes its first definitions");
    }
    let options = ShardOptions {
        shard: ShardId(0),
        session: SessionLimits { heartbeat_s: 0, ..SessionLimits::default() },
        rdma_frame_bytes_max: session::limits::BODY_FRAME_BYTES_MAX,
        greeting: Arc::new(Greeting::new(&Table::default(), "PLAIN")),
        login_timeout: Duration::from_secs(10),
        epoch: some_instant(),
    };
    let broker_options = BrokerOptions {
        shard: ShardId(0),
        shards: 1,
        queue_bytes_max: 1 << 30,
        epoch_unix_s: 1_000_000_000,
        consumer_timeout_ms: 0,
    };
    let broker = Broker::new(broker_options, catalog);
    Shard::new(
        options,
        broker,
        Desk::new(Pool::new(PoolOptions::default()), mail, output_bytes_max, [7; 32]),
        household,
    )
}

/// A client, which counts the answers and the deliveries that it gets.
struct Client {
    link: SimLink,
    cable: Cable,
    slot: u32,
    inbound: Inbound,
    out: Outbound,
    kept: Vec<u8>,
    pool: Pool,
    is_open: bool,
    answers: usize,
    deliveries: usize,
}

enum Step {
    LogIn,
    Tune(connection::Tune),
    OpenChannel,
    Open,
    Answer,
    Delivery,
}

impl Client {
    fn say<'a>(&mut self, method: impl Into<Method<'a>>) {
        self.out.method(&self.pool, 1, &method.into());
        self.send();
    }

    fn send(&mut self) {
        if !self.out.is_empty() {
            self.link.send(self.out.gather_mut()).expect("the link is whole");
        }
    }

    fn read(&mut self) {
        let mut scratch = vec![0; 300_000];
        loop {
            let have = self.kept.len();
            scratch[..have].copy_from_slice(&self.kept);
            let bytes = match self.link.receive(&mut [], &mut scratch[have..]).expect("the link is whole") {
                Received::Bytes { bytes, .. } => bytes,
                Received::Idle => return,
                Received::Closed => panic!("nobody closes"),
            };
            let mut input = &scratch[..have + bytes];
            loop {
                let step = match self.inbound.next(&mut input, &mut self.out, &self.pool).expect("no fault") {
                    None => break,
                    Some(Event::Start(_)) => Step::LogIn,
                    Some(Event::Tune(tune)) => Step::Tune(tune),
                    Some(Event::OpenOk) => Step::OpenChannel,
                    Some(Event::ChannelOpened { .. }) => Step::Open,
                    Some(Event::Method { .. }) => Step::Answer,
                    Some(Event::Deliver { .. }) => Step::Delivery,
                    Some(other) => panic!("{other:?}"),
                };
                let (inbound, out, pool) = (&mut self.inbound, &mut self.out, &self.pool);
                match step {
                    Step::LogIn => inbound.log_in("PLAIN", b"\0guest\0guest", TableRef::EMPTY, out, pool),
                    Step::Tune(tune) => {
                        inbound.tune(&tune, &SessionLimits::default(), out, pool);
                        inbound.open(ShortStr::literal("/"), out, pool);
                    }
                    Step::OpenChannel => assert_eq!(inbound.open_channel(out, pool), Some(1)),
                    Step::Open => self.is_open = true,
                    Step::Answer => self.answers += 1,
                    Step::Delivery => self.deliveries += 1,
                }
            }
            self.kept = input.to_vec();
        }
    }
}

/// Edges to the shard and ticks, for as long as it asks for them.
fn run(shard: &mut Shard, client: &Client, now: Instant) {
    let cable = &client.cable;
    loop {
        let edges = cable.take_edges(Side::Right);
        if edges.any() {
            shard.edge(client.slot, edges.readable, edges.writable, edges.closed);
        }
        if shard.tick(now) != Work::More && !cable.has_edges(Side::Right) {
            return;
        }
    }
}

/// A client with an open channel.
fn arrive(shard: &mut Shard, now: Instant) -> Client {
    let (near, far, cable) = pair(&SimOptions { window_bytes: 700, ..SimOptions::faultless() });
    let slot = shard.accept(Box::new(far), now);
    let mut client = Client {
        link: near,
        cable,
        slot,
        inbound: Inbound::client(&SessionLimits::default()),
        out: Outbound::new(),
        kept: Vec::new(),
        pool: Pool::new(PoolOptions::default()),
        is_open: false,
        answers: 0,
        deliveries: 0,
    };
    client.out.protocol_header(&client.pool);
    while !client.is_open {
        client.send();
        run(shard, &client, now);
        client.read();
    }
    client
}

#[test]
fn a_client_that_did_not_read_is_served_again_once_it_reads() {
    let now = some_instant();
    let mut shard = shard(400);
    let (mut consumer, mut publisher) = (arrive(&mut shard, now), arrive(&mut shard, now));
    let queue = ShortStr::literal("q");
    let arguments = TableRef::EMPTY;
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, false);
    consumer.say(queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    let (consumer_tag, no_local, no_ack) = (ShortStr::literal("c"), false, true);
    consumer.say(basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments });
    run(&mut shard, &consumer, now);
    consumer.read();
    assert_eq!(consumer.answers, 2);

    // One delivery fills the link and more than its share behind it.
    let head = PublishHead { exchange: b"", routing_key: b"q", mandatory: false, immediate: false };
    publisher.out.publish(&publisher.pool, 1, &head, &[0, 0], BodyOut::Copy(&[1; 2_000]));
    while !publisher.out.is_empty() {
        publisher.send();
        run(&mut shard, &publisher, now);
    }
    assert!(shard.desk().output_bytes() >= 800);

    // The question arrives while the broker does not read on; no edge will tell of it again.
    consumer.say(basic::Qos { prefetch_size: 0, prefetch_count: 1, global: false });
    run(&mut shard, &consumer, now);
    assert!(consumer.cable.bytes_for(Side::Right) > 0, "a broker that is not read from reads on");
    // Edges are told once: who forgets one here stands still.
    for round in 0..10 {
        consumer.read();
        run(&mut shard, &consumer, now + round * Duration::from_millis(20));
    }
    assert_eq!((consumer.deliveries, consumer.answers), (1, 3));
}
