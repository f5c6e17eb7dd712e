//! A shard and its clients on one thread, over RDMA links of simulated devices and over a simulated cable.
#![allow(dead_code, reason = "each test uses a part of it")]

use broker::{Broker, BrokerOptions, ConnectionSlot};
use catalog::{Catalog, CatalogLimits, Definition, Name, Password, Permission, ShardId};
use link::sim::{SimConnection, SimOptions, SimSide, pair};
use link::{AbortReason, FilledMemory, Link, LinkError, ReceiveOutcome};
use queues::MessageStorage;
use session::limits::FRAME_BYTES_CEILING;
use session::{Body, BodyOut, Event, Greeting, Inbound, Outbound, PublishHead, SessionLimits};
use shard::{
    CopiedBytes, Mailbox, Shard, ShardEffects, ShardOptions, ShardWaker, SharedState, TickOutcome, WakeTarget,
};
use slab::{Pool, PoolOptions, Slice};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbs::sim::{Fabric, FabricOptions, STEP, SimDevice};
use verbs::{LinkId, Port, PortSettings};
use wire::method::{basic, connection, queue};
use wire::{ChannelNumber, Method, ShortStr, Table, TableRef};

/// Steps within which anything must have happened.
const STEPS_MAX: usize = 400_000;
/// What a client reads at once.
const READ_BYTES_MAX: usize = 8 * 1_024;
/// Bytes of sent heads that may still be in use: chunks of a connection's output, until a completion covers them.
pub const HEADS_BYTES_MAX: usize = 80 * 1_024;
/// The ports of clients and broker.
pub const NEAR: usize = 0;
pub const FAR: usize = 1;

struct NoWakeUp;

impl WakeTarget for NoWakeUp {
    fn wake(&self) {}
}

#[expect(clippy::disallowed_methods, reason = "simulated time needs some instant to count from")]
fn some_instant() -> Instant {
    Instant::now()
}

/// What a broker may have.
pub struct ShardBounds {
    pub memory_bytes_max: u64,
    pub output_bytes_max: usize,
}

impl Default for ShardBounds {
    fn default() -> Self {
        ShardBounds { memory_bytes_max: 1 << 40, output_bytes_max: 4 << 20 }
    }
}

fn shard(bounds: &ShardBounds, now: Instant) -> Shard {
    let mail = Mailbox::connect(&[ShardWaker::new(Box::new(NoWakeUp))]).pop().expect("mail for one");
    let shared = Arc::new(SharedState::new(1, bounds.memory_bytes_max, 1_000));
    let mut catalog = Catalog::new(CatalogLimits::default());
    let (vhost, user) = (Name::from("/"), Name::from("guest"));
    let password = Password::plain("guest");
    for definition in [
        Definition::CreateVhost { name: vhost.clone() },
        Definition::PutUser { name: user.clone(), password, tags: vec![], loopback_only: false },
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
        epoch: now,
        epoch_unix_us: 0,
        clock: some_instant,
        cluster_name: "harrier".into(),
    };
    let broker_options = BrokerOptions {
        shard: ShardId(0),
        shards: 1,
        queue_bytes_max: 1 << 40,
        epoch_unix_s: 1_000_000_000,
        work_per_turn: broker::limits::WORK_PER_TURN,
        consumer_timeout_ms: 0,
    };
    let effects = ShardEffects::new(Pool::new(PoolOptions::default()), mail, bounds.output_bytes_max, [7; 32]);
    Shard::new(options, Broker::new(broker_options, catalog), effects, shared)
}

/// PortSettings for a broker with many clients. Times are the defaults, but for the time to close a connection whose peer reads nothing.
pub fn settings() -> PortSettings {
    let ending_max = Duration::from_millis(50);
    PortSettings {
        receive_buffers: 1_024,
        landing_blocks: 4,
        accepts_direct: true,
        ending_max,
        ..PortSettings::default()
    }
}

/// The bytes of a message's body: its own, whatever its size.
pub fn body(number: u64, bytes: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ bytes as u64;
    let mut body = Vec::with_capacity(bytes + 8);
    while body.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        body.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    body.truncate(bytes);
    body
}

pub struct VerbsHarness {
    pub fabric: Fabric,
    /// Of the ports' buffers.
    pool: Pool,
    pub ports: [Port<SimDevice>; 2],
    pub settings: PortSettings,
    pub shard: Shard,
    slots: HashMap<LinkId, ConnectionSlot>,
    cables: Vec<(SimConnection, ConnectionSlot)>,
    pub now: Instant,
    /// What clients over RDMA want at most in a frame of a body.
    pub frame_bytes_max: u32,
}

