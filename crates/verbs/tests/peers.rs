//! Peers that violate the protocol, written against the device itself: only their own connection ends.

mod world;

use link::{Link, ReceiveOutcome};
use slab::{BlockMut, Gather, Slice};
use verbs::PortSettings;
use verbs::RdmaToken;
use verbs::device::{
    CompletionStatus, ConnectionEvent, Device, QueuePairId, QueuePairLimits, ReadGrant, SendHead, WorkCompletion,
    WorkRequest, WorkRequestId,
};
use verbs::sim::{FabricOptions, SimDevice};
use verbs::wire::{Hello, MessageHeader, MessageKind, Reject, RejectReason, RendezvousDescriptor, encode_done};
use world::{SimVerbsLink, TestWorld, drain, settings};

const HELLO: Hello = Hello {
    versions: (1, 1),
    receive_buffer_bytes: 4_096,
    credits: 16,
    rendezvous_max: 4,
    rendezvous_threshold_bytes: 4_096,
    reads_issued_max: 1,
    reads_answered_max: 1,
    token: None,
};
const QUEUE_PAIR_LIMITS: QueuePairLimits =
    QueuePairLimits { send_slots: 64, receiver_not_ready_retries: 6, reads_issued_max: 1, reads_answered_max: 1 };

/// A client of its own making: a queue pair, and whatever it wants to send.
struct RawClient {
    device: SimDevice,
    pair: QueuePairId,
    sequence: u16,
    completions: Vec<WorkCompletion>,
}

impl RawClient {
    /// Connects and says hello.
    fn new(world: &TestWorld) -> RawClient {
        let mut device = world.fabric.device();
        let mut buffers = (0..64).map(|at| (WorkRequestId(at), world.pool.block(4_096))).collect();
        device.post_receives(&mut buffers).expect("room");
        let pair = device.connect("0", &HELLO.encode(), &QUEUE_PAIR_LIMITS).expect("room");
        let mut events = Vec::new();
        world.until("an answer", || {
            device.events(device.now(), &mut events).expect("whole");
            !events.is_empty()
        });
        assert!(matches!(events[..], [ConnectionEvent::Established { .. }]), "{events:?}");
        RawClient { device, pair, sequence: 0, completions: Vec::new() }
    }

    fn send_bytes(&mut self, head: &[u8], part: Slice) {
        let parts = [part, Slice::empty(), Slice::empty(), Slice::empty()];
        let head = SendHead::new(head, &[]);
        let work = WorkRequest::Send { id: WorkRequestId(0), head, parts, inline: false, signalled: true };
        // After the server has thrown it out it has no queue pair to post to.
        let _gone = self.device.post(self.pair, &mut vec![work]);
    }

    fn send(&mut self, kind: MessageKind, payload: &[u8]) {
        self.send_with(kind, payload, payload.len() as u32, 0);
    }

    fn send_with(&mut self, kind: MessageKind, payload: &[u8], says: u32, returned: u16) {
        let header = MessageHeader { payload_bytes: says, kind, returned, sequence: self.sequence };
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = header.encode().to_vec();
        message.extend(payload);
        self.send_bytes(&message, Slice::empty());
    }

    fn offer(&mut self, descriptor: RendezvousDescriptor) {
        self.send(MessageKind::Rendezvous, &descriptor.encode());
    }

    /// The payloads of messages of a kind that have come.
    fn messages(&mut self, kind: MessageKind) -> Vec<Vec<u8>> {
        self.device.poll(&mut self.completions, usize::MAX).expect("whole");
        let received = self.completions.iter().filter(|completion| !completion.memory.is_empty());
        let received = received.filter(|completion| completion.status == CompletionStatus::Success);
        let of_kind = received.filter_map(|completion| {
            let message = &completion.memory[..completion.bytes as usize];
            let header = MessageHeader::decode(message).ok().filter(|header| header.kind == kind)?;
            Some(message[8..8 + header.payload_bytes as usize].to_vec())
        });
        of_kind.collect()
    }

