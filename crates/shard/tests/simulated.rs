//! A shard over a simulated link: what a reactor's edges alone must keep going.

use broker::{Broker, BrokerOptions};
use catalog::{Catalog, Definition, Limits, Name, Password, Permission, ShardId};
use link::sim::{Cable, Side, SimLink, SimOptions, pair};
use link::{Link, Received};
use session::{Event, Greeting, Inbound, Outbound, SessionLimits};
use shard::{Bell, Desk, Doorbell, Household, Mail, Shard, ShardOptions, Work};
use slab::{Pool, PoolOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::method::{basic, connection};
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
        greeting: Arc::new(Greeting::new(&Table::default(), "PLAIN")),
        login_timeout: Duration::from_secs(10),
    };
    let broker = Broker::new(BrokerOptions { shard: ShardId(0), shards: 1, queue_bytes_max: 1 << 30 }, catalog);
    Shard::new(
        options,
        broker,
        Desk::new(Pool::new(PoolOptions::default()), mail, output_bytes_max, [7; 32]),
        household,
    )
}

/// A client, which counts the answers to `basic.qos`.
struct Client {
    link: SimLink,
    cable: Cable,
    inbound: Inbound,
    out: Outbound,
    kept: Vec<u8>,
    pool: Pool,
    is_open: bool,
    answers: usize,
}

enum Step {
    LogIn,
    Tune(connection::Tune),
    OpenChannel,
    Open,
    Answer,
}

impl Client {
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
                    Some(Event::Method { method: Method::BasicQosOk(_), .. }) => Step::Answer,
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
                }
            }
            self.kept = input.to_vec();
        }
    }
}

/// Edges to the shard and ticks, for as long as it asks for them.
fn run(shard: &mut Shard, slot: u32, cable: &Cable, now: Instant) {
    loop {
        let edges = cable.take_edges(Side::Right);
        if edges.any() {
            shard.edge(slot, edges.readable, edges.writable, edges.closed);
        }
        if shard.tick(now) != Work::More && !cable.has_edges(Side::Right) {
            return;
        }
    }
}

#[test]
fn a_client_that_asks_and_does_not_read_is_served_again_once_it_reads() {
    const QUESTIONS: usize = 2_000;
    let now = some_instant();
    // Neither the questions nor the answers fit the link, and only a few answers may wait for it.
    let options = SimOptions { window_bytes: 700, ..SimOptions::faultless() };
    let (near, far, cable) = pair(&options);
    let mut shard = shard(400);
    let slot = shard.accept(Box::new(far), now);
    let limits = SessionLimits::default();
    let (inbound, out, pool) = (Inbound::client(&limits), Outbound::new(), Pool::new(PoolOptions::default()));
    let mut client =
        Client { link: near, cable: cable.clone(), inbound, out, kept: Vec::new(), pool, is_open: false, answers: 0 };
    client.out.protocol_header(&client.pool);
    while !client.is_open {
        client.send();
        run(&mut shard, slot, &cable, now);
        client.read();
    }
    for _ in 0..QUESTIONS {
        let qos = basic::Qos { prefetch_size: 0, prefetch_count: 1, global: false };
        client.out.method(&client.pool, 1, &qos.into());
    }
    // It asks for as long as anything moves, and reads nothing.
    loop {
        let before = client.out.bytes();
        client.send();
        run(&mut shard, slot, &cable, now);
        if client.out.bytes() == before {
            break;
        }
    }
    assert!(client.out.bytes() > 0, "a broker that is not read from does not read on");
    assert!(shard.desk().output_bytes() < 10 * 400, "{} bytes wait", shard.desk().output_bytes());
    // Edges are told once: who forgets one here stands still.
    loop {
        let before = client.answers;
        client.read();
        run(&mut shard, slot, &client.cable, now);
        client.send();
        run(&mut shard, slot, &client.cable, now);
        if client.answers == before && client.out.is_empty() {
            break;
        }
        assert!(client.answers > before, "{} of {QUESTIONS} are answered, and nothing moves", client.answers);
    }
    assert_eq!(client.answers, QUESTIONS);
}