impl VerbsHarness {
    pub fn new(options: &FabricOptions, settings: &PortSettings, bounds: &ShardBounds) -> VerbsHarness {
        let near = PortSettings { fetch_max: PortSettings::for_client().fetch_max, ..settings.clone() };
        let fabric = Fabric::new(options);
        let pool = Pool::new(PoolOptions::default());
        let ports = [&near, settings]
            .map(|settings| Port::open(fabric.device(), &pool, settings.clone()).expect("sound settings"));
        ports[FAR].listen("broker").expect("nobody listens there");
        let now = some_instant();
        let shard = shard(bounds, now);
        let (slots, cables, frame_bytes_max) = (HashMap::new(), vec![], FRAME_BYTES_CEILING);
        VerbsHarness { fabric, pool, ports, settings: settings.clone(), shard, slots, cables, now, frame_bytes_max }
    }

    /// One step of time: what devices and cables did, rounds of both ports, and of the shard.
    pub fn step(&mut self) {
        self.now += STEP;
        self.fabric.step();
        for (cable, _) in &self.cables {
            cable.step();
        }
        let mut edges = Vec::new();
        for port in &self.ports {
            port.poll().expect("the device is whole");
        }
        while let Some(link) = self.ports[FAR].accept() {
            let id = link.id();
            let slot = self.shard.accept(Box::new(link), self.now);
            self.slots.insert(id, slot);
        }
        self.ports[FAR].take_edges(&mut edges);
        for (id, edge) in edges.drain(..) {
            if let Some(slot) = self.slots.get(&id) {
                self.shard.on_readiness(*slot, edge.readable, edge.writable, edge.closed);
            }
        }
        for (cable, slot) in &self.cables {
            let edge = cable.take_edges(SimSide::Right);
            if edge.any() {
                self.shard.on_readiness(*slot, edge.readable, edge.writable, edge.closed);
            }
        }
        for _ in 0..100 {
            if self.shard.tick(self.now) != TickOutcome::More {
                break;
            }
        }
        self.ports[NEAR].take_edges(&mut edges);
        self.ports.iter().for_each(Port::flush);
    }

    pub fn until(
        &mut self,
        what: &str,
        clients: &mut [VerbsClient],
        mut holds: impl FnMut(&Self, &[VerbsClient]) -> bool,
    ) {
        for _ in 0..STEPS_MAX {
            if holds(self, clients) {
                return;
            }
            self.step();
            clients.iter_mut().for_each(VerbsClient::poll);
        }
        panic!("not within {STEPS_MAX} steps: {what}");
    }

    /// A client with an open channel, over RDMA.
    pub fn connect(&mut self) -> VerbsClient {
        let link = self.ports[NEAR].connect("broker", None).expect("there is room");
        self.log_in(VerbsClient::new(Box::new(link), self.frame_bytes_max))
    }

    /// As `arrive`, over a cable that copies.
    pub fn connect_by_cable(&mut self) -> VerbsClient {
        let (near, far, cable) = pair(&SimOptions { window_bytes: 100_000, ..SimOptions::faultless() });
        let slot = self.shard.accept(Box::new(far), self.now);
        self.cables.push((cable, slot));
        self.log_in(VerbsClient::new(Box::new(near), FRAME_BYTES_CEILING))
    }

    fn log_in(&mut self, client: VerbsClient) -> VerbsClient {
        let mut client = [client];
        self.until("an open channel", &mut client, |_, client| client[0].is_open);
        let [mut client] = client;
        client.begin_lending();
        client
    }

    /// A client that consumes a queue of that name, which gets what is published to `amq.fanout` as well.
    pub fn consumer(&mut self, name: &str, by_cable: bool) -> VerbsClient {
        let mut client = if by_cable { self.connect_by_cable() } else { self.connect() };
        client.declare(name);
        let name = ShortStr::new(name.as_bytes()).expect("short");
        let (arguments, exclusive, no_wait) = (TableRef::EMPTY, false, false);
        let (exchange, routing_key) = (ShortStr::literal("amq.fanout"), ShortStr::literal(""));
        client.send_method(queue::Bind { queue: name, exchange, routing_key, no_wait, arguments });
        let (consumer_tag, no_local, no_ack) = (ShortStr::literal("c"), false, true);
        client.send_method(basic::Consume {
            queue: name,
            consumer_tag,
            no_local,
            no_ack,
            exclusive,
            no_wait,
            arguments,
        });
        let mut client = [client];
        self.until("a consumer", &mut client, |_, client| client[0].answers == 3);
        let [client] = client;
        client
    }