    fn read(&mut self, into: BlockMut, address: u64, key: u32) {
        let bytes = into.len() as u32;
        let work = WorkRequest::Read { id: WorkRequestId(1 << 20), into, at: 0, bytes, address, key };
        self.device.post(self.pair, &mut vec![work]).expect("a queue pair");
    }

    fn status_of_read(&mut self, world: &TestWorld) -> CompletionStatus {
        for _ in 0..10_000 {
            self.device.poll(&mut self.completions, usize::MAX).expect("whole");
            let read = self.completions.iter().find(|completion| completion.id == WorkRequestId(1 << 20));
            if let Some(read) = read {
                return read.status;
            }
            world.step();
        }
        panic!("the read did not end");
    }
}

/// A server with two honest clients' ends and room for a dishonest one.
struct HostileScene {
    world: TestWorld,
    settings: PortSettings,
    honest: (SimVerbsLink, SimVerbsLink),
}

impl HostileScene {
    fn new() -> HostileScene {
        let settings = PortSettings { receive_buffers: 16 + 8 * 16, ..settings() };
        let world = TestWorld::new(&FabricOptions::faultless(), &[settings.clone(), settings.clone()]);
        let near = world.ports[1].connect("0", None).expect("room");
        let mut far = None;
        world.until("a connection", || {
            far = world.ports[0].accept();
            far.is_some()
        });
        world.steps(10);
        HostileScene { settings, honest: (near, far.expect("just found")), world }
    }

    fn accept(&self) -> SimVerbsLink {
        let mut link = None;
        self.world.until("an accepted link", || {
            link = self.world.ports[0].accept();
            link.is_some()
        });
        link.expect("just found")
    }

    /// The honest pair goes on, both ways, and everything else is as if the other had never been there.
    fn assert_unharmed(mut self) {
        for turn in 0..40 {
            let (near, far) = (&mut self.honest.0, &mut self.honest.1);
            let (from, to) = if turn % 2 == 0 { (near, far) } else { (far, near) };
            let mut out = Gather::new();
            out.extend(&self.world.pool, &world::bytes(turn, 3_000));
            from.send(&mut out).expect("open");
            let mut got = Vec::new();
            self.world.until("bytes of the honest", || {
                got.extend(drain(to).expect("open").0);
                got.len() == 3_000
            });
            assert_eq!(got, world::bytes(turn, 3_000));
        }
        drop(self.honest);
        self.world.assert_all_released(0, &self.settings);
    }
}

/// How the server's end of the dishonest connection ends.
fn ends(world: &TestWorld, link: &mut SimVerbsLink) -> String {
    for _ in 0..world::STEPS_MAX {
        let mut scratch = [0; 4_096];
        match link.receive(&mut [], &mut scratch) {
            Ok(ReceiveOutcome::Closed) => return "closed".into(),
            Ok(_) => world.step(),
            Err(error) => return error.to_string(),
        }
    }
    panic!("it did not end");
}

