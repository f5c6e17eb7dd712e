//! A server for the client's tests: the project's own session in the server's role, on one blocking thread.
//!
//! Enters: a client's connection.  Leaves: every published message back to the connection's consumer, confirms, and
//!         what a routing key asks for: `close-channel`, `close-connection`, `return`, `cancel`, `nack`, `hang-up`.
//! Owns:   its listener, one connection at a time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use session::{
    Body, BodyOut, Capabilities, DeliverHead, Event, Greeting, Inbound, Outbound, ProtocolFault, ReturnHead,
    SessionLimits,
};
use slab::{Pool, PoolOptions};
use wire::method::{basic, confirm, queue};
use wire::{ChannelNumber, DeliveryTag, Method, ReplyCode, ShortStr, Table, Value};

const TAG: ShortStr<'static> = ShortStr::literal("consumer-1");

/// Starts a server for one connection; the answer is its URL and its thread.
pub fn start() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("amqp://guest:guest@{}/%2F", listener.local_addr().expect("an address"));
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        ScriptedPeer::new(stream).serve();
    });
    (url, thread)
}

struct ScriptedPeer {
    stream: TcpStream,
    inbound: Inbound,
    answers: PeerReplies,
}

/// The sending side, apart from the receiving one that events borrow from.
struct PeerReplies {
    outbound: Outbound,
    pool: Pool,
    published: u64,
    confirming: bool,
    delivered: u64,
    hang_up: bool,
}

/// What only the receiving half can do, after the event that asks for it.
enum PeerReaction {
    Nothing,
    Accept,
    Open,
    Fail(ProtocolFault),
}

impl ScriptedPeer {
    fn new(stream: TcpStream) -> Self {
        let capabilities = Capabilities::PUBLISHER_CONFIRMS.with(Capabilities::BASIC_NACK).to_table();
        let properties = Table::new().with("capabilities", Value::Table(capabilities)).expect("a short name");
        let limits = SessionLimits { frame_bytes_max: 8_192, ..SessionLimits::default() };
        Self {
            stream,
            inbound: Inbound::server(&limits, Arc::new(Greeting::new(&properties, "PLAIN"))),
            answers: PeerReplies {
                outbound: Outbound::new(),
                pool: Pool::new(PoolOptions::default()),
                published: 0,
                confirming: false,
                delivered: 0,
                hang_up: false,
            },
        }
    }

    fn serve(mut self) {
        let mut unread = Vec::new();
        let mut chunk = vec![0; 64 << 10];
        loop {
            let direct = self.inbound.direct();
            let n = if direct.is_empty() {
                let n = self.stream.read(&mut chunk).unwrap_or(0);
                unread.extend_from_slice(&chunk[..n]);
                n
            } else {
                let n = self.stream.read(direct).unwrap_or(0);
                self.inbound.direct_filled(n);
                n
            };
            if n == 0 {
                return;
            }
            self.take(&mut unread);
            while !self.answers.outbound.is_empty() {
                let next = self.answers.outbound.gather_mut(&self.answers.pool);
                for part in next.parts() {
                    if self.stream.write_all(part).is_err() {
                        return;
                    }
                }
                next.clear();
            }
            if self.answers.hang_up || self.inbound.is_done() {
                return;
            }
        }
    }

    fn take(&mut self, unread: &mut Vec<u8>) {
        let mut at = 0;
        loop {
            let mut input = &unread[at..];
            let before = input.len();
            let pool = self.answers.pool.clone();
            let then = match self.inbound.next(&mut input, &mut self.answers.outbound, &pool) {
                Ok(Some(event)) => self.answers.answer(event),
                Ok(None) => {
                    at += before - input.len();
                    break;
                }
                Err(fault) => PeerReaction::Fail(fault),
            };
            at += before - input.len();
            let out = &mut self.answers.outbound;
            match then {
                PeerReaction::Nothing => {}
                PeerReaction::Accept => self.inbound.login_accepted(out, &pool),
                PeerReaction::Open => self.inbound.open_accepted(out, &pool),
                PeerReaction::Fail(fault) => _ = self.inbound.fail(&fault, out, &pool),
            }
        }
        unread.drain(..at);
    }
}

