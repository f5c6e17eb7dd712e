//! A client's end of a connection: a session in the client's role on a simulated link.

use crate::limits::SCRATCH_BYTES;
use link::sim::{SimConnection, SimLink, SimSide};
use link::{Link, ReceiveOutcome, SendOutcome};
use session::{BodyOut, Capabilities, Event, Inbound, Outbound, PublishHead, SessionLimits};
use slab::Pool;
use std::time::{Duration, Instant};
use wire::{ChannelNumber, Method, ShortStr, Table, Value, method};

/// Why a connection is blocked while a disk is full.
const DISK_REASON: &[u8] = b"low on disk";

/// A message as the client received it.
#[derive(Debug, Hash)]
pub struct ReceivedMessage {
    /// Delivery tag; zero for a return.
    pub tag: u64,
    /// The broker flagged it as delivered before.
    pub redelivered: bool,
    pub exchange: Vec<u8>,
    pub routing_key: Vec<u8>,
    /// In wire form.
    pub properties: Vec<u8>,
    pub body: Vec<u8>,
}

/// What a client receives from its broker, or learns about its connection.
#[derive(Debug, Hash)]
pub enum ClientEvent {
    /// The connection is open.
    Opened,
    ChannelOpened(ChannelNumber),
    /// The broker closed a channel.
    ChannelRefused(ChannelNumber, String),
    ChannelClosed(ChannelNumber),
    /// A delivery for a consumer.
    Deliver(ChannelNumber, String, ReceivedMessage),
    /// An answer to `basic.get`.
    Got(ChannelNumber, ReceivedMessage),
    /// A returned message.
    Returned(ChannelNumber, ReceivedMessage),
    /// A publisher confirm: its tag, whether it covers all tags up to that, and whether it is positive.
    Confirm(ChannelNumber, u64, bool, bool),
    /// The broker cancelled a consumer.
    CancelledByBroker(ChannelNumber, String),
    /// The answer to a request.
    Reply(ChannelNumber, BrokerReply),
    /// `connection.blocked`.
    Blocked,
    /// `connection.unblocked`.
    Unblocked,
    /// The broker closes the connection.
    Refused(String),
    /// The connection is over.
    Over,
    /// `connection.blocked` because a disk is full.
    BlockedByDisk,
}

/// The answer to a request.
#[derive(Debug, Hash)]
pub enum BrokerReply {
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

/// A client's end of a connection.
pub struct ClientConnection {
    link: Option<SimLink>,
    cable: SimConnection,
    inbound: Inbound,
    /// What it has not sent.
    pub out: Outbound,
    unparsed: Vec<u8>,
    readable: bool,
    blocked: bool,
    /// Bytes that it has read.
    pub received_bytes: u64,
    /// It does not read.
    pub paused: bool,
    limits: SessionLimits,
    heartbeat: Option<Duration>,
    sent_at: Instant,
}

enum SessionAction {
    LogIn,
    Tune(method::connection::Tune),
    Report(ClientEvent),
    Nothing,
}

impl ClientConnection {
    /// A connection that begins to log in.
    pub fn new(link: SimLink, cable: SimConnection, limits: SessionLimits, pool: &Pool, now: Instant) -> Self {
        let mut out = Outbound::new();
        out.protocol_header(pool);
        ClientConnection {
            link: Some(link),
            cable,
            inbound: Inbound::client(&limits),
            out,
            unparsed: Vec::new(),
            readable: true,
            blocked: false,
            received_bytes: 0,
            paused: false,
            limits,
            heartbeat: None,
            sent_at: now,
        }
    }

    /// Opens a channel and returns its number.
    pub fn open_channel(&mut self, pool: &Pool) -> Option<ChannelNumber> {
        self.inbound.open_channel(&mut self.out, pool)
    }

    pub fn close_channel(&mut self, channel: ChannelNumber, pool: &Pool) {
        self.inbound.close_channel(channel, 200, "bye", &mut self.out, pool);
    }

    pub fn close(&mut self, pool: &Pool) {
        self.inbound.close(200, "bye", &mut self.out, pool);
    }