#[test]
fn who_breaks_the_protocol_loses_the_connection_and_nobody_else_does() {
    type Misbehaviour = fn(&mut RawClient);
    let sound = RendezvousDescriptor { number: 0, bytes: 100, address: 4_096, key: 1 };
    let violations: [(&str, Misbehaviour, &str); 20] = [
        (
            "beyond its credit",
            |raw| (0..30).for_each(|_| raw.send(MessageKind::Data, b"x")),
            "sent more than its credit",
        ),
        ("no header", |raw| raw.send_bytes(&[1, 2, 3], Slice::empty()), "a message of 3 bytes has no header"),
        (
            "a length that lies, over",
            |raw| raw.send_with(MessageKind::Data, b"1234", 5, 0),
            "announces 5 bytes, 4 arrived",
        ),
        (
            "a length that lies, under",
            |raw| raw.send_with(MessageKind::Data, b"1234", 3, 0),
            "announces 3 bytes, 4 arrived",
        ),
        ("an unknown type", |raw| raw.send_bytes(&[0, 0, 0, 1, 0, 0, 0, 0], Slice::empty()), "the type 0x01"),
        (
            "a wrong sequence",
            |raw| {
                raw.sequence = 7;
                raw.send(MessageKind::Data, b"x");
            },
            "message 7 arrived instead of 0",
        ),
        (
            "a message twice",
            |raw| {
                raw.send(MessageKind::Ping, b"");
                raw.sequence = 0;
                raw.send(MessageKind::Ping, b"");
            },
            "message 0 arrived instead of 1",
        ),
        (
            "credits that it never had",
            |raw| raw.send_with(MessageKind::Credit, b"", 0, 9),
            "returned more credits than were used",
        ),
        ("DATA without bytes", |raw| raw.send(MessageKind::Data, b""), "the payload of a DATA is invalid"),
        ("PING with bytes", |raw| raw.send(MessageKind::Ping, b"x"), "the payload of a PING is invalid"),
        ("a DONE for nothing", |raw| raw.send(MessageKind::Done, &encode_done(0)), "an unexpected number"),
        ("a DONE too short", |raw| raw.send(MessageKind::Done, &[0]), "the payload of a DONE is invalid"),
        (
            "a descriptor too short",
            |raw| raw.send(MessageKind::Rendezvous, &[0; 23]),
            "the payload of a RENDEZVOUS is invalid",
        ),
        (
            "a descriptor of no bytes",
            |raw| raw.offer(RendezvousDescriptor { number: 0, bytes: 0, address: 1, key: 1 }),
            "the payload of a RENDEZVOUS is invalid",
        ),
        (
            "an address beyond all memory",
            |raw| raw.offer(RendezvousDescriptor { number: 0, bytes: 100, address: u64::MAX - 50, key: 1 }),
            "the payload of a RENDEZVOUS is invalid",
        ),
        (
            "an address and key of nothing",
            |raw| raw.offer(RendezvousDescriptor { number: 0, bytes: 100, address: 4_096, key: 0xBAD }),
            "the peer's memory was not accessible",
        ),
        (
            "too many rendezvous",
            |raw| {
                (0..12)
                    .for_each(|number| raw.offer(RendezvousDescriptor { number, bytes: 100, address: 4_096, key: 1 }))
            },
            "too many rendezvous open",
        ),
        (
            "a rendezvous out of turn",
            |raw| raw.offer(RendezvousDescriptor { number: 3, bytes: 100, address: 4_096, key: 1 }),
            "an unexpected number",
        ),
        (
            "bytes behind the end",
            |raw| {
                raw.send(MessageKind::Close, b"");
                raw.send(MessageKind::Data, b"x");
            },
            "after the end of the stream",
        ),
        ("silence", |_| (), "nothing was received from the peer"),
    ];
    assert!(RendezvousDescriptor::decode(&sound.encode()).is_some());
    for (name, violation, expect) in violations {
        let scene = HostileScene::new();
        let mut raw = RawClient::new(&scene.world);
        let mut link = scene.accept();
        violation(&mut raw);
        if name == "beyond its credit" || name == "too many rendezvous" {
            // Nothing is read meanwhile: every message holds its buffer.
            scene.world.steps(20);
        }
        let end = ends(&scene.world, &mut link);
        assert!(end.contains(expect), "{name}: {end}");
        if !["silence", "an address and key of nothing"].contains(&name) {
            scene.world.steps(20);
            let told = raw.messages(MessageKind::Close);
            let text = told.first().map(|payload| String::from_utf8_lossy(&payload[2..]).into_owned());
            assert!(text.is_some_and(|text| end.contains(&text)), "{name}: it is told why: {told:?}");
        }
        drop(link);
        scene.assert_unharmed();
    }
}