    /// Messages that wait in queues.
    pub fn queued(&self) -> usize {
        self.shard.broker().queues().map(|queue| queue.ready.len()).sum()
    }

    pub fn copied(&self) -> CopiedBytes {
        self.shard.effects().copied
    }

    /// Bytes of the broker's message memory in use.
    pub fn used_bytes(&self) -> usize {
        self.shard.effects().pool().collect();
        self.shard.effects().pool().used_bytes()
    }

    /// Whatever either port held for a peer is back, once all clients have gone.
    pub fn assert_empty(&mut self) {
        self.until("all connections are cleared away", &mut [], |world, _| {
            world.ports.iter().all(|port| port.usage().connections == 0) && world.shard.connections() == 0
        });
        (0..3).for_each(|_| self.step());
        for port in &self.ports {
            let usage = port.usage();
            assert_eq!(usage.posted_buffers + usage.free_buffers, self.settings.receive_buffers, "{usage:?}");
            assert_eq!(usage.free_landings, self.settings.landing_blocks, "{usage:?}");
            assert_eq!((usage.promised_credits, usage.granted_bytes), (0, 0), "{usage:?}");
        }
    }
}

/// A client: a session in that role, which lends where its link takes it.
pub struct VerbsClient {
    link: Option<Box<dyn Link>>,
    lend_threshold_bytes: usize,
    limits: SessionLimits,
    /// What was settled.
    pub frame_bytes_max: u32,
    inbound: Inbound,
    out: Outbound,
    kept: Vec<u8>,
    pub pool: Pool,
    pub is_open: bool,
    pub answers: usize,
    /// Reads nothing.
    pub is_paused: bool,
    /// Whole messages that came: number and size, once their bodies were looked at.
    pub got: Vec<(u64, usize)>,
    /// Messages that are expected: what came is held against the first of them.
    pub expected: std::collections::VecDeque<(u64, usize)>,
    /// Bytes of large bodies that were copied on their way in.
    pub copied_bytes: u64,
    pub error: Option<LinkError>,
    pub is_over: bool,
}

enum ClientAction {
    Nothing,
    LogIn,
    Tune(connection::Tune),
    OpenChannel,
}

impl VerbsClient {
    fn new(link: Box<dyn Link>, body_frame_bytes_max: u32) -> VerbsClient {
        let limits = SessionLimits { body_frame_bytes_max, ..SessionLimits::default() };
        let mut client = VerbsClient {
            link: Some(link),
            lend_threshold_bytes: usize::MAX,
            limits,
            frame_bytes_max: 0,
            inbound: Inbound::client(&limits),
            out: Outbound::new(),
            kept: Vec::new(),
            pool: Pool::new(PoolOptions::default()),
            is_open: false,
            answers: 0,
            is_paused: false,
            got: Vec::new(),
            expected: Default::default(),
            copied_bytes: 0,
            error: None,
            is_over: false,
        };
        client.out.protocol_header(&client.pool);
        client
    }

    fn begin_lending(&mut self) {
        let Some(link) = &self.link else { return };
        self.lend_threshold_bytes = link.capabilities().lend_threshold_bytes;
        if self.lend_threshold_bytes < usize::MAX {
            self.inbound.lend_from(self.lend_threshold_bytes);
            self.out.set_part_bytes_min(self.lend_threshold_bytes);
        }
    }

