//! A stand-in for a reactor: drives one session for tests and fuzzers.
//!
//! Enters: bytes, and how they are cut.  Leaves: a line of text for each event and fault.
//! Owns:   a session and what a reactor keeps for it.

use crate::{
    Body, DeliveryTemplate, Event, Greeting, Inbound, Outbound, ProtocolFault, RepeatedDelivery, SessionLimits, sasl,
};
use slab::{BlockMut, Pool};
use std::ops::Range;
use std::sync::Arc;
use wire::{ChannelNumber, RawProperties, ShortStr, Table, TableRef, Value};

/// How the bytes of one call arrive.
pub(crate) trait Fragmentation {
    /// Bytes of the next piece, at least 1.
    fn next(&mut self) -> usize;
}

impl<F: FnMut() -> usize> Fragmentation for F {
    fn next(&mut self) -> usize {
        self()
    }
}

/// A session and its owner, which answers what must be answered.
pub(crate) struct TestEndpoint {
    pub inbound: Inbound,
    pub out: Outbound,
    pub pool: Pool,
    /// One line for each event and fault.
    pub log: Vec<String>,
    /// Bodies of contents, in order.
    pub bodies: Vec<Vec<u8>>,
    left: Vec<u8>,
    /// Whether large bodies are received in place.
    in_place: bool,
    /// Likewise whether deliveries are taken for their likeness, and how many were.
    repeat: Option<DeliveryTemplate>,
    pub repeated: usize,
    /// Likewise whether publishes are taken in runs, which must not show in the log, and how many messages came so.
    takes_runs: bool,
    pub in_runs: usize,
    /// Bytes that came through `direct`.
    pub placed_bytes: usize,
    wanted: SessionLimits,
    /// Whether the place of a large body's bytes is lent, and what is: the memory, and what of its place is not filled yet.
    lends: bool,
    pub lent: Option<(BlockMut, Range<usize>)>,
}

/// What the owner does after an event.
enum OwnerReaction {
    Nothing,
    AcceptLogin,
    AcceptOpen,
    LogIn,
    Tune(wire::method::connection::Tune),
}

/// The parts of all that is to be sent, taken a piece at a time as links take it.
pub fn parts_of(out: &mut Outbound, pool: &Pool) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while !out.is_empty() {
        let next = out.gather_mut(pool);
        parts.extend(next.parts().map(<[u8]>::to_vec));
        next.clear();
    }
    parts
}

impl TestEndpoint {
    pub fn server(limits: &SessionLimits, in_place: bool) -> Self {
        let properties = Table::new().with("product", Value::text("a test")).expect("a short name");
        Self::new(Inbound::server(limits, Arc::new(Greeting::new(&properties, "PLAIN AMQPLAIN"))), limits, in_place)
    }

    pub fn client(limits: &SessionLimits, in_place: bool) -> Self {
        let mut driven = Self::new(Inbound::client(limits), limits, in_place);
        driven.out.protocol_header(&driven.pool);
        driven
    }

    fn new(inbound: Inbound, wanted: &SessionLimits, in_place: bool) -> Self {
        Self {
            inbound,
            out: Outbound::new(),
            pool: Pool::default(),
            log: Vec::new(),
            bodies: Vec::new(),
            left: Vec::new(),
            in_place,
            repeat: in_place.then(DeliveryTemplate::default),
            repeated: 0,
            takes_runs: in_place,
            in_runs: 0,
            placed_bytes: 0,
            wanted: *wanted,
            lends: false,
            lent: None,
        }
    }

    /// From so many bytes on their place is lent to those who bring them.
    pub fn lend_from(&mut self, bytes: usize) {
        self.inbound.lend_from(bytes);
        self.lends = true;
    }

    /// Bytes arrive where memory is lent for them. Answers how many.
    fn fill_lent(&mut self, bytes: &[u8]) -> usize {
        if self.lends && self.lent.is_none() {
            assert!(!self.inbound.is_lent());
            self.lent = self.inbound.lend();
        }
        let Some((memory, place)) = &mut self.lent else { return 0 };
        assert!(self.inbound.is_lent() && self.inbound.direct().is_empty() && self.left.is_empty());
        let taken = bytes.len().min(place.len());
        memory[place.start..place.start + taken].copy_from_slice(&bytes[..taken]);
        place.start += taken;
        self.placed_bytes += taken;
        if let Some((memory, _)) = self.lent.take_if(|(_, place)| place.start == place.end) {
            assert!(self.inbound.filled(memory) > 0);
        }
        taken
    }