#[test]
fn a_message_longer_than_a_buffer_ends_its_connection() {
    let scene = HostileScene::new();
    let mut raw = RawClient::new(&scene.world);
    let mut link = scene.accept();
    raw.send_bytes(&[0; 8], scene.world.pool.copy(&[0; 9_000]));
    let end = ends(&scene.world, &mut link);
    assert!(end.contains("longer than its buffer"), "{end}");
    drop(link);
    scene.assert_unharmed();
}

/// The server offers a body; answers the descriptor.
fn offered(scene: &HostileScene, raw: &mut RawClient, link: &mut SimVerbsLink) -> RendezvousDescriptor {
    let mut out = Gather::new();
    out.push(scene.world.pool.copy(&world::bytes(0, 50_000)));
    link.send(&mut out).expect("open");
    scene.world.steps(5);
    let offers = raw.messages(MessageKind::Rendezvous);
    RendezvousDescriptor::decode(&offers[0]).expect("a sound descriptor")
}

#[test]
fn a_body_that_is_never_fetched_is_not_offered_for_ever() {
    let scene = HostileScene::new();
    let mut raw = RawClient::new(&scene.world);
    let mut link = scene.accept();
    let descriptor = offered(&scene, &mut raw, &mut link);
    assert_eq!(scene.world.ports[0].usage().granted_bytes, 50_000);
    // It lives, and says so, but reads nothing. Each answer returns what it has heard.
    let mut pongs = 0;
    let mut end = None;
    scene.world.until("an end", || {
        let pings = raw.messages(MessageKind::Ping).len();
        if pings > pongs {
            pongs = pings;
            raw.send_with(MessageKind::Pong, b"", 0, 1 + pings as u16);
        }
        let mut scratch = [0; 16];
        match link.receive(&mut [], &mut scratch) {
            Ok(ReceiveOutcome::Idle) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => end = Some(error.to_string()),
        }
        end.is_some()
    });
    assert!(end.is_some_and(|end| end.contains("did not read an offer in time")), "it is told");
    assert_eq!(scene.world.ports[0].usage().granted_bytes, 0, "the grant has ended");
    // Too late: a read by the old key, over a connection that still stands.
    let mut other = RawClient::new(&scene.world);
    let second = scene.accept();
    other.read(scene.world.pool.block(100), descriptor.address, descriptor.key);
    assert_eq!(other.status_of_read(&scene.world), CompletionStatus::RemoteAccess);
    drop((link, second));
    scene.assert_unharmed();
}

#[test]
fn only_the_exact_body_can_be_read_and_only_until_it_is_done() {
    for (what, shift, bytes, number) in [
        ("before", -1, 100, None),
        ("behind", 49_950, 100, None),
        ("after DONE", 0, 100, Some(0)),
        ("DONE twice", 0, 100, Some(1)),
    ] {
        let scene = HostileScene::new();
        let mut raw = RawClient::new(&scene.world);
        let mut link = scene.accept();
        let descriptor = offered(&scene, &mut raw, &mut link);
        raw.read(scene.world.pool.block(50_000), descriptor.address, descriptor.key);
        assert_eq!(raw.status_of_read(&scene.world), CompletionStatus::Success, "what is offered can be read");
        raw.completions.clear();
        match number {
            None => {
                raw.read(scene.world.pool.block(bytes), descriptor.address.wrapping_add_signed(shift), descriptor.key);
                assert_eq!(raw.status_of_read(&scene.world), CompletionStatus::RemoteAccess, "{what}");
            }
            Some(dones) => {
                for _ in 0..=dones {
                    raw.send(MessageKind::Done, &encode_done(0));
                }
                scene.world.steps(5);
                assert_eq!(scene.world.ports[0].usage().granted_bytes, 0);
                if dones == 0 {
                    raw.read(scene.world.pool.block(bytes), descriptor.address, descriptor.key);
                    assert_eq!(raw.status_of_read(&scene.world), CompletionStatus::RemoteAccess, "{what}");
                }
            }
        }
        let end = ends(&scene.world, &mut link);
        assert_ne!(end, "closed", "{what}");
        drop(link);
        scene.assert_unharmed();
    }
}

