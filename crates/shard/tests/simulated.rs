//! A shard over a simulated link: readiness edges alone keep its connections going.

use broker::{Broker, BrokerOptions, ConnectionSlot};
use catalog::{Catalog, CatalogLimits, Definition, Name, Password, Permission, ShardId};
use federation::limits::BACK_OFF_MIN;
use federation::{
    AckMode, FederationCommand, LinkKey, LinkLogin, LinkSpec, LinkState, RouteDirection, RouteKind, RouteSpec,
};
use link::sim::{SimConnection, SimCut, SimLink, SimOptions, SimSide, pair};
use link::{Link, ReceiveOutcome};
use session::{BodyOut, Event, Greeting, Inbound, Outbound, PublishHead, SessionLimits};
use shard::{DialedLink, Mailbox, Shard, ShardEffects, ShardOptions, ShardWaker, SharedState, TickOutcome, WakeTarget};
use slab::{Pool, PoolOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::method::{basic, connection, queue};
use wire::{ChannelNumber, Method, ShortStr, Table, TableRef, Value};

struct IgnoreWake;

impl WakeTarget for IgnoreWake {
    fn wake(&self) {}
}

#[expect(clippy::disallowed_methods, reason = "simulated time needs some instant to count from")]
fn some_instant() -> Instant {
    Instant::now()
}

/// A shard alone, whose connections may have so many bytes waiting.
fn shard(output_bytes_max: usize) -> Shard {
    named_shard("harrier", output_bytes_max, 0)
}

/// A shard of a broker with this name, which proposes a heartbeat.
fn named_shard(name: &str, output_bytes_max: usize, heartbeat_s: u16) -> Shard {
    let mail = Mailbox::connect(&[ShardWaker::new(Box::new(IgnoreWake))]).pop().expect("mail for one");
    let shared = Arc::new(SharedState::new(1, 1 << 30, 10));
    shared.assign_connection().expect("there is room for ten");
    let mut catalog = Catalog::new(CatalogLimits::default());
    let (vhost, user) = (Name::from("/"), Name::from("guest"));
    let password = Password::plain("guest");
    for definition in [
        Definition::CreateVhost { name: vhost.clone() },
        Definition::PutUser { name: user.clone(), password, tags: vec![], loopback_only: true },
        Definition::SetPermission { user, vhost, permission: Permission::all() },
    ] {
        catalog.execute(&definition).expect("a fresh catalog takes its first definitions");
    }
    let can = ["publisher_confirms", "basic.nack"];
    let can = can.iter().fold(Table::new(), |table, name| table.with(name, Value::Bool(true)).expect("short"));
    let properties = Table::new().with("capabilities", Value::Table(can)).expect("short");
    let properties = properties.with("cluster_name", Value::text(name)).expect("short");
    let options = ShardOptions {
        shard: ShardId(0),
        session: SessionLimits { heartbeat_s, ..SessionLimits::default() },
        rdma_frame_bytes_max: session::limits::BODY_FRAME_BYTES_MAX,
        greeting: Arc::new(Greeting::new(&properties, "PLAIN")),
        login_timeout: Duration::from_secs(10),
        epoch: some_instant(),
        epoch_unix_us: 0,
        clock: some_instant,
        cluster_name: name.into(),
    };
    let broker_options = BrokerOptions {
        shard: ShardId(0),
        shards: 1,
        queue_bytes_max: 1 << 30,
        epoch_unix_s: 1_000_000_000,
        work_per_turn: broker::limits::WORK_PER_TURN,
        consumer_timeout_ms: 0,
    };
    let broker = Broker::new(broker_options, catalog);
    Shard::new(
        options,
        broker,
        ShardEffects::new(Pool::new(PoolOptions::default()), mail, output_bytes_max, [7; 32]),
        shared,
    )
}

/// A client, which counts the answers and the deliveries that it gets.
struct SimulatedClient {
    link: SimLink,
    cable: SimConnection,
    slot: ConnectionSlot,
    inbound: Inbound,
    out: Outbound,
    kept: Vec<u8>,
    pool: Pool,
    is_open: bool,
    answers: usize,
    deliveries: usize,
}

enum ClientEvent {
    LogIn,
    Tune(connection::Tune),
    OpenChannel,
    Open,
    Answer,
    Delivery,
}

impl SimulatedClient {
    fn send_method<'a>(&mut self, method: impl Into<Method<'a>>) {
        self.out.method(&self.pool, ChannelNumber(1), &method.into());
        self.send();
    }

    fn send(&mut self) {
        if !self.out.is_empty() {
            self.link.send(self.out.gather_mut(&self.pool)).expect("the link is whole");
        }
    }

    fn read(&mut self) {
        let mut scratch = vec![0; 300_000];
        loop {
            let have = self.kept.len();
            scratch[..have].copy_from_slice(&self.kept);
            let bytes = match self.link.receive(&mut [], &mut scratch[have..]).expect("the link is whole") {
                ReceiveOutcome::Bytes { bytes, .. } => bytes,
                ReceiveOutcome::Idle => return,
                ReceiveOutcome::Closed => panic!("nobody closes"),
            };
            let mut input = &scratch[..have + bytes];
            loop {
                let step = match self.inbound.next(&mut input, &mut self.out, &self.pool).expect("no fault") {
                    None => break,
                    Some(Event::Start(_)) => ClientEvent::LogIn,
                    Some(Event::Tune(tune)) => ClientEvent::Tune(tune),
                    Some(Event::OpenOk) => ClientEvent::OpenChannel,
                    Some(Event::ChannelOpened { .. }) => ClientEvent::Open,
                    Some(Event::Method { .. }) => ClientEvent::Answer,
                    Some(Event::Deliver { .. }) => ClientEvent::Delivery,
                    Some(other) => panic!("{other:?}"),
                };
                let (inbound, out, pool) = (&mut self.inbound, &mut self.out, &self.pool);
                match step {
                    ClientEvent::LogIn => inbound.log_in("PLAIN", b"\0guest\0guest", TableRef::EMPTY, out, pool),
                    ClientEvent::Tune(tune) => {
                        inbound.tune(&tune, &SessionLimits::default(), out, pool);
                        inbound.open(ShortStr::literal("/"), out, pool);
                    }
                    ClientEvent::OpenChannel => assert_eq!(inbound.open_channel(out, pool), Some(ChannelNumber(1))),
                    ClientEvent::Open => self.is_open = true,
                    ClientEvent::Answer => self.answers += 1,
                    ClientEvent::Delivery => self.deliveries += 1,
                }
            }
            self.kept = input.to_vec();
        }
    }
}