    /// What the session has to send, taken from it.
    pub fn sent(&mut self) -> Vec<u8> {
        let expected = self.out.bytes();
        let bytes: Vec<u8> = parts_of(&mut self.out, &self.pool).concat();
        assert_eq!(bytes.len(), expected);
        bytes
    }

    /// The bytes arrive, in pieces.
    pub fn receive(&mut self, mut bytes: &[u8], cuts: &mut dyn Fragmentation) {
        while !bytes.is_empty() {
            let mut arrived = cuts.next().clamp(1, bytes.len());
            let filled = self.fill_lent(&bytes[..arrived]);
            if filled > 0 {
                bytes = &bytes[filled..];
                self.drain();
                continue;
            }
            if self.in_place {
                let direct = self.inbound.direct();
                assert!(direct.is_empty() || self.left.is_empty(), "input is left while a body is received in place");
                let placed = arrived.min(direct.len());
                direct[..placed].copy_from_slice(&bytes[..placed]);
                self.inbound.direct_filled(placed);
                self.placed_bytes += placed;
                let wanted = self.inbound.scratch_bytes_wanted();
                assert!(wanted > 0, "a session that wants nothing");
                arrived = placed + (arrived - placed).min(wanted);
                self.left.extend_from_slice(&bytes[placed..arrived]);
            } else {
                self.left.extend_from_slice(&bytes[..arrived]);
            }
            bytes = &bytes[arrived..];
            self.drain();
        }
    }

    fn drain(&mut self) {
        let left = std::mem::take(&mut self.left);
        let mut input = &left[..];
        loop {
            self.take_repeats(&mut input);
            let unread = input;
            let before = input.len();
            let begins = self.inbound.is_between_frames();
            let next = match self.takes_runs {
                true => self.inbound.next_run(&mut input, &mut self.out, &self.pool),
                false => self.inbound.next(&mut input, &mut self.out, &self.pool),
            };
            let then = match next {
                // Whether a content comes in pieces depends on how the bytes are cut.
                Ok(Some(Event::PublishBegun { .. })) => OwnerReaction::Nothing,
                Ok(Some(Event::PublishRun {
                    channel,
                    exchange,
                    routing_key,
                    mandatory,
                    immediate,
                    properties,
                    bodies,
                })) => {
                    // Sometimes all are carried out, sometimes not.
                    let taken = 1 + (self.in_runs + bodies.len()) % bodies.len();
                    for body in bodies.iter().take(taken).map(Body::Small) {
                        let event =
                            Event::Publish { channel, exchange, routing_key, mandatory, immediate, properties, body };
                        self.log.push(line(&event, &mut self.bodies));
                    }
                    self.in_runs += taken;
                    input = &unread[taken * bodies.message_bytes()..];
                    OwnerReaction::Nothing
                }
                Ok(Some(event)) => {
                    self.log.push(line(&event, &mut self.bodies));
                    if let (Some(repeat), true, Event::Deliver { .. }) = (&mut self.repeat, begins, &event) {
                        repeat.learn(&unread[..before - input.len()], &event);
                    }
                    then(&event)
                }
                Ok(None) => break,
                Err(fault) => {
                    self.log.push(fault_line(&fault));
                    self.inbound.fail(&fault, &mut self.out, &self.pool);
                    OwnerReaction::Nothing
                }
            };
            assert!(input.len() <= before, "a session gave input back");
            self.carry_out(then);
        }
        assert!(input.len() <= self.inbound.input_bytes_max(), "{} bytes left", input.len());
        self.left = input.to_vec();
    }

    fn take_repeats(&mut self, input: &mut &[u8]) {
        let Some(repeat) = self.repeat.as_mut().filter(|repeat| self.inbound.may_repeat(repeat)) else { return };
        let mut found = 0;
        while let Some((delivery_tag, body)) = repeat.next(input) {
            let RepeatedDelivery { channel, consumer_tag, redelivered, exchange, routing_key, properties } =
                repeat.alike();
            let body = Body::Small(body);
            let event = Event::Deliver {
                channel,
                consumer_tag,
                delivery_tag,
                redelivered,
                exchange,
                routing_key,
                properties,
                body,
            };
            self.log.push(line(&event, &mut self.bodies));
            found += 1;
        }
        if found > 0 {
            self.repeated += found;
            repeat.hit();
            self.inbound.repeated();
        }
    }