    pub fn send_method(&mut self, channel: ChannelNumber, method: Method<'_>, pool: &Pool) {
        self.out.method(pool, channel, &method);
    }

    #[expect(clippy::too_many_arguments, reason = "a message, spelled out")]
    pub fn publish(
        &mut self,
        channel: ChannelNumber,
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

    pub fn drop_link(&mut self) {
        self.link = None;
        self.out.clear();
    }

    /// Sends what it can and, unless paused, reads what is there. Returns whether anything moved.
    pub fn pump(&mut self, pool: &Pool, scratch: &mut [u8], now: Instant, events: &mut Vec<ClientEvent>) -> bool {
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
        moved |= self.flush(pool, now, events);
        if self.readable && !self.paused {
            moved |= self.read(pool, scratch, events);
            moved |= self.flush(pool, now, events);
        }
        if self.inbound.is_done() && self.out.is_empty() && self.link.is_some() {
            self.link = None;
            events.push(ClientEvent::Over);
        }
        moved
    }

    fn flush(&mut self, pool: &Pool, now: Instant, events: &mut Vec<ClientEvent>) -> bool {
        let Some(link) = self.link.as_mut() else { return false };
        if self.out.is_empty() || self.blocked {
            return false;
        }
        self.sent_at = now;
        match link.send(self.out.gather_mut(pool)) {
            Ok(SendOutcome::Drained) => {}
            Ok(SendOutcome::Blocked) => self.blocked = true,
            // What can still be read is read first; then the end is reported.
            Err(_) => {
                self.out.clear();
                self.readable = true;
                if self.paused {
                    self.link = None;
                    events.push(ClientEvent::Over);
                }
            }
        }
        true
    }

    fn read(&mut self, pool: &Pool, scratch: &mut [u8], events: &mut Vec<ClientEvent>) -> bool {
        let Some(link) = self.link.as_mut() else { return false };
        assert!(scratch.len() >= SCRATCH_BYTES);
        let mut have = self.unparsed.len();
        scratch[..have].copy_from_slice(&self.unparsed);
        let wanted = self.inbound.scratch_bytes_wanted().min(scratch.len() - have);
        let direct_bytes = self.inbound.direct().len();
        match link.receive(self.inbound.direct(), &mut scratch[have..have + wanted]) {
            Ok(ReceiveOutcome::Bytes { bytes, drained }) => {
                self.received_bytes += bytes as u64;
                self.inbound.direct_filled(bytes.min(direct_bytes));
                have += bytes.saturating_sub(direct_bytes);
                self.readable = !drained;
            }
            Ok(ReceiveOutcome::Idle) => self.readable = false,
            Ok(ReceiveOutcome::Closed) | Err(_) => {
                self.link = None;
                events.push(ClientEvent::Over);
                return true;
            }
        }
        let mut input = &scratch[..have];
        loop {
            let action = match self.inbound.next(&mut input, &mut self.out, pool) {
                Ok(Some(event)) => action_of(event),
                Ok(None) => break,
                Err(fault) => SessionAction::Report(ClientEvent::Refused(format!("the client found a fault: {fault}"))),
            };
            match action {
                SessionAction::Nothing => {}
                SessionAction::Report(event) => events.push(event),
                SessionAction::LogIn => {
                    let capabilities = Capabilities::CONSUMER_CANCEL_NOTIFY.with(Capabilities::CONNECTION_BLOCKED);
                    let properties = Table::default()
                        .with("capabilities", Value::Table(capabilities.to_table()))
                        .expect("a short name")
                        .to_bytes();
                    let properties = wire::TableRef::new(&properties);
                    self.inbound.log_in("PLAIN", b"\0guest\0guest", properties, &mut self.out, pool);
                }
                SessionAction::Tune(tune) => {
                    let tuning = self.inbound.tune(&tune, &self.limits, &mut self.out, pool);
                    let seconds = u64::from(tuning.heartbeat_s);
                    self.heartbeat = (seconds > 0).then(|| Duration::from_secs(seconds));
                    self.inbound.open(ShortStr::literal("/"), &mut self.out, pool);
                }
            }
        }
        self.unparsed = input.to_vec();
        true
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What an event of the session means for the client, without borrowing.
fn action_of(event: Event<'_>) -> SessionAction {
    SessionAction::Report(match event {
        Event::Start(_) => return SessionAction::LogIn,
        Event::Tune(tune) => return SessionAction::Tune(tune),
        Event::OpenOk => ClientEvent::Opened,
        Event::ChannelOpened { channel } => ClientEvent::ChannelOpened(channel),
        Event::ChannelClosed { channel, text: why, .. } => ClientEvent::ChannelRefused(channel, text(why.as_bytes())),
        Event::ChannelCloseOk { channel } => ClientEvent::ChannelClosed(channel),
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
            let message = ReceivedMessage {
                tag: delivery_tag.0,
                redelivered,
                exchange: exchange.into(),
                routing_key: routing_key.into(),
                properties: properties.as_bytes().into(),
                body: body.bytes().into(),
            };
            ClientEvent::Deliver(channel, text(consumer_tag), message)
        }
        Event::GetOk { channel, delivery_tag, redelivered, exchange, routing_key, properties, body, .. } => {
            let message = ReceivedMessage {
                tag: delivery_tag.0,
                redelivered,
                exchange: exchange.into(),
                routing_key: routing_key.into(),
                properties: properties.as_bytes().into(),
                body: body.bytes().into(),
            };
            ClientEvent::Got(channel, message)
        }
        Event::Return { channel, exchange, routing_key, properties, body, .. } => {
            let message = ReceivedMessage {
                tag: 0,
                redelivered: false,
                exchange: exchange.into(),
                routing_key: routing_key.into(),
                properties: properties.as_bytes().into(),
                body: body.bytes().into(),
            };
            ClientEvent::Returned(channel, message)
        }
        Event::Blocked { reason } if reason.as_bytes() == DISK_REASON => ClientEvent::BlockedByDisk,
        Event::Blocked { .. } => ClientEvent::Blocked,
        Event::Unblocked => ClientEvent::Unblocked,
        Event::CloseRequested { text: why, .. } => ClientEvent::Refused(text(why.as_bytes())),
        Event::CloseOk => return SessionAction::Nothing,
        Event::Method { channel, method } => match method {
            Method::BasicAck(ack) => ClientEvent::Confirm(channel, ack.delivery_tag.0, ack.multiple, true),
            Method::BasicNack(nack) => ClientEvent::Confirm(channel, nack.delivery_tag.0, nack.multiple, false),
            Method::BasicCancel(cancel) => {
                ClientEvent::CancelledByBroker(channel, text(cancel.consumer_tag.as_bytes()))
            }
            Method::QueueDeclareOk(ok) => {
                ClientEvent::Reply(channel, BrokerReply::QueueDeclared(text(ok.queue.as_bytes())))
            }
            Method::QueuePurgeOk(_) => ClientEvent::Reply(channel, BrokerReply::Purged),
            Method::BasicConsumeOk(ok) => {
                ClientEvent::Reply(channel, BrokerReply::Consuming(text(ok.consumer_tag.as_bytes())))
            }
            Method::BasicCancelOk(ok) => {
                ClientEvent::Reply(channel, BrokerReply::Cancelled(text(ok.consumer_tag.as_bytes())))
            }
            Method::BasicGetEmpty(_) => ClientEvent::Reply(channel, BrokerReply::Empty),
            other => ClientEvent::Reply(channel, BrokerReply::Other(other.name())),
        },
        Event::Secure { .. }
        | Event::Publish { .. }
        | Event::PublishRun { .. }
        | Event::PublishBegun { .. }
        | Event::Login { .. }
        | Event::LoginResponse { .. }
        | Event::Tuned(_)
        | Event::PassedOver { .. }
        | Event::Open { .. } => ClientEvent::Refused("an event that no client receives".into()),
    })
}