#[test]
fn a_reset_in_the_middle_of_a_rendezvous_returns_everything() {
    let scene = HostileScene::new();
    let mut raw = RawClient::new(&scene.world);
    let mut link = scene.accept();
    offered(&scene, &mut raw, &mut link);
    raw.device.disconnect(raw.pair);
    assert!(ends(&scene.world, &mut link).contains("the peer has disconnected"));
    drop(link);
    scene.assert_unharmed();
}

/// What the listener says to a request with these private data.
fn answer(world: &TestWorld, private: &[u8]) -> Option<Reject> {
    let mut device = world.fabric.device();
    let pair = device.connect("0", private, &QUEUE_PAIR_LIMITS).expect("room");
    let mut events = Vec::new();
    world.until("an answer", || {
        device.events(device.now(), &mut events).expect("whole");
        !events.is_empty()
    });
    match &events[0] {
        ConnectionEvent::Established { .. } => {
            device.disconnect(pair);
            None
        }
        ConnectionEvent::Rejected { private, .. } => Some(Reject::decode(private).expect("a reason")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_is_refused_with_its_reason() {
    let settings = PortSettings { accepts_direct: false, ..settings() };
    let world = TestWorld::new(&FabricOptions::faultless(), &[settings]);
    let (good, late) = (RdmaToken([1; 16]), RdmaToken([2; 16]));
    assert!(world.ports[0].expect_token(good) && world.ports[0].expect_token(late));
    let refusal = |hello: Hello| answer(&world, &hello.encode()).map(|reject| reject.reason);
    assert_eq!(answer(&world, b"hello").map(|reject| reject.reason), Some(RejectReason::Malformed));
    assert_eq!(refusal(Hello { versions: (2, 9), ..HELLO }), Some(RejectReason::Version));
    assert_eq!(refusal(HELLO), Some(RejectReason::TokenNeeded));
    assert_eq!(refusal(Hello { token: Some(RdmaToken([3; 16])), ..HELLO }), Some(RejectReason::TokenWrong));
    assert_eq!(refusal(Hello { token: Some(good), ..HELLO }), None);
    assert_eq!(refusal(Hello { token: Some(good), ..HELLO }), Some(RejectReason::TokenWrong), "a token is good once");
    world.steps(4_000);
    assert_eq!(refusal(Hello { token: Some(late), ..HELLO }), Some(RejectReason::TokenWrong), "and for a while");
    world.ports[0].stop();
    assert_eq!(refusal(HELLO), Some(RejectReason::Shutdown));
}

#[test]
fn a_flood_of_requests_is_refused_when_the_buffers_are_promised_and_passes() {
    let scene = HostileScene::new();
    let mut device = scene.world.fabric.device();
    let pairs: Vec<_> =
        (0..200).map(|_| device.connect("0", &HELLO.encode(), &QUEUE_PAIR_LIMITS).expect("room")).collect();
    let mut events = Vec::new();
    scene.world.until("all answers", || {
        device.events(device.now(), &mut events).expect("whole");
        let census = scene.world.ports[0].usage();
        assert!(census.promised_credits + scene.settings.spare_buffers <= scene.settings.receive_buffers);
        events.len() == pairs.len()
    });
    let let_in = events.iter().filter(|event| matches!(event, ConnectionEvent::Established { .. })).count();
    assert_eq!(let_in, scene.settings.connections_max() - 1, "one is the honest client's");
    pairs.into_iter().for_each(|pair| device.disconnect(pair));
    while let Some(link) = scene.world.ports[0].accept() {
        drop(link);
    }
    scene.world.steps(20);
    while let Some(link) = scene.world.ports[0].accept() {
        drop(link);
    }
    scene.assert_unharmed();
}

#[test]
fn requests_that_nobody_finishes_give_way_when_there_is_no_room() {
    let scene = HostileScene::new();
    let mut device = scene.world.fabric.device();
    let room = scene.settings.connections_max() - 1;
    for _ in 0..room {
        device.connect("0", &HELLO.encode(), &QUEUE_PAIR_LIMITS).expect("room");
    }
    let port = &scene.world.ports[0];
    scene.world.until("as many as there is room for", || port.usage().connections == room + 1);
    // The answers find nobody.
    scene.world.fabric.vanish(&device);
    assert_eq!(answer(&scene.world, &HELLO.encode()).map(|reject| reject.reason), Some(RejectReason::Busy));
    let steps_of_all = scene.settings.set_up_max.as_micros() / verbs::sim::STEP.as_micros();
    scene.world.steps(steps_of_all as usize / 4);
    assert_eq!(answer(&scene.world, &HELLO.encode()), None, "there is room long before their time is over");
    scene.world.steps(20);
    drop(scene.accept());
    scene.world.steps(200);
    scene.assert_unharmed();
}

#[test]
fn requests_that_nobody_finishes_have_their_time_while_there_is_room() {
    let scene = HostileScene::new();
    let mut device = scene.world.fabric.device();
    device.connect("0", &HELLO.encode(), &QUEUE_PAIR_LIMITS).expect("room");
    let port = &scene.world.ports[0];
    scene.world.until("a request", || port.usage().connections == 2);
    scene.world.fabric.vanish(&device);
    let steps_of_all = (scene.settings.set_up_max.as_micros() / verbs::sim::STEP.as_micros()) as usize;
    scene.world.steps(steps_of_all / 2);
    assert_eq!(port.usage().connections, 2);
    scene.world.steps(steps_of_all);
    assert_eq!(port.usage().connections, 1);
    scene.assert_unharmed();
}

#[test]
fn no_key_of_one_device_opens_memory_of_another() {
    let scene = HostileScene::new();
    let mut raw = RawClient::new(&scene.world);
    let mut link = scene.accept();
    let mut stranger = scene.world.fabric.device();
    let ReadGrant { address, key } = stranger.grant(scene.world.pool.copy(b"secret")).expect("room");
    raw.offer(RendezvousDescriptor { number: 0, bytes: 6, address, key });
    assert!(ends(&scene.world, &mut link).contains("not accessible"));
    drop(link);
    scene.assert_unharmed();
}

#[test]
fn a_flipped_bit_in_a_header_is_found_out() {
    // The server has sent four messages, of which one is returned: totals from one to four could be true.
    for bit in 0..64 {
        let scene = HostileScene::new();
        let mut raw = RawClient::new(&scene.world);
        let mut link = scene.accept();
        for _ in 0..4 {
            let mut out = Gather::new();
            out.extend(&scene.world.pool, b"x");
            link.send(&mut out).expect("open");
        }
        scene.world.steps(5);
        assert_eq!(raw.messages(MessageKind::Data).len(), 4);
        let header = MessageHeader { payload_bytes: 1, kind: MessageKind::Data, returned: 1, sequence: 0 };
        let mut message = header.encode();
        message[bit / 8] ^= 1 << (bit % 8);
        raw.sequence = 1;
        raw.send_bytes(&[&message[..], b"x"].concat(), Slice::empty());
        raw.send_with(MessageKind::Ping, b"", 0, 1);
        scene.world.steps(5);
        let returned = u16::from_be_bytes([message[4], message[5]]);
        if returned == 0 {
            // It said too little for a moment, and the next message put it right.
            let census = scene.world.ports[0].link_usage(link.id());
            assert_eq!(census.credits_left, 16 - 4 + 1 - 1, "one returned, one used for the PONG");
        } else {
            let end = ends(&scene.world, &mut link);
            assert!(end.contains("RDMA"), "bit {bit}: {end}");
        }
        drop(link);
        scene.assert_unharmed();
    }
}
