//! A client of the simulation: a session in the client's role on a simulated link.
//!
//! Enters: edges and bytes of the link.  Leaves: what it heard, owned.
//! Owns:   the link, the session, what it has not sent and not parsed.
//! Never:  knows what the broker should have said.

use crate::limits::SCRATCH_BYTES;
use link::sim::{SimConnection, SimSide, SimLink};
use link::{Link, ReceiveOutcome, SendOutcome};
use session::{BodyOut, Capabilities, Event, Inbound, Outbound, PublishHead, SessionLimits};
use slab::Pool;
use std::time::{Duration, Instant};
use wire::{Method, ShortStr, Table, Value, method};

/// A message as it came.
#[derive(Debug, Hash)]
pub struct Came {
    /// Delivery tag; zero for a return.
    pub tag: u64,
    /// It was delivered before.
    pub redelivered: bool,
    /// Its exchange.
    pub exchange: Vec<u8>,
    /// Its routing key.
    pub routing_key: Vec<u8>,
    /// Its properties in wire form.
    pub properties: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

/// What a client heard.
#[derive(Debug, Hash)]
pub enum Heard {
    /// The connection runs.
    Opened,
    /// A channel is open.
    ChannelOpened(u16),
    /// The broker closed a channel.
    ChannelRefused(u16, String),
    /// A channel that the client closed is closed.
    ChannelClosed(u16),
    /// A delivery for a consumer.
    Deliver(u16, String, Came),
    /// An answer to `basic.get`.
    Got(u16, Came),
    /// A returned message.
    Returned(u16, Came),
    /// A confirm: number, all up to it, and whether it is positive.
    Confirm(u16, u64, bool, bool),
    /// The broker cancelled a consumer.
    CancelledByBroker(u16, String),
    /// The answer to a question.
    Reply(u16, Reply),
    /// The broker reads no more from publishers.
    Blocked,
    /// It does again.
    Unblocked,
    /// The broker ends the connection.
    Refused(String),
    /// The connection is over.
    Over,
}

/// An answer.
#[derive(Debug, Hash)]
pub enum Reply {
    /// `queue.declare-ok`.
    QueueDeclared(String),
    /// `queue.purge-ok`.
    Purged,
    /// `basic.consume-ok`.
    Consuming(String),
    /// `basic.cancel-ok`.
    Cancelled(String),
    /// `basic.get-empty`.
    Empty,
    /// Any other, by its name.
    Other(&'static str),
}

/// A client.
pub struct Client {
    link: Option<SimLink>,
    cable: SimConnection,
    inbound: Inbound,
    /// What it says.
    pub out: Outbound,
    kept: Vec<u8>,
    readable: bool,
    blocked: bool,
    /// It does not read at the moment.
    pub paused: bool,
    limits: SessionLimits,
    heartbeat: Option<Duration>,
    sent_at: Instant,
}

enum Step {
    LogIn,
    Tune(method::connection::Tune),
    Heard(Heard),
    Nothing,
}

impl Client {
    /// A client that begins to log in.
    pub fn new(link: SimLink, cable: SimConnection, limits: SessionLimits, pool: &Pool, now: Instant) -> Self {
        let mut out = Outbound::new();
        out.protocol_header(pool);
        Client {
            link: Some(link),
            cable,
            inbound: Inbound::client(&limits),
            out,
            kept: Vec::new(),
            readable: true,
            blocked: false,
            paused: false,
            limits,
            heartbeat: None,
            sent_at: now,
        }
    }

    /// Opens a channel; answers its number.
    pub fn open_channel(&mut self, pool: &Pool) -> Option<u16> {
        self.inbound.open_channel(&mut self.out, pool)
    }

    /// Closes a channel.
    pub fn close_channel(&mut self, channel: u16, pool: &Pool) {
        self.inbound.close_channel(channel, 200, "bye", &mut self.out, pool);
    }

    /// Closes the connection.
    pub fn close(&mut self, pool: &Pool) {
        self.inbound.close(200, "bye", &mut self.out, pool);
    }