    pub fn send_method<'a>(&mut self, method: impl Into<Method<'a>>) {
        self.out.method(&self.pool, ChannelNumber(1), &method.into());
    }

    /// A queue of that name.
    pub fn declare(&mut self, name: &str) {
        let name = ShortStr::new(name.as_bytes()).expect("short");
        let arguments = TableRef::EMPTY;
        let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, false);
        self.send_method(queue::Declare { queue: name, passive, durable, exclusive, auto_delete, no_wait, arguments });
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.out.frames(&self.pool, bytes);
    }

    /// Publishes a body that is in shared memory already.
    pub fn publish(&mut self, exchange: &str, routing_key: &str, body: &Slice) {
        let (exchange, routing_key) = (exchange.as_bytes(), routing_key.as_bytes());
        let head = PublishHead { exchange, routing_key, mandatory: false, immediate: false };
        self.out.publish(&self.pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Share(body));
    }

    pub fn unsent_bytes(&self) -> usize {
        self.out.bytes()
    }

    /// Goes, in order or not.
    pub fn disconnect(&mut self, why: Option<AbortReason>) {
        if let (Some(mut link), Some(why)) = (self.link.take(), why) {
            link.abort(why);
        }
        self.is_over = true;
        self.out.clear();
    }

    /// Sends what it can and reads what is there.
    pub fn poll(&mut self) {
        let Some(link) = &mut self.link else { return };
        if !self.out.is_empty()
            && let Err(error) = link.send(self.out.gather_mut(&self.pool))
        {
            return self.end(Some(error));
        }
        while !self.is_paused {
            match self.receive() {
                Ok(true) => self.parse(),
                Ok(false) => return,
                Err(error) => return self.end(error),
            }
        }
    }

    fn end(&mut self, error: Option<LinkError>) {
        self.disconnect(None);
        self.error = error;
    }

    /// One read; whether it is worth another.
    fn receive(&mut self) -> Result<bool, Option<LinkError>> {
        let Some(link) = &mut self.link else { return Err(None) };
        if self.inbound.direct().len() >= self.lend_threshold_bytes
            && let Some((memory, place)) = self.inbound.lend()
            && let Err(memory) = link.lend(memory, place)
        {
            self.inbound.not_lent(memory);
        }
        let have = self.kept.len();
        let wanted = self.inbound.scratch_bytes_wanted().min(READ_BYTES_MAX);
        self.kept.resize(have + wanted, 0);
        let direct = self.inbound.direct();
        let direct_bytes = direct.len();
        let received = link.receive(direct, &mut self.kept[have..]);
        let bytes = if let Ok(ReceiveOutcome::Bytes { bytes, .. }) = received { bytes } else { 0 };
        let placed = bytes.min(direct_bytes);
        self.kept.truncate(have + bytes - placed);
        self.inbound.direct_filled(placed);
        match received {
            Ok(ReceiveOutcome::Bytes { .. }) if self.lend_threshold_bytes < usize::MAX => {
                let filled = link.take_filled();
                self.copied_bytes += filled.as_ref().map_or(placed, |filled| filled.copied_bytes) as u64;
                if let Some(FilledMemory { memory, .. }) = filled {
                    self.inbound.filled(memory);
                }
                Ok(true)
            }
            Ok(ReceiveOutcome::Bytes { .. }) => Ok(true),
            Ok(ReceiveOutcome::Idle) => Ok(false),
            Ok(ReceiveOutcome::Closed) => Err(None),
            Err(error) => Err(Some(error)),
        }
    }

    fn parse(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let mut input = &kept[..];
        loop {
            let then = match self.inbound.next(&mut input, &mut self.out, &self.pool).expect("no fault") {
                None => break,
                Some(Event::Start(_)) => ClientAction::LogIn,
                Some(Event::Tune(tune)) => ClientAction::Tune(tune),
                Some(Event::OpenOk) => ClientAction::OpenChannel,
                Some(Event::ChannelOpened { .. }) => {
                    self.is_open = true;
                    ClientAction::Nothing
                }
                Some(Event::Deliver { body: came, .. }) => {
                    let bytes = match &came {
                        Body::Small(bytes) => bytes,
                        Body::Large(slice) => &slice[..],
                    };
                    let (number, size) = self.expected.pop_front().expect("nothing was expected");
                    assert!(bytes == body(number, size), "message {number} of {size} bytes differs");
                    self.got.push((number, size));
                    ClientAction::Nothing
                }
                Some(Event::Blocked { .. } | Event::Unblocked) => ClientAction::Nothing,
                Some(Event::Method { .. }) => {
                    self.answers += 1;
                    ClientAction::Nothing
                }
                Some(other) => panic!("{other:?}"),
            };
            let (inbound, out, pool) = (&mut self.inbound, &mut self.out, &self.pool);
            match then {
                ClientAction::Nothing => {}
                ClientAction::LogIn => inbound.log_in("PLAIN", b"\0guest\0guest", TableRef::EMPTY, out, pool),
                ClientAction::Tune(tune) => {
                    self.frame_bytes_max = inbound.tune(&tune, &self.limits, out, pool).frame_bytes_max;
                    inbound.open(ShortStr::literal("/"), out, pool);
                }
                ClientAction::OpenChannel => assert_eq!(inbound.open_channel(out, pool), Some(ChannelNumber(1))),
            }
        }
        self.kept = input.to_vec();
        self.copied_bytes += self.inbound.take_copied_bytes();
    }
}