/// Edges to the shard and ticks, for as long as it asks for them.
fn tick_while_busy(shard: &mut Shard, client: &SimulatedClient, now: Instant) {
    let cable = &client.cable;
    loop {
        let edges = cable.take_edges(SimSide::Right);
        if edges.any() {
            shard.on_readiness(client.slot, edges.readable, edges.writable, edges.closed);
        }
        if shard.tick(now) != TickOutcome::More && !cable.has_edges(SimSide::Right) {
            return;
        }
    }
}

/// A client with an open channel.
fn connect_client(shard: &mut Shard, now: Instant) -> SimulatedClient {
    let (near, far, cable) = pair(&SimOptions { window_bytes: 700, ..SimOptions::faultless() });
    let slot = shard.accept(Box::new(far), now);
    let mut client = SimulatedClient {
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
        tick_while_busy(shard, &client, now);
        client.read();
    }
    client
}

/// Closes the link of a client, and waits until the shard has noticed.
fn disconnect(shard: &mut Shard, client: SimulatedClient, now: Instant) {
    let (cable, slot) = (client.cable.clone(), client.slot);
    drop(client);
    while !cable.is_closed(SimSide::Right) {
        let edges = cable.take_edges(SimSide::Right);
        shard.on_readiness(slot, edges.readable, edges.writable, edges.closed);
        shard.tick(now);
    }
}

/// A consumer of `q` with so much to read that the broker reads nothing of it.
fn blocked_consumer(shard: &mut Shard, now: Instant) -> SimulatedClient {
    let (mut consumer, mut publisher) = (connect_client(shard, now), connect_client(shard, now));
    let queue = ShortStr::literal("q");
    let arguments = TableRef::EMPTY;
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, false);
    consumer.send_method(queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    let (consumer_tag, no_local, no_ack) = (ShortStr::literal("c"), false, true);
    consumer.send_method(basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments });
    tick_while_busy(shard, &consumer, now);
    consumer.read();
    assert_eq!(consumer.answers, 2);

    // One delivery fills the link and more than its share behind it.
    let head = PublishHead { exchange: b"", routing_key: b"q", mandatory: false, immediate: false };
    publisher.out.publish(&publisher.pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Copy(&[1; 2_000]));
    while !publisher.out.is_empty() {
        publisher.send();
        tick_while_busy(shard, &publisher, now);
    }
    assert!(shard.effects().output_bytes() >= 800);
    disconnect(shard, publisher, now);
    consumer
}

#[test]
fn a_client_that_did_not_read_is_served_again_once_it_reads() {
    let now = some_instant();
    let mut shard = shard(400);
    let mut consumer = blocked_consumer(&mut shard, now);
    // The question arrives while the broker does not read on; no edge will tell of it again.
    consumer.send_method(basic::Qos { prefetch_size: 0, prefetch_count: 1, global: false });
    tick_while_busy(&mut shard, &consumer, now);
    assert!(consumer.cable.unread_bytes(SimSide::Right) > 0, "a broker that is not read from reads on");
    // Each edge is reported once: a shard that forgets one stops serving the connection.
    for round in 0..10 {
        consumer.read();
        tick_while_busy(&mut shard, &consumer, now + round * Duration::from_millis(20));
    }
    assert_eq!((consumer.deliveries, consumer.answers), (1, 3));
}