    /// Sends a method.
    pub fn say(&mut self, channel: u16, method: Method<'_>, pool: &Pool) {
        self.out.method(pool, channel, &method);
    }

    /// Publishes.
    #[expect(clippy::too_many_arguments, reason = "a message, spelled out")]
    pub fn publish(
        &mut self,
        channel: u16,
        exchange: &str,
        routing_key: &str,
        mandatory: bool,
        properties: &[u8],
        body: &[u8],
        pool: &Pool,
    ) {
        let (exchange, routing_key) = (exchange.as_bytes(), routing_key.as_bytes());
        let head = PublishHead { exchange, routing_key, mandatory, immediate: false };
        self.out.publish(pool, channel, &head, properties, BodyOut::Copy(body));
    }

    /// The link is dropped as it is.
    pub fn vanish(&mut self) {
        self.link = None;
        self.out.gather_mut().clear();
    }

    /// Sends what it can and, unless paused, reads what is there. Answers whether anything moved.
    pub fn pump(&mut self, pool: &Pool, scratch: &mut [u8], now: Instant, heard: &mut Vec<Heard>) -> bool {
        if self.link.is_none() {
            return false;
        }
        let edges = self.cable.take_edges(SimSide::Left);
        self.readable |= edges.readable || edges.closed;
        self.blocked &= !edges.writable;
        let mut moved = edges.any();
        if let Some(every) = self.heartbeat
            && now >= self.sent_at + every / 2
        {
            self.out.heartbeat(pool);
        }
        moved |= self.send(now, heard);
        if self.readable && !self.paused {
            moved |= self.read(pool, scratch, heard);
            moved |= self.send(now, heard);
        }
        if self.inbound.is_done() && self.out.is_empty() && self.link.is_some() {
            self.link = None;
            heard.push(Heard::Over);
        }
        moved
    }

    fn send(&mut self, now: Instant, heard: &mut Vec<Heard>) -> bool {
        let Some(link) = self.link.as_mut() else { return false };
        if self.out.is_empty() || self.blocked {
            return false;
        }
        self.sent_at = now;
        match link.send(self.out.gather_mut()) {
            Ok(SendOutcome::Drained) => {}
            Ok(SendOutcome::Blocked) => self.blocked = true,
            // What can still be read is read first; then the end is heard.
            Err(_) => {
                self.out.gather_mut().clear();
                self.readable = true;
                if self.paused {
                    self.link = None;
                    heard.push(Heard::Over);
                }
            }
        }
        true
    }