impl PeerReplies {
    fn answer(&mut self, event: Event<'_>) -> PeerReaction {
        match event {
            Event::Login { response, .. } if response.ends_with(b"guest") => PeerReaction::Accept,
            Event::Login { .. } => PeerReaction::Fail(ProtocolFault::new(
                ReplyCode::AccessRefused,
                ChannelNumber::CONNECTION,
                (10, 11),
                "no",
            )),
            Event::Open { .. } => PeerReaction::Open,
            Event::Publish { channel, exchange, routing_key, mandatory: _, immediate: _, properties, body } => {
                self.published += 1;
                let key = String::from_utf8_lossy(routing_key).into_owned();
                let share = match &body {
                    Body::Small(bytes) => BodyOut::Copy(bytes),
                    Body::Large(slice) => BodyOut::Share(slice),
                };
                let (out, pool) = (&mut self.outbound, &self.pool);
                match key.as_str() {
                    "close-channel" => {
                        return PeerReaction::Fail(ProtocolFault::new(
                            ReplyCode::NotFound,
                            channel,
                            (60, 40),
                            "no exchange",
                        ));
                    }
                    "close-connection" => {
                        return PeerReaction::Fail(ProtocolFault::new(
                            ReplyCode::InternalError,
                            ChannelNumber::CONNECTION,
                            (60, 40),
                            "it broke",
                        ));
                    }
                    "hang-up" => self.hang_up = true,
                    "return" => {
                        let head = ReturnHead { code: ReplyCode::NoRoute, text: b"NO_ROUTE", exchange, routing_key };
                        out.return_(pool, channel, &head, properties.as_bytes(), share);
                    }
                    "cancel" => out.method(pool, channel, &basic::Cancel { consumer_tag: TAG, no_wait: true }.into()),
                    "nack" => {
                        out.method(
                            pool,
                            channel,
                            &basic::Nack { delivery_tag: DeliveryTag(self.published), multiple: false, requeue: false }
                                .into(),
                        );
                        return PeerReaction::Nothing;
                    }
                    _ => {
                        self.delivered += 1;
                        let head = DeliverHead {
                            consumer_tag: &TAG,
                            delivery_tag: DeliveryTag(self.delivered),
                            redelivered: false,
                            exchange,
                            routing_key,
                        };
                        out.deliver(pool, channel, &head, properties.as_bytes(), share);
                    }
                }
                if self.confirming {
                    self.outbound.ack(&self.pool, channel, DeliveryTag(self.published), false);
                }
                PeerReaction::Nothing
            }
            Event::Method { channel, method } => {
                let answer: Option<Method<'_>> = match method {
                    Method::QueueDeclare(declare) if declare.passive => {
                        return PeerReaction::Fail(ProtocolFault::new(
                            ReplyCode::NotFound,
                            channel,
                            (50, 10),
                            "no queue",
                        ));
                    }
                    Method::QueueDeclare(_) => {
                        let queue = ShortStr::literal("amq.gen-1");
                        Some(queue::DeclareOk { queue, message_count: 3, consumer_count: 1 }.into())
                    }
                    Method::BasicConsume(_) => Some(basic::ConsumeOk { consumer_tag: TAG }.into()),
                    Method::BasicGet(_) => Some(basic::GetEmpty {}.into()),
                    Method::BasicQos(_) => Some(basic::QosOk {}.into()),
                    Method::ConfirmSelect(_) => {
                        self.confirming = true;
                        Some(confirm::SelectOk {}.into())
                    }
                    _ => None,
                };
                if let Some(answer) = answer {
                    self.outbound.method(&self.pool, channel, &answer);
                }
                PeerReaction::Nothing
            }
            _ => PeerReaction::Nothing,
        }
    }
}