#[test]
fn a_client_that_reads_nothing_stays_connected_only_while_it_sends_heartbeats() {
    let began = some_instant();
    let mut shard = named_shard("harrier", 400, 10);
    let mut consumer = blocked_consumer(&mut shard, began);
    let mut now = began;
    for _ in 0..20 {
        now += Duration::from_secs(5);
        consumer.out.heartbeat(&consumer.pool);
        consumer.send();
        tick_while_busy(&mut shard, &consumer, now);
    }
    assert_eq!(shard.connections(), 1, "its heartbeats arrive, though nobody reads them");
    while consumer.deliveries == 0 {
        consumer.read();
        tick_while_busy(&mut shard, &consumer, now);
    }
    disconnect(&mut shard, consumer, now);

    let consumer = blocked_consumer(&mut shard, now);
    consumer.cable.cut(SimCut::Silence);
    for _ in 0..6 {
        now += Duration::from_secs(5);
        tick_while_busy(&mut shard, &consumer, now);
    }
    assert_eq!(shard.connections(), 0, "nothing arrives of it");
}

/// The other end of a link, and the numbers of its ends.
struct BrokerCable {
    cable: SimConnection,
    slots: [ConnectionSlot; 2],
}

/// What has arrived at an end of a link is carried out.
fn serve(shard: &mut Shard, joint: &BrokerCable, side: SimSide, now: Instant) {
    joint.cable.step();
    let edges = joint.cable.take_edges(side);
    if edges.any() {
        shard.on_readiness(joint.slots[side as usize], edges.readable, edges.writable, edges.closed);
    }
    shard.tick(now);
}

#[test]
fn a_link_dials_again_once_the_connection_that_it_closed_is_gone() {
    let began = some_instant();
    let (mut source, mut destination) = (named_shard("source", 1 << 20, 0), named_shard("destination", 1 << 20, 0));
    let mut client = connect_client(&mut source, began);
    let (queue, arguments) = (ShortStr::literal("orders"), TableRef::EMPTY);
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, false);
    client.send_method(queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    tick_while_busy(&mut source, &client, began);
    let key = LinkKey::of_operator("/".into(), "destination".into());
    let url = "amqp://destination".into();
    let link = LinkSpec { key: key.clone(), url, user: "guest".into(), durable: false, options: Default::default() };
    let route = RouteSpec {
        exchange: "amq.direct".into(),
        kind: RouteKind::Queue { queue: "orders".into() },
        direction: RouteDirection::Push,
        ack: AckMode::None,
        credit: 0,
        hops_max: 8,
        durable: false,
        forced: false,
        dead_letter_exchange: None,
        options: Default::default(),
    };
    source.federate(FederationCommand::AddLink(link.clone()), began);
    source.federate(FederationCommand::AddRoute(key.clone(), route.clone()), began);
    let mut now = began;
    for forgets in [false, true] {
        let Some(dial) = (0..100).find_map(|_| {
            now += BACK_OFF_MIN;
            source.tick(now);
            source.next_dial()
        }) else {
            panic!("nobody dials: {:?}", source.link_statuses(now));
        };
        let (near, far, cable) = pair(&SimOptions::faultless());
        let name = |text: &str| text.into();
        let login = LinkLogin {
            user: name("guest"),
            password: name("guest"),
            vhost: name("/"),
            address: name("destination"),
            external: false,
        };
        let there = destination.accept(Box::new(far), now);
        let dialled = DialedLink { link: Box::new(near), login, bootstrap: None };
        let here = source.on_dial_outcome(&dial, Ok(dialled), now).expect("it is wanted");
        let joint = BrokerCable { cable, slots: [here, there] };
        while source.link_statuses(now).iter().any(|link| link.state != LinkState::Running) {
            serve(&mut source, &joint, SimSide::Left, now);
            serve(&mut destination, &joint, SimSide::Right, now);
        }
        // The destination is busy, and has not read the end.
        if forgets {
            source.federate(FederationCommand::RemoveLink(key.clone()), now);
            source.federate(FederationCommand::AddLink(link.clone()), now);
        } else {
            source.federate(FederationCommand::RemoveRoute(key.clone(), route.clone()), now);
        }
        source.federate(FederationCommand::AddRoute(key.clone(), route.clone()), now);
        for _ in 0..20 {
            now += BACK_OFF_MIN;
            serve(&mut source, &joint, SimSide::Left, now);
            assert_eq!(source.next_dial(), None, "what is under way on the old connection comes first");
        }
        while !joint.cable.is_closed(SimSide::Left) {
            serve(&mut destination, &joint, SimSide::Right, now);
            serve(&mut source, &joint, SimSide::Left, now);
        }
    }
    now += BACK_OFF_MIN;
    source.tick(now);
    now += BACK_OFF_MIN;
    source.tick(now);
    assert!(source.next_dial().is_some());
}