    fn read(&mut self, pool: &Pool, scratch: &mut [u8], heard: &mut Vec<Heard>) -> bool {
        let Some(link) = self.link.as_mut() else { return false };
        assert!(scratch.len() >= SCRATCH_BYTES);
        let mut have = self.kept.len();
        scratch[..have].copy_from_slice(&self.kept);
        let wanted = self.inbound.scratch_bytes_wanted().min(scratch.len() - have);
        let direct_bytes = self.inbound.direct().len();
        match link.receive(self.inbound.direct(), &mut scratch[have..have + wanted]) {
            Ok(ReceiveOutcome::Bytes { bytes, drained }) => {
                self.inbound.direct_filled(bytes.min(direct_bytes));
                have += bytes.saturating_sub(direct_bytes);
                self.readable = !drained;
            }
            Ok(ReceiveOutcome::Idle) => self.readable = false,
            Ok(ReceiveOutcome::Closed) | Err(_) => {
                self.link = None;
                heard.push(Heard::Over);
                return true;
            }
        }
        let mut input = &scratch[..have];
        loop {
            let step = match self.inbound.next(&mut input, &mut self.out, pool) {
                Ok(Some(event)) => step(event),
                Ok(None) => break,
                Err(fault) => Step::Heard(Heard::Refused(format!("the client found a fault: {fault}"))),
            };
            match step {
                Step::Nothing => {}
                Step::Heard(one) => heard.push(one),
                Step::LogIn => {
                    let capabilities = Capabilities::CONSUMER_CANCEL_NOTIFY.with(Capabilities::CONNECTION_BLOCKED);
                    let properties = Table::default()
                        .with("capabilities", Value::Table(capabilities.to_table()))
                        .expect("a short name")
                        .to_bytes();
                    let properties = wire::TableRef::new(&properties);
                    self.inbound.log_in("PLAIN", b"\0guest\0guest", properties, &mut self.out, pool);
                }
                Step::Tune(tune) => {
                    let tuning = self.inbound.tune(&tune, &self.limits, &mut self.out, pool);
                    let seconds = u64::from(tuning.heartbeat_s);
                    self.heartbeat = (seconds > 0).then(|| Duration::from_secs(seconds));
                    self.inbound.open(ShortStr::literal("/"), &mut self.out, pool);
                }
            }
        }
        self.kept = input.to_vec();
        true
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What an event comes to, without borrowing.
fn step(event: Event<'_>) -> Step {
    Step::Heard(match event {
        Event::Start(_) => return Step::LogIn,
        Event::Tune(tune) => return Step::Tune(tune),
        Event::OpenOk => Heard::Opened,
        Event::ChannelOpened { channel } => Heard::ChannelOpened(channel),
        Event::ChannelClosed { channel, text: why, .. } => Heard::ChannelRefused(channel, text(why.as_bytes())),
        Event::ChannelCloseOk { channel } => Heard::ChannelClosed(channel),
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
            let came = Came {
                tag: delivery_tag,
                redelivered,
                exchange: exchange.into(),
                routing_key: routing_key.into(),
                properties: properties.as_bytes().into(),
                body: body.bytes().into(),
            };
            Heard::Deliver(channel, text(consumer_tag), came)
        }
        Event::GetOk { channel, delivery_tag, redelivered, exchange, routing_key, properties, body, .. } => {
            let came = Came {
                tag: delivery_tag,
                redelivered,
                exchange: exchange.into(),
                routing_key: routing_key.into(),
                properties: properties.as_bytes().into(),
                body: body.bytes().into(),
            };
            Heard::Got(channel, came)
        }
        Event::Return { channel, exchange, routing_key, properties, body, .. } => {
            let came = Came {
                tag: 0,
                redelivered: false,
                exchange: exchange.into(),
                routing_key: routing_key.into(),
                properties: properties.as_bytes().into(),
                body: body.bytes().into(),
            };
            Heard::Returned(channel, came)
        }
        Event::Blocked { .. } => Heard::Blocked,
        Event::Unblocked => Heard::Unblocked,
        Event::CloseRequested { text: why, .. } => Heard::Refused(text(why.as_bytes())),
        Event::CloseOk => return Step::Nothing,
        Event::Method { channel, method } => match method {
            Method::BasicAck(ack) => Heard::Confirm(channel, ack.delivery_tag, ack.multiple, true),
            Method::BasicNack(nack) => Heard::Confirm(channel, nack.delivery_tag, nack.multiple, false),
            Method::BasicCancel(cancel) => Heard::CancelledByBroker(channel, text(cancel.consumer_tag.as_bytes())),
            Method::QueueDeclareOk(ok) => Heard::Reply(channel, Reply::QueueDeclared(text(ok.queue.as_bytes()))),
            Method::QueuePurgeOk(_) => Heard::Reply(channel, Reply::Purged),
            Method::BasicConsumeOk(ok) => Heard::Reply(channel, Reply::Consuming(text(ok.consumer_tag.as_bytes()))),
            Method::BasicCancelOk(ok) => Heard::Reply(channel, Reply::Cancelled(text(ok.consumer_tag.as_bytes()))),
            Method::BasicGetEmpty(_) => Heard::Reply(channel, Reply::Empty),
            other => Heard::Reply(channel, Reply::Other(other.name())),
        },
        Event::Secure { .. }
        | Event::Publish { .. }
        | Event::Login { .. }
        | Event::LoginResponse { .. }
        | Event::Tuned(_)
        | Event::Open { .. } => Heard::Refused("an event that no client hears".into()),
    })
}