    fn carry_out(&mut self, then: OwnerReaction) {
        let (out, pool) = (&mut self.out, &self.pool);
        match then {
            OwnerReaction::Nothing => {}
            OwnerReaction::AcceptLogin => self.inbound.login_accepted(out, pool),
            OwnerReaction::AcceptOpen => self.inbound.open_accepted(out, pool),
            OwnerReaction::LogIn => {
                let response = sasl::plain_response("guest", "guest");
                self.inbound.log_in("PLAIN", &response, TableRef::EMPTY, out, pool);
            }
            OwnerReaction::Tune(tune) => {
                self.inbound.tune(&tune, &self.wanted, out, pool);
                self.inbound.open(ShortStr::literal("/"), out, pool);
            }
        }
    }
}

fn then(event: &Event<'_>) -> OwnerReaction {
    match event {
        Event::Login { .. } | Event::LoginResponse { .. } => OwnerReaction::AcceptLogin,
        Event::Open { .. } => OwnerReaction::AcceptOpen,
        Event::Start(_) => OwnerReaction::LogIn,
        Event::Tune(tune) => OwnerReaction::Tune(*tune),
        _ => OwnerReaction::Nothing,
    }
}

/// `scope code class.method #channel text`.
pub(crate) fn fault_line(fault: &ProtocolFault) -> String {
    let ProtocolFault { code, scope, channel, class_id, method_id, text } = fault;
    format!("{scope:?} {} {class_id}.{method_id} #{channel} {text}", code.number())
}

fn line(event: &Event<'_>, bodies: &mut Vec<Vec<u8>>) -> String {
    let mut content = |properties: &RawProperties<'_>, body: &Body<'_>| {
        let kind = if matches!(body, Body::Small(_)) { "small" } else { "large" };
        bodies.push(body.bytes().to_vec());
        format!("{:?} {kind} {}", properties.as_bytes(), body.bytes().len())
    };
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match event {
        Event::Publish { channel, exchange, routing_key, mandatory, immediate, properties, body } => {
            let (exchange, routing_key, content) = (text(exchange), text(routing_key), content(properties, body));
            format!("publish #{channel} {exchange} {routing_key} {mandatory} {immediate} {content}")
        }
        Event::Deliver {
            channel,
            consumer_tag,
            delivery_tag,
            redelivered,
            exchange,
            routing_key,
            properties,
            body,
        } => {
            let (exchange, routing_key, content) = (text(exchange), text(routing_key), content(properties, body));
            let tag = text(consumer_tag);
            format!("deliver #{channel} {tag} {delivery_tag} {redelivered} {exchange} {routing_key} {content}")
        }
        Event::GetOk { channel, delivery_tag, redelivered, exchange, routing_key, message_count, properties, body } => {
            let (exchange, routing_key, content) = (text(exchange), text(routing_key), content(properties, body));
            format!("get-ok #{channel} {delivery_tag} {redelivered} {exchange} {routing_key} {message_count} {content}")
        }
        Event::Return { channel, code, text: why, exchange, routing_key, properties, body } => {
            let (exchange, routing_key, content) = (text(exchange), text(routing_key), content(properties, body));
            format!("return #{channel} {code} {why} {exchange} {routing_key} {content}")
        }
        other => format!("{other:?}"),
    }
}

/// A client and a server, wired back to back.
pub(crate) struct EndpointPair {
    pub client: TestEndpoint,
    pub server: TestEndpoint,
}

impl EndpointPair {
    /// A client and a server that have opened a connection.
    pub fn open(limits: &SessionLimits, in_place: bool, cuts: &mut dyn Fragmentation) -> Self {
        let mut pair =
            Self { client: TestEndpoint::client(limits, in_place), server: TestEndpoint::server(limits, in_place) };
        pair.pump(cuts);
        assert!(pair.client.inbound.is_running() && pair.server.inbound.is_running(), "{:?}", pair.client.log);
        pair
    }

    /// Carries bytes both ways until neither side has anything to send.
    pub fn pump(&mut self, cuts: &mut dyn Fragmentation) {
        loop {
            let to_server = self.client.sent();
            self.server.receive(&to_server, cuts);
            let to_client = self.server.sent();
            self.client.receive(&to_client, cuts);
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
        }
    }

    /// Opens a channel; its number.
    pub fn open_channel(&mut self, cuts: &mut dyn Fragmentation) -> ChannelNumber {
        let channel = self.client.inbound.open_channel(&mut self.client.out, &self.client.pool);
        self.pump(cuts);
        channel.expect("a channel is free")
    }
}
